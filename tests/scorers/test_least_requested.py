"""least-requested: the free share of allocatable, CPU and memory alike."""

import numpy as np
import pytest

from tests.views import make_view
from webhook.scorers.least_requested import LeastRequested

# Requested fractions of CPU and memory, the Pod included; score.
SCORES: dict[str, tuple[float, float, float]] = {
    "nothing requested": (0.0, 0.0, 100.0),
    "all requested": (1.0, 1.0, 0.0),
    # least_allocated_test.go, "nothing scheduled, resources requested, differently sized nodes":
    # CPU (4000 - 3000) x 100 / 4000 = 25, memory (10000 - 5000) x 100 / 10000 = 50; mean 37.5.
    "3000 of 4000, 5000 of 10000": (0.75, 0.5, 37.5),
    "6000 of 10000, 5000 of 20000": (0.6, 0.25, 57.5),  # (40 + 75) / 2
    "over-requested CPU counts as none free": (1.5, 0.5, 25.0),  # (0 + 50) / 2
    "over-requested both": (2.0, 3.0, 0.0),
}


@pytest.mark.parametrize(("cpu", "memory", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(cpu: float, memory: float, want: float) -> None:
    nodes = make_view([[np.nan], [np.nan]], [[cpu], [memory]])

    assert LeastRequested().score(nodes).tolist() == pytest.approx([want])
