"""Whose reading counts: the order of the sources, freshness by our clock, who stands in for whom."""

from dataclasses import dataclass

import pytest

from tests.builders import GIB, make_cluster, make_node
from webhook.cluster import Cluster

STALE_AFTER = 60.0


@dataclass(frozen=True, slots=True)
class Tell:
    """At `at` the source of that rank tells cores, and GiB (None: not told), with that stamp or none."""

    at: float
    rank: int
    cpu: float | None
    memory: float | None = 4.0
    stamp: float | None = None


# What is told in order; when it is looked; the cores and GiB that count then, None where nothing does.
FALLBACK: dict[str, tuple[list[Tell], float, tuple[float | None, float | None]]] = {
    "one source": ([Tell(0, 0, 1)], 60, (1, 4)),
    "one source, gone stale": ([Tell(0, 0, 1)], 61, (None, None)),
    "the first of two": ([Tell(0, 0, 1), Tell(1, 1, 2)], 10, (1, 4)),
    "the first, though told before": ([Tell(1, 1, 2), Tell(2, 0, 1)], 10, (1, 4)),
    "the second has news: the first still counts": (
        [Tell(0, 0, 1), Tell(10, 1, 2), Tell(59, 1, 3)],
        59,
        (1, 4),
    ),
    "the second where the first is stale": ([Tell(0, 0, 1), Tell(50, 1, 2)], 61, (2, 4)),
    "the second is stale as well": ([Tell(0, 0, 1), Tell(1, 1, 2)], 70, (None, None)),
    "the third where two are stale": ([Tell(0, 0, 1), Tell(1, 1, 2), Tell(30, 2, 3)], 80, (3, 4)),
    "the first is back": ([Tell(0, 0, 1), Tell(50, 1, 2), Tell(100, 0, 5), Tell(101, 1, 6)], 102, (5, 4)),
    "the first repeats itself: stale, the second counts": (
        [Tell(0, 0, 1), Tell(40, 0, 1), Tell(50, 1, 2), Tell(80, 0, 1)],
        80,
        (2, 4),
    ),
    "the first tells no number": ([Tell(0, 1, 2), Tell(1, 0, float("nan"))], 10, (2, 4)),
    "the first told a number before": ([Tell(0, 0, 1), Tell(1, 1, 2), Tell(2, 0, -1.0)], 10, (2, 4)),
    "each resource by itself": ([Tell(0, 0, 1, None), Tell(1, 1, 2, 8)], 10, (1, 8)),
    "only CPU is stale": ([Tell(0, 0, 1, None), Tell(1, 1, 2, 8), Tell(40, 1, 3, 8)], 61, (3, 8)),
    "no number from anybody": ([Tell(0, 0, -1.0), Tell(1, 1, float("inf"))], 10, (None, 4)),
}


def tell(cluster: Cluster, each: Tell, name: str = "n1") -> bool:
    return cluster.set_usage(
        name,
        None if each.cpu is None else each.cpu * 1000,
        None if each.memory is None else each.memory * GIB,
        timestamp=each.stamp,
        window=10.0,
        now=each.at,
        wall=each.at,
        source=each.rank,
        stale_after=STALE_AFTER,
    )


def counting(cluster: Cluster, now: float) -> tuple[float | None, float | None]:
    fresh = cluster.nodes.fresh(now, STALE_AFTER)[:, 0]
    cpu, memory = cluster.nodes.used[:, 0].tolist()
    return cpu / 1000 if fresh[0] else None, memory / GIB if fresh[1] else None


@pytest.mark.parametrize(("told", "now", "want"), FALLBACK.values(), ids=FALLBACK.keys())
def test_the_first_fresh_source_counts(
    told: list[Tell], now: float, want: tuple[float | None, float | None]
) -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2"))

    for each in told:
        tell(cluster, each)
    cluster.settle_usage(now, STALE_AFTER)

    assert counting(cluster, now) == want
    assert not cluster.nodes.fresh(now, STALE_AFTER)[:, 1].any()


# Stamps and values of one source, told every 20 s; whether the reading is fresh after the last.
FRESHNESS: dict[str, tuple[list[tuple[float | None, float, float]], bool]] = {
    "stamps move, values do not": ([(float(step), 1, 4) for step in range(8)], True),
    "stamps stand still, values move": ([(7.0, step + 1, 4) for step in range(8)], False),
    "stamps run backwards": ([(100.0 - step, 1, 4) for step in range(8)], True),
    "stamps of another century": ([(-1e10 + step, 1, 4) for step in range(8)], True),
    "no stamps, CPU moves and memory is constant": ([(None, 1 + step / 100, 4) for step in range(8)], True),
    "no stamps, nothing moves": ([(None, 1, 4)] * 8, False),
}


@pytest.mark.parametrize(("told", "fresh"), FRESHNESS.values(), ids=FRESHNESS.keys())
def test_freshness_counts_from_the_last_change(
    told: list[tuple[float | None, float, float]],
    fresh: bool,  # noqa: FBT001
) -> None:
    cluster = make_cluster(make_node("n1"))

    for step, (stamp, cpu, memory) in enumerate(told):
        tell(cluster, Tell(20.0 * step, 0, cpu, memory, stamp))

    assert cluster.nodes.fresh(140.0, STALE_AFTER)[:, 0].tolist() == [fresh, fresh]


def test_each_source_has_a_clock_of_its_own() -> None:
    cluster = make_cluster(make_node("n1"))

    # A day ahead and a day behind: neither makes the other's readings look old or repeated.
    for step in range(4):
        assert tell(cluster, Tell(20.0 * step, 0, 1, 4, 86400.0 + step))
        assert tell(cluster, Tell(20.0 * step, 1, 2, 4, -86400.0 + step))

    assert counting(cluster, 60.0) == (1, 4)


def test_forgotten_sources_leave_what_they_told_until_it_is_stale() -> None:
    cluster = make_cluster(make_node("n1"))
    tell(cluster, Tell(0, 0, 1))

    cluster.forget_sources()

    assert counting(cluster, 60.0) == (1, 4)
    assert counting(cluster, 61.0) == (None, None)
    assert tell(cluster, Tell(10, 1, 2))
    assert counting(cluster, 10.0) == (2, 4)


def test_numbers_reach_the_nodes_that_there_are() -> None:
    cluster = make_cluster(make_node("n1"))

    cluster.set_series("cost", "n1", 3.0, 0.0)
    cluster.set_series("cost", "n9", 4.0, 0.0)

    assert cluster.nodes.series_values("cost", 0.0, STALE_AFTER).tolist() == [3.0]
