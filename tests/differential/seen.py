"""A question as the webhook sees it: the same objects through the serving code's own reader and cluster."""

from typing import Any

import msgspec

from webhook import kube
from webhook.cluster import Cluster
from webhook.snapshot import Snapshot

from .generate import Question


def cluster(question: Question) -> Cluster:
    """Return the cluster as after the first list of every kind."""
    made = Cluster()
    made.replace_namespaces(_read(question.namespaces, kube.Named))
    made.nodes.volumes.replace_volumes(_read(question.persistent_volumes, kube.PersistentVolume))
    made.nodes.volumes.replace_claims(_read(question.persistent_volume_claims, kube.PersistentVolumeClaim))
    made.replace_nodes(_read(question.nodes, kube.Node))
    made.replace_pods(bound(question), None)
    made.synced = True
    return made


def nodes(question: Question) -> Snapshot:
    """Return the nodes alone, for the model of the stock scheduler, which binds Pods by itself."""
    made = Snapshot()
    for node in _read(question.nodes, kube.Node):
        made.set_node(node)
    return made


def bound(question: Question) -> list[kube.Pod]:
    return _read(question.pods, kube.Pod)


def incoming(question: Question) -> list[kube.Pod]:
    """Return the Pods to place as their admission reviews bring them."""
    return _read(question.incoming, kube.Pod)


def _read(objects: list[dict[str, Any]], kind: type[Any]) -> list[Any]:
    decoder = kube.decoder(kind)
    return [decoder.decode(msgspec.json.encode(one)) for one in objects]
