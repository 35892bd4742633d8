"""Views for tests of scorers: any fields, with statistics, numbers and Pods given instead of worked out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.builders import decode_node, make_node
from webhook import kube, selectors
from webhook.filters import Demand
from webhook.history import Statistic
from webhook.ledger import Load
from webhook.load import View, view
from webhook.snapshot import FloatArray, IntArray, Snapshot

NOW = 1_000.0
STALE_AFTER = 180.0
NO_REQUESTS = kube.Requests(0, 0, 0, (), 0, 0)
Fractions = npt.ArrayLike


@dataclass(frozen=True, eq=False)
class Given(View):
    """A view whose statistics are given by kind, and whose peers by row."""

    statistics: Mapping[str, Fractions] = field(default_factory=dict)
    peers: Sequence[int] = ()

    def statistic(self, wanted: Statistic) -> FloatArray:
        known = self.statistics.get(wanted.kind)
        column = np.full((2, self.size), np.nan) if known is None else np.array(known, np.float64)
        column[~self.fresh] = np.nan
        return column

    def matching(self, _selector: selectors.Selector) -> IntArray:
        return np.asarray(self.peers or np.zeros(self.size), np.int64)


def make_view(
    used: Fractions | None = None,
    requested: Fractions | None = None,
    *,
    nodes: Sequence[Mapping[str, Any]] | Snapshot = (),
    fresh: npt.ArrayLike = True,
    statistics: Mapping[str, Fractions] | None = None,
    series: Mapping[str, Sequence[float]] | None = None,
    peers: Sequence[int] = (),
    pod: tuple[float, float] = (0.0, 0.0),
    **demand: Any,
) -> View:
    """Return a view over nodes of 1 CPU and 1 kB, unless `nodes` says otherwise.

    `used` and `requested`, the Pod included, are rows of fractions for CPU and memory; `pod` is its
    expected use in milli-CPU and bytes, `demand` what else it asks.
    """
    fractions = np.zeros((2, 1)) if used is None else np.asarray(used, np.float64)
    if isinstance(nodes, Snapshot):
        snapshot = nodes
    else:
        snapshot = Snapshot(capacity=2)
        for number, fields in enumerate(nodes or [{}] * fractions.shape[1]):
            snapshot.set_node(decode_node(make_node(f"n{number}", **{"cpu": "1", "memory": "1k", **fields})))
    if used is None:
        fractions = np.zeros((2, snapshot.size))
    for name, numbers in (series or {}).items():
        for row, value in enumerate(numbers):
            snapshot.set_series(name, row, value, NOW)
    return Given(
        used=fractions,
        unseen=view(snapshot, Load(*pod), NOW, STALE_AFTER).unseen,
        requested=fractions if requested is None else np.asarray(requested, np.float64),
        fresh=np.broadcast_to(np.asarray(fresh, np.bool_), fractions.shape),
        nodes=snapshot,
        demand=Demand(**{"requests": NO_REQUESTS, **demand}),
        expected=Load(*pod),
        now=NOW,
        stale_after=STALE_AFTER,
        statistics=statistics or {},
        peers=peers,
    )
