"""Readings: what is made of each, and a source that fails and comes back."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from msgspec import Raw

from tests.builders import GIB, NOW, Json, make_cluster, make_node
from webhook import usage
from webhook.api import Api, ApiError, Query
from webhook.cluster import Cluster

PATIENCE_S = 20
START = datetime(2026, 1, 1, tzinfo=UTC).timestamp()

# A Go duration as metav1.Duration prints it; seconds. What is none is taken as metrics-server's 15 s.
DURATIONS: dict[str, tuple[str | None, float]] = {
    "metrics-server's own": ("10.062s", 10.062),
    "a round one": ("15s", 15.0),
    "a minute": ("1m0s", 60.0),
    "a minute and a half": ("1m30.5s", 90.5),
    "hours": ("1h2m3s", 3723.0),
    "only hours": ("2h", 7200.0),
    "none at all": ("0s", 0.0),
    "absent": (None, 15.0),
    "empty": ("", 15.0),
    "no unit": ("10", 15.0),
    "only a unit": ("s", 15.0),
    "negative": ("-5s", 15.0),
    "with a space": ("10 s", 15.0),
    "with a newline": ("10s\n", 15.0),
    "less than a second": ("500ms", 15.0),
}


@pytest.mark.parametrize(("text", "want"), DURATIONS.values(), ids=DURATIONS.keys())
def test_durations(text: str | None, want: float) -> None:
    assert usage.duration_s(text) == pytest.approx(want)


TIMESTAMPS: dict[str, tuple[str | None, float | None]] = {
    "in UTC": ("2026-01-01T00:00:30Z", START + 30),
    "in another zone": ("2026-01-01T05:30:00+05:30", START),
    "with nanoseconds": ("2026-01-01T00:00:00.123456789Z", START + 0.123456),
    "Go's zero time": ("0001-01-01T00:00:00Z", -62135596800.0),
    "absent": (None, None),
    "empty": ("", None),
    "no time": ("yesterday", None),
    "a number": ("1767225600", None),
    "a month too many": ("2026-13-01T00:00:00Z", None),
}


@pytest.mark.parametrize(("text", "want"), TIMESTAMPS.values(), ids=TIMESTAMPS.keys())
def test_timestamps(text: str | None, want: float | None) -> None:
    assert usage.seconds_of(text) == (None if want is None else pytest.approx(want))


def reading(name: str = "n1", cpu: object = "2", memory: object = "4Gi", **fields: object) -> Json:
    return {
        "metadata": {"name": name},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "10s",
        "usage": {"cpu": cpu, "memory": memory},
        **fields,
    }


# A reading of n1, before one of n2 that is sound; what is known of n1 then, and how its readings count.
READINGS: dict[str, tuple[object, tuple[float, float], dict[str, int]]] = {
    "sound": (reading(), (2000, 4 * GIB), {"fresh": 2}),
    "in nanocores and kibibytes, as metrics-server tells it": (
        reading(cpu="1500000001n", memory="1048576Ki"),
        (1501, GIB),  # rounded up
        {"fresh": 2},
    ),
    "without timestamp and window": (
        reading(timestamp=None, window=None),
        (2000, 4 * GIB),
        {"fresh": 2},
    ),
    "of a node that is not known": (reading("elsewhere"), (0, 0), {"fresh": 1, "missing": 1}),
    "of no node": ({**reading(), "metadata": {}}, (0, 0), {"fresh": 1, "missing": 1}),
    "no quantity": (reading(cpu="lots"), (0, 0), {"fresh": 1, "missing": 1}),
    "neither text nor number": (reading(cpu=["2"]), (0, 0), {"fresh": 1, "missing": 1}),
    "without memory": (reading(usage={"cpu": "2"}), (0, 0), {"fresh": 1, "missing": 1}),
    "without CPU": (reading(usage={"memory": "4Gi"}), (0, 0), {"fresh": 1, "missing": 1}),
    "without use": (reading(usage={}), (0, 0), {"fresh": 1, "missing": 1}),
    "use is null": (reading(usage=None), (0, 0), {"fresh": 1, "missing": 1}),
    "no object": (3, (0, 0), {"fresh": 1, "missing": 1}),
    "negative: taken in, and not believed": (reading(cpu="-1"), (-1000, 4 * GIB), {"fresh": 1, "invalid": 1}),
}


@pytest.mark.parametrize(("item", "used", "states"), READINGS.values(), ids=READINGS.keys())
async def test_readings(item: object, used: tuple[float, float], states: dict[str, int]) -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2"))

    await usage.take([Raw(json.dumps(each).encode()) for each in (item, reading("n2"))], cluster, NOW, START)

    found = {state: count for state, count in cluster.nodes.states(NOW, 60.0).items() if count}
    assert found == states
    if "invalid" not in states:
        assert cluster.nodes.used[:, 0].tolist() == list(used)
    assert cluster.nodes.used[:, 1].tolist() == [2000, 4 * GIB]


async def test_more_readings_than_one_batch() -> None:
    cluster = make_cluster(*(make_node(f"n{number}") for number in range(450)))

    items = [Raw(json.dumps(reading(f"n{number}")).encode()) for number in range(450)]
    await usage.take(items, cluster, NOW, START)

    assert cluster.nodes.states(NOW, 60.0)["fresh"] == 450


class Source(Api):
    """Answers in turn, each a body or what is raised; the last one again and again."""

    def __init__(self, *answers: bytes | Exception) -> None:
        super().__init__(None)
        self.answers = list(answers)
        self.asked = 0

    async def get(self, path: str, query: Query | None = None) -> bytes:
        assert (path, query) == ("/apis/metrics.k8s.io/v1beta1/nodes", None)
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def polling(
    source: Source, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[list[None], asyncio.Event]]:
    """Poll without pauses; yield what counts the failures, and the event of the first answer."""
    monkeypatch.setattr(usage, "POLL_S", 0.0)
    failures: list[None] = []
    asked = asyncio.Event()
    task = asyncio.create_task(
        usage.poll(source, cluster, lambda: NOW, failed=lambda: failures.append(None), asked=asked)
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield failures, asked
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110, the conditions are of code that tells nobody
        await asyncio.sleep(0)


GOOD = json.dumps({"items": [reading()]}).encode()
DOWN = ApiError(503, "GET /apis/metrics.k8s.io/v1beta1/nodes: status 503")
FAILS = "usage: metrics.k8s.io fails, readings go stale: GET /apis/metrics.k8s.io/v1beta1/nodes: status 503"
ANSWERS = "usage: metrics.k8s.io answers again"

# Answers in turn, the last for ever; failures counted by the end of them, and the lines logged.
POLLS: dict[str, tuple[list[bytes | Exception], int, list[str]]] = {
    "it answers": ([GOOD, GOOD, GOOD], 0, []),
    "it has nothing to say": ([b'{"items": null}', b"{}"], 0, []),
    "it fails once": ([DOWN, GOOD], 1, [FAILS, ANSWERS]),
    "it fails for long: one line": ([GOOD, DOWN, DOWN, DOWN, GOOD, GOOD], 3, [FAILS, ANSWERS]),
    "it fails twice: a line each time": ([DOWN, GOOD, DOWN, GOOD], 2, [FAILS, ANSWERS, FAILS, ANSWERS]),
    "it says what is no list": (
        [b"<html>", GOOD],
        1,
        [
            "usage: metrics.k8s.io fails, readings go stale: JSON is malformed: invalid character (byte 0)",
            ANSWERS,
        ],
    ),
}


@pytest.mark.parametrize(("answers", "failed", "lines"), POLLS.values(), ids=POLLS.keys())
async def test_polling(
    answers: list[bytes | Exception],
    failed: int,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "webhook.usage")
    source = Source(*answers)

    async with polling(source, make_cluster(make_node("n1")), monkeypatch) as (failures, _):
        await until(lambda: source.asked > len(answers))

    assert len(failures) == failed
    assert [record.getMessage() for record in caplog.records] == lines


@pytest.mark.parametrize("first", [GOOD, DOWN, b"<html>"], ids=["answer", "failure", "garbage"])
async def test_the_first_answer_is_all_there_is_to_wait_for(
    first: bytes | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(first)

    async with polling(source, Cluster(), monkeypatch) as (_, asked):
        assert not asked.is_set()
        await asked.wait()

    assert source.asked >= 1


async def test_a_source_that_fails_leaves_the_readings_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, source = make_cluster(make_node("n1")), Source(GOOD, DOWN)

    async with polling(source, cluster, monkeypatch):
        await until(lambda: source.asked == 3)

    assert cluster.nodes.used[:, 0].tolist() == [2000, 4 * GIB]
    assert cluster.nodes.states(NOW, 60.0)["fresh"] == 1
