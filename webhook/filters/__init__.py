"""Which nodes could take a Pod: the scheduler's Filter, as far as the webhook can know it. No I/O here.

Each predicate is named for the scheduler plugin that would refuse, and follows the plugin's source of
Kubernetes 1.36. An accelerator's count is a resource like any other (NodeResourcesFit), its model a label
of the node (NodeAffinity).

Not modelled, so never a reason to exclude a node:
- what refuses every node alike: claims that are missing, lost or being deleted, that are not bound and do
  not wait for their first Pod, and ReadWriteOncePod claims that another Pod has (VolumeRestrictions);
- claims without a volume, which wait for their first Pod: volumes and capacity to be found for them
  (VolumeBinding), and claims of generic ephemeral volumes, which are made after the Pod;
- node affinity of in-tree volumes that a CSI driver serves, and inline disks (VolumeRestrictions);
- how many volumes a node can attach (NodeVolumeLimits);
- resource claims (DynamicResources), Pod groups, features that nodes declare, scheduler extenders;
- Pods that are nominated or in flight, and preemption, which could make room.
"""

from collections.abc import Callable, Mapping

from webhook.filters.demand import Demand, SpreadConstraint, demand
from webhook.filters.nodes import (
    REPELLING,
    match,
    match_any,
    node_affinity,
    node_ready,
    node_resources_fit,
    node_unschedulable,
    prefers_to_avoid,
    taint_toleration,
    tolerates,
    untolerated,
    wanted,
)
from webhook.filters.podaffinity import inter_pod_affinity
from webhook.filters.ports import node_ports
from webhook.filters.spread import pod_topology_spread
from webhook.filters.volumes import volume_binding, volume_zone
from webhook.snapshot import Mask, Snapshot

__all__ = [
    "FILTERS",
    "REPELLING",
    "Demand",
    "Predicate",
    "SpreadConstraint",
    "demand",
    "feasible",
    "match",
    "match_any",
    "node_affinity",
    "node_ready",
    "node_resources_fit",
    "node_unschedulable",
    "prefers_to_avoid",
    "taint_toleration",
    "tolerates",
    "untolerated",
    "wanted",
]

# Rows of the nodes that pass, or None where no node is refused.
Predicate = Callable[[Demand, Snapshot], Mask | None]

FILTERS: Mapping[str, Predicate] = {
    "NodeUnschedulable": node_unschedulable,
    "NodeReady": node_ready,
    "TaintToleration": taint_toleration,
    "NodeAffinity": node_affinity,
    "NodePorts": node_ports,
    "NodeResourcesFit": node_resources_fit,
    "VolumeBinding": volume_binding,
    "VolumeZone": volume_zone,
    "PodTopologySpread": pod_topology_spread,
    "InterPodAffinity": inter_pod_affinity,
}


def feasible(demand: Demand, nodes: Snapshot, *, but: str = "") -> Mask:
    """Rows of the nodes that pass every filter; `but` names one to leave out."""
    mask = nodes.exists[: nodes.size].copy()
    for name, check in FILTERS.items():
        if name != but and (passed := check(demand, nodes)) is not None:
            mask &= passed
    return mask
