"""`trimtab serve`: which mode, with which inputs, until which signal."""

import asyncio
import logging
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from webhook import api, follow, incluster, inputs
from webhook.embedded import Embedded

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What `trimtab serve` is asked for. `cluster_file` chooses embedded mode."""

    host: str
    port: int
    admin_port: int
    cluster_file: Path | None
    policy_file: Path | None
    cert_dir: Path
    kubeconfig: Path | None
    follow: bool = False


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raise ConfigError before anything has started."""
    if settings.cluster_file is not None:
        await _run_embedded(settings, settings.cluster_file)
        return
    current = inputs.load_policy(settings.policy_file)
    connection = await api.connect(settings.kubeconfig)
    try:
        await incluster.run(
            connection,
            current,
            follow_policy=settings.policy_file is None,
            listeners=incluster.Listeners(settings.host, settings.port, settings.admin_port),
            announce=_announce,
            stopped=_stopped(),
        )
    finally:
        await connection.close()


async def _run_embedded(settings: Settings, cluster_file: Path) -> None:
    cluster, current = inputs.load(cluster_file, settings.policy_file)
    LOG.info(
        "%s: %d nodes, %d bound Pods, %d namespaces",
        cluster_file,
        cluster.nodes.count,
        cluster.pods,
        len(cluster.namespaces),
    )
    server = Embedded(
        cluster,
        current,
        cert_dir=settings.cert_dir,
        host=settings.host,
        port=settings.port,
        admin_port=settings.admin_port,
    )
    stopped = asyncio.create_task(_stopped())
    async with server:
        _announce(server.url)
        if settings.follow:
            following = asyncio.create_task(follow.follow(follow.stdin(), cluster, time.monotonic))
            following.add_done_callback(lambda task: task.cancelled() or task.exception())
        await stopped


def _announce(url: str) -> None:
    sys.stdout.write(f"listening on {url}\n")
    sys.stdout.flush()


async def _stopped() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
