"""What workloads use, learned from the readings of their running Pods. No I/O here.

A mean that forgets: a reading counts half after `HALF_LIFE_S`. A workload is its top controller with one
set of containers (names, requests and limits), so that changed requests are learned anew while a new image
goes on from what is known.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from webhook import kube
from webhook.expectation import owners
from webhook.expectation.owners import Owners, Workload

HALF_LIFE_S = 600.0
LEAST_READINGS = 2
# What is learned outlives the Pods, so that the next run of a weekly Job finds it.
KEEP_S = 8 * 24 * 3600.0
MAX_WORKLOADS = 10_000
# Sets of containers kept of one workload: a rollout has two at a time.
MAX_VERSIONS = 4

_REVISIONS = ("pod-template-hash", "controller-revision-hash")


@dataclass(slots=True)
class Usage:
    """A forgetting mean of one resource, with its spread."""

    readings: int = 0
    mean: float = 0.0
    _weight: float = 0.0
    _square: float = 0.0
    _at: float = 0.0

    def add(self, value: float, now: float) -> None:
        """Count a reading (West 1979, with weights that halve every `HALF_LIFE_S`)."""
        kept = math.exp2(-max(0.0, now - self._at) / HALF_LIFE_S) if self.readings else 0.0
        self._at = now
        self.readings += 1
        self._weight = self._weight * kept + 1.0
        off = value - self.mean
        self.mean += off / self._weight
        self._square = self._square * kept + off * (value - self.mean)

    @property
    def is_known(self) -> bool:
        """Whether there are enough readings to believe the mean."""
        return self.readings >= LEAST_READINGS

    @property
    def deviation(self) -> float:
        """The standard deviation over Pods and readings."""
        return math.sqrt(max(0.0, self._square) / self._weight) if self._weight else 0.0


@dataclass(slots=True)
class Learned:
    """What one version of a workload uses, and the revision of its template that was seen last."""

    revision: str = ""
    cpu: Usage = field(default_factory=Usage)
    memory: Usage = field(default_factory=Usage)

    @property
    def is_known(self) -> bool:
        return self.cpu.is_known or self.memory.is_known


@dataclass(slots=True)
class _Workload:
    at: float = 0.0
    versions: dict[int, Learned] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class _Template:
    """What the Pods of one template share."""

    owner: Workload
    containers: int
    revision: str


@dataclass(slots=True)
class _Pod:
    uid: str
    name: str
    template: _Template
    started: bool
    told: float | tuple[float, float] | None = None


class Learning:
    """Learned workloads, and the Pods whose readings they are learned from."""

    def __init__(self, owners: Owners) -> None:
        self._owners = owners
        self._pods: dict[str, _Pod] = {}
        self._by_name: dict[str, dict[str, _Pod]] = {}
        self._templates: WeakValueDictionary[_Template, _Template] = WeakValueDictionary()
        self._workloads: OrderedDict[Workload, _Workload] = OrderedDict()

    @property
    def workloads(self) -> int:
        """Count the workloads with enough readings to be believed."""
        return sum(
            any(learned.is_known for learned in each.versions.values()) for each in self._workloads.values()
        )

    def namespaces(self) -> list[str]:
        """Name the namespaces that have Pods to learn from."""
        return list(self._by_name)

    # Pods

    def join(self, uid: str, pod: kube.Pod, *, covered: bool) -> None:
        """Learn from a Pod from now on; `covered` says that it may have run for long already."""
        if uid in self._pods:
            return
        owner = owners.controller(pod)
        if owner is None or owner.kind == "DaemonSet":
            return
        template = self._template(self._owners.join(owner), pod)
        known = self._pods[uid] = _Pod(uid, pod.metadata.name or "", template, covered)
        self._by_name.setdefault(owner.namespace, {})[known.name] = known

    def resize(self, uid: str, pod: kube.Pod) -> None:
        """Learn for other requests from now on, after a resize in place."""
        known = self._pods.get(uid)
        if known is not None:
            known.template = self._template(known.template.owner, pod)

    def _template(self, owner: Workload, pod: kube.Pod) -> _Template:
        template = _Template(owner, _containers(pod.spec), _revision(pod))
        return self._templates.setdefault(template, template)

    def leave(self, uid: str) -> None:
        known = self._pods.pop(uid, None)
        if known is None:
            return
        owner = known.template.owner
        self._owners.leave(owner)
        names = self._by_name.get(owner.namespace, {})
        if names.get(known.name) is known:
            del names[known.name]
            if not names:
                del self._by_name[owner.namespace]

    def drop(self, namespace: str) -> None:
        """Forget a namespace's Pods and what was learned of them: it is steered no more."""
        for uid in [uid for uid, pod in self._pods.items() if pod.template.owner.namespace == namespace]:
            self.leave(uid)
        for workload in [each for each in self._workloads if each.namespace == namespace]:
            del self._workloads[workload]

    # Readings

    def observe(
        self,
        namespace: str,
        name: str,
        cpu_milli: float | None,
        memory_bytes: float | None,
        *,
        timestamp: float | None,
        now: float,
    ) -> bool:
        """Learn from a reading of a Pod; return whether it counts.

        It does not where it repeats the last timestamp (or, where the source gives none, the last values),
        and where it is the first of a Pod that was seen to start: that one covers less than a window, and
        the start itself.
        """
        pod = self._by_name.get(namespace, {}).get(name)
        told = (cpu_milli or 0.0, memory_bytes or 0.0) if timestamp is None else timestamp
        if pod is None or pod.told == told:
            return False
        pod.told = told
        if not pod.started:
            pod.started = True
            return False
        self._learn(pod, cpu_milli, memory_bytes, now)
        return True

    def pin(self, namespace: str, name: str, cpu_milli: float | None, memory_bytes: float | None) -> None:
        """Take a reading that stands for all that there will ever be (embedded mode)."""
        pod = self._by_name.get(namespace, {}).get(name)
        if pod is not None:
            for _ in range(LEAST_READINGS):
                self._learn(pod, cpu_milli, memory_bytes, 0.0)

    def _learn(self, pod: _Pod, cpu_milli: float | None, memory_bytes: float | None, now: float) -> None:
        template = pod.template
        workload = self._owners.top(template.owner, template.revision)
        known = self._workloads.setdefault(workload, _Workload())
        self._workloads.move_to_end(workload)
        known.at = now
        learned = known.versions.pop(template.containers, None) or Learned()
        known.versions[template.containers] = learned  # at the end: the one that was read last
        learned.revision = template.revision
        for usage, value in ((learned.cpu, cpu_milli), (learned.memory, memory_bytes)):
            if value is not None and math.isfinite(value) and value >= 0:
                usage.add(value, now)
        if len(known.versions) > MAX_VERSIONS:
            del known.versions[next(iter(known.versions))]
        oldest = next(iter(self._workloads.values()))
        if len(self._workloads) > MAX_WORKLOADS or oldest.at < now - KEEP_S:
            self._workloads.popitem(last=False)

    def learned(self, pod: kube.Pod, namespace: str | None = None) -> Learned | None:
        """Return what is known of the Pod's workload.

        Another webhook may change a Pod after us, so that it runs with other containers than it came with:
        then those of the same revision of the template stand for it.
        """
        workload = self._owners.workload(pod, namespace)
        known = None if workload is None else self._workloads.get(workload)
        if known is None:
            return None
        found, revision = known.versions.get(_containers(pod.spec)), _revision(pod)
        if found is None and revision:
            return next((each for each in known.versions.values() if each.revision == revision), None)
        return found


def _containers(spec: kube.PodSpec) -> int:
    """Return what tells one set of containers from another; the order of names in a mapping does not."""
    sidecars = [each for each in spec.init_containers or () if each.restart_policy == "Always"]
    return hash(tuple(map(_container, [*(spec.containers or ()), *sidecars])))


def _container(container: kube.Container) -> tuple[str, frozenset[object], frozenset[object]]:
    own = container.resources or kube.Resources()
    return container.name, frozenset((own.requests or {}).items()), frozenset((own.limits or {}).items())


def _revision(pod: kube.Pod) -> str:
    labels = pod.metadata.labels or {}
    return next((labels[key] for key in _REVISIONS if key in labels), "")
