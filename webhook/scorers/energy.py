"""energy: prefer the node that draws the least more power for this Pod."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Label, Number
from webhook.snapshot import FloatArray, Mask

# Costs that differ by less than this part of the highest are not blown up to the whole of 0 to 100.
APART = 0.01

Watts = Annotated[float, Field(strict=True, ge=0, le=1e6)]


@dataclass(frozen=True, slots=True)
class PowerModel(Arguments):
    """Watts of a node by its CPU use: from `idle` to `peak` along a line, or k0 + k1 x e^(k2 x use %)."""

    idle: Watts | None = None
    peak: Watts | None = None
    k0: Number | None = None
    k1: Number | None = None
    k2: Annotated[float, Field(strict=True, ge=-1, le=1)] | None = None

    def __post_init__(self) -> None:
        line = [value is not None for value in (self.idle, self.peak)]
        curve = [value is not None for value in (self.k0, self.k1, self.k2)]
        if not (all(line) and not any(curve)) and not (all(curve) and not any(line)):
            raise ValueError("expected idle and peak, or k0, k1 and k2")
        if self.rise(0.0, 1.0) < 0:
            raise ValueError("expected a power that does not fall as use grows")

    def rise(self, before: float, after: float) -> float:
        return float(self.marginal(np.array([before]), np.array([after]))[0])

    def marginal(self, before: FloatArray, after: FloatArray) -> FloatArray:
        """Return the watts that going from one used fraction to another costs."""
        if self.k1 is not None and self.k2 is not None:
            percent = 100.0 * self.k2
            cost: FloatArray = self.k1 * (np.exp(percent * after) - np.exp(percent * before))
            return cost
        return ((self.peak or 0.0) - (self.idle or 0.0)) * (after - before)


@dataclass(frozen=True, slots=True)
class Energy(Arguments):
    """Trimaran's Peaks (pkg/trimaran/peaks/peaks.go): 100 for the fewest marginal watts, 0 for the most.

    Linear between the two among the nodes that may be named; where all cost about the same, all are near
    100. The model is that of the node's class, the value of its label `label`, or `default`; a node with
    neither is not scored. A node that the Pod would take beyond its CPU gets 0, where the peer takes it
    for the cheapest.
    """

    label: Label = "node.kubernetes.io/instance-type"
    classes: Mapping[str, PowerModel] = field(default_factory=dict)
    default: PowerModel | None = None

    def __post_init__(self) -> None:
        if not self.classes and self.default is None:
            raise ValueError("expected a power model: classes, default or both")

    def score(self, nodes: View) -> FloatArray:
        after = nodes.used[0]
        return energy_score(self._watts(nodes, after - nodes.pod[0], after), after <= 1.0, nodes.known)

    def _watts(self, nodes: View, before: FloatArray, after: FloatArray) -> FloatArray:
        before, after = np.clip(before, 0.0, 1.0), np.minimum(after, 1.0)
        if not self.classes and self.default is not None:
            return self.default.marginal(before, after)
        # By domain of the label; the last is that of nodes without it.
        of = nodes.nodes.domains(self.label).of
        values = nodes.nodes.label_values(self.label)
        models = [*(self.classes.get(value, self.default) for value in values), self.default]
        watts = np.full(nodes.size, np.nan)
        for model in {id(model): model for model in models if model is not None}.values():
            rows = np.flatnonzero(np.array([each is model for each in models])[of])
            watts[rows] = model.marginal(before[rows], after[rows])
        return watts


def energy_score(watts: FloatArray, fits: Mask, known: Mask) -> FloatArray:
    """Return 100 for the lowest of `watts` over the rows that `known` and `fits` mark, 0 for the highest."""
    decides = watts[known & fits & ~np.isnan(watts)]
    if decides.size == 0:
        return np.where(fits | np.isnan(watts), np.nan, 0.0)
    low, high = decides.min(), decides.max()
    apart = max(high - low, APART * high)
    scores: FloatArray = np.full_like(watts, MAX_SCORE)
    if apart > 0:
        scores = np.clip(MAX_SCORE * (1.0 - (watts - low) / apart), 0.0, MAX_SCORE)
    scores[np.isnan(watts)] = np.nan
    scores[~fits & ~np.isnan(watts)] = 0.0
    return scores
