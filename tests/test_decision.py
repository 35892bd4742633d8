"""The audit annotation: its bounds, and how it is known again."""

import json
from typing import Any

import numpy as np
import pytest

from tests.builders import (
    Json,
    apply,
    decode_pod,
    make_node_affinity,
    make_pod,
    make_preferred,
    make_requirement,
    preferred_terms,
)
from webhook import decision, kube, patch
from webhook.expectation import Expected
from webhook.ledger import Load, Share
from webhook.planner import Plan, Tier
from webhook.reasons import Outcome, Reason

NODES = {"fresh": 3, "stale": 0, "missing": 1, "invalid": 0}


def make_plan(*tiers: tuple[int, list[str]], baseline: int = 0) -> Plan:
    count = sum(len(names) for _, names in tiers)
    return Plan(
        tiers=tuple(Tier(weight, tuple(names)) for weight, names in tiers),
        baseline=baseline,
        share=Share.of(range(count), [0.1] * count),
        scores=90.126 - np.arange(count, dtype=np.float64),
        parts={"utilization": 80.126 - np.arange(count, dtype=np.float64), "trend": np.full(count, np.nan)},
    )


def make(plan: Plan | None = None, **changes: Any) -> str:
    values: dict[str, Any] = {
        "uid": "review-1",
        "outcome": Outcome.STEERED if plan else Outcome.SKIPPED,
        "reason": None if plan else Reason.EQUAL_SCORES,
        "policy": "built-in",
        "policy_hash": "0123456789ab",
        "time": "2026-01-01T00:00:00Z",
        "nodes": NODES,
        "plan": plan,
        "expected": Expected(Load(3000.0, 1.5 * 2**30), ("learned", "learned")),
        "terms": patch.terms(plan) if plan else [],
        "full": False,
        **changes,
    }
    return decision.make(**values)


SMALL = make_plan((100, ["n1"]), (80, ["n2", "n3"]))


def test_what_a_steered_pod_says() -> None:
    assert json.loads(make(SMALL)) == {
        "id": "review-1",
        "outcome": "steered",
        "policy": "built-in",
        "hash": "0123456789ab",
        "time": "2026-01-01T00:00:00Z",
        "nodes": NODES,
        "expected": {"cpu": "3", "memory": "1536Mi", "from": "learned"},
        "names": [["n1", 1, 100], ["n2", 2, 80], ["n3", 2, 80]],
        "digest": decision.digest(patch.terms(SMALL)),
    }


def test_what_a_skipped_pod_says() -> None:
    found = json.loads(make())

    assert (found["outcome"], found["reason"]) == ("skipped", "equal-scores")
    assert not {"names", "digest", "scores"} & found.keys()


def test_scores_are_told_only_on_request() -> None:
    assert "scores" not in json.loads(make(SMALL))
    found = json.loads(make(SMALL, full=True))

    assert found["scores"] == [90.13, 89.13, 88.13]
    assert found["parts"] == {"utilization": [80.13, 79.13, 78.13], "trend": [None, None, None]}


def test_a_shadow_decision_says_what_it_would_have_named_and_that_it_did_not() -> None:
    found = json.loads(make(SMALL, outcome=Outcome.SHADOW, reason=Reason.SHADOW, terms=[]))

    assert found["names"][0] == ["n1", 1, 100]
    assert "digest" not in found


HUGE = make_plan(*((100 - tier, [f"{tier}-{n}-".ljust(63, "x") for n in range(8)]) for tier in range(16)))
LARGE: dict[str, dict[str, Any]] = {
    "128 names of 63 characters": {"plan": HUGE},
    "with scores": {"plan": HUGE, "full": True},
    "a long uid": {"plan": HUGE, "uid": "u" * 100_000},
    "a uid of control characters": {"plan": HUGE, "uid": "\x01" * 1000, "full": True},
    "a uid of wide characters": {"plan": HUGE, "uid": "\U0001f600" * 1000, "full": True},
    "the longest policy name": {"plan": HUGE, "policy": "p" * 63, "full": True},
    "names that need escaping": {
        "plan": make_plan((100, ["\x01" * 63] * 8)),
        "terms": [],
        "full": True,
    },
    "many nodes": {"plan": HUGE, "nodes": dict.fromkeys(NODES, 10**9), "full": True},
    "nothing to say": {},
}


@pytest.mark.parametrize("changes", LARGE.values(), ids=LARGE.keys())
def test_it_stays_within_2_kib_and_can_be_read_back(changes: dict[str, Any]) -> None:
    value = make(**changes)

    assert len(value.encode()) <= 2048
    known = decision.read(decode_pod(make_pod(annotations={decision.DECISION: value})))
    assert known is not None
    assert known.outcome == json.loads(value)["outcome"]


def test_eight_names_at_most_and_only_as_many_scores() -> None:
    many = make_plan((100, [f"n{number}" for number in range(20)]))

    found = json.loads(make(many, full=True))

    assert [name for name, _, _ in found["names"]] == [f"n{number}" for number in range(8)]
    assert len(found["scores"]) == 8


USERS = [
    make_preferred(50, make_requirement("disk", "In", "ssd")),
    make_preferred(9, fields=[make_requirement("metadata.name", "NotIn", "n7")]),
]


def injected(plan: Plan = SMALL, *, users: list[Json] | None = None) -> Json:
    """Return a Pod as it leaves the webhook."""
    raw = make_pod(affinity=make_node_affinity(preferred=users)) if users is not None else make_pod()
    pod = decode_pod(raw)
    return apply(patch.inject(pod, patch.terms(plan)) + patch.annotate(pod, make(plan)), raw)


def edited(raw: Json, **changes: Any) -> Json:
    """Return the Pod with fields of its decision changed; `...` leaves one out."""
    known = {**json.loads(raw["metadata"]["annotations"][decision.DECISION]), **changes}
    value = json.dumps({key: text for key, text in known.items() if text is not ...})
    return make_pod(annotations={decision.DECISION: value}, affinity=raw["spec"]["affinity"])


def with_terms(raw: Json, terms: list[Json]) -> Json:
    return make_pod(annotations=raw["metadata"]["annotations"], affinity=make_node_affinity(preferred=terms))


OWN = injected()
BASED = injected(make_plan((50, ["n1"]), (40, ["n2"]), baseline=50))
BESIDE = injected(users=USERS)

RECOGNIZED: dict[str, tuple[Json, bool]] = {
    "our output": (OWN, True),
    "with a baseline": (BASED, True),
    "behind the user's terms": (BESIDE, True),
    "whatever the order of keys in the annotation": (
        edited(OWN, **dict(reversed(json.loads(OWN["metadata"]["annotations"][decision.DECISION]).items()))),
        True,
    ),
    "the uid and the time do not matter": (edited(OWN, id="other", time="later"), True),
    "a term of another webhook in front": (with_terms(OWN, [USERS[0], *preferred_terms(OWN)]), True),
    "no annotation": (with_terms(make_pod(annotations={}), preferred_terms(OWN)), False),
    "the annotation without terms": (make_pod(annotations=OWN["metadata"]["annotations"]), False),
    "no digest": (edited(OWN, digest=...), False),
    "an empty digest": (edited(OWN, digest=""), False),
    "another digest": (edited(OWN, digest="0" * 16), False),
    "a weight was changed": (
        with_terms(OWN, [{**preferred_terms(OWN)[0], "weight": 99}, *preferred_terms(OWN)[1:]]),
        False,
    ),
    "a term was removed": (with_terms(OWN, preferred_terms(OWN)[:-1]), False),
    "the order was changed": (with_terms(OWN, preferred_terms(OWN)[::-1]), False),
    "the user's terms only": (with_terms(OWN, USERS), False),
    "an annotation that is no JSON": (edited(OWN) | make_pod(annotations={decision.DECISION: "x"}), False),
    "an annotation of another shape": (make_pod(annotations={decision.DECISION: "[1]"}), False),
    "an annotation nested too deeply": (
        make_pod(annotations={decision.DECISION: '{"nodes":' + "[" * 2000}),
        False,
    ),
}


@pytest.mark.parametrize(("raw", "want"), RECOGNIZED.values(), ids=RECOGNIZED.keys())
def test_our_own_output_is_known_by_its_content(raw: Json, *, want: bool) -> None:
    assert decision.is_own_output(decode_pod(raw)) is want


def test_our_own_output_is_known_when_another_webhook_has_added_terms_behind() -> None:
    raw = with_terms(BESIDE, [*preferred_terms(BESIDE), make_preferred(7, make_requirement("a", "Exists"))])

    assert decision.is_own_output(decode_pod(raw))


def test_the_digest_is_the_same_for_what_is_read_back() -> None:
    terms = patch.terms(make_plan((50, ["n1", "n2"]), (40, ["n3"]), baseline=50))
    read = decode_pod(make_pod(affinity=make_node_affinity(preferred=terms))).spec.affinity

    assert read is not None
    assert read.node_affinity is not None
    assert read.node_affinity.preferred is not None
    assert decision.digest(read.node_affinity.preferred) == decision.digest(terms)


REPEATED: dict[str, tuple[str, str, bool]] = {
    "another review, another time": (make(uid="a", time="x"), make(uid="b", time="y"), True),
    "another reason": (make(), make(reason=Reason.NO_CANDIDATES), False),
    "another policy": (make(), make(policy_hash="other"), False),
    "other readings": (make(), make(nodes={"fresh": 1}), False),
    "a shadow plan again": (
        make(SMALL, outcome=Outcome.SHADOW, reason=Reason.SHADOW, terms=[]),
        make(SMALL, outcome=Outcome.SHADOW, reason=Reason.SHADOW, terms=[], uid="b"),
        True,
    ),
    "a shadow plan of other names": (
        make(SMALL, outcome=Outcome.SHADOW, reason=Reason.SHADOW, terms=[]),
        make(make_plan((100, ["n9"])), outcome=Outcome.SHADOW, reason=Reason.SHADOW, terms=[]),
        False,
    ),
    "what cannot be read": ("injected", make(), False),
    "nothing there": ("", make(), False),
    "larger than any of ours": (make() + " " * 2048, make(), False),
}


@pytest.mark.parametrize(("known", "value", "want"), REPEATED.values(), ids=REPEATED.keys())
def test_a_decision_that_says_the_same_again(known: str, value: str, *, want: bool) -> None:
    assert decision.is_repeated(decode_pod(make_pod(annotations={decision.DECISION: known})), value) is want


def test_a_pod_without_a_decision_repeats_none() -> None:
    assert decision.read(decode_pod(make_pod())) is None
    assert not decision.is_repeated(decode_pod(make_pod()), make())


def test_inputs_are_under_the_prefix_and_the_decision_is_not_among_them() -> None:
    assert all(key.startswith(decision.PREFIX) for key in decision.INPUTS)
    assert decision.DECISION not in decision.INPUTS
    assert kube.HOSTNAME == "kubernetes.io/hostname"
