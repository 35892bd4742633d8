"""Waiting for something to become true, with a message that says what was awaited and how it stood."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotInTimeError(AssertionError):
    """What was awaited did not happen; an AssertionError, so that the test reads as failed, not as broken."""


def until(
    check: Callable[[], T],
    what: str,
    *,
    timeout_s: float,
    poll_s: float = 0.1,
    state: Callable[[], object] | None = None,
) -> T:
    """The first true answer of `check`; after the time limit NotInTimeError with the last state."""
    deadline = time.monotonic() + timeout_s
    while not (answer := check()):
        if time.monotonic() > deadline:
            shown = answer if state is None else state()
            raise NotInTimeError(f"not within {timeout_s:g} s: {what} (last: {shown})")
        time.sleep(poll_s)
    return answer
