"""The cases as what is sent over the wire: cluster files, reviews and their bodies.

A line of `pod_cases.jsonl` holds the Pod as the webhook receives it, the outcome that is right, and what
else the cluster, the request or the transport should be.
"""

import copy
import json
from pathlib import Path
from typing import Any

Case = dict[str, Any]

FILE = Path(__file__).with_name("pod_cases.jsonl")
UID = "8e3c1c9a-6f0b-4d3e-9b58-2f6f0c5a1d00"


def load() -> list[Case]:
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def cluster_file(case: Case) -> dict[str, Any]:
    """Return the case's cluster: unequal use on nodes that are alike, in the case's namespace."""
    spec = case.get("cluster") or {}
    nodes = spec.get("nodes")
    if nodes is None:
        nodes = [_plain_node(number) for number in range(spec.get("node_count", 5))]
    items = [item for number, node in enumerate(nodes) for item in (_node(node), _reading(node, number))]
    items.append(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace(case), "labels": case.get("namespace_labels", {})},
        }
    )
    return {"apiVersion": "v1", "kind": "List", "items": items}


def namespace(case: Case) -> str:
    return str(case.get("request", {}).get("namespace", "default"))


def body(case: Case, *, uid: str = UID) -> bytes:
    """Return the bytes to send, as the case's transport wants them."""
    transport = case.get("transport", {})
    if "nest_arrays" in transport:
        depth: int = transport["nest_arrays"]
        return b"[" * depth + b"]" * depth
    whole: bytes = json.dumps(review(case, uid=uid)).encode()
    dropped: int = transport.get("truncate_bytes", 0)
    return whole[: len(whole) - dropped]


def review(case: Case, *, uid: str = UID) -> dict[str, Any]:
    pod = inflated(case)
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": case["operation"],
        "namespace": namespace(case),
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
    }
    for field, value in case.get("request", {}).items():
        if value is None and field != "object":
            del request[field]
        else:
            request[field] = pod if value == "$pod" else value
    return {
        "apiVersion": case.get("review_version", "admission.k8s.io/v1"),
        "kind": "AdmissionReview",
        "request": request,
    }


def inflated(case: Case) -> dict[str, Any]:
    """Return the Pod, grown where the case says so until it has about the size that it says."""
    pod: dict[str, Any] = copy.deepcopy(case["pod"])
    if "inflate" not in case:
        return pod
    *parents, last = [part.replace("~1", "/") for part in case["inflate"]["path"].split("/")[1:]]
    place: Any = pod
    for part in parents:
        place = place[int(part) if isinstance(place, list) else part]
    size = case["inflate"]["bytes"]
    if last == "env":
        place[last] = [{"name": f"V{number}", "value": "x" * 1000} for number in range(size // 1035)]
    else:
        place[last] = "x" * (size - len(last))
    return pod


def _plain_node(number: int) -> dict[str, Any]:
    name = f"n{number + 1}"
    zone = "abc"[number % 3]
    return {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}}


def _node(node: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node["name"], "labels": node.get("labels", {})},
        "spec": {"taints": node.get("taints", [])},
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _reading(node: dict[str, Any], number: int) -> dict[str, Any]:
    cpu = 500 + 6500 * (number % 7) // 7
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": node["name"]},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "10s",
        "usage": {"cpu": f"{cpu}m", "memory": f"{cpu * 2}Mi"},
    }
