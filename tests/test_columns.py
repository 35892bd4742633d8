"""Columns of labels and annotations, kept as nodes change."""

import math

import pytest

from tests.builders import decode_node, make_node
from webhook.columns import MAX_COLUMNS
from webhook.snapshot import Snapshot

ZONE = "topology.kubernetes.io/zone"


def set_node(nodes: Snapshot, name: str, annotations: dict[str, str] | None = None, **labels: str) -> None:
    raw = make_node(name, labels={ZONE: labels["zone"]} if labels else {})
    raw["metadata"]["annotations"] = annotations
    nodes.set_node(decode_node(raw))


def zones(nodes: Snapshot) -> list[float]:
    return list(nodes.columns.numbers("label", ZONE))


def test_numbers_follow_the_labels() -> None:
    nodes = Snapshot(capacity=2)
    set_node(nodes, "n1", zone="1")
    set_node(nodes, "n2")
    assert zones(nodes) == pytest.approx([1.0, math.nan], nan_ok=True)

    set_node(nodes, "n2", zone="2")
    set_node(nodes, "n3", zone="1")
    assert zones(nodes) == [1.0, 2.0, 1.0]

    nodes.remove_node("n1")
    assert zones(nodes) == pytest.approx([math.nan, 2.0, 1.0], nan_ok=True)


def test_a_row_without_a_node_has_none() -> None:
    nodes = Snapshot(capacity=2)
    set_node(nodes, "n1", zone="1")
    assert zones(nodes) == [1.0]

    for row in range(200):
        nodes._claim(f"unknown-{row}")  # noqa: SLF001, as a bound Pod of an unknown node does

    assert zones(nodes) == pytest.approx([1.0, *[math.nan] * 200], nan_ok=True)


def test_columns_of_former_policies_make_room() -> None:
    nodes = Snapshot(capacity=2)
    set_node(nodes, "n1", zone="7")
    for number in range(3 * MAX_COLUMNS):
        nodes.columns.numbers("label", f"key-{number}")

    assert zones(nodes) == [7.0]


NUMBERS: dict[str, tuple[str, float]] = {
    "a whole": ("7", 7.0),
    "a fraction": ("0.25", 0.25),
    "negative": ("-1", -1.0),
    "an exponent": ("1e3", 1000.0),
    "a text": ("fast", math.nan),
    "nothing": ("", math.nan),
    "not a number": ("nan", math.nan),
    "endless": ("inf", math.nan),
    "too large": ("1e999", math.nan),
    "Python's own way": ("1_000", math.nan),
    "a quantity": ("10Gi", math.nan),
}


@pytest.mark.parametrize(("text", "want"), NUMBERS.values(), ids=NUMBERS.keys())
def test_numbers(text: str, want: float) -> None:
    nodes = Snapshot(capacity=2)
    set_node(nodes, "n1")
    nodes.columns.numbers("annotation", "score")

    set_node(nodes, "n1", {"score": text})

    assert nodes.columns.numbers("annotation", "score").tolist() == pytest.approx([want], nan_ok=True)
