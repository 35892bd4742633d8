"""balance: prefer the node whose CPU and memory will be used in equal shares."""

from dataclasses import dataclass

import numpy as np

from webhook.ledger import Load
from webhook.load import View
from webhook.scorers.base import MAX_SCORE
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Balance:
    """The scheduler's BalancedAllocation (noderesources/balanced_allocation.go), on expected use.

    100 x (1 - the standard deviation of the used fractions); of two fractions that is half their distance.
    """

    def score(self, pod: Load, nodes: View) -> FloatArray:
        used = nodes.fraction(nodes.load + np.array([[pod.cpu_milli], [pod.memory_bytes]]))
        return balance_score(used[0], used[1])


def balance_score(cpu: FloatArray, memory: FloatArray) -> FloatArray:
    distance = np.abs(np.minimum(cpu, 1.0) - np.minimum(memory, 1.0))
    score: FloatArray = MAX_SCORE * (1.0 - distance / 2.0)
    return score
