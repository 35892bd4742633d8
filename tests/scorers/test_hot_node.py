"""hot-node: 10 points off for every 5 bindings in 5 minutes and every 2 in the last."""

import pytest

from tests.views import NOW, make_view
from webhook.scorers.hot_node import HotNode, HotWindow

# Ages of the bindings in seconds; score.
SCORES: dict[str, tuple[list[float], float]] = {
    "none": ([], 100.0),
    "one": ([0], 100.0),
    "two in a minute": ([0, 40], 90.0),
    "three in a minute are no more": ([0, 1, 40], 90.0),
    "four in five minutes": ([100, 110, 120, 130], 100.0),
    "five in five minutes": ([100, 110, 120, 130, 280], 90.0),
    "five in a minute": ([0, 1, 2, 3, 4], 70.0),  # 5 // 5 + 5 // 2 is 3
    "five, but not of late": ([320] * 5, 100.0),
    "no worse than 0": ([0] * 100, 0.0),  # 20 + 50
}


@pytest.mark.parametrize(("ages", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(ages: list[float], want: float) -> None:
    nodes = make_view([[0.0, 0.0], [0.0, 0.0]])
    for age in sorted(ages, reverse=True):
        nodes.nodes.bindings.add(1, NOW - age)

    assert HotNode().score(nodes).tolist() == pytest.approx([100.0, want])


def test_windows_and_penalty_of_ones_own() -> None:
    nodes = make_view([[0.0], [0.0]])
    for _ in range(6):
        nodes.nodes.bindings.add(0, NOW)

    assert HotNode((HotWindow(30.0, 3),), penalty=7.0).score(nodes).tolist() == pytest.approx([86.0])
