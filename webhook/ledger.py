"""The ledger: load that readings cannot show yet, kept in the snapshot's columns. No I/O here.

A Pod's expected load is *reserved* from its admission over the nodes its terms name, by the chance
that the scheduler takes each; at binding it moves to the real node, where it is *unseen* until a
reading covers the Pod's life there. A reservation that no watch ever shows expires.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from webhook.snapshot import FloatArray, IntArray, Snapshot

# A Pod that was admitted but never appears was refused later on, or its client gave up.
EXPIRE_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class Load:
    """Expected use: milli-CPU and bytes."""

    cpu_milli: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Share:
    """Where a Pod in flight may go: distinct rows, and for each the chance that the scheduler takes it."""

    rows: IntArray
    chances: FloatArray

    @classmethod
    def of(cls, rows: Sequence[int], chances: Sequence[float]) -> "Share":
        return cls(np.asarray(rows, np.int64), np.asarray(chances, np.float64))


@dataclass(frozen=True, slots=True)
class _Reservation:
    load: Load
    share: Share
    expires_at: float
    times: int = 1


@dataclass(frozen=True, slots=True)
class _Assumed:
    load: Load
    started_at: float
    amount: float


class Ledger:
    """Reservations by key, and bound Pods by row, mirrored in `reserved` and `unseen` of the snapshot."""

    def __init__(self, nodes: Snapshot) -> None:
        self._nodes = nodes
        self._admitted: dict[str, _Reservation] = {}
        self._pending: dict[str, _Reservation] = {}
        self._assumed: dict[int, dict[str, _Assumed]] = {}

    @property
    def in_flight(self) -> int:
        """Count the Pods that are admitted and not bound yet."""
        return len(self._admitted) + len(self._pending)

    @property
    def unseen(self) -> int:
        """Count the bound Pods that readings do not cover yet."""
        return sum(map(len, self._assumed.values()))

    # In flight

    def reserve(self, uid: str, load: Load, share: Share, now: float, times: int = 1) -> None:
        """Reserve `load` over `share` under the review's uid, until the Pod is seen or 30 s pass.

        Before it is seen it counts so many `times`: other replicas rank the nodes alike, and what they admit
        meanwhile is no more to be seen than this Pod.
        """
        self.release(uid)
        self._admitted[uid] = _Reservation(load, share, now + EXPIRE_AFTER_S, times)
        self._book(load, share, times)

    def adopt(self, uid: str, pod_uid: str) -> bool:
        """Keep what was reserved under a review's `uid` for the pending Pod that the watch shows for it.

        It then lasts until the Pod is bound or deleted. Return whether there is anything to keep.
        """
        if pod_uid in self._pending:
            return True
        known = self._admitted.pop(uid, None)
        if known is not None:
            self._book(known.load, known.share, 1 - known.times)
            self._pending[pod_uid] = replace(known, times=1)
        return known is not None

    def book(self, pod_uid: str, load: Load, share: Share) -> None:
        """Reserve for a pending Pod that another replica admitted; `share` is what its own terms say."""
        if pod_uid not in self._pending:
            self._pending[pod_uid] = _Reservation(load, share, np.inf)
            self._book(load, share, 1)

    def release(self, uid: str) -> None:
        """End a reservation by either uid: the Pod is bound, deleted or refused."""
        known = self._admitted.pop(uid, None) or self._pending.pop(uid, None)
        if known is not None:
            self._book(known.load, known.share, -known.times)
        if not self.in_flight:
            # Sums of floats leave dust behind; nothing in flight is exactly nothing.
            self._nodes.reserved[:] = 0.0

    def settle(self, uid: str) -> None:
        """End the reservation made for a review; what pending Pods hold is out of its reach."""
        if uid in self._admitted:
            self.release(uid)

    def expire(self, now: float) -> int:
        """End what is overdue, oldest first; return how many."""
        overdue = list(takewhile(lambda uid: self._admitted[uid].expires_at <= now, self._admitted))
        for uid in overdue:
            self.release(uid)
        return len(overdue)

    # Bound

    def assume(self, pod_uid: str, row: int, load: Load, started_at: float) -> None:
        """Count a Pod bound to `row` until readings cover it.

        `started_at` is infinite for one that does not run yet: while its image is pulled, no reading shows
        what it will use.
        """
        if pod_uid not in self._assumed.setdefault(row, {}):
            self._assumed[row][pod_uid] = _Assumed(load, started_at, 1.0)
            self._sum(row)

    def start(self, pod_uid: str, row: int, now: float) -> None:
        """Note that a bound Pod runs from `now` on."""
        pod = self._assumed.get(row, {}).get(pod_uid)
        if pod is not None and pod.started_at > now:
            self._assumed[row][pod_uid] = replace(pod, started_at=now)

    def forget(self, pod_uid: str, row: int) -> None:
        """Stop counting a bound Pod: it has ended, or left the node."""
        if self._assumed.get(row, {}).pop(pod_uid, None) is not None:
            self._sum(row)

    def forget_node(self, row: int) -> None:
        """Drop everything said about a row whose node went away, so that its successor starts clean."""
        self._assumed.pop(row, None)
        self._nodes.unseen[:, row] = 0.0
        for book in (self._admitted, self._pending):
            for uid, known in book.items():
                kept = known.share.rows != row
                if not kept.all():
                    book[uid] = replace(known, share=Share(known.share.rows[kept], known.share.chances[kept]))
        self._nodes.reserved[:, row] = 0.0

    def cover(self, row: int, ended_at: float, window: float) -> None:
        """Take in a reading of `row` that is a mean over the `window` seconds before `ended_at`.

        A Pod started in the middle of the window is in the mean by the part of the window it ran;
        the rest stays expected. (A peer counts a Pod for 60 s of a 15-minute mean, and misses most of
        it for the other 14.)
        """
        pods = self._assumed.get(row)
        if not pods:
            return
        for uid, pod in list(pods.items()):
            covered = (ended_at - pod.started_at) / window if window > 0 else float(ended_at > pod.started_at)
            amount = 1.0 - min(1.0, max(0.0, covered))
            if amount > 0:
                pods[uid] = replace(pod, amount=min(pod.amount, amount))
            else:
                del pods[uid]
        self._sum(row)

    # Columns

    def _book(self, load: Load, share: Share, times: int) -> None:
        if times:
            reserved = self._nodes.reserved
            reserved[0, share.rows] += times * load.cpu_milli * share.chances
            reserved[1, share.rows] += times * load.memory_bytes * share.chances

    def _sum(self, row: int) -> None:
        pods: Iterable[_Assumed] = self._assumed.get(row, {}).values()
        self._nodes.unseen[0, row] = sum(pod.load.cpu_milli * pod.amount for pod in pods)
        self._nodes.unseen[1, row] = sum(pod.load.memory_bytes * pod.amount for pod in pods)
        if not self._assumed.get(row):
            self._assumed.pop(row, None)
