"""Bindings of late, by row."""

from copy import deepcopy

import numpy as np

from webhook.bindings import LONGEST_S, Bindings


def test_a_binding_counts_for_the_window() -> None:
    bindings = Bindings(rows=1)
    for at in (0.0, 5.0, 65.0, 119.0):
        bindings.add(1, at)
    bindings.add(3, 119.0)

    assert bindings.within(60.0, 119.0, 5).tolist() == [0, 2, 0, 1, 0]
    assert bindings.within(300.0, 119.0, 5).tolist() == [0, 4, 0, 1, 0]
    assert bindings.within(60.0, 130.0, 5).tolist() == [0, 1, 0, 1, 0]  # 65 left its slot of ten
    assert bindings.within(300.0, 310.0, 5).tolist() == [0, 2, 0, 1, 0]  # 0 and 5 left
    assert bindings.within(LONGEST_S, 1e6, 5).tolist() == [0] * 5


def test_slots_are_taken_again_when_time_has_gone_round() -> None:
    bindings = Bindings()
    for at in range(0, 3000, 10):
        bindings.add(0, float(at))

    assert bindings.within(60.0, 2990.0, 1).tolist() == [6]
    assert bindings.within(LONGEST_S, 2990.0, 1).tolist() == [59]


def test_a_node_that_went_away_leaves_nothing() -> None:
    bindings = Bindings()
    bindings.add(0, 0.0)

    bindings.clear(0)
    bindings.clear(9999)

    assert bindings.within(60.0, 0.0, 1).tolist() == [0]


def test_counts_that_are_kept_are_what_counting_anew_gives() -> None:
    """Every event once with windows asked for all along, and once with none asked for before the end."""
    asked, fresh = Bindings(rows=2), Bindings(rows=2)
    rng = np.random.default_rng(1)
    now = 0.0
    for _ in range(500):
        now += float(rng.choice([0.0, 1.0, 7.0, 40.0, 700.0], p=[0.4, 0.3, 0.2, 0.09, 0.01]))
        row = int(rng.integers(12))
        for bindings in (asked, fresh):
            if row == 11:
                bindings.clear(3)
            else:
                bindings.add(row, now)
        asked.within(60.0, now, 12)
        asked.within(300.0, now, 12)

        anew = deepcopy(fresh)
        for seconds in (60.0, 300.0):
            assert asked.within(seconds, now, 12).tolist() == anew.within(seconds, now, 12).tolist()
