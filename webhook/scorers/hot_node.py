"""hot-node: keep off nodes that were given many Pods a moment ago."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from webhook.bindings import LONGEST_S, SLOT_S
from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Weight
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class HotWindow(Arguments):
    """So many bindings in so many seconds make a node hotter by one."""

    seconds: Annotated[float, Field(strict=True, ge=SLOT_S, le=LONGEST_S)]
    count: Annotated[int, Field(strict=True, ge=1)]


@dataclass(frozen=True, slots=True)
class HotNode(Arguments):
    """Crane's hot value (gocrane/crane-scheduler, plugins/dynamic): 100 - penalty x the node's heat.

    The heat is the sum over `windows` of the whole part of bindings / count. The peer counts them every
    three minutes from Events; here a binding counts as it is seen.
    """

    windows: tuple[HotWindow, ...] = (HotWindow(300.0, 5), HotWindow(60.0, 2))
    penalty: Weight = 10.0

    def score(self, nodes: View) -> FloatArray:
        heat = np.zeros(nodes.size, np.int64)
        for window in self.windows:
            heat += nodes.nodes.bindings.within(window.seconds, nodes.now, nodes.size) // window.count
        score: FloatArray = np.multiply(heat, -self.penalty)
        score += MAX_SCORE
        np.maximum(score, 0.0, out=score)
        return score
