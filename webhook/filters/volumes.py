"""Where the volumes that a Pod mounts can be reached (volumezone, volumebinding). No I/O here.

Only a claim with a known volume says anything: one that is unknown or not bound yet excludes no node.
"""

from collections.abc import Iterator

import numpy as np

from webhook.filters.demand import Demand
from webhook.filters.nodes import mask_of, match_any
from webhook.snapshot import Mask, Snapshot
from webhook.volumes import GA_LABELS, TOPOLOGY_LABELS, Claim, Volume


def volume_zone(demand: Demand, nodes: Snapshot) -> Mask | None:
    """Nodes in a zone and region of every volume, and those that say nothing of zones (volume_zone.go)."""
    zones = {zone for _, volume in _claims(demand, nodes) for zone in volume.zones}
    if not zones:
        return None
    zoned = np.zeros(nodes.size, np.bool_)
    for key in TOPOLOGY_LABELS:
        if key in nodes.label_index:
            zoned |= nodes.domains(key).of >= 0
    mask = ~zoned
    inside = zoned
    for key, values in zones:
        inside = inside & _having(key, values, nodes)
    return mask | inside


def volume_binding(demand: Demand, nodes: Snapshot) -> Mask | None:
    """Nodes that the node affinity of every bound volume allows (binder.go: checkBoundClaims)."""
    mask: Mask | None = None
    for claim, volume in _claims(demand, nodes):
        if claim.bound and volume.required is not None:
            reachable = match_any(volume.required, nodes)
            mask = reachable if mask is None else mask & reachable
    return mask


def _claims(demand: Demand, nodes: Snapshot) -> Iterator[tuple[Claim, Volume]]:
    for name in demand.claims:
        found = nodes.volumes.claim(demand.namespace, name)
        if found is not None:
            yield found


def _having(key: str, values: frozenset[str], nodes: Snapshot) -> Mask:
    """Nodes whose label is one of the values; the beta label's successor counts where it is absent."""
    mask = _labelled(key, values, nodes)
    successor = GA_LABELS.get(key)
    if successor is not None:
        mask |= (nodes.domains(key).of < 0) & _labelled(successor, values, nodes)
    return mask


def _labelled(key: str, values: frozenset[str], nodes: Snapshot) -> Mask:
    by_value = nodes.label_index.get(key, {})
    return mask_of(nodes, (row for value in values for row in by_value.get(value, ())))
