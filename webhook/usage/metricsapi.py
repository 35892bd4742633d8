"""Readings from metrics.k8s.io, as metrics-server serves them."""

import asyncio
import logging
import re
from datetime import datetime

import msgspec
from msgspec import Raw, Struct

from webhook import kube, quantity
from webhook.api import Api, ApiError
from webhook.quantity import QuantityError
from webhook.snapshot import Snapshot
from webhook.usage.answer import Answer, Reading, Report, SourceError, account

LOG = logging.getLogger(__name__)

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
# metrics-server has something new every 15 s by default; asking more often than that only makes the
# moment known at which it came.
INTERVAL_S = 5.0
DEFAULT_WINDOW_S = 15.0

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")


class _List(Struct):
    items: list[Raw] | None = None


class MetricsApi:
    """The resource metrics API behind one API server."""

    def __init__(self, api: Api) -> None:
        self.interval_s = INTERVAL_S
        self._api = api

    async def ask(self, nodes: Snapshot) -> Answer:
        """Return a reading of each node that it lists; raise SourceError where it lists none."""
        try:
            readings = await asyncio.to_thread(decode, await self._api.get(PATH))
        except (ApiError, msgspec.DecodeError) as error:
            raise SourceError(str(error)) from error
        report = Report()
        return Answer(await account(readings, nodes, report), report)


def decode(body: bytes) -> list[Reading]:
    """Return the readings in a NodeMetricsList; one that cannot be read is left out."""
    readings = []
    for raw in msgspec.json.decode(body, type=_List).items or ():
        try:
            item = msgspec.json.decode(raw, type=kube.NodeMetrics)
            cpu, memory = amounts(item)
        except (msgspec.DecodeError, QuantityError, KeyError) as error:
            LOG.debug("usage: a reading cannot be read: %s", error)
            continue
        readings.append(
            Reading(
                item.metadata.name or "",
                cpu,
                memory,
                window=duration_s(item.window),
                timestamp=seconds_of(item.timestamp),
            )
        )
    return readings


def amounts(reading: kube.NodeMetrics) -> tuple[float, float]:
    """Return milli-CPU and bytes; raise KeyError or QuantityError where one is missing or no quantity.

    Less than a thousandth of a CPU is not rounded up to one: that would hide a slip of units.
    """
    nano = quantity.nano(str(reading.usage[kube.CPU]))
    return nano / 1e6, float(kube.amount(kube.MEMORY, reading.usage[kube.MEMORY]))


def seconds_of(timestamp: str | None) -> float | None:
    """Return a source's own timestamp in seconds of the epoch; None where it has none that can be read."""
    try:
        return datetime.fromisoformat(timestamp or "").timestamp()
    except (ValueError, OverflowError):
        return None


def duration_s(text: str | None) -> float:
    """Return a Go duration such as 10.062s or 1m0s in seconds; metrics-server's default where it is none."""
    match = _DURATION.fullmatch(text or "")
    if match is None or not any(match.groups()):
        return DEFAULT_WINDOW_S
    hours, minutes, secs = (float(group or 0) for group in match.groups())
    return hours * 3600 + minutes * 60 + secs
