"""Embedded mode: the server over a cluster in memory, with certificates in a directory."""

import asyncio
import ipaddress
import logging
import ssl
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from certs.files import ensure_files
from certs.tls import ServingContext
from webhook.cluster import Cluster
from webhook.metrics import Metrics
from webhook.policy import Policy
from webhook.server import Server, authority, reachable

LOG = logging.getLogger(__name__)


class Embedded:
    """An asynchronous context manager: once entered, `url` answers and `ca_file` is there.

    Whoever holds `cluster` may go on changing it on the same event loop, as a watch would.
    """

    def __init__(
        self, cluster: Cluster, policy: Policy, *, cert_dir: Path, host: str, port: int, admin_port: int
    ) -> None:
        self.cluster = cluster
        cluster.expectation.estimator = policy.estimator
        self.ca_file = cert_dir / "ca.crt"
        self.url = ""
        self._cert_dir, self._host, self._port, self._admin_port = cert_dir, host, port, admin_port
        self._server = Server(cluster, lambda: policy, Metrics())
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Embedded":
        try:
            await self._start()
        except BaseException:
            # What listens already must not outlive a start that failed: nobody else can close it.
            await self._stack.aclose()
            raise
        return self

    async def _start(self) -> None:
        dns_names, ip_addresses = {"localhost": None}, {"127.0.0.1": None}
        (ip_addresses if _is_address(self._host) else dns_names)[self._host] = None
        material = ensure_files(
            self._cert_dir, dns_names=list(dns_names), ip_addresses=list(ip_addresses), now=datetime.now(UTC)
        )
        serving = ServingContext()
        serving.load(material.leaf)
        self._stack.push_async_callback(self._server.close)
        admin_port = await self._server.listen_admin(self._host, self._admin_port)
        LOG.info("probes and metrics on http://%s", authority(self._host, admin_port))
        port = await self._server.listen(self._host, self._port, serving.context)
        trust = ssl.create_default_context(cadata=material.ca_pem.decode())
        probe = asyncio.create_task(self._server.probe(reachable(self._host), port, trust, "localhost"))
        self._stack.callback(probe.cancel)
        await self._server.until_ready()
        LOG.info("clients trust %s", self.ca_file)
        self.url = f"https://{authority(self._host, port)}/mutate"

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
