"""utilization: 100 - used %; only CPU counts unless memory is given a weight."""

from typing import Any

import pytest

from tests.views import make_view
from webhook.scorers.utilization import Utilization

NAN = float("nan")

# Used fractions of CPU and memory; arguments; score.
SCORES: dict[str, tuple[float, float, dict[str, Any], float]] = {
    "idle": (0.0, 0.0, {}, 100.0),
    "full": (1.0, 1.0, {}, 0.0),
    "half of both": (0.5, 0.5, {}, 50.0),
    "memory does not count unless asked for": (0.25, 0.9, {}, 75.0),  # 1 - 0.25
    "memory for a tenth of CPU": (0.5, 0.05, {"memory": 0.1}, 100 * (1 - 0.505 / 1.1)),  # 0.5 + 0.05 x 0.1
    "CPU's own weight alone changes nothing": (0.25, 0.9, {"cpu": 7}, 75.0),
    "memory alone": (0.9, 0.25, {"cpu": 0, "memory": 1}, 75.0),
    "both alike": (0.2, 0.6, {"cpu": 1, "memory": 1}, 60.0),  # 1 - (0.2 + 0.6) / 2
    "weights are relative": (0.2, 0.6, {"cpu": 30, "memory": 10}, 70.0),  # 1 - (0.6 + 0.6) / 4
    "the dominant counts more": (0.2, 0.6, {"memory": 1, "dominant": 2}, 50.0),  # 1 - (0.2 + 0.6 + 1.2) / 4
    "the dominant alone": (0.2, 0.6, {"cpu": 0, "dominant": 1}, 40.0),
    "over-used is no worse than full": (3.0, 0.0, {}, 0.0),
    "over-used CPU is not made up for by idle memory": (1.05, 0.0, {"memory": 0.01}, 0.0),
    # Statistics given: mean 0.3 and 0.1, p95 0.8 and 0.2. The reading of CPU is 0.5, of memory 0.6.
    "a statistic above the last reading": (0.5, 0.6, {"statistic": "p95"}, 20.0),
    "never below the last reading": (0.5, 0.6, {"statistic": "mean"}, 50.0),
    "a statistic that is not known: the last reading": (0.5, 0.6, {"statistic": "ewma"}, 50.0),
    "a statistic of each resource": (
        0.5,
        0.6,
        {"statistic": "p95", "memory": 1},
        30.0,
    ),  # 1 - (0.8 + 0.6) / 2
    # Numbers of the user's own.
    "a series": (0.5, 0.6, {"cpu_series": "busy"}, 30.0),
    "a series below the reading": (0.9, 0.6, {"cpu_series": "busy"}, 30.0),
    "a series of memory leaves CPU alone": (
        0.5,
        0.6,
        {"memory_series": "busy", "memory": 1},
        40.0,
    ),  # 1 - 1.2 / 2
    "a series that is not there": (0.5, 0.6, {"cpu_series": "none"}, NAN),
    "a series that no use can be": (0.5, 0.6, {"cpu_series": "negative"}, NAN),
    "a series beyond belief": (0.5, 0.6, {"cpu_series": "percent"}, NAN),
}


@pytest.mark.parametrize(("cpu", "memory", "arguments", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(cpu: float, memory: float, arguments: dict[str, Any], want: float) -> None:
    nodes = make_view(
        [[cpu], [memory]],
        statistics={"mean": [[0.3], [0.1]], "percentile": [[0.8], [0.2]]},
        series={"busy": [0.7], "negative": [-0.1], "percent": [70.0]},
    )

    assert Utilization(**arguments).score(nodes).tolist() == pytest.approx([want], nan_ok=True)


def test_a_statistic_has_the_pod_on_top() -> None:
    # p95 0.2, and the Pod's 100 of 1000 milli-CPU.
    nodes = make_view([[0.15], [0.0]], statistics={"percentile": [[0.2], [0.0]]}, pod=(100.0, 0.0))

    assert Utilization(statistic="p95").score(nodes).tolist() == pytest.approx([70.0])


def test_a_series_has_the_pod_on_top() -> None:
    nodes = make_view([[0.9], [0.0]], series={"busy": [0.2]}, pod=(100.0, 0.0))

    assert Utilization(cpu_series="busy").score(nodes).tolist() == pytest.approx([70.0])


def test_a_statistic_of_a_reading_that_is_stale_does_not_count() -> None:
    nodes = make_view([[0.5], [0.0]], statistics={"percentile": [[0.8], [0.0]]}, fresh=False)

    assert Utilization(statistic="p95").score(nodes).tolist() == pytest.approx([50.0])
