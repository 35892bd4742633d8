"""Readings from annotations that something else keeps on the nodes: "value,time", or only a value.

The time need not be a time at all: a reading is a new one when its text differs from the last. So a wrong
clock or zone changes nothing (Crane writes local time with a literal Z).
"""

import math

from webhook import kube
from webhook.policy.sources import AnnotationsEntry
from webhook.quantity import QuantityError
from webhook.snapshot import CPU, MEMORY, Snapshot
from webhook.usage.answer import Answer, Reading, Report, account
from webhook.usage.metricsapi import seconds_of
from webhook.usage.turns import turns

# Nothing is asked: the Nodes are watched anyway.
INTERVAL_S = 5.0


class Annotations:
    """The annotations of the nodes as they are watched."""

    def __init__(self, entry: AnnotationsEntry) -> None:
        self.interval_s = INTERVAL_S
        self._entry = entry

    async def ask(self, nodes: Snapshot) -> Answer:
        """Return a reading for every annotation of those keys."""
        readings: list[Reading] = []
        async for row in turns(range(nodes.size)):
            node = nodes.node(row)
            if node is not None:
                readings += self._readings(nodes, row, node)
        report = Report()
        return Answer(await account(readings, nodes, report), report)

    def _readings(self, nodes: Snapshot, row: int, node: kube.Node) -> list[Reading]:
        annotations, window = node.metadata.annotations or {}, self._entry.windowSeconds
        readings = []
        # Each for itself, because each has a time of its own.
        if self._entry.cpu and (text := annotations.get(self._entry.cpu)):
            value, time = self._read(text, kube.CPU, float(nodes.allocatable[CPU, row]))
            readings.append(Reading(nodes.names[row], value, None, window, time, told=text))
        if self._entry.memory and (text := annotations.get(self._entry.memory)):
            value, time = self._read(text, kube.MEMORY, float(nodes.allocatable[MEMORY, row]))
            readings.append(Reading(nodes.names[row], None, value, window, time, told=text))
        return readings

    def _read(self, text: str, resource: str, allocatable: float) -> tuple[float, float | None]:
        """Return the amount in base units, not a number where it is none, and the time in seconds."""
        value, _, time = text.partition(",")
        try:
            if self._entry.format == "quantity":
                amount: float = kube.amount(resource, value.strip())
            else:
                amount = float(value) * allocatable
        except (QuantityError, ValueError):
            amount = math.nan
        return amount, seconds_of(time.strip())
