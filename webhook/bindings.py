"""How many Pods were bound to each row of late, counted in slots of time. No I/O here."""

import numpy as np
import numpy.typing as npt

SLOT_S = 10.0
SLOTS = 60
LONGEST_S = SLOT_S * (SLOTS - 1)


class Bindings:
    """Counts by slot and row: a binding costs O(1), a count over a window one pass over its slots."""

    def __init__(self, rows: int = 64) -> None:
        self._counts = np.zeros((SLOTS, rows), np.uint16)
        self._slot = 0
        # By the number of slots of a window that was asked for; kept until the slot is over.
        self._sums: dict[int, npt.NDArray[np.int64]] = {}

    def add(self, row: int, now: float) -> None:
        if row >= self._counts.shape[1]:
            self._grow(row + 1)
        self._advance(now)
        self._counts[self._slot % SLOTS, row] += 1
        for sums in self._sums.values():
            sums[row] += 1

    def clear(self, row: int) -> None:
        """Forget a row whose node went away."""
        if row < self._counts.shape[1]:
            self._counts[:, row] = 0
            for sums in self._sums.values():
                sums[row] = 0

    def within(self, seconds: float, now: float, size: int) -> npt.NDArray[np.int64]:
        """Count the bindings of the last `seconds`, rounded up to slots of ten, shape (size,).

        Not to be written to.
        """
        self._advance(now)
        if size > self._counts.shape[1]:
            self._grow(size)
        number = int(-(-seconds // SLOT_S))
        sums = self._sums.get(number)
        if sums is None:
            slots = np.arange(self._slot - number + 1, self._slot + 1) % SLOTS
            sums = self._sums[number] = self._counts[slots].sum(axis=0, dtype=np.int64)
        return sums[:size]

    def _grow(self, rows: int) -> None:
        more = max(rows, 2 * self._counts.shape[1]) - self._counts.shape[1]
        self._counts = np.concatenate((self._counts, np.zeros((SLOTS, more), np.uint16)), axis=1)
        self._sums.clear()

    def _advance(self, now: float) -> None:
        slot = int(now // SLOT_S)
        if slot > self._slot:
            passed = np.arange(max(self._slot + 1, slot - SLOTS + 1), slot + 1) % SLOTS
            self._counts[passed] = 0
            self._sums.clear()
            self._slot = slot
