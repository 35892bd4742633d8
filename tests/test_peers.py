"""Whose turn a node is: known from the Pods that all replicas see."""

import numpy as np
import pytest

from webhook.peers import RECENT, Peers, Turn

NAMES = [f"n{number}" for number in range(300)]

TURNS: dict[str, tuple[str, list[str], tuple[int, int] | None]] = {
    "none was seen": ("a", [], None),
    "only itself": ("a", ["a", "a"], None),
    "another, itself not yet": ("b", ["a"], (2, 1)),
    "in the order of the names": ("b", ["c", "b", "a", "c"], (3, 1)),
    "one that admitted none of the last Pods is gone": ("a", ["b", *["a"] * RECENT], None),
    "and is not gone one Pod before": ("a", ["b", *["a"] * (RECENT - 1)], (2, 0)),
    "without a name all are one": ("", ["", ""], None),
}


@pytest.mark.parametrize(("own", "seen", "want"), TURNS.values(), ids=TURNS.keys())
def test_who_takes_part(own: str, seen: list[str], want: tuple[int, int] | None) -> None:
    peers = Peers(own)
    for replica in seen:
        peers.saw(replica)

    turn = peers.turn(1000.1)

    assert (turn and (turn.replicas, turn.index)) == want


def test_each_node_is_the_turn_of_one_replica_and_each_replica_has_its_share() -> None:
    turns = [Turn(3, index, 1).mine(NAMES) for index in range(3)]

    assert (np.sum(turns, axis=0) == 1).all()
    assert all(70 <= turn.sum() <= 130 for turn in turns)


def test_the_turns_are_dealt_anew_every_quarter_of_a_second() -> None:
    peers = Peers("a")
    peers.saw("b")

    assert peers.turn(1000.0) == peers.turn(1000.24) != peers.turn(1000.25)


def test_another_round_deals_other_turns() -> None:
    now, later = Turn(3, 0, 1).mine(NAMES), Turn(3, 0, 2).mine(NAMES)

    # A third of a third stays where it was.
    assert 15 <= (now & later).sum() <= 55
