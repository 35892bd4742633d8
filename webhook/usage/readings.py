"""What each source last told of a node, and whose reading counts. No I/O here.

Sources are asked in the order of the policy. A resource's reading is taken from the first source whose own
reading of it is fresh, so a lower source never overrides a fresh higher one.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from webhook.snapshot import Snapshot
from webhook.usage.lateness import Lag


@dataclass(slots=True)
class Reading:
    """The last reading of one resource by one source.

    `told` is what must differ for a reading to be a new one; `changed_at` when one last was, and
    `ended_at` when its `window` of seconds ended, both by our monotonic clock.
    """

    told: Hashable = None
    value: float = np.nan
    changed_at: float = -np.inf
    ended_at: float = -np.inf
    window: float = 0.0


@dataclass(slots=True)
class Told:
    """What one source told of one node: a reading of CPU and one of memory, by one clock."""

    readings: tuple[Reading, Reading] = field(default_factory=lambda: (Reading(), Reading()))
    lag: Lag = field(default_factory=Lag)

    def take(
        self,
        values: tuple[float | None, float | None],
        told: Hashable,
        *,
        late: float | None,
        window: float,
        now: float,
    ) -> list[int]:
        """Take in values, CPU and memory; return the resources of which they are news.

        `late` is the difference between our wall clock and the source's stamp, None where it gave none.
        """
        news = [
            (resource, value)
            for resource, value in enumerate(values)
            if value is not None and self.readings[resource].told != told
        ]
        if not news:
            return []
        ended_at = now - (0.0 if late is None else self.lag.lateness(late))
        for resource, value in news:
            reading = self.readings[resource]
            reading.told, reading.value, reading.window = told, value, window
            reading.changed_at, reading.ended_at = now, ended_at
        return [resource for resource, _ in news]


def first_fresh(
    sources: dict[int, Told], nodes: Snapshot, row: int, resource: int, *, since: float
) -> Reading | None:
    """Return the reading of the first source that has a valid one which changed at `since` or later."""
    for rank in sorted(sources):
        reading = sources[rank].readings[resource]
        if reading.changed_at >= since and nodes.is_plausible(row, resource, reading.value):
            return reading
    return None
