"""Why the nodes rank as they do for a Pod: what was answered, and what was known of every node. No I/O here.

This is the structure that every view of a decision shows. The answer is that of `admission.respond`; the
nodes' data come from the filters, the view and the scorers that it reads.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from webhook import admission, filters, kube, patch, planner, quantity, review, snapshot
from webhook.admission import Answer, Clock
from webhook.cluster import Cluster
from webhook.explain.refusals import refusals
from webhook.ledger import Load
from webhook.policy import Policy
from webhook.reasons import Outcome, Reason
from webhook.snapshot import FloatArray, IntArray, Mask, Snapshot

State = Literal["fresh", "stale", "missing", "invalid", "virtual"]

# Decimals of scores and fractions: beyond these is the dust of floats.
_DECIMALS = 6


class Usage(Struct, frozen=True):
    """A reading: its state, and the measured share of allocatable; null where there is no fresh one."""

    state: State
    value: float | None


class Reserved(Struct, frozen=True):
    """What the ledger holds on a node, beyond what readings show: cores, and bytes."""

    cpu: float
    memory: float


class Node(Struct, frozen=True):
    """What was known of one node; a score is 0 to 100 with the Pod on it, null where neutral."""

    name: str
    feasible: bool
    reasons: list[str]
    scores: dict[str, float | None]
    score: float | None
    usage: dict[str, Usage]
    reserved: Reserved


class Term(Struct, frozen=True):
    """A preferred term of the plan, and the nodes that it matches, best first."""

    weight: int
    nodes: list[str]


class Plan(Struct, frozen=True):
    terms: list[Term] = []
    spread: list[dict[str, Any]] = []
    priority_class: str | None = None


class Explanation(Struct, frozen=True):
    """The whole of it. `nodes` are in descending order of score, and none where the Pod cannot be read."""

    nodes: list[Node]
    outcome: Outcome
    reason: str | None
    plan: Plan
    patch: list[dict[str, Any]]


def make_review(pod: bytes, namespace: str) -> bytes:
    """Return the AdmissionReview, a dry run, that the API server would send for the Pod in `pod`."""
    request = {
        "uid": "explain",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {},
        "object": msgspec.Raw(pod),
        "oldObject": None,
        "dryRun": True,
    }
    return msgspec.json.encode({"apiVersion": review.API_VERSION, "kind": review.KIND, "request": request})


def explain(answer: Answer, pod: kube.Pod, cluster: Cluster, policy: Policy, clock: Clock) -> Explanation:
    """Explain `answer`, which was given for `pod` at `clock` and reserved nothing."""
    nodes, seen, found = cluster.nodes, None, []
    asked = None if answer.reason is Reason.ERROR else _asked(pod, answer.namespace, cluster)
    if asked is not None:
        demand, expected = asked
        preferred = kube.preferred_terms(pod.spec)
        # Terms that stop a plan are not matched in one.
        preferred = preferred if planner.room(demand, preferred, cluster.nodes) else []
        view = admission.view(demand, expected, cluster, policy, clock)
        seen = planner.consider(demand, preferred, nodes, view, policy.profile)
        found = _nodes(seen, refusals(demand, nodes), nodes, clock.now, policy.stale_after_s)
    return Explanation(
        nodes=found,
        outcome=answer.outcome,
        reason=answer.reason and answer.reason.value,
        plan=_plan(answer.plan, seen.total, nodes) if answer.plan and seen else Plan(),
        patch=_operations(answer.body),
    )


def _asked(pod: kube.Pod, namespace: str, cluster: Cluster) -> tuple[filters.Demand, Load] | None:
    try:
        return filters.demand(pod, namespace), cluster.expected(pod, namespace).load
    except quantity.QuantityError:
        return None


def _nodes(
    seen: planner.Considered,
    refused: Mapping[int, list[str]],
    nodes: Snapshot,
    now: float,
    stale_after: float,
) -> list[Node]:
    states = _states(nodes, now, stale_after)
    held = nodes.reserved + nodes.unseen
    found = []
    for row in _best_first(np.flatnonzero(nodes.exists[: nodes.size]), seen.total, seen.feasible):
        used = nodes.used[:, row] / nodes.capacity[:, row]
        measured = (states[:, row] == "fresh") & (nodes.void[:, row] == 0)
        found.append(
            Node(
                name=nodes.names[row],
                feasible=bool(seen.feasible[row]),
                reasons=refused.get(row, []),
                scores={name: _number(part[row]) for name, part in seen.parts.items()},
                score=_number(seen.total[row]),
                usage={
                    resource: Usage(states[index, row], _number(used[index]) if measured[index] else None)
                    for index, resource in enumerate((kube.CPU, kube.MEMORY))
                },
                reserved=Reserved(round(float(held[0, row]) / 1000, _DECIMALS), float(round(held[1, row]))),
            )
        )
    return found


def _best_first(rows: IntArray, total: FloatArray, feasible: Mask) -> list[int]:
    """Sort rows by score, highest first; of equal scores the feasible, then in the order of rows."""
    scores = np.nan_to_num(total[rows], nan=-1.0)
    order: list[int] = rows[np.lexsort((rows, ~feasible[rows], -scores))].tolist()
    return order


def _states(nodes: Snapshot, now: float, stale_after: float) -> npt.NDArray[np.object_]:
    """Return the state of each node's readings, of shape (2, size): CPU, memory."""
    names = np.array([state.name.lower() for state in snapshot.State], np.object_)
    found: npt.NDArray[np.object_] = names[nodes.state_codes(np.arange(nodes.size), now, stale_after)]
    return found


def _plan(plan: planner.Plan, total: FloatArray, nodes: Snapshot) -> Plan:
    terms = msgspec.convert(patch.terms(plan), list[kube.PreferredTerm])
    return Plan([Term(term.weight, _named(term, total, nodes)) for term in terms])


def _named(term: kube.PreferredTerm, total: FloatArray, nodes: Snapshot) -> list[str]:
    matched = filters.match(term.preference, nodes)
    return [nodes.names[row] for row in _best_first(np.flatnonzero(matched), total, matched)]


def _operations(answer: bytes) -> list[dict[str, Any]]:
    encoded = json.loads(answer)["response"].get("patch")
    operations: list[dict[str, Any]] = json.loads(b64decode(encoded)) if encoded else []
    return operations


def _number(value: float) -> float | None:
    return round(float(value), _DECIMALS) if np.isfinite(value) else None
