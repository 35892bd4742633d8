"""The snapshot: columns over nodes, updated in place, one row a node name. No I/O here.

One event costs O(1); one decision is vector work over the rows. A row belongs to a node *name* for as
long as a Node object or a bound Pod uses it, so Pods may arrive before their node and a node may be
re-created under its old name. Times are the caller's monotonic clock, in seconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from webhook import kube
from webhook.bindings import Bindings
from webhook.columns import Columns
from webhook.history import History
from webhook.measured import Measured
from webhook.pods import Bound, Pods, Shape
from webhook.volumes import Volumes

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Rows of the resource columns that every cluster has; extended resources follow as they appear.
CPU, MEMORY, EPHEMERAL, PODS = range(4)
_FIXED = (kube.CPU, kube.MEMORY, kube.EPHEMERAL, kube.PODS)

# A cluster has a handful of extended resources; a Pod that is bound by its author can invent any number.
MAX_RESOURCES = 64

# A reading above this many times the allocatable amount is a slip of units, not a use; and so is one below
# this part of it but for zero: bytes told as mebibytes or larger, or as a fraction.
PLAUSIBLE = 4.0
LEAST = 2.0**-18

# What a new row holds, where that is not zero.
_BLANK = {"changed_at": -np.inf, "capacity": 1.0, "void": 1.0}

# virtual-kubelet says of its nodes that they are none; kwok's documentation labels its own like this.
_VIRTUAL_TYPES = ("virtual-kubelet", "kwok")
_VIRTUAL_TAINT = "virtual-kubelet.io/provider"

Taints = frozenset[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Domains:
    """The domains of a topology key: by row the number of the label's value, -1 where it is absent."""

    of: IntArray
    count: int

    def holding(self, rows: Iterable[int]) -> Mask:
        """Rows that share a domain with one of `rows`."""
        # One more than there are domains: what has none counts there, and is cleared.
        hit = np.zeros(self.count + 1, np.bool_)
        hit[self.of[np.fromiter(rows, np.int64)]] = True
        hit[-1] = False
        mask: Mask = hit[self.of]
        return mask


class State(IntEnum):
    """What is known of a node's use of one resource, from best to worst; only FRESH contributes a number.

    VIRTUAL is a node without any reading that says it is not a machine, so that none is to be expected.
    """

    FRESH = 0
    VIRTUAL = 1
    STALE = 2
    MISSING = 3
    INVALID = 4


@dataclass(slots=True)
class Series:
    """Numbers of one name, by row, with the time at which each was last told."""

    values: FloatArray
    told_at: FloatArray


class Snapshot:
    """Columns over `size` rows; every array is longer than that, so read them through `[:size]`.

    Shapes: `allocatable`, `requested` (resources, rows) int64; `scored` (2, rows) int64, requests with
    the scheduler's scoring defaults; `limits` (2, rows) int64, of each Pod no less than its requests; `used`,
    `unseen`, `reserved` (2, rows) float64. CPU in milli-CPU, memory in bytes. `used` means nothing where
    `fresh()` is false. `changed_at` and `invalid` (2, rows) say of each resource when its reading last
    changed and whether it could be believed; `virtual` (rows) marks nodes of which none is to be expected.
    """

    def __init__(self, capacity: int = 64) -> None:
        self.size = 0
        self.count = 0
        self.names: list[str] = []
        self.hostnames: list[str | None] = []
        self.resources: dict[str, int] = {name: row for row, name in enumerate(_FIXED)}
        self.generation = 0
        self.labels_generation = 0
        self.taint_sets: dict[Taints, int] = {frozenset(): 0}
        self.label_index: dict[str, dict[str, set[int]]] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.pods = Pods()
        self.volumes = Volumes()
        self._domains: dict[str, Domains] = {}
        self._domains_of = (-1, -1)
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._labels: list[Mapping[str, str]] = []
        self._nodes: list[kube.Node | None] = []
        self.columns = Columns(self._nodes)
        self.history = History()
        self.bindings = Bindings()
        self._pods_on: list[int] = []
        self.allocatable: IntArray = np.zeros((len(_FIXED), capacity), np.int64)
        # For dividing by: allocatable CPU and memory, and where a node has none, 1 with 1 used of it.
        self.capacity: FloatArray = np.ones((2, capacity))
        self.void: FloatArray = np.ones((2, capacity))
        self.requested: IntArray = np.zeros((len(_FIXED), capacity), np.int64)
        self.scored: IntArray = np.zeros((2, capacity), np.int64)
        self.limits: IntArray = np.zeros((2, capacity), np.int64)
        self.used: FloatArray = np.zeros((2, capacity))
        self.unseen: FloatArray = np.zeros((2, capacity))
        self.reserved: FloatArray = np.zeros((2, capacity))
        self.exists: Mask = np.zeros(capacity, np.bool_)
        self.ready: Mask = np.zeros(capacity, np.bool_)
        self.unschedulable: Mask = np.zeros(capacity, np.bool_)
        self.nameable: Mask = np.zeros(capacity, np.bool_)
        self.virtual: Mask = np.zeros(capacity, np.bool_)
        self.invalid: Mask = np.zeros((2, capacity), np.bool_)
        self.taint_set: IntArray = np.zeros(capacity, np.int64)
        self.changed_at: FloatArray = np.full((2, capacity), -np.inf)
        self.series: dict[str, Series] = {}
        self._measured: Measured | None = None

    def row(self, name: str) -> int | None:
        """Return the row of a node name, or None where neither a Node nor a Pod ever named it."""
        return self._rows.get(name)

    def labels(self, row: int) -> Mapping[str, str]:
        return self._labels[row]

    def domains(self, key: str) -> Domains:
        """Return the domains of a topology key, kept until a label changes."""
        current = self.labels_generation, self.size
        if self._domains_of != current:
            self._domains.clear()
            self._domains_of = current
        known = self._domains.get(key)
        if known is not None:
            return known
        of = np.full(self.size, -1, np.int64)
        by_value = self.label_index.get(key, {})
        for number, rows in enumerate(by_value.values()):
            of[np.fromiter(rows, np.int64)] = number
        found = Domains(of, len(by_value))
        if by_value:
            # There is no end of keys that no node has.
            self._domains[key] = found
        return found

    def node(self, row: int) -> kube.Node | None:
        """Return the Node of a row; None where only bound Pods name it."""
        return self._nodes[row]

    def label_values(self, key: str) -> list[str]:
        """Return the values that the domains of a topology key stand for, in the order of their numbers."""
        return list(self.label_index.get(key, ()))

    def fresh(self, now: float, stale_after: float) -> Mask:
        """Tell per resource and row, shape (2, size), whether the reading may be used.

        It was valid, and last changed no longer than `stale_after` seconds ago. Not to be written to.
        """
        return self.measured(now, stale_after).fresh

    def measured(self, now: float, stale_after: float) -> Measured:
        """Return what the readings say; kept until a reading arrives, one goes stale or a node changes."""
        size, kept = self.size, self._measured
        if kept is not None and kept.holds(size, now, stale_after):
            return kept
        changed, capacity = self.changed_at[:, :size], self.capacity[:, :size]
        mask = changed >= now - stale_after
        mask &= ~self.invalid[:, :size]
        mask &= self.exists[:size]
        complete = bool((mask | ~self.exists[:size]).all())
        used = self.used[:, :size] / capacity
        mask.flags.writeable = used.flags.writeable = False
        until = float(changed.min(where=mask, initial=np.inf)) + stale_after
        self._measured = Measured(mask, complete, used, capacity, stale_after, now, until)
        return self._measured

    def state(self, row: int, now: float, stale_after: float) -> tuple[State, State]:
        """Return the state of a node's CPU and memory reading."""
        cpu, memory = self.state_codes(np.array([row]), now, stale_after)[:, 0]
        return State(cpu), State(memory)

    def states(self, now: float, stale_after: float) -> dict[str, int]:
        """Count the nodes by the state of their readings; `virtual` is there only where there is one.

        A node counts by the worse of its two resources. A resource of which no node ever had a reading
        is not what the sources tell, and does not count.
        """
        measured = self.measured(now, stale_after)
        if measured.states is None:
            measured.states = self._counted(measured.fresh, now, stale_after)
        return dict(measured.states)

    def _counted(self, fresh: Mask, now: float, stale_after: float) -> dict[str, int]:
        size = self.size
        told = (self.changed_at[:, :size] > -np.inf).any(axis=1)
        counts = slice(None) if told.all() or not told.any() else np.flatnonzero(told)
        whole = fresh[counts].all(axis=0)
        counted = [0] * len(State)
        rest = self.count - int(whole.sum())
        if rest:
            rows = np.flatnonzero(self.exists[:size] & ~whole)
            worst = self.state_codes(rows, now, stale_after)[counts].max(axis=0)
            counted = np.bincount(worst, minlength=len(State)).tolist()
        counted[State.FRESH] = self.count - rest
        shown = (State.FRESH, State.STALE, State.MISSING, State.INVALID)
        found = {state.name.lower(): counted[state] for state in shown}
        if counted[State.VIRTUAL]:
            found["virtual"] = counted[State.VIRTUAL]
        return found

    def state_codes(self, rows: IntArray, now: float, stale_after: float) -> IntArray:
        """Return the `State` of the CPU and memory reading of those rows' nodes, shape (2, rows)."""
        changed = self.changed_at[:, rows]
        states = np.where(changed >= now - stale_after, State.FRESH, State.STALE)
        unknown = np.where(self.virtual[rows], State.VIRTUAL, State.MISSING)
        states = np.where(np.isneginf(changed), unknown, states)
        return np.where(self.invalid[:, rows], State.INVALID, states)

    # Nodes

    def set_node(self, node: kube.Node) -> None:
        """Add or replace a Node; one equal to what is stored costs a comparison."""
        name = node.metadata.name or ""
        known = self._rows.get(name)
        stored = None if known is None else self._nodes[known]
        if known is not None and stored is not None and _same(stored, node):
            # Annotations and addresses are read from the Node itself.
            self._nodes[known] = node
            if stored.metadata.annotations != node.metadata.annotations:
                self.columns.set(known)
            return
        listed = (node.status.allocatable if node.status else None) or {}
        # Before anything changes: a bad quantity raises.
        amounts = {resource: kube.amount(resource, value) for resource, value in listed.items()}
        row = self._claim(name)
        self.generation += 1
        self._measured = None
        self._nodes[row] = node
        self.columns.set(row)
        if not self.exists[row]:
            self.exists[row] = True
            self.count += 1
        labels = node.metadata.labels or {}
        if labels != self._labels[row] or stored is None:
            self._relabel(row, labels)
        spec = node.spec or kube.NodeSpec()
        self.unschedulable[row] = bool(spec.unschedulable)
        self.ready[row] = kube.is_ready(node)
        self.taint_set[row] = self._taints(spec.taints or ())
        self.virtual[row] = labels.get("type") in _VIRTUAL_TYPES or any(
            taint.key == _VIRTUAL_TAINT for taint in spec.taints or ()
        )
        self._set_allocatable(row, amounts)

    def remove_node(self, name: str) -> None:
        row = self._rows.get(name)
        if row is None or not self.exists[row]:
            return
        self.generation += 1
        self._measured = None
        self._nodes[row] = None
        self.columns.set(row)
        self.history.clear(row)
        self.bindings.clear(row)
        self.exists[row] = False
        self.count -= 1
        self._relabel(row, {})
        self._set_allocatable(row, {})
        self.changed_at[:, row] = -np.inf
        self.invalid[:, row] = False
        for series in self.series.values():
            series.told_at[row] = -np.inf
        self._release(row)

    def node_names(self) -> list[str]:
        return [self.names[row] for row in np.flatnonzero(self.exists[: self.size])]

    # Bound Pods

    def bind(self, node_name: str, shape: Shape) -> Bound:
        """Count a bound Pod on its node; return what to keep of it."""
        row = self._claim(node_name)
        self._pods_on[row] += 1
        self._count(row, shape, 1)
        return self.pods.add(row, shape)

    def unbind(self, bound: Bound) -> None:
        self.pods.remove(bound)
        self._pods_on[bound.row] -= 1
        self._count(bound.row, bound.shape, -1)
        self._release(bound.row)

    # Usage

    def set_usage(self, row: int, cpu_milli: float, memory_bytes: float, changed_at: float) -> bool:
        """Store a changed reading of both resources; return whether both are valid."""
        cpu = self.set_reading(row, CPU, cpu_milli, changed_at)
        return self.set_reading(row, MEMORY, memory_bytes, changed_at) and cpu

    def set_reading(self, row: int, resource: int, value: float, changed_at: float) -> bool:
        """Store a changed reading of CPU or MEMORY; return whether it is valid.

        An invalid one contributes nothing until the next.
        """
        valid = self.is_plausible(row, resource, value)
        self.invalid[resource, row] = not valid
        if valid:
            self.used[resource, row] = value
            self.history.push(row, resource, value, changed_at)
        self.changed_at[resource, row] = changed_at
        self._measured = None
        return valid

    def is_plausible(self, row: int, resource: int, value: float) -> bool:
        """Tell whether a node can use that much: neither NaN, infinite nor negative, nor a slip of units."""
        allocatable = float(self.allocatable[resource, row])
        if not 0.0 <= value < np.inf:
            return False
        return not allocatable or value == 0.0 or LEAST * allocatable <= value <= PLAUSIBLE * allocatable

    # Numbers of the user's own

    def set_series(self, name: str, row: int, value: float, now: float) -> None:
        """Store a node's number of that name, as told at `now`; one that is not finite is none."""
        if not np.isfinite(value):
            return
        series = self.series.get(name)
        if series is None:
            rows = self.exists.shape[0]
            series = self.series[name] = Series(np.zeros(rows), np.full(rows, -np.inf))
        series.values[row] = value
        series.told_at[row] = now

    def series_values(self, name: str, now: float, stale_after: float) -> FloatArray:
        """Return the numbers of a name, shape (size,): NaN where none was told in the last `stale_after` s.

        Unlike a reading, a number that stays the same stays fresh for as long as it is told.
        """
        series = self.series.get(name)
        if series is None:
            return np.full(self.size, np.nan)
        told_at = series.told_at[: self.size]
        values: FloatArray = np.where(told_at >= now - stale_after, series.values[: self.size], np.nan)
        return values

    def keep_series(self, names: Iterable[str]) -> None:
        """Forget every series but those named."""
        kept = set(names)
        self.series = {name: series for name, series in self.series.items() if name in kept}

    # Rows

    def _claim(self, name: str) -> int:
        row = self._rows.get(name)
        if row is not None:
            return row
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.size
            if row == self.exists.shape[0]:
                self._grow()
            self.size += 1
            self.names.append(name)
            self.hostnames.append(None)
            self._labels.append({})
            self._nodes.append(None)
            self._pods_on.append(0)
        self._rows[name] = row
        return row

    def _release(self, row: int) -> None:
        if self.exists[row] or self._pods_on[row]:
            return
        # Pods may have been bound to it while there was no node.
        self.bindings.clear(row)
        del self._rows[self.names[row]]
        self._free.append(row)

    def _grow(self) -> None:
        for attribute, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                more = np.full_like(value, _BLANK.get(attribute, 0))
                setattr(self, attribute, np.concatenate((value, more), axis=-1))
        for series in self.series.values():
            blank = np.full_like(series.told_at, -np.inf)
            series.values = np.concatenate((series.values, np.zeros_like(series.values)))
            series.told_at = np.concatenate((series.told_at, blank))

    # Parts of a Node

    def _relabel(self, row: int, labels: Mapping[str, str]) -> None:
        for key, value in self._labels[row].items():
            values = self.label_index[key]
            values[value].discard(row)
            if not values[value]:
                del values[value]
                if not values:
                    del self.label_index[key]
        for key, value in labels.items():
            self.label_index.setdefault(key, {}).setdefault(value, set()).add(row)
        self._labels[row] = labels
        self.hostnames[row] = labels.get(kube.HOSTNAME) or None
        self.nameable[row] = self.hostnames[row] is not None
        self.labels_generation += 1

    def _taints(self, taints: Iterable[kube.Taint]) -> int:
        key = frozenset((taint.key, taint.value or "", taint.effect) for taint in taints)
        return self.taint_sets.setdefault(key, len(self.taint_sets))

    def _set_allocatable(self, row: int, allocatable: Mapping[str, int]) -> None:
        self.allocatable[:, row] = 0
        for resource, value in allocatable.items():
            column = self._column(resource)
            if column is not None:
                self.allocatable[column, row] = value
        self.void[:, row] = self.allocatable[:2, row] == 0
        self.capacity[:, row] = self.allocatable[:2, row] + self.void[:, row]

    def _column(self, resource: str) -> int | None:
        """Return the column of a resource, a new one for a new resource as long as there is room."""
        column = self.resources.get(resource)
        if column is not None or len(self.resources) == MAX_RESOURCES:
            return column
        column = self.resources[resource] = len(self.resources)
        blank = np.zeros((1, self.exists.shape[0]), np.int64)
        self.allocatable = np.concatenate((self.allocatable, blank))
        self.requested = np.concatenate((self.requested, blank))
        return column

    def _count(self, row: int, shape: Shape, sign: int) -> None:
        requests, limits = shape.requests, shape.limits
        column = self.requested[:, row]
        column[CPU] += sign * requests.cpu_milli
        column[MEMORY] += sign * requests.memory_bytes
        column[EPHEMERAL] += sign * requests.ephemeral_bytes
        column[PODS] += sign
        self.scored[0, row] += sign * requests.score_cpu_milli
        self.scored[1, row] += sign * requests.score_memory_bytes
        self.limits[0, row] += sign * max(limits.cpu_milli, requests.cpu_milli)
        self.limits[1, row] += sign * max(limits.memory_bytes, requests.memory_bytes)
        for resource, value in requests.extended:
            index = self._column(resource)
            if index is not None:
                self.requested[index, row] += sign * value


def _same(stored: kube.Node, node: kube.Node) -> bool:
    """Compare what placement reads, so that a kubelet's heartbeat costs nothing more."""
    return (
        stored.metadata.labels == node.metadata.labels
        and stored.spec == node.spec
        and kube.is_ready(stored) == kube.is_ready(node)
        and (stored.status and stored.status.allocatable) == (node.status and node.status.allocatable)
    )
