"""risk: prefer the node whose use is low and steady."""

from dataclasses import dataclass

import numpy as np

from webhook.history import Statistic
from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Series, Weight, Window
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Risk(Arguments):
    """Trimaran's LoadVariationRiskBalancing (pkg/trimaran/loadvariationriskbalancing/analysis.go).

    Per resource 100 x (1 - (mu + sigma) / 2) with mu the mean use and sigma = margin x
    deviation^(1/sensitivity), all fractions of allocatable within 0 and 1; the lower score of the
    resources whose deviation is known. Sensitivity 0 leaves the deviation out.

    The mean is no lower than the last reading, and includes what no reading shows yet (`View.level`);
    the peer's misses most of what was placed within its window. And where the peer takes a deviation
    that is not known as 0, this says nothing.
    """

    margin: Weight = 1.0
    sensitivity: Weight = 1.0
    window_seconds: Window = 900.0
    cpu_deviation_series: Series = ""
    memory_deviation_series: Series = ""

    def score(self, nodes: View) -> FloatArray:
        mean = nodes.level(Statistic("mean", self.window_seconds))
        spread = deviation(
            nodes, self.window_seconds, self.cpu_deviation_series, self.memory_deviation_series
        )
        scores = risk_score(mean, spread, self.margin, self.sensitivity)
        lower: FloatArray = np.fmin(scores[0], scores[1])
        return lower


def risk_score(mean: FloatArray, spread: FloatArray, margin: float, sensitivity: float) -> FloatArray:
    """Return the score of each resource, from fractions of allocatable, none below 0."""
    sigma = np.minimum(spread, 1.0)
    if sensitivity != 1.0:
        sigma = sigma ** (1.0 / sensitivity) if sensitivity else sigma * 0.0
    if margin != 1.0:
        sigma = np.minimum(margin * sigma, 1.0)
    sigma += np.minimum(mean, 1.0)
    sigma *= -MAX_SCORE / 2.0
    sigma += MAX_SCORE
    return sigma


def deviation(nodes: View, window_s: float, cpu_series: str, memory_series: str) -> FloatArray:
    """Return the standard deviation of use, shape (2, size): of the readings, or the user's own numbers.

    NaN where it is not known, or the use itself is not.
    """
    if cpu_series and memory_series:
        spread = np.empty((2, nodes.size))
    else:
        spread = nodes.statistic(Statistic("deviation", window_s))
        if cpu_series or memory_series:
            spread = spread.copy()
    for resource, name in enumerate((cpu_series, memory_series)):
        if name:
            spread[resource] = np.where(nodes.fresh[resource], nodes.shares(name), np.nan)
    return spread
