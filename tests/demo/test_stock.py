"""The model of the stock scheduler: every plugin's arithmetic, the sample, the choice."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.builders import (
    Json,
    decode_node,
    decode_pod,
    make_node,
    make_node_affinity,
    make_owner,
    make_pod,
    make_preferred,
    make_requirement,
    make_taint,
    make_term,
)
from webhook import filters, kube
from webhook.demo import stock, stockscores
from webhook.demo.stock import StockScheduler
from webhook.pods import read_shape
from webhook.snapshot import Snapshot


def snapshot(*nodes: Json, bound: Sequence[Json] = ()) -> Snapshot:
    result = Snapshot(capacity=2)
    for node in nodes:
        result.set_node(decode_node(node))
    for raw in bound:
        pod = decode_pod(raw)
        result.bind(pod.spec.node_name or "", read_shape(pod))
    return result


def rows(nodes: Snapshot) -> Any:
    return np.arange(nodes.size)


def requests(cpu: object = None, memory: object = None) -> kube.Requests:
    return kube.read_requests(decode_pod(make_pod(cpu=cpu, memory=memory)).spec)


def bound(cpu: object = None, memory: object = None) -> list[Json]:
    return [make_pod(uid="b", node="n1", cpu=cpu, memory=memory)]


# name: (node's cpu and memory, what is bound there, the Pod, the score)
LEAST_ALLOCATED: dict[str, tuple[tuple[str, str], list[Json], tuple[object, object], int]] = {
    "cpu 100(4-1-1)/4 = 50, memory 100(8-1-1)/8 = 75, mean 62.5": (
        ("4", "8Gi"),
        bound("1", "1Gi"),
        ("1", "1Gi"),
        62,
    ),
    "each resource is cut first: 66 and 66": (("3", "3Gi"), [], ("1", "1Gi"), 66),
    "more than there is counts 0: (0 + 75) / 2": (("1", "8Gi"), [], ("2", "2Gi"), 37),
    "what the node does not have is left out: 50": (("4", "0"), [], ("2", "1Gi"), 50),
    "neither resource": (("0", "0"), [], ("2", "1Gi"), 0),
    "no requests count as 100m and 200Mi: 90 and 90": (("1", "2000Mi"), [], (None, None), 90),
    "so they do in what is bound: 80 and 80": (("1", "2000Mi"), bound(), (None, None), 80),
}


@pytest.mark.parametrize("name", LEAST_ALLOCATED)
def test_least_allocated(name: str) -> None:
    (cpu, memory), there, pod, expected = LEAST_ALLOCATED[name]
    nodes = snapshot(make_node(cpu=cpu, memory=memory), bound=there)
    assert stockscores.least_allocated(requests(*pod), nodes, rows(nodes)).tolist() == [expected]


def test_least_allocated_leaves_out_what_the_pod_requests_as_a_whole() -> None:
    """CPU 100(8-1-1)/8 = 75, memory 100(8-4-2)/8 = 25: the bound Pod's 4Gi as a whole do count."""
    whole = {"requests": {"cpu": "4", "memory": "4Gi"}}
    nodes = snapshot(
        make_node("n1", cpu="8", memory="8Gi"),
        bound=[
            make_pod(uid="b", node="n1", cpu="1", memory="1Gi", resources={"requests": {"memory": "4Gi"}})
        ],
    )
    pod = decode_pod(make_pod(cpu="1", memory="2Gi", resources=whole))
    scores = scheduler(nodes).scores(pod, filters.demand(pod), rows(nodes))
    assert scores["NodeResourcesFit"].tolist() == [50]


BALANCED: dict[str, tuple[tuple[str, str], list[Json], tuple[object, object], int]] = {
    "even before and after: 50 + (50 + 100 - 100) / 2": (("4", "8Gi"), [], ("1", "2Gi"), 75),
    "half the CPU alone: deviation 0.25, 50 + (50 + 75 - 100) / 2 = 62.5": (
        ("4", "8Gi"),
        [],
        ("2", "0"),
        62,
    ),
    "the Pod evens it out: 50 + (50 + 100 - 75) / 2 = 87.5": (
        ("4", "8Gi"),
        bound("2", "0"),
        ("0", "4Gi"),
        87,
    ),
    "a fraction ends at 1: deviation 0.5, 50 + (50 + 50 - 100) / 2": (("4", "8Gi"), [], ("9", "0"), 50),
    "with one resource there is nothing to balance": (("4", "0"), [], ("2", "1Gi"), 75),
    "bound Pods without requests count nothing here: 50 + (50 + 75 - 100) / 2": (
        ("1", "100Gi"),
        bound(),
        ("0", "50Gi"),
        62,
    ),
    "a Pod without requests is not scored": (("4", "8Gi"), bound("2", "0"), (None, None), 0),
}


@pytest.mark.parametrize("name", BALANCED)
def test_balanced_allocation(name: str) -> None:
    (cpu, memory), there, pod, expected = BALANCED[name]
    nodes = snapshot(make_node(cpu=cpu, memory=memory), bound=there)
    assert stockscores.balanced_allocation(requests(*pod), nodes, rows(nodes)).tolist() == [expected]


SOFT = "PreferNoSchedule"
# name: (the taints of each node, the Pod's tolerations, the scores)
TAINTS: dict[str, tuple[list[list[Json]], list[Json], list[int]]] = {
    "no taints": ([[], []], [], [100, 100]),
    "0, 1 and 2 of at most 2": (
        [[], [make_taint("a", SOFT)], [make_taint("a", SOFT), make_taint("b", SOFT)]],
        [],
        [100, 50, 0],
    ),
    "a tolerated one does not count": (
        [[make_taint("a", SOFT)], [make_taint("b", SOFT)]],
        [{"key": "a", "operator": "Exists"}],
        [100, 0],
    ),
    "a toleration of another effect does not help": (
        [[], [make_taint("a", SOFT)]],
        [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
        [100, 0],
    ),
    "hard taints are Filter's affair": ([[], [make_taint("a", "NoSchedule")]], [], [100, 100]),
}


@pytest.mark.parametrize("name", TAINTS)
def test_taint_toleration(name: str) -> None:
    taints, tolerations, expected = TAINTS[name]
    nodes = snapshot(*(make_node(f"n{index}", taints=own) for index, own in enumerate(taints)))
    demand = filters.demand(decode_pod(make_pod(tolerations=tolerations)))
    assert stockscores.taint_toleration(demand, nodes, rows(nodes)).tolist() == expected


def on(weight: int, *names: str) -> Json:
    return make_preferred(weight, make_requirement(kube.HOSTNAME, "In", *names))


# name: (preferred terms, the scores of n1, n2, n3)
AFFINITY: dict[str, tuple[list[Json], list[int]]] = {
    "no terms": ([], [0, 0, 0]),
    "nothing matches": ([on(50, "n9")], [0, 0, 0]),
    "one term of any weight": ([on(1, "n2")], [0, 100, 0]),
    "100 x 3/3, 100 x 2/3 cut, 0": ([on(3, "n1"), on(2, "n2")], [100, 66, 0]),
    "matched weights add up: 30 of 40, 40, 10": (
        [on(30, "n1", "n2"), on(10, "n2", "n3")],
        [75, 100, 25],
    ),
    "an empty term matches nothing": ([make_preferred(9), on(1, "n1")], [100, 0, 0]),
}


@pytest.mark.parametrize("name", AFFINITY)
def test_node_affinity(name: str) -> None:
    preferred, expected = AFFINITY[name]
    nodes = snapshot(make_node("n1"), make_node("n2"), make_node("n3"))
    pod = decode_pod(make_pod(affinity=make_node_affinity(preferred=preferred)))
    assert pod.spec.affinity
    assert pod.spec.affinity.node_affinity
    terms = pod.spec.affinity.node_affinity.preferred or ()
    assert stockscores.node_affinity(terms, nodes, rows(nodes)).tolist() == expected


def test_node_affinity_is_relative_to_the_scored_nodes() -> None:
    nodes = snapshot(make_node("n1"), make_node("n2"), make_node("n3"))
    pod = decode_pod(make_pod(affinity=make_node_affinity(preferred=[on(80, "n1"), on(20, "n2")])))
    assert pod.spec.affinity
    assert pod.spec.affinity.node_affinity
    terms = pod.spec.affinity.node_affinity.preferred or ()
    assert stockscores.node_affinity(terms, nodes, np.array([2, 1])).tolist() == [0, 100]


def spread(zones: list[int], matching: list[int]) -> list[stockscores.Spread]:
    """Return the scheduler's own pair: hostname with maxSkew 3, zone with maxSkew 5."""
    hosts, counts = np.arange(len(zones)), np.array(matching)
    return [
        stockscores.Spread(hosts, per_node=True, max_skew=3, matching=counts),
        stockscores.Spread(np.array(zones), per_node=False, max_skew=5, matching=counts),
    ]


# name: (zone of each node, -1 for none; matching Pods on each; scored rows; require all; the scores)
SPREAD: dict[str, tuple[list[int], list[int], list[int], bool, list[int]]] = {
    # Everyone has 0 + (3-1) + 0 + (5-1) = 6: 100 (6 + 6 - 6) / 6.
    "no matching Pod anywhere": ([0, 0, 1], [0, 0, 0], [0, 1, 2], False, [100, 100, 100]),
    # Hosts ln(3+2) = 1.609, zones ln(2+2) = 1.386. Raw: 2 x 1.609 + 2 + 2 x 1.386 + 4 = 11.99, that is 12;
    # 2 + 2.77 + 4 = 9; 6. Then 100 (12 + 6 - raw) / 12.
    "two on the first node": ([0, 0, 1], [2, 0, 0], [0, 1, 2], False, [50, 75, 100]),
    # The first node is not scored, but counts in its zone. Hosts ln(2+2): raw 9 and 6 as above.
    "Pods on nodes outside the sample count": ([0, 0, 1], [2, 0, 0], [1, 2], False, [66, 100]),
    # Only zone 0 is scored, ln(1+2) = 1.099; hosts ln(2+2). Raw: 1.386 + 2 + 1.099 + 4 = 8.48, that is 8;
    # 2 + 1.099 + 4 = 7.1, that is 7. With ln(3+2) for the zones the first would have 88.
    "zones without a scored node do not": ([0, 0, 1, 2], [1, 0, 0, 5], [0, 1], False, [87, 100]),
    # The system's pair takes a node without a zone by its hostname part alone, 2; its lacking zone makes one
    # zone more, ln(2+2); hosts ln(2+2). Raw of the first: 1 x 1.386 + 2 + 1 x 1.386 + 4 = 8.77, that is 9.
    "a node without the label, default": ([0, -1], [1, 0], [0, 1], False, [22, 100]),
    # The Pod's own constraints leave it out: one host ln 3, one zone ln 3: alone it has 100.
    "a node without the label, own constraints": ([0, -1], [1, 7], [0, 1], True, [100, 0]),
    "no node has the labels": ([-1, -1], [1, 7], [0, 1], True, [0, 0]),
}


@pytest.mark.parametrize("name", SPREAD)
def test_topology_spread(name: str) -> None:
    zones, matching, scored, require_all, expected = SPREAD[name]
    scores = stockscores.topology_spread(spread(zones, matching), np.array(scored), require_all=require_all)
    assert scores.tolist() == expected


def test_own_constraints_do_not_count_pods_on_nodes_without_all_the_labels() -> None:
    """The second node has a zone but no host label: its four Pods are not in zone 0 of the first."""
    hosts, zones = spread([0, 0, 1], [0, 4, 0])
    pair = [dataclasses.replace(hosts, domain=np.array([0, -1, 2])), zones]
    scored = np.array([0, 2])
    assert stockscores.topology_spread(pair, scored, require_all=True).tolist() == [100, 100]
    # The system's pair counts them: 2 + 4 x 1.386 + 4 = 11.5, that is 12, and 6.
    assert stockscores.topology_spread(pair, scored).tolist() == [50, 100]


def test_topology_spread_without_constraints_says_nothing() -> None:
    assert stockscores.topology_spread((), np.arange(3)).tolist() == [0, 0, 0]


def test_topology_spread_of_a_max_skew_of_one_with_no_pods() -> None:
    alone = [stockscores.Spread(np.array([0, 0]), per_node=False, max_skew=1, matching=np.array([0, 0]))]
    assert stockscores.topology_spread(alone, np.arange(2)).tolist() == [100, 100]


# How many nodes there are, percentageOfNodesToScore, how many are found.
NODES_TO_FIND = [
    (99, 0, 99),
    (99, 10, 99),
    (100, 0, 100),
    (200, 0, 100),  # 49 % would be 98
    (1000, 0, 420),  # 50 - 1000/125 = 42 %
    (5000, 0, 500),  # 50 - 5000/125 = 10 %
    (6250, 0, 312),  # 0 %, raised to 5 %
    (1000, 30, 300),
    (1000, 5, 100),
    (1000, 100, 1000),
]


@pytest.mark.parametrize(("nodes", "percentage", "expected"), NODES_TO_FIND)
def test_nodes_to_find(nodes: int, percentage: int, expected: int) -> None:
    assert stock.nodes_to_find(nodes, percentage) == expected


def test_the_order_takes_one_node_of_each_zone_in_turn() -> None:
    zones = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "c1": "c", "c2": "c"}
    nodes = snapshot(*(make_node(name, labels={kube.ZONE: zone}) for name, zone in zones.items()))
    assert [nodes.names[row] for row in stock.node_order(nodes)] == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_the_order_leaves_out_rows_that_are_no_node() -> None:
    nodes = snapshot(make_node("n1"), bound=[make_pod(uid="b", node="gone")])
    assert stock.node_order(nodes).tolist() == [0]


def scheduler(nodes: Snapshot, seed: int = 1) -> StockScheduler:
    return StockScheduler(nodes, np.random.default_rng(seed))


def test_the_sample_goes_round() -> None:
    model = scheduler(snapshot(*(make_node(f"n{index}") for index in range(250))))
    everyone = np.ones(250, np.bool_)
    assert model.sample(everyone).tolist() == list(range(120))
    assert model.sample(everyone).tolist() == list(range(120, 240))
    assert model.sample(everyone).tolist() == [*range(240, 250), *range(110)]


def test_refused_nodes_count_as_processed() -> None:
    model = scheduler(snapshot(*(make_node(f"n{index}") for index in range(250))))
    mask = np.ones(250, np.bool_)
    mask[[0, 1, 120, 122]] = False
    # 2 refused at the start, so the 120th found is row 123 and the search meets row 124 before it ends.
    assert model.sample(mask).tolist() == [*range(2, 120), 121, 123]
    assert model.sample(mask)[0] == 124


def test_fewer_feasible_than_wanted_are_all_scored_from_the_same_start() -> None:
    model = scheduler(snapshot(*(make_node(f"n{index}") for index in range(250))))
    mask = np.zeros(250, np.bool_)
    mask[[7, 9]] = True
    assert model.sample(mask).tolist() == [7, 9]
    assert model.sample(mask).tolist() == [7, 9]


def schedule(model: StockScheduler, count: int = 1, **pod: Any) -> list[str | None]:
    return [model.schedule(decode_pod(make_pod(**pod))) for _ in range(count)]


def test_ties_are_broken_at_random_and_repeatably() -> None:
    def chosen(seed: int) -> str | None:
        return schedule(scheduler(snapshot(*(make_node(f"n{index}") for index in range(3))), seed))[0]

    counts = Counter(chosen(seed) for seed in range(300))
    assert set(counts) == {"n0", "n1", "n2"}
    assert min(counts.values()) > 60
    assert [chosen(seed) for seed in range(20)] == [chosen(seed) for seed in range(20)]


def test_a_preferred_node_wins_and_is_filled() -> None:
    model = scheduler(snapshot(make_node("n1", cpu="4"), make_node("n2", cpu="4")))
    wanted = make_node_affinity(preferred=[on(1, "n2")])
    assert schedule(model, 3, cpu="2", affinity=wanted) == ["n2", "n2", "n1"]


def test_least_requested_decides_where_nothing_else_does() -> None:
    nodes = snapshot(make_node("n1"), make_node("n2"), bound=bound("4", "16Gi"))
    assert schedule(scheduler(nodes), cpu="1", memory="4Gi") == ["n2"]


def test_a_pod_that_fits_nowhere_is_not_bound() -> None:
    nodes = snapshot(make_node("n1"))
    assert schedule(scheduler(nodes), cpu="9") == [None]
    assert nodes.requested[:, 0].tolist() == [0, 0, 0, 0]


def test_an_unready_node_is_left_to_its_taint() -> None:
    assert schedule(scheduler(snapshot(make_node("n1", ready="False")))) == ["n1"]
    tainted = make_node("n1", taints=[make_taint("node.kubernetes.io/not-ready", "NoSchedule")])
    assert schedule(scheduler(snapshot(tainted))) == [None]


def test_replicas_of_one_owner_are_spread_and_bare_pods_are_not() -> None:
    def place(**pod: Any) -> list[str | None]:
        sizes = {"large": ("64", "256Gi"), "small": ("8", "32Gi")}
        nodes = snapshot(*(make_node(name, cpu=cpu, memory=memory) for name, (cpu, memory) in sizes.items()))
        return schedule(scheduler(nodes), 2, cpu="1", memory="4Gi", **pod)

    owned = {"ownerReferences": [make_owner("ReplicaSet", "web-1")]}
    assert place() == ["large", "large"]
    assert place(metadata={"ownerReferences": [make_owner("Job", "load")]}) == ["large", "large"]
    assert place(metadata=owned) == ["large", "small"]


def test_the_default_spread_counts_only_nodes_that_the_pod_may_use() -> None:
    """Nodes a1 and b1 are the Pod's; a2 runs two replicas of it, but is left out by its node selector."""
    zones = {"a1": "a", "b1": "b", "a2": "a"}
    nodes = snapshot(
        *(
            make_node(name, labels={kube.ZONE: zone, "ours": str(name != "a2")})
            for name, zone in zones.items()
        )
    )
    owned = {"ownerReferences": [make_owner("ReplicaSet", "web-1")]}
    model = scheduler(nodes)
    for _ in range(2):
        model.bind(decode_pod(make_pod(metadata=owned)), "a2")
    required = make_node_affinity(required=[make_term(make_requirement("ours", "In", "True"))])
    pod = decode_pod(make_pod(metadata=owned, affinity=required))
    free = decode_pod(make_pod(metadata=owned))
    scored = np.array([0, 1])
    # Without the selector, as in the table above: raw 9 and 6.
    assert model.scores(pod, filters.demand(pod), scored)["PodTopologySpread"].tolist() == [100, 100]
    assert model.scores(free, filters.demand(free), scored)["PodTopologySpread"].tolist() == [66, 100]


def test_a_pods_own_constraints_replace_the_default_spread() -> None:
    """Of zones a and b the first runs two Pods of the owner, the second one that the constraint selects."""
    nodes = snapshot(*(make_node(name, labels={kube.ZONE: name}) for name in "ab"))
    owned = {"ownerReferences": [make_owner("ReplicaSet", "web-1")]}
    model = scheduler(nodes)
    for _ in range(2):
        model.bind(decode_pod(make_pod(metadata=owned)), "a")
    model.bind(decode_pod(make_pod(labels={"app": "web"})), "b")
    model.bind(decode_pod(make_pod(labels={"app": "web"}, metadata={"deletionTimestamp": "now"})), "a")

    def scores(action: str) -> list[int]:
        constraint = {
            "topologyKey": kube.ZONE,
            "maxSkew": 1,
            "whenUnsatisfiable": action,
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        pod = decode_pod(make_pod(metadata=owned, topologySpreadConstraints=[constraint]))
        spread = model.scores(pod, filters.demand(pod), rows(nodes))["PodTopologySpread"]
        return list(spread.tolist())

    # Two zones, ln(2+2) = 1.386: raw 0 and 1, of at most 1.
    assert scores("ScheduleAnyway") == [100, 0]
    assert scores("DoNotSchedule") == [0, 0]


def test_nodes_that_appear_later_are_scheduled_to() -> None:
    nodes = snapshot(make_node("n1", cpu="1"))
    model = scheduler(nodes)
    owned = {"ownerReferences": [make_owner("ReplicaSet", "web-1")]}
    assert schedule(model, 2, cpu="1", metadata=owned) == ["n1", None]
    for index in range(2, 5):
        nodes.set_node(decode_node(make_node(f"n{index}", cpu="1")))
    assert sorted(map(str, schedule(model, 3, cpu="1", metadata=owned))) == ["n2", "n3", "n4"]
