"""most-requested: the requested share of allocatable, CPU and memory alike."""

import pytest

from tests.views import make_view
from webhook.scorers.most_requested import MostRequested

# Requested fractions of CPU and memory, the Pod included; score.
SCORES: dict[str, tuple[float, float, float]] = {
    "nothing requested": (0.0, 0.0, 0.0),
    "all requested": (1.0, 1.0, 100.0),
    # most_allocated_test.go, "nothing scheduled, resources requested, differently sized nodes":
    # CPU 3000 of 4000 is 75, memory 5000 of 10000 is 50; mean 62.5.
    "3000 of 4000, 5000 of 10000": (0.75, 0.5, 62.5),
    "over-requested counts as full": (1.5, 0.5, 75.0),
}


@pytest.mark.parametrize(("cpu", "memory", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(cpu: float, memory: float, want: float) -> None:
    nodes = make_view([[0.0], [0.0]], [[cpu], [memory]])

    assert MostRequested().score(nodes).tolist() == pytest.approx([want])
