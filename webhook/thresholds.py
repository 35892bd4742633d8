"""Thresholds: how full a node may be, by its readings, and still be named. No I/O here."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from webhook.load import View
from webhook.scorers.base import Measured
from webhook.snapshot import Mask

# A Node's own thresholds, in percent, by annotation.
ANNOTATIONS = ("trimtab.dev/threshold-cpu", "trimtab.dev/threshold-memory")

Percent = Annotated[float, Field(strict=True, ge=0, le=400)]


@dataclass(frozen=True, slots=True)
class Thresholds(Measured):
    """The used percentages, the Pod included, beyond which a node is not named; 0 is off.

    Crane's and Koordinator's filters on load, with what the ledger holds in the sum as Koordinator has
    it. A node without a reading that counts is judged by what it is taken to use instead, so that it is
    neither kept out nor left over for being unknown. A node's annotation takes the place of a number here
    that is not 0.
    """

    cpu: Percent = 0.0
    memory: Percent = 0.0

    def over(self, nodes: View) -> Mask:
        """Return the rows of the nodes that are over one, shape (size,)."""
        over = np.zeros(nodes.size, np.bool_)
        if not self.cpu and not self.memory:
            return over
        used = self.used(nodes)
        for resource, default in enumerate((self.cpu, self.memory)):
            if default:
                own = nodes.nodes.columns.numbers("annotation", ANNOTATIONS[resource])[: nodes.size]
                bound = np.where(np.isnan(own), default, own)
                over |= (bound > 0.0) & (100.0 * used[resource] > bound)
        return over


OFF = Thresholds()
