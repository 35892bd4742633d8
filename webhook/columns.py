"""Numbers in labels and annotations of nodes, in columns kept as nodes change. No I/O here."""

import math
from typing import Literal

import numpy as np
import numpy.typing as npt

from webhook import kube

# Policies ask for a few; those of former policies make room.
MAX_COLUMNS = 32

Source = Literal["label", "annotation"]


class Columns:
    """The columns that were asked for, over the nodes in `nodes`, one a row."""

    def __init__(self, nodes: list[kube.Node | None]) -> None:
        self._nodes = nodes
        self._kept: dict[tuple[Source, str], npt.NDArray[np.float64]] = {}

    def set(self, row: int) -> None:
        """Take in that the node of a row is another than before."""
        for source, key in self._kept:
            self._fitting(source, key)[row] = _number(self._nodes[row], source, key)

    def numbers(self, source: Source, key: str) -> npt.NDArray[np.float64]:
        """Return the number of every row, shape (rows,); NaN where there is none, or the text is none."""
        if (source, key) not in self._kept:
            if len(self._kept) == MAX_COLUMNS:
                del self._kept[next(iter(self._kept))]
            self._kept[source, key] = np.array([_number(node, source, key) for node in self._nodes])
        return self._fitting(source, key)[: len(self._nodes)]

    def _fitting(self, source: Source, key: str) -> npt.NDArray[np.float64]:
        """Return a column that is as long as there are rows; a row without a node has no number."""
        column = self._kept[source, key]
        missing = len(self._nodes) - column.size
        if missing > 0:
            column = np.concatenate((column, np.full(missing + column.size, np.nan)))
            self._kept[source, key] = column
        return column


def _number(node: kube.Node | None, source: Source, key: str) -> float:
    if node is None:
        return math.nan
    texts = node.metadata.labels if source == "label" else node.metadata.annotations
    text = (texts or {}).get(key, "")
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) and "_" not in text else math.nan
