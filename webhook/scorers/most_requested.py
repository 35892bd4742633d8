"""most-requested: prefer the node with the largest share of its capacity requested, to empty others."""

from dataclasses import dataclass

import numpy as np

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class MostRequested(Arguments):
    """The scheduler's MostAllocated (noderesources/most_allocated.go), CPU and memory alike.

    Mean over resources of 100 x (requested + pod) / allocatable, 100 where over-requested.
    """

    def score(self, nodes: View) -> FloatArray:
        score: FloatArray = MAX_SCORE / 2.0 * np.minimum(nodes.requested, 1.0).sum(axis=0)
        return score
