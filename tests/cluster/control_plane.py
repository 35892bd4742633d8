"""The real etcd, kube-apiserver, kube-controller-manager and kube-scheduler as processes on loopback.

Nothing of theirs is simulated: admission calls webhooks over TLS, RBAC decides who may do what, the stock
scheduler places Pods. What stands in for kubelets is in `simulation`.
"""

import contextlib
import dataclasses
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from . import build, kubeconfig, parts, pki, process, waiting
from .client import ApiError, Client, unverified

READY_WITHIN_S = 120
TOKEN_LIFETIME_S = 24 * 60 * 60


class KubectlError(Exception):
    """kubectl failed; the message is what it said."""


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    process: process.Process
    ready: Callable[[], bool]


class ControlPlane:
    """A control plane in a directory of its own, which goes when it stops."""

    def __init__(self, directory: Path | None = None, *, binary: Path | None = None) -> None:
        self.directory = directory or Path(tempfile.mkdtemp(prefix="trimtab-cluster-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self.binary = binary or build.binary(build.CONTROL)
        self._ports = parts.Ports(*(process.free_port() for _ in dataclasses.fields(parts.Ports)))
        self.url = f"https://{parts.LOOPBACK}:{self._ports.apiserver}"
        self.authority = pki.Authority("authority", self.directory)
        self.admin = self.authority.issue("admin", groups=["system:masters"])
        self.kubeconfig = self._certificate_kubeconfig("admin", self.admin)
        self.client = Client(self.url, self.ssl_context())
        self.parts = self._parts(self._files())

    def start(self) -> Self:
        """Start every part and wait until each is ready and Pods can be created in `default`."""
        try:
            for name in self.parts:
                self.parts[name].process.start()
                if name != "etcd":  # the API server waits for etcd by itself
                    self.wait_ready(name)
            waiting.until(self._default_service_account, "a default ServiceAccount", timeout_s=READY_WITHIN_S)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End what was started and remove the directory."""
        self.client.close()
        process.stop_all(self.processes())
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start_part(self, name: str) -> None:
        """Start one part again, by its name (say `kube-apiserver`), and wait until it is ready."""
        self.parts[name].process.start()
        self.wait_ready(name)

    def stop_part(self, name: str, *, kill: bool = False) -> None:
        """Stop one part; with `kill` as a crash would."""
        if name == "kube-apiserver":
            self.client.close()
        stop = self.parts[name].process.kill if kill else self.parts[name].process.stop
        stop()

    def restart(self, name: str, *, kill: bool = False) -> None:
        self.stop_part(name, kill=kill)
        self.start_part(name)

    def wait_ready(self, name: str) -> None:
        part = self.parts[name]

        def ready() -> bool:
            part.process.require_running()
            with contextlib.suppress(OSError, ApiError):
                return part.ready()
            return False

        waiting.until(ready, f"{name} ready", timeout_s=READY_WITHIN_S, state=part.process.tail)

    def processes(self) -> list[process.Process]:
        return [part.process for part in self.parts.values()]

    def ssl_context(self) -> ssl.SSLContext:
        """The admin's TLS context, for clients of your own."""
        context = ssl.create_default_context(cafile=str(self.authority.files.certificate))
        context.load_cert_chain(self.admin.certificate, self.admin.key)
        return context

    def request(self, method: str, path: str, body: Any = None, *, content_type: str | None = None) -> Any:
        """One request as admin; PATCH is a merge patch unless the content type says otherwise."""
        return self.client.request(method, path, body, content_type=content_type)

    def kubectl(self, *args: str, input: str | None = None) -> str:  # noqa: A002  named as subprocess names it
        """Run kubectl as admin and return what it printed."""
        command = [str(self.binary), "kubectl", f"--kubeconfig={self.kubeconfig}", *args]
        done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a token of the ServiceAccount: exactly its rights, none of the admin's."""
        answer = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"spec": {"expirationSeconds": TOKEN_LIFETIME_S}},
        )
        return kubeconfig.with_token(
            self.directory / f"{namespace}-{name}.kubeconfig",
            server=self.url,
            authority=self.authority.files.certificate,
            token=answer["status"]["token"],
        )

    def _default_service_account(self) -> bool:
        with contextlib.suppress(ApiError):
            return bool(self.request("GET", "/api/v1/namespaces/default/serviceaccounts/default"))
        return False

    def _certificate_kubeconfig(self, name: str, user: pki.Pair) -> Path:
        path = self.directory / f"{name}.kubeconfig"
        authority = self.authority.files.certificate
        return kubeconfig.with_certificate(path, server=self.url, authority=authority, user=user)

    def _files(self) -> parts.Files:
        front_proxy = pki.Authority("front-proxy-authority", self.directory)
        hosts = ["localhost", parts.LOOPBACK, "10.0.0.1", "kubernetes", "kubernetes.default.svc"]
        controllers = {
            name: self._certificate_kubeconfig(name, self.authority.issue(f"system:{name}"))
            for name in ("kube-controller-manager", "kube-scheduler")
        }
        return parts.Files(
            authority=self.authority.files,
            front_proxy_authority=front_proxy.files,
            front_proxy_client=front_proxy.issue("front-proxy-client"),
            apiserver=self.authority.issue("kube-apiserver", hosts=hosts),
            service_account_key=pki.service_account_key(self.directory),
            controller_manager=controllers["kube-controller-manager"],
            scheduler=controllers["kube-scheduler"],
        )

    def _parts(self, files: parts.Files) -> dict[str, Part]:
        ports, certificates = self._ports, self.directory / "serving"
        common = (self.binary, certificates, files, ports)
        etcd = Client(f"http://{parts.LOOPBACK}:{ports.etcd}")
        return {
            "etcd": self._part(
                "etcd",
                parts.etcd(self.binary, self.directory / "etcd", ports),
                lambda: bool(_once(etcd, "/health")),
            ),
            "kube-apiserver": self._part(
                "kube-apiserver",
                parts.kube_apiserver(*common),
                lambda: bool(self.request("GET", "/readyz") == "ok"),
            ),
            "kube-controller-manager": self._part(
                "kube-controller-manager",
                parts.kube_controller_manager(*common),
                _healthy(ports.controller_manager),
            ),
            "kube-scheduler": self._part(
                "kube-scheduler", parts.kube_scheduler(*common), _healthy(ports.scheduler)
            ),
        }

    def _part(self, name: str, argv: list[str], ready: Callable[[], bool]) -> Part:
        return Part(process.Process(name, argv, log=self.directory / f"{name}.log"), ready)


def _healthy(port: int) -> Callable[[], bool]:
    client = Client(f"https://{parts.LOOPBACK}:{port}", unverified())
    return lambda: bool(_once(client, "/healthz") == "ok")


def _once(client: Client, path: str) -> Any:
    try:
        return client.request("GET", path)
    finally:
        client.close()
