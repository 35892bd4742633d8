"""A question as the webhook sees it: the same objects through the serving code's own reader and cluster."""

from typing import Any

import msgspec

from webhook import kube
from webhook.cluster import Cluster

from .generate import Question


def cluster(question: Question) -> Cluster:
    """Return the cluster as after the first list of every kind."""
    made = Cluster()
    made.replace_namespaces(_read(question.namespaces, kube.Named))
    made.replace_nodes(_read(question.nodes, kube.Node))
    made.replace_pods(_read(question.pods, kube.Pod), None)
    made.synced = True
    return made


def incoming(question: Question) -> list[kube.Pod]:
    """Return the Pods to place as their admission reviews bring them."""
    return _read(question.incoming, kube.Pod)


def _read(objects: list[dict[str, Any]], kind: type[Any]) -> list[Any]:
    decoder = kube.decoder(kind)
    return [decoder.decode(msgspec.json.encode(one)) for one in objects]
