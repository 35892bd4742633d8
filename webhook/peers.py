"""The replicas that admit Pods beside this one, and whose turn a node is. No I/O here.

A replica sees what another admitted only once the API server has stored the Pod. Until then both take the
same node for the coolest, and herd. So while Pods are in flight every node is one replica's turn, dealt
anew every quarter of a second, and a replica names those of its own turn first. They agree on whose turn it
is without a word: each writes its name into its decisions, and all see the same Pods through the watch.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from webhook.snapshot import Mask

# A replica that admitted none of so many Pods takes no part: it is idle, or gone.
RECENT = 64

# Some times as long as the API server takes to store a Pod, so that few are in flight when the turns change;
# but short, so that nobody stays with the same part of the nodes while the others fill theirs.
ROUND_S = 0.25


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn of replica `index` of `replicas` in a numbered round."""

    replicas: int
    index: int
    round: int

    def mine(self, names: Sequence[str]) -> Mask:
        """Tell for each node whether it is this replica's turn: shape (names,)."""
        dealt = (crc32(f"{self.round} {name}".encode()) % self.replicas for name in names)
        mine: Mask = np.fromiter(dealt, np.int64, len(names)) == self.index
        return mine


class Peers:
    """The names of the replicas that admitted the last Pods; `own` is this one's, empty for a lone one."""

    def __init__(self, own: str) -> None:
        self.own = own
        self._recent: deque[str] = deque(maxlen=RECENT)

    def saw(self, replica: str) -> None:
        """Note who admitted a Pod that the watch shows as pending."""
        self._recent.append(replica)

    def turn(self, wall: float) -> Turn | None:
        """Return this replica's turn at a wall clock's seconds, or None where no other one admits Pods."""
        known = sorted({self.own, *self._recent})
        if len(known) == 1:
            return None
        return Turn(len(known), known.index(self.own), int(wall / ROUND_S))
