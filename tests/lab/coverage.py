"""What a node's load looks like while readings come to cover a new Pod: `python -m tests.lab.coverage`.

A Pod of one core starts on an idle node; every 15 s a reading comes, the mean over a window until then.
What the ledger adds to it is compared with Trimaran's rule (scheduler-plugins, pkg/trimaran/handler.go and
targetloadpacking.go): a Pod counts in full until its start lies 60 s before the window's end, then no more.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.builders import decode_node, make_node
from webhook.ledger import Ledger, Load
from webhook.snapshot import Snapshot

WINDOWS_S = (15.0, 300.0, 900.0)
EVERY_S = 15
WATCHED_S = 900
COUNTED_S = 60
CORE = Load(1000.0, 1.0)


@dataclass(frozen=True, slots=True)
class Errors:
    """Cores that are missing from the node's load, and those too many: means over the time watched."""

    missing: float
    too_many: float


def estimates(window_s: float) -> Iterator[tuple[float, float]]:
    """Yield (ours, Trimaran's) estimate of the node's load in cores after each reading; 1 is right."""
    nodes = Snapshot()
    nodes.set_node(decode_node(make_node("n1")))
    ledger = Ledger(nodes)
    ledger.assume("pod", 0, CORE, 0.0)
    for now in range(EVERY_S, WATCHED_S + 1, EVERY_S):
        mean = min(1.0, now / window_s)
        ledger.cover(0, now, window_s)
        yield mean + float(nodes.unseen[0, 0]) / 1000, mean + (now < COUNTED_S)


def errors(values: list[float]) -> Errors:
    return Errors(
        sum(max(0.0, 1.0 - value) for value in values) / len(values),
        sum(max(0.0, value - 1.0) for value in values) / len(values),
    )


def compare(window_s: float) -> tuple[Errors, Errors]:
    """Return (ours, Trimaran's) errors over the first 15 minutes of the Pod."""
    ours, theirs = zip(*estimates(window_s), strict=True)
    return errors(list(ours)), errors(list(theirs))


def main() -> None:
    print("cores of a one-core Pod, mean over its first 15 minutes")
    for window in WINDOWS_S:
        ours, theirs = compare(window)
        print(
            f"window {window:3.0f} s: ours {ours.missing:.3f} missing, {ours.too_many:.3f} too many; "
            f"Trimaran's {theirs.missing:.3f} missing, {theirs.too_many:.3f} too many"
        )


if __name__ == "__main__":
    main()
