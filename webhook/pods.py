"""The bound Pods of a snapshot, for predicates to look up. No I/O here.

All Pods of a template share one `Shape`; of each Pod only its node's row and that shape are kept. Binding
and unbinding cost O(1); a look-up goes over the shapes, not over the Pods.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from webhook import kube, resize, selectors
from webhook.quantity import QuantityError
from webhook.selectors import Selector, SelectorError

# Ports that Pods open on their node: (IP, protocol, port).
HostPort = tuple[str, str, int]
# A Pod can carry thousands of terms; of a bound one no more requirements are read than this, and what is
# left out says nothing.
MAX_BOUND_REQUIREMENTS = 100

_NO_PORTS: frozenset[HostPort] = frozenset()
ANY_IP = "0.0.0.0"  # noqa: S104, the scheduler's DefaultBindAllHostIP, not an address to listen at


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A required term of Pod affinity or anti-affinity (kube-scheduler/framework: AffinityTerm).

    `selector` is None where it matches nothing, `namespace_selector` where there is none.
    """

    topology_key: str
    selector: Selector | None
    namespaces: frozenset[str]
    namespace_selector: Selector | None = None

    def covers(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tell whether Pods of the namespace, which has these labels, are meant."""
        return namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(labels)
        )

    def selects(self, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller that made a Pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What all Pods of one template have in common. `terminating` ones are being deleted."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    requests: kube.Requests
    limits: kube.Limits = kube.NO_LIMITS
    ports: frozenset[HostPort] = frozenset()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    owner: Owner | None = None
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """What is kept of a bound Pod: the row of its node, and its shape."""

    row: int
    shape: Shape


@dataclass(eq=False, slots=True)
class Group:
    """The bound Pods of one shape: how many there are by row."""

    shape: Shape
    labels: Mapping[str, str]
    rows: dict[int, int] = field(default_factory=dict)


# Where a term is looked for: a namespace that it names, and one label that it asks for; None for any.
_Place = tuple[str | None, tuple[str, str] | None]

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


class Pods:
    """Groups of bound Pods by namespace, by host port, and by what their anti-affinity keeps away."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Shape, Group]] = {}
        self._ports: _Index[tuple[str, int], str] = _Index()
        self._terms: _Index[_Place, AffinityTerm] = _Index()

    @property
    def namespaces(self) -> Collection[str]:
        """Return the namespaces that have bound Pods."""
        return self._groups.keys()

    def select(self, namespaces: Iterable[str], selector: Selector) -> list[Group]:
        """Return the groups of distinct namespaces that `selector` matches."""
        found = [group for name in namespaces for group in self._groups.get(name, {}).values()]
        for requirement in selector.requirements:
            found = [group for group in found if requirement.matches(group.labels)]
        return found

    def with_port(self, port: HostPort) -> Iterator[Group]:
        """Yield the groups that use a host port which `port` is in conflict with (HostPortInfo)."""
        ip, protocol, number = port
        by_ip = self._ports.at((protocol, number))
        for used in by_ip if ip == ANY_IP else {ANY_IP, ip}:
            yield from by_ip.get(used, ())

    def keeping_away(
        self, namespace: str, namespace_labels: Mapping[str, str], labels: Mapping[str, str]
    ) -> Iterator[tuple[str, Group]]:
        """Yield, by topology key, the groups whose anti-affinity is against a Pod with these labels."""
        if not self._terms:
            return
        for named in (namespace, None):
            for label in (*labels.items(), None):
                for term, groups in self._terms.at((named, label)).items():
                    if term.covers(namespace, namespace_labels) and term.selects(labels):
                        for group in groups:
                            yield term.topology_key, group

    def add(self, row: int, shape: Shape) -> Bound:
        """Count a Pod on a row; return what to keep of it."""
        by_shape = self._groups.setdefault(shape.namespace, {})
        group = by_shape.get(shape)
        if group is None:
            group = by_shape[shape] = Group(shape, dict(shape.labels))
            for ip, protocol, number in shape.ports:
                self._ports.add((protocol, number), ip, group)
            for term in shape.anti_affinity:
                for place in _places(term):
                    self._terms.add(place, term, group)
        group.rows[row] = group.rows.get(row, 0) + 1
        return Bound(row, group.shape)

    def remove(self, bound: Bound) -> None:
        shape = bound.shape
        by_shape = self._groups[shape.namespace]
        group = by_shape[shape]
        group.rows[bound.row] -= 1
        if not group.rows[bound.row]:
            del group.rows[bound.row]
        if group.rows:
            return
        del by_shape[shape]
        if not by_shape:
            del self._groups[shape.namespace]
        for ip, protocol, number in shape.ports:
            self._ports.remove((protocol, number), ip, group)
        for term in shape.anti_affinity:
            for place in _places(term):
                self._terms.remove(place, term, group)


class _Index(Generic[_Key, _Item]):
    """Groups by item, and these by key; what is empty is dropped."""

    def __init__(self) -> None:
        self._items: dict[_Key, dict[_Item, set[Group]]] = {}

    def __bool__(self) -> bool:
        return bool(self._items)

    def at(self, key: _Key) -> Mapping[_Item, set[Group]]:
        return self._items.get(key, {})

    def add(self, key: _Key, item: _Item, group: Group) -> None:
        self._items.setdefault(key, {}).setdefault(item, set()).add(group)

    def remove(self, key: _Key, item: _Item, group: Group) -> None:
        items = self._items[key]
        items[item].remove(group)
        if not items[item]:
            del items[item]
            if not items:
                del self._items[key]


def _places(term: AffinityTerm) -> set[_Place]:
    """Return all places where a Pod that the term matches looks, one for each of its namespaces."""
    if term.selector is None:
        return set()
    asked = (
        (requirement.key, *requirement.values)
        for requirement in term.selector.requirements
        if requirement.operator == "In" and len(requirement.values) == 1
    )
    key_and_value = next(asked, None)
    label = None if key_and_value is None else (key_and_value[0], key_and_value[1])
    anywhere = set() if term.namespace_selector is None else {None}
    return {(namespace, label) for namespace in (*term.namespaces, *anywhere)}


# Reading


def read_shape(pod: kube.Pod) -> Shape:
    """Return the shape of a bound Pod; raise QuantityError on a bad request.

    What else cannot be read of it is left out: it says nothing about other Pods then.
    """
    metadata, spec = pod.metadata, pod.spec
    namespace = metadata.namespace or ""
    try:
        limits = kube.read_limits(spec)
    except QuantityError:
        limits = kube.NO_LIMITS
    terms, room = [], MAX_BOUND_REQUIREMENTS
    for term in required_terms(spec.affinity.pod_anti_affinity if spec.affinity else None):
        room -= size(term)
        if room < 0:
            break
        terms.append(term)
    return Shape(
        namespace=namespace,
        labels=tuple(sorted((metadata.labels or {}).items())),
        requests=kube.read_requests(resize.in_effect(pod)),
        limits=limits,
        ports=host_ports(spec),
        # Its own labels were merged in when it was created, and may be others by now.
        anti_affinity=read_terms(terms, namespace, {}),
        owner=_owner(metadata),
        terminating=metadata.deletion_timestamp is not None,
    )


def required_terms(affinity: kube.PodAffinity | None) -> Sequence[kube.PodAffinityTerm]:
    return (affinity.required if affinity else None) or ()


def size(term: kube.PodAffinityTerm | kube.TopologySpreadConstraint) -> int:
    """Count what a term asks of other Pods: its requirements, 1 at least."""
    selector = term.label_selector or kube.LabelSelector()
    count = len(selector.match_labels or ()) + len(selector.match_expressions or ())
    count += len(term.match_label_keys or ())
    if isinstance(term, kube.PodAffinityTerm):
        namespaces = term.namespace_selector or kube.LabelSelector()
        count += len(namespaces.match_labels or ()) + len(namespaces.match_expressions or ())
        count += len(term.mismatch_label_keys or ())
    return max(1, count)


def read_terms(
    terms: Sequence[kube.PodAffinityTerm], namespace: str, labels: Mapping[str, str]
) -> tuple[AffinityTerm, ...]:
    """Return the terms of a Pod in `namespace`, without those that the API server refuses.

    `labels` are those that matchLabelKeys and mismatchLabelKeys are still to be read from.
    """
    found = []
    for term in terms:
        try:
            selector = selectors.read(
                term.label_selector, labels, term.match_label_keys or (), term.mismatch_label_keys or ()
            )
            by_label = selectors.read(term.namespace_selector)
        except SelectorError:
            continue
        named = frozenset(term.namespaces or ())
        if not named and by_label is None:
            named = frozenset((namespace,))
        found.append(AffinityTerm(term.topology_key or "", selector, named, by_label))
    return tuple(dict.fromkeys(found))


def host_ports(spec: kube.PodSpec) -> frozenset[HostPort]:
    """Return the ports that a Pod opens on its node while it runs (scheduler/util: GetHostPorts)."""
    running = list(spec.containers or ())
    running += [container for container in spec.init_containers or () if container.restart_policy == "Always"]
    found = [
        (port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)
        for container in running
        if container.ports
        for port in container.ports
        if port.host_port is not None and port.host_port > 0
    ]
    return frozenset(found) if found else _NO_PORTS


def _owner(metadata: kube.Metadata) -> Owner | None:
    reference = kube.controller(metadata)
    return None if reference is None else Owner(reference.kind, reference.name, reference.uid)
