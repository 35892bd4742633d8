"""Readings kept: a bounded ring for every row, and statistics of it in columns. No I/O here.

A statistic is asked for by a scorer and then kept up to date as readings arrive, so that a decision
reads a column. Its window ends at the row's last reading; whether that still counts is for the caller
to say. What too few readings cover is NaN: unknown, never a number.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

# Readings kept of a row. The longest window decides how far apart they have to be.
DEPTH = 64
LONGEST_S = 900.0

# Fewer readings than this, or ones that cover less than this share of the window, say nothing.
MIN_READINGS = 4
MIN_COVERED = 0.5

# Rows that are worked out together, by vector arithmetic.
BATCH = 256

# A policy asks for a few statistics; those of former policies make room.
MAX_COLUMNS = 32

Kind = Literal["mean", "deviation", "percentile", "max", "ewma", "trend"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """What to know of the readings of the last `window_s` seconds.

    `percent` is the percentile asked for, interpolated as PromQL's quantile_over_time does. `ewma` weighs
    every reading by half for each `window_s` of age. `trend` is the least-squares line, `ahead_s`
    seconds after the last reading. The deviation is that of the population, as stddev_over_time's.
    """

    kind: Kind
    window_s: float
    percent: float = 0.0
    ahead_s: float = 0.0


class History:
    """Rings of readings by row: CPU in milli-CPU, memory in bytes, times in seconds of one clock."""

    def __init__(self, rows: int = 0) -> None:
        self._values = np.full((rows, 2, DEPTH), np.nan, np.float32)
        self._times = np.full((rows, DEPTH), -np.inf)
        self._last = np.zeros(rows, np.int64)
        self._columns: dict[Statistic, FloatArray] = {}
        self._changed: set[int] = set()

    def push(self, row: int, resource: int, value: float, at: float) -> None:
        """Keep a reading of CPU (0) or memory (1), unless it follows the one before too soon to be kept.

        One for ever fresh, at an infinite time, has no history.
        """
        if not np.isfinite(at):
            return
        if row >= self._last.size:
            self._grow(row)
        slot = int(self._last[row])
        since = at - self._times[row, slot]
        if since != 0.0:
            if since < self._spacing():
                return
            slot = (slot + 1) % DEPTH
            self._last[row] = slot
            self._values[row, :, slot] = np.nan
            self._times[row, slot] = at
        self._values[row, resource, slot] = value
        self._changed.add(row)
        if len(self._changed) >= BATCH and self._columns:
            self._update()

    def clear(self, row: int) -> None:
        """Forget a row whose node went away."""
        if row < self._last.size:
            self._times[row] = -np.inf
            self._changed.add(row)

    def column(self, statistic: Statistic, size: int) -> FloatArray:
        """Return a statistic of every row, shape (2, size), in the units of the readings; NaN if unknown."""
        if size > self._last.size:
            self._grow(size - 1)
        known = self._columns.get(statistic)
        if known is None:
            if len(self._columns) == MAX_COLUMNS:
                del self._columns[next(iter(self._columns))]
            known = self._columns[statistic] = np.full((2, self._last.size), np.nan)
            self._changed.update(np.flatnonzero(np.isfinite(self._times).any(axis=1)).tolist())
        if self._changed:
            self._update()
        return self._columns[statistic][:, :size]

    def _spacing(self) -> float:
        return max((each.window_s for each in self._columns), default=LONGEST_S) / DEPTH

    def _update(self) -> None:
        rows = np.fromiter(self._changed, np.int64)
        self._changed.clear()
        for start in range(0, rows.size, BATCH):
            part = rows[start : start + BATCH]
            values, times = self._values[part].astype(np.float64), self._times[part]
            for statistic, column in self._columns.items():
                column[:, part] = compute(statistic, values, times).T

    def _grow(self, row: int) -> None:
        more = max(row + 1, 2 * self._last.size) - self._last.size
        self._values = np.concatenate((self._values, np.full((more, 2, DEPTH), np.nan, np.float32)))
        self._times = np.concatenate((self._times, np.full((more, DEPTH), -np.inf)))
        self._last = np.concatenate((self._last, np.zeros(more, np.int64)))
        for statistic, column in self._columns.items():
            self._columns[statistic] = np.concatenate((column, np.full((2, more), np.nan)), axis=1)


def compute(statistic: Statistic, values: FloatArray, times: FloatArray) -> FloatArray:
    """Return the statistic of rings in any order, shape (rows, 2).

    `values` (rows, 2, DEPTH) are NaN where nothing was read; `times` (rows, DEPTH) -inf where empty.
    """
    last = times.max(axis=1, keepdims=True)
    age = np.where(np.isfinite(times), np.where(np.isfinite(last), last, 0.0) - times, np.inf)[:, None, :]
    known = np.isfinite(age) & ~np.isnan(values)
    if statistic.kind != "ewma":
        known &= age <= statistic.window_s
    count = known.sum(axis=-1)
    covered = np.where(known, age, 0.0).max(axis=-1)
    enough = (count >= MIN_READINGS) & (covered >= MIN_COVERED * statistic.window_s)
    values = np.where(known, values, 0.0)
    count = np.maximum(count, 1)
    match statistic.kind:
        case "mean":
            result = values.sum(axis=-1) / count
        case "deviation":
            result = np.sqrt((_centred(values, known, count) ** 2).sum(axis=-1) / count)
        case "max":
            result = values.max(axis=-1)
        case "percentile":
            result = _percentile(values, known, count, statistic.percent / 100.0)
        case "ewma":
            weights = np.where(known, np.exp2(-age / statistic.window_s), 0.0)
            result = (weights * values).sum(axis=-1) / np.maximum(weights.sum(axis=-1), np.finfo(float).tiny)
        case _:
            result = _trend(values, np.where(known, -age, 0.0), known, count, statistic.ahead_s)
    return np.where(enough, result, np.nan)


def _centred(values: FloatArray, known: npt.NDArray[np.bool_], count: npt.NDArray[np.int64]) -> FloatArray:
    mean = values.sum(axis=-1) / count
    return np.where(known, values - mean[..., None], 0.0)


def _percentile(
    values: FloatArray, known: npt.NDArray[np.bool_], count: npt.NDArray[np.int64], share: float
) -> FloatArray:
    ordered = np.sort(np.where(known, values, np.inf), axis=-1)
    rank = share * (count - 1)
    low = np.floor(rank).astype(np.int64)
    high = np.minimum(low + 1, count - 1)
    below = np.take_along_axis(ordered, low[..., None], axis=-1)[..., 0]
    above = np.take_along_axis(ordered, high[..., None], axis=-1)[..., 0]
    # An empty ring is all infinite; the caller drops it.
    with np.errstate(invalid="ignore"):
        return np.where(high == low, below, below + (above - below) * (rank - low))


def _trend(
    values: FloatArray,
    moments: FloatArray,
    known: npt.NDArray[np.bool_],
    count: npt.NDArray[np.int64],
    ahead_s: float,
) -> FloatArray:
    times = _centred(moments, known, count)
    spread = (times**2).sum(axis=-1)
    slope = (times * values).sum(axis=-1) / np.where(spread > 0.0, spread, 1.0)
    middle = moments.sum(axis=-1) / count
    ahead: FloatArray = values.sum(axis=-1) / count + slope * (ahead_s - middle)
    return np.maximum(ahead, 0.0)
