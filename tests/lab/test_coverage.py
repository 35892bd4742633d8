"""Readings that cover a part of a Pod's life: the ledger beside Trimaran's rule."""

import pytest

from .coverage import WINDOWS_S, compare


@pytest.mark.parametrize("window_s", WINDOWS_S)
def test_the_ledger_misses_nothing_of_a_new_pod(window_s: float) -> None:
    ours, _ = compare(window_s)

    assert ours.missing == pytest.approx(0.0, abs=1e-9)
    assert ours.too_many == pytest.approx(0.0, abs=1e-9)


def test_what_trimarans_rule_makes_of_a_mean_over_15_minutes() -> None:
    # 60 readings, at 15, 30, … 900 s. From the fourth on, at n/60 of the window, 1 - n/60 is missing: the sum
    # of (60 - n)/60 for n = 4 … 60 is 26.6, a 60th of it 0.4433. The first three count 15, 30 and 45 s twice:
    # (1 + 2 + 3)/60 is 0.1, a 60th of it 0.0017.
    _, theirs = compare(900.0)

    assert (theirs.missing, theirs.too_many) == pytest.approx((26.6 / 60, 0.1 / 60))
