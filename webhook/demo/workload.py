"""A generated cluster and its workload, the same for the same seed, as Kubernetes JSON. No I/O here.

Nodes: three machine sizes in three zones (`MACHINES`). Each node already runs one Pod that requests
nothing and uses part of the machine, so that requests tell nothing about it: on a quarter of the nodes
45 to 65 % of the CPU, on the others 2 to 30 %; of the memory 10 to 40 % on all. Its use is what the
NodeMetrics say.

Pods: Deployments of 1 to 40 replicas (small ones are more common), all replicas arriving together, each
requesting one of `CPU_SIZES` and 2, 4 or 8 GiB of memory for each CPU. A Pod truly uses what it
requests. At 6 Pods a node they add about 30 % to the CPU use of the cluster.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from webhook import kube
from webhook.snapshot import FloatArray

Object = dict[str, Any]

GIB = 1024**3
NAMESPACE = "shop"
BASE_NAMESPACE = "base"
ZONES = ("zone-a", "zone-b", "zone-c")

# CPUs, GiB of memory, share of the nodes.
MACHINES = ((8, 32, 0.5), (16, 64, 0.3), (32, 128, 0.2))

# Milli-CPU and share of the Deployments.
CPU_SIZES = ((100, 0.2), (250, 0.25), (500, 0.25), (1000, 0.15), (2000, 0.1), (4000, 0.05))
GIB_PER_CPU = (2, 4, 8)
MAX_REPLICAS = 40
MEAN_REPLICAS = 8

HOT_SHARE = 0.25
HOT_CPU = (0.45, 0.65)
COOL_CPU = (0.02, 0.30)
BASE_MEMORY = (0.10, 0.40)


@dataclass(frozen=True, slots=True)
class Workload:
    """The cluster at the start, and the Pods in order of arrival.

    `items` are the cluster's objects; `allocatable` and `base` (2, nodes) are the machines and what is
    used on them at the start, in milli-CPU and bytes; `pods` are as an AdmissionReview carries them.
    """

    items: list[Object]
    names: list[str]
    allocatable: FloatArray
    base: FloatArray
    pods: list[Object]

    def cluster(self) -> Object:
        """Return the cluster as `kubectl get -o json` prints it."""
        return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": self.items}


def generate(nodes: int, pods: int, seed: int) -> Workload:
    rng = np.random.default_rng(seed)
    names = [f"node-{number:0{len(str(nodes - 1))}d}" for number in range(nodes)]
    machine = _machines(nodes, rng)
    allocatable = np.array([[MACHINES[kind][0] * 1000, MACHINES[kind][1] * GIB] for kind in machine]).T
    hot = rng.permutation(nodes) < HOT_SHARE * nodes
    cpu = np.where(hot, rng.uniform(*HOT_CPU, nodes), rng.uniform(*COOL_CPU, nodes))
    base = np.floor(np.stack((cpu, rng.uniform(*BASE_MEMORY, nodes))) * allocatable)
    items = [_namespace(BASE_NAMESPACE), _namespace(NAMESPACE)]
    for index, name in enumerate(names):
        milli, size = int(allocatable[0, index]), int(allocatable[1, index])
        items.append(_node(name, ZONES[index % len(ZONES)], milli, size))
        items.append(_base_pod(name))
        items.append(_node_metrics(name, int(base[0, index]), int(base[1, index])))
    return Workload(items, names, allocatable.astype(np.float64), base, _arrivals(pods, rng))


def _machines(nodes: int, rng: np.random.Generator) -> Sequence[int]:
    """Return the machine size of each node: the shares as exact as can be, in random order."""
    edges = np.cumsum([share for *_, share in MACHINES]) * nodes
    kinds = np.searchsorted(edges, np.arange(nodes) + 0.5)
    return [int(kind) for kind in rng.permutation(kinds)]


def _arrivals(pods: int, rng: np.random.Generator) -> list[Object]:
    sizes, shares = zip(*CPU_SIZES, strict=True)
    result: list[Object] = []
    number = 0
    while len(result) < pods:
        replicas = int(min(MAX_REPLICAS, rng.geometric(1 / MEAN_REPLICAS), pods - len(result)))
        cpu = int(rng.choice(sizes, p=shares))
        memory = cpu * int(rng.choice(GIB_PER_CPU)) * GIB // 1000
        name, suffix = f"app-{number:03d}", f"{int(rng.integers(16**8)):08x}"
        result += [_pod(name, suffix, cpu, memory) for _ in range(replicas)]
        number += 1
    return result


# Kubernetes objects


def _namespace(name: str) -> Object:
    labels = {"kubernetes.io/metadata.name": name, "trimtab.dev/steering": "enabled"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _node(name: str, zone: str, cpu_milli: int, memory_bytes: int) -> Object:
    resources = {
        "cpu": f"{cpu_milli}m",
        "memory": f"{memory_bytes // 1024}Ki",
        "ephemeral-storage": "100Gi",
        "pods": "110",
    }
    labels = {
        kube.HOSTNAME: name,
        kube.ZONE: zone,
        "topology.kubernetes.io/region": "region-1",
        "node.kubernetes.io/instance-type": f"m-{cpu_milli // 1000}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _base_pod(node: str) -> Object:
    name = f"base-{node}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": BASE_NAMESPACE, "uid": _uid(name)},
        "spec": {"nodeName": node, "containers": [{"name": "base", "image": "base:1", "resources": {}}]},
        "status": {"phase": "Running"},
    }


def _node_metrics(name: str, cpu_milli: int, memory_bytes: int) -> Object:
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "15s",
        "usage": {"cpu": f"{cpu_milli}m", "memory": f"{memory_bytes // 1024}Ki"},
    }


def _pod(app: str, suffix: str, cpu_milli: int, memory_bytes: int) -> Object:
    """Return a Pod as the ReplicaSet controller creates it, with what the API server adds before webhooks."""
    replica_set = f"{app}-{suffix}"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": replica_set,
        "uid": _uid(replica_set),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    requests = {"cpu": f"{cpu_milli}m", "memory": f"{memory_bytes // 1024}Ki"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{replica_set}-",
            "namespace": NAMESPACE,
            "labels": {"app": app, "pod-template-hash": suffix},
            "ownerReferences": [owner],
        },
        "spec": {
            "containers": [{"name": "app", "image": f"{app}:1", "resources": {"requests": requests}}],
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
        },
        "status": {},
    }


def _toleration(condition: str) -> Object:
    return {
        "key": f"node.kubernetes.io/{condition}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }


def _uid(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
