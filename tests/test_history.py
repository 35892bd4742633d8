"""Readings kept, and what their statistics say."""

import numpy as np
import pytest

from webhook.history import BATCH, DEPTH, LONGEST_S, MAX_COLUMNS, History, Statistic

CPU, MEMORY = 0, 1
NAN = float("nan")
WINDOW = 300.0
MEAN = Statistic("mean", WINDOW)

Readings = list[tuple[float, float]]  # seconds, milli-CPU

STEADY: Readings = [(t, 100.0) for t in (0, 60, 120, 180, 240)]
RISING: Readings = [(0, 100.0), (60, 200.0), (120, 300.0), (180, 400.0), (240, 500.0)]
SPIKE: Readings = [(0, 0.0), (60, 0.0), (120, 400.0), (180, 0.0)]

# Readings; the statistic; what it says.
STATISTICS: dict[str, tuple[Readings, Statistic, float]] = {
    "mean": (RISING, MEAN, 300.0),
    "deviation of what is steady": (STEADY, Statistic("deviation", WINDOW), 0.0),
    # Squares of the distances from 300: 40000 + 10000 + 0 + 10000 + 40000, over 5 is 20000.
    "deviation": (RISING, Statistic("deviation", WINDOW), 20000**0.5),
    "max": (SPIKE, Statistic("max", WINDOW), 400.0),
    "median": (RISING, Statistic("percentile", WINDOW, percent=50.0), 300.0),
    # Rank 0.9 x 4 = 3.6: 400 + 0.6 x 100.
    "p90": (RISING, Statistic("percentile", WINDOW, percent=90.0), 460.0),
    # Rank 0.99 x 3 = 2.97: 0 + 0.97 x 400.
    "p99 of a spike": (SPIKE, Statistic("percentile", WINDOW, percent=99.0), 388.0),
    "p100 is the maximum": (RISING, Statistic("percentile", WINDOW, percent=100.0), 500.0),
    # Ages 240 to 0 in half-lives of 120: weights 1/4, 0.354, 1/2, 0.707, 1.
    "ewma": (
        RISING,
        Statistic("ewma", 120.0),
        (25 + 200 * 0.5**1.5 + 150 + 400 * 0.5**0.5 + 500) / (1.75 + 0.5**1.5 + 0.5**0.5),
    ),
    "ewma looks past its half-life": (
        [(0, 0.0), (60, 0.0), (120, 0.0), (180, 150.0)],
        Statistic("ewma", 60.0),
        # Weights 1/8, 1/4, 1/2, 1: 150 / 1.875.
        80.0,
    ),
    "trend of what is steady": (STEADY, Statistic("trend", WINDOW, ahead_s=600.0), 100.0),
    # 100 a minute: ten minutes after 500.
    "trend": (RISING, Statistic("trend", WINDOW, ahead_s=600.0), 1500.0),
    "trend at the last reading": (RISING, Statistic("trend", WINDOW), 500.0),
    "a trend does not fall below nothing": (
        [(t, 500.0 - v) for t, v in RISING],
        Statistic("trend", WINDOW, ahead_s=600.0),
        0.0,
    ),
    "what is older than the window does not count": ([(-400, 9e3), (-301, 9e3), *RISING], MEAN, 300.0),
    "what is as old as the window counts": ([(-60, 0.0), *RISING], MEAN, 250.0),
    "no readings": ([], MEAN, NAN),
    "too few readings": ([(0, 1.0), (150, 1.0), (300, 1.0)], MEAN, NAN),
    "just enough readings": (RISING[:4], MEAN, 250.0),
    "half of the window is covered": ([(0, 1.0), (50, 1.0), (100, 1.0), (150, 1.0)], MEAN, 1.0),
    "less than half of the window is covered": ([(0, 1.0), (50, 1.0), (100, 1.0), (149, 1.0)], MEAN, NAN),
    "old readings do not make up for it": ([(-900, 1.0), (-600, 1.0), (-350, 1.0), (0, 1.0)], MEAN, NAN),
}


@pytest.mark.parametrize(("readings", "statistic", "want"), STATISTICS.values(), ids=STATISTICS.keys())
def test_statistics(readings: Readings, statistic: Statistic, want: float) -> None:
    history = History()
    for at, value in readings:
        history.push(0, CPU, value, 1000.0 + at)

    cpu, memory = history.column(statistic, 1)[:, 0]

    assert cpu == pytest.approx(want, nan_ok=True)
    assert np.isnan(memory)


@pytest.mark.parametrize(("readings", "statistic", "want"), STATISTICS.values(), ids=STATISTICS.keys())
def test_a_column_kept_up_to_date_is_as_one_worked_out_at_the_end(
    readings: Readings, statistic: Statistic, want: float
) -> None:
    history = History()
    for at, value in readings:
        history.push(0, CPU, value, 1000.0 + at)
        history.column(statistic, 1)

    assert history.column(statistic, 1)[0, 0] == pytest.approx(want, nan_ok=True)


def test_resources_and_rows_are_apart() -> None:
    history = History()
    for at in (0.0, 60.0, 120.0, 180.0):
        history.push(2, CPU, 100.0, at)
        history.push(2, MEMORY, 5e12, at)
        history.push(5, MEMORY, 7.0, at)

    column = history.column(MEAN, 7)

    assert column.shape == (2, 7)
    assert column[:, 2].tolist() == [100.0, pytest.approx(5e12, rel=1e-6)]
    assert column[1, 5] == 7.0
    assert np.isnan(column[:, [0, 1, 3, 4, 6]]).all()
    assert np.isnan(column[0, 5])


def test_one_resource_may_be_read_at_other_times() -> None:
    history = History()
    for at in (0.0, 60.0, 120.0, 180.0):
        history.push(0, CPU, 100.0, at)
        history.push(0, MEMORY, 50.0, at + 30.0)

    assert history.column(MEAN, 1)[:, 0].tolist() == [100.0, 50.0]


def test_the_ring_holds_the_newest_and_spaces_them_for_the_longest_window() -> None:
    history = History()
    history.column(Statistic("mean", 3600.0), 1)  # one reading in 3600 / 64 = 56.25 s
    for at in range(0, 100_000, 30):
        history.push(0, CPU, float(at), float(at))

    # Every second reading is kept, 60 s apart: the last 61 of them, 99,960 down to 96,360.
    assert history.column(Statistic("mean", 3600.0), 1)[0, 0] == pytest.approx((99_960 + 96_360) / 2)
    assert DEPTH >= 61


def test_readings_that_crowd_do_not_push_the_window_out() -> None:
    history = History()
    for at in range(1000):
        history.push(0, CPU, 1.0, float(at))

    assert history.column(Statistic("mean", LONGEST_S), 1)[0, 0] == 1.0


def test_one_that_is_fresh_for_ever_or_goes_back_in_time_is_not_kept() -> None:
    history = History()
    for at, value in ((0, 1.0), (60, 1.0), (120, 1.0), (180, 1.0), (np.inf, 9.0), (20, 9.0)):
        history.push(0, CPU, value, at)

    assert history.column(MEAN, 1)[0, 0] == 1.0


def test_a_node_that_went_away_leaves_nothing() -> None:
    history = History()
    for row in (0, 1):
        for at, value in RISING:
            history.push(row, CPU, value, at)
    history.column(MEAN, 2)

    history.clear(0)
    history.clear(99)

    assert history.column(MEAN, 2)[0].tolist() == pytest.approx([NAN, 300.0], nan_ok=True)


def test_many_rows_at_once_are_each_right() -> None:
    history = History()
    rows = 2 * BATCH + 3
    history.column(MEAN, 1)
    for at in (0.0, 60.0, 120.0, 180.0):
        for row in range(rows):
            history.push(row, CPU, float(row), at)

    assert history.column(MEAN, rows)[0].tolist() == list(range(rows))


def test_statistics_of_former_policies_make_room() -> None:
    history = History()
    for at, value in RISING:
        history.push(0, CPU, value, at)
    for number in range(3 * MAX_COLUMNS):
        history.column(Statistic("percentile", WINDOW, percent=number / 10), 1)

    assert len(history._columns) == MAX_COLUMNS  # noqa: SLF001, what it holds is the point
    assert history.column(MEAN, 1)[0, 0] == 300.0
