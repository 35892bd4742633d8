"""Pods of one owner are planned together: the deal, its limits, and what ends it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook import admission, filters, kube, load, planner, policy
from webhook.batch import Ask, Batches, batches
from webhook.batch.batches import CHUNK, VALID_S
from webhook.batch.limits import Limit
from webhook.batch.places import FIRST_TURN, deal_out
from webhook.cluster import Cluster
from webhook.demo import workload
from webhook.ledger import Load, Share
from webhook.load import View
from webhook.peers import Turn
from webhook.planner import Plan, Profile, Weighted
from webhook.scorers.utilization import Utilization
from webhook.snapshot import FloatArray
from webhook.thresholds import Thresholds

from .bench import batch as bench
from .builders import (
    NOW,
    decode_node,
    decode_pod,
    make_cluster,
    make_node,
    make_owner,
    make_pod,
    make_review,
    make_uneven_cluster,
    patch_in,
    to_bytes,
)

# The deal


def columns(*scores: list[float]) -> Callable[[int], FloatArray]:
    """Return scores by level; each list is one row's, for its first Pod, its second, and so on."""
    table = np.array(scores, np.float64).T
    return lambda level: table[min(level, len(table) - 1)]


# Scores of each row's first, second, third and fourth Pod, the room, the places wanted; places by row.
DEALS: dict[str, tuple[list[list[float]], list[int], int, list[int]]] = {
    "the best, one each": (
        [[90, 50, 10, -30], [80, 40, 0, -40], [70, 30, -10, -50]],
        [9, 9, 9],
        2,
        [1, 1, 0],
    ),
    "the second on the best": ([[90, 80, 70, 60], [75, 65, 55, 45]], [9, 9], 3, [2, 1]),  # 90, 80, 75
    "no more than it has room for": ([[90, 80, 70, 60], [10, 5, 0, -5]], [2, 9], 3, [2, 1]),
    "no room left anywhere": ([[90, 80, 70, 60], [10, 5, 0, -5]], [2, 1], 9, [2, 1]),
    "packing stays on one node": ([[50, 60, 70, 80], [40, 50, 60, 70]], [9, 9], 3, [3, 0]),
    "packing until it is full": ([[50, 60, 70, 80], [40, 50, 60, 70]], [2, 9], 3, [2, 1]),
    "no number is no place": ([[90, 80, 70, 60], [float("nan")] * 4], [1, 9], 2, [1, 0]),
}


@pytest.mark.parametrize(("scores", "room", "wanted", "want"), DEALS.values(), ids=DEALS.keys())
def test_how_many_places_each_node_is_dealt(
    scores: list[list[float]], room: list[int], wanted: int, want: list[int]
) -> None:
    assert deal_out(wanted, np.array(room), columns(*scores)).counts.tolist() == want


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 20), st.integers(1, 12)), min_size=1, max_size=12),
    st.integers(1, 40),
)
def test_a_deal_is_what_one_pod_after_the_other_would_take(
    nodes: list[tuple[int, int, int]], wanted: int
) -> None:
    start, fall, room = (np.array(column) for column in zip(*nodes, strict=True))
    # Different everywhere: which of two equal places comes first is nobody's business.
    shift = np.arange(start.size) / 100.0

    dealt = deal_out(wanted, room, lambda level: start + shift - fall * level)

    taken = np.zeros(start.size, np.int64)
    for _ in range(wanted):
        now = np.where(taken < room, start + shift - fall * taken, -np.inf)
        if np.isneginf(now).all():
            break
        taken[now.argmax()] += 1
    assert dealt.counts.tolist() == taken.tolist()


# Domains by row, Pods there now, skew, most; places by row where row 0 is best, then row 1, and so on.
NEVER = 1_000
LIMITED: dict[str, tuple[list[int], list[int], int, int, int, list[int]]] = {
    "round the domains": ([0, 0, 1, 2], [0, 0, 0], 1, NEVER, 3, [1, 0, 1, 1]),
    "the emptier domain first": ([0, 1, 1], [1, 0], 1, NEVER, 1, [0, 1, 0]),
    "a larger skew": ([0, 1, 2], [0, 0, 0], 2, NEVER, 3, [2, 1, 0]),
    "one each and no more": ([0, 0, 1], [0, 0], NEVER, 1, 9, [1, 0, 1]),
    "no domain, no limit": ([0, -1, 1], [0, 0], NEVER, 1, 4, [1, 2, 1]),
}


@pytest.mark.parametrize(
    ("domain", "held", "skew", "most", "wanted", "want"), LIMITED.values(), ids=LIMITED.keys()
)
def test_places_within_limits(
    domain: list[int], held: list[int], skew: int, most: int, wanted: int, want: list[int]
) -> None:
    scores = [[90.0 - 10 * row, 88.0 - 10 * row, 86.0 - 10 * row] for row in range(len(domain))]
    limit = Limit(np.array(domain), np.array(held), skew, most)

    dealt = deal_out(wanted, np.full(len(domain), 2), columns(*scores), [limit])

    assert dealt.counts.tolist() == want
    assert (dealt.worth > 200).sum() == sum(want)
    assert dealt.worth.max() == FIRST_TURN


# The batch


@dataclass
class Counted:
    """A scorer that counts how often it is asked."""

    scorer: Utilization = field(default_factory=Utilization)
    calls: int = 0

    def score(self, nodes: View) -> FloatArray:
        self.calls += 1
        return self.scorer.score(nodes)


class Bed:
    """A cluster, and a batch planner over it whose owners have `outstanding` Pods still to come."""

    def __init__(self, cluster: Cluster, outstanding: int | None = 20) -> None:
        self.cluster = cluster
        self.scorer = Counted()
        self.profile = Profile((Weighted("utilization", self.scorer, 1.0),))
        self.batches = Batches(cluster.nodes, lambda *_: outstanding)
        self.now = NOW
        self.number = 0

    def ask(self, pod: kube.Pod) -> Ask:
        demand = filters.demand(pod)
        return Ask(
            demand, tuple(kube.preferred_terms(pod.spec)), self.cluster.expected_load(pod), self.profile
        )

    def view(self, expected: Load) -> View:
        return load.view(self.cluster.nodes, expected, self.now, 60.0)

    def plan(self, *, reserve: bool = True, **pod: Any) -> Plan:
        decoded = decode_pod(replicated(**pod))
        ask = self.ask(decoded)
        planned = self.batches.plan(decoded, ask, self.view, self.now)
        assert isinstance(planned, Plan)
        self.number += 1
        if reserve:
            self.cluster.ledger.reserve(f"r{self.number}", ask.expected, planned.share, self.now)
        return planned

    def alone(self, **pod: Any) -> Plan:
        decoded = decode_pod(replicated(**pod))
        ask = self.ask(decoded)
        planned = planner.plan(
            ask.demand, ask.preferred, self.cluster.nodes, self.view(ask.expected), self.profile
        )
        assert isinstance(planned, Plan)
        return planned


def replicated(owner: str = "o-1", **pod: Any) -> dict[str, Any]:
    controller = {**make_owner("Job"), "uid": owner}
    return make_pod(metadata={"ownerReferences": [controller]}, **({"cpu": "500m", "memory": "1Gi"} | pod))


def firsts(bed: Bed, pods: int, **pod: Any) -> list[str]:
    return [bed.plan(**pod).hostnames[0] for _ in range(pods)]


def test_scoring_runs_for_the_batch_and_not_for_each_pod() -> None:
    bed = Bed(make_uneven_cluster(60))

    firsts(bed, 20)

    assert bed.scorer.calls <= 6  # 0, 1, 3 and 7 Pods a node, and CPU alone


def test_the_first_pod_of_a_batch_is_named_what_it_would_be_alone() -> None:
    bed = Bed(make_uneven_cluster(60))
    alone = bed.alone()

    planned = bed.plan()

    assert planned.tiers == alone.tiers
    np.testing.assert_allclose(planned.scores, alone.scores)
    np.testing.assert_allclose(planned.parts["utilization"], alone.parts["utilization"])


def test_later_pods_take_the_next_places_as_if_each_were_planned_alone() -> None:
    batched, alone = Bed(make_uneven_cluster(60)), Bed(make_uneven_cluster(60), outstanding=1)

    assert firsts(batched, 20) == firsts(alone, 20)
    assert alone.scorer.calls == 20


def test_replicas_that_share_a_batch_begin_with_different_nodes() -> None:
    bed = Bed(
        make_cluster(*(make_node(f"n{n}") for n in range(20)), used={f"n{n}": n / 100 for n in range(20)})
    )
    pod = decode_pod(replicated())
    bed.plan(reserve=False)

    planned = [
        bed.batches.plan(pod, bed.ask(pod), bed.view, bed.now, Turn(2, index, round=0)) for index in range(2)
    ]

    first, second = (plan.hostnames[0] for plan in planned if isinstance(plan, Plan))
    assert first != second


def test_with_thresholds_every_pod_is_planned_alone() -> None:
    bed = Bed(make_uneven_cluster(60))
    bed.profile = replace(bed.profile, thresholds=Thresholds(cpu=90.0))

    firsts(bed, 5)

    assert bed.scorer.calls == 5


def test_a_dry_run_takes_no_place() -> None:
    bed = Bed(make_uneven_cluster(60))
    bed.plan()

    first = bed.plan(reserve=False)

    assert bed.plan().hostnames == first.hostnames


def test_a_pod_that_went_elsewhere_gives_its_place_back() -> None:
    bed = Bed(make_uneven_cluster(60))
    place = bed.plan().hostnames[0]
    assert bed.plan(reserve=False).hostnames[0] != place
    calls = bed.scorer.calls

    bed.cluster.ledger.release("r1")

    assert bed.plan().hostnames[0] == place
    assert bed.scorer.calls == calls


def test_a_place_that_another_pod_took_is_taken() -> None:
    bed = Bed(make_uneven_cluster(60))
    bed.plan(reserve=False)
    place = bed.plan(reserve=False).hostnames[0]
    calls = bed.scorer.calls

    other = decode_pod(make_pod(uid="other", node=place, cpu="2", memory="4Gi"))
    bed.cluster.set_pod(other, bed.now)

    assert bed.plan().hostnames[0] != place
    assert bed.scorer.calls == calls


def test_a_node_that_others_filled_is_not_named() -> None:
    bed = Bed(make_uneven_cluster(60))
    place = bed.plan(reserve=False).hostnames[0]

    full = decode_pod(make_pod(uid="full", node=place, cpu="7900m", memory="1Mi"))
    bed.cluster.set_pod(full, None)  # it has run for long: no load is expected of it beside the readings

    assert place not in bed.plan().hostnames


def node_changes(bed: Bed) -> None:
    bed.cluster.set_node(decode_node(make_node("n1", cpu="16")))


def node_goes(bed: Bed) -> None:
    bed.cluster.remove_node("n1")


def time_passes(bed: Bed) -> None:
    bed.now += VALID_S + 0.1


def policy_changes(bed: Bed) -> None:
    bed.profile = replace(bed.profile, strength=0.5)


REDONE: dict[str, Callable[[Bed], None]] = {
    "a node changed": node_changes,
    "a node went away": node_goes,
    "seconds passed": time_passes,
}


@pytest.mark.parametrize("change", REDONE.values(), ids=REDONE.keys())
def test_the_deal_is_done_anew_when(change: Callable[[Bed], None]) -> None:
    bed = Bed(make_uneven_cluster(60))
    bed.plan()
    once = bed.scorer.calls
    bed.plan()
    assert bed.scorer.calls == once

    change(bed)
    bed.plan()

    assert bed.scorer.calls >= once + 3


def test_the_deal_is_done_anew_when_a_node_that_it_left_out_is_better() -> None:
    names = [f"n{number:03d}" for number in range(300)]
    nodes = [make_node(name) for name in names]
    bed = Bed(make_cluster(*nodes, used={name: 1 + n / 1000 for n, name in enumerate(names)}))
    bed.plan(reserve=False)
    kept = np.arange(250)  # more than the 20 Pods and their names
    bed.cluster.ledger.reserve("others", Load(600.0, 1.0), Share(kept, np.ones(kept.size)), bed.now)

    assert bed.plan(reserve=False).hostnames == bed.alone().hostnames


OTHERS: dict[str, dict[str, Any]] = {
    "it asks for more": {"cpu": "600m"},
    "it may go elsewhere": {"nodeSelector": {"disk": "ssd"}},
    "it tolerates more": {"tolerations": [{"operator": "Exists"}]},
    "another owner": {"owner": "o-2"},
}


@pytest.mark.parametrize("pod", OTHERS.values(), ids=OTHERS.keys())
def test_a_pod_that_differs_has_no_part_in_the_deal(pod: dict[str, Any]) -> None:
    bed = Bed(make_uneven_cluster(60))
    bed.plan()
    calls = bed.scorer.calls

    planned = bed.plan(reserve=False, **pod)

    assert bed.scorer.calls > calls
    assert planned.hostnames == bed.alone(**pod).hostnames


def test_a_changed_policy_is_followed_at_once() -> None:
    bed = Bed(make_uneven_cluster(60))
    bed.plan()

    policy_changes(bed)

    assert bed.plan().baseline > 0


def test_pods_that_differ_in_their_number_alone_share_a_deal() -> None:
    bed = Bed(make_uneven_cluster(60))
    bed.plan(labels={"app": "db", "apps.kubernetes.io/pod-index": "0"})
    calls = bed.scorer.calls

    bed.plan(labels={"app": "db", "apps.kubernetes.io/pod-index": "1"})

    assert bed.scorer.calls == calls


def test_where_nobody_knows_how_many_will_come_the_second_pod_is_dealt_for() -> None:
    bed = Bed(make_uneven_cluster(60), outstanding=None)
    firsts(bed, 2)
    calls = bed.scorer.calls

    firsts(bed, CHUNK // 4)

    assert calls > 2
    assert bed.scorer.calls == calls


def test_a_pod_without_an_owner_is_planned_alone() -> None:
    bed = Bed(make_uneven_cluster(60))
    decoded = decode_pod(make_pod(cpu="500m"))

    for _ in range(3):
        bed.batches.plan(decoded, bed.ask(decoded), bed.view, bed.now)

    assert bed.scorer.calls == 3


def test_only_so_many_batches_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_BATCHES", 2)
    bed = Bed(make_uneven_cluster(60))
    for owner in ("a", "b", "a", "c"):
        bed.plan(owner=owner)
    calls = bed.scorer.calls

    bed.plan(owner="a")
    assert bed.scorer.calls == calls
    bed.plan(owner="b")
    assert bed.scorer.calls > calls


# What Pods ask of one another


def spread(key: str) -> dict[str, Any]:
    return {
        "labels": {"app": "web"},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
    }


def apart(key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {
        "labels": {"app": "web"},
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    }


def lopsided(count: int) -> Cluster:
    """Return nodes of zones a, b and c, in turn, where those of zone a are idle."""
    return make_cluster(
        *(make_node(f"n{n:02d}", labels={kube.ZONE: "abc"[n % 3]}) for n in range(count)),
        used={f"n{n:02d}": 0.1 if n % 3 == 0 else 4.0 + n / 100 for n in range(count)},
    )


def zone_of(name: str) -> str:
    return "abc"[int(name[1:]) % 3]


def test_a_hard_spread_is_dealt_round_the_domains() -> None:
    bed = Bed(lopsided(30))

    zones = [zone_of(name) for name in firsts(bed, 9, **spread(kube.ZONE))]

    assert all(sorted(zones[start : start + 3]) == ["a", "b", "c"] for start in (0, 3, 6))


def test_without_a_spread_the_idle_zone_takes_all() -> None:
    assert {zone_of(name) for name in firsts(Bed(lopsided(30)), 9)} == {"a"}


APART: dict[str, dict[str, Any]] = {
    "anti-affinity by host": apart(kube.HOSTNAME),
    "a host port": {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
}


@pytest.mark.parametrize("pod", APART.values(), ids=APART.keys())
def test_pods_that_keep_apart_are_dealt_a_node_each(pod: dict[str, Any]) -> None:
    # One idle node among busy ones would take several.
    cluster = make_cluster(
        *(make_node(f"n{n:02d}") for n in range(30)),
        used={f"n{n:02d}": 0.1 if n == 0 else 6.0 + n / 100 for n in range(30)},
    )
    bed = Bed(cluster)

    assert len(set(firsts(bed, 12, **pod))) == 12


def test_pods_that_keep_apart_by_zone_take_one_zone_each() -> None:
    assert sorted(zone_of(name) for name in firsts(Bed(lopsided(30)), 3, **apart(kube.ZONE))) == [
        "a",
        "b",
        "c",
    ]


# The whole way


def test_admission_deals_for_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_uneven_cluster(60)
    cluster.batches = Batches(cluster.nodes, lambda *_: 20)
    surveys: list[int] = []
    survey = planner.survey
    monkeypatch.setattr(planner, "survey", lambda *args: surveys.append(1) or survey(*args))  # type: ignore[func-returns-value]
    names = set()
    for number in range(10):
        answer = admission.respond(
            to_bytes(make_review(replicated(), uid=f"review-{number}")),
            cluster,
            policy.default(),
            admission.Clock(NOW, "2026-01-01T00:00:00Z"),
        )
        names.add(str(patch_in(answer.body)[0]))

    assert len(surveys) == 1
    assert len(names) > 1


@pytest.mark.parametrize("order", bench.ORDERS)
def test_500_pods_of_mixed_size_are_no_worse_off_than_planned_one_by_one(order: str) -> None:
    found: dict[str, list[bench.Run]] = {"batch": [], "alone": []}
    for seed in (1, 2):
        generated = workload.generate(200, 500, seed)
        pods = bench.ORDERS[order](bench.arrivals(generated))
        for name, planning in (("batch", bench.batched), ("alone", bench.alone)):
            found[name].append(bench.place(generated, pods, 16, seed, planning))

    sigma = {name: np.mean([run.sigma for run in runs]) for name, runs in found.items()}
    unschedulable = {name: sum(run.unschedulable for run in runs) for name, runs in found.items()}

    # Which of two equal nodes the scheduler takes is chance, and chance is worth a hundredth here.
    assert sigma["batch"] <= 1.01 * sigma["alone"]
    assert unschedulable["batch"] <= unschedulable["alone"]
