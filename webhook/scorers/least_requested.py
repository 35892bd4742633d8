"""least-requested: prefer the node with the largest share of its capacity not requested."""

from dataclasses import dataclass

import numpy as np

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class LeastRequested(Arguments):
    """The scheduler's LeastAllocated (noderesources/least_allocated.go), CPU and memory alike.

    Mean over resources of 100 x (allocatable - requested - pod) / allocatable, 0 where over-requested.
    """

    def score(self, nodes: View) -> FloatArray:
        return least_requested_score(nodes.requested[0], nodes.requested[1])


def least_requested_score(cpu: FloatArray, memory: FloatArray) -> FloatArray:
    # Of each resource 1 - the requested share, and no less than 0.
    taken: FloatArray = np.minimum(cpu, 1.0)
    taken += np.minimum(memory, 1.0)
    taken *= -MAX_SCORE / 2.0
    taken += MAX_SCORE
    return taken
