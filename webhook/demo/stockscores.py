"""The score plugins of the stock kube-scheduler (1.36), in the integer arithmetic of their Go sources.

No I/O here. Each function goes from what a Pod asks and the scored rows to the plugin's normalized
scores, 0 to 100, without its weight. The files named are below pkg/scheduler/framework/plugins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from webhook import filters, kube
from webhook.snapshot import CPU, MEMORY, FloatArray, IntArray, Mask, Snapshot

MAX_SCORE = 100


@dataclass(frozen=True, slots=True)
class Spread:
    """One ScheduleAnyway constraint.

    `domain` numbers the values of its topology key by row, -1 where a node lacks the label; `per_node`
    says that the key is the hostname, whose domains are the nodes themselves; `matching` counts by row
    the Pods that the selector matches, 0 on rows that the constraint's inclusion policies leave out.
    """

    domain: IntArray
    per_node: bool
    max_skew: int
    matching: IntArray


def taint_toleration(demand: filters.Demand, nodes: Snapshot, rows: IntArray) -> IntArray:
    """Score few untolerated PreferNoSchedule taints high (tainttoleration/taint_toleration.go)."""
    counts = np.fromiter(
        (
            sum(
                taint[2] == "PreferNoSchedule" and not filters.tolerates(demand.tolerations, taint)
                for taint in taints
            )
            for taints in nodes.taint_sets
        ),
        np.int64,
    )
    return _normalized(counts[nodes.taint_set[rows]], reverse=True)


def node_affinity(preferred: Sequence[kube.PreferredTerm], nodes: Snapshot, rows: IntArray) -> IntArray:
    """Score by the sum of the weights of the matched terms (nodeaffinity/node_affinity.go)."""
    matched = np.zeros(nodes.size, np.int64)
    for term in preferred:
        matched += term.weight * filters.match(term.preference, nodes)
    return _normalized(matched[rows], reverse=False)


def least_allocated(requests: kube.Requests, nodes: Snapshot, rows: IntArray) -> IntArray:
    """Score by the share of CPU and memory left unrequested (noderesources/least_allocated.go).

    Counted with the scoring defaults; a resource that a node does not have is left out of its mean.
    """
    total = np.zeros(rows.size, np.int64)
    counted = np.zeros(rows.size, np.int64)
    for column, wanted in ((CPU, requests.score_cpu_milli), (MEMORY, requests.score_memory_bytes)):
        capacity = nodes.allocatable[column, rows]
        free = capacity - nodes.scored[column, rows] - wanted
        total += np.where(free > 0, free, 0) * MAX_SCORE // np.maximum(capacity, 1)
        counted += capacity > 0
    return total // np.maximum(counted, 1)


def balanced_allocation(requests: kube.Requests, nodes: Snapshot, rows: IntArray) -> IntArray:
    """Score by how much the Pod would even out CPU and memory (noderesources/balanced_allocation.go).

    Each state scores 50 to 100, and the result is 75 where the Pod changes nothing. A Pod that requests
    neither resource is not scored.
    """
    wanted = np.array([[requests.cpu_milli], [requests.memory_bytes]], np.int64)
    if not wanted.any():
        return np.zeros(rows.size, np.int64)
    capacity, before = nodes.allocatable[:2, rows], nodes.requested[:2, rows]
    gain = _balance(before + wanted, capacity) - _balance(before, capacity)
    return MAX_SCORE // 2 + (MAX_SCORE // 2 + gain) // 2


def _balance(requested: IntArray, capacity: IntArray) -> IntArray:
    fraction = np.minimum(requested / np.maximum(capacity, 1), 1.0)
    both = (capacity > 0).all(axis=0)
    deviation = np.where(both, np.abs((fraction[0] - fraction[1]) / 2), 0.0)
    scores: IntArray = ((1 - deviation) * MAX_SCORE).astype(np.int64)
    return scores


def topology_spread(spreads: Sequence[Spread], rows: IntArray, *, require_all: bool = False) -> IntArray:
    """Score few matching Pods in a node's domains high (podtopologyspread/scoring.go).

    `require_all` holds for constraints of the Pod's own: a node without one of the labels scores 0 and
    its Pods do not count.
    """
    if not spreads:
        return np.zeros(rows.size, np.int64)
    known = np.ones(spreads[0].domain.size, np.bool_)
    if require_all:
        for spread in spreads:
            known &= spread.domain >= 0
    scored = known[rows]
    if not scored.any():
        return np.zeros(rows.size, np.int64)
    raw = np.zeros(rows.size)
    for spread in spreads:
        raw += np.where(spread.domain[rows] >= 0, _crowding(spread, rows, known), 0.0)
    # Go's math.Round takes halves away from zero; nothing here is negative.
    score = np.floor(raw + 0.5).astype(np.int64)
    highest, lowest = int(score[scored].max()), int(score[scored].min())
    if highest == 0:
        return np.where(scored, MAX_SCORE, 0)
    return np.where(scored, MAX_SCORE * (highest + lowest - score) // highest, 0)


def _crowding(spread: Spread, rows: IntArray, known: Mask) -> FloatArray:
    """Return the matching Pods in each row's domain, weighted by how many domains there are."""
    scored = rows[known[rows]]
    if spread.per_node:
        size, count = scored.size, spread.matching[rows]
    else:
        # Rows without the label make one more domain, as the empty value does in the source.
        size = np.unique(spread.domain[scored]).size
        count = np.bincount(spread.domain + 1, spread.matching * known)[spread.domain[rows] + 1]
    weighted: FloatArray = count * np.log(size + 2.0) + (spread.max_skew - 1)
    return weighted


def _normalized(counts: IntArray, *, reverse: bool) -> IntArray:
    """Scale to 0..100 by the largest (helper/normalize_score.go: DefaultNormalizeScore)."""
    highest = int(counts.max(initial=0))
    if highest == 0:
        return np.full(counts.size, MAX_SCORE if reverse else 0, np.int64)
    scaled = MAX_SCORE * counts // highest
    return MAX_SCORE - scaled if reverse else scaled
