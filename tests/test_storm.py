"""Whatever happens in whatever order: the snapshot is what the surviving objects say, and no more.

Beside the cluster stands a model that keeps only the objects. After every event a cluster that is built anew
from them has to agree; what is admitted meanwhile may name no node that the new one takes for infeasible.
"""

import copy
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.builders import (
    GIB,
    NAMESPACE,
    NOW,
    Json,
    apply,
    decode_node,
    decode_pod,
    make_cluster,
    make_container,
    make_node,
    make_owner,
    make_pod,
    make_review,
    make_taint,
    patch_in,
    preferred_terms,
    to_bytes,
)
from tests.strategies import REQUIRED
from webhook import admission, filters, kube, policy
from webhook.admission import Clock
from webhook.cluster import Cluster
from webhook.ledger import EXPIRE_AFTER_S
from webhook.reasons import Outcome
from webhook.selectors import Selector

ALL_SCORERS = """
apiVersion: trimtab.dev/v1alpha1
kind: ScoringPolicy
profile:
  scorers:
    utilization: {args: {statistic: p95}}
    balance: {args: {resources: [example.com/gpu]}}
    hot-node: {}
    risk: {}
    trend: {}
    topology: {}
    accelerator: {args: {resources: [example.com/gpu]}}
    energy: {args: {default: {idle: 50, peak: 200}}}
  thresholds: {cpu: 90}
"""
POLICIES = [policy.default(), policy.load(ALL_SCORERS)]
EVERY = Selector()
STALE_AFTER_S = 180.0


def towards_itself(key: str) -> Json:
    return {
        "podAntiAffinity": {REQUIRED: [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": "a"}}}]}
    }


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
}
TEMPLATES: list[Json] = [
    {"cpu": "500m", "memory": "1Gi"},
    {},
    {"cpu": "6"},
    {"containers": [make_container(ports=[{"hostPort": 80}])]},
    {"containers": [make_container(requests={"example.com/gpu": "1"})]},
    {"cpu": "100m", "affinity": towards_itself(kube.HOSTNAME)},
    {"cpu": "100m", "affinity": towards_itself("zone")},
    {"cpu": "100m", "topologySpreadConstraints": [SPREAD]},
]

NAMES = [f"n{number}" for number in range(6)]
names = st.sampled_from(NAMES)
nodes = st.builds(
    make_node,
    names,
    cpu=st.sampled_from(["4", "16"]),
    labels=st.fixed_dictionaries({"zone": st.sampled_from("ab")}),
    taints=st.sampled_from([[], [], [make_taint("t", "NoSchedule")]]),
    unschedulable=st.sampled_from([False, False, True]),
    allocatable=st.sampled_from([{}, {"example.com/gpu": "2"}]),
)
amounts = st.sampled_from([None, 0.0, 0.4, 0.9, 7.0, -1.0, float("nan"), float("inf"), 1e9])
choices = st.integers(0, 999)


class Storm(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = NOW
        self.nodes = {name: make_node(name, labels={"zone": "ab"[name < "n3"]}) for name in NAMES[:4]}
        self.cluster, self.policy = make_cluster(*self.nodes.values()), POLICIES[0]
        self.pods: dict[str, Json] = {}
        self.reviews = 0
        for number in range(len(TEMPLATES)):
            item = kube.Controller(
                kube.Metadata(name=f"owner-{number}", namespace=NAMESPACE), kube.ControllerSpec(replicas=20)
            )
            self.cluster.owners.set("ReplicaSet", item)

    def pick(self, number: int) -> Json | None:
        return list(self.pods.values())[number % len(self.pods)] if self.pods else None

    def tell(self, pod: Json) -> None:
        self.cluster.set_pod(decode_pod(pod), self.now)

    def rebuilt(self) -> Cluster:
        """Return a cluster that was told of nothing but what there is."""
        cluster = make_cluster(*self.nodes.values())
        for pod in self.pods.values():
            cluster.set_pod(decode_pod(pod), None)
        return cluster

    @rule(seconds=st.sampled_from([0.5, 0.5, 6.0, 40.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(number=choices)
    def switch_policy(self, number: int) -> None:
        self.policy = POLICIES[number % 2]

    # Nodes

    @rule(node=nodes)
    def set_node(self, node: Json) -> None:
        self.nodes[node["metadata"]["name"]] = node
        self.cluster.set_node(decode_node(node))

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.cluster.remove_node(name)

    @rule(some=st.lists(nodes, max_size=4))
    def list_nodes(self, some: list[Json]) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in some}
        self.cluster.replace_nodes([decode_node(node) for node in self.nodes.values()])

    @rule(name=names, cpu=amounts, memory=amounts, late=st.sampled_from([-50.0, 0.0, 20.0]), source=choices)
    def read(self, name: str, cpu: float | None, memory: float | None, late: float, source: int) -> None:
        self.cluster.set_usage(
            name,
            None if cpu is None else cpu * 4000,
            None if memory is None else memory * GIB,
            timestamp=None if source % 3 == 2 else self.now - late,
            window=15.0,
            now=self.now,
            wall=self.now,
            source=source % 2,
            stale_after=STALE_AFTER_S,
        )
        self.cluster.settle_usage(self.now, STALE_AFTER_S)

    # Pods

    @rule(
        number=st.integers(0, len(TEMPLATES) - 1),
        count=st.sampled_from([1, 3, 10]),
        owned=st.booleans(),
        bound=st.booleans(),
    )
    def admit(self, number: int, count: int, *, owned: bool, bound: bool) -> None:
        """Admit Pods of one template; the watch shows every other one, pending or bound, the rest never."""
        owner = make_owner("ReplicaSet", f"owner-{number}") | {"uid": f"owner-{number}"}
        metadata = {"ownerReferences": [owner]} if owned else {}
        pod = make_pod(labels={"app": "a"}, metadata=metadata, **copy.deepcopy(TEMPLATES[number]))
        for _ in range(count):
            self.reviews += 1
            uid = f"review-{self.reviews}"
            review = to_bytes(make_review(pod, uid=uid))
            answer = admission.respond(
                review, self.cluster, self.policy, Clock(self.now, "2026-01-01T00:00:00Z")
            )
            assert answer.outcome is not Outcome.FAILED, answer.detail
            patched = apply(patch_in(answer.body), pod)
            named = [
                name
                for term in preferred_terms(patched)
                for name in term["preference"]["matchExpressions"][0]["values"]
            ]
            assert not named or self.could_take(pod).issuperset(named)
            if self.reviews % 2:
                patched["metadata"] |= {"uid": f"pod-{uid}", "name": f"pod-{uid}"}
                self.pods[f"pod-{uid}"] = patched
                self.tell(patched)
                if bound and named:
                    patched["spec"]["nodeName"] = named[0]
                    self.tell(patched)

    def could_take(self, pod: Json) -> set[str]:
        """Return the nodes that the filters allow, in a cluster built anew."""
        known = self.rebuilt().nodes
        rows = np.flatnonzero(filters.feasible(filters.demand(decode_pod(pod)), known))
        return {known.names[row] for row in rows}

    @rule(number=choices, name=names, phase=st.sampled_from(["Pending", "Running"]))
    def bind(self, number: int, name: str, phase: str) -> None:
        pod = self.pick(number)
        if pod is not None:
            pod["spec"].setdefault("nodeName", name)
            pod["status"] = {"phase": phase}
            self.tell(pod)

    @rule(number=choices, change=st.sampled_from(["label", "resize", "terminate", "nothing"]))
    def update(self, number: int, change: str) -> None:
        pod = self.pick(number)
        if pod is None:
            return
        if change == "label":
            pod["metadata"]["labels"] = {"app": "b"}
        if change == "resize":
            pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "3"}}
        if change == "terminate":
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.tell(pod)

    @rule(number=choices, finished=st.booleans())
    def end(self, number: int, *, finished: bool) -> None:
        pod = self.pick(number)
        if pod is None:
            return
        uid = pod["metadata"]["uid"]
        del self.pods[uid]
        if finished:
            self.tell(pod | {"status": {"phase": "Succeeded"}})
        else:
            self.cluster.remove_pod(uid)

    @rule(missed=choices)
    def list_pods(self, missed: int) -> None:
        """A watch that broke lists again; a Pod ended in the gap."""
        pod = self.pick(missed)
        if pod is not None and missed % 2:
            del self.pods[pod["metadata"]["uid"]]
        self.cluster.replace_pods([decode_pod(pod) for pod in self.pods.values()], self.now)

    @invariant()
    def the_snapshot_is_what_there_is(self) -> None:
        assert seen(self.cluster) == seen(self.rebuilt())

    @invariant()
    def the_ledger_holds_no_more_than_what_is_on_its_way(self) -> None:
        nodes, ledger = self.cluster.nodes, self.cluster.ledger
        held = np.array([nodes.reserved, nodes.unseen])
        assert (held > -1e-3).all()
        assert not held[:, :, ~nodes.exists][0].any()
        assert ledger.unseen <= self.cluster.pods <= len(self.pods)

    def teardown(self) -> None:
        self.pods.clear()
        self.cluster.replace_pods([], self.now)
        self.cluster.ledger.expire(self.now + EXPIRE_AFTER_S)
        nodes, learning = self.cluster.nodes, self.cluster.learning
        for column in (nodes.reserved, nodes.unseen, nodes.requested, nodes.scored, nodes.limits):
            assert not column.any()
        assert (self.cluster.ledger.in_flight, self.cluster.ledger.unseen, self.cluster.pods) == (0, 0, 0)
        assert (nodes.pods.shapes, learning.namespaces()) == (0, [])
        # Those that come after them take over their rows, and nothing else.
        self.cluster.replace_nodes([])
        self.cluster.replace_nodes([decode_node(make_node(f"new-{number}")) for number in range(20)])
        assert nodes.states(self.now, STALE_AFTER_S)["missing"] == 20
        assert not nodes.bindings.within(500.0, self.now, nodes.size).any()


def seen(cluster: Cluster) -> dict[str, Any]:
    """Return what the columns and the index of Pods say, by the names of nodes and resources."""
    nodes = cluster.nodes
    found: dict[str, Any] = {}
    for name in {*nodes.node_names(), *(nodes.names[row] for row in pods_by_row(cluster))}:
        row = nodes.row(name)
        assert row is not None
        resources = {
            resource: (int(nodes.allocatable[column, row]), int(nodes.requested[column, row]))
            for resource, column in nodes.resources.items()
        }
        found[name] = (
            bool(nodes.exists[row]),
            {resource: both for resource, both in resources.items() if any(both)},
            nodes.scored[:, row].tolist(),
            nodes.limits[:, row].tolist(),
            dict(nodes.labels(row)),
            bool(nodes.exists[row] and nodes.unschedulable[row]),
            sorted(map(repr, pods_by_row(cluster).get(row, ()))),
        )
    return found | {"pods": cluster.pods, "shapes": nodes.pods.shapes}


def pods_by_row(cluster: Cluster) -> dict[int, list[object]]:
    """Return the shapes of the bound Pods, with how many there are of each, by row."""
    found: dict[int, list[object]] = {}
    for group in cluster.nodes.pods.select(cluster.nodes.pods.namespaces, EVERY):
        for row, count in group.rows.items():
            found.setdefault(row, []).append((group.shape, count))
    return found


def test_the_snapshot_is_what_there_is_whatever_happens() -> None:
    run_state_machine_as_test(
        Storm, settings=settings(max_examples=120, stateful_step_count=40, deadline=None, derandomize=True)
    )
