"""What is kept of the readings: until when it holds, and that it says what working it out anew would."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.builders import GIB, decode_node, decode_pod, make_node, make_pod
from webhook.history import Statistic
from webhook.pods import read_shape
from webhook.snapshot import CPU, Snapshot

STALE_AFTER = 60.0
MEAN = Statistic("mean", 300.0)


def filled() -> Snapshot:
    nodes = Snapshot()
    for number in range(3):
        nodes.set_node(decode_node(make_node(f"n{number}", hostname=f"n{number}", cpu="8", memory="32Gi")))
        for reading in range(6):
            nodes.set_usage(number, 1000.0 * (number + 1), GIB * (reading + 1), 100.0 + 60.0 * reading)
    return nodes


def set_node(**fields: Any) -> Callable[[Snapshot], object]:
    return lambda nodes: nodes.set_node(decode_node(make_node("n1", **{"hostname": "n1", **fields})))


def bind(name: str) -> Callable[[Snapshot], object]:
    return lambda nodes: nodes.bind(name, read_shape(decode_pod(make_pod())))


# What happens; whether what is kept holds on.
EVENTS: dict[str, tuple[Callable[[Snapshot], object], bool]] = {
    "nothing": (lambda _: None, True),
    "a heartbeat": (set_node(cpu="8", memory="32Gi"), True),
    "a Pod is bound": (bind("n1"), True),
    "a Pod is bound to a node that is not known": (bind("n9"), False),
    "a reading": (lambda nodes: nodes.set_reading(1, CPU, 4000.0, 410.0), False),
    "a reading that is none": (lambda nodes: nodes.set_reading(1, CPU, -1.0, 410.0), False),
    "a node grows": (set_node(cpu="16", memory="32Gi"), False),
    "a node turns out to be virtual": (set_node(cpu="8", memory="32Gi", labels={"type": "kwok"}), False),
    "a node goes": (lambda nodes: nodes.remove_node("n1"), False),
    "a node comes": (lambda nodes: nodes.set_node(decode_node(make_node("n9", hostname="n9"))), False),
}


@pytest.mark.parametrize(("event", "holds"), EVENTS.values(), ids=EVENTS.keys())
def test_what_is_kept_holds_until_a_reading_or_a_node_changes(
    event: Callable[[Snapshot], object], *, holds: bool
) -> None:
    nodes, alike = filled(), filled()
    before = nodes.measured(410.0, STALE_AFTER)
    before.statistic(MEAN, nodes.history)
    nodes.states(410.0, STALE_AFTER)

    event(nodes)
    event(alike)

    after, want = nodes.measured(410.0, STALE_AFTER), alike.measured(410.0, STALE_AFTER)
    assert (after is before) is holds
    assert after.complete == want.complete
    np.testing.assert_array_equal(after.fresh, want.fresh)
    np.testing.assert_array_equal(after.used, want.used)
    np.testing.assert_array_equal(after.statistic(MEAN, nodes.history), want.statistic(MEAN, alike.history))
    assert nodes.states(410.0, STALE_AFTER) == alike.states(410.0, STALE_AFTER)


# The time, the age at which readings are stale; whether what was kept at 410 s for 60 s holds then.
TIMES = {
    "the first reading is as old as can be": (460.0, STALE_AFTER, True),
    "the first reading is stale": (461.0, STALE_AFTER, False),
    "before": (409.0, STALE_AFTER, False),
    "another age": (410.0, 30.0, False),
}


@pytest.mark.parametrize(("now", "stale_after", "holds"), TIMES.values(), ids=TIMES.keys())
def test_what_is_kept_holds_until_a_reading_goes_stale(
    now: float, stale_after: float, *, holds: bool
) -> None:
    nodes = filled()
    before = nodes.measured(410.0, STALE_AFTER)

    assert (nodes.measured(now, stale_after) is before) is holds


def test_rows_without_a_node_do_not_make_readings_incomplete() -> None:
    nodes = filled()
    nodes.remove_node("n1")

    assert nodes.measured(410.0, STALE_AFTER).complete
    assert not nodes.fresh(410.0, STALE_AFTER)[:, 1].any()
