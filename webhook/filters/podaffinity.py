"""Required Pod affinity and anti-affinity (interpodaffinity/filtering.go). No I/O here."""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain

import numpy as np

from webhook.filters.demand import Demand
from webhook.pods import AffinityTerm, Group
from webhook.snapshot import Mask, Snapshot


def inter_pod_affinity(demand: Demand, nodes: Snapshot) -> Mask | None:
    """Nodes near the Pods that all affinity terms match, and far from those that anti-affinity is about.

    The anti-affinity is the Pod's own, and that of bound Pods against it.
    """
    mask = _near(demand, nodes) if demand.affinity else None
    for key, groups in _avoided(demand, nodes).items():
        if key in nodes.label_index:
            far = ~nodes.domains(key).holding(_rows(groups))
            mask = far if mask is None else mask & far
    return mask


def _near(demand: Demand, nodes: Snapshot) -> Mask:
    """Nodes that have, for every term, a Pod in the term's domain; a Pod counts that matches all terms.

    Where there is none at all, a Pod that matches its own terms may be the first, on any node that has
    all the labels.
    """
    rows = list(_rows(_matching_all(demand.affinity, nodes)))
    mask = np.ones(nodes.size, np.bool_)
    labelled = np.ones(nodes.size, np.bool_)
    found = False
    for key in {term.topology_key for term in demand.affinity}:
        domains = nodes.domains(key)
        near = domains.holding(rows)
        found = found or bool(near.any())
        mask &= near
        labelled &= domains.of >= 0
    first = not found and all(
        _means(term, demand.namespace, nodes) and term.selects(demand.labels) for term in demand.affinity
    )
    return labelled if first else mask


def _avoided(demand: Demand, nodes: Snapshot) -> dict[str, list[Group]]:
    """Return, by topology key, the Pods whose domains are closed to the Pod."""
    found: dict[str, list[Group]] = {}
    home = nodes.namespaces.get(demand.namespace, {})
    for key, group in nodes.pods.keeping_away(demand.namespace, home, demand.labels):
        found.setdefault(key, []).append(group)
    for term in demand.anti_affinity:
        found.setdefault(term.topology_key, []).extend(_matching(term, nodes))
    return found


def _matching_all(terms: Sequence[AffinityTerm], nodes: Snapshot) -> list[Group]:
    groups = _matching(terms[0], nodes)
    for term in terms[1:]:
        namespaces = _namespaces(term, nodes)
        groups = [
            group for group in groups if group.shape.namespace in namespaces and term.selects(group.labels)
        ]
    return groups


def _matching(term: AffinityTerm, nodes: Snapshot) -> list[Group]:
    return [] if term.selector is None else nodes.pods.select(_namespaces(term, nodes), term.selector)


def _namespaces(term: AffinityTerm, nodes: Snapshot) -> Collection[str]:
    """Return the namespaces that a term of the incoming Pod means."""
    if term.namespace_selector is None:
        return term.namespaces
    return {name for name in nodes.pods.namespaces if _means(term, name, nodes)}


def _means(term: AffinityTerm, namespace: str, nodes: Snapshot) -> bool:
    """Tell whether a term of the incoming Pod means a namespace.

    The scheduler adds the names that the selector finds, and then still holds the selector against no
    labels at all: one that matches these means every namespace (interpodaffinity/plugin.go:
    mergeAffinityTermNamespacesIfNotEmpty changes a copy).
    """
    labels = nodes.namespaces.get(namespace)
    return term.covers(namespace, {}) or (labels is not None and term.covers(namespace, labels))


def _rows(groups: Iterable[Group]) -> Iterable[int]:
    return chain.from_iterable(group.rows for group in groups)
