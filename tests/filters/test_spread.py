"""Hard spread constraints: domains, skew, and which nodes and Pods count."""

import pytest

from tests.builders import Json, make_node, make_pod, make_requirement, make_taint
from webhook import kube

from .world import RACK, bound, passing, selector, world

ALL = "a1 a2 b1 b2 x"
WEB = selector(app="web")


def constraint(
    key: str = kube.ZONE, skew: int = 1, label_selector: Json | None = WEB, **fields: object
) -> Json:
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        **({} if label_selector is None else {"labelSelector": label_selector}),
        **fields,
    }


def web(node: str, count: int = 1, **fields: object) -> list[Json]:
    return [bound(node, str(number), app="web", **fields) for number in range(count)]


# Pods that are bound, the constraints of the one that comes (app=web, hash=2), other fields of it, its nodes.
# The skew is the domain's Pods, plus 1 for the Pod itself where it matches, less those of the emptiest.
SPREAD: dict[str, tuple[list[Json], list[Json], Json, str]] = {
    "the emptiest zone": (web("a1"), [constraint()], {}, "b1 b2"),  # a: 1+1-0 = 2 > 1, b: 0+1-0
    "a skew that is allowed": (web("a1"), [constraint(skew=2)], {}, "a1 a2 b1 b2"),  # a: 1+1-0 = 2
    "both alike": (web("a1") + web("b1"), [constraint()], {}, "a1 a2 b1 b2"),  # 1+1-1
    "the fullest of all is one too many": (web("a1", 2) + web("b1"), [constraint()], {}, "b1 b2"),
    "a node without the key": ([], [constraint()], {}, "a1 a2 b1 b2"),
    "a key that no node has": ([], [constraint("example.com/row")], {}, ""),
    "two constraints": (web("a1"), [constraint(), constraint(RACK)], {}, "b1 b2"),
    "two constraints, the second decides": (
        web("a1") + web("b1"),
        [constraint(), constraint(RACK)],  # racks: a1 and b1 have 1+1-0, a2 and b2 0+1-0
        {},
        "a2 b2",
    ),
    "a soft constraint": (web("a1"), [constraint(whenUnsatisfiable="ScheduleAnyway")], {}, ALL),
    "other Pods": ([bound("a1")], [constraint()], {}, "a1 a2 b1 b2"),
    "Pods of another namespace": (web("a1", namespace="ops"), [constraint()], {}, "a1 a2 b1 b2"),
    "Pods that are going": (
        web("a1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        [constraint()],
        {},
        "a1 a2 b1 b2",
    ),
    "Pods on nodes that lack the key of another constraint": (
        web("x", 3),
        [constraint(kube.HOSTNAME), constraint()],
        {},
        "a1 a2 b1 b2",
    ),
    "the Pod itself does not match": (
        [bound("a1")],
        [constraint(label_selector=selector(app="db"))],
        {},
        "a1 a2 b1 b2",
    ),
    "the empty selector counts nobody but the Pod": (
        web("a1", 3),
        [constraint(label_selector={})],
        {},
        "a1 a2 b1 b2",
    ),
    "no selector counts nobody at all": (web("a1", 3), [constraint(label_selector=None)], {}, "a1 a2 b1 b2"),
    "fewer domains than wanted: the emptiest counts as 0": (
        web("a1") + web("b1"),
        [constraint(minDomains=3)],  # two zones: 1+1-0
        {},
        "",
    ),
    "as many domains as wanted": (web("a1") + web("b1"), [constraint(minDomains=2)], {}, "a1 a2 b1 b2"),
    "domains outside the Pod's node selector do not count": (
        web("a1"),
        [constraint()],  # zone a alone: 1+1-1; b holds none that count: 0+1-1
        {"nodeSelector": {kube.ZONE: "a"}},
        "a1 a2 b1 b2",
    ),
    "unless the policy ignores it": (
        web("a1"),
        [constraint(nodeAffinityPolicy="Ignore")],
        {"nodeSelector": {kube.ZONE: "a"}},
        "b1 b2",
    ),
    "matchLabelKeys stand for the Pod's own labels": (
        web("a1", labels={"app": "web", "hash": "1"}) + web("b1", labels={"app": "web", "hash": "2"}),
        [constraint(matchLabelKeys=["hash", "absent"])],
        {},
        "a1 a2",
    ),
    "a constraint that the API server refuses": (
        web("a1"),
        [constraint(label_selector=selector(make_requirement("app", "Gt", "1")))],
        {},
        ALL,
    ),
    "a skew that the API server refuses": (web("a1"), [constraint(skew=0)], {}, ALL),
    "everything null": (
        web("a1"),
        [dict.fromkeys(("topologyKey", "maxSkew", "whenUnsatisfiable", "labelSelector", "minDomains"))],
        {},
        ALL,
    ),
}


@pytest.mark.parametrize(("pods", "constraints", "fields", "want"), SPREAD.values(), ids=SPREAD.keys())
def test_spread(pods: list[Json], constraints: list[Json], fields: Json, want: str) -> None:
    labels = {"app": "web", "hash": "2"}
    pod = make_pod(labels=labels, topologySpreadConstraints=constraints, **fields)

    assert passing("PodTopologySpread", pod, world(*pods)) == want


# A Pod in each of the zones a and b; zone c is empty, but its node has a taint.
TAINTED: dict[str, tuple[Json, list[Json], str]] = {
    "a tainted node counts by default": ({}, [], "c1"),  # a: 1+1-0, c: 0+1-0
    "not where the policy honors taints": ({"nodeTaintsPolicy": "Honor"}, [], "a1 b1 c1"),  # 1+1-1
    "unless the Pod tolerates it": ({"nodeTaintsPolicy": "Honor"}, [{"operator": "Exists"}], "c1"),
}


@pytest.mark.parametrize(("fields", "tolerations", "want"), TAINTED.values(), ids=TAINTED.keys())
def test_the_policy_for_taints(fields: Json, tolerations: list[Json], want: str) -> None:
    nodes = [
        make_node("a1", labels={kube.ZONE: "a"}),
        make_node("b1", labels={kube.ZONE: "b"}),
        make_node("c1", labels={kube.ZONE: "c"}, taints=[make_taint("team", "NoSchedule")]),
    ]
    pod = make_pod(
        labels={"app": "web"}, tolerations=tolerations, topologySpreadConstraints=[constraint(**fields)]
    )

    assert passing("PodTopologySpread", pod, world(*web("a1"), *web("b1"), nodes=nodes)) == want
