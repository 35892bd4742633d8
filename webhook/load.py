"""What each node is expected to carry: readings, the ledger, and what stands in for a missing reading.

No I/O here.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from webhook import kube
from webhook.filters import Demand
from webhook.history import Statistic
from webhook.ledger import Load
from webhook.selectors import Selector
from webhook.snapshot import PLAUSIBLE, FloatArray, IntArray, Mask, Snapshot

NO_DEMAND = Demand(kube.Requests(0, 0, 0, (), 0, 0))


@dataclass(frozen=True, eq=False)
class View:
    """One decision's view of the nodes, the Pod placed on each: fractions of allocatable.

    `used` is the expected use, `unseen` the part of it that comes on top of readings, and `requested` the
    requests, each of shape (2, size), CPU then memory; `fresh` (2, size) says which use comes from a reading.
    `candidates` (size,) are the nodes that may be named, once that is known. What few scorers need is worked
    out when the first asks for it.
    """

    used: FloatArray
    unseen: FloatArray
    requested: FloatArray
    fresh: Mask
    nodes: Snapshot
    demand: Demand
    expected: Load
    now: float
    stale_after: float
    candidates: Mask | None = None

    @property
    def size(self) -> int:
        return len(self.used[0])

    @cached_property
    def pod(self) -> FloatArray:
        """The Pod's expected use as a fraction of every node, shape (2, size)."""
        amounts = np.array([[self.expected.cpu_milli], [self.expected.memory_bytes]])
        share: FloatArray = amounts / self.nodes.capacity[:, : self.size]
        return share

    @cached_property
    def known(self) -> Mask:
        """The rows that decide what is best and worst: the candidates, or else all nodes there are."""
        return self.nodes.exists[: self.size] if self.candidates is None else self.candidates

    def statistic(self, wanted: Statistic) -> FloatArray:
        """Return a statistic of the readings, shape (2, size), not to be written to.

        It is NaN unless fresh and covered.
        """
        return self.nodes.measured(self.now, self.stale_after).statistic(wanted, self.nodes.history)

    def level(self, wanted: Statistic | None) -> FloatArray:
        """Return the expected use with a statistic of the readings in place of the last, shape (2, size).

        Never below the last reading: a window may reach back to before Pods that now run. The last
        reading alone counts where the statistic is not known.
        """
        if wanted is None:
            return self.used
        known = self.statistic(wanted) + self.unseen
        return np.fmax(self.used, known, out=known)

    def predicted(self, wanted: Statistic) -> FloatArray:
        """Return a trend of the readings with what they cannot show, shape (2, size); NaN if unknown."""
        trend = np.minimum(self.statistic(wanted), PLAUSIBLE)
        trend += self.unseen
        return trend

    def matching(self, selector: Selector) -> IntArray:
        """Count, by row, the bound Pods of the Pod's namespace that a label selector selects."""
        counts = np.zeros(self.size, np.int64)
        for group in self.nodes.pods.select((self.demand.namespace,), selector):
            rows = np.fromiter(group.rows, np.int64)
            counts[rows] += np.fromiter(group.rows.values(), np.int64)
        return counts

    def series(self, name: str) -> FloatArray:
        """Return the numbers of that name, shape (size,); NaN where there is none or it is stale."""
        return self.nodes.series_values(name, self.now, self.stale_after)

    def shares(self, name: str) -> FloatArray:
        """Return the numbers of that name that can be a use as a fraction of allocatable; NaN elsewhere."""
        numbers = self.series(name)
        return np.where((numbers >= 0.0) & (numbers <= PLAUSIBLE), numbers, np.nan)


def view(nodes: Snapshot, pod: Load, now: float, stale_after: float, demand: Demand = NO_DEMAND) -> View:
    """Estimate what every node would carry with `pod` on it at `now`.

    A node with a fresh reading carries that, plus what the reading cannot show yet. One without is
    taken to use what its Pods request, and no less than the measured nodes use on average: missing
    data must not look like an idle node. Each resource is judged by its own readings.
    """
    size = nodes.size
    capacity, measured = nodes.capacity[:, :size], nodes.measured(now, stale_after)
    ahead = nodes.reserved[:, :size] + nodes.void[:, :size]
    ahead += np.array([[pod.cpu_milli], [pod.memory_bytes]])
    unseen = nodes.unseen[:, :size] + ahead
    unseen /= capacity
    used = measured.used + unseen
    requested = nodes.scored[:, :size] + ahead
    requested /= capacity
    if not measured.complete:
        mean = _mean(nodes.used[:, :size] + nodes.unseen[:, :size], capacity, measured.fresh)
        ahead /= capacity
        ahead += mean
        used = np.where(measured.fresh, used, np.maximum(requested, ahead))
    return View(used, unseen, requested, measured.fresh, nodes, demand, pod, now, stale_after)


def _mean(load: FloatArray, allocatable: FloatArray, fresh: Mask) -> FloatArray:
    """Return the measured nodes' used fraction of each resource, shape (2, 1); 0 where none is fresh."""
    total = np.sum(allocatable, axis=1, where=fresh, keepdims=True)
    used = np.sum(load, axis=1, where=fresh, keepdims=True)
    mean: FloatArray = np.divide(used, total, out=np.zeros_like(used), where=total > 0)
    return mean
