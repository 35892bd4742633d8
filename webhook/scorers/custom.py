"""custom: the user's own number per node, which no other scorer knows."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Label, Number, Series
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Custom(Arguments):
    """100 x (number - min) / (max - min) within 0 and 100, or 100 less that where lower is better.

    The number is that of a named series (PromQL), a node label or a node annotation: the idea of
    scheduler-plugins' NodeMetadata (KEP-942) with bounds of its own, so that a node's score does not
    depend on the others. A node without a number is not scored.
    """

    series: Series = ""
    label: Label = ""
    annotation: Label = ""
    min: Number = 0.0
    max: Number = 100.0
    direction: Literal["higher", "lower"] = "higher"

    def __post_init__(self) -> None:
        if sum(map(bool, (self.series, self.label, self.annotation))) != 1:
            raise ValueError("expected exactly one of series, label and annotation")
        if not self.min < self.max:
            raise ValueError(f"expected min below max, found {self.min:g} and {self.max:g}")

    def score(self, nodes: View) -> FloatArray:
        share = (self._numbers(nodes) - self.min) / (self.max - self.min)
        scores: FloatArray = MAX_SCORE * np.clip(share, 0.0, 1.0)
        return scores if self.direction == "higher" else MAX_SCORE - scores

    def _numbers(self, nodes: View) -> FloatArray:
        if self.series:
            return nodes.series(self.series)
        if self.label:
            return nodes.nodes.columns.numbers("label", self.label)[: nodes.size]
        return nodes.nodes.columns.numbers("annotation", self.annotation)[: nodes.size]
