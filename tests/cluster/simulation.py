"""The nodes' side: kwok in the kubelets' place, the kubelets' metrics pages, and the real metrics-server.

Real kubelets need containers and cgroups, which a test machine may not give. kwok keeps node leases, lets
bound Pods run and removes deleted ones; one TLS server answers for all kubelets' metrics; the real
metrics-server reads them there.
"""

import functools
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from . import build, parts, process, topology, usage, waiting
from .client import ApiError, Client, unverified
from .control_plane import ControlPlane

ROOT = Path(__file__).parents[2]
STAGES = Path(__file__).with_name("stages.yaml")
METRICS = "/apis/metrics.k8s.io/v1beta1"
READY_WITHIN_S = 60
READINGS_WITHIN_S = 120  # metrics-server reads every 10 s and needs two readings of a node
LEASE_S = 80  # renewed at a quarter: rarely enough for thousands of nodes, often enough for a grace of 50 s


class Simulation:
    """The nodes' side of a started control plane; stops before the control plane does."""

    def __init__(self, control_plane: ControlPlane, *, binaries: build.Binaries | None = None) -> None:
        built = binaries or build.binaries()
        self.control_plane = control_plane
        self._kubelet_port, self._metrics_port = process.free_port(), process.free_port()
        hosts = ["localhost", parts.LOOPBACK]
        self._certificate = control_plane.authority.issue("kubelet", hosts=hosts)
        self.kubelets_url = f"https://{parts.LOOPBACK}:{self._kubelet_port}"
        self._client = Client(self.kubelets_url, control_plane.ssl_context())
        self.kwok = self._process("kwok", self._kwok(built.kwok))
        self.kubelets = self._process("kubelets", self._kubelets())
        self.metrics_server = self._process("metrics-server", self._metrics_server(built.metrics_server))

    def start(self) -> Self:
        """Start all three and register metrics-server with the API server."""
        try:
            for part in self.processes():
                part.start()
            waiting.until(
                self._answers, "simulated kubelets answer", timeout_s=READY_WITHIN_S, state=self.kubelets.tail
            )
            self._register_metrics_server()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        self._client.close()
        process.stop_all(self.processes())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def processes(self) -> list[process.Process]:
        return [self.kwok, self.kubelets, self.metrics_server]

    def add_nodes(self, nodes: Iterable[topology.SimulatedNode]) -> None:
        """Create nodes, many at a time, and wait until each is ready and takes Pods."""
        manifests = [node.manifest(self._kubelet_port) for node in nodes]
        self.control_plane.client.request_all(("POST", "/api/v1/nodes", manifest) for manifest in manifests)
        names = {manifest["metadata"]["name"] for manifest in manifests}
        waiting.until(
            lambda: names <= self.schedulable(),
            f"{len(names)} nodes ready",
            timeout_s=READY_WITHIN_S + len(names) / 10,
            poll_s=0.1 + len(names) / 1000,  # a list of thousands of nodes is work for the API server
        )

    def remove_nodes(self, names: Iterable[str]) -> None:
        self.control_plane.client.request_all(("DELETE", f"/api/v1/nodes/{name}", None) for name in names)

    def schedulable(self) -> set[str]:
        """Names of the nodes that are ready and bear no taint."""
        listed = self.control_plane.request("GET", "/api/v1/nodes")["items"]
        return {
            node["metadata"]["name"] for node in listed if _ready(node) and not node["spec"].get("taints")
        }

    def set_load(self, node: str, *, cores: float, bytes: float) -> None:  # noqa: A002  the unit is the name
        """Change the hidden load of a node from now on."""
        self._annotate(node, {usage.CPU: f"{cores * 1000:.0f}m", usage.MEMORY: f"{bytes:.0f}"})

    def set_readings(self, node: str, readings: str | None) -> None:
        """Make a node's readings `usage.FROZEN` or `usage.SILENT`; None makes them right again."""
        self._annotate(node, {usage.READINGS: readings})

    def true_usage(self) -> dict[str, tuple[float, float]]:
        """(cores, bytes) that each node really uses now: hidden load plus its running Pods."""
        return {name: (cores, size) for name, (cores, size) in self._client.request("GET", "/usage").items()}

    def measured_usage(self) -> dict[str, tuple[float, float]]:
        """(cores, bytes) of each node as metrics-server tells it; empty while it has no readings yet."""
        try:
            items = self.control_plane.request("GET", f"{METRICS}/nodes")["items"]
        except ApiError:
            return {}
        uses = {item["metadata"]["name"]: item["usage"] for item in items}
        return {
            name: (usage.quantity(use["cpu"]), usage.quantity(use["memory"])) for name, use in uses.items()
        }

    def wait_measured(self) -> None:
        """Wait until metrics-server tells the usage of every node."""

        names = self.schedulable()

        def told() -> bool:
            self.metrics_server.require_running()
            return names <= self.measured_usage().keys()

        tail = self.metrics_server.tail
        waiting.until(told, "usage of every node", timeout_s=READINGS_WITHIN_S, poll_s=0.5, state=tail)

    def _annotate(self, node: str, annotations: dict[str, Any]) -> None:
        self.control_plane.request(
            "PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}}
        )

    def _process(self, name: str, argv: list[str]) -> process.Process:
        # The simulated kubelets are a module of this repository and must find it from any working directory.
        env = {"PYTHONPATH": str(ROOT)} if argv[0] == sys.executable else None
        return process.Process(name, argv, log=self.control_plane.directory / f"{name}.log", env=env)

    def _kwok(self, binary: Path) -> list[str]:
        return [
            str(binary),
            f"--kubeconfig={self.control_plane.kubeconfig}",
            f"--config={STAGES}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--node-lease-duration-seconds={LEASE_S}",
            "--cidr=10.64.0.0/10",
            "--v=WARN",
        ]

    def _kubelets(self) -> list[str]:
        plane = self.control_plane
        settings = {
            "server": plane.url,
            "authority": str(plane.authority.files.certificate),
            "user": [str(plane.admin.certificate), str(plane.admin.key)],
            "certificate": [str(self._certificate.certificate), str(self._certificate.key)],
            "port": self._kubelet_port,
        }
        path = plane.directory / "kubelets.json"
        path.write_text(json.dumps(settings))
        return [sys.executable, "-m", "tests.cluster.kubelet", str(path)]

    def _metrics_server(self, binary: Path) -> list[str]:
        kubeconfig = self.control_plane.kubeconfig
        return [
            str(binary),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={parts.LOOPBACK}",
            f"--secure-port={self._metrics_port}",
            f"--cert-dir={self.control_plane.directory / 'metrics-server'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--kubelet-use-node-status-port",
            "--kubelet-insecure-tls",
            "--metric-resolution=10s",
            "--kubelet-request-timeout=5s",
        ]

    def _answers(self) -> bool:
        self.kubelets.require_running()
        try:
            self.true_usage()
        except OSError:
            return False
        return True

    def _register_metrics_server(self) -> None:
        """Once it listens: an aggregator that finds nobody at first tries again only after seconds."""
        client = Client(f"https://{parts.LOOPBACK}:{self._metrics_port}", unverified())
        waiting.until(
            functools.partial(_listens, client),
            "metrics-server",
            timeout_s=READY_WITHIN_S,
            state=self.metrics_server.tail,
        )
        client.close()
        services = "/api/v1/namespaces/kube-system/services"
        self.control_plane.request("POST", services, _service(self._metrics_port))
        api_services = "/apis/apiregistration.k8s.io/v1/apiservices"
        self.control_plane.request("POST", api_services, _api_service(self._metrics_port))


def _listens(client: Client) -> bool:
    try:
        client.request("GET", "/livez")
    except OSError:
        return False
    except ApiError:
        pass
    return True


def _ready(node: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))


def _service(port: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "metrics-server"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }


def _api_service(port: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"namespace": "kube-system", "name": "metrics-server", "port": port},
        },
    }
