"""overcommit-risk: prefer the node least likely to have its Pods use more than they were promised."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from webhook import beta
from webhook.history import Statistic
from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Series, Window
from webhook.scorers.risk import deviation
from webhook.snapshot import FloatArray

# A steadier use than this, as a fraction of allocatable, is taken as this steady: the distribution of one
# that never moves is a step, and the terms of its series are without end.
STEADY = 0.005


class _Memo:
    """The load risks of the last decision, as most nodes do not change from one to the next."""

    def __init__(self) -> None:
        self.inputs: FloatArray = np.zeros((4, 2, 0))
        self.risks: FloatArray = np.zeros((2, 0))


@dataclass(frozen=True, slots=True)
class OvercommitRisk(Arguments):
    """Trimaran's LowRiskOverCommitment (pkg/trimaran/lowriskovercommitment).

    Per resource w x limit risk + (1 - w) x load risk, the larger of the two resources off 100. The limit
    risk is (limits - allocatable) / (limits - requests) of the node with the Pod where limits exceed
    allocatable; the load risk is the chance, by a beta distribution fitted to mean and deviation of use,
    that what runs uses more than it requests, given that it keeps within its limits.

    `smoothing` is by how many readings' length each reading is smoothed: the deviation grows by its root.
    The peer's default is 5, as it reads 5-minute means; ours is 1. A Pod without requests and limits
    leaves it neutral, and so does a node whose mean or deviation is not known.
    """

    limit_weight: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.5
    smoothing: Annotated[float, Field(strict=True, ge=1, le=100)] = 1.0
    window_seconds: Window = 900.0
    cpu_deviation_series: Series = ""
    memory_deviation_series: Series = ""
    _memo: _Memo = field(default_factory=_Memo, init=False, repr=False, compare=False)

    def score(self, nodes: View) -> FloatArray:
        requests, most = nodes.demand.requests, nodes.demand.limits
        pod = np.array([[requests.cpu_milli], [requests.memory_bytes]])
        limits = np.maximum(pod, [[most.cpu_milli], [most.memory_bytes]])
        if not limits.any():
            return np.full(nodes.size, np.nan)
        size, columns = nodes.size, nodes.nodes
        allocatable = columns.allocatable[:2, :size].astype(np.float64)
        capacity, flying = columns.capacity[:, :size], columns.reserved[:, :size]
        requested, limited = columns.requested[:2, :size], columns.limits[:, :size]
        risk = self.limit_weight * limit_risk(
            requested + flying + pod, limited + flying + limits, allocatable
        )
        if self.limit_weight < 1.0:
            risk += (1.0 - self.limit_weight) * self._load_risk(
                self._mean(nodes),
                deviation(
                    nodes, self.window_seconds, self.cpu_deviation_series, self.memory_deviation_series
                ),
                requested / capacity,
                limited / capacity,
            )
        score: FloatArray = MAX_SCORE * (1.0 - np.clip(np.maximum(risk[0], risk[1]), 0.0, 1.0))
        return score

    def _mean(self, nodes: View) -> FloatArray:
        """Return the mean use of what is bound, neither the Pod nor what is in flight, as a fraction."""
        used = nodes.statistic(Statistic("mean", self.window_seconds))
        capacity = nodes.nodes.capacity[:, : nodes.size]
        used = np.maximum(used, nodes.nodes.used[:, : nodes.size] / capacity)
        return used + nodes.nodes.unseen[:, : nodes.size] / capacity

    def _load_risk(
        self, mean: FloatArray, spread: FloatArray, requested: FloatArray, limited: FloatArray
    ) -> FloatArray:
        memo = self._memo
        # No input is below 0, so -1 can stand for one that is not known, and compares equal to itself.
        inputs = np.nan_to_num(np.stack([mean, spread, requested, limited]), nan=-1.0)
        if memo.inputs.shape != inputs.shape:
            memo.inputs, memo.risks = np.full_like(inputs, -2.0), np.full(mean.shape, np.nan)
        changed = np.flatnonzero((memo.inputs != inputs).any(axis=(0, 1)))
        if changed.size:
            memo.inputs[:, :, changed] = inputs[:, :, changed]
            memo.risks[:, changed] = load_risk(
                mean[:, changed],
                spread[:, changed] * np.sqrt(self.smoothing),
                requested[:, changed],
                limited[:, changed],
            )
        return memo.risks


def limit_risk(requests: FloatArray, limits: FloatArray, allocatable: FloatArray) -> FloatArray:
    over = limits > allocatable
    risk: FloatArray = np.divide(
        limits - allocatable, limits - requests, out=np.ones(limits.shape), where=over & (limits > requests)
    )
    return np.where(over, np.clip(risk, 0.0, 1.0), 0.0)


def load_risk(mean: FloatArray, spread: FloatArray, requested: FloatArray, limited: FloatArray) -> FloatArray:
    """Return the chance of use above the requests, all fractions of allocatable; NaN if not known."""
    mu = np.clip(mean, 0.0, 1.0)
    sigma = np.minimum(np.clip(spread, STEADY, 1.0), np.sqrt(0.99 * beta.max_variance(mu)))
    inside = (mu > 0.0) & (mu < 1.0)
    shape = np.divide(mu * (1.0 - mu), sigma**2, out=np.full(mu.shape, 2.0), where=inside & (sigma > 0)) - 1.0
    shape = np.maximum(shape, np.finfo(float).tiny)
    alpha, rest = np.where(inside, mu, 0.5) * shape, np.where(inside, 1.0 - mu, 0.5) * shape
    within = np.where(inside, beta.cdf(alpha, rest, np.clip(requested, 0.0, 1.0)), mu <= requested)
    bounded = (limited < 1.0) & (requested <= limited)
    if bounded.any():
        reached = np.where(inside & bounded, beta.cdf(alpha, rest, np.clip(limited, 0.0, 1.0)), 1.0)
        within = np.minimum(np.divide(within, reached, out=within, where=reached > 0.0), 1.0)
        within = np.where(bounded & (limited == 0.0), 1.0, within)
    return np.where(np.isnan(mean) | np.isnan(spread), np.nan, 1.0 - within)
