"""Long loops on the event loop, in which other tasks get their turn: a Pod waits for none of them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

T = TypeVar("T")

_BATCH = 200


async def turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items; let other tasks run after every batch of them."""
    for count, item in enumerate(items):
        if count % _BATCH == _BATCH - 1:
            await asyncio.sleep(0)
        yield item
