"""trend: 100 - the use predicted some minutes from now."""

from typing import Any

import pytest

from tests.builders import decode_node, make_node
from tests.views import make_view
from webhook.history import Statistic
from webhook.scorers.trend import Trend
from webhook.snapshot import FloatArray, Snapshot

NAN = float("nan")

# Predicted CPU and memory; arguments; score.
SCORES: dict[str, tuple[float, float, dict[str, Any], float]] = {
    "rising to 0.8": (0.8, 0.1, {}, 20.0),
    "falling to 0.1, whatever the last reading": (0.1, 0.1, {}, 90.0),
    "over the node": (1.7, 0.1, {}, 0.0),
    "out of all bounds": (1e9, 0.1, {}, 0.0),
    "both": (0.8, 0.2, {"memory": 1}, 50.0),
    "not known": (NAN, 0.1, {}, NAN),
    "of memory not known, where it does not count": (0.8, NAN, {}, 20.0),
}


@pytest.mark.parametrize(("cpu", "memory", "arguments", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(cpu: float, memory: float, arguments: dict[str, Any], want: float) -> None:
    nodes = make_view([[0.5], [0.5]], statistics={"trend": [[cpu], [memory]]})

    assert Trend(**arguments).score(nodes).tolist() == pytest.approx([want], nan_ok=True)


def test_the_pod_and_what_no_reading_shows_come_on_top() -> None:
    nodes = Snapshot()
    nodes.set_node(decode_node(make_node("n1", cpu="1", memory="1k")))
    nodes.unseen[0, 0] = 50.0
    nodes.reserved[0, 0] = 50.0
    view = make_view([[0.5], [0.5]], nodes=nodes, statistics={"trend": [[0.2], [0.0]]}, pod=(100.0, 0.0))

    assert Trend().score(view).tolist() == pytest.approx([60.0])  # 1 - (0.2 + 0.1 + 0.05 + 0.05)


def test_a_stale_reading_has_no_trend() -> None:
    nodes = make_view([[0.5], [0.5]], statistics={"trend": [[0.2], [0.0]]}, fresh=False)

    assert Trend().score(nodes).tolist() == pytest.approx([NAN], nan_ok=True)


def test_the_readings_that_it_asks_for() -> None:
    asked: list[Statistic] = []
    nodes = make_view([[0.5], [0.5]])

    def predicted(wanted: Statistic) -> FloatArray:
        asked.append(wanted)
        return nodes.used

    object.__setattr__(nodes, "predicted", predicted)

    Trend(minutes=10.0, window_seconds=1200.0).score(nodes)

    assert asked == [Statistic("trend", 1200.0, ahead_s=600.0)]
