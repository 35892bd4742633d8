"""What a node itself decides: its taints, labels and room. No I/O here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from webhook import kube
from webhook.filters.demand import Demand
from webhook.snapshot import Mask, Snapshot, Taints

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
# The effects that keep a Pod off a node.
REPELLING = ("NoSchedule", "NoExecute")


def node_unschedulable(demand: Demand, nodes: Snapshot) -> Mask | None:
    tolerated = tolerates(demand.tolerations, (UNSCHEDULABLE_TAINT, "", "NoSchedule"))
    return None if tolerated else ~nodes.unschedulable[: nodes.size]


def node_ready(_demand: Demand, nodes: Snapshot) -> Mask:
    """Nodes that are Ready. The scheduler leaves this to a taint, which follows a little later."""
    return nodes.ready[: nodes.size]


def taint_toleration(demand: Demand, nodes: Snapshot) -> Mask | None:
    return _by_taints(nodes, lambda taints: untolerated(demand, taints, REPELLING))


def prefers_to_avoid(demand: Demand, nodes: Snapshot) -> Mask | None:
    """Nodes with a PreferNoSchedule taint that the Pod does not tolerate: allowed, but outvoted."""
    welcome = _by_taints(nodes, lambda taints: untolerated(demand, taints, ("PreferNoSchedule",)))
    return None if welcome is None else ~welcome


def node_affinity(demand: Demand, nodes: Snapshot) -> Mask | None:
    """Nodes that match the nodeSelector and any one of the required terms."""
    if not demand.node_selector and demand.required is None:
        return None
    mask = np.ones(nodes.size, np.bool_)
    for key, value in demand.node_selector.items():
        mask &= mask_of(nodes, nodes.label_index.get(key, {}).get(value, ()))
    if demand.required is not None:
        mask &= match_any(demand.required, nodes)
    return mask


def node_resources_fit(demand: Demand, nodes: Snapshot) -> Mask:
    """Nodes with room for the requests beside what is bound (noderesources/fit.go: fitsRequest)."""
    size = nodes.size
    allocatable, requested = nodes.allocatable[:, :size], nodes.requested[:, :size]
    fits: list[Mask] = []
    for resource, value in wanted(demand.requests):
        column = nodes.resources.get(resource)
        if column is None:
            return np.zeros(size, np.bool_)
        fits.append(requested[column] + value <= allocatable[column])
    mask = fits[0]
    for each in fits[1:]:
        mask &= each
    return mask


def wanted(requests: kube.Requests) -> list[tuple[str, int]]:
    """Return what has to fit, by resource, in its base unit: a Pod's place, and each amount above zero."""
    amounts = [
        (kube.CPU, requests.cpu_milli),
        (kube.MEMORY, requests.memory_bytes),
        (kube.EPHEMERAL, requests.ephemeral_bytes),
        *requests.extended,
    ]
    return [(kube.PODS, 1), *((resource, value) for resource, value in amounts if value > 0)]


def tolerates(tolerations: Iterable[kube.Toleration], taint: tuple[str, str, str]) -> bool:
    """Tell whether any toleration covers the taint (api/core/v1: Toleration.ToleratesTaint)."""
    key, value, effect = taint
    return any(
        (not toleration.effect or toleration.effect == effect)
        and (not toleration.key or toleration.key == key)
        and _covers(toleration, value)
        for toleration in tolerations
    )


def _covers(toleration: kube.Toleration, value: str) -> bool:
    if toleration.operator == "Exists":
        return True
    return toleration.operator in (None, "", "Equal") and (toleration.value or "") == value


def untolerated(demand: Demand, taints: Taints, effects: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Return the taints of these effects, as (key, value, effect), that the Pod does not tolerate."""
    return [taint for taint in taints if taint[2] in effects and not tolerates(demand.tolerations, taint)]


def _by_taints(nodes: Snapshot, refused: Callable[[Taints], object]) -> Mask | None:
    """Decide once for every distinct set of taints, then look the verdict up; None where none is refused."""
    verdicts = [not refused(taints) for taints in nodes.taint_sets]
    return None if all(verdicts) else np.array(verdicts)[nodes.taint_set[: nodes.size]]


def match_any(terms: Sequence[kube.Term], nodes: Snapshot) -> Mask:
    """Rows that match at least one term. An empty term matches none; neither does an empty list."""
    mask = np.zeros(nodes.size, np.bool_)
    for term in terms:
        mask |= match(term, nodes)
    return mask


def match(term: kube.Term, nodes: Snapshot) -> Mask:
    """Rows that match every expression and field of one term (component-helpers/nodeaffinity)."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return np.zeros(nodes.size, np.bool_)
    mask = nodes.exists[: nodes.size].copy()
    for requirement in expressions:
        mask &= _match_labels(requirement, nodes)
    for requirement in fields:
        mask &= _match_name(requirement, nodes)
    return mask


def _match_labels(requirement: kube.Requirement, nodes: Snapshot) -> Mask:
    by_value = nodes.label_index.get(requirement.key, {})
    values = requirement.values or []
    match requirement.operator:
        case "In" if values:
            return _union(nodes, (by_value.get(value, ()) for value in values))
        case "NotIn" if values:
            return ~_union(nodes, (by_value.get(value, ()) for value in values))
        case "Exists" if not values:
            return _union(nodes, by_value.values())
        case "DoesNotExist" if not values:
            return ~_union(nodes, by_value.values())
        case "Gt" | "Lt":
            return _union(nodes, _compared(requirement.operator, values, by_value))
        case _:
            return np.zeros(nodes.size, np.bool_)


def _compared(operator: str, values: Sequence[str], by_value: Mapping[str, set[int]]) -> list[set[int]]:
    bound = _integer(values[0]) if len(values) == 1 else None
    if bound is None:
        return []
    found = ((_integer(text), rows) for text, rows in by_value.items())
    return [
        rows
        for number, rows in found
        if number is not None and (number > bound if operator == "Gt" else number < bound)
    ]


def _integer(text: str) -> int | None:
    """Parse as Go's strconv.ParseInt does: no spaces, no underscores, 64 bits."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    size = digits.lstrip("0")[:20]  # 20 digits are too many, however many more follow
    number = int(size or "0") * (-1 if text[0] == "-" else 1)
    return number if -(2**63) <= number < 2**63 else None


def _match_name(requirement: kube.Requirement, nodes: Snapshot) -> Mask:
    values = requirement.values or []
    if requirement.key != "metadata.name" or len(values) != 1:
        return np.zeros(nodes.size, np.bool_)
    row = nodes.row(values[0])
    mask = mask_of(nodes, () if row is None else (row,))
    match requirement.operator:
        case "In":
            return mask
        case "NotIn":
            return ~mask
        case _:
            return np.zeros(nodes.size, np.bool_)


def _union(nodes: Snapshot, groups: Iterable[Iterable[int]]) -> Mask:
    return mask_of(nodes, chain.from_iterable(groups))


def mask_of(nodes: Snapshot, rows: Iterable[int]) -> Mask:
    mask = np.zeros(nodes.size, np.bool_)
    mask[np.fromiter(rows, np.int64)] = True
    return mask
