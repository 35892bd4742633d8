"""Hard topology spread constraints (podtopologyspread/filtering.go). No I/O here."""

import numpy as np

from webhook.filters.demand import Demand, SpreadConstraint
from webhook.filters.nodes import node_affinity, taint_toleration
from webhook.snapshot import IntArray, Mask, Snapshot


def pod_topology_spread(demand: Demand, nodes: Snapshot) -> Mask | None:
    """Nodes that have all the topology keys and where no constraint's skew gets too large.

    The skew is what a domain then has more of the matching Pods than the one with fewest.
    """
    if not demand.spread:
        return None
    labelled = np.ones(nodes.size, np.bool_)
    for constraint in demand.spread:
        labelled &= nodes.domains(constraint.topology_key).of >= 0
    mask = labelled.copy()
    for constraint in demand.spread if labelled.any() else ():
        mask &= _skew(constraint, demand, nodes, labelled) <= constraint.max_skew
    return mask


def _skew(constraint: SpreadConstraint, demand: Demand, nodes: Snapshot, labelled: Mask) -> IntArray:
    """Return the skew by row with the Pod there; only nodes of the constraint's policies count."""
    counted = labelled & included(constraint, demand, nodes)
    domains = nodes.domains(constraint.topology_key)
    of = domains.of[counted]
    present = np.bincount(of, minlength=domains.count) > 0
    matching = np.bincount(of, matching_pods(constraint, demand, nodes)[counted], minlength=domains.count)
    enough = present.any() and int(present.sum()) >= constraint.min_domains
    fewest = int(matching[present].min()) if enough else 0
    itself = constraint.selector is not None and constraint.selector.matches(demand.labels)
    skew: IntArray = matching.astype(np.int64)[domains.of] + itself - fewest
    return skew


def included(constraint: SpreadConstraint, demand: Demand, nodes: Snapshot) -> Mask:
    """Nodes whose Pods count, by the constraint's inclusion policies."""
    mask = np.ones(nodes.size, np.bool_)
    for honored, check in (
        (constraint.honors_affinity, node_affinity),
        (constraint.honors_taints, taint_toleration),
    ):
        if honored and (passed := check(demand, nodes)) is not None:
            mask &= passed
    return mask


def matching_pods(constraint: SpreadConstraint, demand: Demand, nodes: Snapshot) -> IntArray:
    """Count by row the Pods of the namespace that are selected and not terminating.

    An empty selector counts none (podtopologyspread/common.go: countPodsMatchSelector).
    """
    counts = np.zeros(nodes.size, np.int64)
    selector = constraint.selector
    if selector is None or not selector.requirements:
        return counts
    for group in nodes.pods.select((demand.namespace,), selector):
        if not group.shape.terminating:
            counts[np.fromiter(group.rows, np.int64)] += np.fromiter(group.rows.values(), np.int64)
    return counts
