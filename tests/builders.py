"""Kubernetes objects for tests: fresh on every call, and built nowhere else."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jsonpatch

from webhook import kube
from webhook.cluster import Cluster

Json = dict[str, Any]
T = TypeVar("T")

NAMESPACE = "shop"
NOW = 1_000.0
GIB = 1024**3
MIB = 1024**2


def make_container(
    name: str = "main",
    *,
    cpu: object = None,
    memory: object = None,
    requests: Mapping[str, object] | None = None,
    **fields: object,
) -> Json:
    """Return a container; `fields` are further fields in the API's own spelling."""
    named = {"cpu": cpu, "memory": memory}
    wanted = {key: value for key, value in named.items() if value is not None} | dict(requests or {})
    resources = {"resources": {"requests": wanted}} if wanted else {}
    return {"name": name, "image": "registry.example/app:1", **resources, **fields}


def make_pod(
    *,
    uid: str | None = None,
    name: str | None = None,
    namespace: str = NAMESPACE,
    node: str | None = None,
    cpu: object = None,
    memory: object = None,
    labels: object = None,
    annotations: object = None,
    phase: str | None = None,
    metadata: Mapping[str, object] | None = None,
    **spec: object,
) -> Json:
    """Return a Pod as the webhook receives it; `spec` are further fields of it in the API's spelling.

    A Pod with a uid is one that the API server has stored: it has a name too.
    """
    if uid is not None and name is None:
        name = uid
    known = {
        "name": name,
        "uid": uid,
        "generateName": None if name else "web-",
        "namespace": namespace,
        "labels": labels,
        "annotations": annotations,
    }
    placed = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in known.items() if value is not None} | dict(metadata or {}),
        "spec": {
            "containers": [make_container(cpu=cpu, memory=memory)],
            "schedulerName": "default-scheduler",
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            **placed,
            **spec,
        },
        **({"status": {"phase": phase}} if phase else {}),
    }


def make_owner(kind: str, name: str = "owner", *, controller: bool = True) -> Json:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "o-1", "controller": controller}


def make_requirement(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def make_term(*expressions: Json, fields: Sequence[Json] = ()) -> Json:
    return {
        **({"matchExpressions": list(expressions)} if expressions else {}),
        **({"matchFields": list(fields)} if fields else {}),
    }


def make_preferred(weight: object, *expressions: Json, fields: Sequence[Json] = ()) -> Json:
    return {"weight": weight, "preference": make_term(*expressions, fields=fields)}


def make_node_affinity(*, preferred: object = None, required: Sequence[Json] | None = None) -> Json:
    """Return a Pod's `affinity`; an empty part is left out."""
    inner: Json = {}
    if required is not None:
        inner["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": list(required)}
    if preferred is not None:
        inner["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"nodeAffinity": inner}


def make_taint(key: str, effect: str, value: str | None = None) -> Json:
    return {"key": key, "effect": effect, **({"value": value} if value is not None else {})}


def make_node(
    name: str = "n1",
    *,
    cpu: object = "8",
    memory: object = "32Gi",
    pods: object = "110",
    hostname: str | None = "",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Json] = (),
    unschedulable: bool = False,
    ready: str | None = "True",
    allocatable: Mapping[str, object] | None = None,
    heartbeat: str = "2026-01-01T00:00:00Z",
    annotations: Mapping[str, str] | None = None,
    internal_ip: str | None = None,
) -> Json:
    """Return a Node; its hostname label is its name unless said otherwise, None for no such label."""
    host = {} if hostname is None else {kube.HOSTNAME: hostname or name}
    spec: Json = {"taints": list(taints)} if taints else {}
    if unschedulable:
        spec["unschedulable"] = True
    beat = {"lastHeartbeatTime": heartbeat}
    conditions = [] if ready is None else [{"type": "Ready", "status": ready, **beat}]
    noted = {"annotations": dict(annotations)} if annotations else {}
    addresses = [{"type": "Hostname", "address": name}]
    if internal_ip:
        addresses.append({"type": "InternalIP", "address": internal_ip})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**host, **(labels or {})}, **noted},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **(allocatable or {})},
            "conditions": [{"type": "MemoryPressure", "status": "False", **beat}, *conditions],
            "addresses": addresses,
        },
    }


def make_claim(name: str, volume: str | None, *, bound: bool = True, namespace: str = NAMESPACE) -> Json:
    """Return a claim for a volume; one that is `bound` carries the volume controller's mark."""
    annotations = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if bound else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, **annotations},
        "spec": {"volumeName": volume} if volume else {},
    }


def make_volume(
    name: str,
    *,
    required: Sequence[Json] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: object,
) -> Json:
    """Return a PersistentVolume; `required` are the terms of its node affinity."""
    affinity = (
        {} if required is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": list(required)}}}
    )
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {**affinity, **spec},
    }


def make_review(pod: object, **request: object) -> Json:
    """Return an AdmissionReview that creates `pod`; `request` overrides fields, `...` leaves one out."""
    fields: Json = {
        "uid": "review-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": "",
        "namespace": NAMESPACE,
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        **request,
    }
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {key: value for key, value in fields.items() if value is not ...},
    }


def to_bytes(value: object) -> bytes:
    return json.dumps(value).encode()


def _decode(kind: type[T], raw: Json) -> T:
    value: T = kube.decoder(kind).decode(to_bytes(raw))
    return value


def decode_pod(raw: Json) -> kube.Pod:
    return _decode(kube.Pod, raw)


def decode_node(raw: Json) -> kube.Node:
    return _decode(kube.Node, raw)


def decode_claim(raw: Json) -> kube.PersistentVolumeClaim:
    return _decode(kube.PersistentVolumeClaim, raw)


def decode_volume(raw: Json) -> kube.PersistentVolume:
    return _decode(kube.PersistentVolume, raw)


def patch_in(answer: bytes) -> list[Json]:
    """Return the operations that an answer carries."""
    response = json.loads(answer)["response"]
    operations: list[Json] = json.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return operations


def apply(operations: Sequence[Json], pod: Json) -> Json:
    """Return the Pod with the operations applied, by a library that knows nothing of the webhook."""
    patched: Json = jsonpatch.apply_patch(pod, list(operations))
    return patched


def preferred_terms(pod: Json) -> list[Json]:
    """Return the preferred node affinity terms of a Pod, whatever levels are absent or null."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []


def make_cluster(*nodes: Json, used: Mapping[str, float] | None = None, synced: bool = True) -> Cluster:
    """Return a cluster of `nodes`; `used` says the CPU cores in use of those that have a reading."""
    cluster = Cluster()
    for node in nodes:
        cluster.set_node(decode_node(node))
    for name, cores in (used or {}).items():
        give_reading(cluster, name, cores * 1000, 4.0 * GIB)
    cluster.synced = synced
    return cluster


def give_reading(
    cluster: Cluster,
    name: str,
    cpu_milli: float,
    memory_bytes: float,
    *,
    timestamp: float = NOW,
    window: float = 15.0,
    now: float = NOW,
) -> bool:
    """Give the cluster a reading of a node; our two clocks agree, the source's may not."""
    return cluster.set_usage(
        name, cpu_milli, memory_bytes, timestamp=timestamp, window=window, now=now, wall=now
    )


def make_uneven_cluster(count: int) -> Cluster:
    """Return nodes of 8 CPU, where node i uses 0.5 + 6.5 (i mod 7) / 7 of them, in zones a, b and c."""
    names = [f"n{number}" for number in range(1, count + 1)]
    return make_cluster(
        *(
            make_node(name, labels={kube.ZONE: "abc"[number % 3], "disk": ("ssd", "hdd")[number % 2]})
            for number, name in enumerate(names)
        ),
        used={name: 0.5 + 6.5 * (number % 7) / 7 for number, name in enumerate(names)},
    )
