"""Which nodes are named: the sample, the tiers, the weights, and the user's own terms."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

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
from webhook.peers import Turn
from webhook.planner import MAX_NAMES, MAX_TERMS, Plan, Profile, Weighted
from webhook.pods import read_shape
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
        return np.asarray(self.scores[: nodes.size])


def profile(*scores: float, strength: float = 1.0, percentage: int = 0) -> Profile:
    return Profile((Weighted("fixed", Fixed(scores), 1.0),), strength, percentage)


def plan(nodes: list[Json], wanted: Profile, turn: Turn | None = None, **pod: Any) -> Plan | Reason:
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
        load.view(snapshot, requested(decoded) if turn else POD, 0.0, 60.0),
        wanted,
        turn,
    )


def requested(pod: kube.Pod) -> Load:
    requests = kube.read_requests(pod.spec)
    return Load(requests.cpu_milli, requests.memory_bytes)


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


# Candidates, sampled share; how many to name, so that the sample holds about thirty.
WANTED: dict[str, tuple[int, float, int]] = {
    "one candidate": (1, 1.0, 1),
    "of two the better": (2, 1.0, 1),
    "of five, never the worse half": (5, 1.0, 3),
    "ten of twenty": (20, 1.0, 10),
    "thirty of many": (99, 1.0, 30),
    "200 nodes": (200, 0.5, 60),  # 30 / 0.5
    "of 100 candidates in a sample of half, not the worse half": (100, 0.5, 50),
    "1,000 nodes": (1000, 0.42, 72),  # 30 / 0.42 = 71.4
    "5,000 nodes: the cap": (5000, 0.1, 121),  # 30 / 0.1 = 300
    "10,000 nodes: the cap": (10_000, 0.05, 121),  # 30 / 0.05 = 600
}


@pytest.mark.parametrize(("candidates", "sampled", "want"), WANTED.values(), ids=WANTED.keys())
def test_how_many_to_name(candidates: int, sampled: float, want: int) -> None:
    assert planner.names_wanted(candidates, sampled) == want


TIERS = {
    0: [],
    1: [1],
    2: [1, 1],  # the first of a tier of three
    4: [1, 3],
    5: [1, 3, 1],
    10: [1, 3, 6],  # the rest of a tier of nine
    30: [1, 3, 9, 17],  # 30 - 13
    121: [1, 3, 9, 27, 81],  # the sum of the first five powers of three
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
    "full strength needs no baseline": (3, 100, 1.0, [100, 60, 36], 0),  # 100, 100 x 0.6, 60 x 0.6
    "five tiers, as many as the names need": (5, 100, 1.0, [100, 60, 36, 22, 13], 0),  # ... 21.6, 12.96
    "room below a weight of 40": (3, 39, 1.0, [39, 23, 14], 0),  # 39, 23.4, 14.04
    "little room: strictly falling all the same": (9, 5, 1.0, [5, 3, 2, 1], 0),  # 5, 3, 1.8, 1.08, 0.648
    "room for two": (3, 2, 1.0, [2, 1], 0),  # 2, 1.2, 0.72
    "room for one": (3, 1, 1.0, [1], 0),
    "no tiers": (0, 100, 1.0, [], 0),
    # 100 (B + 0) / (B + w) is what an unnamed node keeps: 50 of 100.
    "half strength": (2, 100, 0.5, [100, 60], 100),
    "a fifth": (2, 100, 0.2, [25, 15], 100),  # 25 / (100 + 25)
    "the least": (3, 100, 0.05, [5, 3, 2], 95),  # 5 / (95 + 5); 5, 3, 1.8
    "nearly full": (2, 100, 0.9, [100, 60], 11),  # 100 / 111
    "half strength in little room": (2, 10, 0.5, [10, 6], 10),
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


# Tiers, sampled share; the chances of each name in turn, where the sample holds it.
CHANCES: dict[str, tuple[list[int], float, list[float]]] = {
    "nothing named": ([], 1.0, []),
    "one name, all nodes scored": ([1], 1.0, [0.95]),
    "one name, half of the nodes scored": ([1], 0.5, [0.95]),  # 0.5 x 0.95, over 0.5
    "two tiers": ([1, 1], 1.0, [0.95, 0.05 * 0.95]),
    # The second is taken where the first is not seen or not followed: 1 - 0.5 x 0.95 = 0.525.
    "two tiers, half of the nodes scored": ([1, 1], 0.5, [0.95, 0.525 * 0.95]),
    "three names alike behind a first, half of the nodes scored": (
        [1, 3],
        0.5,
        [0.95, *[0.525 * (1 - 0.525**3) / 3 / 0.5] * 3],
    ),
    "a tenth of the nodes scored": ([1, 1], 0.1, [0.95, (1 - 0.1 * 0.95) * 0.95]),
    "two names alike": ([2], 1.0, [(1 - 0.05**2) / 2] * 2),
    "a pair behind a first": ([1, 2], 1.0, [0.95, 0.05 * (1 - 0.05**2) / 2, 0.05 * (1 - 0.05**2) / 2]),
}


@pytest.mark.parametrize(("sizes", "sampled", "want"), CHANCES.values(), ids=CHANCES.keys())
def test_chances(sizes: list[int], sampled: float, want: list[float]) -> None:
    assert planner.chances(sizes, sampled).tolist() == pytest.approx(want)


def test_chances_fall_from_tier_to_tier_and_come_to_no_more_than_one_pod_in_a_sample() -> None:
    for names in range(1, MAX_NAMES + 1):
        for sampled in (0.05, 0.1, 0.42, 0.5, 1.0):
            found = planner.chances(planner.tier_sizes(names), sampled)
            assert found.size == names
            assert (found >= 0).all()
            assert (found <= 0.95 + 1e-12).all()  # a name is followed at most so often, in any sample
            assert (sampled * found).sum() <= 1.0 + 1e-12
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
    "the better half, best first": (five(), {}, [(100, ["n5"]), (60, ["n4", "n3"])]),
    "no nodes": ([], {}, Reason.NO_CANDIDATES),
    "one candidate": (five(), {"nodeSelector": {kube.HOSTNAME: "n2"}}, [(100, ["n2"])]),
    "nobody is feasible": (five(), {"cpu": "100"}, Reason.NO_CANDIDATES),
    "the label's value is named, not the node": (
        five(n5={"hostname": "host-5"}),
        {},
        [(100, ["host-5"]), (60, ["n4", "n3"])],
    ),
    "a node without the label cannot be named": (
        five(n5={"hostname": None}),
        {},
        [(100, ["n4"]), (60, ["n3"])],  # half of four candidates
    ),
    "a full node is not named": (five(n5={"cpu": "1"}), {"cpu": "2"}, [(100, ["n4"]), (60, ["n3"])]),
    "a node with a soft taint is not named": (
        five(n5={"taints": [make_taint("a", "PreferNoSchedule")]}),
        {},
        [(100, ["n4"]), (60, ["n3"])],
    ),
    "unless it is tolerated": (
        five(n5={"taints": [make_taint("a", "PreferNoSchedule")]}),
        {"tolerations": [{"operator": "Exists"}]},
        [(100, ["n5"]), (60, ["n4", "n3"])],
    ),
    "unless all have one": (
        five(**{name: {"taints": [make_taint("a", "PreferNoSchedule")]} for name in FIVE}),
        {},
        [(100, ["n5"]), (60, ["n4", "n3"])],
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
        [(49, ["n5"]), (29, ["n4", "n3"])],  # 49, 29.4
    ),
    "an empty preference matches nothing": (
        user_terms(make_preferred(50)),
        [(49, ["n5"]), (29, ["n4", "n3"])],  # 49, 29.4
    ),
    "little room": (
        user_terms(make_preferred(3, make_requirement("disk", "In", "nvme"))),
        [(2, ["n5"]), (1, ["n4", "n3"])],  # 2, 1.2
    ),
    "less room: fewer tiers": (
        user_terms(make_preferred(2, make_requirement("disk", "In", "nvme"))),
        [(1, ["n5"])],  # 1; after it 0.6 is 1 as well, and not less
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
    "an empty list is none": (user_terms(), [(100, ["n5"]), (60, ["n4", "n3"])]),
}


@pytest.mark.parametrize(("pod", "want"), USERS.values(), ids=USERS.keys())
def test_the_users_own_terms_come_first(
    pod: dict[str, Any], want: list[tuple[int, list[str]]] | Reason
) -> None:
    result = plan(SOME_SSD, RISING, **pod)

    assert (result if isinstance(result, Reason) else named(result)) == want


def test_a_pod_with_too_many_requirements_towards_others_is_left_to_the_scheduler() -> None:
    term = {"topologyKey": kube.ZONE, "labelSelector": {"matchLabels": {f"l{n}": "" for n in range(33)}}}
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    assert plan(SOME_SSD, RISING, affinity=far) is Reason.USER_TERMS


def test_and_so_is_one_that_would_have_to_be_compared_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    term = {"topologyKey": kube.ZONE, "labelSelector": {"matchLabels": {"app": "web", "tier": "a"}}}
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    monkeypatch.setattr(planner, "MAX_COMPARISONS", 7)

    def planned(shapes: int) -> Plan | Reason:
        nodes = Snapshot()
        for node in SOME_SSD:
            nodes.set_node(decode_node(node))
        for number in range(shapes):
            nodes.bind("n1", read_shape(decode_pod(make_pod(labels={"n": str(number)}))))
        demand = filters.demand(decode_pod(make_pod(affinity=far)))
        return planner.plan(demand, (), nodes, load.view(nodes, POD, 0.0, 60.0), RISING)

    assert isinstance(planned(3), Plan)  # 2 requirements x 3 shapes = 6 <= 7
    assert planned(4) is Reason.USER_TERMS  # 8 > 7


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
    assert named(plan(five(), profile(10, 50, 50, 10, 50))) == [(100, ["n2"]), (60, ["n3", "n5"])]


def test_nodes_of_one_hostname_label_are_all_that_a_name_can_say() -> None:
    result = plan([make_node(name, hostname="same") for name in FIVE], RISING)

    assert [name for _, names in named(result) for name in names] == ["same"] * 3


def test_the_plan_says_where_the_pod_may_go_and_why() -> None:
    result = plan(five(), RISING)

    assert isinstance(result, Plan)
    assert result.hostnames == ["n5", "n4", "n3"]
    assert result.scores.tolist() == [50.0, 40.0, 30.0]
    assert {name: part.tolist() for name, part in result.parts.items()} == {"fixed": [50.0, 40.0, 30.0]}
    assert result.share.rows.tolist() == [4, 3, 2]
    assert result.share.chances.tolist() == pytest.approx(
        [0.95, 0.05 * (1 - 0.05**2) / 2, 0.05 * (1 - 0.05**2) / 2]
    )


def test_tiers_that_have_no_weight_left_are_neither_named_nor_booked() -> None:
    result = plan(five(), RISING, **user_terms(make_preferred(2, make_requirement("disk", "In", "nvme"))))

    assert isinstance(result, Plan)
    assert result.hostnames == ["n5"]
    assert result.scores.tolist() == result.parts["fixed"].tolist() == [50.0]
    assert (result.share.rows.tolist(), result.share.chances.tolist()) == ([4], [0.95])


# Nodes, the scheduler's setting; names and terms.
SIZES: dict[str, tuple[int, int, int, int]] = {
    "20 nodes": (20, 0, 10, 3),  # half of them: 1 3 6
    "200 nodes": (200, 0, 60, 5),  # half are scored, 30 / 0.5: 1 3 9 27 20
    "1,000 nodes": (1000, 0, 72, 5),  # 30 / 0.42 = 71.4: 1 3 9 27 32
    "1,000 nodes, all of them scored": (1000, 100, 30, 4),  # 1 3 9 17
    "5,000 nodes": (5000, 0, 121, 5),  # the cap: 1 3 9 27 81
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


# Each scorer's weight and its scores of two nodes; their mean.
MEANS: dict[str, tuple[list[tuple[float, list[float]]], list[float]]] = {
    "one scorer": ([(1, [10, 20])], [10, 20]),
    "its weight alone changes nothing": ([(7, [10, 20])], [10, 20]),
    "a weighted mean": ([(3, [10, 20]), (1, [50, 60])], [20, 30]),  # (3 x 10 + 50) / 4, (3 x 20 + 60) / 4
    "one with nothing to say leaves the mean": ([(3, [10, 20]), (1, [NAN, 60])], [10, 30]),
    "the first with nothing to say": ([(3, [NAN, 20]), (1, [50, 60])], [50, 30]),
    "nobody has anything to say": ([(1, [NAN, 1]), (1, [NAN, 3])], [NAN, 2]),
}


@pytest.mark.parametrize(("scores", "want"), MEANS.values(), ids=MEANS.keys())
def test_the_total_score(scores: list[tuple[float, list[float]]], want: list[float]) -> None:
    parts = {f"s{number}": np.array(part, np.float64) for number, (_, part) in enumerate(scores)}
    weighted = tuple(
        Weighted(f"s{number}", Fixed(tuple(part)), weight) for number, (weight, part) in enumerate(scores)
    )

    np.testing.assert_allclose(planner.total_score(parts, Profile(weighted)), want)


def test_what_each_scorer_gave_is_told_of_the_named_nodes_only() -> None:
    scorers = (Weighted("a", Fixed((10, 20, 30)), 1.0), Weighted("b", Fixed((NAN, 60, NAN)), 3.0))

    result = plan([make_node(name) for name in ("n1", "n2", "n3")], Profile(scorers))

    assert isinstance(result, Plan)
    assert result.hostnames == ["n2", "n3"]  # (20 + 3 x 60) / 4 = 50, 30, and 10 is the worse half
    np.testing.assert_array_equal(result.parts["a"], [20, 30])
    np.testing.assert_array_equal(result.parts["b"], [60, NAN])


@dataclass(frozen=True, slots=True)
class Spy:
    """A scorer that notes which nodes may be named."""

    known: list[list[bool]]

    def score(self, nodes: View) -> FloatArray:
        self.known.append(nodes.known.tolist())
        return np.full(nodes.size, 50.0)


def test_scorers_are_told_which_nodes_may_be_named() -> None:
    spy = Spy([])
    nodes = [make_node("n1"), make_node("n2", unschedulable=True), make_node("n3", cpu="10m")]

    plan(nodes, Profile((Weighted("spy", spy, 1.0),)), cpu="1")

    assert spy.known == [[True, False, False]]


# The turn of one replica among several. Nodes of 8 CPU and 32 GiB; ten nodes, so five are named. In round 0
# of two replicas the turns of n0 to n4 are TURNS_OF_TWO.

TURNS_OF_TWO = [crc32(f"0 n{number}".encode()) % 2 for number in range(5)]

SCORES = (90.0, 85.0, 80.0, 75.0, 70.0, 1.0, 1.0, 1.0, 1.0, 1.0)


def in_turn(index: int, good: int) -> list[str]:
    """Return the names in the order wanted where the first `good` are good enough."""
    first = [f"n{number}" for number in range(good) if TURNS_OF_TWO[number] == index]
    return first + [f"n{number}" for number in range(5) if f"n{number}" not in first]


@pytest.mark.parametrize(
    ("cpu", "memory", "good"),
    [
        pytest.param("2", "8Gi", 5, id="a quarter of the node: 25 points, down to 65"),
        pytest.param("800m", "16Gi", 3, id="a tenth of its CPU, less than of its memory: down to 80"),
        pytest.param("4", "3276Mi", 2, id="just under a tenth of its memory: the third is not good enough"),
    ],
)
@pytest.mark.parametrize("index", [0, 1])
def test_a_replicas_turn_comes_first_while_it_is_good_enough(
    index: int, cpu: str, memory: str, good: int
) -> None:
    nodes = [make_node(f"n{number}", cpu="8", memory="32Gi") for number in range(10)]

    planned = plan(nodes, profile(*SCORES), Turn(2, index, 0), cpu=cpu, memory=memory)

    assert isinstance(planned, Plan)
    assert planned.hostnames == in_turn(index, good)
    assert [SCORES[int(name[1:])] for name in planned.hostnames] == planned.scores.tolist()
    assert planned.share.rows.tolist() == [int(name[1:]) for name in planned.hostnames]


def test_more_replicas_reach_further_down() -> None:
    # A tenth of the node for each of the other two: 20 points, so four nodes are good enough.
    nodes = [make_node(f"n{number}", cpu="8", memory="32Gi") for number in range(10)]
    dealt = [crc32(f"0 n{number}".encode()) % 3 for number in range(5)]

    for index in range(3):
        planned = plan(nodes, profile(*SCORES), Turn(3, index, 0), cpu="800m", memory="16Gi")

        assert isinstance(planned, Plan)
        first = [f"n{number}" for number in range(5) if dealt[number] == index]
        assert planned.hostnames[: len(first)] == first
