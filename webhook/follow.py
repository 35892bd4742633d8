"""Watch events by hand: a stream of JSON lines that change an embedded cluster as a watch would."""

import asyncio
import logging
import sys
from collections.abc import Callable

import msgspec
from msgspec import Raw, Struct

from webhook import kube
from webhook.cluster import Cluster

LOG = logging.getLogger(__name__)

LONGEST_LINE = 16 * 1024 * 1024


class _Event(Struct):
    type: str
    object: Raw


class _Typed(Struct):
    kind: str


async def follow(lines: asyncio.StreamReader, cluster: Cluster, now: Callable[[], float]) -> None:
    """Apply `{"type": "ADDED|MODIFIED|DELETED", "object": {…}}`, one a line, until the stream ends."""
    async for line in lines:
        try:
            apply(line, cluster, now())
        except msgspec.DecodeError as error:
            LOG.warning("follow: a line is no watch event of a Pod or Node: %s", error)


def apply(line: bytes, cluster: Cluster, now: float) -> None:
    """Apply one event of a Pod or Node, ignore others; raise DecodeError for a line that is no event."""
    event = msgspec.json.decode(line, type=_Event)
    kind = msgspec.json.decode(event.object, type=_Typed).kind
    deleted = event.type == "DELETED"
    if kind == "Pod":
        pod = msgspec.json.decode(event.object, type=kube.Pod)
        if deleted:
            cluster.remove_pod(kube.uid(pod))
        else:
            cluster.set_pod(pod, now)
    elif kind == "Node":
        node = msgspec.json.decode(event.object, type=kube.Node)
        if deleted:
            cluster.remove_node(kube.name(node))
        else:
            cluster.set_node(node)


async def stdin() -> asyncio.StreamReader:
    """Return standard input as a stream of lines."""
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader
