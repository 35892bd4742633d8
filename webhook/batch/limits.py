"""What like Pods do to one another, and other Pods to them: limits on dealing out places. No I/O here."""

from dataclasses import dataclass

import numpy as np

from webhook.filters.demand import Demand
from webhook.filters.podaffinity import inter_pod_affinity
from webhook.filters.ports import node_ports
from webhook.filters.spread import included, matching_pods, pod_topology_spread
from webhook.snapshot import IntArray, Mask, Snapshot

_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Limit:
    """How many Pods of a batch the domains of one topology key may take.

    `domain` (rows,) is each row's domain, -1 where there is no limit; `held` (domains,) counts the matching
    Pods there now. A domain takes at most `skew` more than the one that holds least, and `most` in all.
    """

    domain: IntArray
    held: IntArray
    skew: int = _NEVER
    most: int = _NEVER

    def allows(self, held: IntArray) -> Mask:
        """Rows that may take one more, with so many in the domains."""
        most = min(self.most, int(held.min(initial=_NEVER)) + self.skew)
        mask: Mask = (self.domain < 0) | (np.append(held, 0)[self.domain] < most)
        return mask


def stand_alone(demand: Demand) -> bool:
    """Tell whether each such Pod is to be planned alone: where the first one goes decides for the next."""
    return bool(demand.affinity or demand.claims)


def towards_others(demand: Demand) -> bool:
    """Tell whether such a Pod asks anything of the Pods around it."""
    return bool(demand.ports or demand.anti_affinity or demand.spread)


def limits(demand: Demand, nodes: Snapshot, rows: IntArray) -> list[Limit]:
    """Return what limits Pods like this one on `rows`, where each of them could go."""
    found = [_by_node(rows)] if demand.ports else []
    for term in demand.anti_affinity:
        home = nodes.namespaces.get(demand.namespace, {})
        if term.selects(demand.labels) and term.covers(demand.namespace, home):
            domains = nodes.domains(term.topology_key)
            found.append(Limit(domains.of[rows], np.zeros(domains.count, np.int64), most=1))
    for constraint in demand.spread:
        if constraint.selector is None or not constraint.selector.matches(demand.labels):
            continue
        domains = nodes.domains(constraint.topology_key)
        counted = (domains.of >= 0) & included(constraint, demand, nodes)
        of = domains.of[counted]
        present = np.bincount(of, minlength=domains.count) > 0
        pods = np.bincount(of, matching_pods(constraint, demand, nodes)[counted], minlength=domains.count)
        held = np.where(present, pods, _NEVER).astype(np.int64)
        few = int(present.sum()) < constraint.min_domains
        found.append(
            Limit(domains.of[rows], held, most=constraint.max_skew)
            if few
            else Limit(domains.of[rows], held, skew=constraint.max_skew)
        )
    return found


def beside_others(demand: Demand, nodes: Snapshot) -> Mask | None:
    """Rows where the Pods bound by now let such a Pod go, None for all."""
    masks = [check(demand, nodes) for check in (node_ports, pod_topology_spread, inter_pod_affinity)]
    known = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(known) if known else None


def _by_node(rows: IntArray) -> Limit:
    return Limit(np.arange(rows.size), np.zeros(rows.size, np.int64), most=1)
