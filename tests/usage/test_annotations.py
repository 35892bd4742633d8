"""Annotations on the nodes: values of several forms, and times whose clock does not matter."""

import pytest

from tests.builders import GIB, NOW, decode_node, make_cluster, make_node
from tests.usage.listening import take
from webhook.cluster import Cluster
from webhook.policy.sources import AnnotationsEntry
from webhook.usage.annotations import Annotations

FRACTION = AnnotationsEntry(type="annotations", cpu="cpu_usage_avg_5m", memory="mem_usage_avg_5m")
QUANTITY = AnnotationsEntry(type="annotations", cpu="cpu_usage_avg_5m", format="quantity")

# Entry, the annotation of CPU on a node of 8 CPU; milli-CPU, None where that is no use of a node.
VALUES: dict[str, tuple[AnnotationsEntry, str, float | None]] = {
    "Crane's": (FRACTION, "0.25000,2026-11-30T20:00:00Z", 2000),
    "without a time": (FRACTION, "0.25", 2000),
    "over-committed": (FRACTION, "1.5,x", 12000),
    "percent where a fraction is expected": (FRACTION, "25,2026-11-30T20:00:00Z", None),
    "what Crane writes for no data": (FRACTION, "0.00000,2026-11-30T20:00:00Z", None),
    "not a number": (FRACTION, "NaN,2026-11-30T20:00:00Z", None),
    "infinite": (FRACTION, "+Inf,2026-11-30T20:00:00Z", None),
    "negative": (FRACTION, "-0.1,2026-11-30T20:00:00Z", None),
    "a quantity where a fraction is expected": (FRACTION, "250m,2026-11-30T20:00:00Z", None),
    "only a time": (FRACTION, ",2026-11-30T20:00:00Z", None),
    "a quantity": (QUANTITY, "2500m,2026-11-30T20:00:00Z", 2500),
    "cores": (QUANTITY, "2.5", 2500),
    "no quantity": (QUANTITY, "lots", None),
}


async def ask(cluster: Cluster, entry: AnnotationsEntry, now: float = NOW, wall: float = NOW) -> None:
    take(cluster, await Annotations(entry).ask(cluster.nodes), now=now, wall=wall)


@pytest.mark.parametrize(("entry", "text", "milli"), VALUES.values(), ids=VALUES.keys())
async def test_values(entry: AnnotationsEntry, text: str, milli: float | None) -> None:
    cluster = make_cluster(make_node("n1", annotations={"cpu_usage_avg_5m": text}))

    await ask(cluster, entry)

    fresh = bool(cluster.nodes.fresh(NOW, 60.0)[0, 0])
    assert (cluster.nodes.used[0, 0] if fresh else None) == milli
    assert cluster.nodes.states(NOW, 60.0)["fresh" if fresh else "invalid"] == 1


async def test_memory_is_a_fraction_of_the_allocatable() -> None:
    cluster = make_cluster(make_node("n1", annotations={"mem_usage_avg_5m": "0.5,x"}))

    await ask(cluster, FRACTION)

    assert cluster.nodes.used[1, 0] == 16 * GIB
    assert cluster.nodes.fresh(NOW, 60.0)[:, 0].tolist() == [False, True]


# Texts as they are found every 20 s; whether the reading is fresh after the last.
TIMES: dict[str, tuple[list[str], bool]] = {
    "local time with a literal Z, eight hours ahead": (
        [f"0.25,2026-12-01T04:{minute:02}:00Z" for minute in range(8)],
        True,
    ),
    "a clock of 1970": ([f"0.25,1970-01-01T00:00:0{second}Z" for second in range(8)], True),
    "no time that can be read": ([f"0.25,run {number}" for number in range(8)], True),
    "the annotator stands still": (["0.25,2026-11-30T20:00:00Z"] * 8, False),
    "it stands still an hour ahead": (["0.25,2026-11-30T21:00:00Z"] * 8, False),
    "no time, the value moves": ([f"0.2{number}" for number in range(8)], True),
    "no time, the value stands still": (["0.25"] * 8, False),
}


@pytest.mark.parametrize(("texts", "fresh"), TIMES.values(), ids=TIMES.keys())
async def test_times(texts: list[str], fresh: bool) -> None:  # noqa: FBT001
    cluster = make_cluster(make_node("n1"))

    for step, text in enumerate(texts):
        cluster.set_node(decode_node(make_node("n1", annotations={"cpu_usage_avg_5m": text})))
        await ask(cluster, FRACTION, now=20.0 * step, wall=1.8e9 + 20.0 * step)

    assert bool(cluster.nodes.fresh(140.0, 60.0)[0, 0]) is fresh


async def test_the_report() -> None:
    nodes = make_cluster(
        make_node("n1", annotations={"cpu_usage_avg_5m": "0.25", "mem_usage_avg_5m": "0.5"}),
        make_node("n2", annotations={"cpu_usage_avg_5m": "NaN"}),
        make_node("n3"),
    ).nodes

    report = (await Annotations(FRACTION).ask(nodes)).report

    assert (report.matched, report.silent.first, report.invalid.first) == (2, ["n3"], ["n2 cpu nan"])
