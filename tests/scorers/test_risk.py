"""risk: 100 x (1 - (mean + deviation) / 2), of the riskier resource."""

from typing import Any

import pytest

from tests.views import make_view
from webhook.scorers.risk import Risk

NAN = float("nan")

# Mean and deviation of CPU and of memory; arguments; score.
SCORES: dict[str, tuple[tuple[float, float], tuple[float, float], dict[str, Any], float]] = {
    "steady": ((0.4, 0.0), (0.2, 0.0), {}, 80.0),  # CPU 1 - 0.4 / 2
    "the riskier resource": ((0.4, 0.1), (0.6, 0.2), {}, 60.0),  # memory 1 - 0.8 / 2; CPU 75
    "a margin": ((0.4, 0.1), (0.2, 0.0), {"margin": 3}, 65.0),  # 1 - (0.4 + 0.3) / 2
    "a margin beyond all": ((0.4, 0.5), (0.2, 0.0), {"margin": 9}, 30.0),  # 1 - (0.4 + 1) / 2
    "sensitivity 2": ((0.5, 0.36), (0.0, 0.0), {"sensitivity": 2}, 45.0),  # root of 0.36 is 0.6
    "sensitivity 0": ((0.5, 0.36), (0.0, 0.0), {"sensitivity": 0}, 75.0),
    "one deviation is not known": ((0.9, NAN), (0.2, 0.1), {}, 85.0),  # memory 1 - 0.3 / 2
    "no deviation is known": ((0.9, NAN), (0.2, NAN), {}, NAN),
    "a series of deviations": ((0.4, NAN), (0.2, NAN), {"cpu_deviation_series": "spread"}, 65.0),
    "both as series": (
        (0.4, NAN),
        (0.6, NAN),
        {"cpu_deviation_series": "spread", "memory_deviation_series": "spread"},
        55.0,  # memory 1 - (0.6 + 0.3) / 2
    ),
    "a negative deviation is none": ((0.4, NAN), (0.2, 0.0), {"cpu_deviation_series": "negative"}, 90.0),
}


@pytest.mark.parametrize(("cpu", "memory", "arguments", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(
    cpu: tuple[float, float], memory: tuple[float, float], arguments: dict[str, Any], want: float
) -> None:
    nodes = make_view(
        [[0.1], [0.1]],
        statistics={"mean": [[cpu[0]], [memory[0]]], "deviation": [[cpu[1]], [memory[1]]]},
        series={"spread": [0.3], "negative": [-0.3]},
    )

    assert Risk(**arguments).score(nodes).tolist() == pytest.approx([want], nan_ok=True)


def test_pods_placed_within_the_window_count_in_full() -> None:
    """The mean of 15 minutes still shows the idle node of before; the last reading does not."""
    nodes = make_view([[0.8], [0.0]], statistics={"mean": [[0.1], [0.0]], "deviation": [[0.2], [0.0]]})

    assert Risk().score(nodes).tolist() == pytest.approx([50.0])  # 1 - (0.8 + 0.2) / 2, not 85


def test_a_stale_reading_says_nothing() -> None:
    nodes = make_view(
        [[0.8], [0.0]],
        statistics={"mean": [[0.1], [0.0]], "deviation": [[0.2], [0.0]]},
        series={"spread": [0.3]},
        fresh=False,
    )

    assert Risk().score(nodes).tolist() == pytest.approx([NAN], nan_ok=True)
    assert Risk(cpu_deviation_series="spread").score(nodes).tolist() == pytest.approx([NAN], nan_ok=True)
