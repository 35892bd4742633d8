"""Kubernetes JSON to the few fields that placement needs. The only reader of its shape. No I/O here.

The structs are a typed subset of the API objects, decoded by msgspec: unknown fields are skipped and
never stored. `null` is taken as absent everywhere, as the API server does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from webhook import quantity

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL = "ephemeral-storage"
PODS = "pods"

# Koordinator's extended resources for reclaimed room: milli-CPU and bytes.
BATCH = {CPU: "kubernetes.io/batch-cpu", MEMORY: "kubernetes.io/batch-memory"}

# What the scheduler's scoring counts for a container that requests nothing
# (pkg/scheduler/util/pod_resources.go: DefaultMilliCPURequest, DefaultMemoryRequest).
SCORING_DEFAULTS = {CPU: 100, MEMORY: 200 * 1024 * 1024}

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


class LabelSelector(Struct, frozen=True, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Requirement] | None = None


class PodAffinityTerm(Struct, frozen=True, rename="camel"):
    topology_key: str | None = None
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class PodAffinity(Struct, frozen=True):
    """What `podAffinity` and `podAntiAffinity` require alike."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True, rename="camel"):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True, rename="camel"):
    max_skew: int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Resources(Struct, frozen=True):
    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(Struct, frozen=True, rename="camel"):
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")


class Container(Struct, frozen=True, rename="camel"):
    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None


class ClaimSource(Struct, frozen=True, rename="camel"):
    claim_name: str | None = None


class PodVolume(Struct, frozen=True, rename="camel"):
    persistent_volume_claim: ClaimSource | None = None


class OwnerReference(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Metadata(Struct, frozen=True, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    deletion_timestamp: str | None = None


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
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[PodVolume] | None = None
    scheduling_gates: list[dict[str, Any]] | None = None


class Condition(Struct, frozen=True):
    type: str
    status: str
    reason: str | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    name: str = ""
    resources: Resources | None = None
    allocated_resources: Quantities | None = None


class PodStatus(Struct, frozen=True, rename="camel"):
    phase: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: Resources | None = None
    allocated_resources: Quantities | None = None


class Pod(Struct, frozen=True):
    metadata: Metadata
    spec: PodSpec
    status: PodStatus | None = None


class Taint(Struct, frozen=True):
    key: str
    effect: str
    value: str | None = None


class NodeSpec(Struct, frozen=True):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class Address(Struct, frozen=True):
    type: str = ""
    address: str = ""


class NodeStatus(Struct, frozen=True):
    allocatable: Quantities | None = None
    capacity: Quantities | None = None
    conditions: list[Condition] | None = None
    addresses: list[Address] | None = None


class Node(Struct, frozen=True):
    metadata: Metadata
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Named(Struct, frozen=True):
    """A Namespace or a PriorityClass: what counts of them is in the metadata, or beside it."""

    metadata: Metadata
    value: int | None = None


class ClaimSpec(Struct, frozen=True, rename="camel"):
    volume_name: str | None = None


class PersistentVolumeClaim(Struct, frozen=True):
    metadata: Metadata
    spec: ClaimSpec | None = None


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class VolumeSpec(Struct, frozen=True, rename="camel"):
    """The node affinity, and the sources whose volumes a CSI driver serves since (csi-translation-lib)."""

    node_affinity: VolumeNodeAffinity | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    azure_disk: dict[str, Any] | None = None
    azure_file: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None
    vsphere_volume: dict[str, Any] | None = None


class PersistentVolume(Struct, frozen=True):
    metadata: Metadata
    spec: VolumeSpec | None = None


class ConfigMap(Struct, frozen=True):
    metadata: Metadata
    data: dict[str, str] | None = None


class NodeMetrics(Struct, frozen=True):
    """A `metrics.k8s.io` reading: quantities over `window` that ended at `timestamp`."""

    metadata: Metadata
    usage: Quantities
    timestamp: str | None = None
    window: str | None = None


class ContainerMetrics(Struct, frozen=True):
    usage: Quantities | None = None


class PodMetrics(Struct, frozen=True):
    """A `metrics.k8s.io` reading of a Pod's containers over `window` that ended at `timestamp`."""

    metadata: Metadata
    containers: list[ContainerMetrics] | None = None
    timestamp: str | None = None
    window: str | None = None


class ControllerSpec(Struct, frozen=True):
    replicas: int | None = None
    parallelism: int | None = None
    completions: int | None = None


class ControllerStatus(Struct, frozen=True, rename="camel"):
    active: int | None = None
    succeeded: int | None = None
    completion_time: str | None = None


class Controller(Struct, frozen=True):
    """A ReplicaSet, a StatefulSet or a Job: what Pods it wants, and who owns it."""

    metadata: Metadata
    spec: ControllerSpec | None = None
    status: ControllerStatus | None = None


@dataclass(frozen=True, slots=True)
class Requests:
    """What a Pod asks of a node, in milli-CPU, bytes and counts, as the scheduler's Filter adds it up.

    `score_cpu_milli` and `score_memory_bytes` are what its Score adds up, with defaults for containers
    that request nothing.
    """

    cpu_milli: int
    memory_bytes: int
    ephemeral_bytes: int
    extended: tuple[tuple[str, int], ...]
    score_cpu_milli: int
    score_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What a Pod is limited to, in milli-CPU and bytes; 0 where nothing limits it."""

    cpu_milli: int
    memory_bytes: int


NO_LIMITS = Limits(0, 0)


def amount(resource: str, value: str | float) -> int:
    """Return a quantity of `resource` in its base unit; raise QuantityError on text that is none."""
    text = value if isinstance(value, str) else str(value)
    return quantity.milli(text) if resource == CPU else quantity.whole(text)


def amount_text(resource: str, value: int) -> str:
    """Write an amount of `resource` in its base unit as a quantity for people to read."""
    if resource == CPU:
        return quantity.milli_text(value)
    in_bytes = resource in (MEMORY, EPHEMERAL) or resource.startswith("hugepages-")
    return quantity.bytes_text(value) if in_bytes else str(value)


def read_requests(spec: PodSpec) -> Requests:
    """Add up a Pod's requests as k8s.io/component-helpers/resource.PodRequests does.

    Containers and native sidecars run together; every other init container runs alone beside the
    sidecars declared before it; Pod-level requests replace the sum for the resources they name;
    overhead comes on top. Raise QuantityError where a quantity is none or is negative.
    """
    plain = _total(spec, defaults={})
    scoring = dict(plain) if _says_all(spec) else _total(spec, defaults=_defaults(spec, plain))
    cpu, memory = plain.pop(CPU, 0), plain.pop(MEMORY, 0)
    ephemeral = plain.pop(EPHEMERAL, 0)
    return Requests(
        cpu_milli=cpu,
        memory_bytes=memory,
        ephemeral_bytes=ephemeral,
        extended=tuple((name, value) for name, value in sorted(plain.items()) if value),
        score_cpu_milli=scoring.get(CPU, 0),
        score_memory_bytes=scoring.get(MEMORY, 0),
    )


def read_limits(spec: PodSpec) -> Limits:
    """Add up a Pod's limits as k8s.io/component-helpers/resource.PodLimits does.

    A container without a limit adds nothing, so less than the Pod may use. Raise QuantityError as
    `read_requests` does.
    """
    total = _combined(
        spec, lambda container: _amounts(container.resources.limits if container.resources else None)
    )
    if spec.resources is not None:
        total |= _amounts(spec.resources.limits)
    _add(total, {name: value for name, value in _amounts(spec.overhead).items() if total.get(name)})
    return Limits(total.get(CPU, 0), total.get(MEMORY, 0)) if total else NO_LIMITS


def _total(spec: PodSpec, *, defaults: Mapping[str, int]) -> dict[str, int]:
    total = _combined(spec, lambda container: _container(container, defaults=defaults))
    if spec.resources is not None:
        total.update(
            (name, value) for name, value in _amounts(spec.resources.requests).items() if _is_pod_level(name)
        )
    _add(total, _amounts(spec.overhead))
    return total


def _combined(spec: PodSpec, of: Callable[[Container], dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in spec.containers or ():
        _add(total, of(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers or ():
        own = of(container)
        if container.restart_policy == "Always":
            _add(total, own)
            _add(sidecars, own)
        else:
            # What it does not name itself, the sidecars before it need; the total has that already.
            _raise(peak, {name: value + sidecars.get(name, 0) for name, value in own.items()})
    _raise(total, peak)
    return total


def _says_all(spec: PodSpec) -> bool:
    """Tell whether every container requests both CPU and memory, so that no default applies."""
    for container in (spec.containers or []) + (spec.init_containers or []):
        requests = (container.resources.requests if container.resources else None) or {}
        if CPU not in requests or MEMORY not in requests:
            return False
    return True


def _defaults(spec: PodSpec, plain: Mapping[str, int]) -> Mapping[str, int]:
    """Return the scoring defaults; beside Pod-level requests only for what nobody in the Pod names.

    pkg/scheduler/framework/types.go: getNonMissingContainerRequests.
    """
    own = (spec.resources.requests if spec.resources else None) or {}
    if not any(map(_is_pod_level, own)):
        return SCORING_DEFAULTS
    return {name: value for name, value in SCORING_DEFAULTS.items() if name not in plain}


def _is_pod_level(resource: str) -> bool:
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


def _container(container: Container, *, defaults: Mapping[str, int]) -> dict[str, int]:
    return {**defaults, **_amounts(container.resources.requests if container.resources else None)}


def read_declared(spec: PodSpec, resource: str) -> tuple[int, int | None]:
    """Return what the containers that run together request of CPU or memory, and their limit.

    The limit is None where one of them has none. A limit without a request stands for both, as the API
    server has it. Koordinator's batch resources count as what they stand for. Raise QuantityError where a
    quantity is none or is negative.
    """
    request, limit = 0, 0 if spec.containers else None
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    for container in [*(spec.containers or ()), *sidecars]:
        least, most = _declared(container.resources, resource)
        request += least
        limit = None if limit is None or most is None else limit + most
    if spec.resources is not None:
        least, most = _declared(spec.resources, resource)
        request = least if resource in (spec.resources.requests or {}) else request or least
        limit = limit if most is None else most
    overhead = _amounts(spec.overhead).get(resource, 0)
    return request + overhead, None if limit is None else limit + overhead


def _declared(resources: Resources | None, resource: str) -> tuple[int, int | None]:
    if resources is None:
        return 0, None
    requests, limits = _amounts(resources.requests), _amounts(resources.limits)
    batch = BATCH[resource]
    limit = limits.get(resource, limits.get(batch))
    return requests.get(resource, requests.get(batch, limit or 0)), limit


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


def controller(metadata: Metadata) -> OwnerReference | None:
    """Return the reference to the one owner that manages the object."""
    for owner in metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def name(item: Node | Named | PersistentVolume | PersistentVolumeClaim) -> str:
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
