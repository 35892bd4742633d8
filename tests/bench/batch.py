"""Batch planning beside Pod-by-Pod planning: 500 Pods of mixed size on the same cluster, as JSON.

Pods of Deployments and Jobs go through the whole decision, the modelled stock scheduler binds them, and the
cluster hears of a binding `lag` Pods later. Only the planning is timed; of the rounds the fastest counts.
"""

import itertools
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import mean
from typing import Protocol

import jsonpatch
import numpy as np

from webhook import admission, kube, planner, policy
from webhook.admission import Clock
from webhook.batch import Ask, Batches
from webhook.cluster import Cluster
from webhook.demo import stock, workload
from webhook.demo.replay import review
from webhook.demo.workload import Object, Workload
from webhook.ledger import Load
from webhook.load import View
from webhook.peers import Turn
from webhook.planner import Plan
from webhook.pods import read_shape
from webhook.reasons import Outcome, Reason
from webhook.snapshot import Snapshot

from ..builders import patch_in, to_bytes

PODS = 500
SIZES = (200, 1000)
LAGS = (0, 16, 48)
SEEDS = (1, 2, 3)
ROUNDS = 3

# Pods admitted a second: the time that passes for readings and deals.
RATE = 100.0

_POD = kube.decoder(kube.Pod)
_NODE = kube.decoder(kube.Node)


class Planning(Protocol):
    """What plans for a Pod: `Batches`, or something in its place."""

    def plan(
        self,
        pod: kube.Pod,
        ask: Ask,
        view: Callable[[Load], View],
        now: float,
        turn: Turn | None,
        /,
    ) -> Plan | Reason: ...


class Alone:
    """Every Pod planned as if it were the only one."""

    def __init__(self, nodes: Snapshot) -> None:
        self._nodes = nodes

    def plan(
        self, _pod: kube.Pod, ask: Ask, view: Callable[[Load], View], _now: float, turn: Turn | None
    ) -> Plan | Reason:
        return planner.plan(ask.demand, ask.preferred, self._nodes, view(ask.expected), ask.profile, turn)


class Timed:
    """Add up the time that planning takes."""

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self.seconds = 0.0

    def plan(
        self, pod: kube.Pod, ask: Ask, view: Callable[[Load], View], now: float, turn: Turn | None
    ) -> Plan | Reason:
        began = time.process_time()
        planned = self._planning.plan(pod, ask, view, now, turn)
        self.seconds += time.process_time() - began
        return planned


@dataclass(frozen=True, slots=True)
class Run:
    sigma: float
    unschedulable: int
    micros: float


def one_after_another(pods: list[Object]) -> list[Object]:
    return pods


def interleaved(pods: list[Object]) -> list[Object]:
    """Take a Pod of each owner in turn."""
    owners: dict[str, list[Object]] = {}
    for pod in pods:
        owners.setdefault(pod["metadata"]["ownerReferences"][0]["uid"], []).append(pod)
    rounds = itertools.zip_longest(*owners.values())
    return [pod for pod in itertools.chain.from_iterable(rounds) if pod is not None]


ORDERS = {"one after another": one_after_another, "interleaved": interleaved}


def arrivals(generated: Workload) -> list[Object]:
    """Return the Pods, those of every other owner as a Job's."""
    owners: dict[str, int] = {}
    for pod in generated.pods:
        owner = pod["metadata"]["ownerReferences"][0]
        if owners.setdefault(owner["uid"], len(owners)) % 2:
            owner.update(apiVersion="batch/v1", kind="Job")
    return generated.pods


def build(generated: Workload) -> tuple[Cluster, Snapshot]:
    """Return the cluster as Trimtab sees it and the snapshot of the scheduler, both at the start."""
    cluster, nodes = Cluster(), Snapshot(len(generated.names))
    for item in generated.items:
        if item["kind"] == "Node":
            node = _NODE.decode(json.dumps(item))
            cluster.set_node(node)
            nodes.set_node(node)
        elif item["kind"] == "Pod":
            pod = _POD.decode(json.dumps(item))
            cluster.set_pod(pod, None)
            nodes.bind(str(pod.spec.node_name), read_shape(pod))
    for name, (cpu, memory) in zip(generated.names, generated.base.T, strict=True):
        cluster.pin_usage(name, cpu, memory)
    cluster.synced = True
    return cluster, nodes


class Outstanding:
    """Say how many Pods of an owner are still to come, as its parallelism or replicas tell."""

    def __init__(self, pods: Iterable[Object]) -> None:
        self._left = Counter(pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods)

    def __call__(self, pod: kube.Pod, _namespace: str) -> int | None:
        return self._left[_owner(pod)]

    def came(self, pod: kube.Pod) -> None:
        self._left[_owner(pod)] -= 1


def _owner(pod: kube.Pod) -> str:
    owner = kube.controller(pod.metadata)
    return owner.uid if owner else ""


def place(
    generated: Workload,
    pods: list[Object],
    lag: int,
    seed: int,
    planning: Callable[[Outstanding, Cluster], Planning],
) -> Run:
    """Admit and bind `pods` in their order; return how even the nodes' true CPU use ends up."""
    cluster, nodes = build(generated)
    left = Outstanding(pods)
    timed = Timed(planning(left, cluster))
    cluster.batches = timed  # type: ignore[assignment]
    scheduler = stock.StockScheduler(nodes, np.random.default_rng(seed))
    used = generated.base[0].copy()
    unseen: deque[Object] = deque()
    unschedulable = number = 0
    for number, raw in enumerate(pods, 1):
        now = number / RATE
        answer = admission.respond(
            to_bytes(review(raw, number)), cluster, policy.default(), Clock(now, "2026-01-01T00:00:00Z")
        )
        assert answer.outcome is not Outcome.FAILED, answer.detail
        created = jsonpatch.apply_patch(raw, patch_in(answer.body))
        created["metadata"] |= {"name": f"pod-{number}", "uid": f"pod-{number}"}
        pod = _POD.decode(json.dumps(created))
        left.came(pod)
        cluster.set_pod(pod, now)
        node = scheduler.schedule(pod)
        if node is None:
            unschedulable += 1
            continue
        used[nodes.row(node)] += kube.read_requests(pod.spec).cpu_milli
        created["spec"]["nodeName"] = node
        unseen.append(created)
        if len(unseen) > lag:
            cluster.set_pod(_POD.decode(json.dumps(unseen.popleft())), now)
    return Run(float((used / generated.allocatable[0]).std()), unschedulable, 1e6 * timed.seconds / number)


def batched(left: Outstanding, cluster: Cluster) -> Planning:
    return Batches(cluster.nodes, left)


def alone(_left: Outstanding, cluster: Cluster) -> Planning:
    return Alone(cluster.nodes)


def fastest(runs: Iterable[Run]) -> Run:
    return min(runs, key=lambda run: run.micros)


def compare(size: int, order: str, lag: int, rounds: int = ROUNDS) -> dict[str, dict[str, float]]:
    """Return the mean over seeds of what either way of planning gives."""
    found: dict[str, list[Run]] = {"batch": [], "pod_by_pod": []}
    for seed in SEEDS:
        generated = workload.generate(size, PODS, seed)
        pods = ORDERS[order](arrivals(generated))
        for name, planning in (("batch", batched), ("pod_by_pod", alone)):
            found[name].append(fastest(place(generated, pods, lag, seed, planning) for _ in range(rounds)))
    return {
        name: {
            "sigma": round(mean(run.sigma for run in runs), 5),
            "unschedulable": sum(run.unschedulable for run in runs),
            "planning_us_per_pod": round(mean(run.micros for run in runs), 1),
        }
        for name, runs in found.items()
    }


def measured() -> dict[str, object]:
    return {
        f"{size} nodes, {order}, bindings seen {lag} Pods late": compare(size, order, lag)
        for size in SIZES
        for order in ORDERS
        for lag in LAGS
    }


if __name__ == "__main__":
    print(json.dumps(measured(), indent=2))
