"""target-load: pack nodes up to a CPU use that leaves room for peaks, and no further."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Measured
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class TargetLoad(Measured):
    """Trimaran's TargetLoadPacking (scheduler-plugins KEP-61), on expected CPU use U in percent, target T.

    (100 - T) x U / T + T up to the target, T x (100 - U) / (100 - T) above it, 0 above 100: T on an idle
    node, 100 at the target, down to about T right above it.
    """

    target: Annotated[float, Field(strict=True, gt=0, lt=100)] = 40.0

    def score(self, nodes: View) -> FloatArray:
        used = MAX_SCORE * self.used(nodes)[0]
        target = self.target
        below: FloatArray = (MAX_SCORE - target) / target * used + target
        above = np.maximum(target / (MAX_SCORE - target) * (MAX_SCORE - used), 0.0)
        return np.where(used <= target, below, above)
