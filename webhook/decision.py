"""The audit annotation: what was decided for a Pod, and how to know it again. No I/O here."""

import hashlib
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from webhook import kube, wishes
from webhook.expectation import EXPECTED, Expected
from webhook.planner import MAX_TERMS, Plan
from webhook.reasons import Outcome, Reason
from webhook.snapshot import FloatArray

PREFIX = "trimtab.dev/"
DECISION = PREFIX + "decision"
SKIP = PREFIX + "skip"

# Annotations that a Pod's author may set; every other key under the prefix is an output.
INPUTS = frozenset({SKIP, *EXPECTED.values(), wishes.NEAR, wishes.FAR, wishes.ACCELERATOR})

MAX_BYTES = 2048
_MAX_UID = 64
_FIRST_NAMES = 8
# Longer than the API server takes for one request, second pass included.
_SECOND_PASS = timedelta(seconds=60)
_LAST_TERMS = 2 * MAX_TERMS


class Use(Struct, frozen=True, omit_defaults=True):
    """What the Pod was expected to use, as quantities, and where from; `ignored` names bad annotations.

    `source` is one word, or two where CPU and memory come from different places.
    """

    cpu: str
    memory: str
    source: str = msgspec.field(name="from")
    ignored: list[str] = []


class Decision(Struct, frozen=True, omit_defaults=True):
    """The JSON object in the annotation.

    `id` is the review's uid; `names` holds the first names as [hostname, tier from 1, weight];
    `digest` is that of the injected terms; `nodes` counts the nodes by the state of their reading;
    `expected` is what the Pod was taken to use; `replica` names the process that decided.
    With audit verbosity `full` only, `scores` holds the total scores of `names`, and `parts` what each
    scorer gave them, null where it has nothing to say.
    """

    id: str
    outcome: str
    policy: str
    hash: str
    time: str
    nodes: dict[str, int]
    reason: str | None = None
    expected: Use | None = None
    names: list[tuple[str, int, int]] = []
    digest: str | None = None
    replica: str = ""
    scores: list[float] = []
    parts: dict[str, list[float | None]] = {}


_DECODER = msgspec.json.Decoder(Decision)


def make(
    *,
    uid: str,
    outcome: Outcome,
    reason: Reason | None,
    policy: str,
    policy_hash: str,
    time: str,
    nodes: dict[str, int],
    plan: Plan | None,
    expected: Expected,
    terms: Sequence[dict[str, Any]],
    replica: str = "",
    full: bool,
) -> str:
    """Return the annotation's value, within 2 KiB: names fall away from the end where it would pass that."""
    named = [
        (name, number, tier.weight)
        for number, tier in enumerate(plan.tiers if plan else (), start=1)
        for name in tier.hostnames[:_FIRST_NAMES]
    ][:_FIRST_NAMES]
    scored = plan if full else None
    whole = Decision(
        id=uid[:_MAX_UID],
        outcome=outcome,
        reason=reason,
        policy=policy,
        hash=policy_hash,
        time=time,
        nodes=nodes,
        expected=_use(expected),
        names=named,
        digest=digest(terms) if terms else None,
        replica=replica,
        scores=_rounded(scored.scores) if scored else [],
        parts={name: _rounded(part) for name, part in scored.parts.items()} if scored else {},
    )
    for shown in range(len(named), -1, -1):
        text = msgspec.json.encode(_cut(whole, shown))
        if len(text) <= MAX_BYTES:
            return text.decode()
    raise ValueError("policy: its name is too long for the decision annotation")


def _cut(whole: Decision, shown: int) -> Decision:
    if shown == len(whole.names):
        return whole
    parts = {name: part[:shown] for name, part in whole.parts.items()}
    return msgspec.structs.replace(whole, names=whole.names[:shown], scores=whole.scores[:shown], parts=parts)


def _use(expected: Expected) -> Use:
    milli, size = round(expected.load.cpu_milli), round(expected.load.memory_bytes)
    cpu, memory = expected.sources
    return Use(
        cpu=f"{milli}m" if milli % 1000 else f"{milli // 1000}",
        memory=f"{round(size / 2**20)}Mi" if size >= 2**20 else f"{size}",
        source=cpu if cpu == memory else f"{cpu}, {memory}",
        ignored=list(expected.ignored),
    )


def _rounded(scores: FloatArray) -> list[Any]:
    return [round(score, 2) if math.isfinite(score) else None for score in scores[:_FIRST_NAMES].tolist()]


def digest(terms: Sequence[Any]) -> str:
    """Return a short digest of preferred terms, the same for our own dicts and for what we read back."""
    return hashlib.sha256(msgspec.json.encode(terms, order="sorted")).hexdigest()[:16]


def is_own_output(pod: kube.Pod) -> bool:
    """Tell whether the Pod carries terms that its decision annotation says were injected.

    The uid differs in each call, so what we made is known by its content.
    """
    known = read(pod)
    if known is None or not known.digest:
        return False
    # Another webhook may have added terms before or behind ours, but not a crowd of them.
    terms = kube.preferred_terms(pod.spec)[-_LAST_TERMS:]
    return any(
        digest(terms[start:end]) == known.digest
        for end in range(len(terms), 0, -1)
        for start in range(max(0, end - MAX_TERMS), end)
    )


def is_recent(pod: kube.Pod, time: str) -> bool:
    """Tell whether the Pod's decision was made about now, as it was if this is its second pass.

    One that is older came along with a copy of the Pod, say from a backup.
    """
    known = read(pod)
    try:
        age = datetime.fromisoformat(time) - datetime.fromisoformat(known.time if known else "")
    except (ValueError, TypeError):
        return False
    return abs(age) < _SECOND_PASS


def is_repeated(pod: kube.Pod, value: str) -> bool:
    """Tell whether `value` says again what the Pod's annotation says, but for who said it and when."""
    known = read(pod)
    if known is None:
        return False
    new = _DECODER.decode(value)
    return msgspec.structs.replace(new, id=known.id, time=known.time, replica=known.replica) == known


def read(pod: kube.Pod) -> Decision | None:
    """Return the Pod's decision, or None where it carries none that can be read."""
    text = (pod.metadata.annotations or {}).get(DECISION)
    if not text or len(text) > MAX_BYTES:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
