"""Deal places for many like Pods at once: how good each node is for the next one, and the one after it.

No I/O here. Greedy: each Pod goes where it scores highest, those before it placed. A node's scores for its
first, second, third Pod form a column; the greedy choice meets all columns in the order of their running
minima, whether scores fall with every Pod (utilization) or rise (packing).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from webhook.batch.limits import Limit
from webhook.snapshot import FloatArray, IntArray

# So many Pods on one node in one deal: further on, the next deal knows better.
MAX_LEVELS = 32

# Dealing domain by domain is slower than all at once; the rest comes with the next deal.
MAX_LIMITED = 64

# What a place is worth that was dealt within limits: more than any score, so that only its turn counts.
FIRST_TURN = 1_000.0
LAST_TURN = FIRST_TURN - MAX_LIMITED

_LEAST = np.finfo(np.float64).min


@dataclass(frozen=True, slots=True)
class Places:
    """The places dealt: (level, row) each, the level being how many Pods of the batch the row has before.

    `worth` (levels, rows) says how good a place is: by falling worth the places are to be taken. `counts`
    (rows,) is how many each row was dealt.
    """

    worth: FloatArray
    counts: IntArray


def deal_out(
    wanted: int, room: IntArray, score: Callable[[int], FloatArray], limits: Sequence[Limit] = ()
) -> Places:
    """Deal up to `wanted` places over rows that have `room` (rows,) for so many Pods each.

    `score(level)` gives every row's score with `level` Pods of the batch on it and the next one placed. It is
    asked for levels 0, 1, 3, 7 and so on, until one is beyond the deal.
    """
    wanted = min(wanted, MAX_LIMITED) if limits else wanted
    scores = score(0)[np.newaxis]
    lowest = _lowest(scores, room)
    # What is below the edge now stays below it: more levels only raise the edge.
    pool, edge = _best(lowest[0], wanted)
    while len(scores) < MAX_LEVELS and (lowest[-1] >= max(edge, _LEAST)).any():
        # Twice as many with every pass, on straight lines in between: exact where scorers are linear.
        known = len(scores)
        last = scores[-1]
        rise = (score(2 * known - 1) - last) / known
        scores = np.concatenate((scores, last + rise * np.arange(1, known + 1)[:, np.newaxis]))
        lowest = _lowest(scores, room)
        pool, edge = _best(np.concatenate((pool, lowest[known:].ravel())), wanted)
    if limits:
        return _limited(limits, scores, lowest, wanted)
    return Places(scores, _counts(lowest, max(edge, _LEAST), wanted))


def _lowest(scores: FloatArray, room: IntArray) -> FloatArray:
    """Return the running minima of each column, minus infinity where there is no room."""
    levels = np.arange(len(scores))[:, np.newaxis]
    lowest: FloatArray = np.minimum.accumulate(
        np.where((levels < room) & np.isfinite(scores), scores, -np.inf)
    )
    return lowest


def _counts(lowest: FloatArray, edge: float, wanted: int) -> IntArray:
    """Return how many of the `wanted` best places each column has; of equal ones the first column's."""
    by_column = lowest.T.ravel()
    good = np.flatnonzero(by_column >= edge)
    taken = good[np.argsort(-by_column[good], kind="stable")[:wanted]]
    return np.bincount(taken // len(lowest), minlength=lowest.shape[1])


def _best(pool: FloatArray, wanted: int) -> tuple[FloatArray, float]:
    """Return the `wanted` best of the scores, and the last of them; all and no edge where there are fewer."""
    if wanted >= pool.size:
        return pool, -np.inf
    pool = np.partition(pool, pool.size - wanted)[pool.size - wanted :]
    return pool, float(pool[0])


def _limited(limits: Sequence[Limit], scores: FloatArray, lowest: FloatArray, wanted: int) -> Places:
    """Deal one place after the other, each the best one that its domains may still take.

    A place dealt is worth more than any score, by its turn.
    """
    worth = scores.copy()
    heads = lowest[0].copy()
    counts = np.zeros(heads.size, np.int64)
    held = [limit.held.copy() for limit in limits]
    for turn in range(wanted):
        allowed = [limit.allows(count) for limit, count in zip(limits, held, strict=True)]
        open_heads = np.where(np.logical_and.reduce(allowed), heads, -np.inf)
        row = int(open_heads.argmax())
        if open_heads[row] == -np.inf:
            break
        worth[counts[row], row] = FIRST_TURN - turn
        counts[row] += 1
        heads[row] = lowest[counts[row], row] if counts[row] < len(lowest) else -np.inf
        for limit, count in zip(limits, held, strict=True):
            if limit.domain[row] >= 0:
                count[limit.domain[row]] += 1
    return Places(worth, counts)
