"""target-load: up to the target the fuller node, above it the emptier."""

import pytest

from tests.views import make_view
from webhook.scorers.target_load import TargetLoad

# CPU use, target, score.
SCORES: dict[str, tuple[float, float, float]] = {
    "idle": (0.0, 40.0, 40.0),
    "half way": (0.2, 40.0, 70.0),  # 60 x 20 / 40 + 40
    "at the target": (0.4, 40.0, 100.0),
    "right above": (0.4001, 40.0, 40 * 59.99 / 60),  # 40 x 59.99 / 60
    "above": (0.7, 40.0, 20.0),  # 40 x 30 / 60
    "full": (1.0, 40.0, 0.0),
    "over-used": (1.3, 40.0, 0.0),
    "another target": (0.25, 50.0, 75.0),  # 50 x 25 / 50 + 50
}


@pytest.mark.parametrize(("cpu", "target", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(cpu: float, target: float, want: float) -> None:
    nodes = make_view([[cpu], [0.9]])

    assert TargetLoad(target=target).score(nodes).tolist() == pytest.approx([want])


def test_a_statistic_takes_the_place_of_the_last_reading() -> None:
    nodes = make_view([[0.1], [0.0]], statistics={"max": [[0.4], [0.0]]})

    assert TargetLoad(statistic="max").score(nodes).tolist() == pytest.approx([100.0])
