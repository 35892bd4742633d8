"""What every scorer keeps to, whatever it values. A new one needs no edit here."""

import numpy as np
import pytest

from webhook import policy
from webhook.load import View
from webhook.scorers import MAX_SCORE, SCORERS, Scorer

NAMES = sorted(SCORERS)


def scorer(name: str) -> Scorer:
    return SCORERS[name]()


def view(used: object, requested: object = None) -> View:
    fractions = np.asarray(used, np.float64)
    return View(
        fractions,
        fractions if requested is None else np.asarray(requested, np.float64),
        np.ones(fractions.shape[1], np.bool_),
    )


def wild(seed: int, size: int = 200) -> View:
    """Return used and requested fractions from idle to far over-committed."""
    rng = np.random.default_rng(seed)
    return view(rng.gamma(1.0, 0.7, (2, size)), rng.gamma(1.0, 0.7, (2, size)))


EXTREMES = view([[0.0, 1.0, 0.0, 1.0, 9e9, 1e12, 0.5], [0.0, 1.0, 1.0, 0.0, 0.0, 1e12, 0.5]])


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_within_0_and_100_or_none(name: str) -> None:
    for nodes in (EXTREMES, *map(wild, range(20))):
        scores = scorer(name).score(nodes)
        assert scores.shape == nodes.fresh.shape
        assert scores.dtype == np.float64
        known = scores[~np.isnan(scores)]
        assert ((known >= 0.0) & (known <= MAX_SCORE)).all()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_view_gives_the_same_scores_and_is_left_alone(name: str) -> None:
    nodes = wild(1)
    before = nodes.used.copy(), nodes.requested.copy(), nodes.fresh.copy()

    first, second = scorer(name).score(nodes), scorer(name).score(nodes)

    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(nodes.used, before[0])
    np.testing.assert_array_equal(nodes.requested, before[1])
    np.testing.assert_array_equal(nodes.fresh, before[2])


@pytest.mark.parametrize("name", NAMES)
def test_a_node_is_scored_alike_wherever_it_stands(name: str) -> None:
    nodes = wild(2)
    order = np.random.default_rng(3).permutation(nodes.fresh.size)
    shuffled = View(nodes.used[:, order], nodes.requested[:, order], nodes.fresh[order])

    np.testing.assert_array_equal(scorer(name).score(shuffled), scorer(name).score(nodes)[order])


@pytest.mark.parametrize("name", NAMES)
def test_no_nodes_have_no_scores(name: str) -> None:
    assert scorer(name).score(view(np.zeros((2, 0)))).shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_a_reading_that_is_missing_is_no_reason_to_fail(name: str) -> None:
    nodes = View(np.full((2, 3), 0.5), np.full((2, 3), 0.5), np.zeros(3, np.bool_))

    assert scorer(name).score(nodes).shape == (3,)


@pytest.mark.parametrize("name", NAMES)
def test_the_policy_knows_it_by_its_name(name: str) -> None:
    text = f"""
        apiVersion: trimtab.dev/v1alpha1
        kind: ScoringPolicy
        profile: {{scorers: {{{name}: {{weight: 2}}}}}}
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
