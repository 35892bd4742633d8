"""List, then watch: keep the cache in step with the API server, one task a kind.

A list replaces what is known, so that what vanished in a gap does not live on; a watch goes on from the
list's version, also after its connection broke. Only what the API server or a line says leads back to a list:
410 at once, all else after a backoff with jitter.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from webhook.api import Api, ApiError

LOG = logging.getLogger(__name__)

PAGE = 500
# The server ends a watch after a while of its own choosing within this; a connection silent for longer
# than a bookmark takes to come (about a minute) is dead.
WATCH_S = 300
SILENCE_S = 120.0
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.5, 30.0
# Events applied between two chances for other tasks to run: about a millisecond of work.
BATCH = 50

GONE = 410


T = TypeVar("T")


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Struct):
    metadata: _ListMeta
    items: list[Raw] | None = None


class _Event(Struct):
    type: str
    object: Raw


class _Versioned(Struct):
    metadata: _ListMeta


class _Status(Struct):
    code: int = 0
    message: str = ""


class WatchError(Exception):
    """A watch ended with an error event; `gone` says that a new list is needed at once."""

    def __init__(self, code: int, message: str) -> None:
        self.gone = code == GONE
        super().__init__(f"watch: {code} {message}")


@dataclass(slots=True, kw_only=True)
class Kind(Generic[T]):
    """One kind to follow, and what to do with its objects.

    `replace` takes a whole list, `set` and `remove` one object; `restarted` is called before each new list
    but the first; `synced` is set after the first.
    """

    name: str
    path: str
    type: type[T]
    replace: Callable[[list[T]], None]
    set: Callable[[T], None]
    remove: Callable[[T], None]
    restarted: Callable[[], None]
    field_selector: str = ""
    synced: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def query(self) -> dict[str, str | int]:
        return {"fieldSelector": self.field_selector} if self.field_selector else {}

    def decode(self, raw: Raw) -> T | None:
        """Decode one object; one that cannot be read is left out, and does not stop the others."""
        try:
            return msgspec.json.decode(raw, type=self.type)
        except (msgspec.DecodeError, RecursionError) as error:
            LOG.warning("%s: an object cannot be read: %s", self.name, error)
            return None

    def apply(self, event: str, raw: Raw) -> None:
        if (item := self.decode(raw)) is not None:
            (self.remove if event == "DELETED" else self.set)(item)


async def follow(api: Api, kind: Kind[T]) -> None:
    """Keep `kind` in step for ever."""
    version, backoff = "", FIRST_BACKOFF_S
    while True:
        before = version
        try:
            if not version:
                before = version = await _list(api, kind)
                kind.synced.set()
                backoff = FIRST_BACKOFF_S
            async for seen in _watch(api, kind, version):
                version, backoff = seen, FIRST_BACKOFF_S
            if version != before:
                continue
            # It ended without a word: there is no hurry to ask again.
        except WatchError as error:
            LOG.info("%s: %s; listing again", kind.name, error)
            version = ""
            if error.gone:
                kind.restarted()
                continue
        except msgspec.DecodeError as error:
            LOG.warning("%s: %s; listing again within %.1f s", kind.name, error, backoff)
            version = ""
        except ApiError as error:
            # The connection, or a passing trouble: what was seen so far still holds.
            LOG.warning("%s: %s; again within %.1f s", kind.name, error, backoff)
            version = "" if error.status == GONE else version
        await asyncio.sleep(random.uniform(backoff / 2, backoff))  # noqa: S311, jitter
        backoff = min(backoff * 2, LAST_BACKOFF_S)
        if before and not version:
            kind.restarted()


async def _list(api: Api, kind: Kind[T]) -> str:
    """Replace the cache with a whole list, read page by page; return its version."""
    items: list[T] = []
    query: dict[str, str | int] = {**kind.query, "limit": PAGE}
    while True:
        page = msgspec.json.decode(await api.get(kind.path, query), type=_Page)
        for start in range(0, len(page.items or ()), BATCH):
            batch = map(kind.decode, (page.items or [])[start : start + BATCH])
            items += [item for item in batch if item is not None]
            await asyncio.sleep(0)
        if not page.metadata.continue_:
            kind.replace(items)
            return page.metadata.resource_version
        query["continue"] = page.metadata.continue_


async def _watch(api: Api, kind: Kind[T], version: str) -> AsyncIterator[str]:
    """Apply events from `version` on until the server ends the watch; yield each version seen."""
    query: dict[str, str | int] = {
        **kind.query,
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": random.randint(WATCH_S, 2 * WATCH_S),  # noqa: S311, not all at once
    }
    applied = 0
    async for line in api.lines(kind.path, query, silence_s=SILENCE_S):
        if not line:
            continue
        event = msgspec.json.decode(line, type=_Event)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=_Status)
            raise WatchError(status.code, status.message)
        if event.type != "BOOKMARK":
            kind.apply(event.type, event.object)
        yield msgspec.json.decode(event.object, type=_Versioned).metadata.resource_version
        applied += 1
        if applied % BATCH == 0:
            await asyncio.sleep(0)
