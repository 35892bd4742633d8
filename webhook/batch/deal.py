"""A deal: the places of a batch's Pods, filtered and scored once for all of them. No I/O here.

It says what each node is worth to the next Pod when it carries so many more. What it does carry, readings
and ledger say: so a Pod takes its place by being reserved, gives it back by being bound elsewhere or by never
appearing, and whatever else comes to the node takes the place too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from webhook import filters, kube, planner
from webhook.batch.limits import beside_others, limits, towards_others
from webhook.batch.places import LAST_TURN, deal_out
from webhook.ledger import Load
from webhook.load import View
from webhook.peers import Turn
from webhook.planner import Encoding, Plan, Profile
from webhook.reasons import Reason
from webhook.snapshot import CPU, EPHEMERAL, MEMORY, PODS, FloatArray, IntArray, Snapshot

MAX_PLACES = 512


@dataclass(frozen=True, slots=True)
class Ask:
    """Everything that planning reads of a Pod, and the profile: what Pods of one batch have alike."""

    demand: filters.Demand
    preferred: tuple[kube.PreferredTerm, ...]
    expected: Load
    profile: Profile


@dataclass(frozen=True, slots=True)
class Deal:
    """The places of a batch by node: `rows` are the nodes that it may name, best first.

    `worth` (levels, rows) is what a node is worth to a Pod that finds so many more on it than at the deal,
    `room` (rows,) how many it can take; below `least` a node that was left out may be better. Scoring passes
    were made for 0, 1, 3, 7 and so on more: `scores` (passes, rows) and each scorer's `parts`; `passes`
    (levels,) says which one comes before a level. `base` (2, rows) is what the nodes carried, `per_load` (2,)
    turns load into Pods, CPU and memory by what they do to the scores. `free` (resources, rows) is what may
    be requested beside a Pod of each resource in `columns` (resources,).
    """

    rows: IntArray
    worth: FloatArray
    least: float
    room: IntArray
    scores: FloatArray
    parts: dict[str, FloatArray]
    passes: IntArray
    base: FloatArray
    per_load: FloatArray
    columns: IntArray
    free: IntArray
    names: int
    encoding: Encoding
    demand: filters.Demand
    expected: Load
    limited: bool

    def next(self, nodes: Snapshot, turn: Turn | None) -> Plan | None:
        """Name the best open place first, the next ones behind it; None where the deal is used up."""
        rows, levels = self.rows, len(self.worth)
        more = self.per_load @ (_carried(nodes, rows) - self.base)
        if self.limited:
            more = np.rint(more)
        # On straight lines from level to level, and as far again beyond.
        low = np.minimum(np.maximum(more, 0.0), levels - 2).astype(np.int64)
        place = low * rows.size + np.arange(rows.size)
        here = self.worth.take(place)
        worth = here + (more - low) * (self.worth.take(place + rows.size) - here)
        requested = nodes.requested.take(rows, axis=1)[self.columns]
        fits = (requested <= self.free).all(axis=0) & (more < self.room)
        others = beside_others(self.demand, nodes)
        if others is not None:
            fits &= others[rows]
        worth = np.where(fits, worth, -np.inf)
        best = np.argsort(-worth, kind="stable")[: self.names]
        if not worth[best[0]] >= self.least or more[best[0]] >= 2 * levels:
            return None
        best = best[worth[best] > -np.inf]
        if turn is not None and not self.limited:
            best = best[planner.in_turn(rows[best], worth[best], self.expected, nodes, turn)]
        scored = self.passes[low[best]] * rows.size + best
        scores = self.scores.take(scored) if self.limited else worth[best]
        parts = {name: part.take(scored) for name, part in self.parts.items()}
        return planner.encode(rows[best], scores, parts, nodes, self.encoding)


def _carried(nodes: Snapshot, rows: IntArray) -> FloatArray:
    """Return what rows carry by readings and ledger, shape (2, rows)."""
    total: FloatArray = nodes.used.take(rows, axis=1)
    total += nodes.unseen.take(rows, axis=1)
    total += nodes.reserved.take(rows, axis=1)
    return total


def make(ask: Ask, nodes: Snapshot, view: Callable[[Load], View], pods: int) -> Deal | Reason:
    """Deal places for `pods` Pods; `view` is how the nodes look with a load placed on each."""
    found = planner.survey(ask.demand, ask.preferred, nodes, view(ask.expected), ask.profile)
    if isinstance(found, Reason):
        return found
    rows, scores, names = found.rows, found.scores, found.names
    pods, limited = min(pods, MAX_PLACES), towards_others(ask.demand)
    # A Pod in flight holds a part of every node that it names, so there are more nodes than Pods. Within
    # limits any node may be the best of its domain.
    kept = rows.size if limited else pods + 3 * names
    rows, scores = planner.top(rows, scores, kept + 1)
    left_out = scores[kept] if rows.size > kept else -np.inf
    rows, scores = rows[:kept], scores[:kept]
    parts, totals = [{name: part[rows] for name, part in found.seen.parts.items()}], [scores]

    def score_with(load: Load) -> dict[str, FloatArray]:
        seen = replace(view(load), candidates=found.seen.candidates)
        return {name: part[rows] for name, part in planner.score(seen, ask.profile).items()}

    def score(level: int) -> FloatArray:
        if level:
            parts.append(score_with(_times(ask.expected, level + 1)))
            totals.append(planner.total_score(parts[-1], ask.profile))
        return totals[-1]

    columns, amounts = _requested(ask.demand.requests, nodes)
    free = nodes.allocatable.take(rows, axis=1)[columns] - amounts
    room = ((free - nodes.requested.take(rows, axis=1)[columns]) // amounts).min(axis=0) + 1
    places = deal_out(pods, room, score, limits(ask.demand, nodes, rows) if limited else ())
    more_cpu = score_with(replace(ask.expected, cpu_milli=2 * ask.expected.cpu_milli))
    share = _shares(totals[0], planner.total_score(more_cpu, ask.profile), totals[1])
    load = np.array([ask.expected.cpu_milli, ask.expected.memory_bytes], np.float64)
    return Deal(
        rows=rows,
        worth=places.worth,
        least=LAST_TURN if limited else left_out,
        room=room,
        scores=np.array(totals),
        parts={name: np.array([part[name] for part in parts]) for name in parts[0]},
        # Scored were 0, 1, 3, 7 Pods more, and so on.
        passes=np.log2(np.arange(len(places.worth)) + 1).astype(np.int64),
        base=_carried(nodes, rows),
        per_load=np.divide(share, load, out=np.zeros_like(load), where=load > 0),
        columns=columns,
        free=free,
        names=names,
        encoding=found.encoding,
        demand=ask.demand,
        expected=ask.expected,
        limited=limited,
    )


def _shares(now: FloatArray, more_cpu: FloatArray, more_of_both: FloatArray) -> FloatArray:
    """Return how much of what a Pod takes from the scores is its CPU's doing, and its memory's, of 1."""
    parts = np.array([np.nansum(np.abs(more_cpu - now)), np.nansum(np.abs(more_of_both - more_cpu))])
    total = parts.sum()
    shares: FloatArray = parts / total if total > 0 else np.array([0.5, 0.5])
    return shares


def _requested(requests: kube.Requests, nodes: Snapshot) -> tuple[IntArray, IntArray]:
    """Return the columns of the resources that a Pod needs, and how much of each, (resources, 1)."""
    named = [
        (CPU, requests.cpu_milli),
        (MEMORY, requests.memory_bytes),
        (EPHEMERAL, requests.ephemeral_bytes),
        (PODS, 1),
        *((nodes.resources[name], value) for name, value in requests.extended),
    ]
    needed = np.array([(column, value) for column, value in named if value > 0], np.int64)
    return needed[:, 0], needed[:, 1:]


def _times(load: Load, pods: int) -> Load:
    return replace(load, cpu_milli=load.cpu_milli * pods, memory_bytes=load.memory_bytes * pods)
