"""The command lines of the control plane's parts: as in production, but on loopback and never throttled.

No I/O here.
"""

import dataclasses
from pathlib import Path

from . import pki

LOOPBACK = "127.0.0.1"
ISSUER = "https://kubernetes.default.svc"

# The parts must never be what limits a measurement: no client-side throttling worth the name.
UNTHROTTLED = ["--kube-api-qps=5000", "--kube-api-burst=10000"]


@dataclasses.dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int


@dataclasses.dataclass(frozen=True, slots=True)
class Files:
    """What the parts read: authorities, certificates, keys and kubeconfigs."""

    authority: pki.Pair
    front_proxy_authority: pki.Pair
    front_proxy_client: pki.Pair
    apiserver: pki.Pair
    service_account_key: Path
    controller_manager: Path
    scheduler: Path


def etcd(control: Path, data: Path, ports: Ports) -> list[str]:
    client, peer = f"http://{LOOPBACK}:{ports.etcd}", f"http://{LOOPBACK}:{ports.etcd_peer}"
    return [
        str(control),
        "etcd",
        "--name=only",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=only={peer}",
        "--unsafe-no-fsync",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def kube_apiserver(control: Path, certificates: Path, files: Files, ports: Ports) -> list[str]:
    return [
        str(control),
        "kube-apiserver",
        f"--etcd-servers=http://{LOOPBACK}:{ports.etcd}",
        f"--bind-address={LOOPBACK}",
        # Endpoints refuse a loopback address, so the one of the Service `kubernetes` is not kept.
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",
        f"--secure-port={ports.apiserver}",
        # Without it a polite stop waits a minute for the watches of the others.
        "--shutdown-watch-termination-grace-period=2s",
        f"--cert-dir={certificates}",
        f"--tls-cert-file={files.apiserver.certificate}",
        f"--tls-private-key-file={files.apiserver.key}",
        f"--client-ca-file={files.authority.certificate}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={files.service_account_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        f"--requestheader-client-ca-file={files.front_proxy_authority.certificate}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={files.front_proxy_client.certificate}",
        f"--proxy-client-key-file={files.front_proxy_client.key}",
    ]


def kube_controller_manager(control: Path, certificates: Path, files: Files, ports: Ports) -> list[str]:
    return [
        str(control),
        "kube-controller-manager",
        *_controller(files.controller_manager, certificates, ports.controller_manager),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={files.service_account_key}",
        f"--root-ca-file={files.authority.certificate}",
        f"--cluster-signing-cert-file={files.authority.certificate}",
        f"--cluster-signing-key-file={files.authority.key}",
    ]


def kube_scheduler(control: Path, certificates: Path, files: Files, ports: Ports) -> list[str]:
    return [
        str(control),
        "kube-scheduler",
        *_controller(files.scheduler, certificates, ports.scheduler),
    ]


def _controller(kubeconfig: Path, certificates: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--cert-dir={certificates}",
        "--leader-elect=false",
        *UNTHROTTLED,
    ]
