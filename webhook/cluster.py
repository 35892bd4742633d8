"""The cluster as seen so far: objects in, snapshot and ledger kept. No I/O, no awaiting here.

The event loop is the lock: an event is applied whole before any decision is made.
"""

from collections.abc import Hashable, Iterable

import numpy as np

from webhook import decision, filters, kube, planner
from webhook.batch import Batches
from webhook.expectation import Expectation, Expected
from webhook.expectation.learning import Learning
from webhook.expectation.owners import Owners
from webhook.ledger import Ledger, Load, Share
from webhook.peers import Peers, Turn
from webhook.pods import Bound, read_shape
from webhook.quantity import QuantityError
from webhook.snapshot import CPU, MEMORY, PLAUSIBLE, Snapshot
from webhook.usage.readings import Reading, Told, first_fresh

ENABLED = "enabled"
SHADOW = "shadow"
_LABEL = "trimtab.dev/steering"


class Cluster:
    """Nodes, Pods, Namespaces and PriorityClasses; `synced` once each kind was listed.

    `unknown` is how a namespace is taken that was not seen: in a cluster the API server's selector lets
    both `enabled` and `shadow` ones through, and only the latter is sure to be no surprise. `replica` names
    this process among several.
    """

    def __init__(self, *, unknown: str = ENABLED, replica: str = "") -> None:
        self._unknown = unknown
        self.nodes = Snapshot()
        self.ledger = Ledger(self.nodes)
        self.peers = Peers(replica)
        self.owners = Owners()
        self.learning = Learning(self.owners)
        self.expectation = Expectation(self.learning)
        # Namespaces that came to be steered while their Pods were running: nobody enrolled those yet.
        self.unenrolled: set[str] = set()
        self._most: tuple[float, float] | None = None
        self.batches = Batches(self.nodes, self.owners.outstanding)
        self.synced = False
        self.namespaces = self.nodes.namespaces
        self.priority_classes: dict[str, int] = {}
        self._bound: dict[str, Bound] = {}
        self._pending: set[str] = set()
        # By node name, then by the rank of the source.
        self._told: dict[str, dict[int, Told]] = {}
        self._several = False

    @property
    def pods(self) -> int:
        """Count the Pods that are bound."""
        return len(self._bound)

    def steering(self, namespace: str | None) -> str | None:
        """Return `enabled`, `shadow`, or None where the namespace has not asked for steering."""
        labels = self.namespaces.get(namespace or "")
        if labels is None:
            return self._unknown
        value = labels.get(_LABEL)
        return value if value in (ENABLED, SHADOW) else None

    def turn(self, wall: float) -> Turn | None:
        """Return this replica's turn among others; None while it need not mind them: nothing is in flight."""
        return self.peers.turn(wall) if self.ledger.in_flight else None

    # Namespaces and PriorityClasses

    def set_namespace(self, namespace: kube.Named) -> None:
        name = kube.name(namespace)
        # Until a namespace is known its Pods are enrolled.
        before = self.steering(name) if name in self.namespaces else ENABLED
        self.namespaces[name] = namespace.metadata.labels or {}
        steered = self.steering(name)
        if before and not steered:
            self.learning.drop(name)
            self.unenrolled.discard(name)
        elif steered and not before:
            self.unenrolled.add(name)

    def remove_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)
        self.unenrolled.discard(name)

    def replace_namespaces(self, namespaces: Iterable[kube.Named]) -> None:
        gone = set(self.namespaces)
        for namespace in namespaces:
            gone.discard(kube.name(namespace))
            self.set_namespace(namespace)
        for name in gone:
            self.remove_namespace(name)

    def set_priority_class(self, priority_class: kube.Named) -> None:
        self.priority_classes[kube.name(priority_class)] = priority_class.value or 0

    def remove_priority_class(self, name: str) -> None:
        self.priority_classes.pop(name, None)

    def replace_priority_classes(self, priority_classes: Iterable[kube.Named]) -> None:
        self.priority_classes.clear()
        for priority_class in priority_classes:
            self.set_priority_class(priority_class)

    # Nodes

    def set_node(self, node: kube.Node) -> None:
        self._most = None
        self.nodes.set_node(node)

    def remove_node(self, name: str) -> None:
        self._most = None
        row = self.nodes.row(name)
        if row is not None:
            self.ledger.forget_node(row)
            self.nodes.remove_node(name)
        self._told.pop(name, None)

    def replace_nodes(self, nodes: Iterable[kube.Node]) -> None:
        """Take a whole list: what it lacks is gone, even if no event ever said so."""
        gone = set(self.nodes.node_names())
        for node in nodes:
            gone.discard(kube.name(node))
            self.set_node(node)
        for name in gone:
            self.remove_node(name)

    # Pods

    def set_pod(self, pod: kube.Pod, now: float | None) -> None:
        """Add or update a Pod.

        `now` is None for one that may have run for long, so that readings are taken to cover it.
        """
        uid = kube.uid(pod)
        if kube.is_finished(pod):
            self.remove_pod(uid)
        elif pod.spec.node_name:
            self._bind(uid, pod, pod.spec.node_name, now)
            self._enroll(uid, pod, covered=now is None and not kube.is_waiting(pod))
        elif uid not in self._bound and uid not in self._pending:
            self._await_binding(uid, pod)
            self._enroll(uid, pod, covered=False)

    def enroll(self, namespace: str, pods: Iterable[kube.Pod]) -> None:
        """Learn also from the Pods of a namespace that ran in it before it was steered."""
        self.unenrolled.discard(namespace)
        for pod in pods:
            if (uid := kube.uid(pod)) in self._bound:
                self._enroll(uid, pod, covered=True)

    def _enroll(self, uid: str, pod: kube.Pod, *, covered: bool) -> None:
        if self.steering(pod.metadata.namespace):
            self.learning.join(uid, pod, covered=covered)

    def remove_pod(self, uid: str) -> None:
        self.learning.leave(uid)
        self._pending.discard(uid)
        self.ledger.release(uid)
        bound = self._bound.pop(uid, None)
        if bound is not None:
            self.ledger.forget(uid, bound.row)
            self.nodes.unbind(bound)

    def replace_pods(self, pods: Iterable[kube.Pod], now: float | None) -> None:
        gone = set(self._bound) | self._pending
        for pod in pods:
            gone.discard(kube.uid(pod))
            self.set_pod(pod, now)
        for uid in gone:
            self.remove_pod(uid)

    def _bind(self, uid: str, pod: kube.Pod, node_name: str, now: float | None) -> None:
        running = kube.is_running(pod)
        known = self._bound.get(uid)
        if known is not None:
            known = self._update(uid, known, pod, node_name)
            if running and now is not None:
                self.ledger.start(uid, known.row, now)
            return
        try:
            shape = read_shape(pod)
            expected = self.expected_load(pod)
        except QuantityError:
            return
        self._release_admission(pod)
        self._pending.discard(uid)
        self.ledger.release(uid)
        bound = self._bound[uid] = self.nodes.bind(node_name, shape)
        if now is not None:
            self.nodes.bindings.add(bound.row, now)
        if now is not None or kube.is_waiting(pod):
            started_at = now if running and now is not None else np.inf
            self.ledger.assume(uid, bound.row, expected, started_at)

    def _update(self, uid: str, known: Bound, pod: kube.Pod, node_name: str) -> Bound:
        """Count what a bound Pod is now: resized in place, with other labels, or terminating."""
        try:
            shape = read_shape(pod)
        except QuantityError:
            return known
        if shape == known.shape:
            return known
        changed = self._bound[uid] = self.nodes.bind(node_name, shape)
        self.nodes.unbind(known)
        self.learning.resize(uid, pod)
        return changed

    def _release_admission(self, pod: kube.Pod) -> None:
        """End the reservation made at admission, for a Pod that is first seen already bound."""
        known = decision.read(pod)
        if known is not None:
            self.ledger.settle(known.id)

    def _await_binding(self, uid: str, pod: kube.Pod) -> None:
        self._pending.add(uid)
        known = decision.read(pod)
        if known is None:
            return
        if self.ledger.adopt(known.id, uid):
            self.peers.saw(self.peers.own)
            return
        if self.steering(pod.metadata.namespace) != ENABLED or not decision.is_own_output(pod):
            return
        try:
            demand = filters.demand(pod)
            expected = self.expected_load(pod)
        except QuantityError:
            return
        self.peers.saw(known.replica)
        self.ledger.book(uid, expected, self._share_of(pod, demand))

    def _share_of(self, pod: kube.Pod, demand: filters.Demand) -> Share:
        """Say where a pending Pod may go by its own preferred terms, heaviest first.

        The terms are what the scheduler will act on; an annotation could be forged.
        """
        named = [
            term
            for term in kube.preferred_terms(pod.spec)
            if any(
                requirement.key == kube.HOSTNAME and requirement.operator == "In"
                for requirement in term.preference.match_expressions or ()
            )
        ]
        feasible = filters.feasible(demand, self.nodes)
        tiers = [
            np.flatnonzero(feasible & filters.match(term.preference, self.nodes))
            for term in sorted(named, key=lambda term: -term.weight)
        ]
        tiers = [rows for rows in tiers if rows.size]
        if not tiers:
            return Share.of((), ())
        sampled = planner.sampled_share(self.nodes.count, int(feasible.sum()), 0)
        rows, first = np.unique(np.concatenate(tiers), return_index=True)
        return Share(rows, planner.chances([rows.size for rows in tiers], sampled)[first])

    # Readings

    def set_usage(
        self,
        name: str,
        cpu_milli: float | None,
        memory_bytes: float | None,
        *,
        timestamp: float | None,
        window: float,
        now: float,
        wall: float,
        source: int = 0,
        told: Hashable = None,
        stale_after: float = np.inf,
    ) -> bool:
        """Take in a reading that its source stamped `timestamp`: a mean over `window` seconds until then.

        None stands for a resource of which nothing was told. `source` is the source's rank, 0 the first.
        Return whether it told something new. One that repeats the last `told` (by default the timestamp,
        or, where the source gives none, the values) changes nothing, so a source that stands still goes
        stale. `now` is our monotonic clock at receipt; `wall` our wall clock, in seconds of the epoch as
        the timestamp is.
        """
        row = self.nodes.row(name)
        if row is None or not self.nodes.exists[row]:
            return False
        self._several |= source > 0
        values = (cpu_milli, memory_bytes)
        if told is None:
            told = values if timestamp is None else timestamp
        late = None if timestamp is None else wall - timestamp
        sources = self._told.setdefault(name, {})
        known = sources.setdefault(source, Told())
        news = known.take(values, told, late=late, window=window, now=now)
        for resource in news:
            best = first_fresh(sources, self.nodes, row, resource, since=now - stale_after)
            self._show(row, resource, best or known.readings[resource])
        return bool(news)

    def settle_usage(self, now: float, stale_after: float) -> None:
        """Let lower sources stand in where the reading that counted has gone stale since."""
        if not self._several:
            return
        unknown = ~self.nodes.fresh(now, stale_after).all(axis=0)
        rows = np.flatnonzero(unknown & self.nodes.exists[: self.nodes.size])
        for row in rows.tolist():
            sources = self._told.get(self.nodes.names[row], {})
            for resource in (CPU, MEMORY):
                best = first_fresh(sources, self.nodes, row, resource, since=now - stale_after)
                if best is not None:
                    self._show(row, resource, best)

    def forget_sources(self) -> None:
        """Forget who told what, as the sources are other ones now; what was told counts until it is stale."""
        self._told.clear()
        self._several = False

    def _show(self, row: int, resource: int, reading: Reading) -> None:
        """Let a reading count; the ledger follows that of CPU, or of memory where no source tells CPU."""
        valid = self.nodes.set_reading(row, resource, reading.value, reading.changed_at)
        if valid and (resource == CPU or np.isneginf(self.nodes.changed_at[CPU, row])):
            self.ledger.cover(row, reading.ended_at, reading.window)

    def set_series(self, name: str, node: str, value: float, now: float) -> None:
        """Take in a node's number of that name."""
        row = self.nodes.row(node)
        if row is not None and self.nodes.exists[row]:
            self.nodes.set_series(name, row, value, now)

    def pin_usage(self, name: str, cpu_milli: float, memory_bytes: float) -> None:
        """Take in a reading that counts as fresh for as long as the process runs (embedded mode)."""
        row = self.nodes.row(name)
        if row is not None and self.nodes.exists[row]:
            self.nodes.set_usage(row, cpu_milli, memory_bytes, np.inf)

    # Expected use

    def expected(self, pod: kube.Pod, namespace: str | None = None) -> Expected:
        """Return what a Pod is expected to use, and why; raise QuantityError on bad requests or limits.

        `namespace` is for a Pod that does not say its own yet.
        """
        return self.expectation.expected(pod, namespace, self._largest())

    def _largest(self) -> tuple[float, float]:
        """Return the most milli-CPU and bytes that any node has; no bound where there is no node."""
        if self._most is None:
            largest = self.nodes.allocatable[:2, : self.nodes.size].max(axis=1, initial=0).tolist()
            self._most = float(largest[0]) or np.inf, float(largest[1]) or np.inf
        return self._most

    def expected_load(self, pod: kube.Pod) -> Load:
        """Return what a Pod is expected to use; raise QuantityError on bad requests or limits."""
        return self.expected(pod).load

    def set_pod_usage(
        self,
        namespace: str,
        name: str,
        cpu_milli: float | None,
        memory_bytes: float | None,
        *,
        timestamp: float | None,
        now: float,
    ) -> None:
        """Learn from a reading of a Pod; `timestamp` and `now` are as in `set_usage`.

        More than several times the largest node is a slip of units, and none.
        """
        most_cpu, most_memory = self._largest()
        if cpu_milli is not None and cpu_milli > PLAUSIBLE * most_cpu:
            cpu_milli = None
        if memory_bytes is not None and memory_bytes > PLAUSIBLE * most_memory:
            memory_bytes = None
        self.learning.observe(namespace, name, cpu_milli, memory_bytes, timestamp=timestamp, now=now)

    def pin_pod_usage(
        self, namespace: str, name: str, cpu_milli: float | None, memory_bytes: float | None
    ) -> None:
        """Take in a reading of a Pod that stands for as long as the process runs (embedded mode)."""
        self.learning.pin(namespace, name, cpu_milli, memory_bytes)
