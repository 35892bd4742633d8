"""Watch events by hand: what each line changes, and that no line ends the following."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable

import pytest

from tests.builders import NOW, Json, make_cluster, make_node, make_pod
from webhook import follow
from webhook.cluster import Cluster
from webhook.snapshot import CPU

PATIENCE_S = 20


def event(kind: str, item: object) -> str:
    return json.dumps({"type": kind, "object": item})


def added(item: Json) -> str:
    return event("ADDED", item)


def deleted(item: Json) -> str:
    return event("DELETED", item)


async def each(lines: Iterable[str | bytes]) -> AsyncIterator[bytes]:
    for line in lines:
        yield line.encode() if isinstance(line, str) else line


async def followed(*lines: str | bytes) -> Cluster:
    """Follow the lines to their end over a cluster of n1."""
    cluster = make_cluster(make_node("n1"))
    async with asyncio.timeout(PATIENCE_S):
        await follow.follow(each(lines), cluster, lambda: NOW)
    return cluster


def bound(uid: str = "a", on: str = "n1", **fields: object) -> Json:
    return make_pod(uid=uid, node=on, cpu="1", **fields)  # type: ignore[arg-type]


# The lines; the Nodes known then, the Pods bound, and the milli-CPU requested of n1.
EVENTS: dict[str, tuple[list[str], list[str], int, int]] = {
    "nothing": ([], ["n1"], 0, 0),
    "a Node comes": ([added(make_node("n2"))], ["n1", "n2"], 0, 0),
    "a Node goes": ([deleted(make_node("n1"))], [], 0, 0),
    "a Node comes and goes": ([added(make_node("n2")), deleted(make_node("n2"))], ["n1"], 0, 0),
    "a Pod comes": ([added(bound())], ["n1"], 1, 1000),
    "two Pods come": ([added(bound("a")), added(bound("b"))], ["n1"], 2, 2000),
    "a Pod is told twice": ([added(bound()), event("MODIFIED", bound())], ["n1"], 1, 1000),
    "a Pod waits and is bound": (
        [added(make_pod(uid="a", cpu="1")), event("MODIFIED", bound())],
        ["n1"],
        1,
        1000,
    ),
    "a Pod ends": ([added(bound()), event("MODIFIED", bound(phase="Succeeded"))], ["n1"], 0, 0),
    "a Pod goes": ([added(bound()), deleted(bound())], ["n1"], 0, 0),
    "a Pod goes that never came": ([deleted(bound())], ["n1"], 0, 0),
    "a kind that is not followed": (
        [added({"kind": "Namespace", "metadata": {"name": "shop"}}), added(bound())],
        ["n1"],
        1,
        1000,
    ),
    "a bookmark": (
        [event("BOOKMARK", {"kind": "Bookmark", "metadata": {"resourceVersion": "7"}})],
        ["n1"],
        0,
        0,
    ),
}


@pytest.mark.parametrize(("lines", "nodes", "pods", "cpu"), EVENTS.values(), ids=EVENTS.keys())
async def test_events(lines: list[str], nodes: list[str], pods: int, cpu: int) -> None:
    cluster = await followed(*lines)

    assert cluster.nodes.node_names() == nodes
    assert cluster.pods == pods
    assert cluster.nodes.requested[CPU, 0] == cpu


GARBAGE: dict[str, str | bytes] = {
    "an empty line": "",
    "white space": "   ",
    "no JSON": "kubectl get pods",
    "JSON that breaks off": '{"type": "ADDED", "object": {',
    "no object": "3",
    "no event": json.dumps(make_node("n2")),
    "an event of nothing": '{"type": "ADDED"}',
    "an event of null": event("ADDED", None),
    "an object without kind": event("ADDED", {"metadata": {"name": "n2"}}),
    "an object without metadata": event("ADDED", {"kind": "Node"}),
    "a Pod without spec": event("ADDED", {"kind": "Pod", "metadata": {"name": "a"}}),
    "a field of another type": event("ADDED", {"kind": "Node", "metadata": {"name": 7}}),
    "no UTF-8": b'{"type": "ADDED", "object": {"kind": "Node", "metadata": {"name": "\xff"}}}',
    "a Node with a quantity that is none": added(make_node("n2", cpu="lots")),
    "two events in a line": added(make_node("n2")) * 2,
}


@pytest.mark.parametrize("line", GARBAGE.values(), ids=GARBAGE.keys())
async def test_a_line_that_is_none_is_warned_of_and_the_next_one_counts(
    line: str | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await followed(line, added(bound()))

    assert cluster.nodes.node_names() == ["n1"]
    assert cluster.pods == 1
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("follow: a line is no watch event of a Pod or Node: ")
    assert len(warning.splitlines()) == 1


async def test_a_pod_with_a_bad_quantity_is_not_counted_and_the_next_one_is() -> None:
    cluster = await followed(added(make_pod(uid="a", node="n1", cpu="lots")), added(bound("b")))

    assert cluster.pods == 1


async def test_white_space_around_an_event_is_nothing() -> None:
    assert (await followed("  " + added(bound("a")) + "\r", added(bound("b")) + "\n")).pods == 2


async def test_a_line_of_megabytes() -> None:
    large = bound()
    large["metadata"]["annotations"] = {"blob": "x" * 5_000_000}

    assert (await followed(added(large), added(bound("b")))).pods == 2


async def test_events_count_while_the_stream_goes_on() -> None:
    cluster = make_cluster(make_node("n1"))
    seen: list[int] = []

    async def lines() -> AsyncIterator[bytes]:
        for uid in "abc":
            yield added(bound(uid)).encode()
            seen.append(cluster.pods)

    await follow.follow(lines(), cluster, lambda: NOW)

    assert seen == [1, 2, 3]


async def test_a_pod_that_comes_while_we_look_is_not_in_the_readings_yet() -> None:
    cluster = await followed(added(bound(phase="Running")))

    assert cluster.ledger.unseen == 1
