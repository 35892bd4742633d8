"""One review to one answer: the guard, the decision, and the barrier that never refuses."""

import base64
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jsonpatch
import numpy as np
import pytest

from tests.builders import (
    NOW,
    Json,
    apply,
    decode_pod,
    give_reading,
    make_cluster,
    make_container,
    make_node,
    make_node_affinity,
    make_owner,
    make_pod,
    make_preferred,
    make_requirement,
    make_review,
    make_term,
    make_uneven_cluster,
    patch_in,
    preferred_terms,
    to_bytes,
)
from webhook import admission, decision, kube, patch, policy
from webhook.admission import Answer, Clock
from webhook.cluster import Cluster
from webhook.ledger import Load, Share
from webhook.load import View
from webhook.peers import Peers
from webhook.planner import Profile, Weighted
from webhook.policy import Policy
from webhook.reasons import Outcome, Reason
from webhook.review import ReviewError
from webhook.snapshot import FloatArray

CLOCK = Clock(NOW, "2026-01-01T00:00:00Z")
DECISION = "/metadata/annotations/trimtab.dev~1decision"
FORGED = {"trimtab.dev/decision": "steered", "trimtab.dev/score": "100", "team": "a"}
REMOVED = [
    {"op": "remove", "path": DECISION},
    {"op": "remove", "path": "/metadata/annotations/trimtab.dev~1score"},
]


def respond(
    pod: object,
    *,
    cluster: Cluster | None = None,
    rules: Policy | None = None,
    late: bool = False,
    **request: Any,
) -> Answer:
    return admission.respond(
        to_bytes(make_review(pod, **request)),
        cluster or make_uneven_cluster(5),
        rules or policy.default(),
        CLOCK,
        late=late,
    )


def response(answer: Answer) -> Json:
    """Return what the API server reads, after checking what holds for every answer."""
    body = json.loads(answer.body)
    assert body["apiVersion"] == "admission.k8s.io/v1"
    assert body["kind"] == "AdmissionReview"
    found: Json = body["response"]
    assert found["allowed"] is True
    assert found["uid"] == answer.uid == "review-1"
    assert ("patch" in found) == ("patchType" in found)
    assert found.keys() <= {"uid", "allowed", "patch", "patchType", "auditAnnotations"}
    return found


def read_decision(pod: Json) -> Json:
    found: Json = json.loads(pod["metadata"]["annotations"][decision.DECISION])
    return found


def required(*terms: Json) -> Json:
    return {"affinity": make_node_affinity(required=terms)}


ON_N1 = make_requirement(kube.HOSTNAME, "In", "n1")
FIELD_N1 = make_requirement("metadata.name", "In", "n1")


# What the request alone tells: no operation at all, whatever the Pod carries.
NOT_ASKED: dict[str, tuple[dict[str, Any], Reason]] = {
    "another group": ({"kind": {"group": "apps", "version": "v1", "kind": "Pod"}}, Reason.WRONG_KIND),
    "another version": ({"kind": {"group": "", "version": "v2", "kind": "Pod"}}, Reason.WRONG_KIND),
    "another kind (op-wrong-kind)": (
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        Reason.WRONG_KIND,
    ),
    "no kind": ({"kind": ...}, Reason.WRONG_KIND),
    "ephemeral containers": ({"subResource": "ephemeralcontainers"}, Reason.SUBRESOURCE),
    "binding": ({"subResource": "binding"}, Reason.SUBRESOURCE),
    "eviction": ({"subResource": "eviction"}, Reason.SUBRESOURCE),
    "resize, which is an update": ({"subResource": "resize", "operation": "UPDATE"}, Reason.SUBRESOURCE),
    "update": ({"operation": "UPDATE"}, Reason.WRONG_OPERATION),
    "delete": ({"operation": "DELETE", "object": None, "oldObject": make_pod()}, Reason.WRONG_OPERATION),
    "connect": ({"operation": "CONNECT"}, Reason.WRONG_OPERATION),
    "no operation": ({"operation": ...}, Reason.WRONG_OPERATION),
    "another case": ({"operation": "create"}, Reason.WRONG_OPERATION),
    "object null (op-object-null-create)": ({"object": None}, Reason.NO_OBJECT),
    "no object": ({"object": ...}, Reason.NO_OBJECT),
    "own namespace (ns-own)": ({"namespace": "trimtab-system"}, Reason.OWN_NAMESPACE),
    "kube-system": ({"namespace": "kube-system"}, Reason.SYSTEM_NAMESPACE),
    "kube-public": ({"namespace": "kube-public"}, Reason.SYSTEM_NAMESPACE),
    "kube-node-lease": ({"namespace": "kube-node-lease"}, Reason.SYSTEM_NAMESPACE),
    "a namespace without the label (ns-unlabelled)": ({"namespace": "quiet"}, Reason.NOT_ENABLED),
    "the kind is looked at before the subresource": (
        {"kind": {"kind": "Pod"}, "subResource": "binding"},
        Reason.WRONG_KIND,
    ),
    "the operation before the namespace": (
        {"operation": "UPDATE", "namespace": "kube-system"},
        Reason.WRONG_OPERATION,
    ),
    "the object before the namespace": ({"object": None, "namespace": "quiet"}, Reason.NO_OBJECT),
}


@pytest.mark.parametrize(("request_fields", "reason"), NOT_ASKED.values(), ids=NOT_ASKED.keys())
def test_a_request_that_is_not_for_us_gets_no_operation(
    request_fields: dict[str, Any], reason: Reason
) -> None:
    cluster = make_uneven_cluster(5)
    cluster.namespaces["quiet"] = {}

    answer = respond(make_pod(annotations=FORGED), cluster=cluster, **request_fields)

    assert (answer.outcome, answer.reason) == (Outcome.SKIPPED, reason)
    assert response(answer) == {"uid": "review-1", "allowed": True}


# A Pod that cannot be read, or that only a kubelet may write: no operation at all either.
UNTOUCHED: dict[str, tuple[object, Reason]] = {
    "no Pod": ("text", Reason.UNREADABLE),
    "an empty object": ({}, Reason.UNREADABLE),
    "no spec": ({"metadata": {"annotations": FORGED}}, Reason.UNREADABLE),
    "containers of another type": (make_pod(annotations=FORGED, containers="none"), Reason.UNREADABLE),
    "a weight with a fraction": (
        make_pod(affinity=make_node_affinity(preferred=[make_preferred(1.5)])),
        Reason.UNREADABLE,
    ),
    "a bad quantity (res-bad-quantity)": (make_pod(cpu="lots", annotations=FORGED), Reason.BAD_QUANTITY),
    "a negative quantity": (make_pod(memory="-1Gi"), Reason.BAD_QUANTITY),
    "a mirror Pod (skip-mirror)": (
        make_pod(annotations={**FORGED, "kubernetes.io/config.mirror": "abc"}, node="n1"),
        Reason.MIRROR,
    ),
    "a mirror Pod that opts out": (
        make_pod(annotations={"trimtab.dev/skip": "true", "kubernetes.io/config.mirror": ""}),
        Reason.MIRROR,
    ),
}


@pytest.mark.parametrize(("pod", "reason"), UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_a_pod_that_nobody_may_touch_gets_no_operation(pod: object, reason: Reason) -> None:
    answer = respond(pod)

    assert (answer.outcome, answer.reason) == (Outcome.SKIPPED, reason)
    assert response(answer) == {"uid": "review-1", "allowed": True}


# By nature not ours: forged outputs are removed, and nothing else.
NOT_OURS: dict[str, tuple[dict[str, Any], Reason]] = {
    "opted out by label": ({"labels": {"trimtab.dev/skip": "true"}}, Reason.OPTED_OUT),
    "opted out by annotation (skip-opt-out)": (
        {"annotations": {**FORGED, "trimtab.dev/skip": "true"}},
        Reason.OPTED_OUT,
    ),
    "a Pod of a DaemonSet": (
        {"metadata": {"ownerReferences": [make_owner("DaemonSet")]}},
        Reason.DAEMONSET,
    ),
    "placed already": ({"node": "n1"}, Reason.NODE_NAME),
    "another scheduler (skip-other-scheduler)": ({"schedulerName": "packer"}, Reason.FOREIGN_SCHEDULER),
    "gated (gate-plain)": ({"schedulingGates": [{"name": "example.com/wait"}]}, Reason.GATED),
    "pinned by the node selector (aff-hostname-pinned)": (
        {"nodeSelector": {kube.HOSTNAME: "n1"}},
        Reason.PINNED,
    ),
    "pinned by a field (skip-matchfields-no-owner)": (
        required(make_term(fields=[FIELD_N1])),
        Reason.PINNED,
    ),
    "pinned by a label": (required(make_term(ON_N1)), Reason.PINNED),
    "pinned, and more than that": (
        required(make_term(ON_N1, make_requirement("disk", "Exists"))),
        Reason.PINNED,
    ),
    "pinned to the same node in every term": (
        required(make_term(ON_N1), make_term(ON_N1, make_requirement("disk", "Exists"))),
        Reason.PINNED,
    ),
    "the opt-out is looked at before the owner": (
        {
            "labels": {"trimtab.dev/skip": "true"},
            "metadata": {"ownerReferences": [make_owner("DaemonSet")]},
        },
        Reason.OPTED_OUT,
    ),
    "the owner before the node": (
        {"metadata": {"ownerReferences": [make_owner("DaemonSet")]}, "node": "n1"},
        Reason.DAEMONSET,
    ),
    "the node before the scheduler (gate-and-nodename)": (
        {"node": "n1", "schedulerName": "packer", "schedulingGates": [{"name": "x"}]},
        Reason.NODE_NAME,
    ),
    "the scheduler before the gates": (
        {"schedulerName": "packer", "schedulingGates": [{"name": "x"}]},
        Reason.FOREIGN_SCHEDULER,
    ),
    "the gates before the pin": (
        {"schedulingGates": [{"name": "x"}], "nodeSelector": {kube.HOSTNAME: "n1"}},
        Reason.GATED,
    ),
}


@pytest.mark.parametrize(("fields", "reason"), NOT_OURS.values(), ids=NOT_OURS.keys())
def test_a_pod_that_is_not_ours_loses_forged_outputs_and_nothing_else(
    fields: dict[str, Any], reason: Reason
) -> None:
    cold = make_uneven_cluster(5)
    cold.synced = False

    answer = respond(make_pod(**{"annotations": FORGED, **fields}), cluster=cold, late=True)

    assert (answer.outcome, answer.reason) == (Outcome.SKIPPED, reason)
    response(answer)
    assert patch_in(answer.body) == REMOVED


@pytest.mark.parametrize(("fields", "reason"), NOT_OURS.values(), ids=NOT_OURS.keys())
def test_a_pod_that_is_not_ours_and_forged_nothing_gets_no_operation(
    fields: dict[str, Any], reason: Reason
) -> None:
    annotations = {key: text for key, text in fields.get("annotations", {}).items() if key not in FORGED}

    answer = respond(make_pod(**{**fields, "annotations": annotations}))

    assert answer.reason == reason
    assert response(answer) == {"uid": "review-1", "allowed": True}


# Ours, but nothing is injected: the decision annotation with the reason, and nothing else. So says the
# design's table, also where the shared case says "no patch" (state-cold-cache, req-short-deadline).
NOTHING_TO_INJECT: dict[str, tuple[Callable[[], Answer], Reason]] = {
    "state-cold-cache": (
        lambda: respond(make_pod(), cluster=make_cluster(make_node("n1"), synced=False)),
        Reason.CACHE_COLD,
    ),
    "req-short-deadline": (lambda: respond(make_pod(), late=True), Reason.DEADLINE),
    "late and cold": (
        lambda: respond(make_pod(), cluster=make_cluster(make_node("n1"), synced=False), late=True),
        Reason.DEADLINE,
    ),
    "state-no-nodes": (lambda: respond(make_pod(), cluster=make_cluster()), Reason.NO_CANDIDATES),
    "fits nowhere": (lambda: respond(make_pod(cpu="64")), Reason.NO_CANDIDATES),
    "nodes alike (aff-equal-scores)": (
        lambda: respond(make_pod(), cluster=make_cluster(make_node("n1"), make_node("n2"))),
        Reason.EQUAL_SCORES,
    ),
    "all over a threshold": (
        lambda: respond(
            make_pod(),
            rules=policy.load(
                "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\nprofile: {thresholds: {cpu: 0.1}}"
            ),
        ),
        Reason.OVER_THRESHOLDS,
    ),
    "the user's terms leave no room": (
        lambda: respond(
            make_pod(
                affinity=make_node_affinity(
                    preferred=[make_preferred(1, make_requirement("disk", "In", "ssd"))]
                )
            )
        ),
        Reason.USER_TERMS,
    ),
}


@pytest.mark.parametrize(("ask", "reason"), NOTHING_TO_INJECT.values(), ids=NOTHING_TO_INJECT.keys())
def test_a_pod_that_is_ours_says_why_nothing_was_injected(ask: Callable[[], Answer], reason: Reason) -> None:
    answer = ask()

    assert (answer.outcome, answer.reason) == (Outcome.SKIPPED, reason)
    (operation,) = patch_in(answer.body)
    assert (operation["op"], operation["path"]) == ("add", "/metadata/annotations")
    (value,) = operation["value"].values()
    said = json.loads(value)
    assert (said["outcome"], said["reason"]) == ("skipped", reason)
    assert not {"names", "digest", "scores"} & said.keys()
    assert response(answer)["auditAnnotations"] == {"outcome": "skipped", "reason": reason}


STEERED: dict[str, dict[str, Any]] = {
    "a plain Pod": {},
    "no name yet (op-generate-name)": {"metadata": {"name": None}},
    "a Pod of a ReplicaSet": {"metadata": {"ownerReferences": [make_owner("ReplicaSet")]}},
    "a Pod that a DaemonSet owns without controlling it": {
        "metadata": {"ownerReferences": [make_owner("DaemonSet", controller=False)]}
    },
    "an opt-out of false": {"annotations": {"trimtab.dev/skip": "false"}},
    "an opt-out of another case": {"labels": {"trimtab.dev/skip": "True"}},
    "no scheduler named": {"schedulerName": ""},
    "a scheduler of null": {"schedulerName": None},
    "no gates": {"schedulingGates": []},
    "gates of null": {"schedulingGates": None},
    "a node name that is empty": {"nodeName": ""},
    "required to two nodes": required(make_term(make_requirement(kube.HOSTNAME, "In", "n1", "n2"))),
    "required to one of two nodes by two terms": required(
        make_term(ON_N1), make_term(make_requirement(kube.HOSTNAME, "In", "n2"))
    ),
    "required to a node or a zone": required(
        make_term(ON_N1), make_term(make_requirement(kube.ZONE, "In", "a"))
    ),
    "required off a node": required(make_term(make_requirement(kube.HOSTNAME, "NotIn", "n1"))),
    "the namespace of the object does not count (ns-object-blank)": {"namespace": "kube-system"},
}


@pytest.mark.parametrize("fields", STEERED.values(), ids=STEERED.keys())
def test_a_pod_is_steered(fields: dict[str, Any]) -> None:
    raw = make_pod(**fields)

    answer = respond(raw)

    assert (answer.outcome, answer.reason) == (Outcome.STEERED, None)
    patched = apply(patch_in(answer.body), raw)
    said = read_decision(patched)
    terms = preferred_terms(patched)
    assert said["digest"] == decision.digest(terms)
    assert said["names"][0] == [terms[0]["preference"]["matchExpressions"][0]["values"][0], 1, 100]
    assert response(answer)["auditAnnotations"] == {"outcome": "steered"}


def test_the_least_used_node_that_will_do_is_named_first() -> None:
    cluster = make_uneven_cluster(7)  # node i uses 0.5 + 6.5 (i mod 7) / 7: n1 least, n7 most

    def first(pod: Json) -> str:
        name: str = read_decision(apply(patch_in(respond(pod, cluster=cluster, dryRun=True).body), pod))[
            "names"
        ][0][0]
        return name

    assert first(make_pod()) == "n1"
    assert first(make_pod(nodeSelector={"disk": "hdd"})) == "n2"
    assert first(make_pod(**required(make_term(make_requirement(kube.HOSTNAME, "NotIn", "n1"))))) == "n2"


def test_what_the_answer_says_to_the_log() -> None:
    named = respond(make_pod(name="web-1"), name="web-1")
    generated = respond(make_pod(), name="")
    unreadable = respond("text", name="web-2")

    assert (named.name, named.namespace, named.dry_run, named.detail) == ("web-1", "shop", False, "")
    assert generated.name == "web-"
    assert (unreadable.name, unreadable.namespace) == ("web-2", "shop")


def test_the_decision_says_what_was_known() -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2"), make_node("n3"), used={"n1": 1.0, "n2": 9.0})
    give_reading(cluster, "n2", -1.0, 0.0, timestamp=NOW + 1)
    raw = make_pod()

    said = read_decision(apply(patch_in(respond(raw, cluster=cluster).body), raw))

    assert said["id"] == "review-1"
    assert said["nodes"] == {"fresh": 1, "stale": 0, "missing": 1, "invalid": 1}
    assert (said["policy"], said["hash"], said["time"]) == ("built-in", "built-in", CLOCK.time)
    assert "scores" not in said


def test_scores_are_told_only_where_the_policy_says_so() -> None:
    raw = make_pod()
    answer = respond(raw, rules=replace(policy.default(), full_audit=True))

    assert read_decision(apply(patch_in(answer.body), raw))["scores"]


# Forged outputs on a Pod that is ours.

OURS: dict[str, dict[str, Any]] = {
    "steered": {},
    "nothing to inject": {"cpu": "64"},
}


@pytest.mark.parametrize("fields", OURS.values(), ids=OURS.keys())
def test_forged_outputs_are_overwritten_or_removed_and_inputs_stay(fields: dict[str, Any]) -> None:
    inputs = {"trimtab.dev/near": "db", "trimtab.dev/expected-cpu": "1", "team": "a"}
    raw = make_pod(annotations={**FORGED, **inputs}, **fields)

    patched = apply(patch_in(respond(raw).body), raw)

    annotations = patched["metadata"]["annotations"]
    assert annotations.keys() == {*inputs, decision.DECISION}
    assert inputs.items() <= annotations.items()
    assert read_decision(patched)["id"] == "review-1"


def test_a_crowd_of_forged_outputs_keeps_none_of_them() -> None:
    raw = make_pod(annotations={"team": "a"} | {f"trimtab.dev/forged-{number}": "x" for number in range(500)})

    answer = respond(raw)

    assert answer.outcome is Outcome.STEERED
    assert apply(patch_in(answer.body), raw)["metadata"]["annotations"].keys() == {"team", decision.DECISION}


def test_a_forged_decision_goes_even_where_there_is_no_room_for_ours() -> None:
    raw = make_pod(annotations={**FORGED, "team": "x" * 262_100})  # audit-near-cap

    answer = respond(raw)

    assert answer.outcome is Outcome.STEERED
    patched = apply(patch_in(answer.body), raw)
    assert patched["metadata"]["annotations"].keys() == {"team"}
    assert preferred_terms(patched)


# A second pass.


def twice(raw: Json, cluster: Cluster, **request: Any) -> tuple[Answer, list[Json]]:
    """Return the second answer, and its operations, to a Pod that was patched by the first."""
    patched = apply(patch_in(respond(raw, cluster=cluster, **request).body), raw)
    second = admission.respond(
        to_bytes(make_review(patched, **{**request, "uid": "review-2"})),
        cluster,
        policy.default(),
        Clock(NOW + 1, "2026-01-01T00:00:01Z"),
    )
    return second, patch_in(second.body)


AGAIN: dict[str, tuple[Json, Cluster]] = {
    "steered": (make_pod(), make_uneven_cluster(5)),
    "steered beside the user's terms": (
        make_pod(
            affinity=make_node_affinity(preferred=[make_preferred(50, make_requirement("disk", "In", "ssd"))])
        ),
        make_uneven_cluster(5),
    ),
    "nothing to inject": (make_pod(cpu="64"), make_uneven_cluster(5)),
    "cold": (make_pod(), make_cluster(make_node("n1"), synced=False)),
    # The user's own term names a node, so nothing is added to it, now or then.
    "aff-already-injected": (
        make_pod(
            annotations={"trimtab.dev/decision": "injected"},
            affinity=make_node_affinity(preferred=[make_preferred(30, fields=[FIELD_N1])]),
        ),
        make_uneven_cluster(5),
    ),
}


@pytest.mark.parametrize(("raw", "cluster"), AGAIN.values(), ids=AGAIN.keys())
@pytest.mark.parametrize("steering", ["enabled", "shadow"])
def test_a_second_pass_changes_nothing(raw: Json, cluster: Cluster, steering: str) -> None:
    cluster.namespaces["shop"] = {"trimtab.dev/steering": steering}

    second, operations = twice(raw, cluster, dryRun=True)

    assert operations == []
    assert (second.outcome, second.reason) == (Outcome.SKIPPED, Reason.ALREADY_DECIDED)


def test_a_second_pass_neither_reserves_again_nor_keeps_what_was_forged_in_between() -> None:
    cluster = make_uneven_cluster(5)
    raw = make_pod(annotations={"team": "a"})
    patched = apply(patch_in(respond(raw, cluster=cluster).body), raw)
    before = cluster.nodes.reserved.copy()
    patched["metadata"]["annotations"]["trimtab.dev/score"] = "100"

    second = respond(patched, cluster=cluster)

    assert patch_in(second.body) == [{"op": "remove", "path": "/metadata/annotations/trimtab.dev~1score"}]
    assert second.reason is Reason.ALREADY_DECIDED
    np.testing.assert_array_equal(cluster.nodes.reserved, before)


# Reservations.


def test_a_steered_pod_is_reserved_where_it_may_go() -> None:
    cluster = make_uneven_cluster(5)
    raw = make_pod(cpu="1", memory="1Gi")

    patched = apply(patch_in(respond(raw, cluster=cluster).body), raw)

    # Three names of five nodes, all of which the scheduler scores, one and two: 0.95, and the pair has
    # 0.05 x (1 - 0.05^2) = 0.049875 between them.
    rows = [
        row for name, _, _ in read_decision(patched)["names"] if (row := cluster.nodes.row(name)) is not None
    ]
    assert cluster.ledger.in_flight == 1
    assert cluster.nodes.reserved[0, rows].tolist() == pytest.approx([950, 24.9375, 24.9375])
    assert cluster.nodes.reserved[0].sum() == pytest.approx(999.875)


def test_the_next_pod_of_a_burst_sees_the_one_before() -> None:
    cluster = make_uneven_cluster(20)
    firsts = []
    for number in range(12):
        raw = make_pod(cpu="1", memory="1Gi")
        answer = admission.respond(
            to_bytes(make_review(raw, uid=f"r{number}")), cluster, policy.default(), CLOCK
        )
        firsts.append(read_decision(apply(patch_in(answer.body), raw))["names"][0][0])

    assert cluster.ledger.in_flight == 12
    assert len(set(firsts)) >= 6  # three nodes are idle, three nearly; none takes all


def test_beside_other_replicas_a_pod_counts_for_theirs_until_it_is_seen() -> None:
    cluster = make_uneven_cluster(5)
    cluster.peers = Peers("a")
    for replica in ("b", "c"):
        cluster.peers.saw(replica)
    cluster.ledger.reserve("in flight", Load(0.0, 0.0), Share.of([], []), CLOCK.now)
    raw = make_pod(uid="pod", cpu="1", memory="1Gi")

    patched = apply(patch_in(respond(raw, cluster=cluster).body), raw)

    assert cluster.nodes.reserved[0].sum() == pytest.approx(3 * 999.875)
    cluster.set_pod(decode_pod(patched), CLOCK.now)
    assert cluster.nodes.reserved[0].sum() == pytest.approx(999.875)


def test_a_retry_of_the_same_review_reserves_once() -> None:
    cluster = make_uneven_cluster(5)

    respond(make_pod(cpu="1"), cluster=cluster)
    respond(make_pod(cpu="1"), cluster=cluster)

    assert cluster.ledger.in_flight == 1
    assert cluster.nodes.reserved[0].sum() <= 1000


def test_a_reservation_that_no_watch_ever_shows_is_gone_with_the_next_review() -> None:
    cluster = make_uneven_cluster(5)
    respond(make_pod(cpu="4"), cluster=cluster)

    admission.respond(
        to_bytes(make_review(make_pod(cpu="1"), uid="review-2")),
        cluster,
        policy.default(),
        Clock(NOW + 31, "later"),
    )

    assert cluster.ledger.in_flight == 1
    assert cluster.nodes.reserved[0].sum() <= 1000


UNRESERVED: dict[str, Callable[[Cluster], Answer]] = {
    "dry-run": lambda cluster: respond(make_pod(), cluster=cluster, dryRun=True),
    "shadow": lambda cluster: respond(make_pod(), cluster=cluster, namespace="dark"),
    "nothing to inject": lambda cluster: respond(make_pod(cpu="64"), cluster=cluster),
    "late": lambda cluster: respond(make_pod(), cluster=cluster, late=True),
    "opted out": lambda cluster: respond(make_pod(labels={"trimtab.dev/skip": "true"}), cluster=cluster),
}


@pytest.mark.parametrize("ask", UNRESERVED.values(), ids=UNRESERVED.keys())
def test_nothing_is_reserved(ask: Callable[[Cluster], Answer]) -> None:
    cluster = make_uneven_cluster(5)
    cluster.namespaces["dark"] = {"trimtab.dev/steering": "shadow"}

    assert ask(cluster).outcome is not Outcome.FAILED

    assert cluster.ledger.in_flight == 0
    assert not cluster.nodes.reserved.any()


def test_a_dry_run_gives_the_same_operations() -> None:  # op-dry-run
    dry, wet = (respond(make_pod(cpu="1"), dryRun=dry) for dry in (True, False))

    assert response(dry) == response(wet)
    assert (dry.dry_run, wet.dry_run) == (True, False)


def test_shadow_decides_and_annotates_and_injects_nothing() -> None:
    cluster = make_uneven_cluster(5)
    cluster.namespaces["shop"] = {"trimtab.dev/steering": "shadow"}
    raw = make_pod(annotations={"team": "a"})
    bright = read_decision(apply(patch_in(respond(raw).body), raw))

    answer = respond(raw, cluster=cluster)

    assert (answer.outcome, answer.reason) == (Outcome.SHADOW, Reason.SHADOW)
    patched = apply(patch_in(answer.body), raw)
    assert patched["spec"] == raw["spec"]
    said = read_decision(patched)
    assert (said["outcome"], said["reason"]) == ("shadow", "shadow")
    assert said["names"] == bright["names"]
    assert "digest" not in said


# The barrier.


@dataclass(frozen=True, slots=True)
class Broken:
    """A scorer that raises, or returns something it should not."""

    result: object

    def score(self, _nodes: View) -> FloatArray:
        if isinstance(self.result, BaseException):
            raise self.result
        return np.asarray(self.result)


def with_scorer(result: object) -> Policy:
    return replace(policy.default(), profile=Profile((Weighted("broken", Broken(result), 1.0),)))


BROKEN: dict[str, object] = {
    "an error": ZeroDivisionError("division by zero"),
    "an error without a text": ValueError(),
    "no memory": MemoryError(),
    "too deep": RecursionError("maximum recursion depth exceeded"),
    "an error that is a review's": ReviewError("not a review"),
    "the wrong number of scores": [1.0, 2.0],
    "scores that are texts": ["high"] * 5,
    "no scores": None,
}


@pytest.mark.parametrize("result", BROKEN.values(), ids=BROKEN.keys())
def test_whatever_a_scorer_does_the_pod_is_admitted_without_a_patch(result: object) -> None:
    cluster = make_uneven_cluster(5)

    answer = respond(make_pod(annotations=FORGED), cluster=cluster, rules=with_scorer(result))

    assert (answer.outcome, answer.reason) == (Outcome.FAILED, Reason.ERROR)
    assert answer.detail
    assert response(answer) == {"uid": "review-1", "allowed": True}
    assert cluster.ledger.in_flight == 0


def test_a_scorer_with_nothing_to_say_is_no_error() -> None:
    answer = respond(make_pod(), rules=with_scorer([float("nan")] * 5))

    assert answer.reason is Reason.NO_CANDIDATES


def test_no_number_that_json_lacks_leaves_the_process() -> None:  # aff-score-nan
    rules = replace(with_scorer([float("nan"), float("inf"), 5.0, 7.0, 6.0]), full_audit=True)
    raw = make_pod()

    answer = respond(raw, rules=rules)

    patched = apply(patch_in(answer.body), raw)
    for text in (answer.body.decode(), json.dumps(patch_in(answer.body))):
        assert "NaN" not in text
        assert "Infinity" not in text
    assert read_decision(patched)["names"][0][0] == "n4"


def test_a_patch_that_is_not_safe_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch, "problem", lambda *_: "no such parent")
    cluster = make_uneven_cluster(5)

    answer = respond(make_pod(), cluster=cluster)

    assert (answer.outcome, answer.reason) == (Outcome.FAILED, Reason.PATCH_UNSAFE)
    assert "no such parent" in answer.detail
    assert response(answer) == {"uid": "review-1", "allowed": True}
    assert cluster.ledger.in_flight == 0


def test_a_ledger_that_fails_does_not_cost_the_pod_its_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_uneven_cluster(5)

    def fail(*_: object) -> None:
        raise KeyError("row")

    monkeypatch.setattr(cluster.ledger, "reserve", fail)

    answer = respond(make_pod(), cluster=cluster)

    assert answer.outcome is Outcome.FAILED
    assert response(answer) == {"uid": "review-1", "allowed": True}


def test_a_body_that_is_no_review_is_the_callers_error() -> None:
    with pytest.raises(ReviewError):
        admission.respond(b"[]", Cluster(), policy.default(), CLOCK)


def test_a_pod_of_absurd_size_is_skipped_for_what_it_is() -> None:
    absurd = [{"name": f"c{n}", "resources": {"requests": {"memory": "9E", "cpu": "9E"}}} for n in range(3)]

    assert respond(make_pod(containers=absurd)).reason is Reason.NO_CANDIDATES


CROWDS: dict[str, tuple[int, Callable[[int], dict[str, Any]]]] = {
    "required terms": (
        10_000,
        lambda count: required(*[make_term(make_requirement(kube.HOSTNAME, "Exists"))] * count),
    ),
    "preferred terms": (
        5_000,
        lambda count: {
            "affinity": make_node_affinity(
                preferred=[make_preferred(100, make_requirement("disk", "In", "ssd"))] * count
            )
        },
    ),
    "tolerations": (
        10_000,
        lambda count: {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(count)]},
    ),
    "a node selector": (10_000, lambda count: {"nodeSelector": {f"k{n}": "x" for n in range(count)}}),
    "annotations of ours": (
        8_000,
        lambda count: {"annotations": {f"trimtab.dev/{n}": "x" for n in range(count)}},
    ),
}


@pytest.mark.parametrize(("many", "fields"), CROWDS.values(), ids=CROWDS.keys())
def test_a_pod_of_a_megabyte_costs_no_more_than_it_is_larger(
    many: int, fields: Callable[[int], dict[str, Any]]
) -> None:
    # The decision is made on the event loop: what one Pod takes, all others wait for.
    cluster = make_uneven_cluster(2_000)

    def cost(count: int) -> float:
        body = to_bytes(make_review(make_pod(**fields(count))))
        times = []
        for _ in range(3):
            start = time.thread_time()
            assert admission.respond(body, cluster, policy.default(), CLOCK).outcome is not Outcome.FAILED
            times.append(time.thread_time() - start)
        return min(times)

    assert cost(many) < 3 * 8 * cost(many // 8)


def test_a_patch_is_base64_of_a_json_array() -> None:
    found = response(respond(make_pod()))

    assert found["patchType"] == "JSONPatch"
    assert isinstance(json.loads(base64.b64decode(found["patch"], validate=True)), list)


def test_the_audit_annotations_are_names_without_a_slash() -> None:  # audit-response-keys
    for raw in (make_pod(), make_pod(cpu="64")):
        audit = response(respond(raw))["auditAnnotations"]
        assert all(key.isalnum() and len(key) <= 63 for key in audit)
        assert all(isinstance(text, str) for text in audit.values())


def test_every_reason_is_shown_by_a_row() -> None:
    tables = (NOT_ASKED, UNTOUCHED, NOT_OURS, NOTHING_TO_INJECT)
    shown = {reason for table in tables for _, reason in table.values()}
    elsewhere = {Reason.SHADOW, Reason.ALREADY_DECIDED, Reason.PATCH_UNSAFE, Reason.ERROR}

    assert shown | elsewhere == set(Reason)
    assert decode_pod(make_pod()).spec.scheduler_name == "default-scheduler"


def test_a_copy_of_a_steered_pod_is_not_taken_for_a_second_pass() -> None:
    """A Pod made anew from a steered one's own manifest carries terms that were right once."""
    first = jsonpatch.apply_patch(make_pod(), patch_in(respond(make_pod()).body))
    later = replace(CLOCK, time="2026-01-01T00:02:00Z")

    answer = admission.respond(
        to_bytes(make_review(first, uid="review-2")), make_uneven_cluster(5), policy.default(), later
    )

    assert (answer.outcome, answer.reason) == (Outcome.SKIPPED, Reason.USER_TERMS)
    kept = jsonpatch.apply_patch(first, patch_in(answer.body))
    assert kept["spec"] == first["spec"]
    assert json.loads(kept["metadata"]["annotations"][decision.DECISION])["id"] == "review-2"


def test_many_sidecars_and_many_expressions_are_answered_at_once() -> None:
    """Their number costs no more than it must: what was quadratic took minutes here."""
    sidecars = [
        {
            "name": f"s{number}",
            "image": "i",
            "restartPolicy": "Always",
            "resources": {"requests": {f"example.com/r-{number}": "0"}},
        }
        for number in range(20_000)
    ]
    crowd = make_pod()
    crowd["spec"]["initContainers"] = sidecars
    expressions = [{"key": "kubernetes.io/hostname", "operator": "Exists"}] * 50_000
    wordy = make_pod()
    wordy["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": expressions}]
            }
        }
    }

    many = {"matchLabels": {"app": "web"}, "matchExpressions": expressions}
    term = {"topologyKey": kube.ZONE, "labelSelector": many}
    shy = make_pod(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    spread = make_pod(
        topologySpreadConstraints=[
            {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": kube.ZONE}
        ]
        * 50_000
    )

    assert respond(crowd).outcome is Outcome.STEERED
    assert [respond(pod).reason for pod in (wordy, shy, spread)] == [Reason.USER_TERMS] * 3


def test_the_namespace_of_the_review_counts_towards_other_pods() -> None:
    cluster = make_uneven_cluster(2)
    port = [make_container(ports=[{"hostPort": 80}])]
    cluster.set_pod(decode_pod(make_pod(uid="u", node="n1", containers=port)), None)
    against = {"topologyKey": kube.HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [against]}}
    cluster.set_pod(decode_pod(make_pod(uid="v", node="n2", affinity=affinity)), None)
    pod = make_pod(labels={"app": "web"}, containers=port)
    blank = make_pod(labels={"app": "web"}, containers=port)
    del blank["metadata"]["namespace"]

    for each in (pod, blank):
        assert respond(each, cluster=cluster).reason is Reason.NO_CANDIDATES
        assert respond(each, cluster=cluster, namespace="other").outcome is Outcome.STEERED
