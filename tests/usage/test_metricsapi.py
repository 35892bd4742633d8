"""Readings from metrics.k8s.io: what is made of each."""

import json
from datetime import UTC, datetime

import pytest

from tests.builders import GIB, NOW, Json, make_cluster, make_node
from tests.usage.listening import take
from webhook.api import Api, ApiError, Query
from webhook.usage import metricsapi
from webhook.usage.answer import SourceError
from webhook.usage.metricsapi import MetricsApi

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
    assert metricsapi.duration_s(text) == pytest.approx(want)


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
    assert metricsapi.seconds_of(text) == (None if want is None else pytest.approx(want))


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
        (1500.000001, GIB),
        {"fresh": 2},
    ),
    "in nanocores, and meant were cores": (reading(cpu="4n"), (0, 4 * GIB), {"fresh": 1, "invalid": 1}),
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
    "negative: taken in, and not believed": (reading(cpu="-1"), (0, 4 * GIB), {"fresh": 1, "invalid": 1}),
    "exactly nothing: no use of a node that lives": (
        reading(memory="0"),
        (2000, 0),
        {"fresh": 1, "invalid": 1},
    ),
}


class Source(Api):
    """Answers with a body, or raises."""

    def __init__(self, answer: bytes | Exception) -> None:
        super().__init__(None)
        self._answer = answer

    async def get(self, path: str, query: Query | None = None) -> bytes:
        assert (path, query) == ("/apis/metrics.k8s.io/v1beta1/nodes", None)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def listed(*items: object) -> MetricsApi:
    return MetricsApi(Source(json.dumps({"items": items}).encode()))


@pytest.mark.parametrize(("item", "used", "states"), READINGS.values(), ids=READINGS.keys())
async def test_readings(item: object, used: tuple[float, float], states: dict[str, int]) -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2"))

    take(cluster, await listed(item, reading("n2")).ask(cluster.nodes))

    found = {state: count for state, count in cluster.nodes.states(NOW, 60.0).items() if count}
    assert found == states
    assert cluster.nodes.used[:, 0].tolist() == list(used)
    assert cluster.nodes.used[:, 1].tolist() == [2000, 4 * GIB]


async def test_more_readings_than_one_turn() -> None:
    cluster = make_cluster(*(make_node(f"n{number}") for number in range(450)))

    answer = await listed(*(reading(f"n{number}") for number in range(450))).ask(cluster.nodes)
    take(cluster, answer)

    assert cluster.nodes.states(NOW, 60.0)["fresh"] == 450


async def test_the_report() -> None:
    nodes = make_cluster(
        make_node("n1"), make_node("n2"), make_node("n3"), make_node("n4", labels={"type": "virtual-kubelet"})
    ).nodes

    report = (await listed(reading(cpu="40"), reading("gone"), reading("n2", memory="0")).ask(nodes)).report

    assert (report.matched, report.unmatched.first, report.silent.first) == (2, ["gone"], ["n3"])
    assert report.invalid.first == ["n1 cpu 40000", "n2 memory 0"]  # 40 of 8 CPU: more than four times


@pytest.mark.parametrize("answer", [ApiError(503, "status 503"), b"<html>"], ids=["down", "no JSON"])
async def test_no_answer(answer: bytes | Exception) -> None:
    with pytest.raises(SourceError):
        await MetricsApi(Source(answer)).ask(make_cluster().nodes)


@pytest.mark.parametrize("body", [b'{"items": null}', b"{}"])
async def test_nothing_to_say_is_an_answer(body: bytes) -> None:
    assert (await MetricsApi(Source(body)).ask(make_cluster().nodes)).readings == []
