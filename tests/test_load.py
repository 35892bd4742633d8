"""The view of a decision: readings, what they cannot show, and what stands in for them."""

import numpy as np
import pytest

from tests.builders import GIB, decode_node, decode_pod, make_node, make_pod
from webhook import filters, load
from webhook.history import Statistic
from webhook.ledger import Ledger, Load, Share
from webhook.pods import read_shape
from webhook.snapshot import MEMORY, Snapshot
from webhook.wishes import parse

STALE_AFTER = 60.0
NOW = 100.0
NOTHING = Load(0.0, 0.0)


CPUS = np.array([8000.0, 8000.0, 4000.0])


def three_nodes() -> Snapshot:
    """Return nodes of 8, 8 and 4 CPU, 32Gi each; a Pod of 1 CPU and 1Gi is bound to each."""
    nodes = Snapshot(capacity=2)
    for name, cpu in (("n1", "8"), ("n2", "8"), ("n3", "4")):
        nodes.set_node(decode_node(make_node(name, cpu=cpu)))
        nodes.bind(name, read_shape(decode_pod(make_pod(cpu="1", memory="1Gi"))))
    return nodes


# Readings as (row, CPU, seconds ago); the expected CPU load of n1, n2, n3; which are fresh.
VIEWS: dict[str, tuple[list[tuple[int, float, float]], list[float], list[bool]]] = {
    "every reading is fresh": (
        [(0, 4000.0, 0.0), (1, 2000.0, 59.0), (2, 1000.0, 60.0)],
        [4000, 2000, 1000],
        [True, True, True],
    ),
    "a fresh reading counts even below the requests": (
        [(0, 10.0, 0.0), (1, 10.0, 0.0), (2, 10.0, 0.0)],
        [10, 10, 10],
        [True, True, True],
    ),
    # The measured nodes use 6000 of 16000, 0.375; n3 is taken to use that of its 4000.
    "a missing reading looks like the mean": (
        [(0, 4000.0, 0.0), (1, 2000.0, 0.0)],
        [4000, 2000, 1500],
        [True, True, False],
    ),
    # n3's own reading of 0 is old: the mean again.
    "a stale reading looks like the mean": (
        [(0, 4000.0, 0.0), (1, 2000.0, 0.0), (2, 0.0, 61.0)],
        [4000, 2000, 1500],
        [True, True, False],
    ),
    "an invalid reading looks like the mean": (
        [(0, 4000.0, 0.0), (1, 2000.0, 0.0), (2, -5.0, 0.0)],
        [4000, 2000, 1500],
        [True, True, False],
    ),
    # The mean of the measured is 0.025, below what is requested on the others: 1000 each.
    "a missing reading is no less than the requests": (
        [(0, 200.0, 0.0)],
        [200, 1000, 1000],
        [True, False, False],
    ),
    "no reading at all: the requests": ([], [1000, 1000, 1000], [False, False, False]),
}


@pytest.mark.parametrize(("readings", "want", "fresh"), VIEWS.values(), ids=VIEWS.keys())
def test_the_expected_load(
    readings: list[tuple[int, float, float]], want: list[float], fresh: list[bool]
) -> None:
    nodes = three_nodes()
    for row, cpu, age in readings:
        nodes.set_usage(row, cpu, float(GIB), changed_at=NOW - age)

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)

    assert (view.used[0] * CPUS).tolist() == pytest.approx(want)
    assert view.fresh[0].tolist() == fresh


def test_each_resource_is_judged_by_its_own_readings() -> None:
    nodes = three_nodes()
    for row, cpu, memory in ((0, 4000.0, 16.0), (1, 2000.0, 8.0), (2, 3000.0, -1.0)):
        nodes.set_usage(row, cpu, memory * GIB, changed_at=NOW)

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)

    assert view.fresh.tolist() == [[True, True, True], [True, True, False]]
    assert view.used[0].tolist() == pytest.approx([0.5, 0.25, 0.75])
    assert view.used[1].tolist() == pytest.approx([0.5, 0.25, 0.375])  # n3: the mean of 16 and 8 of 32Gi


def test_a_resource_that_nobody_measures_is_taken_from_the_requests() -> None:
    nodes = three_nodes()
    for row in range(3):
        nodes.set_reading(row, MEMORY, 8.0 * GIB, NOW)

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)

    assert view.used[0].tolist() == [0.125, 0.125, 0.25]  # a Pod of 1 CPU on 8, 8 and 4
    assert view.used[1].tolist() == [0.25, 0.25, 0.25]


def test_a_missing_reading_never_makes_a_node_look_best() -> None:
    nodes = Snapshot()
    for name in ("n1", "n2", "n3"):
        nodes.set_node(decode_node(make_node(name)))
    nodes.set_usage(0, 4000.0, 16.0 * GIB, changed_at=NOW)
    nodes.set_usage(1, 2000.0, 8.0 * GIB, changed_at=NOW)

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)

    assert view.used[0].tolist() == pytest.approx([0.5, 0.25, 0.375])  # the mean of the measured
    assert view.used[1].tolist() == pytest.approx([0.5, 0.25, 0.375])


def test_what_is_unseen_and_in_flight_comes_on_top() -> None:
    nodes = three_nodes()
    ledger = Ledger(nodes)
    nodes.set_usage(0, 4000.0, float(GIB), changed_at=NOW)
    nodes.set_usage(1, 2000.0, float(GIB), changed_at=NOW)
    ledger.assume("bound", 0, Load(300.0, 0.0), NOW)
    ledger.reserve("flying", Load(1000.0, 0.0), Share.of([0, 2], [0.5, 0.25]), NOW)

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)

    # n1: 4000 + 300 unseen + 500 in flight. n3: the mean (4000 + 300 + 2000) / 16000 of 4000, and 250.
    assert (view.used[0] * CPUS).tolist() == pytest.approx([4800, 2000, 6300 / 16000 * 4000 + 250])
    # Requests already hold what is bound, so only what is in flight is added.
    assert (view.requested[0] * CPUS).tolist() == pytest.approx([1500, 1000, 1250])


def test_the_pod_is_on_every_node() -> None:
    nodes = three_nodes()
    for row in range(3):
        nodes.set_usage(row, 2000.0, 8.0 * GIB, changed_at=NOW)

    view = load.view(nodes, Load(1000.0, 8.0 * GIB), NOW, STALE_AFTER)

    assert view.used[0].tolist() == [0.375, 0.375, 0.75]  # (2000 + 1000) of 8000, 8000, 4000
    assert view.used[1].tolist() == [0.5, 0.5, 0.5]  # (8 + 8) of 32Gi
    assert view.requested[0].tolist() == [0.25, 0.25, 0.5]  # (1000 + 1000) of 8000, 8000, 4000


@pytest.mark.parametrize("pod", [NOTHING, Load(100.0, 100.0)], ids=["a Pod of nothing", "a Pod"])
def test_a_node_with_nothing_to_give_is_full(pod: Load) -> None:
    nodes = Snapshot()
    nodes.set_node(decode_node(make_node(cpu="0", memory="0")))

    view = load.view(nodes, pod, NOW, STALE_AFTER)

    assert (view.used >= 1.0).all()
    assert (view.requested >= 1.0).all()


def test_no_nodes_make_an_empty_view() -> None:
    view = load.view(Snapshot(), NOTHING, NOW, STALE_AFTER)

    assert view.used.shape == view.requested.shape == (2, 0)


def test_a_view_of_removed_nodes_has_only_finite_numbers() -> None:
    nodes = three_nodes()
    nodes.set_usage(0, 4000.0, float(GIB), changed_at=NOW)
    nodes.remove_node("n1")
    nodes.remove_node("n3")

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)

    assert np.isfinite(view.used).all()
    assert not view.fresh.any()


def test_a_view_is_not_changed_by_what_happens_after_it() -> None:
    nodes = three_nodes()
    ledger = Ledger(nodes)
    for row in range(3):
        nodes.set_usage(row, 1000.0, float(GIB), changed_at=NOW)
    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)
    before = view.used.copy(), view.requested.copy()

    ledger.reserve("flying", Load(1000.0, 0.0), Share.of([0], [1.0]), NOW)
    nodes.set_usage(1, 5000.0, float(GIB), changed_at=NOW)

    assert view.used.tolist() == before[0].tolist()
    assert view.requested.tolist() == before[1].tolist()


P95 = Statistic("percentile", 60.0, percent=95.0)


def read(nodes: Snapshot, row: int, *cpus: float, until: float = NOW) -> None:
    """Let CPU readings of `row` come in, 15 s apart."""
    for age, cpu in enumerate(reversed(cpus)):
        assert cpu >= 0, age
    for number, cpu in enumerate(cpus):
        nodes.set_usage(row, cpu, 8.0 * GIB, until - 15.0 * (len(cpus) - 1 - number))


def test_a_statistic_of_the_readings_takes_the_place_of_the_last() -> None:
    nodes = three_nodes()
    read(nodes, 0, 4000.0, 4000.0, 4000.0, 2000.0)
    read(nodes, 1, 1000.0, 1000.0, 1000.0, 2000.0)
    read(nodes, 2, 1000.0)
    mean = Statistic("mean", 60.0)

    view = load.view(nodes, Load(800.0, 0.0), NOW, STALE_AFTER)

    # n1: 14000 / 4 is 3500, and 800 of the Pod, of 8000; n2: 1250 on average, but 2000 now; n3: too few.
    assert view.level(mean)[0].tolist() == pytest.approx([4300 / 8000, 2800 / 8000, 1800 / 4000])
    assert view.level(None) is view.used
    known = view.statistic(mean)
    assert known[0].tolist() == pytest.approx([3500 / 8000, 1250 / 8000, np.nan], nan_ok=True)
    assert known[1].tolist() == pytest.approx([0.25, 0.25, np.nan], nan_ok=True)


def test_a_statistic_is_not_known_while_the_last_reading_is_stale() -> None:
    nodes = three_nodes()
    read(nodes, 0, 4000.0, 4000.0, 4000.0, 4000.0, until=NOW - STALE_AFTER - 1)
    read(nodes, 1, 1000.0, 1000.0, 1000.0, 1000.0)

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)

    assert np.isnan(view.statistic(P95)[:, 0]).all()
    assert view.level(P95)[0].tolist() == pytest.approx(
        [0.125, 0.125, 0.25]
    )  # n1 as the mean, n3 its requests


def test_a_node_that_comes_back_under_its_name_has_no_past() -> None:
    nodes = three_nodes()
    read(nodes, 0, 4000.0, 4000.0, 4000.0, 4000.0)
    nodes.remove_node("n1")
    nodes.set_node(decode_node(make_node("n1", cpu="8")))
    nodes.set_usage(0, 1000.0, 8.0 * GIB, NOW)

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER)

    assert np.isnan(view.statistic(P95)[:, 0]).all()
    assert view.level(P95)[0, 0] == pytest.approx(0.125)


def test_a_reading_that_is_invalid_is_no_part_of_the_past() -> None:
    nodes = three_nodes()
    for age, cpu in ((60, 4000.0), (45, 9e9), (30, -1.0), (15, np.nan), (0, 4000.0)):
        nodes.set_usage(0, cpu, 8.0 * GIB, NOW - age)

    assert np.isnan(load.view(nodes, NOTHING, NOW, STALE_AFTER).statistic(P95)[0, 0])


def test_a_trend_has_what_no_reading_shows_on_top() -> None:
    nodes = three_nodes()
    read(nodes, 0, 1000.0, 2000.0, 3000.0, 4000.0)
    Ledger(nodes).assume("p", 0, Load(400.0, 0.0), NOW)
    wanted = Statistic("trend", 60.0, ahead_s=15.0)

    view = load.view(nodes, Load(400.0, 0.0), NOW, STALE_AFTER)

    assert view.predicted(wanted)[0, 0] == pytest.approx(5800 / 8000)
    far = Statistic("trend", 60.0, ahead_s=1e6)
    assert view.predicted(far)[0, 0] == pytest.approx(4 + 800 / 8000)  # no more than is plausible


def test_pods_that_a_selector_selects_are_counted_by_row() -> None:
    nodes = Snapshot(capacity=2)
    for name in ("n1", "n2"):
        nodes.set_node(decode_node(make_node(name)))
    bound = [*[("n1", "shop", "db")] * 2, ("n2", "shop", "db"), ("n2", "shop", "web"), ("n2", "other", "db")]
    for node, namespace, app in bound:
        nodes.bind(node, read_shape(decode_pod(make_pod(namespace=namespace, labels={"app": app}))))
    pod = decode_pod(make_pod(namespace="shop", annotations={"trimtab.dev/near": "app=db"}))
    demand = filters.demand(pod)

    view = load.view(nodes, NOTHING, NOW, STALE_AFTER, demand)

    assert demand.wishes.near is not None
    assert view.matching(demand.wishes.near).tolist() == [2, 1]
    assert view.matching(parse("app in (db, web)")).tolist() == [2, 2]
    assert view.matching(parse("none")).tolist() == [0, 0]
