"""Whose Pods are whose, and how many are still to come."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from tests.builders import NAMESPACE, Json, decode_pod, make_owner, make_pod, to_bytes
from webhook import kinds, kube
from webhook.cluster import Cluster
from webhook.expectation.owners import JOB, REPLICA_SET, STATEFUL_SET, Owners, Workload


def controller(name: str, owner: Json | None = None, **parts: Json) -> kube.Controller:
    metadata: Json = {"name": name, "namespace": NAMESPACE}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return msgspec.convert({"metadata": metadata, **parts}, kube.Controller)


def pod(kind: str | None, name: str = "", *, template_hash: str = "", **fields: Any) -> kube.Pod:
    owners = [] if kind is None else [make_owner(kind, name)]
    labels = {"pod-template-hash": template_hash} if template_hash else None
    return decode_pod(make_pod(labels=labels, metadata={"ownerReferences": owners}, **fields))


def known() -> Owners:
    owners = Owners()
    owners.set(REPLICA_SET, controller("web-5f", make_owner("Deployment", "web"), spec={"replicas": 3}))
    owners.set(REPLICA_SET, controller("canary-1", make_owner("Rollout", "canary"), spec={"replicas": 1}))
    owners.set(REPLICA_SET, controller("alone", spec={"replicas": 2}))
    owners.set(STATEFUL_SET, controller("db", spec={"replicas": 5}))
    owners.set(JOB, controller("nightly-28", make_owner("CronJob", "nightly"), spec={"parallelism": 2}))
    return owners


WORKLOADS: dict[str, tuple[kube.Pod, tuple[str, str] | None]] = {
    "a bare Pod": (pod(None), None),
    "an owner that is no controller": (
        decode_pod(make_pod(metadata={"ownerReferences": [make_owner("ReplicaSet", controller=False)]})),
        None,
    ),
    "a Deployment's": (pod("ReplicaSet", "web-5f"), ("Deployment", "web")),
    "a Rollout's": (pod("ReplicaSet", "canary-1", template_hash="1"), ("Rollout", "canary")),
    "a ReplicaSet's of its own": (pod("ReplicaSet", "alone"), ("ReplicaSet", "alone")),
    "of a ReplicaSet not seen yet, by its hash": (
        pod("ReplicaSet", "new-shop-77", template_hash="77"),
        ("Deployment", "new-shop"),
    ),
    "of a ReplicaSet not seen yet that does not end in the hash": (
        pod("ReplicaSet", "new-78", template_hash="77"),
        ("ReplicaSet", "new-78"),
    ),
    "a StatefulSet's": (pod("StatefulSet", "db"), ("StatefulSet", "db")),
    "a CronJob's": (pod("Job", "nightly-28"), ("CronJob", "nightly")),
    "of a Job not seen yet": (pod("Job", "once"), ("Job", "once")),
    "of an unknown kind": (pod("Spark", "app"), ("Spark", "app")),
}


@pytest.mark.parametrize(("seen", "want"), WORKLOADS.values(), ids=WORKLOADS)
def test_workload(seen: kube.Pod, want: tuple[str, str] | None) -> None:
    assert known().workload(seen) == (None if want is None else Workload(NAMESPACE, *want))


def test_a_job_seen_later_is_known_from_then_on() -> None:
    owners, seen = Owners(), pod("Job", "nightly-28")
    assert owners.workload(seen) == (NAMESPACE, "Job", "nightly-28")

    owners.set(JOB, controller("nightly-28", make_owner("CronJob", "nightly")))
    assert owners.workload(seen) == (NAMESPACE, "CronJob", "nightly")

    owners.remove(JOB, controller("nightly-28"))
    assert owners.workload(seen) == (NAMESPACE, "Job", "nightly-28")


def test_a_list_replaces_what_is_known_of_its_kind_only() -> None:
    owners = known()
    owners.replace(REPLICA_SET, [controller("alone", spec={"replicas": 4})])

    assert owners.outstanding(pod("ReplicaSet", "alone")) == 4
    assert owners.outstanding(pod("ReplicaSet", "web-5f")) is None
    assert owners.outstanding(pod("StatefulSet", "db")) == 5


# spec, status, Pods there are, and how many are still to come, the one that asks included.
OUTSTANDING: dict[str, tuple[str, Json, Json, int, int | None]] = {
    "a ReplicaSet": (REPLICA_SET, {"replicas": 5}, {}, 0, 5),
    "3 of 5 are there": (REPLICA_SET, {"replicas": 5}, {}, 3, 2),
    "one is its own default": (REPLICA_SET, {}, {}, 0, 1),
    "all are there, and still one asks": (REPLICA_SET, {"replicas": 5}, {}, 7, 1),
    "scaled to none": (REPLICA_SET, {"replicas": 0}, {}, 0, None),
    "a StatefulSet": (STATEFUL_SET, {"replicas": 5}, {}, 1, 4),
    "a Job: 4 at a time, 10 in all": (JOB, {"parallelism": 4, "completions": 10}, {}, 0, 4),
    "a Job: 2 run": (JOB, {"parallelism": 4, "completions": 10}, {"active": 2}, 1, 2),
    "a Job: its Pods are seen before its status": (JOB, {"parallelism": 4, "completions": 10}, {}, 3, 1),
    "a Job: 8 of 10 are done": (
        JOB,
        {"parallelism": 4, "completions": 10},
        {"active": 1, "succeeded": 8},
        1,
        1,
    ),
    "a Job without a number": (JOB, {"parallelism": 4}, {"succeeded": 1}, 0, 4),
    "a Job of one": (JOB, {}, {}, 0, 1),
    "a Job that has ended": (JOB, {}, {"completionTime": "2026-01-01T00:00:00Z"}, 0, None),
}


@pytest.mark.parametrize(("kind", "spec", "status", "there", "want"), OUTSTANDING.values(), ids=OUTSTANDING)
def test_outstanding(kind: str, spec: Json, status: Json, there: int, want: int | None) -> None:
    cluster = Cluster()
    cluster.owners.set(kind, controller("mine", spec=spec, status=status))
    for number in range(there):
        cluster.set_pod(pod(kind, "mine", uid=f"p-{number}"), 0.0)

    assert cluster.owners.outstanding(pod(kind, "mine")) == want
    assert cluster.owners.outstanding(pod(kind, "other")) is None
    assert cluster.owners.outstanding(pod(None)) is None


def test_pods_that_are_gone_are_counted_no_more() -> None:
    cluster = Cluster()
    cluster.owners.set(REPLICA_SET, controller("mine", spec={"replicas": 5}))
    mine = pod(REPLICA_SET, "mine")
    for number in range(3):
        cluster.set_pod(pod(REPLICA_SET, "mine", uid=f"p-{number}", node="n1"), 0.0)
    assert cluster.owners.outstanding(mine) == 2

    cluster.remove_pod("p-0")
    cluster.set_pod(pod(REPLICA_SET, "mine", uid="p-1", node="n1", phase="Failed"), 0.0)
    cluster.replace_pods([], 0.0)

    assert cluster.owners.outstanding(mine) == 5
    assert cluster.owners.pods(Workload(NAMESPACE, REPLICA_SET, "mine")) == 0


def test_owners_are_watched() -> None:
    cluster, restarted = Cluster(), list[str]()
    watched = kinds.owner_kinds(cluster, restarted.append)
    assert [kind.path for kind in watched] == [
        "/apis/apps/v1/replicasets",
        "/apis/apps/v1/statefulsets",
        "/apis/batch/v1/jobs",
    ]
    for kind, own in zip(watched, (REPLICA_SET, STATEFUL_SET, JOB), strict=True):
        raw = Raw(to_bytes({"metadata": {"name": "x", "namespace": NAMESPACE}, "spec": {"replicas": 1}}))
        kind.apply("ADDED", raw)
        assert cluster.owners.outstanding(pod(own, "x")) == 1

        kind.apply("DELETED", raw)
        assert cluster.owners.outstanding(pod(own, "x")) is None

        kind.apply("MODIFIED", raw)
        kind.replace([])
        assert cluster.owners.outstanding(pod(own, "x")) is None
        kind.restarted()
    assert restarted == ["replicasets", "statefulsets", "jobs"]
