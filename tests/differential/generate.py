"""Seeded generator of questions: a cluster, and Pods that are asked about it one by one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from webhook import kube

from . import pods, volumes
from .vocabulary import (
    BETA_ZONE,
    DISKS,
    EFFECTS,
    GPU,
    NAMESPACES,
    RACK,
    REGION,
    SIZES,
    TAINTS,
    UNSCHEDULABLE,
    ZONES,
    Json,
    chance,
    some,
)

Topics = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Mix:
    """How often an incoming and a bound Pod speak of each topic, use claims, and are on their way out."""

    incoming: Topics
    bound: Topics
    claims: float = 0.0
    terminating: float = 0.0


# Seldom enough that one predicate alone often decides.
FILTERING = Mix(
    incoming={
        "demanding": 0.3,
        "structured": 0.15,
        "ports": 0.25,
        "tolerations": 0.5,
        "nodeSelector": 0.1,
        "nodeAffinity": 0.25,
        "preferredNodes": 0.1,
        "podAffinity": 0.15,
        "podAntiAffinity": 0.15,
        "spread": 0.25,
    },
    bound={"structured": 0.15, "resized": 0.2, "ports": 0.35, "podAffinity": 0.03, "podAntiAffinity": 0.06},
    claims=0.2,
    terminating=0.05,
)

# What the model of the stock scheduler knows: no preferred Pod affinity, no volumes that wait for a node.
SCORING = Mix(
    incoming={
        "demanding": 0.2,
        "structured": 0.2,
        "tolerations": 0.6,
        "nodeSelector": 0.05,
        "nodeAffinity": 0.1,
        "preferredNodes": 0.5,
        "owned": 0.7,
        "softSpread": 0.3,
    },
    bound={"structured": 0.2, "resized": 0.2, "owned": 0.7},
    terminating=0.05,
)


@dataclass(frozen=True, slots=True)
class Question:
    """Objects as the API server would list them, and the Pods to place, as their webhook would see them."""

    nodes: list[Json]
    pods: list[Json]
    incoming: list[Json]
    persistent_volumes: list[Json] = field(default_factory=list)
    persistent_volume_claims: list[Json] = field(default_factory=list)
    storage_classes: list[Json] = field(default_factory=list)

    @property
    def namespaces(self) -> list[Json]:
        return [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()]

    def owners(self, kind: str) -> list[Json]:
        """Return the owners of that kind that any Pod names, each selecting the Pods that name it."""
        owned = {
            (pod["metadata"]["namespace"], owner["name"])
            for pod in [*self.pods, *self.incoming]
            for owner in pod["metadata"].get("ownerReferences", ())
            if owner["kind"] == kind
        }
        return [
            {
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"selector": {"matchLabels": {pods.OWNER_LABEL: name}}},
            }
            for namespace, name in sorted(owned)
        ]

    def as_json(self) -> Json:
        """Return what the oracle reads: the incoming Pods as they are once stored."""
        return {
            "nodes": self.nodes,
            "pods": self.pods,
            "incoming": [pods.as_stored(pod) for pod in self.incoming],
            "namespaces": self.namespaces,
            "persistentVolumes": self.persistent_volumes,
            "persistentVolumeClaims": self.persistent_volume_claims,
            "storageClasses": self.storage_classes,
            "replicaSets": self.owners("ReplicaSet"),
            "statefulSets": self.owners("StatefulSet"),
        }


def question(rng: Random, incoming: int, mix: Mix) -> Question:
    """Return a cluster of 3 to 25 nodes and `incoming` Pods."""
    nodes = [_node(rng, f"n{number}") for number in range(rng.randint(3, 25))]
    bound = [
        _bound(rng, f"b{number}", rng.choice(nodes)["metadata"]["name"], mix)
        for number in range(rng.randint(0, 3 * len(nodes)))
    ]
    asked = [pods.make(rng, f"p{number}", mix.incoming) for number in range(incoming)]
    made = Question(nodes, bound, asked, storage_classes=volumes.CLASSES)
    for pod in asked:
        if chance(rng, mix.claims):
            volumes.claim(rng, pod, made.persistent_volumes, made.persistent_volume_claims)
    return made


def _bound(rng: Random, name: str, node: str, mix: Mix) -> Json:
    pod = pods.as_stored(pods.make(rng, name, mix.bound))
    pod["spec"]["nodeName"] = node
    pod.setdefault("status", {})["phase"] = "Running"
    if chance(rng, mix.terminating):
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return pod


def _node(rng: Random, name: str) -> Json:
    zone = rng.choice(ZONES)
    labels = {kube.HOSTNAME: name, kube.ZONE: zone, REGION: "r", RACK: f"{zone}{rng.randint(0, 2)}"}
    for key, share in ((kube.HOSTNAME, 0.03), (kube.ZONE, 0.06), (REGION, 0.2), (RACK, 0.1)):
        if chance(rng, share):
            del labels[key]
    if chance(rng, 0.05):
        labels[kube.HOSTNAME] = f"host-{rng.randint(0, 2)}"
    if chance(rng, 0.05):
        labels[BETA_ZONE] = zone
    if chance(rng, 0.8):
        labels["disk"] = rng.choice(DISKS)
    if chance(rng, 0.7):
        labels["size"] = rng.choice(SIZES)
    spec: Json = {}
    taints = []
    if chance(rng, 0.3):
        taints = [
            {"key": key, "effect": rng.choice(EFFECTS), **({"value": value} if value else {})}
            for key, value in some(rng, TAINTS, 2)
        ]
    if chance(rng, 0.1):
        spec["unschedulable"] = True
        if chance(rng, 0.5):
            taints.append({"key": UNSCHEDULABLE, "effect": "NoSchedule"})
    if taints:
        spec["taints"] = taints
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": _status(rng)}


def _status(rng: Random) -> Json:
    allocatable: Json = {
        "cpu": rng.choice(("1", "3920m", "8", "16", "16", "32")),
        "memory": rng.choice(("2Gi", "7900Mi", "16Gi", "33554432Ki", "64G")),
        "pods": rng.choice(("2", "5", "20", "110", "110", "110")),
    }
    if chance(rng, 0.06):
        del allocatable[rng.choice(("cpu", "memory"))]
    if chance(rng, 0.7):
        allocatable["ephemeral-storage"] = rng.choice(("5Gi", "9500Mi", "10e9"))
    if chance(rng, 0.4):
        allocatable[GPU] = rng.choice(("0", "1", "2", "8"))
    if chance(rng, 0.5):
        allocatable["hugepages-2Mi"] = rng.choice(("0", "32Mi", "128Mi"))
    return {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
