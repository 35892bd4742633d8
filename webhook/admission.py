"""One AdmissionReview to one answer: guard, decide, and the one barrier that never refuses. No I/O here.

Whatever goes wrong the Pod is allowed without a patch, and a reason says why. Only a body that is no
AdmissionReview is an error to the caller (`review.ReviewError`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from webhook import decision, filters, kube, load, patch, planner, quantity, review
from webhook.batch import Ask
from webhook.cluster import SHADOW, Cluster
from webhook.expectation import Expected
from webhook.ledger import Load
from webhook.patch import Operation
from webhook.policy import Policy
from webhook.reasons import Outcome, Reason

OWN_NAMESPACE = "trimtab-system"
SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})

MIRROR = "kubernetes.io/config.mirror"

_POD = kube.decoder(kube.Pod)
_NULL = b"null"


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back, and what the shell logs, counts and reserves of it."""

    body: bytes
    outcome: Outcome
    reason: Reason | None
    uid: str = ""
    namespace: str = ""
    name: str = ""
    dry_run: bool = False
    detail: str = ""
    plan: planner.Plan | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for a Pod: the verified patch, empty for none, and the plan that it carries."""

    outcome: Outcome
    reason: Reason | None
    patch: bytes = b""
    plan: planner.Plan | None = None
    load: Load | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time as a decision needs it: monotonic seconds; the wall clock, as text and in seconds."""

    now: float
    time: str
    wall: float = 0.0


def respond(body: bytes, cluster: Cluster, policy: Policy, clock: Clock, *, late: bool = False) -> Answer:
    """Answer one review; reserve the Pod's load where it is steered, outside dry-run.

    `late` says that the caller's deadline has passed: nothing is planned any more. Raise ReviewError
    for a body that is no AdmissionReview.
    """
    request = review.decode(body)
    detail = ""
    try:
        decided = _decide(request, cluster, policy, clock, late=late)
        if decided.outcome is Outcome.STEERED and decided.plan and decided.load and not request.dry_run:
            turn = cluster.turn(clock.wall)
            times = turn.replicas if turn else 1
            cluster.ledger.reserve(request.uid, decided.load, decided.plan.share, clock.now, times)
    except Exception as error:  # noqa: BLE001, the barrier: a Pod is admitted whatever goes wrong
        reason = Reason.PATCH_UNSAFE if isinstance(error, UnsafePatch) else Reason.ERROR
        decided = Decision(Outcome.FAILED, reason)
        detail = f"{type(error).__name__}: {error}"
    return Answer(
        review.allow(request.uid, decided.patch, _audit(decided)),
        decided.outcome,
        decided.reason,
        uid=request.uid,
        namespace=request.namespace or "",
        name=request.name or decided.name,
        dry_run=bool(request.dry_run),
        detail=detail,
        plan=decided.plan,
    )


class UnsafePatch(Exception):  # noqa: N818, it is a finding about our own patch, caught at the barrier
    """A patch that the API server would refuse the Pod for."""


def _audit(decided: Decision) -> Mapping[str, str] | None:
    """Return the audit annotations: only where something was decided, so that a second round agrees."""
    if not decided.patch:
        return None
    return {"outcome": decided.outcome.value, **({"reason": decided.reason.value} if decided.reason else {})}


def _decide(
    request: review.Request, cluster: Cluster, policy: Policy, clock: Clock, *, late: bool
) -> Decision:
    if reason := _not_asked(request, cluster):
        return Decision(Outcome.SKIPPED, reason)
    try:
        pod: kube.Pod = _POD.decode(request.object)
    except (msgspec.DecodeError, RecursionError):
        return Decision(Outcome.SKIPPED, Reason.UNREADABLE)
    decided = _decide_pod(request, pod, cluster, policy, clock, late=late)
    return replace(decided, name=pod.metadata.name or pod.metadata.generate_name or "")


def _decide_pod(
    request: review.Request,
    pod: kube.Pod,
    cluster: Cluster,
    policy: Policy,
    clock: Clock,
    *,
    late: bool,
) -> Decision:
    if MIRROR in (pod.metadata.annotations or {}):
        return Decision(Outcome.SKIPPED, Reason.MIRROR)
    if reason := _not_ours(pod, policy):
        return Decision(Outcome.SKIPPED, reason, _sealed(patch.clean(pod), pod))
    if decision.is_own_output(pod) and decision.is_recent(pod, clock.time):
        return _already_decided(pod)
    try:
        demand = filters.demand(pod, request.namespace)
        expected = cluster.expected(pod, request.namespace)
    except quantity.QuantityError:
        return Decision(Outcome.SKIPPED, Reason.BAD_QUANTITY)
    planned = _plan(pod, demand, expected.load, cluster, policy, clock, late=late)
    shadow = cluster.steering(request.namespace) == SHADOW
    return _record(request, pod, planned, cluster, policy, clock, shadow=shadow, expected=expected)


def _already_decided(pod: kube.Pod) -> Decision:
    """Leave our own output as it is; what somebody added under our prefix since then goes."""
    forged = patch.clean(pod, keep=decision.DECISION)
    return Decision(Outcome.SKIPPED, Reason.ALREADY_DECIDED, _sealed(forged, pod))


def _not_asked(request: review.Request, cluster: Cluster) -> Reason | None:
    """Reasons to do nothing that the request alone gives."""
    kind, namespace = request.kind, request.namespace or ""
    if (kind.group, kind.version, kind.kind) != ("", "v1", "Pod"):
        return Reason.WRONG_KIND
    if request.sub_resource:
        return Reason.SUBRESOURCE
    if request.operation != "CREATE":
        return Reason.WRONG_OPERATION
    if memoryview(request.object) == _NULL:
        return Reason.NO_OBJECT
    if namespace == OWN_NAMESPACE:
        return Reason.OWN_NAMESPACE
    if namespace in SYSTEM_NAMESPACES:
        return Reason.SYSTEM_NAMESPACE
    return None if cluster.steering(namespace) else Reason.NOT_ENABLED


def _not_ours(pod: kube.Pod, policy: Policy) -> Reason | None:
    """Reasons to leave a Pod alone that lie in its nature."""
    metadata, spec = pod.metadata, pod.spec
    if "true" in (
        (metadata.annotations or {}).get(decision.SKIP),
        (metadata.labels or {}).get(decision.SKIP),
    ):
        return Reason.OPTED_OUT
    if any(owner.controller and owner.kind == "DaemonSet" for owner in metadata.owner_references or ()):
        return Reason.DAEMONSET
    if spec.node_name:
        return Reason.NODE_NAME
    if (spec.scheduler_name or "default-scheduler") not in policy.scheduler_names:
        return Reason.FOREIGN_SCHEDULER
    if spec.scheduling_gates:
        return Reason.GATED
    return Reason.PINNED if _is_pinned(spec) else None


def _is_pinned(spec: kube.PodSpec) -> bool:
    """Tell whether only one node can ever be meant: preferences are useless there."""
    if kube.HOSTNAME in (spec.node_selector or {}):
        return True
    named = [_only_host(term) for term in kube.required_terms(spec) or ()]
    return bool(named) and None not in named and len(set(named)) == 1


def _only_host(term: kube.Term) -> tuple[str, str] | None:
    for requirement in (term.match_fields or []) + (term.match_expressions or []):
        if (
            requirement.key in ("metadata.name", kube.HOSTNAME)
            and requirement.operator == "In"
            and len(requirement.values or ()) == 1
        ):
            return requirement.key, (requirement.values or [""])[0]
    return None


def _plan(
    pod: kube.Pod,
    demand: filters.Demand,
    expected: Load,
    cluster: Cluster,
    policy: Policy,
    clock: Clock,
    *,
    late: bool,
) -> planner.Plan | Reason:
    if late:
        return Reason.DEADLINE
    if not cluster.synced:
        return Reason.CACHE_COLD
    ask = Ask(demand, tuple(kube.preferred_terms(pod.spec)), expected, policy.profile)
    turn = cluster.turn(clock.wall)
    return cluster.batches.plan(
        pod, ask, lambda each: view(demand, each, cluster, policy, clock), clock.now, turn
    )


def view(demand: filters.Demand, expected: Load, cluster: Cluster, policy: Policy, clock: Clock) -> load.View:
    """Return what a plan for a Pod of that demand and expected use sees of the nodes at `clock`."""
    cluster.ledger.expire(clock.now)
    return load.view(cluster.nodes, expected, clock.now, policy.stale_after_s, demand)


def _record(
    request: review.Request,
    pod: kube.Pod,
    planned: planner.Plan | Reason,
    cluster: Cluster,
    policy: Policy,
    clock: Clock,
    *,
    shadow: bool,
    expected: Expected,
) -> Decision:
    """Turn a plan, or the reason for none, into operations with the decision annotation."""
    plan, reason = (None, planned) if isinstance(planned, Reason) else (planned, None)
    outcome = Outcome.STEERED if plan else Outcome.SKIPPED
    terms = patch.terms(plan) if plan else []
    if plan and shadow:
        outcome, reason, terms = Outcome.SHADOW, Reason.SHADOW, []
    value = decision.make(
        uid=request.uid,
        outcome=outcome,
        reason=reason,
        policy=policy.name,
        policy_hash=policy.hash,
        time=clock.time,
        nodes=cluster.nodes.states(clock.now, policy.stale_after_s),
        plan=plan,
        expected=expected,
        terms=terms,
        replica=cluster.peers.own,
        full=policy.full_audit,
    )
    if not terms and decision.is_repeated(pod, value):
        return _already_decided(pod)
    operations = patch.inject(pod, terms) if terms else []
    annotation = patch.annotate(pod, value)
    operations += patch.clean(pod, keep=decision.DECISION if annotation else None) + annotation
    return Decision(outcome, reason, _sealed(operations, pod), plan, expected.load)


def _sealed(operations: list[Operation], pod: kube.Pod) -> bytes:
    """Encode and verify the operations; raise UnsafePatch for what the API server would refuse."""
    if not operations:
        return b""
    encoded = patch.encode(operations)
    if text := patch.problem(operations, encoded, pod):
        raise UnsafePatch(text)
    return encoded
