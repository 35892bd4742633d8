"""How late a node's readings are, whatever its clock says. No I/O here."""

from dataclasses import dataclass

import numpy as np

# After this many readings, one of them was prompt.
_LEARNED_AFTER = 5
# A reading is no older than this where its clock agrees with ours.
_SAME_CLOCK_S = 60.0
# So much is forgotten of the least lag with every reading, so that a clock that was set back, or drifts, does
# not make every reading look late for ever.
_FORGET_S = 0.2
# A reading that seems this much later than the best one means that a clock was set.
_CLOCK_MOVED_S = 600.0


@dataclass(slots=True)
class Lag:
    """The least lag seen so far between a source's clock, as it stamps a node's readings, and ours."""

    least_lag: float = np.inf
    taken: int = 0

    def lateness(self, lag: float) -> float:
        """Return how many seconds ago a reading ended, `lag` being the difference of the two clocks.

        The least lag of a few readings is that of a prompt one, so what is beyond it is lateness, and a
        wrong clock or time zone does not matter. Before, clocks that seem to agree are taken to.
        """
        if lag - self.least_lag > _CLOCK_MOVED_S:
            self.least_lag, self.taken = np.inf, 0
        self.least_lag = min(self.least_lag + _FORGET_S, lag)
        self.taken += 1
        agree = self.taken < _LEARNED_AFTER and 0 <= self.least_lag <= _SAME_CLOCK_S
        return lag if agree else lag - self.least_lag
