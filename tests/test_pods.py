"""The index of bound Pods: shapes are shared, counted, and gone with their last Pod."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.builders import Json, decode_pod, make_container, make_owner, make_pod, make_requirement
from webhook import kube
from webhook.cluster import Cluster
from webhook.pods import Owner, Pods, Shape, read_shape
from webhook.selectors import Requirement, Selector

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
APP_IS_WEB = Selector((Requirement("app", "In", frozenset({"web"})),))
ALL = Selector()
AGAINST_WEB: Json = {
    "podAntiAffinity": {
        REQUIRED: [{"topologyKey": kube.ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}]
    }
}


def shape(**fields: Any) -> Shape:
    return read_shape(decode_pod(make_pod(**fields)))


def rows(pods: Pods, *namespaces: str, selector: Selector = ALL) -> Mapping[int, int]:
    """Return how many Pods of the namespaces match, by row."""
    found: dict[int, int] = {}
    for group in pods.select(namespaces, selector):
        for row, count in group.rows.items():
            found[row] = found.get(row, 0) + count
    return found


def test_pods_of_one_template_share_a_shape() -> None:
    pods = Pods()
    owner = make_owner("ReplicaSet")
    first, second = (
        pods.add(
            row,
            shape(
                uid=uid, labels={"app": "web"}, metadata={"ownerReferences": [owner]}, affinity=AGAINST_WEB
            ),
        )
        for row, uid in enumerate("ab")
    )

    assert first.shape is second.shape
    assert first.shape.owner == Owner("ReplicaSet", "owner", "o-1")


DIFFERENT: dict[str, Json] = {
    "labels": {"labels": {"app": "db"}},
    "namespace": {"namespace": "ops"},
    "requests": {"cpu": "2"},
    "limits": {"containers": [make_container(resources={"limits": {"cpu": "2"}})]},
    "host ports": {"containers": [make_container(ports=[{"hostPort": 80}])]},
    "anti-affinity": {"affinity": AGAINST_WEB},
    "owner": {"metadata": {"ownerReferences": [make_owner("Job")]}},
    "being deleted": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
}


@pytest.mark.parametrize("fields", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_makes_a_shape_another_one(fields: Json) -> None:
    assert shape(**fields) != shape()


SAME: dict[str, Json] = {
    "name and uid": {"uid": "u"},
    "annotations": {"annotations": {"a": "b"}},
    "an owner that is no controller": {
        "metadata": {"ownerReferences": [make_owner("Job", controller=False)]}
    },
    "a container's own port": {"containers": [make_container(ports=[{"containerPort": 80}])]},
    "everything null": {"labels": None, "affinity": None, "metadata": {"ownerReferences": None}},
    "an anti-affinity that the API server refuses": {
        "affinity": {
            "podAntiAffinity": {
                REQUIRED: [
                    {
                        "topologyKey": "zone",
                        "labelSelector": {"matchExpressions": [make_requirement("app", "Near")]},
                    }
                ]
            }
        }
    },
    "a limit that is no quantity": {"containers": [make_container(resources={"limits": {"cpu": "much"}})]},
}


@pytest.mark.parametrize("fields", SAME.values(), ids=SAME.keys())
def test_what_does_not(fields: Json) -> None:
    assert shape(**fields) == shape()


def test_pods_are_counted_by_row_and_found_by_namespace_and_label() -> None:
    pods = Pods()
    web, db = shape(labels={"app": "web"}), shape(labels={"app": "db"})
    for row, each in (
        (0, web),
        (0, web),
        (3, web),
        (3, db),
        (4, shape(namespace="ops", labels={"app": "web"})),
    ):
        pods.add(row, each)

    assert rows(pods, "shop") == {0: 2, 3: 2}
    assert rows(pods, "shop", selector=APP_IS_WEB) == {0: 2, 3: 1}
    assert rows(pods, "shop", "ops", selector=APP_IS_WEB) == {0: 2, 3: 1, 4: 1}
    assert rows(pods, "lab") == {}


def test_nothing_is_left_of_pods_that_are_gone() -> None:
    pods = Pods()
    empty = [dict(vars(pods._ports)), dict(vars(pods._terms))]  # noqa: SLF001, what the look-ups do not show
    every = [
        shape(namespace=namespace, labels={"n": str(number % 3)}, affinity=AGAINST_WEB, containers=containers)
        for number in range(6)
        for namespace in ("shop", "ops")
        for containers in ([make_container()], [make_container(ports=[{"hostPort": 80}, {"hostPort": 81}])])
    ]
    added = [pods.add(number % 5, each) for number, each in enumerate(every * 2)]
    assert set(pods.namespaces) == {"shop", "ops"}
    assert list(pods.with_port(("10.0.0.1", "TCP", 81)))
    assert list(pods.keeping_away("ops", {}, {"app": "web"}))

    for bound in reversed(added):
        pods.remove(bound)

    assert not pods.namespaces
    assert [vars(pods._ports), vars(pods._terms)] == empty  # noqa: SLF001


def test_a_bound_pod_that_changes_is_counted_as_what_it_is_now() -> None:
    cluster = Cluster()
    for labels in ({"app": "web"}, {"app": "db"}, {"app": "web"}):
        cluster.set_pod(decode_pod(make_pod(uid="u", node="n1", labels=labels)), None)
        assert rows(cluster.nodes.pods, "shop", selector=APP_IS_WEB) == (
            {0: 1} if labels["app"] == "web" else {}
        )
        assert rows(cluster.nodes.pods, "shop") == {0: 1}

    going = make_pod(uid="u", node="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    cluster.set_pod(decode_pod(going), None)
    (group,) = cluster.nodes.pods.select(["shop"], ALL)
    assert group.shape.terminating

    cluster.remove_pod("u")
    assert not cluster.nodes.pods.namespaces
    assert cluster.nodes.row("n1") is None


def test_no_more_requirements_of_a_bound_pod_are_read_than_a_hundred() -> None:
    terms = [
        {"topologyKey": kube.ZONE, "labelSelector": {"matchLabels": {"app": str(number), "tier": "a"}}}
        for number in range(20_000)
    ]

    assert len(shape(affinity={"podAntiAffinity": {REQUIRED: terms}}).anti_affinity) == 50  # 2 each


def test_a_bound_pod_with_an_odd_affinity_still_counts_what_it_requests() -> None:
    cluster = Cluster()
    odd = {
        "podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchExpressions": [make_requirement("a", "?")]}}]}
    }

    cluster.set_pod(decode_pod(make_pod(uid="u", node="n1", cpu="2", affinity=odd)), None)

    assert cluster.nodes.requested[0, 0] == 2000
