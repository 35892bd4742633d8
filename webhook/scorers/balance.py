"""balance: prefer the node whose CPU and memory will be used in equal shares."""

from dataclasses import dataclass

import numpy as np

from webhook.load import View
from webhook.scorers.base import MAX_SCORE
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Balance:
    """The scheduler's BalancedAllocation (noderesources/balanced_allocation.go), on expected use.

    100 x (1 - the standard deviation of the used fractions); of two fractions that is half their distance.
    """

    def score(self, nodes: View) -> FloatArray:
        return balance_score(nodes.used[0], nodes.used[1])


def balance_score(cpu: FloatArray, memory: FloatArray) -> FloatArray:
    distance = np.abs(np.minimum(cpu, 1.0) - np.minimum(memory, 1.0))
    score: FloatArray = MAX_SCORE * (1.0 - distance / 2.0)
    return score
