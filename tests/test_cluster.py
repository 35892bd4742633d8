"""The cluster as seen: events and lists in, columns and ledger kept."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.builders import (
    GIB,
    NOW,
    Json,
    decode_node,
    decode_pod,
    give_reading,
    make_container,
    make_node,
    make_node_affinity,
    make_pod,
    make_preferred,
    make_requirement,
)
from webhook import decision, kube
from webhook.cluster import Cluster
from webhook.expectation import Expected
from webhook.ledger import Load, Share
from webhook.reasons import Outcome
from webhook.snapshot import CPU, PODS

Op = Callable[[Cluster], object]

LOAD = Load(1000.0, float(GIB))


def nodes(*names: str) -> Op:
    return lambda cluster: cluster.replace_nodes([decode_node(make_node(name)) for name in names])


def node(name: str, **fields: Any) -> Op:
    return lambda cluster: cluster.set_node(decode_node(make_node(name, **fields)))


def node_gone(name: str) -> Op:
    return lambda cluster: cluster.remove_node(name)


def pod(uid: str, on: str | None = None, *, now: float | None = NOW, **fields: Any) -> Op:
    raw = make_pod(uid=uid, node=on, **{"cpu": "1", "memory": "1Gi", **fields})
    return lambda cluster: cluster.set_pod(decode_pod(raw), now)


def pod_gone(uid: str) -> Op:
    return lambda cluster: cluster.remove_pod(uid)


def pods(*listed: tuple[str, str | None], now: float | None = NOW) -> Op:
    raws = [make_pod(uid=uid, node=on, cpu="1", memory="1Gi") for uid, on in listed]
    return lambda cluster: cluster.replace_pods([decode_pod(raw) for raw in raws], now)


def run(operations: Iterable[Op]) -> Cluster:
    cluster = Cluster()
    for operation in operations:
        operation(cluster)
    return cluster


def requested(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Return the milli-CPU and the number of Pods that are bound to each node."""
    found = {}
    for name in cluster.nodes.node_names():
        row = cluster.nodes.row(name)
        assert row is not None
        column = cluster.nodes.requested[:, row]
        found[name] = (int(column[CPU]), int(column[PODS]))
    return found


# Start state, operations, and what is then bound to each node: (milli-CPU, Pods).
TABLE: dict[str, tuple[list[Op], dict[str, tuple[int, int]]]] = {
    "a bound Pod": ([nodes("n1", "n2"), pod("a", "n1")], {"n1": (1000, 1), "n2": (0, 0)}),
    "a pending Pod is bound nowhere": ([nodes("n1"), pod("a")], {"n1": (0, 0)}),
    "a pending Pod is bound": ([nodes("n1"), pod("a"), pod("a", "n1")], {"n1": (1000, 1)}),
    "seen twice, counted once": ([nodes("n1"), pod("a", "n1"), pod("a", "n1")], {"n1": (1000, 1)}),
    "a Pod before its node": ([pod("a", "n1"), nodes("n1")], {"n1": (1000, 1)}),
    "deleted": ([nodes("n1"), pod("a", "n1"), pod_gone("a")], {"n1": (0, 0)}),
    "deleted twice": ([nodes("n1"), pod("a", "n1"), pod_gone("a"), pod_gone("a")], {"n1": (0, 0)}),
    "a Pod that ended counts no more": (
        [nodes("n1"), pod("a", "n1"), pod("a", "n1", phase="Succeeded")],
        {"n1": (0, 0)},
    ),
    "a Pod that had ended when first seen": ([nodes("n1"), pod("a", "n1", phase="Failed")], {"n1": (0, 0)}),
    "a running Pod counts": ([nodes("n1"), pod("a", "n1", phase="Running")], {"n1": (1000, 1)}),
    "a list replaces what is known": (
        [nodes("n1"), pods(("a", "n1"), ("b", "n1")), pods(("b", "n1"), ("c", "n1"))],
        {"n1": (2000, 2)},
    ),
    "a Pod deleted in a gap is no ghost": ([nodes("n1"), pod("a", "n1"), pods()], {"n1": (0, 0)}),
    "a Pod bound in a gap": ([nodes("n1"), pod("a"), pods(("a", "n1"))], {"n1": (1000, 1)}),
    "a node deleted in a gap is gone": ([nodes("n1", "n2"), nodes("n2")], {"n2": (0, 0)}),
    "a node re-created in a gap keeps its Pods": (
        [nodes("n1", "n2"), pod("a", "n1"), nodes("n2"), nodes("n1", "n2")],
        {"n1": (1000, 1), "n2": (0, 0)},
    ),
    "Pods of a deleted node go one by one": (
        [nodes("n1"), pod("a", "n1"), node_gone("n1"), pod_gone("a"), nodes("n1")],
        {"n1": (0, 0)},
    ),
    "an update while bound changes nothing by itself": (
        [nodes("n1"), pod("a", "n1"), pod("a", "n1", labels={"x": "y"})],
        {"n1": (1000, 1)},
    ),
    # In-place resize: the scheduler counts the new request from then on.
    "a Pod resized in place counts what it requests now": (
        [nodes("n1"), pod("a", "n1"), pod("a", "n1", cpu="3")],
        {"n1": (3000, 1)},
    ),
    "a resized Pod leaves nothing behind": (
        [nodes("n1"), pod("a", "n1"), pod("a", "n1", cpu="3"), pod_gone("a")],
        {"n1": (0, 0)},
    ),
    "a bad quantity in one Pod does not stop the others": (
        [nodes("n1"), pod("a", "n1", cpu="lots"), pod("b", "n1")],
        {"n1": (1000, 1)},
    ),
    "a Pod without a uid goes by its namespace and name": (
        [
            nodes("n1"),
            lambda cluster: cluster.set_pod(decode_pod(make_pod(name="x", node="n1", cpu="1")), NOW),
            lambda cluster: cluster.set_pod(decode_pod(make_pod(name="x", node="n1", cpu="1")), NOW),
            lambda cluster: cluster.set_pod(
                decode_pod(make_pod(name="x", namespace="other", node="n1", cpu="1")), NOW
            ),
        ],
        {"n1": (2000, 2)},
    ),
}


@pytest.mark.parametrize(("operations", "want"), TABLE.values(), ids=TABLE.keys())
def test_what_is_bound(operations: list[Op], want: dict[str, tuple[int, int]]) -> None:
    cluster = run(operations)

    assert requested(cluster) == want
    assert cluster.pods == sum(count for _, count in want.values())


def test_a_pod_of_absurd_size_does_not_stop_the_watch() -> None:
    # Anybody may create a Pod with a nodeName: every watcher sees it before the kubelet refuses it.
    absurd = [make_container(cpu="9E", memory="9E")] * 2

    cluster = run([nodes("n1"), pod("a", "n1", containers=absurd), pod("b", "n1"), pod_gone("a")])

    assert requested(cluster) == {"n1": (1000, 1)}


# In flight: what the ledger holds of Pods that are admitted and not bound.

HOSTS = {"n1": 0.0, "n2": 0.0, "n3": 0.0}
TERM = make_preferred(100, make_requirement(kube.HOSTNAME, "In", "n1"))
OTHER = make_preferred(80, make_requirement(kube.HOSTNAME, "In", "n2", "n3"))


def steered(
    uid: str | None = None,
    *,
    terms: list[Json] | None = None,
    review: str = "review-1",
    replica: str = "",
    **fields: Any,
) -> Json:
    """Return a Pod as it leaves the webhook: with terms, and the decision that says so."""
    terms = [TERM] if terms is None else terms
    value = decision.make(
        uid=review,
        outcome=Outcome.STEERED,
        reason=None,
        policy="built-in",
        policy_hash="built-in",
        time="2026-01-01T00:00:00Z",
        nodes={"fresh": 3},
        plan=None,
        expected=Expected(Load(1000.0, float(GIB)), ("requests", "requests")),
        terms=terms,
        replica=replica,
        full=False,
    )
    return make_pod(
        uid=uid,
        annotations={decision.DECISION: value},
        affinity=make_node_affinity(preferred=terms),
        **{"cpu": "1", "memory": "1Gi", **fields},
    )


def seen(raw: Json, now: float | None = NOW) -> Op:
    return lambda cluster: cluster.set_pod(decode_pod(raw), now)


def reserved(cluster: Cluster) -> dict[str, float]:
    found = {}
    for name in cluster.nodes.node_names():
        row = cluster.nodes.row(name)
        assert row is not None
        found[name] = float(cluster.nodes.reserved[0, row])
    return found


def admit(review: str = "review-1", *, row: int = 2, chance: float = 0.5) -> Op:
    return lambda cluster: cluster.ledger.reserve(review, LOAD, Share.of([row], [chance]), NOW)


THREE = nodes("n1", "n2", "n3")

# The chance of the first name is 0.95, other plugins outvote us now and then; of the next tier's two names
# each has (1 - 0.95) x (1 - 0.05^2) / 2 = 0.0249375.
FLIGHTS: dict[str, tuple[list[Op], dict[str, float], int]] = {
    "admitted here": ([THREE, admit()], HOSTS | {"n3": 500}, 1),
    "admitted here, then seen pending: as it was reserved": (
        [THREE, admit(), seen(steered("a"))],
        HOSTS | {"n3": 500},
        1,
    ),
    "admitted by another replica: by its own terms": ([THREE, seen(steered("a"))], HOSTS | {"n1": 950}, 1),
    "several tiers, heaviest first, whatever their order": (
        [THREE, seen(steered("a", terms=[OTHER, TERM]))],
        {"n1": 950, "n2": 24.9375, "n3": 24.9375},
        1,
    ),
    "a name that is no node is passed over": (
        [
            THREE,
            seen(
                steered("a", terms=[make_preferred(100, make_requirement(kube.HOSTNAME, "In", "n8")), OTHER])
            ),
        ],
        {"n1": 0, "n2": 1000 * (1 - 0.05**2) / 2, "n3": 1000 * (1 - 0.05**2) / 2},
        1,
    ),
    "the baseline books nothing": (
        [
            THREE,
            seen(steered("a", terms=[TERM, make_preferred(50, make_requirement(kube.HOSTNAME, "Exists"))])),
        ],
        HOSTS | {"n1": 950},
        1,
    ),
    "seen pending twice": ([THREE, seen(steered("a")), seen(steered("a"))], HOSTS | {"n1": 950}, 1),
    "bound": ([THREE, admit(), seen(steered("a")), seen(steered("a", node="n2"))], HOSTS, 0),
    "first seen when already bound": ([THREE, admit(), seen(steered("a", node="n2"))], HOSTS, 0),
    "another replica's Pod, bound": ([THREE, seen(steered("a")), seen(steered("a", node="n2"))], HOSTS, 0),
    "deleted while pending": ([THREE, admit(), seen(steered("a")), pod_gone("a")], HOSTS, 0),
    "deleted while pending, in a gap": ([THREE, admit(), seen(steered("a")), pods()], HOSTS, 0),
    "ended without ever being bound": (
        [THREE, seen(steered("a")), seen(steered("a", phase="Failed"))],
        HOSTS,
        0,
    ),
    "a list does not end what is admitted and not seen yet": (
        [THREE, admit(), pods()],
        HOSTS | {"n3": 500},
        1,
    ),
    "a pending Pod that nobody steered": ([THREE, pod("a")], HOSTS, 0),
    "a pending Pod with the user's own hostname term": (
        [THREE, pod("a", affinity=make_node_affinity(preferred=[TERM]))],
        HOSTS,
        0,
    ),
    "a decision that injected nothing": ([THREE, seen(steered("a", terms=[]))], HOSTS, 0),
    "an annotation that cannot be read": (
        [THREE, pod("a", annotations={decision.DECISION: "injected"})],
        HOSTS,
        0,
    ),
    "a bad quantity": ([THREE, seen(steered("a", cpu="lots"))], HOSTS, 0),
}


@pytest.mark.parametrize(("operations", "want", "count"), FLIGHTS.values(), ids=FLIGHTS.keys())
def test_what_is_in_flight(operations: list[Op], want: dict[str, float], count: int) -> None:
    cluster = run(operations)

    assert reserved(cluster) == pytest.approx(want)
    assert cluster.ledger.in_flight == count


# What somebody who may write annotations could try.

FORGED: dict[str, tuple[list[Op], dict[str, float], int]] = {
    "a bound Pod that names another's review leaves nothing of its own": (
        [THREE, admit("review-1"), seen(steered("a", review="review-9", node="n1"))],
        HOSTS | {"n3": 500},
        1,
    ),
    # The uid of a pending Pod is no secret to those who can read it.
    "a bound Pod that names a pending Pod's uid ends nothing": (
        [THREE, seen(steered("a")), seen(steered("evil", review="a", node="n2"))],
        HOSTS | {"n1": 950},
        1,
    ),
    "a digest that is not that of the terms": (
        [
            THREE,
            pod(
                "evil",
                annotations=steered(terms=[OTHER])["metadata"]["annotations"],
                affinity=make_node_affinity(preferred=[TERM]),
            ),
        ],
        HOSTS,
        0,
    ),
    # Nothing steers Pods there, so nothing there is booked.
    "a namespace that has not asked for steering": (
        [
            THREE,
            lambda cluster: cluster.namespaces.update({"quiet": {}}),
            seen(steered("evil", namespace="quiet")),
        ],
        HOSTS,
        0,
    ),
    # It can never run there, so it must not make the node look busy for as long as it is pending.
    "a Pod that fits no node": ([THREE, seen(steered("evil", cpu="1000"))], HOSTS, 1),
}


@pytest.mark.parametrize(("operations", "want", "count"), FORGED.values(), ids=FORGED.keys())
def test_a_forged_decision_moves_no_load(operations: list[Op], want: dict[str, float], count: int) -> None:
    cluster = run(operations)

    assert reserved(cluster) == pytest.approx(want)
    assert cluster.ledger.in_flight <= count


def test_a_node_that_takes_over_a_row_starts_without_what_was_reserved_on_the_last() -> None:
    cluster = run([THREE, admit(row=2), node_gone("n3"), node("n4")])

    assert reserved(cluster) == {"n1": 0, "n2": 0, "n4": 0}

    cluster.ledger.release("review-1")
    assert not cluster.nodes.reserved.any()


# Bound, and not in the readings yet.


def reading(after: float) -> Op:
    """Return a reading over the 10 s until `after` seconds from now, by a clock like ours."""
    return lambda cluster: read(cluster, NOW + after, NOW + after)


UNSEEN: dict[str, tuple[list[Op], float]] = {
    "just bound": ([nodes("n1"), pod("a", "n1")], 1000),
    "just bound, and running": ([nodes("n1"), pod("a", "n1", phase="Running")], 1000),
    "running for long, in the first list": ([nodes("n1"), pod("a", "n1", now=None, phase="Running")], 0),
    "bound and not running, in the first list": (
        [nodes("n1"), pod("a", "n1", now=None, phase="Pending")],
        1000,
    ),
    "bound in a gap": ([nodes("n1"), pods(("a", "n1"), now=NOW)], 1000),
    "a list that shows it again": ([nodes("n1"), pod("a", "n1"), pods(("a", "n1"), now=NOW + 5)], 1000),
    "deleted": ([nodes("n1"), pod("a", "n1"), pod_gone("a")], 0),
    "ended": ([nodes("n1"), pod("a", "n1"), pod("a", "n1", phase="Succeeded")], 0),
    "its node went away": ([nodes("n1"), pod("a", "n1"), node_gone("n1"), node("n1")], 0),
    "nothing requested: the default of the policy": ([nodes("n1"), pod("a", "n1", cpu=None)], 250),
    "bound before its node was seen": ([pod("a", "n1"), nodes("n1")], 1000),
    "a reading while its image is pulled": ([nodes("n1"), pod("a", "n1"), reading(60.0)], 1000),
    "a reading after it started": (
        [nodes("n1"), pod("a", "n1"), pod("a", "n1", now=NOW + 5, phase="Running"), reading(60.0)],
        0,
    ),
    "a reading of half its life": (
        [nodes("n1"), pod("a", "n1"), pod("a", "n1", now=NOW + 5, phase="Running"), reading(10.0)],
        500,  # the mean over 10 s shows the last 5 s
    ),
    "it runs from when it is first seen running": (
        [
            nodes("n1"),
            pod("a", "n1", phase="Running"),
            pod("a", "n1", now=NOW + 9, phase="Running"),
            reading(5.0),
        ],
        500,
    ),
}


@pytest.mark.parametrize(("operations", "want"), UNSEEN.values(), ids=UNSEEN.keys())
def test_what_readings_do_not_show(operations: list[Op], want: float) -> None:
    cluster = run(operations)

    row = cluster.nodes.row("n1")
    assert row is not None
    assert cluster.nodes.unseen[0, row] == want


# Readings: (timestamp by the source's clock, our clock); then whether the last one was news, and for how
# much of a Pod of 1000 milli-CPU, running from our 1000 s on, the readings do not account. Windows are 10 s.

READINGS: dict[str, tuple[list[tuple[float, float]], bool, float]] = {
    "the first one": ([(1000.0, 1000.0)], True, 1000),
    "the next one": ([(1000.0, 1000.0), (1005.0, 1005.0)], True, 500),  # 5 of 10 s
    "one that covers it": ([(1000.0, 1000.0), (1010.0, 1010.0)], True, 0),
    "an old one repeated": ([(1000.0, 1000.0), (1000.0, 1030.0)], False, 1000),
    "a clock two hours ahead": ([(8200.0, 1000.0), (8205.0, 1005.0)], True, 500),
    "a time zone behind": ([(-2600.0, 1000.0), (-2595.0, 1005.0)], True, 500),
    "the Unix epoch against a clock that was never set": ([(1.7e9, 1000.0), (1.7e9 + 5, 1005.0)], True, 500),
    "the first one, late": ([(995.0, 1000.0)], True, 1000),
    "the first one after the Pod started, late": ([(1005.0, 1009.0)], True, 500),
    # Stamped at 1005, but received 4 s later than the first one was: it ended at our 1005, not 1009.
    "one that comes late": ([(1000.0, 1000.0), (1005.0, 1009.0)], True, 500),
    # The first came 4 s late, so what looks like 0 s late is taken as the clocks' true distance from then on.
    "one that comes earlier than ever": ([(996.0, 1000.0), (1005.0, 1005.0)], True, 500),
    "a late one after an early one": ([(996.0, 1000.0), (1002.0, 1002.0), (1005.0, 1009.0)], True, 500),
    "a clock set back by an hour": ([(1000.0, 1000.0), (-2595.0, 1005.0)], True, 500),
    "a clock set forward by an hour": ([(1000.0, 1000.0), (4605.0, 1005.0)], True, 500),
    "after a clock was set back, its new distance counts": (
        [(1000.0, 1000.0), (-2599.0, 1001.0), (-2595.0, 1005.0)],
        True,
        500,
    ),
    "after a clock was set forward, its new distance counts": (
        [(1000.0, 1000.0), (4601.0, 1001.0), (4605.0, 1005.0)],
        True,
        500,
    ),
}


def read(cluster: Cluster, timestamp: float, now: float, *, cpu: float = 2000.0) -> bool:
    return give_reading(cluster, "n1", cpu, float(GIB), timestamp=timestamp, window=10.0, now=now)


@pytest.mark.parametrize(("readings", "news", "unseen"), READINGS.values(), ids=READINGS.keys())
def test_readings(readings: list[tuple[float, float]], news: bool, unseen: float) -> None:  # noqa: FBT001
    cluster = run([nodes("n1"), pod("a", "n1", now=1000.0, phase="Running")])

    told = [read(cluster, timestamp, now) for timestamp, now in readings]

    assert told[-1] is news
    assert cluster.nodes.unseen[0, 0] == pytest.approx(unseen)


def test_a_clock_set_back_by_a_minute_is_not_held_against_its_readings_for_ever() -> None:
    cluster = run([nodes("n1")])
    read(cluster, 1000.0, 1000.0)
    for step in range(400):  # 400 readings, every 15 s, by a clock that now runs a minute behind
        read(cluster, 955.0 + 15 * step, 1015.0 + 15 * step)

    bound_at = 1015.0 + 15 * 399 + 1.0
    pod("a", "n1", now=bound_at, phase="Running")(cluster)
    read(cluster, bound_at - 60.0 + 15.0, bound_at + 15.0)

    assert cluster.nodes.unseen[0, 0] == 0  # a window of 10 s, all of it after the Pod was bound


def test_a_source_that_stands_still_goes_stale() -> None:
    cluster = run([nodes("n1")])
    for now in range(0, 200, 15):
        read(cluster, 50.0, float(now))

    assert cluster.nodes.states(now=195.0, stale_after=180.0)["stale"] == 1
    assert cluster.nodes.states(now=180.0, stale_after=180.0)["fresh"] == 1


def test_a_source_that_moves_stays_fresh_whatever_its_clock_says() -> None:
    cluster = run([nodes("n1")])
    for now in range(0, 600, 15):
        read(cluster, -7200.0 + now, float(now))

    assert cluster.nodes.states(now=600.0, stale_after=30.0)["fresh"] == 1


def test_an_invalid_reading_covers_nothing() -> None:
    cluster = run([nodes("n1"), pod("a", "n1", now=1000.0, phase="Running")])
    read(cluster, 1000.0, 1000.0)

    assert read(cluster, 1050.0, 1050.0, cpu=-1.0)

    assert cluster.nodes.states(1050.0, 180.0)["invalid"] == 1
    assert cluster.nodes.unseen[0, 0] == 1000


def test_a_reading_of_a_node_that_is_not_there_is_dropped() -> None:
    cluster = run([pod("a", "n1", now=1000.0)])

    assert not read(cluster, 1000.0, 1000.0)
    node("n1")(cluster)
    assert cluster.nodes.states(1000.0, 180.0)["missing"] == 1


def test_a_re_created_node_takes_its_first_reading_even_with_the_old_timestamp() -> None:
    cluster = run([nodes("n1")])
    read(cluster, 1000.0, 1000.0)
    node_gone("n1")(cluster)
    node("n1")(cluster)

    assert read(cluster, 1000.0, 1001.0)


def test_a_pinned_reading_is_fresh_for_ever() -> None:
    cluster = run([nodes("n1", "n2")])

    cluster.pin_usage("n1", 2000.0, float(GIB))
    cluster.pin_usage("n9", 2000.0, float(GIB))

    assert cluster.nodes.states(1e12, 1.0) == {"fresh": 1, "stale": 0, "missing": 1, "invalid": 0}
    assert np.isfinite(cluster.nodes.used).all()


def test_a_node_that_takes_over_a_row_of_pods_without_a_node_starts_without_what_was_known_there() -> None:
    cluster = run([pod("a", "ghost")])
    cluster.pin_usage("ghost", 10.0, float(GIB))
    cluster.remove_pod("a")

    cluster.set_node(decode_node(make_node("n1")))

    assert cluster.nodes.states(NOW, 60.0) == {"fresh": 0, "stale": 0, "missing": 1, "invalid": 0}
    assert cluster.nodes.bindings.within(60.0, NOW, 1).tolist() == [0]


STEERING: dict[str, tuple[Mapping[str, str] | None, str | None]] = {
    "enabled": ({"trimtab.dev/steering": "enabled"}, "enabled"),
    "shadow": ({"trimtab.dev/steering": "shadow"}, "shadow"),
    "not labelled": ({}, None),
    "another value": ({"trimtab.dev/steering": "disabled"}, None),
    "another case": ({"trimtab.dev/steering": "Enabled"}, None),
    "another label": ({"steering": "enabled"}, None),
    "never seen: the API server's selector has decided": (None, "enabled"),
}


@pytest.mark.parametrize(("labels", "want"), STEERING.values(), ids=STEERING.keys())
def test_the_switch_of_a_namespace(labels: Mapping[str, str] | None, want: str | None) -> None:
    cluster = Cluster()
    if labels is not None:
        cluster.set_namespace(kube.Named(kube.Metadata(name="shop", labels=dict(labels))))

    assert cluster.steering("shop") == want


def test_namespaces_and_priority_classes_are_replaced_and_removed() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.set_namespace(kube.Named(kube.Metadata(name=name)))
        cluster.set_priority_class(kube.Named(kube.Metadata(name=name), value=7))
    cluster.replace_namespaces([kube.Named(kube.Metadata(name="b")), kube.Named(kube.Metadata(name="c"))])
    cluster.replace_priority_classes([kube.Named(kube.Metadata(name="c"), value=9)])
    cluster.remove_namespace("b")
    cluster.remove_namespace("z")

    assert cluster.namespaces == {"c": {}}
    assert cluster.priority_classes == {"c": 9}
    cluster.remove_priority_class("c")
    assert cluster.priority_classes == {}


def test_a_namespace_not_seen_yet_is_taken_as_the_caller_says() -> None:
    """In a file it was left out; in a cluster its event is on the way, and may say shadow."""
    assert Cluster().steering("new") == "enabled"
    assert Cluster(unknown="shadow").steering("new") == "shadow"


# Turns among replicas: only while Pods are in flight, and only where another one admits Pods.

OTHERS: dict[str, tuple[list[Op], bool]] = {
    "alone": ([THREE, admit(), seen(steered("a", replica="own"))], False),
    "another's Pod is in flight": ([THREE, seen(steered("a", replica="other"))], True),
    "another's Pod was in flight": (
        [THREE, seen(steered("a", replica="other")), seen(steered("a", replica="other", node="n1"))],
        False,
    ),
    "another's Pod was, one of our own is": (
        [
            THREE,
            seen(steered("a", replica="other")),
            seen(steered("a", replica="other", node="n1")),
            admit("review-2"),
        ],
        True,
    ),
    "a name that no decision of ours bears out": (
        [THREE, admit("review-2"), seen(steered("a", replica="other", terms=[]))],
        False,
    ),
}


@pytest.mark.parametrize(("operations", "want"), OTHERS.values(), ids=OTHERS.keys())
def test_whether_there_are_others(operations: list[Op], *, want: bool) -> None:
    cluster = Cluster(replica="own")
    for operation in operations:
        operation(cluster)

    assert (cluster.turn(0.0) is not None) == want
