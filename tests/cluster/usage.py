"""What simulated Nodes and Pods use, and how a kubelet's metrics page tells it.

A node uses a base load of its own (hidden: no request shows it) plus what each Pod running on it uses. CPU
is kept as a kubelet keeps it, a counter of core-seconds that is the integral of the use over time, so the
rates that a reader takes from it are right whenever it reads. No I/O here; `now` is an argument, in seconds
of the epoch.
"""

import dataclasses
from collections.abc import Iterator

import msgspec

CPU = "sim.trimtab.dev/cpu"
MEMORY = "sim.trimtab.dev/memory"
READINGS = "sim.trimtab.dev/readings"
FROZEN = "frozen"  # value of READINGS: the page of the moment is repeated, timestamps and all
SILENT = "silent"  # value of READINGS: the kubelet answers with an error

# Nothing alive uses exactly nothing, and metrics-server drops a reading of zero.
LEAST_CORES = 0.001
LEAST_BYTES = 1 << 20

_SUFFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
_SUFFIXES |= {letter: 1000.0**power for power, letter in enumerate("kMGTPE", 1)}
_SUFFIXES |= {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", 1)}


class Metadata(msgspec.Struct):
    name: str
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


class Requirements(msgspec.Struct):
    requests: dict[str, str] = {}


class Container(msgspec.Struct, rename="camel"):
    name: str
    resources: Requirements = msgspec.field(default_factory=Requirements)
    restart_policy: str = ""


class PodSpec(msgspec.Struct, rename="camel"):
    containers: list[Container]
    init_containers: list[Container] = []
    node_name: str = ""


class PodStatus(msgspec.Struct):
    phase: str = ""


class Pod(msgspec.Struct):
    metadata: Metadata
    spec: PodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class Node(msgspec.Struct):
    metadata: Metadata


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    cores: float
    bytes: float


@dataclasses.dataclass(slots=True)
class Meter:
    """Core-seconds used up to `at`, and the use since."""

    at: float
    cores: float = 0.0
    seconds: float = 0.0

    def read(self, now: float) -> float:
        return self.seconds + self.cores * max(0.0, now - self.at)

    def change(self, cores: float, now: float) -> None:
        self.seconds, self.at, self.cores = self.read(now), now, cores


@dataclasses.dataclass(slots=True)
class RunningPod:
    namespace: str
    name: str
    containers: list[str]
    use: Use
    since: float
    meter: Meter


@dataclasses.dataclass(slots=True)
class Kubelet:
    """One node: its base load and the Pods that run on it."""

    meter: Meter
    base: Use = Use(LEAST_CORES, LEAST_BYTES)
    readings: str = ""
    pods: dict[str, RunningPod] = dataclasses.field(default_factory=dict)
    last_page: str = ""

    def use(self) -> Use:
        pods = [pod.use for pod in self.pods.values()]
        return Use(
            self.base.cores + sum(use.cores for use in pods), self.base.bytes + sum(use.bytes for use in pods)
        )

    def changed(self, now: float) -> None:
        self.meter.change(self.use().cores, now)

    def page(self, now: float) -> str:
        """The page `/metrics/resource` of this node."""
        if self.readings != FROZEN or not self.last_page:
            self.last_page = "\n".join(self._lines(now)) + "\n"
        return self.last_page

    def _lines(self, now: float) -> Iterator[str]:
        at = int(now * 1000)
        yield "# TYPE node_cpu_usage_seconds_total counter"
        yield f"node_cpu_usage_seconds_total {self.meter.read(now):.6f} {at}"
        yield "# TYPE node_memory_working_set_bytes gauge"
        yield f"node_memory_working_set_bytes {self.use().bytes:.0f} {at}"
        for pod in self.pods.values():
            share = 1 / len(pod.containers)
            for container in pod.containers:
                labels = f'{{container="{container}",namespace="{pod.namespace}",pod="{pod.name}"}}'
                yield f"container_start_time_seconds{labels} {pod.since:.3f}"
                yield f"container_cpu_usage_seconds_total{labels} {pod.meter.read(now) * share:.6f} {at}"
                yield f"container_memory_working_set_bytes{labels} {pod.use.bytes * share:.0f} {at}"


class Simulation:
    """All nodes; fed with the objects of a list and watch."""

    def __init__(self) -> None:
        self.kubelets: dict[str, Kubelet] = {}
        self._node_of: dict[str, str] = {}

    def true_usage(self) -> dict[str, tuple[float, float]]:
        """(cores, bytes) of every node at this moment, whatever its readings say."""
        uses = {name: kubelet.use() for name, kubelet in self.kubelets.items()}
        return {name: (use.cores, use.bytes) for name, use in uses.items()}

    def put_node(self, node: Node, now: float) -> None:
        kubelet = self._kubelet(node.metadata.name, now)
        kubelet.base = _said(node.metadata.annotations, Use(LEAST_CORES, LEAST_BYTES))
        kubelet.readings = node.metadata.annotations.get(READINGS, "")
        kubelet.changed(now)

    def remove_node(self, node: Node) -> None:
        self.kubelets.pop(node.metadata.name, None)

    def put_pod(self, pod: Pod, now: float) -> None:
        uid, use = pod.metadata.uid, _said(pod.metadata.annotations, _requested(pod))
        if not pod.spec.node_name or pod.status.phase != "Running":
            self.remove_pod(uid, now)
            return
        kubelet = self._kubelet(pod.spec.node_name, now)
        running = kubelet.pods.get(uid)
        if running is None:
            names = [container.name for container in pod.spec.containers]
            running = RunningPod(pod.metadata.namespace, pod.metadata.name, names, use, now, Meter(now))
            kubelet.pods[uid] = running
            self._node_of[uid] = pod.spec.node_name
        running.use = use
        running.meter.change(use.cores, now)
        kubelet.changed(now)

    def remove_pod(self, uid: str, now: float) -> None:
        kubelet = self.kubelets.get(self._node_of.pop(uid, ""))
        if kubelet is not None and kubelet.pods.pop(uid, None) is not None:
            kubelet.changed(now)

    def pods(self) -> set[str]:
        """The uids of all running Pods."""
        return set(self._node_of)

    def _kubelet(self, name: str, now: float) -> Kubelet:
        return self.kubelets.setdefault(name, Kubelet(Meter(now)))


def quantity(text: str) -> float:
    """A Kubernetes quantity, say `250m` or `1.5Gi`, as a number of base units."""
    number = text.rstrip("numkKMGTPEi")
    return float(number) * _SUFFIXES[text[len(number) :]]


def _said(annotations: dict[str, str], otherwise: Use) -> Use:
    cores, size = annotations.get(CPU), annotations.get(MEMORY)
    return Use(
        max(LEAST_CORES, otherwise.cores if cores is None else quantity(cores)),
        max(LEAST_BYTES, otherwise.bytes if size is None else quantity(size)),
    )


def _requested(pod: Pod) -> Use:
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    requests = [container.resources.requests for container in [*pod.spec.containers, *sidecars]]
    return Use(
        sum(quantity(request.get("cpu", "0")) for request in requests),
        sum(quantity(request.get("memory", "0")) for request in requests),
    )
