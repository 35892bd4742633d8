"""balance: 100 x (1 - the standard deviation of the used fractions of CPU and memory)."""

import numpy as np
import pytest

from tests.views import make_view
from webhook import kube
from webhook.scorers.balance import Balance

# Used fractions of CPU and memory, the Pod included; score.
SCORES: dict[str, tuple[float, float, float]] = {
    "idle": (0.0, 0.0, 100.0),
    "equal shares": (0.7, 0.7, 100.0),
    # balanced_allocation_test.go, "resources requested, Pods scheduled with resources":
    # CPU 0.6, memory 0.25: the deviation of two is half their distance, 0.175; 82.5.
    "0.6 and 0.25": (0.6, 0.25, 82.5),
    "the other way round": (0.25, 0.6, 82.5),
    "all of one, none of the other": (1.0, 0.0, 50.0),
    "over-used counts as full": (7.0, 1.0, 100.0),
    "over-used and half": (1.5, 0.5, 75.0),  # |1 - 0.5| / 2
}


@pytest.mark.parametrize(("cpu", "memory", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(cpu: float, memory: float, want: float) -> None:
    nodes = make_view([[cpu], [memory]], [[np.nan], [np.nan]])

    assert Balance().score(nodes).tolist() == pytest.approx([want])


GPU = "nvidia.com/gpu"

# Used fractions of CPU and memory; accelerators, of which the Pod asks for two; score.
WITH_ACCELERATORS: dict[str, tuple[float, float, int, float]] = {
    "all equal": (0.5, 0.5, 4, 100.0),
    # 0.2, 0.4 and 0.5 from their mean 1.1 / 3: squares 0.046667 over 3.
    "three fractions": (0.2, 0.4, 4, 100 * (1 - (0.14 / 9) ** 0.5)),
    "a node without: CPU and memory alone": (0.2, 0.4, 0, 90.0),
}


@pytest.mark.parametrize(
    ("cpu", "memory", "count", "want"), WITH_ACCELERATORS.values(), ids=WITH_ACCELERATORS.keys()
)
def test_accelerators(cpu: float, memory: float, count: int, want: float) -> None:
    requests = kube.Requests(0, 0, 0, ((GPU, 2),), 0, 0)
    nodes = make_view(
        [[cpu] * 2, [memory] * 2],
        nodes=[{"allocatable": {GPU: count}}, {"allocatable": {GPU: 4}}],
        requests=requests,
    )

    assert Balance((GPU,)).score(nodes)[0] == pytest.approx(want)
    assert Balance().score(nodes)[0] == pytest.approx(100 - 50 * abs(cpu - memory))
