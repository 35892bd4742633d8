"""energy: the fewest watts more for the Pod."""

import math
from typing import Any

import numpy as np
import pytest

from tests.views import make_view
from webhook import policy
from webhook.load import View
from webhook.scorers.energy import Energy, PowerModel

NAN = float("nan")
SMALL, LARGE = PowerModel(idle=50, peak=150), PowerModel(idle=100, peak=500)
CURVE = PowerModel(k0=400, k1=-90, k2=-0.05)
CLASS = "node.kubernetes.io/instance-type"


def nodes_of(*classes: str, used: list[float], pod: float = 100.0) -> View:
    """Return nodes of 1 CPU of these classes and CPU use, with a Pod of 100 milli-CPU in it."""
    return make_view(
        [used, [0.0] * len(used)],
        nodes=[{"labels": {CLASS: name} if name else {}} for name in classes],
        pod=(pod, 0.0),
    )


CLASSES = {"small": SMALL, "large": LARGE, "curve": CURVE, "nearly": PowerModel(idle=50, peak=150.4)}


def watts(before: float, after: float) -> float:
    """Return what CURVE draws more: -90 (e^(-5 after) - e^(-5 before))."""
    return -90 * (math.exp(-5 * after) - math.exp(-5 * before))


# Classes, use with the Pod, scores.
SCORES: dict[str, tuple[list[str], list[float], list[float]]] = {
    # A tenth of 100 W, of 400 W.
    "a line": (["small", "large"], [0.5, 0.5], [100.0, 0.0]),
    "a line costs the same at any use": (["small", "small"], [0.1, 0.9], [100.0, 100.0]),
    # The curve flattens: the fuller node draws less for the same Pod.
    # 100 x 0.1 W and 100.4 x 0.1 W: 0.04 of the 0.1004 W that count as apart.
    "about the same": (["small", "nearly"], [0.5, 0.5], [100.0, 100 * (1 - 0.04 / 0.1004)]),
    "a curve": (["curve", "curve"], [0.1, 0.9], [0.0, 100.0]),
    "between": (
        ["curve", "curve", "curve"],
        [0.1, 0.5, 0.9],
        [0.0, 100 * (watts(0, 0.1) - watts(0.4, 0.5)) / (watts(0, 0.1) - watts(0.8, 0.9)), 100.0],
    ),
    "a class without a model is not scored": (["small", "other", "large"], [0.5] * 3, [100.0, NAN, 0.0]),
    "a node without a class is not scored": (["small", "", "large"], [0.5] * 3, [100.0, NAN, 0.0]),
    "one that the Pod overfills is the worst": (["large", "curve"], [0.5, 1.01], [100.0, 0.0]),
    "all overfilled": (["large", "small"], [1.5, 1.5], [0.0, 0.0]),
    "alone": (["large"], [0.5], [100.0]),
}


@pytest.mark.parametrize(("classes", "used", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(classes: list[str], used: list[float], want: list[float]) -> None:
    scores = Energy(classes=CLASSES).score(nodes_of(*classes, used=used))

    assert scores.tolist() == pytest.approx(want, nan_ok=True)


def test_the_default_is_for_every_other_class() -> None:
    nodes = nodes_of("other", "large", "", used=[0.5] * 3)

    assert Energy(classes={"large": LARGE}, default=SMALL).score(nodes).tolist() == [100.0, 0.0, 100.0]
    assert Energy(default=SMALL).score(nodes).tolist() == [100.0] * 3


def test_only_candidates_decide_what_is_best_and_worst() -> None:
    nodes = nodes_of("small", "large", "curve", used=[0.5, 0.5, 0.1])
    object.__setattr__(nodes, "candidates", np.array([False, True, True]))

    # 40 W is the worst of the candidates; 10 W is better than the best, and 100 all the same.
    dearest, cheapest = 40.0, watts(0, 0.1)
    assert cheapest < dearest
    assert Energy(classes=CLASSES).score(nodes).tolist() == pytest.approx([100.0, 0.0, 100.0])


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({}, "args: expected a power model: classes, default or both"),
    "half a line": ({"default": {"idle": 5}}, "args.default: expected idle and peak, or k0, k1 and k2"),
    "a line and a curve": (
        {"default": {"idle": 5, "peak": 9, "k0": 1, "k1": 1, "k2": 1}},
        "args.default: expected idle and peak, or k0, k1 and k2",
    ),
    "a falling line": (
        {"classes": {"a": {"idle": 9, "peak": 5}}},
        "args.classes.a: expected a power that does not fall as use grows",
    ),
    "a falling curve": (
        {"default": {"k0": 9, "k1": -5, "k2": 0.1}},
        "args.default: expected a power that does not fall as use grows",
    ),
    "a curve out of all bounds": (
        {"default": {"k0": 9, "k1": 5, "k2": 7}},
        "args.default.k2: expected less than or equal to 1, found 7",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD.keys())
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(policy.ConfigError) as caught:
        policy.scorer("energy", arguments)

    assert list(map(str, caught.value.problems)) == [f"profile.scorers.energy.{message}"]
