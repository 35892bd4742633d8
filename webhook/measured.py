"""What the readings say of all nodes, kept until one of them changes or goes stale. No I/O here."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from webhook.history import MAX_COLUMNS, History, Statistic

FloatArray = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(eq=False, slots=True)
class Measured:
    """The readings at a time, and what follows from them alone. No array is to be written to.

    `fresh` (2, size) says which readings may be used, and `complete` whether those of every node may. `used`
    (2, size) are they as fractions of `capacity`, which mean nothing elsewhere. `states` counts the nodes by
    state, once that was asked for. All this holds from `since` `until` the first reading goes stale.
    """

    fresh: Mask
    complete: bool
    used: FloatArray
    capacity: FloatArray
    stale_after: float
    since: float
    until: float
    states: dict[str, int] | None = None
    _statistics: dict[Statistic, FloatArray] = field(default_factory=dict)

    def holds(self, size: int, now: float, stale_after: float) -> bool:
        return (
            self.since <= now <= self.until
            and self.stale_after == stale_after
            and self.fresh.shape[1] == size
        )

    def statistic(self, wanted: Statistic, history: History) -> FloatArray:
        """Return a statistic as a fraction of capacity, shape (2, size); NaN unless fresh and covered."""
        known = self._statistics.get(wanted)
        if known is None:
            if len(self._statistics) == MAX_COLUMNS:
                self._statistics.clear()
            known = history.column(wanted, self.fresh.shape[1]) / self.capacity
            known[~self.fresh] = np.nan
            known.flags.writeable = False
            self._statistics[wanted] = known
        return known
