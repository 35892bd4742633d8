"""What every scorer keeps to, whatever it values. A new one needs no edit here, unless it has no defaults."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.views import make_view
from webhook import kube, policy, wishes
from webhook.load import View
from webhook.scorers import MAX_SCORE, SCORERS, Scorer

NAMES = sorted(SCORERS)

# Arguments of those that cannot do without.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "custom": {"label": "rank", "max": 3},
    "energy": {"default": {"idle": 100, "peak": 300}},
}

GPU = "nvidia.com/gpu"
POD: dict[str, Any] = {
    "requests": kube.Requests(100, 100, 0, ((GPU, 1),), 100, 100),
    "limits": kube.Limits(200, 300),
    "wishes": wishes.read({wishes.NEAR: "app=db", wishes.FAR: "app=web", wishes.ACCELERATOR: "a100"}),
}


def scorer(name: str) -> Scorer:
    return policy.scorer(name, ARGUMENTS.get(name, {}))


def view(used: npt.ArrayLike, requested: npt.ArrayLike | None = None, **fields: Any) -> View:
    """Return a view of nodes of every kind, with all that a scorer may ask for."""
    size = np.asarray(used).shape[1]
    rng = np.random.default_rng(size)
    labels = [
        {
            "rank": str(row % 5),
            "topology.kubernetes.io/zone": "abc"[row % 3],
            "nvidia.com/gpu.product": "a100",
        }
        for row in range(size)
    ]
    nodes = [{"labels": each, "allocatable": {GPU: row % 3}} for row, each in enumerate(labels)]
    given = {
        kind: rng.gamma(1.0, 0.4, (2, size))
        for kind in ("mean", "deviation", "percentile", "max", "ewma", "trend")
    }
    return make_view(
        used,
        requested,
        nodes=nodes,
        **{
            "statistics": given,
            "peers": [row % 4 for row in range(size)],
            "pod": (100.0, 100.0),
            **POD,
            **fields,
        },
    )


def wild(seed: int, size: int = 60) -> View:
    """Return used and requested fractions from idle to far over-committed."""
    rng = np.random.default_rng(seed)
    return view(rng.gamma(1.0, 0.7, (2, size)), rng.gamma(1.0, 0.7, (2, size)))


EXTREMES = view([[0.0, 1.0, 0.0, 1.0, 9e9, 1e12, 0.5], [0.0, 1.0, 1.0, 0.0, 0.0, 1e12, 0.5]])
WITHOUT_READINGS = view(np.full((2, 3), 0.5), fresh=False)
FIRST_POD = view(
    np.full((2, 3), 0.5), peers=[0, 0, 0], statistics={}, requests=kube.Requests(0, 0, 0, (), 0, 0)
)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_within_0_and_100_or_none(name: str) -> None:
    for nodes in (EXTREMES, WITHOUT_READINGS, FIRST_POD, *map(wild, range(8))):
        scores = scorer(name).score(nodes)
        assert scores.shape == (nodes.size,)
        assert scores.dtype == np.float64
        known = scores[~np.isnan(scores)]
        assert ((known >= 0.0) & (known <= MAX_SCORE)).all()


@pytest.mark.parametrize("name", NAMES)
def test_it_says_something(name: str) -> None:
    assert not np.isnan(scorer(name).score(wild(1))).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_view_gives_the_same_scores_and_is_left_alone(name: str) -> None:
    nodes = wild(1)
    before = nodes.used.copy(), nodes.requested.copy(), nodes.fresh.copy(), nodes.unseen.copy()
    once = scorer(name)

    first, second, third = once.score(nodes), once.score(nodes), scorer(name).score(nodes)

    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)
    for array, copy in zip((nodes.used, nodes.requested, nodes.fresh, nodes.unseen), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("name", NAMES)
def test_scores_that_were_given_out_do_not_change_with_the_next_view(name: str) -> None:
    once = scorer(name)
    first = once.score(wild(1))
    copy = first.copy()

    once.score(wild(2))

    np.testing.assert_array_equal(first, copy)


@pytest.mark.parametrize("name", NAMES)
def test_no_nodes_have_no_scores(name: str) -> None:
    assert scorer(name).score(make_view(np.zeros((2, 0)), **POD)).shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_without_readings_there_is_no_statistic_to_score_by(name: str) -> None:
    """What is scored all the same is scored alike: by what is not a reading."""
    scores = scorer(name).score(WITHOUT_READINGS)

    if name in ("risk", "overcommit-risk", "trend"):
        assert np.isnan(scores).all()
    assert scores.shape == (3,)


@pytest.mark.parametrize("name", NAMES)
def test_the_policy_knows_it_by_its_name(name: str) -> None:
    text = f"""
        apiVersion: trimtab.dev/v1alpha1
        kind: ScoringPolicy
        profile: {{scorers: {{{name}: {{weight: 2, args: {ARGUMENTS.get(name, {})}}}}}}}
    """

    (entry,) = policy.load(text).profile.scorers

    assert (entry.name, entry.weight, entry.scorer) == (name, 2.0, scorer(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_policy_refuses_an_argument_that_it_does_not_have(name: str) -> None:
    text = f"""
        apiVersion: trimtab.dev/v1alpha1
        kind: ScoringPolicy
        profile: {{scorers: {{{name}: {{args: {{nonsense: 1}}}}}}}}
    """

    with pytest.raises(policy.ConfigError, match=rf"profile\.scorers\.{name}\.args\.nonsense: unknown"):
        policy.load(text)
