"""What each node is expected to carry: readings, the ledger, and what stands in for a missing reading.

No I/O here.
"""

from dataclasses import dataclass

import numpy as np

from webhook.ledger import Load
from webhook.snapshot import FloatArray, Mask, Snapshot


@dataclass(frozen=True, slots=True)
class View:
    """One decision's view of the nodes, the Pod placed on each: fractions of allocatable.

    `used` is the expected use and `requested` the requests, both of shape (2, size), CPU then memory;
    `fresh` (2, size) says of which nodes and resources the use comes from a reading.
    """

    used: FloatArray
    requested: FloatArray
    fresh: Mask


def view(nodes: Snapshot, pod: Load, now: float, stale_after: float) -> View:
    """Estimate what every node would carry with `pod` on it at `now`.

    A node with a fresh reading carries that, plus what the reading cannot show yet. One without is
    taken to use what its Pods request, and no less than the measured nodes use on average: missing
    data must not look like an idle node. Each resource is judged by its own readings.
    """
    size = nodes.size
    capacity, requested = nodes.capacity[:, :size], nodes.scored[:, :size]
    fresh = nodes.fresh(now, stale_after)
    load = nodes.used[:, :size] + nodes.unseen[:, :size]
    if not fresh.all():
        load = np.where(fresh, load, np.maximum(requested, capacity * _mean(load, capacity, fresh)))
    more = nodes.reserved[:, :size] + nodes.void[:, :size]
    more += np.array([[pod.cpu_milli], [pod.memory_bytes]])
    load += more
    load /= capacity
    more += requested
    more /= capacity
    return View(load, more, fresh)


def _mean(load: FloatArray, allocatable: FloatArray, fresh: Mask) -> FloatArray:
    """Return the measured nodes' used fraction of each resource, shape (2, 1); 0 where none is fresh."""
    total = np.sum(allocatable, axis=1, where=fresh, keepdims=True)
    used = np.sum(load, axis=1, where=fresh, keepdims=True)
    mean: FloatArray = np.divide(used, total, out=np.zeros_like(used), where=total > 0)
    return mean
