"""In a cluster: certificates from the Secret, caches from the API server, then the server."""

import asyncio
import gc
import logging
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import certs.secret
from certs.pki import service_names
from certs.tls import PairError, ServingContext
from webhook import kinds, watch
from webhook.admission import OWN_NAMESPACE
from webhook.api import Api, ApiError
from webhook.cluster import SHADOW, Cluster
from webhook.metrics import Metrics
from webhook.policy import Policy
from webhook.policyholder import PolicyHolder
from webhook.server import Server, authority, reachable
from webhook.usage import podmetrics
from webhook.usage.poll import Poller

LOG = logging.getLogger(__name__)

SERVICE = "trimtab"
SECRET = "trimtab-tls"  # noqa: S105, a name
CONFIGURATION = "trimtab"

CERT_CHECK_S = 60.0
RETRY_S = 2.0
# After SIGTERM, for as long as endpoints take to follow: the API server goes on using open connections.
DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Listeners:
    host: str
    port: int
    admin_port: int


async def run(
    api: Api,
    current: Policy,
    *,
    follow_policy: bool,
    listeners: Listeners,
    announce: Callable[[str], None],
    stopped: Awaitable[object],
) -> None:
    """Serve until `stopped` is done; `announce` is told the address once Pods may be sent there."""
    cluster, metrics = Cluster(unknown=SHADOW, replica=secrets.token_hex(4)), Metrics()
    holder = PolicyHolder(current, cluster)
    server = Server(cluster, lambda: holder.current, metrics)

    def restarted(name: str) -> None:
        metrics.relists.labels(name).inc()

    watched: list[watch.Kind[Any]] = [*kinds.kinds(cluster, time.monotonic, restarted)]
    if follow_policy:
        watched.append(kinds.policy_kind(holder, restarted))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.close)
        await server.listen_admin(listeners.host, listeners.admin_port)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        running = [tasks.create_task(watch.follow(api, kind)) for kind in watched]
        # Nothing waits for these: without them decisions are a little less good.
        running += [
            tasks.create_task(watch.follow(api, kind)) for kind in kinds.owner_kinds(cluster, restarted)
        ]
        failed = metrics.pod_usage_failures.inc
        running.append(tasks.create_task(podmetrics.poll(api, cluster, time.monotonic, failed=failed)))
        poller = Poller(api, cluster, lambda: holder.current, time.monotonic, metrics)
        running.append(tasks.create_task(_fill(cluster, watched, poller)))
        running.append(tasks.create_task(_serve(api, server, metrics, listeners, announce)))
        await stopped
        server.stopping = True
        await asyncio.sleep(DRAIN_S)
        for task in running:
            task.cancel()


async def _fill(cluster: Cluster, watched: list[watch.Kind[Any]], poller: Poller) -> None:
    """Call the cluster synced once every kind is listed and readings were asked for; poll for ever."""
    for kind in watched:
        await kind.synced.wait()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(poller.run())
        await poller.asked.wait()
        # What is resident now stays: the collector need not walk it again and again.
        gc.collect()
        gc.freeze()
        cluster.synced = True
        LOG.info("caches are synced: %d nodes, %d bound Pods", cluster.nodes.count, cluster.pods)


async def _serve(
    api: Api, server: Server, metrics: Metrics, listeners: Listeners, announce: Callable[[str], None]
) -> None:
    """Get a certificate that the API server trusts, then listen; look after the certificate for ever."""
    serving = ServingContext()
    trust = ssl.create_default_context(cadata=await _certified(api, serving, metrics))
    port = await server.listen(listeners.host, listeners.port, serving.context)
    name = service_names(SERVICE, OWN_NAMESPACE)[0]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.probe(reachable(listeners.host), port, trust, name))
        await server.until_ready()
        announce(f"https://{authority(listeners.host, port)}/mutate")
        while True:
            await asyncio.sleep(CERT_CHECK_S)
            trust.load_verify_locations(cadata=await _certified(api, serving, metrics))


async def _certified(api: Api, serving: ServingContext, metrics: Metrics) -> str:
    """Load the Secret's pair, made where there is none, and publish its CA; return the CA as PEM.

    What fails is tried again; until then the pair loaded before goes on serving.
    """
    while True:
        try:
            material = await certs.secret.ensure(
                api,
                namespace=OWN_NAMESPACE,
                name=SECRET,
                dns_names=service_names(SERVICE, OWN_NAMESPACE),
                now=datetime.now(UTC),
            )
            serving.load(material.leaf)
            await certs.secret.publish(api, configuration=CONFIGURATION, ca_pem=material.ca_pem)
        except PairError as error:
            metrics.reload_failures.inc()
            LOG.warning("certificate: %s; the one before stays", error)
        except (certs.secret.ApiError, ApiError) as error:
            LOG.warning("certificate: %s; again in %.0f s", error, RETRY_S)
        else:
            return material.ca_pem.decode()
        await asyncio.sleep(RETRY_S)
