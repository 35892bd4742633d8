"""What a source says when it is asked, and the report of what could not be used of it."""

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from webhook.snapshot import CPU, MEMORY, Snapshot
from webhook.usage.turns import turns

# So many names of a kind are kept of an answer; the rest is counted.
KEPT = 100


class SourceError(Exception):
    """A source cannot be reached, or says nothing that can be used."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A node's use: milli-CPU and bytes, a mean over `window` seconds until `timestamp` (of the epoch).

    None where a source says nothing; `told` tells two readings apart where the timestamp does not.
    """

    node: str
    cpu_milli: float | None
    memory_bytes: float | None
    window: float
    timestamp: float | None = None
    told: Hashable = None


@dataclass(slots=True)
class Names:
    """A count of names, and the first of them."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(name)


@dataclass(slots=True)
class Report:
    """What became of one answer.

    `matched` counts nodes with a reading; `unmatched` series that match no node; `ambiguous` those of
    which several match one node, or one several nodes; `silent` nodes that match no series; `invalid`
    readings that no node can have. `errors` are of parts of the answer that failed, `warnings` the source's.
    """

    matched: int = 0
    unmatched: Names = field(default_factory=Names)
    ambiguous: Names = field(default_factory=Names)
    silent: Names = field(default_factory=Names)
    invalid: Names = field(default_factory=Names)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Answer:
    """Readings, and numbers of the user's own as (name, node, value)."""

    readings: list[Reading]
    report: Report
    numbers: list[tuple[str, str, float]] = field(default_factory=list)


class Asked(Protocol):
    """A source as it is asked."""

    interval_s: float

    async def ask(self, nodes: Snapshot) -> Answer:
        """Ask once; raise SourceError where there is no answer at all."""
        ...


async def account(readings: Iterable[Reading], nodes: Snapshot, report: Report) -> list[Reading]:
    """Complete the report; return the readings of nodes that there are, no one of exactly nothing among them.

    Nothing alive uses exactly nothing: a zero is a counter that stands still, or another's word for no data
    (metrics-server drops it as well), so it is passed on as no number.
    """
    kept: list[Reading] = []
    told: set[str] = set()
    async for reading in turns(readings):
        row = nodes.row(reading.node)
        if row is None or not nodes.exists[row]:
            report.unmatched.add(reading.node)
            continue
        told.add(reading.node)
        cpu, memory = reading.cpu_milli, reading.memory_bytes
        for resource, label, value in ((CPU, "cpu", cpu), (MEMORY, "memory", memory)):
            if value is not None and (value == 0 or not nodes.is_plausible(row, resource, value)):
                report.invalid.add(f"{reading.node} {label} {value:g}")
        kept.append(replace(reading, cpu_milli=_some(cpu), memory_bytes=_some(memory)))
    report.matched = len(told)
    async for row in turns(range(nodes.size)):
        if nodes.exists[row] and not nodes.virtual[row] and nodes.names[row] not in told:
            report.silent.add(nodes.names[row])
    return kept


def _some(value: float | None) -> float | None:
    return math.nan if value == 0 else value
