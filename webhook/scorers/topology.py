"""topology: near to the Pods that this one talks to, far from those it must not share a fate with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Label
from webhook.snapshot import Domains, FloatArray, IntArray

Cost = Annotated[float, Field(strict=True, ge=0, le=1e6)]


@dataclass(frozen=True, slots=True)
class Level(Arguments):
    """A label whose value two near nodes share, and how near that makes them, 0 to 100."""

    key: Annotated[Label, Field(min_length=1)]
    score: Annotated[float, Field(strict=True, ge=0, le=100)]


@dataclass(frozen=True, slots=True)
class Costs(Arguments):
    """What traffic between the domains of a label costs, by domain; either direction may be left out."""

    key: Annotated[Label, Field(min_length=1)] = "topology.kubernetes.io/zone"
    between: Mapping[str, Mapping[str, Cost]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not any(cost > 0 for row in self.between.values() for cost in row.values()):
            raise ValueError("expected at least one cost above 0")


DEFAULT_LEVELS = (
    Level("kubernetes.io/hostname", 100.0),
    Level("topology.kubernetes.io/zone", 50.0),
    Level("topology.kubernetes.io/region", 10.0),
)


@dataclass(frozen=True, slots=True)
class Topology(Arguments):
    """The mean nearness to the Pods that trimtab.dev/near selects, 100 less that for trimtab.dev/far.

    Both annotations are label selectors over the Pod's own namespace; a Pod with both gets the mean. The
    nearness of two nodes is the `score` of the first of the `levels`, inner to outer, whose label
    they share, 0 where they share none (the defaults: Fluid's 100, 50 and 10 for node, zone and region).
    With `costs` it is 100 x (1 - cost / the largest cost), costing 0 within a domain unless said otherwise;
    Pods in domains of unknown cost do not count. Neutral without such an annotation, and where no bound Pod
    is selected.
    """

    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=8)] = DEFAULT_LEVELS
    costs: Costs | None = None

    def __post_init__(self) -> None:
        scores = [level.score for level in self.levels]
        if scores != sorted(scores, reverse=True):
            raise ValueError("expected levels from inner to outer, with scores that do not rise")

    def score(self, nodes: View) -> FloatArray:
        wishes = nodes.demand.wishes
        scores: list[FloatArray] = []
        if wishes.near is not None:
            scores.append(self._nearness(nodes, nodes.matching(wishes.near)))
        if wishes.far is not None:
            scores.append(MAX_SCORE - self._nearness(nodes, nodes.matching(wishes.far)))
        if not scores:
            return np.full(nodes.size, np.nan)
        if len(scores) == 1:
            return scores[0]
        both: FloatArray = (scores[0] + scores[1]) / 2.0
        return np.where(np.isnan(both), np.fmax(scores[0], scores[1]), both)

    def _nearness(self, nodes: View, peers: IntArray) -> FloatArray:
        total = int(peers.sum())
        if total == 0:
            return np.full(nodes.size, np.nan)
        if self.costs is not None:
            return self._by_costs(self.costs, nodes, peers)
        nearness = np.zeros(nodes.size)
        inner = np.zeros(nodes.size)
        for level in self.levels:
            domains = nodes.nodes.domains(level.key)
            # A level's peers include the inner level's, whatever the labels say.
            shared = np.maximum(_by_domain(domains, peers)[domains.of], inner)
            nearness += level.score * (shared - inner)
            inner = shared
        return nearness / total

    def _by_costs(self, costs: Costs, nodes: View, peers: IntArray) -> FloatArray:
        domains, values = nodes.nodes.domains(costs.key), nodes.nodes.label_values(costs.key)
        counts = _by_domain(domains, peers)[:-1]
        matrix = np.array([[_cost(costs.between, one, other) for other in values] for one in values])
        matrix = matrix.reshape(len(values), len(values))
        known = ~np.isnan(matrix)
        reached = known @ counts
        spent = np.where(known, matrix, 0.0) @ counts
        mean = np.divide(spent, reached, out=np.full(reached.shape, np.nan), where=reached > 0)
        highest = max(cost for row in costs.between.values() for cost in row.values())
        nearness = np.append(MAX_SCORE * (1.0 - mean / highest), np.nan)
        by_row: FloatArray = nearness[domains.of]
        return by_row


def _by_domain(domains: Domains, peers: IntArray) -> FloatArray:
    """Count the peers in every domain, and 0 behind them for nodes in none, whose number is -1."""
    counts = np.bincount(domains.of + 1, weights=peers, minlength=domains.count + 1).astype(np.float64)
    counts[0] = 0.0
    return np.roll(counts, -1)


def _cost(between: Mapping[str, Mapping[str, float]], one: str, other: str) -> float:
    there = between.get(one, {}).get(other)
    back = between.get(other, {}).get(one)
    if there is None and back is None:
        return 0.0 if one == other else np.nan
    return there if there is not None else back if back is not None else np.nan
