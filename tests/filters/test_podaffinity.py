"""Required Pod affinity and anti-affinity: whom a term means, and which nodes it closes."""

import pytest

from tests.builders import Json, decode_pod, make_pod, make_requirement
from webhook import filters, kube
from webhook.filters import FILTERS
from webhook.filters.demand import MAX_POD_REQUIREMENTS

from .world import RACK, bound, far, near, passing, pod_term, selector, world

ALL = "a1 a2 b1 b2 x"
DB = selector(app="db")
WEB = {"app": "web"}

# Pods that are bound, the affinity terms of the one that comes (it has app=web, in shop), and its nodes.
NEAR: dict[str, tuple[list[Json], list[Json], str]] = {
    "in the zone of such a Pod": ([bound("a1")], [pod_term(label_selector=DB)], "a1 a2"),
    "on its very node": ([bound("a1")], [pod_term(kube.HOSTNAME, DB)], "a1"),
    "in either zone": ([bound("a1"), bound("b1")], [pod_term(label_selector=DB)], "a1 a2 b1 b2"),
    "none is there, and the Pod itself is none": ([], [pod_term(label_selector=DB)], ""),
    "the first of its group goes anywhere that has the label": (
        [],
        [pod_term(label_selector=selector(app="web"))],
        "a1 a2 b1 b2",
    ),
    "the second does not": (
        [bound("b2", app="web")],
        [pod_term(label_selector=selector(app="web"))],
        "b1 b2",
    ),
    "one on a node without the label is no neighbour, so the next is the first": (
        [bound("x", app="web")],
        [pod_term(label_selector=selector(app="web"))],
        "a1 a2 b1 b2",
    ),
    "one on a node that was never seen counts nowhere": (
        [bound("unseen")],
        [pod_term(label_selector=DB)],
        "",
    ),
    "a key that no node has": ([bound("a1")], [pod_term("example.com/row", DB)], ""),
    "two keys, both near the same Pod": (
        [bound("a1")],
        [pod_term(label_selector=DB), pod_term(RACK, DB)],
        "a1",
    ),
    "a Pod has to match all terms, not each term some Pod": (
        [bound("a1"), bound("a2", app="cache")],
        [pod_term(label_selector=DB), pod_term(label_selector=selector(app="cache"))],
        "",
    ),
    "each term in a Pod of its own domain": (
        [bound("a1", labels={"app": "db", "tier": "back"})],
        [pod_term(label_selector=DB), pod_term(label_selector=selector(tier="back"))],
        "a1 a2",
    ),
    "another namespace is not meant": ([bound("a1", namespace="ops")], [pod_term(label_selector=DB)], ""),
    "unless it is named": (
        [bound("a1", namespace="ops")],
        [pod_term(label_selector=DB, namespaces=["ops"])],
        "a1 a2",
    ),
    "its own is not meant where another is named": (
        [bound("a1")],
        [pod_term(label_selector=DB, namespaces=["ops"])],
        "",
    ),
    "namespaces by their labels": (
        [bound("a1", namespace="ops"), bound("b1", namespace="lab")],
        [pod_term(label_selector=DB, namespaceSelector=selector(team="infra"))],
        "a1 a2",
    ),
    "all namespaces by the empty selector": (
        [bound("a1", namespace="lab")],
        [pod_term(label_selector=DB, namespaceSelector={})],
        "a1 a2",
    ),
    # The scheduler holds the selector against no labels too, and these have no team (see _means).
    "a selector that no labels match means every namespace": (
        [bound("a1", namespace="ops")],
        [pod_term(label_selector=DB, namespaceSelector=selector(make_requirement("team", "DoesNotExist")))],
        "a1 a2",
    ),
    "no selector matches no Pod": ([bound("a1")], [pod_term()], ""),
    "the empty selector matches every Pod": ([bound("a1", app=None)], [pod_term(label_selector={})], "a1 a2"),
    "a terminating Pod counts": (
        [bound("a1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
        [pod_term(label_selector=DB)],
        "a1 a2",
    ),
    "an ended Pod does not": ([bound("a1", phase="Succeeded")], [pod_term(label_selector=DB)], ""),
    "matchLabelKeys stand for the Pod's own labels": (
        [bound("a1", labels={"app": "web", "hash": "1"}), bound("b1", labels={"app": "web", "hash": "2"})],
        [pod_term(label_selector=selector(app="web"), matchLabelKeys=["hash", "absent"])],
        "b1 b2",
    ),
    "mismatchLabelKeys for other values": (
        [bound("a1", labels={"app": "web", "hash": "1"}), bound("b1", labels={"app": "web", "hash": "2"})],
        [pod_term(label_selector=selector(app="web"), mismatchLabelKeys=["hash"])],
        "a1 a2",
    ),
    "what the API server refuses excludes nothing": (
        [],
        [pod_term(label_selector=selector(make_requirement("app", "Near", "db")))],
        ALL,
    ),
}


@pytest.mark.parametrize(("pods", "terms", "want"), NEAR.values(), ids=NEAR.keys())
def test_affinity(pods: list[Json], terms: list[Json], want: str) -> None:
    pod = make_pod(labels=WEB | {"hash": "2"}, **near(*terms))

    assert passing("InterPodAffinity", pod, world(*pods)) == want


# The same for anti-affinity.
FAR: dict[str, tuple[list[Json], list[Json], str]] = {
    "outside the zone of such a Pod": ([bound("a1")], [pod_term(label_selector=DB)], "b1 b2 x"),
    "not on its node": ([bound("a1")], [pod_term(kube.HOSTNAME, DB)], "a2 b1 b2 x"),
    "one on a node without the label closes nothing": ([bound("x")], [pod_term(label_selector=DB)], ALL),
    "any term closes": (
        [bound("a1"), bound("b1", app="cache")],
        [pod_term(label_selector=DB), pod_term(RACK, selector(app="cache"))],
        "b2 x",
    ),
    "a key that no node has": ([bound("a1")], [pod_term("example.com/row", DB)], ALL),
    "itself is not there yet": ([], [pod_term(label_selector=selector(app="web"))], ALL),
    "no selector matches no Pod": ([bound("a1")], [pod_term()], ALL),
    "another namespace is not meant": ([bound("a1", namespace="ops")], [pod_term(label_selector=DB)], ALL),
    "operators": (
        [bound("a1"), bound("b1", app="cache"), bound("x", app=None)],
        [pod_term(kube.HOSTNAME, selector(make_requirement("app", "NotIn", "db", "web")))],
        "a1 a2 b2",
    ),
}


@pytest.mark.parametrize(("pods", "terms", "want"), FAR.values(), ids=FAR.keys())
def test_anti_affinity(pods: list[Json], terms: list[Json], want: str) -> None:
    assert passing("InterPodAffinity", make_pod(labels=WEB, **far(*terms)), world(*pods)) == want


# The anti-affinity of a Pod on a1, and where a Pod with app=web in shop can go.
AGAINST: dict[str, tuple[Json, str]] = {
    "it wants no such Pod in its zone": (
        bound("a1", **far(pod_term(label_selector=selector(app="web")))),
        "b1 b2 x",
    ),
    "nor on its node": (bound("a1", **far(pod_term(kube.HOSTNAME, selector(app="web")))), "a2 b1 b2 x"),
    "it has nothing against this one": (bound("a1", **far(pod_term(label_selector=DB))), ALL),
    "every requirement counts": (
        bound("a1", **far(pod_term(label_selector=selector(make_requirement("tier", "Exists"), app="web")))),
        ALL,
    ),
    "a selector without any one value to look for": (
        bound("a1", **far(pod_term(label_selector=selector(make_requirement("app", "In", "web", "cache"))))),
        "b1 b2 x",
    ),
    "it means its own namespace": (
        bound("a1", namespace="ops", **far(pod_term(label_selector=selector(app="web")))),
        ALL,
    ),
    "or one that it names": (
        bound(
            "a1",
            namespace="ops",
            **far(pod_term(label_selector=selector(app="web"), namespaces=["lab", "shop"])),
        ),
        "b1 b2 x",
    ),
    "or one by its labels": (
        bound(
            "a1",
            namespace="ops",
            **far(pod_term(label_selector=selector(app="web"), namespaceSelector=selector(team="web"))),
        ),
        "b1 b2 x",
    ),
    "or not by its labels": (
        bound(
            "a1",
            namespace="ops",
            **far(pod_term(label_selector=selector(app="web"), namespaceSelector=selector(team="infra"))),
        ),
        ALL,
    ),
    "its node lacks the key": (bound("x", **far(pod_term(label_selector=selector(app="web")))), ALL),
    "its affinity is its own affair": (
        bound("a1", **near(pod_term(label_selector=selector(app="web")))),
        ALL,
    ),
    "what cannot be read of it says nothing": (
        bound(
            "a1",
            **far(
                pod_term(label_selector=selector(make_requirement("app", "In"))),
                pod_term(kube.HOSTNAME, selector(app="web")),
            ),
        ),
        "a2 b1 b2 x",
    ),
}


@pytest.mark.parametrize(("pod", "want"), AGAINST.values(), ids=AGAINST.keys())
def test_anti_affinity_of_bound_pods(pod: Json, want: str) -> None:
    assert passing("InterPodAffinity", make_pod(labels=WEB), world(pod)) == want


def test_every_level_may_be_null() -> None:
    for affinity in ({"podAffinity": None, "podAntiAffinity": None}, near()["affinity"], far()["affinity"]):
        assert passing("InterPodAffinity", make_pod(affinity=affinity), world(bound("a1"))) == ALL
    nothing = {"topologyKey": None, "labelSelector": None, "namespaces": None, "namespaceSelector": None}
    assert passing("InterPodAffinity", make_pod(**far(nothing)), world(bound("a1"))) == ALL


def test_nothing_is_looked_at_for_a_pod_that_no_term_is_about() -> None:
    nodes = world(bound("a1", **far(pod_term(label_selector=DB))))

    assert FILTERS["InterPodAffinity"](filters.demand(decode_pod(make_pod(labels=WEB))), nodes) is None


def test_more_requirements_than_anyone_needs_are_not_read() -> None:
    each = [pod_term(label_selector=selector(app=f"app-{number}")) for number in range(MAX_POD_REQUIREMENTS)]
    most, more = filters.demand(decode_pod(make_pod(**far(*each)))), [*each, pod_term(label_selector=DB)]
    demand = filters.demand(decode_pod(make_pod(**far(*more))))

    assert (most.oversized, len(most.anti_affinity)) == (False, MAX_POD_REQUIREMENTS)
    assert (demand.oversized, demand.anti_affinity) == (True, ())
