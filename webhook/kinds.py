"""What is watched, and how each object changes the cluster as seen."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from webhook import kube
from webhook.admission import OWN_NAMESPACE
from webhook.cluster import Cluster
from webhook.expectation import owners
from webhook.policyholder import PolicyHolder
from webhook.quantity import QuantityError
from webhook.watch import Kind

LOG = logging.getLogger(__name__)

POLICY = "scoring-policy"


def kinds(cluster: Cluster, now: Callable[[], float], restarted: Callable[[str], None]) -> list[Kind[Any]]:
    """Return the kinds that fill `cluster`; `restarted` is told the name of one that lists again."""

    def replace_pods(pods: list[kube.Pod]) -> None:
        # What the first list holds may have run for long; what a later one adds came in a gap.
        cluster.replace_pods(pods, now() if cluster.synced else None)

    def set_node(node: kube.Node) -> None:
        if is_sound(node):
            cluster.set_node(node)

    nodes = Kind(
        name="nodes",
        path="/api/v1/nodes",
        type=kube.Node,
        replace=lambda nodes: cluster.replace_nodes(filter(is_sound, nodes)),
        set=set_node,
        remove=lambda node: cluster.remove_node(kube.name(node)),
        restarted=partial(restarted, "nodes"),
    )
    pods = Kind(
        name="pods",
        path="/api/v1/pods",
        type=kube.Pod,
        replace=replace_pods,
        set=lambda pod: cluster.set_pod(pod, now()),
        remove=lambda pod: cluster.remove_pod(kube.uid(pod)),
        restarted=partial(restarted, "pods"),
        field_selector="status.phase!=Succeeded,status.phase!=Failed",
    )
    namespaces = Kind(
        name="namespaces",
        path="/api/v1/namespaces",
        type=kube.Named,
        replace=cluster.replace_namespaces,
        set=cluster.set_namespace,
        remove=lambda namespace: cluster.remove_namespace(kube.name(namespace)),
        restarted=partial(restarted, "namespaces"),
    )
    priority_classes = Kind(
        name="priorityclasses",
        path="/apis/scheduling.k8s.io/v1/priorityclasses",
        type=kube.Named,
        replace=cluster.replace_priority_classes,
        set=cluster.set_priority_class,
        remove=lambda priority_class: cluster.remove_priority_class(kube.name(priority_class)),
        restarted=partial(restarted, "priorityclasses"),
    )
    volumes = cluster.nodes.volumes
    persistent_volumes = Kind(
        name="persistentvolumes",
        path="/api/v1/persistentvolumes",
        type=kube.PersistentVolume,
        replace=volumes.replace_volumes,
        set=volumes.set_volume,
        remove=volumes.remove_volume,
        restarted=partial(restarted, "persistentvolumes"),
    )
    claims = Kind(
        name="persistentvolumeclaims",
        path="/api/v1/persistentvolumeclaims",
        type=kube.PersistentVolumeClaim,
        replace=volumes.replace_claims,
        set=volumes.set_claim,
        remove=volumes.remove_claim,
        restarted=partial(restarted, "persistentvolumeclaims"),
    )
    return [nodes, pods, namespaces, priority_classes, persistent_volumes, claims]


def owner_kinds(cluster: Cluster, restarted: Callable[[str], None]) -> list[Kind[kube.Controller]]:
    """Return the kinds that say whose Pods are whose. Without them workloads are known less well."""
    return [
        Kind(
            name=name,
            path=path,
            type=kube.Controller,
            replace=partial(cluster.owners.replace, kind),
            set=partial(cluster.owners.set, kind),
            remove=partial(cluster.owners.remove, kind),
            restarted=partial(restarted, name),
        )
        for kind, name, path in (
            (owners.REPLICA_SET, "replicasets", "/apis/apps/v1/replicasets"),
            (owners.STATEFUL_SET, "statefulsets", "/apis/apps/v1/statefulsets"),
            (owners.JOB, "jobs", "/apis/batch/v1/jobs"),
        )
    ]


def is_sound(node: kube.Node) -> bool:
    """Tell whether a Node's quantities can be read; one that cannot is left out, and stops no other."""
    try:
        for resource, value in ((node.status.allocatable if node.status else None) or {}).items():
            kube.amount(resource, value)
    except QuantityError as error:
        LOG.warning("nodes: %s cannot be read: %s", kube.name(node), error)
        return False
    return True


def policy_kind(holder: PolicyHolder, restarted: Callable[[str], None]) -> Kind[kube.ConfigMap]:
    """Return the kind that keeps `holder` at the ConfigMap's policy."""
    return Kind(
        name="configmaps",
        path=f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps",
        type=kube.ConfigMap,
        replace=holder.replace,
        set=holder.set,
        remove=lambda _config_map: holder.remove(),
        restarted=partial(restarted, "configmaps"),
        field_selector=f"metadata.name={POLICY}",
    )
