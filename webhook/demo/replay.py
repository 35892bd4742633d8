"""The same arrivals on the same start, placed three ways, and how even each leaves the cluster. No I/O."""

import json
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import jsonpatch
import numpy as np

from webhook import decision, filters, kube
from webhook.demo import stock
from webhook.demo.stock import StockScheduler
from webhook.demo.workload import Object, Workload
from webhook.pods import read_shape
from webhook.snapshot import FloatArray, Snapshot

# Bindings that the server has not been told of yet when it decides: the Pods in flight in a real cluster.
IN_FLIGHT = 6

HOT = 0.8

_POD = kube.decoder(kube.Pod)
_NODE = kube.decoder(kube.Node)

Step = Callable[[], None]


class Steering(Protocol):
    """What the webhook is to the replay."""

    def admit(self, review: Object) -> list[Object]: ...

    def watch_event(self, kind: str, item: Object) -> None: ...


@dataclass(frozen=True, slots=True)
class Balance:
    """How even the nodes' CPU utilization is, true use over allocatable; `hot_nodes` are above 80 %."""

    sigma: float
    p95: float
    p99: float
    hot_nodes: int

    @classmethod
    def of(cls, utilization: FloatArray) -> "Balance":
        p95, p99 = np.percentile(utilization, (95, 99))
        return cls(float(utilization.std()), float(p95), float(p99), int((utilization > HOT).sum()))

    def as_json(self) -> dict[str, Any]:
        return {
            key: round(value, 6) if isinstance(value, float) else value for key, value in asdict(self).items()
        }


@dataclass(slots=True)
class Moment:
    """One Pod's placement: the Pod as it was created, the node it went to, what the nodes used before."""

    pod: Object
    node: str | None
    utilization: FloatArray
    scored: frozenset[str]


@dataclass(slots=True)
class Run:
    """One way of placing: the utilization that it leaves, and the moment to be shown."""

    utilization: FloatArray
    unschedulable: int
    moment: Moment | None = None
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def balance(self) -> Balance:
        return Balance.of(self.utilization)


class _Bed:
    """The cluster under one run: what the scheduler sees, and what is truly used."""

    def __init__(self, workload: Workload) -> None:
        self.nodes = Snapshot(len(workload.names))
        for item in workload.items:
            if item["kind"] == "Node":
                self.nodes.set_node(_NODE.decode(json.dumps(item)))
            elif item["kind"] == "Pod":
                pod: kube.Pod = _POD.decode(json.dumps(item))
                self.nodes.bind(str(pod.spec.node_name), read_shape(pod))
        self.used = workload.base[0].copy()
        self._allocatable = workload.allocatable[0]
        self.unschedulable = 0

    @property
    def utilization(self) -> FloatArray:
        utilization: FloatArray = self.used / self._allocatable
        return utilization

    def count(self, node: str | None, pod: kube.Pod) -> None:
        """Let a Pod use what it requests on its node."""
        row = self.nodes.row(node) if node else None
        if row is None:
            self.unschedulable += 1
        else:
            self.used[row] += kube.read_requests(pod.spec).cpu_milli

    def coolest(self, pod: kube.Pod) -> str | None:
        """Return the feasible node that the Pod would leave least utilized."""
        demand = filters.demand(pod)
        rows = np.flatnonzero(stock.feasible(demand, self.nodes))
        if rows.size == 0:
            return None
        after = (self.used[rows] + demand.requests.cpu_milli) / self._allocatable[rows]
        return self.nodes.names[int(rows[after.argmin()])]


def ideal(workload: Workload, step: Step) -> Run:
    """Place each Pod as it comes where it leaves the least utilized node, knowing true use."""
    bed = _Bed(workload)
    for raw in workload.pods:
        pod: kube.Pod = _POD.decode(json.dumps(raw))
        node = bed.coolest(pod)
        if node is not None:
            bed.nodes.bind(node, read_shape(pod))
        bed.count(node, pod)
        step()
    return Run(bed.utilization, bed.unschedulable)


def scheduled(
    workload: Workload, seed: int, step: Step, *, shown: int, steering: Steering | None = None
) -> Run:
    """Let the stock scheduler bind each Pod, after `steering` has had its say where there is one."""
    bed = _Bed(workload)
    scheduler = StockScheduler(bed.nodes, np.random.default_rng(seed))
    moment = None
    outcomes: dict[str, int] = {}
    unseen: deque[tuple[Object, str | None]] = deque()
    for number, raw in enumerate(workload.pods):
        created = raw if steering is None else _admitted(steering, raw, number)
        before = bed.utilization
        pod: kube.Pod = _POD.decode(json.dumps(created))
        node = scheduler.schedule(pod)
        bed.count(node, pod)
        if number == shown:
            moment = Moment(
                created, node, before, frozenset(bed.nodes.names[row] for row in scheduler.scored)
            )
        if steering is not None:
            outcome = _outcome(created)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            unseen.append((created, node))
            if len(unseen) > IN_FLIGHT:
                _show_bound(steering, *unseen.popleft())
        step()
    return Run(bed.utilization, bed.unschedulable, moment, outcomes)


def efficiency(stock_run: Balance, steered: Balance, ideal_run: Balance) -> float | None:
    """Return E, the share of what could be gained that was; None where nothing could be."""
    gain = stock_run.sigma - ideal_run.sigma
    return (stock_run.sigma - steered.sigma) / gain if gain > 0 else None


def review(raw: Object, number: int) -> Object:
    """Return the AdmissionReview that the API server sends for a Pod about to be created."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": f"review-{number:06d}",
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            "namespace": raw["metadata"]["namespace"],
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
            "object": raw,
            "oldObject": None,
            "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    }


def _admitted(steering: Steering, raw: Object, number: int) -> Object:
    """Return the Pod as the API server stores it after admission, and show it as pending."""
    created: Object = jsonpatch.apply_patch(raw, steering.admit(review(raw, number)))
    metadata = created["metadata"]
    metadata["name"] = f"{metadata['generateName']}{number:05d}"
    metadata["uid"] = f"pod-{number:06d}"
    steering.watch_event("ADDED", created)
    return created


def _show_bound(steering: Steering, created: Object, node: str | None) -> None:
    if node is not None:
        created["spec"]["nodeName"] = node
        steering.watch_event("MODIFIED", created)


def _outcome(created: Object) -> str:
    text = created["metadata"].get("annotations", {}).get(decision.DECISION)
    if text is None:
        return "undecided"
    recorded = json.loads(text)
    return str(recorded.get("reason") or recorded["outcome"])
