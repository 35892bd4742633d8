"""Thresholds: how full a node may be and still be named."""

from typing import Any

import pytest

from tests.views import make_view
from webhook.thresholds import Thresholds

# CPU and memory used with the Pod; arguments; the node's annotations; over.
OVER: dict[str, tuple[float, float, dict[str, Any], dict[str, str], bool]] = {
    "off": (3.0, 3.0, {}, {}, False),
    "below": (0.7, 0.9, {"cpu": 80}, {}, False),
    "at": (0.75, 0.9, {"cpu": 75}, {}, False),
    "over": (0.81, 0.1, {"cpu": 80}, {}, True),
    "memory over": (0.1, 0.96, {"cpu": 80, "memory": 95}, {}, True),
    "memory off": (0.1, 0.96, {"cpu": 80}, {}, False),
    "a statistic over": (0.5, 0.1, {"cpu": 80, "statistic": "p95"}, {}, True),
    "another statistic": (0.5, 0.1, {"cpu": 80, "statistic": "max"}, {}, False),
    "a series over": (0.5, 0.1, {"cpu": 80, "cpu_series": "busy"}, {}, True),
    "a series that is not there": (0.9, 0.1, {"cpu": 80, "cpu_series": "none"}, {}, False),
    "the node's own, higher": (0.85, 0.1, {"cpu": 80}, {"trimtab.dev/threshold-cpu": "90"}, False),
    "the node's own, lower": (0.75, 0.1, {"cpu": 80}, {"trimtab.dev/threshold-cpu": "70"}, True),
    "the node's own, off": (3.0, 0.1, {"cpu": 80}, {"trimtab.dev/threshold-cpu": "0"}, False),
    "the node's own of memory": (0.1, 0.5, {"memory": 80}, {"trimtab.dev/threshold-memory": "40"}, True),
    "the node's own is no number": (0.85, 0.1, {"cpu": 80}, {"trimtab.dev/threshold-cpu": "high"}, True),
    "the node's own, where the policy has none": (0.85, 0.1, {}, {"trimtab.dev/threshold-cpu": "70"}, False),
}


@pytest.mark.parametrize(
    ("cpu", "memory", "arguments", "annotations", "want"), OVER.values(), ids=OVER.keys()
)
def test_over(
    cpu: float, memory: float, arguments: dict[str, Any], annotations: dict[str, str], *, want: bool
) -> None:
    nodes = make_view(
        [[cpu], [memory]],
        nodes=[{"annotations": annotations}],
        statistics={"percentile": [[0.85], [0.0]]},
        series={"busy": [0.85]},
    )

    assert Thresholds(**arguments).over(nodes).tolist() == [want]


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_a_node_without_a_reading_is_judged_by_what_it_is_taken_to_use(resource: str) -> None:
    alone: dict[str, Any] = {resource: 80}
    fresh = [[resource != "cpu"], [resource != "memory"]]

    assert Thresholds(**alone).over(make_view([[3.0], [3.0]], fresh=fresh)).tolist() == [True]
    assert Thresholds(**alone).over(make_view([[0.7], [0.7]], fresh=fresh)).tolist() == [False]
