"""Which nodes are named: the sample, the tiers, the weights, and the user's own terms."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.builders import (
    Json,
    decode_node,
    decode_pod,
    make_node,
    make_node_affinity,
    make_pod,
    make_preferred,
    make_requirement,
    make_taint,
)
from webhook import filters, kube, load, patch, planner
from webhook.ledger import Load
from webhook.load import View
from webhook.planner import MAX_NAMES, MAX_TERMS, Plan, Profile, Weighted
from webhook.reasons import Reason
from webhook.snapshot import FloatArray, Snapshot

NAN = float("nan")
INF = float("inf")
POD = Load(100.0, 100.0)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A scorer that knows the answer: one score a row."""

    scores: tuple[float, ...]

    def score(self, nodes: View) -> FloatArray:
        return np.asarray(self.scores[: nodes.fresh.size])


def profile(*scores: float, strength: float = 1.0, percentage: int = 0) -> Profile:
    return Profile((Weighted("fixed", Fixed(scores), 1.0),), strength, percentage)


def plan(nodes: list[Json], wanted: Profile, **pod: Any) -> Plan | Reason:
    """Plan for a Pod with these fields over `nodes`, without readings."""
    snapshot = Snapshot(capacity=2)
    for node in nodes:
        snapshot.set_node(decode_node(node))
    decoded = decode_pod(make_pod(**pod))
    affinity = decoded.spec.affinity.node_affinity if decoded.spec.affinity else None
    return planner.plan(
        filters.demand(decoded),
        (affinity.preferred if affinity else None) or (),
        snapshot,
        load.view(snapshot, POD, 0.0, 60.0),
        wanted,
    )


def named(result: Plan | Reason) -> list[tuple[int, list[str]]]:
    assert isinstance(result, Plan)
    return [(tier.weight, list(tier.hostnames)) for tier in result.tiers]


# Nodes in the cluster, of them feasible, the scheduler's setting; the share of the feasible that it scores.
SAMPLES: dict[str, tuple[int, int, int, float]] = {
    "a small cluster is scored whole": (99, 99, 0, 1.0),
    "never fewer than 100 nodes": (100, 100, 0, 1.0),  # 50 % is 50
    "100 of 200": (200, 200, 0, 0.5),  # 50 - 200/125 = 49 %: 98, so 100
    "420 of 1,000": (1000, 1000, 0, 0.42),  # 50 - 8 = 42 %
    "500 of 5,000": (5000, 5000, 0, 0.1),  # 50 - 40 = 10 %
    "never below 5 %": (10_000, 10_000, 0, 0.05),  # 50 - 80 < 5
    "fewer are feasible than it wants": (1000, 300, 0, 1.0),
    "half are feasible": (1000, 840, 0, 0.5),  # 420 of 840
    "its setting counts": (1000, 1000, 70, 0.7),
    "a small setting is 100 nodes all the same": (1000, 1000, 1, 0.1),
    "a setting of 100 % is all": (5000, 5000, 100, 1.0),
    "nothing is feasible": (1000, 0, 0, 1.0),
}


@pytest.mark.parametrize(("nodes", "feasible", "percentage", "want"), SAMPLES.values(), ids=SAMPLES.keys())
def test_the_sample(nodes: int, feasible: int, percentage: int, want: float) -> None:
    assert planner.sampled_share(nodes, feasible, percentage) == pytest.approx(want)


# Candidates, sampled share; how many to name, so that the sample holds about ten.
WANTED: dict[str, tuple[int, float, int]] = {
    "one candidate": (1, 1.0, 1),
    "of two the better": (2, 1.0, 1),
    "of five, never the worse half": (5, 1.0, 3),
    "ten of twenty": (20, 1.0, 10),
    "ten of many": (99, 1.0, 10),
    "200 nodes": (200, 0.5, 20),  # 10 / 0.5
    "1,000 nodes": (1000, 0.42, 24),  # 10 / 0.42 = 23.8
    "5,000 nodes": (5000, 0.1, 100),
    "10,000 nodes: the cap": (10_000, 0.05, 128),  # 10 / 0.05 = 200
}


@pytest.mark.parametrize(("candidates", "sampled", "want"), WANTED.values(), ids=WANTED.keys())
def test_how_many_to_name(candidates: int, sampled: float, want: int) -> None:
    assert planner.names_wanted(candidates, sampled) == want


TIERS = {
    0: [],
    1: [1],
    4: [1, 1, 1, 1],
    5: [1, 1, 1, 1, 1],  # the rest of a tier of two
    10: [1, 1, 1, 1, 2, 2, 2],
    20: [1, 1, 1, 1, 2, 2, 4, 4, 4],
    128: [1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32],
}


@pytest.mark.parametrize(("names", "want"), TIERS.items())
def test_tiers_are_steep_at_the_top(names: int, want: list[int]) -> None:
    assert planner.tier_sizes(names) == want


def test_tiers_hold_every_name_within_the_cap_of_terms() -> None:
    for names in range(MAX_NAMES + 1):
        sizes = planner.tier_sizes(names)
        assert sum(sizes) == names
        assert len(sizes) < MAX_TERMS  # one more may be the baseline


# Tiers, the room below the user's terms, strength; weights and baseline.
WEIGHTS: dict[str, tuple[int, int, float, list[int], int]] = {
    "full strength needs no baseline": (3, 100, 1.0, [100, 80, 64], 0),
    "fourteen tiers": (14, 100, 1.0, [100, 80, 64, 51, 41, 33, 26, 21, 17, 13, 11, 9, 7, 5], 0),
    "room below a weight of 40": (3, 39, 1.0, [39, 31, 25], 0),
    "little room: strictly falling all the same": (9, 5, 1.0, [5, 4, 3, 2, 1], 0),
    "room for one": (3, 1, 1.0, [1], 0),
    "no tiers": (0, 100, 1.0, [], 0),
    # 100 (B + 0) / (B + w) is what an unnamed node keeps: 50 of 100.
    "half strength": (2, 100, 0.5, [100, 80], 100),
    "a fifth": (2, 100, 0.2, [25, 20], 100),  # 25 / (100 + 25)
    "the least": (3, 100, 0.05, [5, 4, 3], 95),  # 5 / (95 + 5)
    "nearly full": (2, 100, 0.9, [100, 80], 11),  # 100 / 111
    "half strength in little room": (2, 10, 0.5, [10, 8], 10),
}


@pytest.mark.parametrize(
    ("tiers", "ceiling", "strength", "want", "baseline"), WEIGHTS.values(), ids=WEIGHTS.keys()
)
def test_weights(tiers: int, ceiling: int, strength: float, want: list[int], baseline: int) -> None:
    assert planner.tier_weights(tiers, ceiling, strength) == (want, baseline)


def test_weights_fall_strictly_within_1_and_100_and_below_the_room() -> None:
    for tiers in range(1, 20):
        for ceiling in range(1, 101):
            for strength in (0.05, 0.1, 0.3, 0.5, 0.77, 0.9, 0.99, 1.0):
                weights, baseline = planner.tier_weights(tiers, ceiling, strength)
                assert 1 <= len(weights) <= tiers
                assert all(type(weight) is int and 1 <= weight <= ceiling for weight in weights)
                assert all(first > second for first, second in pairwise(weights))
                assert type(baseline) is int
                assert 0 <= baseline <= 100
                assert (baseline == 0) == (strength == 1.0)


@pytest.mark.parametrize("percent", range(5, 100))
def test_strength_is_the_share_that_a_first_name_stays_ahead(percent: int) -> None:
    weights, baseline = planner.tier_weights(3, 100, percent / 100)

    ahead = weights[0] / (baseline + weights[0])
    assert ahead == pytest.approx(percent / 100, abs=0.02)  # integers are coarse at small weights


CHANCES: dict[str, tuple[list[int], float, list[float]]] = {
    "nothing named": ([], 1.0, []),
    "one name, all nodes scored": ([1], 1.0, [0.95]),
    "one name of a sample of half": ([1], 0.5, [0.475]),
    "two tiers": ([1, 1], 1.0, [0.95, 0.05 * 0.95]),
    "two tiers of a sample of half": ([1, 1], 0.5, [0.475, 0.525 * 0.475]),
    "two names alike": ([2], 1.0, [(1 - 0.05**2) / 2] * 2),
    "a pair behind a first": ([1, 2], 1.0, [0.95, 0.05 * (1 - 0.05**2) / 2, 0.05 * (1 - 0.05**2) / 2]),
}


@pytest.mark.parametrize(("sizes", "sampled", "want"), CHANCES.values(), ids=CHANCES.keys())
def test_chances(sizes: list[int], sampled: float, want: list[float]) -> None:
    assert planner.chances(sizes, sampled).tolist() == pytest.approx(want)


def test_chances_fall_from_tier_to_tier_and_never_exceed_one_pod() -> None:
    for names in range(1, MAX_NAMES + 1):
        for sampled in (0.05, 0.1, 0.42, 0.5, 1.0):
            found = planner.chances(planner.tier_sizes(names), sampled)
            assert found.size == names
            assert (found >= 0).all()
            assert found.sum() <= 1.0 + 1e-12
            assert (np.diff(found) <= 1e-15).all()


ROOM: dict[str, tuple[list[int], int]] = {
    "no terms of the user's": ([], 100),
    "one strong term": ([100], 99),
    "one term": ([40], 39),
    "two terms": ([100, 40], 39),  # sums 0, 40, 100, 140
    "the difference of two terms": ([50, 47], 2),  # sums 0, 47, 50, 97
    "equal terms": ([50, 50], 49),
    "a sum that comes near a single term": ([60, 25, 30], 4),  # 25 + 30 = 55, 60
    "steps of ten": ([10, 20, 30], 9),
    "the weakest term leaves no room": ([1], 0),
    "neighbours leave no room": ([50, 51], 0),
    "a weight of zero is refused by the API server": ([0], 0),
    "a weight over 100 is refused by the API server": ([101], 0),
    "a negative weight is refused by the API server": ([-5], 0),
}


@pytest.mark.parametrize(("weights", "want"), ROOM.values(), ids=ROOM.keys())
def test_the_room_below_the_users_terms(weights: list[int], want: int) -> None:
    assert planner.room_below(weights) == want
    assert planner.room_below(reversed(weights)) == want


# The cases of the shared table that set raw scores of n1 and n2, by their id. A weight says a node's tier,
# not its score, so no score can make it a fraction, zero, or more than 100.
CASES: dict[str, tuple[tuple[float, float], Reason | list[tuple[int, list[str]]]]] = {
    "aff-weight-float": ((33.0, 0.0), [(100, ["n1"])]),
    "aff-weight-rounds-to-zero": ((0.3, 0.1), [(100, ["n1"])]),
    "aff-weight-rounds-to-zero, nothing left to tell apart": ((0.003, 0.001), Reason.EQUAL_SCORES),
    "aff-weight-over-100": ((101, 250), [(100, ["n2"])]),
    "aff-equal-scores": ((50, 50), Reason.EQUAL_SCORES),
    "aff-score-nan": ((NAN, INF), Reason.NO_CANDIDATES),
    "a score that is none leaves the other": ((NAN, 10.0), [(100, ["n2"])]),
    "minus infinity is none": ((-INF, 10.0), [(100, ["n2"])]),
}


@pytest.mark.parametrize(("scores", "want"), CASES.values(), ids=CASES.keys())
def test_raw_scores(scores: tuple[float, float], want: Reason | list[tuple[int, list[str]]]) -> None:
    result = plan([make_node("n1"), make_node("n2")], profile(*scores))

    assert (result if isinstance(result, Reason) else named(result)) == want


FIVE = ["n1", "n2", "n3", "n4", "n5"]


def five(**changes: dict[str, Any]) -> list[Json]:
    """Return five nodes; `changes` are further fields of some of them."""
    return [make_node(name, **changes.get(name, {})) for name in FIVE]


RISING = profile(10, 20, 30, 40, 50)

PLANS: dict[str, tuple[list[Json], dict[str, Any], list[tuple[int, list[str]]] | Reason]] = {
    "the better half, best first": (five(), {}, [(100, ["n5"]), (80, ["n4"]), (64, ["n3"])]),
    "no nodes": ([], {}, Reason.NO_CANDIDATES),
    "one candidate": (five(), {"nodeSelector": {kube.HOSTNAME: "n2"}}, [(100, ["n2"])]),
    "nobody is feasible": (five(), {"cpu": "100"}, Reason.NO_CANDIDATES),
    "the label's value is named, not the node": (
        five(n5={"hostname": "host-5"}),
        {},
        [(100, ["host-5"]), (80, ["n4"]), (64, ["n3"])],
    ),
    "a node without the label cannot be named": (
        five(n5={"hostname": None}),
        {},
        [(100, ["n4"]), (80, ["n3"])],  # half of four candidates
    ),
    "a full node is not named": (five(n5={"cpu": "1"}), {"cpu": "2"}, [(100, ["n4"]), (80, ["n3"])]),
    "a node with a soft taint is not named": (
        five(n5={"taints": [make_taint("a", "PreferNoSchedule")]}),
        {},
        [(100, ["n4"]), (80, ["n3"])],
    ),
    "unless it is tolerated": (
        five(n5={"taints": [make_taint("a", "PreferNoSchedule")]}),
        {"tolerations": [{"operator": "Exists"}]},
        [(100, ["n5"]), (80, ["n4"]), (64, ["n3"])],
    ),
    "unless all have one": (
        five(**{name: {"taints": [make_taint("a", "PreferNoSchedule")]} for name in FIVE}),
        {},
        [(100, ["n5"]), (80, ["n4"]), (64, ["n3"])],
    ),
}


@pytest.mark.parametrize(("nodes", "pod", "want"), PLANS.values(), ids=PLANS.keys())
def test_plans(nodes: list[Json], pod: dict[str, Any], want: list[tuple[int, list[str]]] | Reason) -> None:
    result = plan(nodes, RISING, **pod)

    assert (result if isinstance(result, Reason) else named(result)) == want


def user_terms(*terms: Json) -> dict[str, Any]:
    return {"affinity": make_node_affinity(preferred=list(terms))}


SSD = make_requirement("disk", "In", "ssd")
EAST = make_requirement("zone", "In", "east")
SOME_SSD = five(n1={"labels": {"disk": "ssd"}}, n2={"labels": {"disk": "ssd", "zone": "east"}})

# n1 and n2 have an SSD, n2 is in the east; scores rise from n1 to n5.
USERS: dict[str, tuple[dict[str, Any], list[tuple[int, list[str]]] | Reason]] = {
    "only the nodes that the user values most, below the user's weight": (
        user_terms(make_preferred(50, SSD)),
        [(49, ["n2"])],
    ),
    "the sum of the user's terms decides": (
        user_terms(make_preferred(50, SSD), make_preferred(20, EAST)),
        [(19, ["n2"])],
    ),
    "what the user values most is full": (
        user_terms(make_preferred(50, EAST)) | {"nodeSelector": {"disk": "ssd"}},
        [(49, ["n2"])],
    ),
    "no node matches: all are alike to the user": (
        user_terms(make_preferred(50, make_requirement("disk", "In", "nvme"))),
        [(49, ["n5"]), (39, ["n4"]), (31, ["n3"])],
    ),
    "an empty preference matches nothing": (
        user_terms(make_preferred(50)),
        [(49, ["n5"]), (39, ["n4"]), (31, ["n3"])],
    ),
    "little room: fewer tiers": (
        user_terms(make_preferred(3, make_requirement("disk", "In", "nvme"))),
        [(2, ["n5"]), (1, ["n4"])],
    ),
    "no room": (user_terms(make_preferred(1, SSD)), Reason.USER_TERMS),
    "a term that names hosts": (
        user_terms(make_preferred(50, make_requirement(kube.HOSTNAME, "NotIn", "n1"))),
        Reason.USER_TERMS,
    ),
    "a term that names a node by a field": (
        user_terms(make_preferred(50, fields=[make_requirement("metadata.name", "In", "n1")])),
        Reason.USER_TERMS,
    ),
    "a weight that the API server will refuse": (user_terms(make_preferred(0, SSD)), Reason.USER_TERMS),
    "an empty list is none": (user_terms(), [(100, ["n5"]), (80, ["n4"]), (64, ["n3"])]),
}


@pytest.mark.parametrize(("pod", "want"), USERS.values(), ids=USERS.keys())
def test_the_users_own_terms_come_first(
    pod: dict[str, Any], want: list[tuple[int, list[str]]] | Reason
) -> None:
    result = plan(SOME_SSD, RISING, **pod)

    assert (result if isinstance(result, Reason) else named(result)) == want


def test_a_weaker_strength_does_not_weaken_the_users_wish() -> None:
    # A baseline lifts every node alike: the user's 50 would be worth less than the whole score.
    result = plan(SOME_SSD, profile(10, 20, 30, 40, 50, strength=0.05), **user_terms(make_preferred(50, SSD)))

    assert isinstance(result, Plan)
    assert result.baseline == 0


def test_scores_that_differ_by_less_than_a_hundredth_of_a_point_are_equal() -> None:
    nodes = [make_node("n1"), make_node("n2")]

    assert plan(nodes, profile(50.0, 50.009)) is Reason.EQUAL_SCORES
    assert named(plan(nodes, profile(50.0, 50.011))) == [(100, ["n2"])]


def test_equal_scores_are_named_in_the_order_of_the_rows() -> None:
    assert named(plan(five(), profile(10, 50, 50, 10, 50))) == [(100, ["n2"]), (80, ["n3"]), (64, ["n5"])]


def test_nodes_of_one_hostname_label_are_all_that_a_name_can_say() -> None:
    result = plan([make_node(name, hostname="same") for name in FIVE], RISING)

    assert [name for _, names in named(result) for name in names] == ["same"] * 3


def test_the_plan_says_where_the_pod_may_go_and_why() -> None:
    result = plan(five(), RISING)

    assert isinstance(result, Plan)
    assert result.hostnames == ["n5", "n4", "n3"]
    assert result.scores == (50.0, 40.0, 30.0)
    assert result.share.rows.tolist() == [4, 3, 2]
    assert result.share.chances.tolist() == pytest.approx([0.95, 0.05 * 0.95, 0.0025 * 0.95])


def test_tiers_that_have_no_weight_left_are_neither_named_nor_booked() -> None:
    result = plan(five(), RISING, **user_terms(make_preferred(3, make_requirement("disk", "In", "nvme"))))

    assert isinstance(result, Plan)
    assert (
        len(result.scores)
        == len(result.share.rows)
        == len(result.share.chances)
        == len(result.hostnames)
        == 2
    )


# Nodes, the scheduler's setting; names and terms.
SIZES: dict[str, tuple[int, int, int, int]] = {
    "20 nodes": (20, 0, 10, 7),  # 10 names: 1 1 1 1 2 2 2
    "200 nodes": (200, 0, 20, 9),  # half are scored
    "1,000 nodes": (1000, 0, 24, 9),  # 10 / 0.42 = 23.8: 1 1 1 1 2 2 4 4 8
    "1,000 nodes, all of them scored": (1000, 100, 10, 7),
    "5,000 nodes": (5000, 0, 100, 14),
}


@pytest.mark.parametrize(("count", "percentage", "names", "terms"), SIZES.values(), ids=SIZES.keys())
def test_a_plan_keeps_its_caps_at_every_size(count: int, percentage: int, names: int, terms: int) -> None:
    hosts = [f"{number:04d}".ljust(63, "x") for number in range(count)]  # the longest label value there is
    result = plan(
        [make_node(name) for name in hosts],
        profile(*range(count), strength=0.5, percentage=percentage),
    )

    assert isinstance(result, Plan)
    assert result.hostnames == hosts[: -names - 1 : -1]
    assert len(result.tiers) == terms
    operations = patch.inject(decode_pod(make_pod()), patch.terms(result))
    assert patch.problem(operations, patch.encode(operations), decode_pod(make_pod())) is None


def scorer(name: str, *scores: float, weight: float = 1.0) -> Weighted:
    return Weighted(name, Fixed(scores), weight)


MEANS: dict[str, tuple[list[Weighted], list[float]]] = {
    "one scorer": ([scorer("a", 10, 20)], [10, 20]),
    "a weighted mean": ([scorer("a", 10, 20, weight=3), scorer("b", 50, 60)], [20, 30]),  # (30 + 50) / 4
    "one with nothing to say leaves the mean": (
        [scorer("a", 10, 20, weight=3), scorer("b", NAN, 60)],
        [10, 30],
    ),
    "nobody has anything to say": ([scorer("a", NAN, 1), scorer("b", NAN, 3)], [NAN, 2]),
}


@pytest.mark.parametrize(("scorers", "want"), MEANS.values(), ids=MEANS.keys())
def test_the_total_score(scorers: list[Weighted], want: list[float]) -> None:
    nodes = Snapshot()
    for name in ("n1", "n2"):
        nodes.set_node(decode_node(make_node(name)))

    total = planner.total_score(load.view(nodes, POD, 0.0, 60.0), Profile(tuple(scorers)))

    np.testing.assert_allclose(total, want)
