"""Label selectors: what they match, and which the API server refuses."""

import pytest

from tests.builders import Json, make_requirement, to_bytes
from webhook import kube, selectors
from webhook.selectors import Selector, SelectorError

LABELS = {"app": "web", "tier": "", "hash": "1"}

MATCHES: dict[str, tuple[Json | None, bool]] = {
    "empty": ({}, True),
    "nulls": ({"matchLabels": None, "matchExpressions": None}, True),
    "a label": ({"matchLabels": {"app": "web"}}, True),
    "a label with another value": ({"matchLabels": {"app": "db"}}, False),
    "a label that is absent": ({"matchLabels": {"zone": "a"}}, False),
    "the empty value": ({"matchLabels": {"tier": ""}}, True),
    "the empty value is not absence": ({"matchLabels": {"zone": ""}}, False),
    "In": ({"matchExpressions": [make_requirement("app", "In", "db", "web")]}, True),
    "In, another value": ({"matchExpressions": [make_requirement("app", "In", "db")]}, False),
    "In, absent": ({"matchExpressions": [make_requirement("zone", "In", "a")]}, False),
    "NotIn": ({"matchExpressions": [make_requirement("app", "NotIn", "db")]}, True),
    "NotIn, its value": ({"matchExpressions": [make_requirement("app", "NotIn", "db", "web")]}, False),
    "NotIn, absent": ({"matchExpressions": [make_requirement("zone", "NotIn", "a")]}, True),
    "Exists": ({"matchExpressions": [make_requirement("tier", "Exists")]}, True),
    "Exists, absent": ({"matchExpressions": [make_requirement("zone", "Exists")]}, False),
    "DoesNotExist": ({"matchExpressions": [make_requirement("zone", "DoesNotExist")]}, True),
    "DoesNotExist, present": ({"matchExpressions": [make_requirement("tier", "DoesNotExist")]}, False),
    "all have to hold": (
        {"matchLabels": {"app": "web"}, "matchExpressions": [make_requirement("tier", "DoesNotExist")]},
        False,
    ),
}


def read(raw: Json | None, **keys: list[str]) -> Selector | None:
    decoded = kube.decoder(kube.LabelSelector).decode(to_bytes(raw)) if raw is not None else None
    return selectors.read(decoded, LABELS, keys.get("same", ()), keys.get("other", ()))


@pytest.mark.parametrize(("raw", "want"), MATCHES.values(), ids=MATCHES.keys())
def test_matches(raw: Json, *, want: bool) -> None:
    selector = read(raw)

    assert selector is not None
    assert selector.matches(LABELS) is want


REFUSED: dict[str, tuple[Json, str]] = {
    "an operator of node affinity": (
        make_requirement("app", "Gt", "1"),
        "operator: expected In, NotIn, Exists or DoesNotExist, found 'Gt'",
    ),
    "In without a value": (
        make_requirement("app", "In"),
        "values: expected one value or more for In, found 0",
    ),
    "Exists with one": (
        make_requirement("app", "Exists", "x"),
        "values: expected no values for Exists, found 1",
    ),
}


@pytest.mark.parametrize(("expression", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_api_server_refuses(expression: Json, text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        read({"matchExpressions": [expression]})

    assert str(caught.value) == text


def test_no_selector_is_not_the_empty_one() -> None:
    assert read(None, same=["app"]) is None
    assert read({}) == Selector()


def test_keys_stand_for_the_labels_of_the_pod() -> None:
    merged = {"matchLabels": {"app": "web"}, "matchExpressions": [make_requirement("hash", "In", "1")]}

    assert read({"matchLabels": {"app": "web"}}, same=["hash", "absent"]) == read(merged)
    assert read(merged, same=["hash"]) == read(merged)
    assert read({}, other=["hash"]) == read({"matchExpressions": [make_requirement("hash", "NotIn", "1")]})


def test_equal_selectors_are_one_whatever_their_order() -> None:
    one = read({"matchExpressions": [make_requirement("a", "Exists"), make_requirement("b", "In", "x", "y")]})
    other = read(
        {"matchExpressions": [make_requirement("b", "In", "y", "x"), make_requirement("a", "Exists")]}
    )

    assert one == other
    assert hash(one) == hash(other)
