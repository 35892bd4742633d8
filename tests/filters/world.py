"""A small cluster that predicates can tell apart: racks and zones, a node without a zone, Pods on some."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.builders import Json, decode_node, decode_pod, make_container, make_node, make_pod
from webhook import filters, kube
from webhook.cluster import Cluster
from webhook.filters import FILTERS
from webhook.snapshot import Snapshot

RACK = "example.com/rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

NAMESPACES = {"shop": {"team": "web"}, "ops": {"team": "infra"}, "lab": {}}


def world(*pods: Json, nodes: Iterable[Json] = ()) -> Snapshot:
    """Return a1 and a2 in zone a, b1 and b2 in zone b, each in a rack of its own, and x without.

    `pods` are on them, or on other `nodes` where these are given.
    """
    cluster = Cluster()
    for name, labels in NAMESPACES.items():
        cluster.set_namespace(kube.Named(kube.Metadata(name=name, labels=labels)))
    own = [make_node(name, labels={kube.ZONE: name[0], RACK: name}) for name in ("a1", "a2", "b1", "b2")]
    for node in nodes or [*own, make_node("x")]:
        cluster.set_node(decode_node(node))
    for pod in pods:
        cluster.set_pod(decode_pod(pod), None)
    return cluster.nodes


def bound(node: str, uid: str = "", *, app: str | None = "db", **fields: Any) -> Json:
    """Return a Pod on `node`; its uid tells it from others there."""
    labels = {"labels": {"app": app}} if app else {}
    return make_pod(uid=f"{node}{uid}", node=node, **(labels | fields))


def with_ports(*ports: Json) -> list[Json]:
    return [make_container(ports=list(ports))]


def selector(*expressions: Json, **labels: str) -> Json:
    return {
        **({"matchLabels": labels} if labels else {}),
        **({"matchExpressions": list(expressions)} if expressions else {}),
    }


def pod_term(key: str = kube.ZONE, label_selector: Json | None = None, **fields: object) -> Json:
    return {
        "topologyKey": key,
        **({} if label_selector is None else {"labelSelector": label_selector}),
        **fields,
    }


def near(*terms: Json) -> Any:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def far(*terms: Json) -> Any:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def passing(plugin: str, pod: Json, nodes: Snapshot) -> str:
    """Return the names of the nodes that a plugin lets pass, in order."""
    mask = nodes.exists[: nodes.size].copy()
    passed = FILTERS[plugin](filters.demand(decode_pod(pod)), nodes)
    return " ".join(nodes.names[row] for row in np.flatnonzero(mask if passed is None else mask & passed))
