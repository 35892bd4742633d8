"""Why a node could not take a Pod, in words: one text for each thing that would have to change. No I/O here.

Each text begins with the name of the scheduler plugin that would refuse. A predicate without words of
its own still gets a line, so that every node that a filter excludes says by which.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from webhook import filters, kube
from webhook.filters import Demand, Predicate
from webhook.snapshot import Mask, Snapshot

Found = Iterator[tuple[int, str]]


def refusals(demand: Demand, nodes: Snapshot) -> dict[int, list[str]]:
    """Return the texts by row, for every node that some filter excludes."""
    found: dict[int, list[str]] = {}
    for name, check in filters.FILTERS.items():
        refused = nodes.exists[: nodes.size] & _against(check, demand, nodes)
        if not refused.any():
            continue
        plugin, explain = TEXTS.get(name, (name, None))
        told = _told(explain, demand, nodes) if explain else {}
        for row in _rows(refused):
            texts = told.get(row, ["would refuse the Pod"])
            found.setdefault(row, []).extend(f"{plugin}: {text}" for text in texts)
    return found


def _against(check: Predicate, demand: Demand, nodes: Snapshot) -> Mask:
    """Rows that a predicate refuses."""
    passed = check(demand, nodes)
    return np.zeros(nodes.size, np.bool_) if passed is None else ~passed


def _told(
    explain: Callable[[Demand, Snapshot], Found], demand: Demand, nodes: Snapshot
) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for row, text in explain(demand, nodes):
        found.setdefault(row, []).append(text)
    return found


def _rows(mask: Mask) -> list[int]:
    rows: list[int] = np.flatnonzero(mask).tolist()
    return rows


def _unschedulable(_demand: Demand, nodes: Snapshot) -> Found:
    return ((row, "node is cordoned") for row in _rows(nodes.unschedulable[: nodes.size]))


def _not_ready(_demand: Demand, nodes: Snapshot) -> Found:
    return ((row, "node is not Ready") for row in _rows(~nodes.ready[: nodes.size]))


def _taints(demand: Demand, nodes: Snapshot) -> Found:
    for taints, number in nodes.taint_sets.items():
        repelling = sorted(filters.untolerated(demand, taints, filters.REPELLING))
        for row in _rows(nodes.taint_set[: nodes.size] == number) if repelling else ():
            for key, value, effect in repelling:
                yield row, f"taint {key}{'=' if value else ''}{value}:{effect} is not tolerated"


def _affinity(demand: Demand, nodes: Snapshot) -> Found:
    for key, value in demand.node_selector.items():
        for row in range(nodes.size):
            label = nodes.labels(row).get(key)
            if label != value:
                found = "the node has no such label" if label is None else f"the node has {label}"
                yield row, f"does not match nodeSelector {key}={value}: {found}"
    if demand.required is not None:
        yield from _required(demand.required, nodes)


def _required(terms: tuple[kube.Term, ...], nodes: Snapshot) -> Found:
    parts = _parts(terms[0]) if len(terms) == 1 else []
    if not parts:
        text = f"matches none of the {len(terms)} required terms"
        yield from ((row, text) for row in _rows(~filters.match_any(terms, nodes)))
    for text, part in parts:
        yield from ((row, f"does not match {text}") for row in _rows(~filters.match(part, nodes)))


def _parts(term: kube.Term) -> list[tuple[str, kube.Term]]:
    """Return each requirement of a term as a text and as a term of its own."""
    expressions: Iterable[kube.Requirement] = term.match_expressions or ()
    fields: Iterable[kube.Requirement] = term.match_fields or ()
    return [(_said(part), kube.Term(match_expressions=[part])) for part in expressions] + [
        (_said(part), kube.Term(match_fields=[part])) for part in fields
    ]


def _said(part: kube.Requirement) -> str:
    values = f" ({', '.join(part.values)})" if part.values else ""
    return f"required {part.key} {part.operator}{values}"


def _fit(demand: Demand, nodes: Snapshot) -> Found:
    for resource, value in filters.wanted(demand.requests):
        column = nodes.resources.get(resource)
        for row in range(nodes.size):
            has = 0 if column is None else int(nodes.allocatable[column, row])
            free = has - (0 if column is None else int(nodes.requested[column, row]))
            if value > free:
                yield row, f"{resource}: {_short(resource, value, free, has)}"


def _short(resource: str, value: int, free: int, has: int) -> str:
    if resource == kube.PODS:
        return f"all {has} places are taken" if has else "the node takes none"
    asked, left, whole = (kube.amount_text(resource, amount) for amount in (value, max(free, 0), has))
    return f"asks for {asked}, {left} of {whole} is free" if has else f"asks for {asked}, the node has none"


# What follows asks the predicate itself about each part of the demand alone.


def _ports(demand: Demand, nodes: Snapshot) -> Found:
    for port in sorted(demand.ports):
        alone = replace(demand, ports=frozenset((port,)))
        for row in _rows(_against(filters.FILTERS["NodePorts"], alone, nodes)):
            yield row, f"host port {port[2]}/{port[1]} is taken"


def _volumes(name: str, text: str) -> Callable[[Demand, Snapshot], Found]:
    def told(demand: Demand, nodes: Snapshot) -> Found:
        for claim in demand.claims:
            alone = replace(demand, claims=(claim,))
            for row in _rows(_against(filters.FILTERS[name], alone, nodes)):
                yield row, f"the volume of claim {claim} {text}"

    return told


def _spread(demand: Demand, nodes: Snapshot) -> Found:
    for constraint in demand.spread:
        key, alone = constraint.topology_key, replace(demand, spread=(constraint,))
        for row in _rows(_against(filters.FILTERS["PodTopologySpread"], alone, nodes)):
            said = key in nodes.labels(row)
            yield (
                row,
                f"{key}: "
                + (
                    f"one more would pass maxSkew {constraint.max_skew}"
                    if said
                    else "the node has no such label"
                ),
            )


def _pod_affinity(demand: Demand, nodes: Snapshot) -> Found:
    check = filters.FILTERS["InterPodAffinity"]
    bare = replace(demand, affinity=(), anti_affinity=())
    kept_away = _against(check, bare, nodes)
    yield from ((row, "the anti-affinity of a Pod there keeps this Pod away") for row in _rows(kept_away))
    near = _against(check, replace(bare, affinity=demand.affinity), nodes) & ~kept_away
    keys = ", ".join(dict.fromkeys(term.topology_key for term in demand.affinity))
    yield from ((row, f"no Pod that its affinity asks for is in the same {keys}") for row in _rows(near))
    for term in demand.anti_affinity:
        apart = _against(check, replace(bare, anti_affinity=(term,)), nodes) & ~kept_away
        text = f"a Pod that its anti-affinity avoids is in the same {term.topology_key}"
        yield from ((row, text) for row in _rows(apart))


# By the name in FILTERS: the scheduler plugin that would refuse, and the words.
TEXTS: Mapping[str, tuple[str, Callable[[Demand, Snapshot], Found]]] = {
    "NodeUnschedulable": ("NodeUnschedulable", _unschedulable),
    # The scheduler refuses by the taint that the node lifecycle controller sets a little later.
    "NodeReady": ("TaintToleration", _not_ready),
    "TaintToleration": ("TaintToleration", _taints),
    "NodeAffinity": ("NodeAffinity", _affinity),
    "NodePorts": ("NodePorts", _ports),
    "NodeResourcesFit": ("NodeResourcesFit", _fit),
    "VolumeBinding": ("VolumeBinding", _volumes("VolumeBinding", "cannot be reached from the node")),
    "VolumeZone": ("VolumeZone", _volumes("VolumeZone", "is in another zone or region")),
    "PodTopologySpread": ("PodTopologySpread", _spread),
    "InterPodAffinity": ("InterPodAffinity", _pod_affinity),
}
