"""Simulated nodes: sizes, zones and a hidden load that differs from node to node. No I/O here."""

import dataclasses
import datetime as dt
import random
from collections.abc import Sequence
from typing import Any

from . import usage

ZONES = ("a", "b", "c")
PODS = 110
GIB = 1 << 30
GIB_PER_CORE = 4

# Ready from the start: a kubelet would say so a moment after it registered.
_CONDITIONS = {
    "Ready": ("True", "KubeletReady"),
    "MemoryPressure": ("False", "KubeletHasSufficientMemory"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """One node; `base_cores` and `base_bytes` are used by things that no request shows."""

    name: str
    zone: str
    cores: int
    memory_bytes: int
    base_cores: float = 0.0
    base_bytes: float = 0.0
    labels: dict[str, str] = dataclasses.field(default_factory=dict)

    def manifest(self, kubelet_port: int) -> dict[str, Any]:
        """The Node as its kubelet would have registered it."""
        allocatable = {"cpu": str(self.cores), "memory": str(self.memory_bytes), "pods": str(PODS)}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self._labels(), "annotations": self._annotations()},
            "status": {
                "allocatable": allocatable,
                "capacity": allocatable,
                "addresses": [
                    {"type": "InternalIP", "address": "127.0.0.1"},
                    {"type": "Hostname", "address": self.name},
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
                "conditions": _conditions(),
                "nodeInfo": _node_info(),
            },
        }

    def _labels(self) -> dict[str, str]:
        return {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": self.zone,
            "topology.kubernetes.io/region": "local",
            **self.labels,
        }

    def _annotations(self) -> dict[str, str]:
        return {
            "kwok.x-k8s.io/node": "fake",
            "metrics.k8s.io/resource-metrics-path": f"/{self.name}/metrics/resource",
            usage.CPU: f"{self.base_cores * 1000:.0f}m",
            usage.MEMORY: f"{self.base_bytes:.0f}",
        }


def nodes(
    count: int,
    *,
    seed: int = 1,
    cores: Sequence[int] = (8,),
    load: tuple[float, float] = (0.05, 0.7),
    prefix: str = "node",
) -> list[SimulatedNode]:
    """`count` nodes: zones and sizes in turn, hidden load drawn from the range `load` of each resource."""
    draw = random.Random(seed)
    made = []
    for index in range(count):
        size = cores[index % len(cores)]
        memory = size * GIB_PER_CORE * GIB
        made.append(
            SimulatedNode(
                name=f"{prefix}-{index:0{len(str(count - 1))}}",
                zone=ZONES[index % len(ZONES)],
                cores=size,
                memory_bytes=memory,
                base_cores=draw.uniform(*load) * size,
                base_bytes=draw.uniform(*load) * memory,
            )
        )
    return made


def _conditions() -> list[dict[str, str]]:
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": "",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, (status, reason) in _CONDITIONS.items()
    ]


def _node_info() -> dict[str, str]:
    unknown = dict.fromkeys(
        ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion"), ""
    )
    return {
        **unknown,
        "kubeletVersion": "v1.36.3",
        "containerRuntimeVersion": "simulated://1",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
