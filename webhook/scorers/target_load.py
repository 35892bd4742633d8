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
        used, target = self.used(nodes)[0], self.target
        # In percent, with U = 100 x used.
        below: FloatArray = MAX_SCORE * (MAX_SCORE - target) / target * used
        below += target
        above: FloatArray = -MAX_SCORE * target / (MAX_SCORE - target) * used
        above += MAX_SCORE * target / (MAX_SCORE - target)
        np.maximum(above, 0.0, out=above)
        return np.where(used <= target / MAX_SCORE, below, above)
