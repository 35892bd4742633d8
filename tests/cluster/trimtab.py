"""Trimtab installed from its manifests and run as its real process, with exactly the rights they give it."""

import dataclasses
import functools
import http.client
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from . import balancer, parts, process, waiting
from .client import ApiError
from .control_plane import ControlPlane

OVERLAY = Path(__file__).with_name("overlay")
NAMESPACE = "trimtab-system"
NAME = "trimtab"
WEBHOOK = "placement.trimtab.dev"
STEERING = "trimtab.dev/steering"
DECISION = "trimtab.dev/decision"
PROBE_NAMESPACE = "trimtab-probe"
READY_WITHIN_S = 60

_CONFIGURATION = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"


@dataclasses.dataclass(frozen=True, slots=True)
class Replica:
    process: process.Process
    port: int
    admin_port: int

    @property
    def admin_url(self) -> str:
        return f"http://{parts.LOOPBACK}:{self.admin_port}"


class Trimtab:
    """One or more replicas; several stand behind a balancer, as they would behind a Service."""

    def __init__(
        self, control_plane: ControlPlane, *, replicas: int = 1, arguments: Sequence[str] = ()
    ) -> None:
        self.control_plane = control_plane
        self._arguments = arguments
        self.replicas: list[Replica] = []
        self._balancer: process.Process | None = None
        self._count = replicas
        self.port = 0

    def start(self) -> Self:
        """Install, start every replica and wait until the API server's calls are answered."""
        try:
            self.install()
            for replica in self.replicas:
                replica.process.start()
            if self._balancer is not None:
                self._balancer.start()
            self.wait_ready()
            self.wait_called()
        except BaseException:
            self.stop()
            raise
        return self

    def install(self) -> None:
        """Apply the manifests, lead the calls to this machine, make the processes without starting them."""
        self.control_plane.kubectl("apply", "-k", str(OVERLAY))
        kubeconfig = self.control_plane.service_account_kubeconfig(NAMESPACE, NAME)
        self.replicas = [self._replica(index, kubeconfig) for index in range(self._count)]
        self.port = self.replicas[0].port
        if self._count > 1:
            self.port = process.free_port()
            backends = [(replica.port, replica.admin_port) for replica in self.replicas]
            self._balancer = balancer.balancer(self.port, backends, self.control_plane.directory)
        self.receive()

    def receive(self) -> None:
        """Lead the API server's calls here, where another Trimtab installed in the same cluster has them."""
        service = {"clientConfig": {"service": {"port": self.port}}}
        self.control_plane.request(
            "PATCH",
            _CONFIGURATION,
            {"webhooks": [{"name": WEBHOOK, **service}]},
            content_type="application/strategic-merge-patch+json",
        )

    def uninstall(self) -> None:
        """Stop, and delete what was installed, the webhook configuration first."""
        self.stop()
        self.control_plane.request("DELETE", _CONFIGURATION)
        self.control_plane.kubectl("delete", "-k", str(OVERLAY), "--ignore-not-found", "--wait=false")

    def stop(self) -> None:
        """End all processes without draining; what was installed stays, as after a crash of all replicas."""
        process.stop_all(self.processes())

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_replica(self, index: int = 0) -> None:
        """Start one replica again and wait until it is ready."""
        self.replicas[index].process.start()
        self.wait_ready(index)

    def stop_replica(self, index: int = 0) -> None:
        """End one replica politely, so that it drains."""
        self.replicas[index].process.stop()

    def kill(self, index: int = 0) -> None:
        """End one replica as `kill -9` does."""
        self.replicas[index].process.kill()

    def restart(self, index: int = 0) -> None:
        self.stop_replica(index)
        self.start_replica(index)

    def wait_ready(self, index: int | None = None) -> None:
        """Wait until `/readyz` of one replica, or of each, says so."""
        for replica in self.replicas if index is None else [self.replicas[index]]:
            waiting.until(
                functools.partial(_ready, replica),
                f"{replica.process.name} ready",
                timeout_s=READY_WITHIN_S,
                state=replica.process.tail,
            )

    def wait_called(self) -> None:
        """Wait until the API server really calls it: a Pod of a dry run comes back decided."""
        self.enable(PROBE_NAMESPACE)
        waiting.until(self._decides, "the webhook called", timeout_s=READY_WITHIN_S, state=self._tails)

    def enable(self, namespace: str, mode: str = "enabled") -> None:
        """Create the namespace where it is missing, and switch steering on in it."""
        labelled = {"metadata": {"name": namespace, "labels": {STEERING: mode}}}
        try:
            self.control_plane.request("PATCH", f"/api/v1/namespaces/{namespace}", labelled)
        except ApiError as error:
            if error.status != 404:
                raise
            self.control_plane.request("POST", "/api/v1/namespaces", labelled)

    def metrics(self, index: int = 0) -> dict[str, float]:
        """What a replica counts: sample (name and labels as exposed) to value."""
        return dict(_samples(_get(f"{self.replicas[index].admin_url}/metrics")))

    def processes(self) -> list[process.Process]:
        running = [replica.process for replica in self.replicas]
        return running if self._balancer is None else [self._balancer, *running]

    def _replica(self, index: int, kubeconfig: Path) -> Replica:
        port, admin_port = process.free_port(), process.free_port()
        argv: list[str | Path] = [
            Path(sys.executable).with_name("trimtab"),
            "serve",
            f"--kubeconfig={kubeconfig}",
            f"--host={parts.LOOPBACK}",
            f"--port={port}",
            f"--admin-port={admin_port}",
            *self._arguments,
        ]
        log = self.control_plane.directory / f"trimtab-{index}.log"
        return Replica(process.Process(f"trimtab-{index}", argv, log=log), port, admin_port)

    def _decides(self) -> bool:
        pod = {
            "metadata": {"name": "probe"},
            "spec": {"containers": [{"name": "probe", "image": "probe"}]},
        }
        try:
            answer: dict[str, Any] = self.control_plane.request(
                "POST", f"/api/v1/namespaces/{PROBE_NAMESPACE}/pods?dryRun=All", pod
            )
        except ApiError:
            return False  # the namespace has no default ServiceAccount yet
        return DECISION in answer["metadata"].get("annotations", {})

    def _tails(self) -> str:
        return "\n".join(f"{running.name}:\n{running.tail()}" for running in self.processes())


def _ready(replica: Replica) -> bool:
    replica.process.require_running()
    try:
        _get(f"{replica.admin_url}/readyz")
    except (OSError, http.client.HTTPException):
        return False
    return True


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except urllib.error.HTTPError as error:
        error.close()
        raise


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            sample, _, value = line.rpartition(" ")
            yield sample, float(value)
