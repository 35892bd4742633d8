"""Readings of Pods from metrics.k8s.io, polled by namespace and only where Pods are steered.

The answer for a whole large cluster is tens of megabytes; by namespace it comes in pieces, one after the
other over the round, and each is read in a thread.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from webhook import kube
from webhook.api import Api, ApiError
from webhook.cluster import Cluster
from webhook.quantity import QuantityError
from webhook.usage import metricsapi

LOG = logging.getLogger(__name__)

PATH = "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods"
PODS = "/api/v1/namespaces/{}/pods"
# metrics-server has something new every 15 s by default; a round of many namespaces takes longer.
ROUND_S = 15.0
LEAST_PAUSE_S = 0.05
BATCH = 500

T = TypeVar("T")


class _Meta(Struct, frozen=True):
    continue_: str = msgspec.field(default="", name="continue")


class _List(Struct):
    items: list[Raw] | None = None
    metadata: _Meta = _Meta()


@dataclass(frozen=True, slots=True)
class Reading:
    """A Pod's use by the sum of its containers: None where one of them does not say."""

    name: str
    cpu_milli: float | None
    memory_bytes: float | None
    timestamp: float | None


async def poll(api: Api, cluster: Cluster, now: Callable[[], float], *, failed: Callable[[], None]) -> None:
    """Take in readings for ever; one line is logged when a round fails, and one when all answer again."""
    failing = False
    while True:
        wanted = _wanted(cluster)
        trouble: ApiError | msgspec.DecodeError | None = None
        for namespace in wanted:
            await _pause(max(LEAST_PAUSE_S, ROUND_S / len(wanted)))
            try:
                await ask(api, cluster, namespace, now)
            except (ApiError, msgspec.DecodeError) as error:
                failed()
                trouble = error
        if trouble is not None and not failing:
            LOG.warning("pod usage: metrics.k8s.io fails, nothing more is learned: %s", trouble)
        if failing and trouble is None and wanted:
            LOG.info("pod usage: metrics.k8s.io answers again")
        if wanted:
            failing = trouble is not None
        else:
            await _pause(ROUND_S)


async def _pause(seconds: float) -> None:
    await asyncio.sleep(random.uniform(0.8, 1.2) * seconds)  # noqa: S311, not all replicas at once


def _wanted(cluster: Cluster) -> list[str]:
    """Name the namespaces to ask about: those that are known to be steered, and have Pods to learn from."""
    if not cluster.expectation.estimator.learn:
        return []
    names = {*cluster.learning.namespaces(), *cluster.unenrolled}
    return sorted(name for name in names if name in cluster.namespaces)


async def ask(api: Api, cluster: Cluster, namespace: str, now: Callable[[], float]) -> None:
    """Take in one namespace; raise ApiError or DecodeError where that fails."""
    if namespace in cluster.unenrolled:
        cluster.enroll(namespace, await _pods(api, namespace))
    body = await api.get(PATH.format(namespace))
    readings = await asyncio.to_thread(lambda: list(_readings(body)))
    at = now()
    for start in range(0, len(readings), BATCH):
        for reading in readings[start : start + BATCH]:
            cluster.set_pod_usage(
                namespace,
                reading.name,
                reading.cpu_milli,
                reading.memory_bytes,
                timestamp=reading.timestamp,
                now=at,
            )
        await asyncio.sleep(0)


async def _pods(api: Api, namespace: str) -> list[kube.Pod]:
    """Return the Pods of a namespace that came to be steered while they ran; one that is odd is left out."""
    found: list[kube.Pod] = []
    query: dict[str, str | int] = {"limit": BATCH}
    while True:
        body = await api.get(PODS.format(namespace), query)
        page = await asyncio.to_thread(msgspec.json.decode, body, type=_List)
        found += await asyncio.to_thread(lambda raws: list(_decoded(raws, kube.Pod)), page.items or [])
        if not page.metadata.continue_:
            return found
        query["continue"] = page.metadata.continue_


def _readings(body: bytes) -> Iterator[Reading]:
    page = msgspec.json.decode(body, type=_List)
    for item in _decoded(page.items or [], kube.PodMetrics):
        yield reading(item)


def _decoded(raws: list[Raw], kind: type[T]) -> Iterator[T]:
    """Decode one by one: others in the process run in between, and what is odd does not stop the rest."""
    for raw in raws:
        try:
            yield msgspec.json.decode(raw, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            LOG.debug("pod usage: an object cannot be read: %s", error)


def reading(item: kube.PodMetrics) -> Reading:
    """Return what an item says of the Pod."""
    return Reading(
        item.metadata.name or "",
        _sum(item, kube.CPU),
        _sum(item, kube.MEMORY),
        metricsapi.seconds_of(item.timestamp),
    )


def _sum(item: kube.PodMetrics, resource: str) -> float | None:
    total = 0.0
    for container in item.containers or ():
        try:
            total += kube.amount(resource, (container.usage or {})[resource])
        except (QuantityError, KeyError):
            return None
    return total if item.containers else None
