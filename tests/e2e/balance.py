"""How balance is measured: a burst of Deployments, the spread of true utilization, steering efficiency."""

import http.client
import json
import random
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import pstdev
from typing import Any, Self
from urllib.parse import urlsplit

from ..cluster import topology, usage, waiting
from ..cluster.control_plane import ControlPlane
from ..cluster.simulation import Simulation

BOUND_WITHIN_S = 300
SETTLED_WITHIN_S = 180

Pod = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """A Deployment: its name, replicas, what each Pod requests, and the CPU it uses where that is other."""

    name: str
    replicas: int
    cpu_milli: int
    memory_mib: int
    uses_milli: int | None = None


def workloads(total: int, *, seed: int, deployments: int = 10) -> list[Workload]:
    """Return Deployments of `total` Pods together, of unequal size in replicas and in requests."""
    draw = random.Random(seed)
    shares = [draw.uniform(0.5, 2.0) for _ in range(deployments)]
    counts = [max(1, round(total * share / sum(shares))) for share in shares]
    counts[0] += total - sum(counts)
    return [
        Workload(f"app-{number}", count, milli := draw.choice((100, 250, 500, 750, 1000, 1500)), 2 * milli)
        for number, count in enumerate(counts)
    ]


def manifest(workload: Workload) -> dict[str, Any]:
    labels = {"app": workload.name}
    requests = {"cpu": f"{workload.cpu_milli}m", "memory": f"{workload.memory_mib}Mi"}
    uses = {} if workload.uses_milli is None else {usage.CPU: f"{workload.uses_milli}m"}
    container = {"name": "app", "image": "registry.example/app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name},
        "spec": {
            "replicas": workload.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": uses},
                "spec": {"containers": [container]},
            },
        },
    }


class Arrivals:
    """The order in which a namespace's Pods are created, as a watch shows it, in cores of each Pod."""

    def __init__(self, plane: ControlPlane, namespace: str, wanted: int) -> None:
        self._plane, self._path, self._wanted = plane, f"/api/v1/namespaces/{namespace}/pods", wanted
        self._version = plane.request("GET", self._path)["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.cores: list[float] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(BOUND_WITHIN_S)

    def _read(self) -> None:
        while len(self.cores) < self._wanted:
            # The API server ends a watch whose reader falls behind; the next goes on from there.
            self._read_once()

    def _read_once(self) -> None:
        url = urlsplit(self._plane.url)
        context = self._plane.ssl_context()
        connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=60)
        try:
            connection.request("GET", f"{self._path}?watch=true&resourceVersion={self._version}")
            answer, rest = connection.getresponse(), b""
            while len(self.cores) < self._wanted and (chunk := answer.read1(65536)):
                *lines, rest = (rest + chunk).split(b"\n")
                for event in map(json.loads, filter(None, lines)):
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] == "ADDED":
                        self.cores.append(cores_of(event["object"]))
        finally:
            connection.close()


def burst(
    plane: ControlPlane, simulation: Simulation, namespace: str, load: list[Workload]
) -> tuple[list[Pod], list[float]]:
    """Create all Deployments at once; return their Pods once all run, and the cores in order of arrival."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    wanted = sum(workload.replicas for workload in load)
    with Arrivals(plane, namespace, wanted) as arrivals:
        for workload in load:
            plane.request("POST", path, manifest(workload))

    def running() -> list[Pod]:
        found = pods(plane, namespace)
        up = [pod for pod in found if pod["status"].get("phase") == "Running"]
        return found if len(up) == wanted else []

    found = waiting.until(running, f"{wanted} Pods running", timeout_s=BOUND_WITHIN_S)
    expected = sum(arrivals.cores)
    waiting.until(
        lambda: abs(total_cores(simulation) - expected - base_cores(simulation)) < 0.01 * expected,
        "the simulated kubelets to use what the Pods use",
        timeout_s=SETTLED_WITHIN_S,
    )
    return found, arrivals.cores


def pods(plane: ControlPlane, namespace: str) -> list[Pod]:
    listed: list[Pod] = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return listed


def cores_of(pod: Pod) -> float:
    """Return the cores that a Pod uses: as its annotation says, or what it requests."""
    said = pod["metadata"].get("annotations", {}).get(usage.CPU)
    return (
        usage.quantity(said)
        if said
        else usage.quantity(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
    )


def total_cores(simulation: Simulation) -> float:
    return sum(cores for cores, _ in simulation.true_usage().values())


_BASE: dict[int, float] = {}


def base_cores(simulation: Simulation) -> float:
    """Return what the nodes use with no Pods on them, as seen when first asked."""
    return _BASE.setdefault(id(simulation), total_cores(simulation))


def utilization(simulation: Simulation, nodes: Mapping[str, topology.SimulatedNode]) -> dict[str, float]:
    """True CPU utilization of each node, as a fraction."""
    return {name: cores / nodes[name].cores for name, (cores, _) in simulation.true_usage().items()}


def ideal(nodes: Mapping[str, topology.SimulatedNode], arrivals: Iterable[float]) -> dict[str, float]:
    """Return utilization after an online choice that puts each Pod on the node left least utilized."""
    used = {name: node.base_cores for name, node in nodes.items()}
    for cores in arrivals:
        best = min(used, key=lambda name: (used[name] + cores) / nodes[name].cores)
        used[best] += cores
    return {name: cores / nodes[name].cores for name, cores in used.items()}


def efficiency(stock: float, steered: float, best: float) -> float:
    """Return E: 0 is no help, 1 equals the ideal, below 0 is harm."""
    return (stock - steered) / (stock - best)


def sigma(use: Mapping[str, float]) -> float:
    return pstdev(use.values())


def clear(plane: ControlPlane, namespace: str) -> None:
    """Delete what a burst created."""
    plane.kubectl("delete", "deployments", "--all", "-n", namespace, "--wait=false")
    waiting.until(lambda: not pods(plane, namespace), f"no Pods in {namespace}", timeout_s=SETTLED_WITHIN_S)


def settle(simulation: Simulation) -> None:
    """Wait until readings show the nodes as they are without a burst: only then may the next be steered."""
    base = base_cores(simulation)

    def measured() -> bool:
        found = simulation.measured_usage()
        return bool(found) and abs(sum(cores for cores, _ in found.values()) - base) < 0.02 * base

    waiting.until(measured, "readings to show idle nodes", timeout_s=SETTLED_WITHIN_S)
    # One more poll of Trimtab's, so that what metrics-server tells now is known there too.
    time.sleep(7)
