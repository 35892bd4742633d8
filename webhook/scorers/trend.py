"""trend: prefer the node that will be used least some minutes from now."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from webhook.history import Statistic
from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Weight, Window
from webhook.scorers.utilization import weighted
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Trend(Arguments):
    """100 - used % in `minutes`, by the least-squares line through the readings of `windowSeconds`.

    That is PromQL's predict_linear from the last reading on, with the Pod and what no reading shows yet
    on top; a prediction is kept between 0 and what a node can plausibly use. It looks no further ahead
    than half the window behind it: a line through less says little.
    """

    cpu: Weight = 1.0
    memory: Weight = 0.0
    minutes: Annotated[float, Field(strict=True, ge=1, le=720)] = 15.0
    window_seconds: Window = 1800.0

    def __post_init__(self) -> None:
        if self.cpu + self.memory == 0:
            raise ValueError("expected cpu or memory above 0, found both 0")
        if self.minutes * 60.0 > self.window_seconds / 2.0:
            raise ValueError(
                f"expected minutes within half of windowSeconds, {self.window_seconds / 120:g},"
                f" found {self.minutes:g}"
            )

    def score(self, nodes: View) -> FloatArray:
        wanted = Statistic("trend", self.window_seconds, ahead_s=self.minutes * 60.0)
        cpu, memory = nodes.predicted(wanted)
        return np.maximum(MAX_SCORE - MAX_SCORE * weighted(cpu, memory, self.cpu, self.memory), 0.0)
