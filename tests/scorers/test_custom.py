"""custom: the user's own number, on a scale of its own."""

from typing import Any

import pytest

from tests.views import make_view
from webhook import policy
from webhook.scorers.custom import Custom

NAN = float("nan")

# Number, arguments, score.
SCORES: dict[str, tuple[float, dict[str, Any], float]] = {
    "the least": (10.0, {"min": 10, "max": 30}, 0.0),
    "the most": (30.0, {"min": 10, "max": 30}, 100.0),
    "a quarter": (15.0, {"min": 10, "max": 30}, 25.0),
    "lower is better": (15.0, {"min": 10, "max": 30, "direction": "lower"}, 75.0),
    "below the range": (-5.0, {"min": 10, "max": 30}, 0.0),
    "above the range": (500.0, {"min": 10, "max": 30, "direction": "lower"}, 0.0),
    "a range below 0": (-2.0, {"min": -4, "max": 0}, 50.0),
    "no number": (NAN, {"min": 10, "max": 30}, NAN),
    "no number where lower is better": (NAN, {"min": 10, "max": 30, "direction": "lower"}, NAN),
}


@pytest.mark.parametrize(("number", "arguments", "want"), SCORES.values(), ids=SCORES.keys())
@pytest.mark.parametrize("source", ["series", "label", "annotation"])
def test_scores(source: str, number: float, arguments: dict[str, Any], want: float) -> None:
    text = {} if number != number else {"rank": str(number)}  # noqa: PLR0124, NaN has no text
    nodes = make_view(
        [[0.0], [0.0]],
        nodes=[
            {
                "labels": text if source == "label" else {},
                "annotations": text if source == "annotation" else {},
            }
        ],
        series={"rank": [number]} if source == "series" else {},
    )

    scores = Custom(**{source: "rank", **arguments}).score(nodes)

    assert scores.tolist() == pytest.approx([want], nan_ok=True)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no number": ({}, "profile.scorers.custom.args: expected exactly one of series, label and annotation"),
    "two numbers": (
        {"series": "a", "label": "b"},
        "profile.scorers.custom.args: expected exactly one of series, label and annotation",
    ),
    "no range": (
        {"label": "b", "min": 3, "max": 3},
        "profile.scorers.custom.args: expected min below max, found 3 and 3",
    ),
    "another direction": (
        {"label": "b", "direction": "up"},
        "profile.scorers.custom.args.direction: expected 'higher' or 'lower', found 'up'",
    ),
    "an endless range": (
        {"label": "b", "max": float("inf")},
        "profile.scorers.custom.args.max: expected a finite number, found inf",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(policy.ConfigError) as caught:
        policy.scorer("custom", arguments)

    assert list(map(str, caught.value.problems)) == [message]
