"""An explanation: the answer that the server gives, and what it knew of every node."""

import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from tests.builders import (
    GIB,
    NOW,
    Json,
    decode_pod,
    give_reading,
    make_cluster,
    make_node,
    make_node_affinity,
    make_owner,
    make_pod,
    make_preferred,
    make_requirement,
    make_uneven_cluster,
    patch_in,
    to_bytes,
)
from webhook import admission, kube, policy
from webhook.admission import Clock
from webhook.cluster import Cluster
from webhook.explain import explanation
from webhook.load import View
from webhook.planner import Profile, Weighted
from webhook.policy import Policy
from webhook.snapshot import FloatArray

CLOCK = Clock(NOW, "2026-01-01T00:00:00Z")
ONLY_CPU = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\nprofile: {scorers: {utilization: {}}}\n"


def explained(
    pod: Json, cluster: Cluster, rules: Policy | None = None, *, namespace: str = "shop", now: float = NOW
) -> Json:
    """Return the explanation as it is printed."""
    rules, clock = rules or policy.default(), replace(CLOCK, now=now)
    answer = admission.respond(explanation.make_review(to_bytes(pod), namespace), cluster, rules, clock)
    found: Json = json.loads(
        msgspec.json.encode(explanation.explain(answer, decode_pod(pod), cluster, rules, clock))
    )
    return found


def namespace(name: str, **labels: str) -> kube.Named:
    return kube.Named(kube.Metadata(name=name, labels=labels))


def test_the_whole_of_it() -> None:
    cluster = make_cluster(
        make_node("n1"), make_node("n2"), make_node("n3", cpu=1), used={"n1": 4, "n2": 1, "n3": 0}
    )

    found = explained(make_pod(cpu=2, memory="1Gi"), cluster, policy.load(ONLY_CPU))

    # 100 x (1 - (used + 2) / 8), and 0 where one CPU cannot hold two.
    fresh = {"memory": {"state": "fresh", "value": 4 / 32}}
    nothing = {"cpu": 0.0, "memory": 0.0}
    assert found["nodes"] == [
        {
            "name": "n2",
            "feasible": True,
            "reasons": [],
            "scores": {"utilization": 62.5},
            "score": 62.5,
            "usage": {"cpu": {"state": "fresh", "value": 0.125}, **fresh},
            "reserved": nothing,
        },
        {
            "name": "n1",
            "feasible": True,
            "reasons": [],
            "scores": {"utilization": 25.0},
            "score": 25.0,
            "usage": {"cpu": {"state": "fresh", "value": 0.5}, **fresh},
            "reserved": nothing,
        },
        {
            "name": "n3",
            "feasible": False,
            "reasons": ["NodeResourcesFit: cpu: asks for 2, 1 of 1 is free"],
            "scores": {"utilization": 0.0},
            "score": 0.0,
            "usage": {"cpu": {"state": "fresh", "value": 0.0}, **fresh},
            "reserved": nothing,
        },
    ]
    assert found.keys() == {"nodes", "outcome", "reason", "plan", "patch"}
    assert (found["outcome"], found["reason"]) == ("steered", None)
    assert found["plan"] == {
        "terms": [{"weight": 100, "nodes": ["n2"]}],
        "spread": [],
        "priority_class": None,
    }
    assert [operation["path"] for operation in found["patch"]] == ["/spec/affinity", "/metadata/annotations"]


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_patch_plan_and_scores_are_those_of_the_answer(strength: float) -> None:
    rules = policy.load(
        "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\naudit: {verbosity: full}\n"
        f"profile: {{strength: {strength}}}\n"
    )
    pod = make_pod(cpu="500m")

    found = explained(pod, make_uneven_cluster(40), rules)

    body = explanation.make_review(to_bytes(pod), "shop")
    served = admission.respond(body, make_uneven_cluster(40), rules, CLOCK)
    assert found["patch"] == patch_in(served.body)
    terms = found["patch"][0]["value"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    everywhere = [node["name"] for node in found["nodes"]]
    assert found["plan"]["terms"] == [
        {
            "weight": term["weight"],
            "nodes": term["preference"]["matchExpressions"][0].get("values", everywhere),
        }
        for term in terms
    ]
    assert (len(terms) > len(served.plan.tiers if served.plan else ())) == (strength < 1)
    annotated = json.loads(found["patch"][1]["value"]["trimtab.dev/decision"])
    best = found["nodes"][: len(annotated["names"])]
    assert [node["name"] for node in best] == [name for name, _, _ in annotated["names"]]
    assert [round(node["score"], 2) for node in best] == annotated["scores"]
    for name, part in annotated["parts"].items():
        assert [round(node["scores"][name], 2) for node in best] == part


def test_a_term_names_nodes_though_their_hostnames_differ() -> None:
    cluster = make_cluster(
        make_node("n1", hostname="h1"), make_node("n2", hostname="h2"), used={"n1": 1, "n2": 2}
    )

    found = explained(make_pod(), cluster)

    assert found["plan"]["terms"] == [{"weight": 100, "nodes": ["n1"]}]


def test_nothing_is_reserved() -> None:
    cluster = make_uneven_cluster(5)

    assert explained(make_pod(cpu=1), cluster) == explained(make_pod(cpu=1), cluster)
    assert cluster.ledger.in_flight == 0
    assert not cluster.nodes.reserved.any()


def test_what_the_ledger_holds_is_shown_where_it_is_held() -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2"), used={"n1": 1, "n2": 2})
    admission.respond(to_bytes_review(make_pod(cpu=2, memory="1Gi")), cluster, policy.default(), CLOCK)
    cluster.set_pod(decode_pod(make_pod(uid="b", node="n2", cpu=3, memory="2Gi", phase="Pending")), NOW)

    reserved = {node["name"]: node["reserved"] for node in explained(make_pod(cpu=1), cluster)["nodes"]}

    # n1 is the only name, and FOLLOWED by chance; what is bound to n2 is there for certain.
    assert reserved == {
        "n1": {"cpu": pytest.approx(0.95 * 2), "memory": pytest.approx(0.95 * GIB)},
        "n2": {"cpu": 3.0, "memory": 2.0 * GIB},
    }


def to_bytes_review(pod: Json) -> bytes:
    return explanation.make_review(to_bytes(pod), "shop").replace(b'"dryRun":true', b'"dryRun":false')


def test_the_review_is_one_of_the_api_server() -> None:
    body = json.loads(explanation.make_review(to_bytes(make_pod(name="a")), "shop"))

    assert body["request"] | {"uid": ""} == {
        "uid": "",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "operation": "CREATE",
        "userInfo": {},
        "object": make_pod(name="a"),
        "oldObject": None,
        "dryRun": True,
    }


# What happened to n1's reading, allocatable CPU; state and share used of CPU, after 200 s.
READINGS: dict[str, tuple[Sequence[tuple[float, float]], object, tuple[str, float | None]]] = {
    "fresh": ([(2000, NOW + 100)], 8, ("fresh", 0.25)),
    "stale: 200 s old, and 180 is the limit": ([(2000, NOW)], 8, ("stale", None)),
    "missing": ([], 8, ("missing", None)),
    "invalid": ([(np.nan, NOW + 100)], 8, ("invalid", None)),
    "invalid: more than four times what is there": ([(32001, NOW + 100)], 8, ("invalid", None)),
    "no share of nothing": ([(2000, NOW + 100)], 0, ("fresh", None)),
}


@pytest.mark.parametrize(("readings", "cpu", "want"), READINGS.values(), ids=READINGS.keys())
def test_the_state_of_the_readings(
    readings: Sequence[tuple[float, float]], cpu: object, want: tuple[str, float | None]
) -> None:
    cluster = make_cluster(make_node("n1", cpu=cpu))
    for milli, at in readings:
        give_reading(cluster, "n1", milli, 4 * GIB, now=at, timestamp=at)

    (node,) = explained(make_pod(), cluster, now=NOW + 200)["nodes"]

    assert (node["usage"]["cpu"]["state"], node["usage"]["cpu"]["value"]) == want


def test_each_resource_has_a_state_of_its_own_and_a_virtual_node_says_so() -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2", labels={"type": "virtual-kubelet"}))
    give_reading(cluster, "n1", 2000, np.nan, now=NOW, timestamp=NOW)

    found = {node["name"]: node["usage"] for node in explained(make_pod(), cluster, now=NOW)["nodes"]}

    assert found["n1"] == {
        "cpu": {"state": "fresh", "value": 0.25},
        "memory": {"state": "invalid", "value": None},
    }
    assert found["n2"] == {key: {"state": "virtual", "value": None} for key in ("cpu", "memory")}


# The Pod, and the outcome and reason; every one still shows what would be.
SHOWN: dict[str, tuple[Json, str, str, str | None]] = {
    "opted out": (make_pod(annotations={"trimtab.dev/skip": "true"}), "shop", "skipped", "opted-out"),
    "of a DaemonSet": (
        make_pod(metadata={"ownerReferences": [make_owner("DaemonSet")]}),
        "shop",
        "skipped",
        "daemonset",
    ),
    "bound by its author": (make_pod(nodeName="n1"), "shop", "skipped", "node-name"),
    "a namespace without the label": (make_pod(), "plain", "skipped", "namespace-not-enabled"),
    "a namespace of the system": (make_pod(), "kube-system", "skipped", "system-namespace"),
    "its own terms leave no room": (
        make_pod(affinity=make_node_affinity(preferred=[make_preferred(1, make_requirement("a", "Exists"))])),
        "shop",
        "skipped",
        "user-terms",
    ),
    "its own terms cannot be": (
        make_pod(
            affinity=make_node_affinity(preferred=[make_preferred(10**30, make_requirement("a", "Exists"))])
        ),
        "plain",
        "skipped",
        "namespace-not-enabled",
    ),
    "shadow": (make_pod(), "watched", "shadow", "shadow"),
}


@pytest.mark.parametrize(("pod", "where", "outcome", "reason"), SHOWN.values(), ids=SHOWN.keys())
def test_what_would_be_is_shown_for_a_pod_that_is_left_alone(
    pod: Json, where: str, outcome: str, reason: str
) -> None:
    cluster = make_uneven_cluster(5)
    cluster.set_namespace(namespace("plain"))
    cluster.set_namespace(namespace("watched", **{"trimtab.dev/steering": "shadow"}))

    found = explained(pod, cluster, namespace=where)

    assert (found["outcome"], found["reason"]) == (outcome, reason)
    steered = explained(make_pod(), cluster)
    assert found["nodes"] == steered["nodes"]
    assert found["plan"]["terms"] == (steered["plan"]["terms"] if outcome == "shadow" else [])


def test_no_candidate() -> None:
    found = explained(make_pod(cpu=100), make_uneven_cluster(5))

    assert (found["outcome"], found["reason"]) == ("skipped", "no-candidates")
    assert all(node["score"] is not None and node["reasons"] for node in found["nodes"])


def test_a_quantity_that_is_none() -> None:
    found = explained(make_pod(cpu="lots"), make_uneven_cluster(5))

    assert found == {
        "nodes": [],
        "outcome": "skipped",
        "reason": "bad-quantity",
        "plan": {"terms": [], "spread": [], "priority_class": None},
        "patch": [],
    }


class Choosy:
    """Says something of the last node only, and fails where it is told to."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def score(self, view: View) -> FloatArray:
        if self.fails:
            raise ArithmeticError("no score")
        return np.where(np.arange(view.used.shape[1]) == view.used.shape[1] - 1, 30.0, np.nan)


def scored_by(*scorers: Weighted) -> Policy:
    return replace(policy.default(), profile=Profile(scorers))


def test_a_neutral_score_is_null_and_comes_last() -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2"), make_node("n3"))

    found = explained(make_pod(), cluster, scored_by(Weighted("choosy", Choosy(), 1.0)))

    assert [(node["name"], node["scores"], node["score"]) for node in found["nodes"]] == [
        ("n3", {"choosy": 30.0}, 30.0),
        ("n1", {"choosy": None}, None),
        ("n2", {"choosy": None}, None),
    ]


def test_a_failure() -> None:
    found = explained(
        make_pod(), make_uneven_cluster(3), scored_by(Weighted("choosy", Choosy(fails=True), 1.0))
    )

    assert (found["nodes"], found["outcome"], found["reason"], found["patch"]) == ([], "failed", "error", [])


def test_of_equal_scores_the_feasible_come_first() -> None:
    cluster = make_cluster(
        make_node("n1", unschedulable=True), make_node("n2"), make_node("n3", ready="False"), make_node("n4")
    )

    found = explained(make_pod(), cluster)

    assert [node["name"] for node in found["nodes"]] == ["n2", "n4", "n1", "n3"]


def test_a_node_that_only_pods_name_is_none() -> None:
    cluster = make_cluster(make_node("n1"))
    cluster.set_pod(decode_pod(make_pod(uid="a", node="gone", cpu=1)), None)

    assert [node["name"] for node in explained(make_pod(), cluster)["nodes"]] == ["n1"]
