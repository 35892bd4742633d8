"""The words that generated clusters and Pods share, few enough that they meet often."""

from random import Random
from typing import Any, TypeVar

from webhook import kube

Json = dict[str, Any]
T = TypeVar("T")

REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
RACK = "example.com/rack"
GPU = "example.com/gpu"
FPGA = "example.com/fpga"

NAMESPACES: dict[str, dict[str, str]] = {
    "shop": {"kubernetes.io/metadata.name": "shop", "team": "web"},
    "ops": {"kubernetes.io/metadata.name": "ops", "team": "infra"},
    "lab": {"kubernetes.io/metadata.name": "lab"},
}
ZONES = ("a", "b", "c")
TOPOLOGIES = (kube.HOSTNAME, kube.ZONE, RACK)
DISKS = ("ssd", "hdd")
SIZES = ("4", "16", "007", "big")
TAINTS = (("team", "data"), ("team", "web"), ("spot", ""), ("node.kubernetes.io/not-ready", ""))
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")

APPS = ("web", "db", "cache")
TIERS = ("front", "back")
CPU = ("0", "100m", "250m", "0.5", "1", "1500m", "2", "1e0")
MEMORY = ("0", "64Mi", "200M", "1Gi", "1.5Gi", "128974848", "2e9", "1073741824001m")
PORTS = (80, 443, 9100)


def chance(rng: Random, share: float) -> bool:
    return rng.random() < share


def some(rng: Random, values: tuple[T, ...], most: int) -> list[T]:
    """Return one to `most` different values."""
    return rng.sample(values, rng.randint(1, min(most, len(values))))
