"""balance: prefer the node whose resources will be used in equal shares."""

from dataclasses import dataclass

import numpy as np

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Label, share
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Balance(Arguments):
    """The scheduler's BalancedAllocation (noderesources/balanced_allocation.go), on expected use.

    100 x (1 - the standard deviation of the used fractions); of two fractions that is half their distance.
    `resources` are extended resources, accelerators say, that count as a third fraction and so on, by what
    is requested of them: for a Pod that asks for one, on nodes that have it.
    """

    resources: tuple[Label, ...] = ()

    def score(self, nodes: View) -> FloatArray:
        more = [(name, value) for name, value in nodes.demand.requests.extended if name in self.resources]
        if not more:
            return balance_score(nodes.used[0], nodes.used[1])
        shares = [np.minimum(nodes.used[0], 1.0), np.minimum(nodes.used[1], 1.0)]
        has = [np.ones(nodes.size, np.bool_)] * 2
        for name, value in more:
            column = nodes.nodes.resources.get(name)
            if column is not None:
                allocatable = nodes.nodes.allocatable[column, : nodes.size].astype(np.float64)
                wanted = (nodes.nodes.requested[column, : nodes.size] + value).astype(np.float64)
                shares.append(np.minimum(share(wanted, allocatable), 1.0))
                has.append(allocatable > 0)
        score: FloatArray = MAX_SCORE * (1.0 - np.std(shares, axis=0, where=np.asarray(has)))
        return score


def balance_score(cpu: FloatArray, memory: FloatArray) -> FloatArray:
    distance: FloatArray = np.minimum(cpu, 1.0)
    distance -= np.minimum(memory, 1.0)
    np.abs(distance, out=distance)
    distance *= -MAX_SCORE / 2.0
    distance += MAX_SCORE
    return distance
