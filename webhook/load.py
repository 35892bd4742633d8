"""What each node is expected to carry: readings, the ledger, and what stands in for a missing reading.

No I/O here.
"""

from dataclasses import dataclass

import numpy as np

from webhook.snapshot import FloatArray, Mask, Snapshot


@dataclass(frozen=True, slots=True)
class View:
    """One decision's view of the nodes: arrays of shape (2, size), CPU in milli-CPU, memory in bytes.

    `load` is the expected use and `requested` the requests of what is bound or in flight, both without
    the Pod being placed. `fresh` (size,) says which nodes' load comes from a reading.
    """

    allocatable: FloatArray
    load: FloatArray
    requested: FloatArray
    fresh: Mask

    def fraction(self, amounts: FloatArray) -> FloatArray:
        """Return amounts as fractions of allocatable; 1 where a node has none to give."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.allocatable > 0, amounts / self.allocatable, 1.0)


def view(nodes: Snapshot, now: float, stale_after: float) -> View:
    """Estimate the load of every node at `now`.

    A node with a fresh reading carries that, plus what the reading cannot show yet. One without is
    taken to use what its Pods request, and no less than the measured nodes use on average: missing
    data must not look like an idle node.
    """
    size = nodes.size
    allocatable = nodes.allocatable[:2, :size].astype(np.float64)
    requested = nodes.scored[:, :size].astype(np.float64)
    reserved = nodes.reserved[:, :size]
    fresh = nodes.fresh(now, stale_after)
    measured = nodes.used[:, :size] + nodes.unseen[:, :size]
    if fresh.all():
        load = measured
    else:
        load = np.where(
            fresh, measured, np.maximum(requested, allocatable * _mean(measured, allocatable, fresh))
        )
    return View(allocatable, load + reserved, requested + reserved, fresh)


def _mean(measured: FloatArray, allocatable: FloatArray, fresh: Mask) -> FloatArray:
    """Return the measured nodes' used fraction of each resource, shape (2, 1); 0 where none is fresh."""
    total = allocatable[:, fresh].sum(axis=1, keepdims=True)
    used = measured[:, fresh].sum(axis=1, keepdims=True)
    mean: FloatArray = np.divide(used, total, out=np.zeros_like(used), where=total > 0)
    return mean
