"""Readings kept: a bounded ring for every row, and statistics of it in columns. No I/O here.

A statistic is asked for by a scorer and then kept up to date as readings arrive, so that a decision
reads a column. Its window ends at the row's last reading; whether that still counts is for the caller
to say. What too few readings cover is NaN: unknown, never a number.
"""

import math
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
BATCH = 64

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
        self._spacing = LONGEST_S / DEPTH

    def push(self, row: int, resource: int, value: float, at: float) -> None:
        """Keep a reading of CPU (0) or memory (1), unless it follows the one before too soon to be kept.

        One for ever fresh, at an infinite time, has no history.
        """
        if not math.isfinite(at):
            return
        if row >= self._last.size:
            self._grow(row)
        slot = int(self._last[row])
        since = at - float(self._times[row, slot])
        if since != 0.0:
            if since < self._spacing:
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
            self._spacing = max(LONGEST_S, *(each.window_s for each in self._columns)) / DEPTH
            self._changed.update(np.flatnonzero(np.isfinite(self._times).any(axis=1)).tolist())
        if self._changed:
            self._update()
        return self._columns[statistic][:, :size]

    def _update(self) -> None:
        rows = np.fromiter(self._changed, np.int64)
        self._changed.clear()
        for start in range(0, rows.size, BATCH):
            part = rows[start : start + BATCH]
            rings = Rings(self._values[part], self._times[part])
            for statistic, column in self._columns.items():
                column[:, part] = rings.compute(statistic).T

    def _grow(self, row: int) -> None:
        more = max(row + 1, 2 * self._last.size) - self._last.size
        self._values = np.concatenate((self._values, np.full((more, 2, DEPTH), np.nan, np.float32)))
        self._times = np.concatenate((self._times, np.full((more, DEPTH), -np.inf)))
        self._last = np.concatenate((self._last, np.zeros(more, np.int64)))
        for statistic, column in self._columns.items():
            self._columns[statistic] = np.concatenate((column, np.full((2, more), np.nan)), axis=1)


class Rings:
    """Some rings, their readings in any order, made ready for statistics.

    `values` (rows, 2, DEPTH) are NaN where nothing was read; `times` (rows, DEPTH) -inf where empty.
    """

    def __init__(self, values: npt.NDArray[np.float32], times: FloatArray) -> None:
        last = times.max(axis=1, keepdims=True)
        # An empty ring has no last reading, and an empty slot no age: both are as old as can be.
        self._age = np.where(np.isfinite(times), np.where(np.isfinite(last), last, 0.0) - times, np.inf)
        self._known = ~np.isnan(values) & np.isfinite(self._age)[:, None, :]
        self._values = np.where(self._known, values, 0.0).astype(np.float64)
        self._age[np.isinf(self._age)] = 0.0
        self._windows: dict[float, tuple[FloatArray, FloatArray, FloatArray]] = {}

    def compute(self, statistic: Statistic) -> FloatArray:
        """Return the statistic of every ring, shape (rows, 2)."""
        window = np.inf if statistic.kind == "ewma" else statistic.window_s
        inside, count, covered = self._inside(window)
        enough = (count >= MIN_READINGS) & (covered >= MIN_COVERED * statistic.window_s)
        count = np.maximum(count, 1.0)
        match statistic.kind:
            case "mean":
                result = _sum(self._values, inside) / count
            case "deviation":
                apart = self._centred(self._values, inside, count)
                result = np.sqrt(_sum(apart, apart) / count)
            case "max":
                result = (self._values * inside).max(axis=-1)
            case "percentile":
                result = self._percentile(inside, count, statistic.percent / 100.0)
            case "ewma":
                weights = inside * np.exp2(-self._age / statistic.window_s)[:, None, :]
                total = weights.sum(axis=-1)
                result = _sum(self._values, weights) / np.where(total > 0.0, total, 1.0)
            case _:
                result = self._trend(inside, count, statistic.ahead_s)
        return np.where(enough, result, np.nan)

    def _inside(self, window: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return 1 for each reading in the window, and how many they are and how far they reach back."""
        found = self._windows.get(window)
        if found is None:
            inside = (self._known & (self._age <= window)[:, None, :]).astype(np.float64)
            covered = (inside * self._age[:, None, :]).max(axis=-1)
            found = self._windows[window] = inside, inside.sum(axis=-1), covered
        return found

    @staticmethod
    def _centred(values: FloatArray, inside: FloatArray, count: FloatArray) -> FloatArray:
        apart: FloatArray = (values - (_sum(values, inside) / count)[..., None]) * inside
        return apart

    def _percentile(self, inside: FloatArray, count: FloatArray, share: float) -> FloatArray:
        # An empty ring holds zeros only; the caller drops it.
        ordered = np.sort(np.where(inside > 0.0, self._values, np.finfo(np.float64).max), axis=-1)
        rank = share * (count - 1.0)
        low = np.floor(rank).astype(np.int64)
        high = np.ceil(rank).astype(np.int64)
        below = np.take_along_axis(ordered, low[..., None], axis=-1)[..., 0]
        above = np.take_along_axis(ordered, high[..., None], axis=-1)[..., 0]
        result: FloatArray = below + (above - below) * (rank - low)
        return result

    def _trend(self, inside: FloatArray, count: FloatArray, ahead_s: float) -> FloatArray:
        moments = np.broadcast_to(-self._age[:, None, :], inside.shape)
        times = self._centred(moments, inside, count)
        spread = _sum(times, times)
        slope = _sum(times, self._values) / np.where(spread > 0.0, spread, 1.0)
        middle = _sum(moments, inside) / count
        ahead: FloatArray = _sum(self._values, inside) / count + slope * (ahead_s - middle)
        return np.maximum(ahead, 0.0)


def _sum(values: FloatArray, weights: FloatArray) -> FloatArray:
    total: FloatArray = np.einsum("rcd,rcd->rc", values, weights)
    return total
