"""topology: near the Pods that one annotation names, far from those of another."""

from typing import Any

import pytest

from tests.views import make_view
from webhook import policy, wishes
from webhook.scorers.topology import Costs, Level, Topology

NAN = float("nan")
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
RACK = "example.com/rack"

# n0 and n1 in zone a, n2 in b, both of region x; n3 in c of region y; n4 without labels of place.
NODES: list[dict[str, Any]] = [
    {"labels": {RACK: "r1", ZONE: "a", REGION: "x"}},
    {"labels": {RACK: "r2", ZONE: "a", REGION: "x"}},
    {"labels": {RACK: "r1", ZONE: "b", REGION: "x"}},
    {"labels": {RACK: "r3", ZONE: "c", REGION: "y"}},
    {"labels": {}},
]
NEAR, FAR = {wishes.NEAR: "app=db"}, {wishes.FAR: "app=db"}

# Peers by node, annotations, scores.
SCORES: dict[str, tuple[list[int], dict[str, str], list[float]]] = {
    "one peer on n0": ([1, 0, 0, 0, 0], NEAR, [100.0, 50.0, 10.0, 0.0, 0.0]),
    # Of four: n0 has two there, one in its zone, one in its region: (200 + 50 + 10) / 4.
    # n1: 100 + 2 x 50 + 10; n2: 100 + 3 x 10; all over 4.
    "the mean over peers": ([2, 1, 1, 0, 0], NEAR, [65.0, 52.5, 32.5, 0.0, 0.0]),
    "a peer without labels is near its own node alone": ([0, 0, 0, 0, 1], NEAR, [0.0, 0.0, 0.0, 0.0, 100.0]),
    "far": ([1, 0, 0, 0, 0], FAR, [0.0, 50.0, 90.0, 100.0, 100.0]),
    "near and far": ([1, 0, 0, 0, 0], NEAR | FAR, [50.0] * 5),
    "no peers": ([0] * 5, NEAR, [NAN] * 5),
    "no wish": ([1, 0, 0, 0, 0], {}, [NAN] * 5),
    "a wish that is none": ([1, 0, 0, 0, 0], {wishes.NEAR: "app in ("}, [NAN] * 5),
}


@pytest.mark.parametrize(("peers", "annotations", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(peers: list[int], annotations: dict[str, str], want: list[float]) -> None:
    view = make_view(nodes=NODES, peers=peers, wishes=wishes.read(annotations))

    assert Topology().score(view).tolist() == pytest.approx(want, nan_ok=True)


def test_levels_of_ones_own() -> None:
    levels = (Level(ZONE, 80.0), Level(REGION, 20.0))
    view = make_view(nodes=NODES, peers=[1, 0, 0, 0, 0], wishes=wishes.read(NEAR))

    assert Topology(levels).score(view).tolist() == [80.0, 80.0, 20.0, 0.0, 0.0]


def test_an_outer_level_is_shared_wherever_the_inner_is() -> None:
    """n2 is in n0's rack, though not in its zone, and in its region: it gets the rack's nearness once."""
    levels = (Level(RACK, 70.0), Level(ZONE, 50.0), Level(REGION, 10.0))
    view = make_view(nodes=NODES, peers=[1, 0, 0, 0, 0], wishes=wishes.read(NEAR))

    assert Topology(levels).score(view).tolist() == [70.0, 50.0, 70.0, 0.0, 0.0]


# Peers by node, scores: a to b costs 2, b to c 8, c to c 4, nothing is said of a to c.
COSTS = Costs(between={"a": {"b": 2.0}, "c": {"b": 8.0, "c": 4.0}})
BY_COSTS: dict[str, tuple[list[int], list[float]]] = {
    "in zone a": ([1, 0, 0, 0, 0], [100.0, 100.0, 75.0, NAN, NAN]),
    "in zone b": ([0, 0, 1, 0, 0], [75.0, 75.0, 100.0, 0.0, NAN]),
    "in zone c, dear even there": ([0, 0, 0, 1, 0], [NAN, NAN, 0.0, 50.0, NAN]),
    # n0: one of a at 0 and one of b at 2; n2: 2 and 0; n3: 8, and that of a is not known.
    "in a and b": ([1, 0, 1, 0, 0], [87.5, 87.5, 87.5, 0.0, NAN]),
    "nowhere in particular": ([0, 0, 0, 0, 3], [NAN] * 5),
}


@pytest.mark.parametrize(("peers", "want"), BY_COSTS.values(), ids=BY_COSTS.keys())
def test_costs(peers: list[int], want: list[float]) -> None:
    view = make_view(nodes=NODES, peers=peers, wishes=wishes.read(NEAR))

    assert Topology(costs=COSTS).score(view).tolist() == pytest.approx(want, nan_ok=True)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "outer nearer than inner": (
        {"levels": [{"key": ZONE, "score": 10}, {"key": REGION, "score": 50}]},
        "args: expected levels from inner to outer, with scores that do not rise",
    ),
    "no levels": ({"levels": []}, "args.levels: expected at least 1 item"),
    "a level without a key": (
        {"levels": [{"key": "", "score": 1}]},
        "args.levels.0.key: expected at least 1 character",
    ),
    "a level that is no mapping": ({"levels": [ZONE]}, "args.levels.0: expected a mapping, found "),
    "levels that are no list": ({"levels": ZONE}, "args.levels: expected a list, found "),
    "no costs": ({"costs": {}}, "args.costs: expected at least one cost above 0"),
    "a negative cost": (
        {"costs": {"between": {"a": {"b": -1}}}},
        "args.costs.between.a.b: expected greater than or equal to 0, found -1",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(policy.ConfigError) as caught:
        policy.scorer("topology", arguments)

    assert str(caught.value.problems[0]).startswith(f"profile.scorers.topology.{message}")


def test_nodes_without_a_label_share_no_place() -> None:
    view = make_view(nodes=[{"labels": {}}] * 2, peers=[1, 0], wishes=wishes.read(NEAR))

    assert Topology().score(view).tolist() == [100.0, 0.0]
    assert Topology((Level(ZONE, 50.0),)).score(view).tolist() == [0.0, 0.0]
