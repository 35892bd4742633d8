"""Whose Pods are whose: ReplicaSet to Deployment, Job to CronJob, StatefulSets. No I/O here."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from webhook import kube

REPLICA_SET, STATEFUL_SET, JOB = "ReplicaSet", "StatefulSet", "Job"
_TEMPLATE_HASH = "pod-template-hash"


class Workload(NamedTuple):
    """A controller: a Pod's own, or the one at the top."""

    namespace: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class _Controller:
    """What is kept of a controller: its own owner, and how many Pods it wants to have at once."""

    owner: Workload | None
    wanted: int
    active: int


class Owners:
    """Controllers as the watch shows them, and how many Pods of each there are."""

    def __init__(self) -> None:
        self._controllers: dict[Workload, _Controller] = {}
        self._pods: dict[Workload, tuple[Workload, int]] = {}

    # Controllers

    def set(self, kind: str, item: kube.Controller) -> None:
        """Add or update a ReplicaSet, a StatefulSet or a Job; one that wants no Pods any more is not kept."""
        key = Workload(item.metadata.namespace or "", kind, item.metadata.name or "")
        spec, status = item.spec or kube.ControllerSpec(), item.status or kube.ControllerStatus()
        if kind == JOB:
            wanted = 1 if spec.parallelism is None else spec.parallelism
            if spec.completions is not None:
                wanted = min(wanted, spec.completions - (status.succeeded or 0))
            gone = status.completion_time is not None
        else:
            wanted = 1 if spec.replicas is None else spec.replicas
            gone = wanted == 0
        if gone:
            self._controllers.pop(key, None)
            return
        owner = kube.controller(item.metadata)
        self._controllers[key] = _Controller(
            None if owner is None else Workload(key.namespace, owner.kind, owner.name),
            wanted,
            (status.active or 0) if kind == JOB else 0,
        )

    def remove(self, kind: str, item: kube.Controller) -> None:
        key = Workload(item.metadata.namespace or "", kind, item.metadata.name or "")
        self._controllers.pop(key, None)

    def replace(self, kind: str, items: Iterable[kube.Controller]) -> None:
        """Take a whole list of one kind."""
        for key in [key for key in self._controllers if key.kind == kind]:
            del self._controllers[key]
        for item in items:
            self.set(kind, item)

    # Pods

    def workload(self, pod: kube.Pod, namespace: str | None = None) -> Workload | None:
        """Return the top controller of a Pod; None for a bare one.

        `namespace` is for a Pod that does not say its own yet. A ReplicaSet that was not seen yet is known
        by the template hash at the end of its name; a Job that was not seen stands for itself.
        """
        own = controller(pod, namespace)
        return None if own is None else self.top(own, (pod.metadata.labels or {}).get(_TEMPLATE_HASH, ""))

    def top(self, own: Workload, template_hash: str) -> Workload:
        """Return the top controller above a Pod's own."""
        known = self._controllers.get(own)
        if known is not None:
            return known.owner or own
        suffix = f"-{template_hash}"
        if own.kind == REPLICA_SET and template_hash and own.name.endswith(suffix):
            return Workload(own.namespace, "Deployment", own.name.removesuffix(suffix))
        return own

    def outstanding(self, pod: kube.Pod, namespace: str | None = None) -> int | None:
        """Return how many Pods of the same owner are still to come, this one included.

        None where its owner is not known, or says no number. A Job's status lags behind its Pods, and Pods
        behind a Job that was just seen, so the larger of both counts.
        """
        own = controller(pod, namespace)
        known = None if own is None else self._controllers.get(own)
        if known is None or own is None:
            return None
        return max(1, known.wanted - max(known.active, self.pods(own)))

    def pods(self, own: Workload) -> int:
        """Count the Pods of a controller that are known."""
        return self._pods.get(own, (own, 0))[1]

    def join(self, own: Workload) -> Workload:
        """Count one more Pod of a controller; return the key that all its Pods share."""
        shared, count = self._pods.get(own, (own, 0))
        self._pods[shared] = shared, count + 1
        return shared

    def leave(self, own: Workload) -> None:
        count = self.pods(own) - 1
        if count > 0:
            self._pods[own] = own, count
        else:
            self._pods.pop(own, None)


def controller(pod: kube.Pod, namespace: str | None = None) -> Workload | None:
    """Return the controller that a Pod itself names."""
    owner = kube.controller(pod.metadata)
    if owner is None:
        return None
    return Workload(pod.metadata.namespace or namespace or "", owner.kind, owner.name)
