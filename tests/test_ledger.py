"""The ledger: op tables, and conservation under any order of events."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.builders import GIB, decode_node, make_node
from webhook.ledger import EXPIRE_AFTER_S, Ledger, Load, Share
from webhook.snapshot import Snapshot

LOAD = Load(1000.0, 2.0 * GIB)
HALVES = Share.of([0, 1], [0.5, 0.25])
FIRST = Share.of([0], [1.0])
WAITING = float("inf")

Op = Callable[[Ledger], object]


def fresh(nodes: int = 4) -> tuple[Snapshot, Ledger]:
    snapshot = Snapshot(capacity=2)
    for number in range(nodes):
        snapshot.set_node(decode_node(make_node(f"n{number}")))
    return snapshot, Ledger(snapshot)


def reserve(
    uid: str = "a", *, load: Load = LOAD, share: Share = HALVES, now: float = 0.0, times: int = 1
) -> Op:
    return lambda ledger: ledger.reserve(uid, load, share, now, times)


def adopt(uid: str = "a", pod: str = "pod-a", *, load: Load = LOAD, share: Share = FIRST) -> Op:
    def operation(ledger: Ledger) -> None:
        if not ledger.adopt(uid, pod):
            ledger.book(pod, load, share)

    return operation


def release(uid: str = "a") -> Op:
    return lambda ledger: ledger.release(uid)


def expire(now: float) -> Op:
    return lambda ledger: ledger.expire(now)


IN_FLIGHT: dict[str, tuple[list[Op], list[float], int]] = {
    "nothing": ([], [0, 0, 0, 0], 0),
    "a Pod is booked by chance": ([reserve()], [500, 250, 0, 0], 1),  # 1000 x 0.5, 1000 x 0.25
    "Pods add up": ([reserve("a"), reserve("b", share=FIRST)], [1500, 250, 0, 0], 2),
    "the same review twice is one Pod": ([reserve(), reserve(share=FIRST)], [1000, 0, 0, 0], 1),
    "no rows": ([reserve(share=Share.of([], []))], [0, 0, 0, 0], 1),
    "released": ([reserve(), release()], [0, 0, 0, 0], 0),
    "releasing one leaves the other": (
        [reserve("a"), reserve("b", share=FIRST), release("a")],
        [1000, 0, 0, 0],
        1,
    ),
    "releasing what is not there": ([reserve(), release("z")], [500, 250, 0, 0], 1),
    "releasing twice": ([reserve("a"), reserve("b"), release("a"), release("a")], [500, 250, 0, 0], 1),
    "a pending Pod keeps what was reserved for its review": ([reserve(), adopt()], [500, 250, 0, 0], 1),
    "an adopted Pod goes by its own uid": ([reserve(), adopt(), release("pod-a")], [0, 0, 0, 0], 0),
    "the review's uid means nothing once the Pod is adopted": (
        [reserve(), adopt(), release("a")],
        [500, 250, 0, 0],
        1,
    ),
    "another replica's Pod is booked from its own terms": ([adopt()], [1000, 0, 0, 0], 1),
    "adopting twice books once": ([adopt(), adopt()], [1000, 0, 0, 0], 1),
    "an adopted Pod is not adopted away by another that names the same review": (
        [reserve(), adopt(), adopt("a", "pod-b")],
        [1500, 250, 0, 0],  # 500 + 1000, 250
        2,
    ),
    "not overdue yet": ([reserve(now=0.0), expire(EXPIRE_AFTER_S - 0.1)], [500, 250, 0, 0], 1),
    "overdue": ([reserve(now=0.0), expire(EXPIRE_AFTER_S)], [0, 0, 0, 0], 0),
    "only what is overdue expires": (
        [reserve("a", now=0.0), reserve("b", now=10.0, share=FIRST), expire(EXPIRE_AFTER_S + 5.0)],
        [1000, 0, 0, 0],
        1,
    ),
    "a renewed reservation counts from its renewal": (
        [
            reserve("a", now=0.0),
            reserve("b", now=1.0, share=FIRST),
            reserve("a", now=20.0),
            expire(EXPIRE_AFTER_S + 5.0),
        ],
        [500, 250, 0, 0],
        1,
    ),
    "unseen it counts for the others' Pods too": (
        [reserve(times=3)],
        [1500, 750, 0, 0],
        1,
    ),  # 3 x 500, 3 x 250
    "seen it counts once": ([reserve(times=3), adopt()], [500, 250, 0, 0], 1),
    "bound, all of it goes": ([reserve(times=3), adopt(), release("pod-a")], [0, 0, 0, 0], 0),
    "unseen and overdue, all of it goes": (
        [reserve("a", times=3), reserve("b", now=20.0), expire(EXPIRE_AFTER_S)],
        [500, 250, 0, 0],
        1,
    ),
    "a pending Pod does not expire": ([reserve(now=0.0), adopt(), expire(1e9)], [500, 250, 0, 0], 1),
}


@pytest.mark.parametrize(("operations", "want", "count"), IN_FLIGHT.values(), ids=IN_FLIGHT.keys())
def test_what_is_in_flight(operations: list[Op], want: list[float], count: int) -> None:
    nodes, ledger = fresh()

    for operation in operations:
        operation(ledger)

    assert nodes.reserved[0, :4].tolist() == want
    assert nodes.reserved[1, :4].tolist() == [cpu / 1000 * 2 * GIB for cpu in want]
    assert ledger.in_flight == count


def test_nothing_in_flight_is_exactly_nothing() -> None:
    nodes, ledger = fresh()
    chances = [0.1, 0.2, 0.3]  # such sums leave dust: 0.1 + 0.2 - 0.3 is not 0
    for number in range(50):
        ledger.reserve(f"a{number}", Load(0.1 * number, 0.7), Share.of([0, 1, 2], chances), 0.0)
    for number in range(50):
        ledger.release(f"a{(number * 7) % 50}")

    assert ledger.in_flight == 0
    assert not nodes.reserved.any()


def test_expire_says_how_many_it_ended() -> None:
    _, ledger = fresh()
    for number in range(5):
        ledger.reserve(f"a{number}", LOAD, HALVES, now=float(number))

    assert ledger.expire(EXPIRE_AFTER_S + 2.0) == 3  # those of 0, 1 and 2
    assert ledger.expire(EXPIRE_AFTER_S + 2.0) == 0


def assume(pod: str = "pod-a", row: int = 0, *, started_at: float = 0.0) -> Op:
    return lambda ledger: ledger.assume(pod, row, LOAD, started_at)


def start(now: float, pod: str = "pod-a", row: int = 0) -> Op:
    return lambda ledger: ledger.start(pod, row, now)


def forget(pod: str = "pod-a", row: int = 0) -> Op:
    return lambda ledger: ledger.forget(pod, row)


def cover(ended_at: float, window: float = 10.0, row: int = 0) -> Op:
    return lambda ledger: ledger.cover(row, ended_at, window)


# A Pod of 1000 milli-CPU on row 0 that runs from 0 s on; readings are means over the 10 s before they ended.
BOUND: dict[str, tuple[list[Op], float, int]] = {
    "just started": ([assume()], 1000, 1),
    "seen twice": ([assume(), assume(started_at=5.0)], 1000, 1),
    "two Pods": ([assume(), assume("pod-b")], 2000, 2),
    "ended": ([assume(), forget()], 0, 0),
    "forgetting another": ([assume(), forget("pod-b")], 1000, 1),
    "forgetting it on another node": ([assume(), forget(row=1)], 1000, 1),
    "a reading that ended before it started": ([assume(), cover(-1.0)], 1000, 1),
    "a reading that ended as it started": ([assume(), cover(0.0)], 1000, 1),
    "a quarter of the window": ([assume(), cover(2.5)], 750, 1),  # 1000 x (1 - 2.5 / 10)
    "half of the window": ([assume(), cover(5.0)], 500, 1),
    "the whole window": ([assume(), cover(10.0)], 0, 0),
    "more than the window": ([assume(), cover(99.0)], 0, 0),
    "an old reading takes nothing back": ([assume(), cover(5.0), cover(2.5)], 500, 1),
    "the next reading covers the rest": ([assume(), cover(5.0), cover(15.0)], 0, 0),
    "each Pod by its own part": (
        [assume(), assume("pod-b", started_at=4.0), cover(8.0)],
        200 + 600,  # 1 - 8/10, 1 - 4/10
        2,
    ),
    "a covered Pod is gone, the other stays": (
        [assume(), assume("pod-b", started_at=10.0), cover(12.0)],
        800,
        1,
    ),
    "a reading of another node": ([assume(), cover(99.0, row=1)], 1000, 1),
    "while it does not run, no reading shows it": ([assume(started_at=WAITING), cover(1e9)], 1000, 1),
    "once it runs, readings cover it from then on": (
        [assume(started_at=WAITING), start(5.0), cover(10.0)],
        500,  # 1000 x (1 - 5 / 10)
        1,
    ),
    "a start that is told again later is the first one": (
        [assume(started_at=WAITING), start(5.0), start(9.0), cover(10.0)],
        500,
        1,
    ),
    "starting what is not there": ([start(0.0), start(0.0, "pod-b"), assume()], 1000, 1),
    "started on another row": ([assume(started_at=WAITING), start(0.0, row=1), cover(99.0)], 1000, 1),
    "no window, while it does not run": ([assume(started_at=WAITING), cover(1.0, window=0.0)], 1000, 1),
    "no window, after it started": ([assume(), cover(0.1, window=0.0)], 0, 0),
    "no window, as it started": ([assume(), cover(0.0, window=0.0)], 1000, 1),
    "the node went away": ([assume(), lambda ledger: ledger.forget_node(0)], 0, 0),
    "a long window leaves most of it expected": (
        [assume(), cover(60.0, window=900.0)],
        1000 * (1 - 60 / 900),
        1,
    ),
}


@pytest.mark.parametrize(("operations", "want", "count"), BOUND.values(), ids=BOUND.keys())
def test_what_readings_do_not_show_yet(operations: list[Op], want: float, count: int) -> None:
    nodes, ledger = fresh()

    for operation in operations:
        operation(ledger)

    assert nodes.unseen[0, 0] == pytest.approx(want)
    assert nodes.unseen[1, 0] == pytest.approx(want / 1000 * 2 * GIB)
    assert ledger.unseen == count
    if not count:
        assert not nodes.unseen.any()


def test_growth_of_the_snapshot_moves_no_booking() -> None:
    nodes, ledger = fresh(nodes=2)
    ledger.reserve("a", LOAD, HALVES, now=0.0)
    ledger.assume("pod-b", 1, LOAD, 0.0)
    for number in range(2, 40):
        nodes.set_node(decode_node(make_node(f"n{number}")))

    ledger.release("a")
    ledger.forget("pod-b", 1)

    assert not nodes.reserved.any()
    assert not nodes.unseen.any()


ROWS = 4
UIDS = st.sampled_from(["a", "b", "c", "d"])
LOADS = st.builds(Load, st.floats(0, 1e4), st.floats(0, 1e11))


@st.composite
def shares(draw: st.DrawFn) -> Share:
    rows = draw(st.lists(st.integers(0, ROWS - 1), max_size=ROWS, unique=True))
    parts = draw(st.lists(st.floats(0, 1), min_size=len(rows), max_size=len(rows)))
    return Share.of(rows, [part / max(1, len(rows)) for part in parts])


class Conservation(RuleBasedStateMachine):
    """Beside the ledger, a model that keeps every booking and adds them up anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes, self.ledger = fresh(ROWS)
        self.now = 0.0
        self.admitted: dict[str, tuple[Load, Share, float, int]] = {}
        self.pending: dict[str, tuple[Load, Share]] = {}
        self.bound: dict[str, tuple[Load, int, float, float]] = {}

    @rule(seconds=st.floats(0, 40))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(uid=UIDS, load=LOADS, share=shares(), times=st.integers(1, 5))
    def reserve(self, uid: str, load: Load, share: Share, times: int) -> None:
        self.ledger.reserve(uid, load, share, self.now, times)
        self.admitted[uid] = (load, share, self.now + EXPIRE_AFTER_S, times)

    @rule(uid=UIDS, load=LOADS, share=shares())
    def adopt(self, uid: str, load: Load, share: Share) -> None:
        if not self.ledger.adopt(uid, f"pod-{uid}"):
            self.ledger.book(f"pod-{uid}", load, share)
        if f"pod-{uid}" not in self.pending:
            known = self.admitted.pop(uid, None)
            self.pending[f"pod-{uid}"] = known[:2] if known else (load, share)

    @rule(uid=UIDS)
    def release(self, uid: str) -> None:
        self.ledger.release(uid)
        self.admitted.pop(uid, None)

    @rule(uid=UIDS)
    def release_pending(self, uid: str) -> None:
        self.ledger.release(f"pod-{uid}")
        self.pending.pop(f"pod-{uid}", None)

    @rule()
    def expire(self) -> None:
        overdue = [uid for uid, known in self.admitted.items() if known[2] <= self.now]
        assert self.ledger.expire(self.now) == len(overdue)
        for uid in overdue:
            del self.admitted[uid]

    @rule(uid=UIDS, row=st.integers(0, ROWS - 1), load=LOADS, runs=st.booleans())
    def bind(self, uid: str, row: int, load: Load, *, runs: bool) -> None:
        if uid not in self.bound:
            started_at = self.now if runs else WAITING
            self.ledger.assume(uid, row, load, started_at)
            self.bound[uid] = (load, row, started_at, 1.0)

    @rule(uid=UIDS)
    def start(self, uid: str) -> None:
        if uid in self.bound:
            load, row, since, amount = self.bound[uid]
            self.ledger.start(uid, row, self.now)
            self.bound[uid] = (load, row, min(since, self.now), amount)

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        if uid in self.bound:
            self.ledger.forget(uid, self.bound.pop(uid)[1])

    @rule(row=st.integers(0, ROWS - 1), late=st.floats(0, 20), window=st.floats(1, 60))
    def cover(self, row: int, late: float, window: float) -> None:
        self.ledger.cover(row, self.now - late, window)
        for uid, (load, on, since, amount) in list(self.bound.items()):
            if on == row:
                left = 1.0 - min(1.0, max(0.0, (self.now - late - since) / window))
                if left > 0:
                    self.bound[uid] = (load, on, since, min(amount, left))
                else:
                    del self.bound[uid]

    @invariant()
    def the_columns_are_the_sum_of_the_bookings(self) -> None:
        reserved = np.zeros((2, ROWS))
        booked = [(load, share, times) for load, share, _, times in self.admitted.values()]
        for load, share, times in booked + [(*known, 1) for known in self.pending.values()]:
            reserved[0, share.rows] += times * load.cpu_milli * share.chances
            reserved[1, share.rows] += times * load.memory_bytes * share.chances
        unseen = np.zeros((2, ROWS))
        for load, row, _, amount in self.bound.values():
            unseen[:, row] += amount * np.array([load.cpu_milli, load.memory_bytes])
        np.testing.assert_allclose(self.nodes.reserved[:, :ROWS], reserved, rtol=1e-9, atol=1e-3)
        np.testing.assert_allclose(self.nodes.unseen[:, :ROWS], unseen, rtol=1e-9, atol=1e-3)
        assert self.ledger.in_flight == len(self.admitted) + len(self.pending)
        assert self.ledger.unseen == len(self.bound)

    def teardown(self) -> None:
        for uid in list(self.admitted) + list(self.pending):
            self.ledger.release(uid)
        for uid, known in self.bound.items():
            self.ledger.forget(uid, known[1])
        assert not self.nodes.reserved.any()
        assert not self.nodes.unseen.any()


def test_load_is_conserved_whatever_happens_in_whatever_order() -> None:
    run_state_machine_as_test(
        Conservation,
        settings=settings(max_examples=150, stateful_step_count=30, deadline=None, derandomize=True),
    )
