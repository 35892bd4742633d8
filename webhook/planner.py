"""Which nodes to name for a Pod: score, rank, and cut into tiers of falling weight. No I/O here.

kube-scheduler's NodeAffinity score is the sum of the matched weights over the largest such sum among
the nodes it scores, and it scores only a sample of the feasible ones. So the plan names enough nodes
that the sample holds several good ones, in few tiers that are steep at the top.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from webhook import filters, kube
from webhook.ledger import Load, Share
from webhook.load import View
from webhook.peers import Turn
from webhook.reasons import Reason
from webhook.scorers import Scorer
from webhook.snapshot import FloatArray, IntArray, Mask, Snapshot
from webhook.thresholds import OFF, Thresholds

MAX_WEIGHT = 100
MAX_TERMS = 20
MAX_NAMES = 121

# A Pod may carry thousands of terms and expressions; all others wait while they are matched.
MAX_USER_TERMS = 100

# What a Pod asks of others is held against each shape of bound Pods. One Pod for each of 100,000 shapes,
# with five requirements, may still ask; it takes about a tenth of a second.
MAX_COMPARISONS = 500_000

# Below this spread of scores over the candidates, in points of 100, there is nothing to prefer.
EQUAL_WITHIN = 0.01

# How many named nodes the scheduler's sample should hold. Its samples are neighbours in a rotation, not
# drawn by chance: of fewer names, all could lie outside.
GOOD_IN_SAMPLE = 30

# Each tier's weight is this share of the one before it.
FALL = 0.6

# Other score plugins outvote us now and then, so even a first name is not booked as certain.
FOLLOWED = 0.95


@dataclass(frozen=True, slots=True)
class Weighted:
    """A scorer of the policy and its weight in the mean."""

    name: str
    scorer: Scorer
    weight: float


@dataclass(frozen=True, slots=True)
class Profile:
    """How to plan: the scorers, the strength of the preference, the scheduler's sample.

    `strength` is how far apart the best name and an unnamed node end up, as a share of the NodeAffinity
    score; `percentage_of_nodes_to_score` is the scheduler's own setting, 0 for its default.
    """

    scorers: tuple[Weighted, ...]
    strength: float = 1.0
    percentage_of_nodes_to_score: int = 0
    thresholds: Thresholds = OFF


@dataclass(frozen=True, slots=True)
class Considered:
    """What is known of every row, each of shape (size,).

    `feasible` could take the Pod, `candidates` may be named, `over` could be but for a threshold; `parts`
    are what each scorer gives and `total` is their weighted mean (NaN: nothing to say).
    """

    feasible: Mask
    candidates: Mask
    over: Mask
    parts: Mapping[str, FloatArray]
    total: FloatArray


@dataclass(frozen=True, slots=True)
class Encoding:
    """What the tiers depend on beside the number of names.

    `sampled` is the chance that the scheduler scores a feasible node, `ceiling` the largest weight that
    stays below the user's own, `strength` how far apart the names may be.
    """

    sampled: float
    ceiling: int
    strength: float


@dataclass(frozen=True, slots=True)
class Survey:
    """Candidates that have a score: `rows` and their `scores`, and how to name some of them."""

    seen: Considered
    rows: IntArray
    scores: FloatArray
    encoding: Encoding

    @property
    def names(self) -> int:
        """How many of them to name."""
        return names_wanted(self.rows.size, self.encoding.sampled)


@dataclass(frozen=True, slots=True)
class Ladder:
    """Tiers without names: their sizes and weights, the baseline's weight, and each name's chance."""

    sizes: tuple[int, ...]
    weights: tuple[int, ...]
    baseline: int
    chances: FloatArray


@dataclass(frozen=True, slots=True)
class Tier:
    weight: int
    hostnames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to inject, and what the ledger has to know of it.

    `baseline` is the weight of a term that every node matches, 0 for none; `share` says where the Pod
    may go; `scores` are the total scores of the named nodes in the order of the names, and `parts` what
    each scorer gave them (NaN: nothing to say).
    """

    tiers: tuple[Tier, ...]
    baseline: int
    share: Share
    scores: FloatArray
    parts: Mapping[str, FloatArray]

    @property
    def hostnames(self) -> list[str]:
        return [name for tier in self.tiers for name in tier.hostnames]


def plan(
    pod: filters.Demand,
    preferred: Sequence[kube.PreferredTerm],
    nodes: Snapshot,
    view: View,
    profile: Profile,
    turn: Turn | None = None,
) -> Plan | Reason:
    """Choose the nodes to name, or say why none is named.

    `preferred` are the user's own terms: they decide first, so only nodes that they value most are
    named, and the weights stay below the smallest difference that they make. `turn` is given where other
    replicas plan at the same time.
    """
    found = survey(pod, preferred, nodes, view, profile)
    if isinstance(found, Reason):
        return found
    best, ranked = top(found.rows, found.scores, found.names)
    if turn is not None:
        order = in_turn(best, ranked, view.expected, nodes, turn)
        best, ranked = best[order], ranked[order]
    parts = {name: part[best] for name, part in found.seen.parts.items()}
    return encode(best, ranked, parts, nodes, found.encoding)


def survey(
    pod: filters.Demand,
    preferred: Sequence[kube.PreferredTerm],
    nodes: Snapshot,
    view: View,
    profile: Profile,
) -> Survey | Reason:
    """Find the candidates and their scores, or say why none is to be named."""
    ceiling = room(pod, preferred, nodes)
    if ceiling == 0:
        return Reason.USER_TERMS
    seen = consider(pod, preferred, nodes, view, profile)
    usable = np.isfinite(seen.total)
    usable &= seen.candidates
    rows = usable.nonzero()[0]
    if rows.size == 0:
        full = seen.over.any() and not seen.candidates.any()
        return Reason.OVER_THRESHOLDS if full else Reason.NO_CANDIDATES
    scores = seen.total[rows]
    if rows.size > 1 and scores.max() - scores.min() < EQUAL_WITHIN:
        return Reason.EQUAL_SCORES
    sampled = sampled_share(
        nodes.count, int(np.count_nonzero(seen.feasible)), profile.percentage_of_nodes_to_score
    )
    return Survey(seen, rows, scores, Encoding(sampled, ceiling, 1.0 if preferred else profile.strength))


def encode(
    rows: IntArray,
    scores: FloatArray,
    parts: Mapping[str, FloatArray],
    nodes: Snapshot,
    encoding: Encoding,
) -> Plan:
    """Cut ranked rows, best first, into tiers; `scores` and `parts` are those of the rows."""
    steps = ladder(rows.size, encoding)
    rows = rows[: steps.chances.size]
    return Plan(
        tiers=_tiers(rows, steps.sizes, steps.weights, nodes),
        baseline=steps.baseline,
        share=Share(rows, steps.chances),
        scores=scores[: rows.size],
        parts={name: part[: rows.size] for name, part in parts.items()},
    )


@lru_cache(maxsize=128)
def ladder(names: int, encoding: Encoding) -> Ladder:
    """Return the tiers for so many names, and what a name in each is worth."""
    sizes = tier_sizes(names)
    weights, baseline = tier_weights(len(sizes), encoding.ceiling, encoding.strength)
    # Where there is little room below the user's terms, the last tiers have no weight left.
    sizes = sizes[: len(weights)]
    taken = chances(sizes, encoding.sampled)
    taken.flags.writeable = False
    return Ladder(tuple(sizes), tuple(weights), baseline, taken)


def room(pod: filters.Demand, preferred: Sequence[kube.PreferredTerm], nodes: Snapshot) -> int:
    """Return the largest weight that the user's own terms leave to others; 0 where none is to be added."""
    if _size(pod.required or ()) + _size([term.preference for term in preferred]) > MAX_USER_TERMS:
        return 0
    if pod.asked > filters.MAX_POD_REQUIREMENTS or pod.asked * nodes.pods.shapes > MAX_COMPARISONS:
        return 0
    if any(_names_hosts(term.preference) for term in preferred):
        return 0
    return room_below(term.weight for term in preferred)


def consider(
    pod: filters.Demand,
    preferred: Sequence[kube.PreferredTerm],
    nodes: Snapshot,
    view: View,
    profile: Profile,
) -> Considered:
    """Filter and score every row: what a plan is made of."""
    feasible = filters.feasible(pod, nodes)
    candidates = _candidates(pod, preferred, nodes, feasible)
    over = candidates & profile.thresholds.over(view)
    candidates = candidates & ~over
    view = replace(view, candidates=candidates)
    parts = score(view, profile)
    return Considered(feasible, candidates, over, parts, total_score(parts, profile))


def score(view: View, profile: Profile) -> dict[str, FloatArray]:
    """Return what each scorer gives every row."""
    return {entry.name: entry.scorer.score(view) for entry in profile.scorers}


def total_score(parts: Mapping[str, FloatArray], profile: Profile) -> FloatArray:
    """Return the weighted mean of the scores for every row; NaN where no scorer has anything to say."""
    total = np.zeros(len(next(iter(parts.values()))))
    for entry in profile.scorers:
        total += entry.weight * parts[entry.name]
    # One NaN among all of them shows in the sum.
    unsure = () if math.isfinite(total.sum()) else np.flatnonzero(np.isnan(total))
    total /= sum(entry.weight for entry in profile.scorers)
    if len(unsure):
        total[unsure] = _mean_of_known({name: part[unsure] for name, part in parts.items()}, profile)
    return total


def _mean_of_known(parts: Mapping[str, FloatArray], profile: Profile) -> FloatArray:
    total, weights = np.zeros((2, len(next(iter(parts.values())))))
    for entry in profile.scorers:
        score = parts[entry.name]
        known = ~np.isnan(score)
        if known.all():
            total += entry.weight * score
            weights += entry.weight
        elif known.any():
            total += np.where(known, entry.weight * score, 0.0)
            weights += entry.weight * known
    return np.divide(total, weights, out=np.full_like(weights, np.nan), where=weights > 0)


def sampled_share(nodes: int, feasible: int, percentage: int) -> float:
    """Return the chance that a feasible node is among those that the scheduler scores.

    It stops at `numFeasibleNodesToFind` (pkg/scheduler/schedule_one.go): all below 100 nodes, else
    50 % less one for every 125 nodes, at least 5 %, at least 100 nodes.
    """
    if nodes < 100 or percentage >= 100 or feasible == 0:
        return 1.0
    percent = percentage or max(5, 50 - nodes // 125)
    return min(1.0, max(100, nodes * percent // 100) / feasible)


def names_wanted(candidates: int, sampled: float) -> int:
    """Return how many nodes to name: enough for the sample, and never the worse half."""
    wanted = math.ceil(GOOD_IN_SAMPLE / sampled)
    return max(1, min(wanted, MAX_NAMES, (candidates + 1) // 2))


def tier_sizes(names: int) -> list[int]:
    """Cut `names` ranked nodes into tiers of 1, 3, 9, 27 and so on: few terms, steep at the top."""
    sizes: list[int] = []
    size = 1
    while names > 0:
        sizes.append(min(size, names))
        names -= size
        size *= 3
    return sizes


def tier_weights(tiers: int, ceiling: int, strength: float) -> tuple[list[int], int]:
    """Return the tiers' weights, strictly falling and at least 1, and the baseline's.

    With a baseline B that every node has, the scheduler normalizes to 100 (B + w) / (B + w_max): the
    best name stays `strength` x 100 above a node without a name for B = w_max (1 - s) / s.
    """
    top = min(MAX_WEIGHT, ceiling)
    baseline = 0
    if strength < 1.0:
        ratio = (1.0 - strength) / strength
        top = max(1, min(top, int(MAX_WEIGHT / ratio)))
        baseline = max(1, min(MAX_WEIGHT, round(top * ratio)))
    weights: list[int] = []
    for tier in range(tiers):
        weight = round(top * FALL**tier)
        if weights:
            weight = min(weight, weights[-1] - 1)
        if weight < 1:
            break
        weights.append(weight)
    return weights, baseline


def chances(sizes: Sequence[int], sampled: float) -> FloatArray:
    """Return, name by name, the chance that a scheduler which has it in its sample takes it.

    It takes the first tier that has a name in the sample, and within the tier each name alike. Booking
    for the sample that holds a name keeps the next Pods, which see the same sample, from herding on it.
    """
    seen = FOLLOWED * sampled
    left = 1.0
    result: list[float] = []
    for size in sizes:
        missed = (1.0 - seen) ** size
        result += [left * (1.0 - missed) / size] * size
        left *= missed
    # A part of a tier is no likelier than the whole of it: none comes to more than FOLLOWED.
    return np.asarray(result) / sampled


def room_below(weights: Iterable[int]) -> int:
    """Return the largest weight that stays below every difference the user's own weights can make.

    A node collects the sum of the terms it matches, so the differences are those between subset sums.
    0 where there is no room, or where a weight is one that the API server will refuse.
    """
    sums = 1
    for weight in weights:
        if not 1 <= weight <= MAX_WEIGHT:
            return 0
        sums |= sums << weight
    gap, last = MAX_WEIGHT + 1, 0
    for value in range(1, sums.bit_length()):
        if sums >> value & 1:
            gap, last = min(gap, value - last), value
    return gap - 1


def _candidates(
    pod: filters.Demand, preferred: Sequence[kube.PreferredTerm], nodes: Snapshot, feasible: Mask
) -> Mask:
    mask = feasible & nodes.nameable[: nodes.size]
    if (outvoted := filters.prefers_to_avoid(pod, nodes)) is not None:
        mask = _narrow(mask, outvoted)
    if preferred:
        value = np.zeros(nodes.size, np.int64)
        for term in preferred:
            value += term.weight * filters.match(term.preference, nodes)
        if mask.any():
            mask = mask & (value == value[mask].max())
    return mask


def _narrow(mask: Mask, outvoted: Mask) -> Mask:
    """Leave the outvoted nodes out, unless there are no others."""
    kept = mask & ~outvoted
    return kept if kept.any() else mask


def _size(terms: Sequence[kube.Term]) -> int:
    """Count what has to be matched: the terms, or their expressions where these are more."""
    return sum(max(1, len(term.match_expressions or ()) + len(term.match_fields or ())) for term in terms)


def _names_hosts(term: kube.Term) -> bool:
    return bool(term.match_fields) or any(
        requirement.key == kube.HOSTNAME for requirement in term.match_expressions or ()
    )


def top(rows: IntArray, scores: FloatArray, wanted: int) -> tuple[IntArray, FloatArray]:
    """Return the `wanted` best rows, best first; equal scores in the order of rows."""
    if wanted < rows.size:
        # Cut by value, not by position: what argpartition does with ties is not defined.
        edge = np.partition(scores, rows.size - wanted)[rows.size - wanted]
        keep = np.flatnonzero(scores >= edge)
        rows, scores = rows[keep], scores[keep]
    order = np.lexsort((rows, -scores))[:wanted]
    return rows[order], scores[order]


def in_turn(rows: IntArray, scores: FloatArray, expected: Load, nodes: Snapshot, turn: Turn) -> IntArray:
    """Order ranked rows anew: those of this replica's turn first, while they are good enough.

    They are as long as they score no less than the best row would, had each of the others put a Pod like this
    one on it: lower by about the share of the node that the Pods take.
    """
    wanted = np.array((expected.cpu_milli, expected.memory_bytes))
    taken = 100.0 * (turn.replicas - 1) * float((wanted / nodes.capacity[:, rows[0]]).min())
    first = turn.mine([nodes.names[row] for row in rows.tolist()]) & (scores >= scores[0] - taken)
    return np.concatenate((np.flatnonzero(first), np.flatnonzero(~first)))


def _tiers(rows: IntArray, sizes: Sequence[int], weights: Sequence[int], nodes: Snapshot) -> tuple[Tier, ...]:
    names = [nodes.hostnames[row] or "" for row in rows.tolist()]
    tiers, start = [], 0
    for size, weight in zip(sizes, weights, strict=True):
        tiers.append(Tier(weight, tuple(names[start : start + size])))
        start += size
    return tuple(tiers)
