"""Readings from metrics.k8s.io, polled."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec
from msgspec import Raw, Struct

from webhook import kube
from webhook.api import Api, ApiError
from webhook.cluster import Cluster
from webhook.quantity import QuantityError

LOG = logging.getLogger(__name__)

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
# metrics-server has something new every 15 s by default; asking more often than that only makes the
# moment known at which it came.
POLL_S = 5.0
DEFAULT_WINDOW_S = 15.0

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


class _List(Struct):
    items: list[Raw] | None = None


async def poll(
    api: Api, cluster: Cluster, now: Callable[[], float], *, failed: Callable[[], None], asked: asyncio.Event
) -> None:
    """Take in readings for ever; one line is logged when the source fails, and one when it answers again.

    `asked` is set after the first answer, or failure: a source that is down is nothing to wait for.
    """
    failing = False
    while True:
        try:
            page = msgspec.json.decode(await api.get(PATH), type=_List)
            await take(page.items or (), cluster, now(), time.time())
            if failing:
                LOG.info("usage: metrics.k8s.io answers again")
            failing = False
        except (ApiError, msgspec.DecodeError) as error:
            failed()
            if not failing:
                LOG.warning("usage: metrics.k8s.io fails, readings go stale: %s", error)
            failing = True
        asked.set()
        await asyncio.sleep(random.uniform(0.8, 1.2) * POLL_S)  # noqa: S311, not all replicas at once


async def take(items: Iterable[Raw], cluster: Cluster, now: float, wall: float) -> None:
    """Take in one answer, with a chance for other tasks to run between batches."""
    for count, raw in enumerate(items):
        if count % 200 == 199:
            await asyncio.sleep(0)
        try:
            reading = msgspec.json.decode(raw, type=kube.NodeMetrics)
            cpu, memory = amounts(reading)
        except (msgspec.DecodeError, QuantityError, KeyError) as error:
            LOG.debug("usage: a reading cannot be read: %s", error)
            continue
        cluster.set_usage(
            reading.metadata.name or "",
            cpu,
            memory,
            timestamp=seconds_of(reading.timestamp),
            window=duration_s(reading.window),
            now=now,
            wall=wall,
        )


def amounts(reading: kube.NodeMetrics) -> tuple[int, int]:
    """Return milli-CPU and bytes; raise KeyError or QuantityError where one is missing or no quantity."""
    return kube.amount(kube.CPU, reading.usage[kube.CPU]), kube.amount(
        kube.MEMORY, reading.usage[kube.MEMORY]
    )


def seconds_of(timestamp: str | None) -> float | None:
    """Return a source's own timestamp in seconds of the epoch; None where it has none that can be read."""
    try:
        return datetime.fromisoformat(timestamp or "").timestamp()
    except ValueError:
        return None


def duration_s(text: str | None) -> float:
    """Return a Go duration such as 10.062s or 1m0s in seconds; metrics-server's default where it is none."""
    match = _DURATION.fullmatch(text or "")
    if match is None or not any(match.groups()):
        return DEFAULT_WINDOW_S
    hours, minutes, secs = (float(group or 0) for group in match.groups())
    return hours * 3600 + minutes * 60 + secs
