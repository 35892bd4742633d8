"""overcommit-risk: what limits allow beyond the node, and what use shows beyond requests."""

from typing import Any

import numpy as np
import pytest

from tests.builders import decode_node, decode_pod, make_container, make_node, make_pod
from tests.views import make_view
from webhook import beta, kube
from webhook.load import View
from webhook.pods import read_shape
from webhook.scorers.overcommit_risk import OvercommitRisk, limit_risk, load_risk
from webhook.snapshot import Snapshot

NAN = float("nan")

# Requests and limits with the Pod, allocatable; risk.
LIMITS: dict[str, tuple[float, float, float, float]] = {
    "limits within the node": (1000, 4000, 4000, 0.0),
    "limits over the node": (1000, 5000, 4000, 0.25),  # 1000 / 4000
    "requests fill the node": (4000, 5000, 4000, 1.0),
    "requests equal limits, over the node": (5000, 5000, 4000, 1.0),
    "requests over the node": (4500, 5000, 4000, 1.0),  # 1000 / 500
}


@pytest.mark.parametrize(("requests", "limits", "size", "want"), LIMITS.values(), ids=LIMITS.keys())
def test_the_risk_of_limits(requests: float, limits: float, size: float, want: float) -> None:
    assert limit_risk(np.array([requests]), np.array([limits]), np.array([size]))[0] == pytest.approx(want)


# Mean, deviation, requests, limits; risk.
LOADS: dict[str, tuple[float, float, float, float, float]] = {
    # Mean 1/2 and variance 1/12 are Beta(1, 1), uniform.
    "uniform use above 0.7": (0.5, (1 / 12) ** 0.5, 0.7, 2.0, 0.3),
    "given that it keeps within 0.8": (0.5, (1 / 12) ** 0.5, 0.7, 0.8, 1 - 0.7 / 0.8),
    "limits below requests say nothing": (0.5, (1 / 12) ** 0.5, 0.7, 0.6, 0.3),
    # Mean 1/2 and variance 1/20 are Beta(2, 2): P(X > x) = 1 - 3x^2 + 2x^3.
    "a hump above 0.25": (0.5, 0.05**0.5, 0.25, 2.0, 1 - 3 / 16 + 2 / 64),
    "steady below requests": (0.3, 0.0, 0.5, 2.0, 0.0),
    "steady above requests": (0.8, 0.0, 0.5, 2.0, 1.0),
    "idle": (0.0, 0.0, 0.0, 2.0, 0.0),
    "full": (1.0, 0.3, 0.5, 2.0, 1.0),
    "full, all of it requested": (1.0, 0.3, 1.0, 2.0, 0.0),
    "no limits at all are none": (0.5, 0.2, 0.0, 0.0, 0.0),
    "no mean": (NAN, 0.2, 0.5, 2.0, NAN),
    "no deviation": (0.5, NAN, 0.5, 2.0, NAN),
}


@pytest.mark.parametrize(("mean", "spread", "requests", "limits", "want"), LOADS.values(), ids=LOADS.keys())
def test_the_risk_of_use(mean: float, spread: float, requests: float, limits: float, want: float) -> None:
    given = (np.array([value]) for value in (mean, spread, requests, limits))

    assert load_risk(*given)[0] == pytest.approx(want, abs=1e-6, nan_ok=True)


def test_a_use_spread_wider_than_any_can_be_is_as_wide_as_can_be() -> None:
    wide, wider = (load_risk(*(np.array([v]) for v in (0.3, s, 0.5, 2.0)))[0] for s in (0.9, 1.0))

    assert 0.0 < wide == wider < 0.5


# alpha, beta, x; P(X <= x).
BETAS: dict[str, tuple[float, float, float, float]] = {
    "uniform": (1, 1, 0.3, 0.3),
    "rising": (2, 1, 0.3, 0.09),  # x^2
    "falling": (1, 3, 0.3, 1 - 0.7**3),
    "hump": (2, 2, 0.25, 3 / 16 - 2 / 64),
    "arcsine": (0.5, 0.5, 0.25, 1 / 3),  # 2/pi asin(sqrt(x))
    "at 0": (2, 2, 0.0, 0.0),
    "at 1": (2, 2, 1.0, 1.0),
    "narrow": (5000, 5000, 0.5, 0.5),
    "narrow, far off": (5000, 5000, 0.6, 1.0),
    "all at the ends": (0.001, 0.001, 0.4, 0.5),
    "no shape": (0, 1, 0.5, NAN),
}


@pytest.mark.parametrize(("alpha", "shape", "x", "want"), BETAS.values(), ids=BETAS.keys())
def test_beta(alpha: float, shape: float, x: float, want: float) -> None:
    found = beta.cdf(np.array([alpha * 1.0]), np.array([shape * 1.0]), np.array([x]))[0]

    assert found == pytest.approx(want, abs=1e-3 if alpha == 0.001 else 1e-7, nan_ok=True)


def two_nodes(**pod: Any) -> View:
    """Return two nodes of 4 CPU and 4 kB; on the first a Pod that requests 1 CPU and may use 3."""
    nodes = Snapshot(capacity=2)
    for name in ("n1", "n2"):
        nodes.set_node(decode_node(make_node(name, cpu="4", memory="4k")))
    bound = make_pod(
        containers=[make_container(cpu="1", memory="1k", resources=resources("1", "1k", "3", "1k"))]
    )
    nodes.bind("n1", read_shape(decode_pod(bound)))
    return make_view(nodes=nodes, **pod)


def resources(cpu: str, memory: str, cpu_limit: str, memory_limit: str) -> dict[str, Any]:
    return {
        "requests": {"cpu": cpu, "memory": memory},
        "limits": {"cpu": cpu_limit, "memory": memory_limit},
    }


ONE_TO_TWO: dict[str, Any] = {
    "requests": kube.Requests(1000, 0, 0, (), 1000, 0),
    "limits": kube.Limits(2000, 0),
}
UNIFORM = {"mean": [[0.5, 0.5], [0.0, 0.0]], "deviation": [[(1 / 12) ** 0.5] * 2, [0.0, 0.0]]}


def test_scores() -> None:
    nodes = two_nodes(**ONE_TO_TWO, statistics=UNIFORM)

    # n1: limits 5 of 4, requests 2: 1/3. Use above 1 of 4, given at most 3 of 4: 1 - 0.25/0.75 = 2/3.
    # n2: limits 2, no risk; nothing requested and nothing allowed, yet used: none of it can be told.
    scores = OvercommitRisk().score(nodes)
    assert scores.tolist() == pytest.approx([100 * (1 - (1 / 3 + 2 / 3) / 2), 100.0])


def test_by_limits_alone_it_needs_no_readings() -> None:
    nodes = two_nodes(**ONE_TO_TWO)

    assert OvercommitRisk(limit_weight=1.0).score(nodes).tolist() == pytest.approx([100 * 2 / 3, 100.0])
    assert np.isnan(OvercommitRisk().score(nodes)).all()


def test_what_is_in_flight_counts_with_the_limits() -> None:
    nodes = two_nodes(**ONE_TO_TWO)
    nodes.nodes.reserved[0, 0] = 500.0

    # n1: limits 5.5 of 4 over requests 2.5: 1.5 / 3.
    assert OvercommitRisk(limit_weight=1.0).score(nodes)[0] == pytest.approx(50.0)


def test_a_best_effort_pod_leaves_it_neutral() -> None:
    assert np.isnan(OvercommitRisk().score(two_nodes(statistics=UNIFORM))).all()


def test_rows_that_have_changed_since_the_last_view_are_worked_out_anew() -> None:
    once = OvercommitRisk(limit_weight=0.0)
    once.score(two_nodes(**ONE_TO_TWO, statistics=UNIFORM))
    changed = {"mean": [[0.5, 0.0], [0.0, 0.0]], "deviation": [[0.05**0.5, 0.0], [0.0, 0.0]]}

    scores = once.score(two_nodes(**ONE_TO_TWO, statistics=changed))

    fresh = OvercommitRisk(limit_weight=0.0)
    np.testing.assert_array_equal(scores, fresh.score(two_nodes(**ONE_TO_TWO, statistics=changed)))
    # Beta(2, 2): F(1/4) / F(3/4).
    assert scores[0] == pytest.approx(100 * (10 / 64) / (54 / 64))
