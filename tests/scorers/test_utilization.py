"""utilization: 100 - used %; only CPU counts unless memory is given a weight."""

from typing import Any

import numpy as np
import pytest

from tests.views import make_view
from webhook.scorers.utilization import Utilization

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
    "over-used is no worse than full": (3.0, 0.0, {}, 0.0),
    "over-used CPU is not made up for by idle memory": (1.05, 0.0, {"memory": 0.01}, 0.0),
}


@pytest.mark.parametrize(("cpu", "memory", "arguments", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(cpu: float, memory: float, arguments: dict[str, Any], want: float) -> None:
    nodes = make_view([[cpu], [memory]], [[np.nan], [np.nan]])

    assert Utilization(**arguments).score(nodes).tolist() == pytest.approx([want])


BAD: dict[str, tuple[dict[str, float], str]] = {
    "negative": ({"cpu": -1}, "cpu: expected a number from 0 to 100, found -1"),
    "too large": ({"memory": 101}, "memory: expected a number from 0 to 100, found 101"),
    "not a number": ({"cpu": float("nan")}, "cpu: expected a number from 0 to 100, found nan"),
    "nothing counts": ({"cpu": 0, "memory": 0}, "cpu: expected cpu or memory above 0, found both 0"),
    "CPU is off, and memory is by default": ({"cpu": 0}, "cpu: expected cpu or memory above 0, found both 0"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        Utilization(**arguments)
