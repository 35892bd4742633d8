"""Whatever Pod comes: it is admitted, the patch applies, its fields stay, a second pass adds nothing."""

import copy
import json
from dataclasses import replace
from functools import cache

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builders import (
    NOW,
    Json,
    apply,
    decode_claim,
    decode_pod,
    decode_volume,
    make_claim,
    make_cluster,
    make_container,
    make_node,
    make_pod,
    make_review,
    make_taint,
    make_volume,
    patch_in,
    preferred_terms,
    to_bytes,
)
from tests.strategies import PREFERRED, REQUIRED, any_pods, valid_pods
from webhook import admission, decision, policy
from webhook.admission import Clock
from webhook.cluster import Cluster
from webhook.policy import Policy
from webhook.reasons import Outcome, Reason

FEWER = settings(
    deadline=None,
    derandomize=True,
    max_examples=400,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
MORE = settings(FEWER, max_examples=800)


def small() -> Cluster:
    """Return a few nodes that Pods of the strategies can tell apart, unequally used."""
    nodes = [
        make_node("n1", cpu="16", labels={"disk": "ssd", "size": "4", "topology.kubernetes.io/zone": "a"}),
        make_node("n2", cpu="16", labels={"disk": "hdd", "size": "16", "team.example/tier": "a"}),
        make_node("n3", cpu="16", labels={"disk": "ssd"}, taints=[make_taint("team", "NoSchedule", "data")]),
        make_node("n4", cpu="16", allocatable={"example.com/gpu": "8"}),
        make_node("n7", cpu="16", unschedulable=True),
        make_node("n5", cpu="16", hostname=None),
        make_node(
            "n6", cpu="16", hostname="host~6/x", taints=[make_taint("team", "PreferNoSchedule", "web")]
        ),
    ]
    cluster = make_cluster(*nodes, used={"n1": 1.0, "n2": 5.0, "n3": 2.0, "n4": 3.0, "n6": 7.0})
    shy = {
        "podAntiAffinity": {
            REQUIRED: [{"topologyKey": "disk", "labelSelector": {"matchLabels": {"app": "hdd"}}}]
        }
    }
    port = [make_container(ports=[{"hostPort": 8147}])]  # what `c0` of some Pods wants
    for pod in (
        make_pod(uid="p1", node="n1", labels={"app": "a"}, affinity=shy),
        make_pod(uid="p2", node="n2", labels={"app": "4"}, containers=port),
    ):
        cluster.set_pod(decode_pod(pod), None)
    volumes = cluster.nodes.volumes
    volumes.set_claim(decode_claim(make_claim("in-a", "v")))
    volumes.set_claim(decode_claim(make_claim("pending", None, bound=False)))
    volumes.set_volume(decode_volume(make_volume("v", labels={"topology.kubernetes.io/zone": "a"})))
    return cluster


def large() -> Cluster:
    """Return as many nodes as it takes for a plan of all tiers."""
    names = [f"node-{number:03d}" for number in range(400)]
    return make_cluster(
        *(make_node(name, cpu="16", labels={"disk": ("ssd", "hdd")[len(name) % 2]}) for name in names),
        used={name: 7.0 * number / 400 for number, name in enumerate(names)},
    )


CLUSTERS = {
    "small": cache(small),
    "large": cache(large),
    "empty": cache(make_cluster),
    "cold": cache(lambda: make_cluster(make_node("n1"), synced=False)),
}
# The second pass comes a moment later.
TIMES = {"review-1": "2026-01-01T00:00:00Z", "review-2": "2026-01-01T00:00:01Z"}

clusters = st.sampled_from(["small", "small", "small", "large", "empty", "cold"])
steering = st.sampled_from(["enabled", "enabled", "enabled", "shadow"])
strengths = st.sampled_from([1.0, 1.0, 0.5, 0.05])


def rules(strength: float) -> Policy:
    built_in = policy.default()
    return replace(built_in, profile=replace(built_in.profile, strength=strength))


def ask(pod: Json, cluster: Cluster, rules: Policy, uid: str) -> admission.Answer:
    """Send one review; what it reserves is released, so that every example starts alike."""
    answer = admission.respond(to_bytes(make_review(pod, uid=uid)), cluster, rules, Clock(NOW, TIMES[uid]))
    cluster.ledger.release(uid)
    response = json.loads(answer.body)["response"]
    assert response["allowed"] is True
    assert response["uid"] == uid
    return answer


def rest(pod: Json) -> str:
    """Return everything of a Pod that is none of ours, as text, so that 1, 1.0 and True are three things."""
    other = copy.deepcopy(pod)
    known = other["metadata"].get("annotations") or {}
    other["metadata"]["annotations"] = {
        key: text
        for key, text in known.items()
        if not key.startswith(decision.PREFIX) or key in decision.INPUTS
    }
    affinity = other["spec"].get("affinity") or {}
    (affinity.get("nodeAffinity") or {}).pop(PREFERRED, None)
    if not affinity.get("nodeAffinity"):
        affinity.pop("nodeAffinity", None)
    other["spec"]["affinity"] = affinity
    return json.dumps(other, sort_keys=True)


def check(pod: Json, name: str, mode: str, strength: float) -> None:
    cluster, wanted = CLUSTERS[name](), rules(strength)
    cluster.namespaces["shop"] = {"trimtab.dev/steering": mode}
    sent = copy.deepcopy(pod)

    first = ask(pod, cluster, wanted, "review-1")

    assert first.outcome is not Outcome.FAILED, first.detail
    operations = patch_in(first.body)
    for operation in operations:
        assert operation["op"] in ("add", "remove")
        assert operation["path"].startswith(("/metadata/annotations", "/spec/affinity"))
    patched = apply(operations, pod)
    assert pod == sent
    if not operations:
        return
    assert rest(patched) == rest(pod)
    check_terms(pod, patched, first)
    check_annotations(patched, first)

    second = ask(patched, cluster, wanted, "review-2")
    assert patch_in(second.body) == [], (first.reason, second.reason)


def check_terms(pod: Json, patched: Json, answer: admission.Answer) -> None:
    users, all_terms = preferred_terms(pod), preferred_terms(patched)
    assert json.dumps(all_terms[: len(users)]) == json.dumps(users)
    ours = all_terms[len(users) :]
    assert bool(ours) is (answer.outcome is Outcome.STEERED)
    assert len(ours) <= 20
    for term in ours:
        assert type(term["weight"]) is int
        assert 1 <= term["weight"] <= 100
        (expression,) = term["preference"]["matchExpressions"]
        assert expression["key"] == "kubernetes.io/hostname"


def check_annotations(patched: Json, answer: admission.Answer) -> None:
    annotations = patched["metadata"].get("annotations") or {}
    ours = {key for key in annotations if key.startswith(decision.PREFIX)} - decision.INPUTS
    assert all(isinstance(text, str) for text in annotations.values())
    assert ours <= {decision.DECISION}
    if ours:
        value = annotations[decision.DECISION]
        assert len(value.encode()) <= 2048
        if answer.reason is not Reason.ALREADY_DECIDED:
            assert json.loads(value)["id"] == "review-1"


@MORE
@given(valid_pods(), clusters, steering, strengths)
def test_a_pod_that_the_api_server_accepts(pod: Json, name: str, mode: str, strength: float) -> None:
    check(pod, name, mode, strength)


@MORE
@given(any_pods(), clusters, steering, strengths)
def test_a_pod_that_nobody_should_send(pod: Json, name: str, mode: str, strength: float) -> None:
    check(pod, name, mode, strength)


@FEWER
@given(valid_pods())
def test_a_pod_of_an_enabled_namespace_is_read_whatever_its_optional_fields(pod: Json) -> None:
    answer = ask(pod, CLUSTERS["small"](), policy.default(), "review-1")

    assert answer.reason not in (Reason.UNREADABLE, Reason.BAD_QUANTITY, Reason.ERROR)
