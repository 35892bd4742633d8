"""Seeded generator of claims and their volumes."""

from random import Random

from webhook import kube

from .placement import node_requirement
from .vocabulary import BETA_ZONE, REGION, ZONES, Json, chance, some

CLASSES: list[Json] = [
    {
        "metadata": {"name": "late"},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {
        "metadata": {"name": "zonal"},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": kube.ZONE, "values": ["a", "b"]}]}],
    },
]


def claim(rng: Random, pod: Json, persistent_volumes: list[Json], claims: list[Json]) -> None:
    """Let the Pod use one or two claims; most are bound to a volume that is not everywhere."""
    used = []
    for number in range(rng.choice((1, 1, 2))):
        name = f"{pod['metadata']['name']}-{number}"
        used.append({"name": name, "persistentVolumeClaim": {"claimName": name}})
        metadata: Json = {"name": name, "namespace": pod["metadata"]["namespace"], "uid": name}
        made: Json = {"metadata": metadata, "spec": {"accessModes": ["ReadWriteOnce"]}, "status": {}}
        if chance(rng, 0.8):
            made["spec"]["volumeName"] = f"pv-{name}"
            # What the volume controller sets once both sides are bound.
            metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            made["status"]["phase"] = "Bound"
            if chance(rng, 0.95):
                persistent_volumes.append(_volume(rng, f"pv-{name}", metadata))
        else:
            made["spec"]["storageClassName"] = rng.choice(("late", "late", "zonal"))
            made["status"]["phase"] = "Pending"
        if chance(rng, 0.95):
            claims.append(made)
    pod["spec"]["volumes"] = used


def _volume(rng: Random, name: str, claim: Json) -> Json:
    labels: dict[str, str] = {}
    if chance(rng, 0.5):
        key = rng.choice((kube.ZONE, kube.ZONE, BETA_ZONE))
        labels[key] = "__".join(some(rng, ZONES, 2))
    if chance(rng, 0.1):
        labels[REGION] = rng.choice(("r", "s"))
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"name": claim["name"], "namespace": claim["namespace"], "uid": claim["uid"]},
        "csi": {"driver": "disk.example.com", "volumeHandle": name},
    }
    if chance(rng, 0.6):
        terms = [{"matchExpressions": [node_requirement(rng)]} for _ in range(rng.choice((1, 1, 2)))]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": {"phase": "Bound"}}
