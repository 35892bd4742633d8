"""Watch events by hand: a stream of JSON lines that change an embedded cluster as a watch would."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import suppress

import msgspec
from msgspec import Raw, Struct

from webhook import kube
from webhook.cluster import Cluster
from webhook.quantity import QuantityError

LOG = logging.getLogger(__name__)


class _Event(Struct):
    type: str
    object: Raw


class _Typed(Struct):
    kind: str


async def follow(lines: AsyncIterable[bytes], cluster: Cluster, now: Callable[[], float]) -> None:
    """Apply `{"type": "ADDED|MODIFIED|DELETED", "object": {…}}`, one a line, until the stream ends."""
    async for line in lines:
        try:
            apply(line, cluster, now())
        except (msgspec.DecodeError, QuantityError, RecursionError) as error:
            LOG.warning("follow: a line is no watch event of a Pod or Node: %s", error)


def apply(line: bytes, cluster: Cluster, now: float) -> None:
    """Apply one event of a Pod or Node, ignore others; raise DecodeError or QuantityError for a bad line."""
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


async def stdin() -> AsyncIterator[bytes]:
    """Yield the lines of standard input, be it a pipe, a file or a terminal.

    A thread reads it, because asyncio cannot read files; it ends with the process.
    """
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def put(line: bytes | None) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=_read, args=(put,), daemon=True).start()
    while (line := await lines.get()) is not None:
        yield line


def _read(put: Callable[[bytes | None], None]) -> None:
    rest = b""
    # Not through sys.stdin: a thread that waits inside its lock cannot be left behind at exit.
    with suppress(RuntimeError):  # the loop has ended, and nobody waits for lines any more
        while chunk := os.read(0, 1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                put(line)
        put(rest or None)
        put(None)
