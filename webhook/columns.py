"""Columns read from the labels and annotations of nodes, kept as nodes change. No I/O here."""

import math
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from webhook import kube

# Policies ask for a few; those of former policies make room.
MAX_COLUMNS = 32

Source = Literal["label", "annotation"]


class Codes:
    """A label's values as small integers by row: `codes[row]` indexes `values`, 0 is no such label."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._known: dict[str | None, int] = {None: 0}
        self.codes: npt.NDArray[np.int64] = np.zeros(64, np.int64)

    @property
    def values(self) -> list[str | None]:
        return list(self._known)

    def fit(self, rows: int) -> None:
        while rows > self.codes.size:
            self.codes = np.concatenate((self.codes, np.zeros_like(self.codes)))

    def set(self, row: int, node: kube.Node | None) -> None:
        self.fit(row + 1)
        value = _text(node, "label", self._label)
        self.codes[row] = self._known.setdefault(value, len(self._known))


class Numbers:
    """The number in a label or annotation by row; NaN where there is none, or a text that is no number."""

    def __init__(self, source: Source, key: str) -> None:
        self._source: Source = source
        self._key = key
        self.numbers: npt.NDArray[np.float64] = np.full(64, np.nan)

    def fit(self, rows: int) -> None:
        while rows > self.numbers.size:
            self.numbers = np.concatenate((self.numbers, np.full_like(self.numbers, np.nan)))

    def set(self, row: int, node: kube.Node | None) -> None:
        self.fit(row + 1)
        self.numbers[row] = _number(_text(node, self._source, self._key) or "")


_Column = TypeVar("_Column", Codes, Numbers)
_Key = TypeVar("_Key")


class Columns:
    """The columns that were asked for, over the nodes in `nodes`, one a row."""

    def __init__(self, nodes: list[kube.Node | None]) -> None:
        self._nodes = nodes
        self._codes: dict[str, Codes] = {}
        self._numbers: dict[tuple[Source, str], Numbers] = {}

    def set(self, row: int) -> None:
        """Take in that the node of a row is another than before."""
        node = self._nodes[row]
        for codes in self._codes.values():
            codes.set(row, node)
        for numbers in self._numbers.values():
            numbers.set(row, node)

    def codes(self, label: str) -> tuple[npt.NDArray[np.int64], list[str | None]]:
        """Return a label's code on every row, shape (rows,), and the values that the codes stand for."""
        rows = len(self._nodes)
        column = self._codes.get(label)
        # Hostnames come and go with their nodes: start afresh before the values that are gone prevail.
        if column is None or len(column.values) > 2 * rows + 64:
            _make_room(self._codes)
            column = self._codes[label] = self._filled(Codes(label))
        column.fit(rows)
        return column.codes[:rows], column.values

    def numbers(self, source: Source, key: str) -> npt.NDArray[np.float64]:
        """Return the number in a label or annotation of every row, shape (rows,); NaN where none."""
        rows = len(self._nodes)
        column = self._numbers.get((source, key))
        if column is None:
            _make_room(self._numbers)
            column = self._numbers[source, key] = self._filled(Numbers(source, key))
        column.fit(rows)
        return column.numbers[:rows]

    def _filled(self, column: _Column) -> _Column:
        for row, node in enumerate(self._nodes):
            column.set(row, node)
        return column


def _make_room(kept: dict[_Key, _Column]) -> None:
    if len(kept) == MAX_COLUMNS:
        del kept[next(iter(kept))]


def _text(node: kube.Node | None, source: Source, key: str) -> str | None:
    if node is None:
        return None
    texts = node.metadata.labels if source == "label" else node.metadata.annotations
    return (texts or {}).get(key)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) and "_" not in text else math.nan
