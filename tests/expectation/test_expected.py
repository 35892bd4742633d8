"""What is learned of workloads, what annotations say, and how both reach the ledger and the decision."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import (
    GIB,
    MIB,
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
    patch_in,
    to_bytes,
)
from webhook import admission, expectation, inputs, kube, policy
from webhook.cluster import SHADOW, Cluster
from webhook.expectation import learning
from webhook.expectation.estimate import Estimator
from webhook.expectation.learning import HALF_LIFE_S, KEEP_S, MAX_WORKLOADS, Usage
from webhook.expectation.owners import REPLICA_SET
from webhook.explain import explanation
from webhook.policyholder import PolicyHolder

HASH = "5f"


def make(uid: str | None = None, *, app: str = "web", template_hash: str = HASH, **fields: Any) -> Json:
    """Return a Pod of a Deployment, as its ReplicaSet made it; with a uid, one that runs on n1."""
    if uid is not None:
        fields = {"node": "n1", "phase": "Running", **fields}
    owner = {"ownerReferences": [make_owner(REPLICA_SET, f"{app}-{template_hash}")]}
    return make_pod(
        uid=uid,
        labels={"pod-template-hash": template_hash},
        **{"cpu": "1", "memory": "1Gi", "metadata": owner, **fields},
    )


def running(*raws: Json, now: float | None = None, cluster: Cluster | None = None) -> Cluster:
    """Return a cluster in which those Pods run, by default since long before it was looked at."""
    cluster = cluster or make_cluster(make_node("n1"), make_node("n2"), used={"n1": 1, "n2": 2})
    for raw in raws:
        cluster.set_pod(decode_pod(raw), now)
    return cluster


def read(
    cluster: Cluster,
    name: str,
    cpu: float | None = 3000.0,
    memory: float | None = 2.0 * GIB,
    *,
    at: float = NOW,
    timestamp: float | None = -1.0,
) -> None:
    stamp = at if timestamp == -1.0 else timestamp
    cluster.set_pod_usage(NAMESPACE, name, cpu, memory, timestamp=stamp, now=at)


def expected(cluster: Cluster, **fields: Any) -> tuple[float, float, tuple[str, str]]:
    found = cluster.expected(decode_pod(make(**fields)))
    return found.load.cpu_milli, found.load.memory_bytes, found.sources


REQUESTS = (1000.0, float(GIB), ("requests", "requests"))
LEARNED = (3000.0, 2.0 * GIB, ("learned", "learned"))


def test_the_next_pod_is_expected_to_use_what_the_running_ones_use() -> None:
    cluster = running(make("a"), make("b"))

    read(cluster, "a", 2000.0, 1.0 * GIB)
    assert expected(cluster) == REQUESTS  # one reading is none

    read(cluster, "b", 4000.0, 3.0 * GIB)
    assert expected(cluster) == LEARNED
    assert cluster.learning.workloads == 1


def test_a_pod_that_was_seen_to_start_counts_from_its_second_reading() -> None:
    cluster = running(make("a"), now=NOW)
    read(cluster, "a", 8000.0, at=NOW + 20)  # the start itself
    read(cluster, "a", at=NOW + 35)
    assert expected(cluster) == REQUESTS

    read(cluster, "a", at=NOW + 50)
    assert expected(cluster) == LEARNED


@pytest.mark.parametrize("timestamp", [NOW, None])
def test_a_reading_that_repeats_itself_is_none(timestamp: float | None) -> None:
    cluster = running(make("a"))
    for at in (NOW, NOW + 15, NOW + 30):
        read(cluster, "a", at=at, timestamp=timestamp)

    assert expected(cluster) == REQUESTS


# What does not count: the values of two readings.
BAD: dict[str, tuple[float | None, float | None, tuple[str, str]]] = {
    "no CPU": (None, 2.0 * GIB, ("requests", "learned")),
    "no memory": (3000.0, None, ("learned", "requests")),
    "negative": (-1.0, 2.0 * GIB, ("requests", "learned")),
    "a slip of units: more than four of the largest node": (32001.0, 2.0 * GIB, ("requests", "learned")),
    "bytes for kibibytes": (3000.0, 2.0 * GIB * 1024, ("learned", "requests")),
    "not a number": (np.nan, np.inf, ("requests", "requests")),
}


@pytest.mark.parametrize(("cpu", "memory", "want"), BAD.values(), ids=BAD)
def test_each_resource_is_learned_by_itself(
    cpu: float | None, memory: float | None, want: tuple[str, str]
) -> None:
    cluster = running(make("a"))
    for at in (NOW, NOW + 15):
        read(cluster, "a", cpu, memory, at=at)

    assert expected(cluster)[2] == want


# A Pod that is created after those of `web` were learned, and whether it is known from them.
NEXT: dict[str, tuple[Json, bool]] = {
    "of the same template": ({}, True),
    "of a new image": ({"template_hash": "66"}, True),
    "of another Deployment": ({"app": "api"}, False),
    "of another namespace": ({"namespace": "other"}, False),
    "of another request": ({"template_hash": "66", "cpu": "2"}, False),
    "of another limit": (
        {
            "template_hash": "66",
            "containers": [
                make_container(resources={"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "4"}})
            ],
        },
        False,
    ),
    "of one more container": (
        {
            "template_hash": "66",
            "containers": [make_container(cpu="1", memory="1Gi"), make_container("second")],
        },
        False,
    ),
    "of a template that another webhook changes after us": ({"cpu": "2"}, True),
    "of no owner": ({"metadata": {}}, False),
}


@pytest.mark.parametrize(("fields", "known"), NEXT.values(), ids=NEXT)
def test_which_pods_are_one_workload(fields: Json, known: bool) -> None:  # noqa: FBT001, a table
    cluster = running(make("a"), make("b"))
    read(cluster, "a")
    read(cluster, "b")

    assert (cluster.expected(decode_pod(make(**fields))).sources[0] == "learned") == known


def test_a_deployments_next_replica_set_goes_on_from_what_is_known() -> None:
    """The owner is looked up as late as can be: the ReplicaSet here comes after the readings."""
    cluster = running(make("a", template_hash=""), make("b", template_hash=""))
    read(cluster, "a")
    metadata: Json = {"name": "web-", "namespace": NAMESPACE, "ownerReferences": [make_owner("Job", "web")]}
    metadata["ownerReferences"][0]["kind"] = "Deployment"
    cluster.owners.set(REPLICA_SET, msgspec.convert({"metadata": metadata}, kube.Controller))
    read(cluster, "a", at=NOW + 15)
    read(cluster, "b")

    assert expected(cluster, template_hash="66") == LEARNED


def test_mean_and_spread_forget() -> None:
    """At the half-life the first reading weighs half: (0.5 x 1 + 1 x 4) / 1.5 = 3."""
    usage = Usage()
    usage.add(1.0, NOW)
    usage.add(4.0, NOW + HALF_LIFE_S)

    assert usage.mean == pytest.approx(3.0)
    # (0.5 x (1 - 3)^2 + 1 x (4 - 3)^2) / 1.5
    assert usage.deviation == pytest.approx(2.0**0.5)


def test_a_change_of_use_is_learned_within_minutes() -> None:
    cluster = running(make("a"))
    for step in range(240):
        read(cluster, "a", 1000.0, at=NOW + 15 * step)
    for step in range(240, 400):
        read(cluster, "a", 3000.0, at=NOW + 15 * step)

    # 40 minutes are four half-lives: a sixteenth of what was is left.
    assert expected(cluster)[0] == pytest.approx(3000 - 2000 / 16, rel=0.01)


def test_what_was_learned_outlives_the_pods() -> None:
    cluster = running(make("a"), make("b"))
    read(cluster, "a")
    read(cluster, "b")
    cluster.replace_pods([], NOW)

    assert expected(cluster) == LEARNED
    assert cluster.learning.namespaces() == []


def test_what_was_learned_does_not_live_for_ever() -> None:
    cluster = running(make("a"), make("b"), make("c", app="api"))
    read(cluster, "a")
    read(cluster, "b")
    read(cluster, "c", at=NOW + KEEP_S - 1)
    assert expected(cluster) == LEARNED

    read(cluster, "c", at=NOW + KEEP_S + 1)
    assert expected(cluster) == REQUESTS


def test_the_number_of_workloads_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_WORKLOADS <= 10_000
    monkeypatch.setattr(learning, "MAX_WORKLOADS", 2)
    cluster = running(*(make(app, app=app) for app in ("a", "b", "c")))
    for at in (NOW, NOW + 15):
        for app in ("a", "b", "c"):
            read(cluster, app, at=at)
            read(cluster, app, at=at + 1)

    assert [expected(cluster, app=app)[2][0] for app in ("a", "b", "c")] == ["requests", "learned", "learned"]


def test_the_workload_that_was_not_read_for_longest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MAX_WORKLOADS", 2)
    cluster = running(*(make(app, app=app) for app in ("a", "b", "c")))
    for at, app in enumerate(("a", "a", "b", "b", "a", "c", "c")):
        read(cluster, app, at=NOW + at)

    assert [expected(cluster, app=app)[2][0] for app in ("a", "b", "c")] == ["learned", "requests", "learned"]


def test_nothing_is_learned_of_daemon_sets_whose_pods_are_not_placed() -> None:
    raw = make("a", metadata={"ownerReferences": [make_owner("DaemonSet", "agent")]})

    assert running(raw).learning.namespaces() == []


def test_the_versions_of_a_workload_are_bounded() -> None:
    pods = [make(f"p-{number}", cpu=f"{number}m", template_hash=f"h{number}") for number in range(1, 7)]
    cluster = running(*pods)
    for number in range(1, 7):
        for at in (NOW, NOW + 15):
            read(cluster, f"p-{number}", at=at)
    found = [cluster.expected(decode_pod(pod)).sources[0] for pod in pods]

    assert found == ["requests"] * 2 + ["learned"] * 4


def test_a_restart_relearns_from_what_is_visible() -> None:
    """One round of readings is enough where two Pods of a workload run."""
    before = running(make("a"), make("b"))
    for at in (NOW, NOW + 15):
        read(before, "a", at=at)
    after = running(make("a"), make("b"))
    assert expected(after) == REQUESTS

    read(after, "a", at=NOW + 30)
    read(after, "b", at=NOW + 30)

    assert expected(after) == expected(before) == LEARNED


def test_a_resize_in_place_is_another_version() -> None:
    cluster = running(make("a"))
    cluster.set_pod(decode_pod(make("a", cpu="2")), NOW)
    for at in (NOW, NOW + 15):
        read(cluster, "a", at=at)

    assert expected(cluster, template_hash="66") == REQUESTS
    assert expected(cluster, template_hash="66", cpu="2") == LEARNED


# Only steered namespaces are learned from.


def named(value: str | None) -> kube.Named:
    labels = {"trimtab.dev/steering": value} if value else {}
    return msgspec.convert({"metadata": {"name": NAMESPACE, "labels": labels}}, kube.Named)


@pytest.mark.parametrize(("label", "learns"), [("enabled", True), ("shadow", True), (None, False)])
@pytest.mark.parametrize("pods_first", [True, False])
def test_namespaces_that_are_learned_from(label: str | None, learns: bool, pods_first: bool) -> None:  # noqa: FBT001
    cluster = Cluster(unknown=SHADOW)
    if pods_first:
        running(make("a"), cluster=cluster)
        cluster.replace_namespaces([named(label)])
    else:
        cluster.replace_namespaces([named(label)])
        running(make("a"), cluster=cluster)

    assert cluster.learning.namespaces() == ([NAMESPACE] if learns else [])
    assert not cluster.unenrolled


def test_a_namespace_switched_on_and_off() -> None:
    cluster = Cluster(unknown=SHADOW)
    cluster.replace_namespaces([named(None)])
    running(make("a"), make("b"), cluster=cluster)
    cluster.set_namespace(named("enabled"))
    assert cluster.unenrolled == {NAMESPACE}

    cluster.enroll(NAMESPACE, [decode_pod(make(uid)) for uid in ("a", "b", "gone")])
    assert not cluster.unenrolled
    read(cluster, "a")
    read(cluster, "b")
    read(cluster, "gone")
    assert expected(cluster) == LEARNED

    cluster.set_namespace(named(None))
    assert cluster.learning.namespaces() == []
    assert expected(cluster) == REQUESTS


# Annotations.

SAID: dict[str, tuple[Json, tuple[float, float], tuple[str, str], tuple[str, ...]]] = {
    "both": (
        {"trimtab.dev/expected-cpu": "1500m", "trimtab.dev/expected-memory": "3Gi"},
        (1500, 3 * GIB),
        ("annotation", "annotation"),
        (),
    ),
    "one": ({"trimtab.dev/expected-cpu": "0"}, (0, GIB), ("annotation", "requests"), ()),
    "no quantity": (
        {"trimtab.dev/expected-cpu": "a lot", "trimtab.dev/expected-memory": "3Gi"},
        (1000, 3 * GIB),
        ("requests", "annotation"),
        ("trimtab.dev/expected-cpu",),
    ),
    "negative": (
        {"trimtab.dev/expected-memory": "-1"},
        (1000, GIB),
        ("requests", "requests"),
        ("trimtab.dev/expected-memory",),
    ),
    "more than the largest node has": (
        {"trimtab.dev/expected-cpu": "10000", "trimtab.dev/expected-memory": "1Ei"},
        (8000, 32 * GIB),
        ("annotation", "annotation"),
        (),
    ),
}


@pytest.mark.parametrize(("annotations", "load", "sources", "ignored"), SAID.values(), ids=SAID)
def test_annotations(
    annotations: Json, load: tuple[float, float], sources: tuple[str, str], ignored: tuple[str, ...]
) -> None:
    cluster = running()

    found = cluster.expected(decode_pod(make(annotations=annotations)))

    assert (found.load.cpu_milli, found.load.memory_bytes) == load
    assert (found.sources, found.ignored) == (sources, ignored)


def test_what_the_pod_says_goes_before_what_was_learned_and_teaches_nothing() -> None:
    annotations = {"trimtab.dev/expected-cpu": "100m"}
    cluster = running(make("a", annotations=annotations), make("b"))
    read(cluster, "a")
    read(cluster, "b")

    assert expected(cluster, annotations=annotations) == (100.0, 2.0 * GIB, ("annotation", "learned"))
    assert expected(cluster) == LEARNED


def test_learning_can_be_switched_off() -> None:
    cluster = running(make("a"), make("b"))
    read(cluster, "a")
    read(cluster, "b")
    cluster.expectation.estimator = Estimator(learn=False)

    assert expected(cluster) == REQUESTS


def test_a_pod_that_declares_nothing_has_the_default() -> None:
    assert expected(running(), cpu=None, memory=None) == (250.0, 200.0 * MIB, ("default", "default"))
    assert expected(running(), cpu="2", memory=None) == (2000.0, 200.0 * MIB, ("requests", "default"))


ANY = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@given(
    readings=st.lists(st.tuples(ANY, ANY), max_size=6),
    said=st.sampled_from([None, "0", "-0", "1e9", "17n", "1.5Gi", "-3", "nan", "", "9E"]),
)
def test_expected_use_is_a_number_within_the_largest_node(
    readings: list[tuple[float | None, float | None]], said: str | None
) -> None:
    cluster = running(make("a"))
    for number, (cpu, memory) in enumerate(readings):
        read(cluster, "a", cpu, memory, at=NOW + number)
    annotations = None if said is None else dict.fromkeys(expectation.EXPECTED.values(), said)

    cpu_milli, memory_bytes, _ = expected(cluster, annotations=annotations)

    assert 0 <= cpu_milli <= 8000
    assert 0 <= memory_bytes <= 32 * GIB


def test_the_largest_node_may_change() -> None:
    annotations = {"trimtab.dev/expected-cpu": "100"}
    cluster = make_cluster()
    assert expected(cluster, annotations=annotations)[0] == 100_000  # no node: no bound

    cluster.set_node(decode_node(make_node("n1", cpu="4")))
    assert expected(cluster, annotations=annotations)[0] == 4000
    cluster.set_node(decode_node(make_node("n2", cpu="16")))
    assert expected(cluster, annotations=annotations)[0] == 16_000
    cluster.remove_node("n2")
    assert expected(cluster, annotations=annotations)[0] == 4000


# Where it counts.


def learned() -> Cluster:
    cluster = running(make("a"), make("b"))
    read(cluster, "a")
    read(cluster, "b")
    return cluster


CLOCK = admission.Clock(NOW, "2026-01-01T00:00:00Z")


def admit(cluster: Cluster, raw: Json) -> Json:
    """Return the Pod as it leaves the webhook."""
    answer = admission.respond(to_bytes(make_review(raw)), cluster, policy.default(), CLOCK)
    return apply(patch_in(answer.body), raw)


def decided(pod: Json) -> Json:
    found: Json = json.loads(pod["metadata"]["annotations"]["trimtab.dev/decision"])
    return found


def test_admission_reserves_and_tells_what_is_expected() -> None:
    cluster = learned()
    raw = make()
    del raw["metadata"]["namespace"]  # the request says it

    pod = admit(cluster, raw)

    assert decided(pod)["expected"] == {"cpu": "3", "memory": "2048Mi", "from": "learned"}
    # The one name there is has a chance of 0.95.
    assert cluster.nodes.reserved[:, :2].sum(axis=1) == pytest.approx([2850, 1.9 * GIB])


def test_admission_tells_of_two_sources_and_of_an_annotation_that_says_nothing() -> None:
    annotations = {"trimtab.dev/expected-cpu": "1500m", "trimtab.dev/expected-memory": "1.5 Gi"}

    pod = admit(running(), make(annotations=annotations))

    assert decided(pod)["expected"] == {
        "cpu": "1500m",
        "memory": "1024Mi",
        "from": "annotation, requests",
        "ignored": ["trimtab.dev/expected-memory"],
    }
    assert pod["metadata"]["annotations"].items() >= annotations.items()


def test_a_bound_pod_counts_as_what_is_expected_and_its_requests_as_requested() -> None:
    cluster = learned()
    before = cluster.nodes.requested[:2, 1].tolist()
    cluster.set_pod(decode_pod(make("c", node="n2", phase="Pending")), NOW)

    assert cluster.nodes.unseen[:, 1].tolist() == pytest.approx([3000, 2 * GIB])
    assert (cluster.nodes.requested[:2, 1] - before).tolist() == [1000, GIB]


def test_a_pod_that_another_replica_admitted_counts_as_what_is_expected() -> None:
    stored = admit(learned(), make())
    stored["metadata"] |= {"uid": "c", "name": "c"}
    cluster = learned()

    cluster.set_pod(decode_pod(stored), NOW)

    assert cluster.nodes.reserved[0, :2].sum() == pytest.approx(2850)


def test_the_choice_follows_what_is_expected() -> None:
    """n1 has 8 CPU with 3 in use, n2 has 16 with 8: 1 CPU more makes 50 and 56 %, 3 make 75 and 69 %."""
    nodes = (make_node("n1", cpu="8"), make_node("n2", cpu="16"))
    cluster = running(make("a"), make("b"), cluster=make_cluster(*nodes, used={"n1": 3, "n2": 8}))
    assert decided(admit(cluster, make()))["names"][0][0] == "n1"
    cluster = running(make("a"), make("b"), cluster=make_cluster(*nodes, used={"n1": 3, "n2": 8}))

    read(cluster, "a")
    read(cluster, "b")

    assert decided(admit(cluster, make()))["names"][0][0] == "n2"


def test_an_explanation_scores_with_what_is_expected() -> None:
    nodes = (make_node("n1", cpu="8"), make_node("n2", cpu="16"))
    cluster = running(make("a"), make("b"), cluster=make_cluster(*nodes, used={"n1": 3, "n2": 8}))
    read(cluster, "a")
    read(cluster, "b")
    raw, current = make(), policy.default()

    answer = admission.respond(explanation.make_review(to_bytes(raw), NAMESPACE), cluster, current, CLOCK)
    explained = explanation.explain(answer, decode_pod(raw), cluster, current, CLOCK)

    # 100 - (8 + 3) / 16, and 100 - (3 + 3) / 8
    found = [(node.name, node.scores["utilization"]) for node in explained.nodes]
    assert found == [("n2", 31.25), ("n1", 25.0)]
    assert explained.plan.terms[0].nodes == ["n2"]


def test_a_policy_file_says_how_much_is_expected(tmp_path: Path) -> None:
    (tmp_path / "cluster").write_bytes(to_bytes({"kind": "List", "items": [make_node("n1")]}))
    head = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\n"
    (tmp_path / "policy").write_text(head + "expectedUsage: {cpu: {requestShare: 0.5}}")

    cluster, _ = inputs.load(tmp_path / "cluster", tmp_path / "policy")

    assert expected(cluster)[0] == 500.0


def test_a_policy_from_the_configmap_says_how_much_is_expected() -> None:
    cluster = running()
    holder = PolicyHolder(policy.default(), cluster)
    text = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\nexpectedUsage: {cpu: {requestShare: 0.5}}"
    metadata = kube.Metadata(name="scoring-policy")
    holder.set(kube.ConfigMap(metadata, {"policy.yaml": text}))
    assert expected(cluster)[0] == 500.0

    holder.remove()
    assert expected(cluster)[0] == 1000.0
