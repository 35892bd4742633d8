"""Kubernetes JSON to the few fields that placement needs. The only reader of its shape. No I/O here.

The structs are a typed subset of the API objects, decoded by msgspec: unknown fields are skipped and
never stored. `null` is taken as absent everywhere, as the API server does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from webhook import quantity

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL = "ephemeral-storage"
PODS = "pods"

# What the scheduler's scoring counts for a container that requests nothing
# (pkg/scheduler/util/pod_resources.go: DefaultMilliCPURequest, DefaultMemoryRequest).
DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024

# More than any node has; and thousands of Pods that ask for it still add up within the 64 bits of a column.
MAX_REQUEST = 2**50

Quantities = dict[str, str | int | float]


class Requirement(Struct, frozen=True, omit_defaults=True):
    key: str
    operator: str
    values: list[str] | None = None


class Term(Struct, frozen=True, rename="camel", omit_defaults=True):
    match_expressions: list[Requirement] | None = None
    match_fields: list[Requirement] | None = None


class PreferredTerm(Struct, frozen=True):
    weight: int
    preference: Term


class NodeSelector(Struct, frozen=True, rename="camel"):
    node_selector_terms: list[Term] | None = None


class NodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True, rename="camel"):
    node_affinity: NodeAffinity | None = None


class Toleration(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Resources(Struct, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(Struct, frozen=True, rename="camel"):
    resources: Resources | None = None
    restart_policy: str | None = None


class OwnerReference(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class Metadata(Struct, frozen=True, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class PodSpec(Struct, frozen=True, rename="camel"):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    scheduling_gates: list[dict[str, Any]] | None = None


class PodStatus(Struct, frozen=True):
    phase: str | None = None


class Pod(Struct, frozen=True):
    metadata: Metadata
    spec: PodSpec
    status: PodStatus | None = None


class Taint(Struct, frozen=True):
    key: str
    effect: str
    value: str | None = None


class Condition(Struct, frozen=True):
    type: str
    status: str


class NodeSpec(Struct, frozen=True):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Struct, frozen=True):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: list[Condition] | None = None


class Node(Struct, frozen=True):
    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Named(Struct, frozen=True):
    """A Namespace or a PriorityClass: what counts of them is in the metadata, or beside it."""

    metadata: Metadata
    value: int | None = None


class ConfigMap(Struct, frozen=True):
    metadata: Metadata
    data: dict[str, str] | None = None


class NodeMetrics(Struct, frozen=True):
    """A `metrics.k8s.io` reading: quantities over `window` that ended at `timestamp`."""

    metadata: Metadata
    usage: Quantities
    timestamp: str | None = None
    window: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a Pod is limited to, in milli-CPU and bytes; 0 where nothing limits it."""

    cpu_milli: int
    memory_bytes: int


NO_LIMITS = Limits(0, 0)


@dataclass(frozen=True, slots=True)
class Requests:
    """What a Pod asks of a node, in milli-CPU, bytes and counts, as the scheduler's Filter adds it up.

    `score_cpu_milli` and `score_memory_bytes` are what its Score adds up, with defaults for containers
    that request nothing. `limits` is how far beyond its requests it may go.
    """

    cpu_milli: int
    memory_bytes: int
    ephemeral_bytes: int
    extended: tuple[tuple[str, int], ...]
    score_cpu_milli: int
    score_memory_bytes: int
    limits: Limits = NO_LIMITS


def amount(resource: str, value: str | float) -> int:
    """Return a quantity of `resource` in its base unit; raise QuantityError on text that is none."""
    text = value if isinstance(value, str) else str(value)
    return quantity.milli(text) if resource == CPU else quantity.whole(text)


def read_requests(spec: PodSpec) -> Requests:
    """Add up a Pod's requests as k8s.io/component-helpers/resource.PodRequests does.

    Containers and native sidecars run together; every other init container runs alone beside the
    sidecars declared before it; Pod-level requests replace the sum for the resources they name;
    overhead comes on top. Raise QuantityError where a quantity is none or is negative.
    """
    plain = _total(spec, defaults=False)
    scoring = dict(plain) if _says_all(spec) else _total(spec, defaults=True)
    cpu, memory = plain.pop(CPU, 0), plain.pop(MEMORY, 0)
    ephemeral = plain.pop(EPHEMERAL, 0)
    return Requests(
        cpu_milli=cpu,
        memory_bytes=memory,
        ephemeral_bytes=ephemeral,
        extended=tuple((name, value) for name, value in sorted(plain.items()) if value),
        score_cpu_milli=scoring.get(CPU, 0),
        score_memory_bytes=scoring.get(MEMORY, 0),
        limits=read_limits(spec),
    )


def read_limits(spec: PodSpec) -> Limits:
    """Add up a Pod's limits as k8s.io/component-helpers/resource.PodLimits does.

    A container without a limit adds nothing, so less than the Pod may use. Raise QuantityError as
    `read_requests` does.
    """
    total: dict[str, int] = {}
    for container in spec.containers or ():
        _add(total, _amounts(container.resources.limits if container.resources else None))
    sidecars: dict[str, int] = {}
    for container in spec.init_containers or ():
        own = _amounts(container.resources.limits if container.resources else None)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
        else:
            _raise(total, {name: value + sidecars.get(name, 0) for name, value in own.items()})
    if spec.resources is not None:
        total |= _amounts(spec.resources.limits)
    _add(total, {name: value for name, value in _amounts(spec.overhead).items() if total.get(name)})
    return Limits(total.get(CPU, 0), total.get(MEMORY, 0)) if total else NO_LIMITS


def _total(spec: PodSpec, *, defaults: bool) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in spec.containers or ():
        _add(total, _container(container, defaults=defaults))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers or ():
        own = _container(container, defaults=defaults)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
        else:
            # What it does not name itself, the sidecars before it need; the total has that already.
            _raise(peak, {name: value + sidecars.get(name, 0) for name, value in own.items()})
    _raise(total, peak)
    if spec.resources is not None:
        total.update(
            (name, value)
            for name, value in _amounts(spec.resources.requests).items()
            if name in (CPU, MEMORY) or name.startswith("hugepages-")
        )
    _add(total, _amounts(spec.overhead))
    return total


def _says_all(spec: PodSpec) -> bool:
    """Tell whether every container requests both CPU and memory, so that no default applies."""
    for container in (spec.containers or []) + (spec.init_containers or []):
        requests = (container.resources.requests if container.resources else None) or {}
        if CPU not in requests or MEMORY not in requests:
            return False
    return True


def _container(container: Container, *, defaults: bool) -> dict[str, int]:
    requests = _amounts(container.resources.requests if container.resources else None)
    if defaults:
        requests.setdefault(CPU, DEFAULT_CPU_MILLI)
        requests.setdefault(MEMORY, DEFAULT_MEMORY_BYTES)
    return requests


def _amounts(requests: Quantities | None) -> dict[str, int]:
    result = {name: min(amount(name, value), MAX_REQUEST) for name, value in (requests or {}).items()}
    for name, value in result.items():
        if value < 0:
            raise quantity.QuantityError(f"{name}: expected a quantity of zero or more, found {value}")
    return result


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = min(total.get(name, 0) + value, MAX_REQUEST)


def _raise(total: dict[str, int], floor: Mapping[str, int]) -> None:
    for name, value in floor.items():
        total[name] = max(total.get(name, 0), value)


def preferred_terms(spec: PodSpec) -> list[PreferredTerm]:
    """Return the Pod's preferred node affinity terms, none where any level above them is absent."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return (affinity.preferred if affinity else None) or []


def required_terms(spec: PodSpec) -> list[Term] | None:
    """Return the Pod's required node affinity terms; None where it has no such requirement at all."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    return None if required is None else required.node_selector_terms or []


def name(item: Node | Named) -> str:
    """Return the object's name; the API server lets no object be without."""
    return item.metadata.name or ""


def uid(pod: Pod) -> str:
    """Return what tells a Pod from every other; a hand-made one without a uid goes by its name."""
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


def is_finished(pod: Pod) -> bool:
    """Tell whether the Pod has ended, so that the scheduler counts nothing of it any more."""
    return pod.status is not None and pod.status.phase in ("Succeeded", "Failed")


def is_running(pod: Pod) -> bool:
    """Tell whether a container of the Pod has started."""
    return pod.status is not None and pod.status.phase == "Running"


def is_waiting(pod: Pod) -> bool:
    """Tell whether the Pod is known to have no container started yet."""
    return pod.status is not None and pod.status.phase == "Pending"


def is_ready(node: Node) -> bool:
    """Tell whether the Node's Ready condition holds; a Node that has none is taken as ready."""
    for condition in (node.status.conditions if node.status else None) or ():
        if condition.type == "Ready":
            return condition.status == "True"
    return True


def decoder(kind: type[Any]) -> msgspec.json.Decoder[Any]:
    """Return a JSON decoder for one of the structs above."""
    return msgspec.json.Decoder(kind)
