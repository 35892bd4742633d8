"""Prometheus' HTTP API: how answers are joined by node, and a server that fails in every way."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from certs import pki
from tests.builders import GIB, NOW, make_cluster, make_node
from tests.usage.listening import take
from webhook.cluster import Cluster
from webhook.policy.sources import NodeEntry, PrometheusEntry, QueriesEntry
from webhook.usage import prometheus
from webhook.usage.answer import Answer, SourceError
from webhook.usage.prometheus import Prometheus, decode

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# A sample: its node, or its labels, and the value as Prometheus writes it.
Samples = Sequence[tuple[str | dict[str, str], str]]

QUERIES = QueriesEntry(cpu="CPU", memory="MEMORY", timestamp="TIME")
UNTIMED = QueriesEntry(cpu="CPU", memory="MEMORY")


def vector(samples: Samples, **fields: object) -> bytes:
    result = [
        {"metric": {"node": labels} if isinstance(labels, str) else labels, "value": [1767225600.1, value]}
        for labels, value in samples
    ]
    return json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": result}, **fields}
    ).encode()


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/api/v1/query", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"{'https' if context else 'http'}://localhost:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def entry(url: str, queries: QueriesEntry = QUERIES, **fields: Any) -> PrometheusEntry:
    return PrometheusEntry(
        type="prometheus", url=url, queries=queries, node=NodeEntry(label="node", match="name"), **fields
    )


async def asked(
    cluster: Cluster, found: Mapping[str, Samples], queries: QueriesEntry = QUERIES, **fields: Any
) -> Answer:
    """Ask a server that finds those samples for each query."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=vector(found[request.query["query"]]))

    async with serving(answer) as url:
        return await Prometheus(entry(url, queries, **fields)).ask(cluster.nodes)


HALF = {"CPU": [("n1", "4"), ("n2", "2.5")], "MEMORY": [("n1", str(4 * GIB)), ("n2", str(GIB))]}
TIMES: Samples = [("n1", "1000.5"), ("n2", "1000.5")]

# What each query finds; the milli-CPU and GiB of n1, and the state of its CPU and memory.
ANSWERS: dict[str, tuple[dict[str, Samples], tuple[float, float], tuple[str, str]]] = {
    "sound": ({**HALF, "TIME": TIMES}, (4000, 4), ("FRESH", "FRESH")),
    "no time, no reading": ({**HALF, "TIME": [("n2", "1")]}, (0, 0), ("MISSING", "MISSING")),
    "a time that is none": ({**HALF, "TIME": [("n1", "NaN")]}, (0, 0), ("MISSING", "MISSING")),
    "no series of memory": ({**HALF, "TIME": TIMES, "MEMORY": []}, (4000, 0), ("FRESH", "MISSING")),
    "no series of CPU": ({**HALF, "TIME": TIMES, "CPU": []}, (0, 4), ("MISSING", "FRESH")),
    "not a number": ({**HALF, "TIME": TIMES, "CPU": [("n1", "NaN")]}, (0, 4), ("INVALID", "FRESH")),
    "infinite": ({**HALF, "TIME": TIMES, "CPU": [("n1", "+Inf")]}, (0, 4), ("INVALID", "FRESH")),
    "negative": ({**HALF, "TIME": TIMES, "CPU": [("n1", "-0.5")]}, (0, 4), ("INVALID", "FRESH")),
    "no text of a number": ({**HALF, "TIME": TIMES, "CPU": [("n1", "much")]}, (0, 4), ("INVALID", "FRESH")),
    "a counter that stands still": (
        {**HALF, "TIME": TIMES, "CPU": [("n1", "0")]},
        (0, 4),
        ("INVALID", "FRESH"),
    ),
    "percent instead of cores": (
        {**HALF, "TIME": TIMES, "CPU": [("n1", "45")]},
        (0, 4),
        ("INVALID", "FRESH"),
    ),
    "mebibytes instead of bytes": (
        {**HALF, "TIME": TIMES, "MEMORY": [("n1", "16384")]},
        (4000, 0),
        ("FRESH", "INVALID"),
    ),
    "two series for one node": (
        {**HALF, "TIME": TIMES, "CPU": [("n1", "4"), ({"node": "n1:9100"}, "5"), ("n2", "1")]},
        (0, 4),
        ("MISSING", "FRESH"),
    ),
    "three series for one node": (
        {**HALF, "TIME": TIMES, "CPU": [("n1", "4")] * 3},
        (0, 4),
        ("MISSING", "FRESH"),
    ),
}


@pytest.mark.parametrize(("found", "used", "states"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_answers(found: dict[str, Samples], used: tuple[float, float], states: tuple[str, str]) -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2"))

    take(cluster, await asked(cluster, found))

    assert tuple(state.name for state in cluster.nodes.state(0, NOW, 60.0)) == states
    assert (cluster.nodes.used[0, 0], cluster.nodes.used[1, 0] / GIB) == used


async def test_the_report() -> None:
    nodes = make_cluster(make_node("n1"), make_node("n2"), make_node("n3")).nodes
    cpu: Samples = [
        ("n1", "4"),
        ("n1", "4"),
        ("n2", "400"),
        ({"__name__": "x", "node": "n9", "job": "j"}, "1"),
    ]

    report = (
        await asked(make_cluster(*map(make_node, ("n1", "n2", "n3"))), {**HALF, "CPU": cpu}, UNTIMED)
    ).report

    assert nodes.count == 3
    assert report.matched == 2  # n1 by its memory
    assert report.silent.first == ["n3"]
    assert report.unmatched.first == ['x{job="j", node="n9"}']
    assert report.ambiguous.first == ['{node="n1"}']
    assert report.invalid.first == ["n2 cpu 400000"]
    assert report.errors == []


async def test_a_report_keeps_a_hundred_names_and_counts_the_rest() -> None:
    strangers: Samples = [(f"other-{number}", "1") for number in range(1000)]

    report = (await asked(make_cluster(), {"CPU": strangers, "MEMORY": []}, UNTIMED)).report

    assert (report.unmatched.count, len(report.unmatched.first)) == (1000, 100)


async def test_named_numbers() -> None:
    cluster = make_cluster(make_node("n1"), make_node("n2"))
    found: dict[str, Samples] = {"COST": [("n1", "0.7"), ("n2", "-3"), ("n9", "1")], "RISK": [("n2", "5")]}

    answer = await asked(cluster, found, QueriesEntry(), series={"cost": "COST", "risk": "RISK"})

    assert answer.numbers == [("cost", "n1", 0.7), ("cost", "n2", -3.0), ("risk", "n2", 5.0)]
    assert answer.readings == []


async def test_a_large_answer_is_decoded_as_a_small_one() -> None:
    names = [f"n{number}" for number in range(1500)]
    cluster = make_cluster(*map(make_node, names))
    found: dict[str, Samples] = {
        "CPU": [(name, "1.5") for name in names],
        "MEMORY": [(name, str(GIB)) for name in names],
    }
    assert len(vector(found["CPU"])) > 64 * 1024

    take(cluster, await asked(cluster, found, UNTIMED))

    assert cluster.nodes.states(NOW, 60.0)["fresh"] == 1500


BODIES: dict[str, tuple[int, bytes, str]] = {
    "an error": (
        400,
        b'{"status": "error", "errorType": "bad_data", "error": "parse error:\\n  unexpected"}',
        "bad_data: parse error: unexpected",
    ),
    "an error with status 200": (
        200,
        b'{"status": "error", "errorType": "execution", "error": "x"}',
        "execution: x",
    ),
    "data beside an error status": (503, vector([("n1", "1")]), "status 503"),
    "a proxy's page": (502, b"<html>", "status 502"),
    "a login page": (200, b"<html>", "JSON is malformed"),
    "no data": (200, b'{"status": "success"}', "status 200"),
    "a scalar": (
        200,
        b'{"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}',
        "expected an instant vector, found a scalar",
    ),
    "a range": (
        200,
        b'{"status": "success", "data": {"resultType": "matrix", "result": []}}',
        "expected an instant vector, found a matrix",
    ),
    "histograms": (
        200,
        b'{"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": 1}]}}',
        "Expected `array`, got `int`",
    ),
    "nothing at all": (200, b"", "Input data was truncated"),
}


@pytest.mark.parametrize(("status", "body", "problem"), BODIES.values(), ids=BODIES.keys())
def test_bodies_without_samples(status: int, body: bytes, problem: str) -> None:
    with pytest.raises(SourceError, match=problem.replace("[", r"\[")):
        decode(body, status)


def test_warnings_come_along() -> None:
    assert decode(vector([("n1", "1")], warnings=["partial response"]))[1] == ["partial response"]


async def test_one_query_fails_and_the_others_are_used() -> None:
    cluster = make_cluster(make_node("n1"))

    async def answer(request: web.Request) -> web.Response:
        if request.query["query"] == "MEMORY":
            return web.Response(
                status=503, body=b'{"status":"error","errorType":"timeout","error":"too slow"}'
            )
        return web.Response(body=vector(HALF["CPU"]))

    async with serving(answer) as url:
        found = await Prometheus(entry(url, UNTIMED)).ask(cluster.nodes)

    assert found.report.errors == ["memory: timeout: too slow"]
    assert [(reading.node, reading.cpu_milli, reading.memory_bytes) for reading in found.readings] == [
        ("n1", 4000.0, None)
    ]


async def failing(url: str, **fields: Any) -> str:
    with pytest.raises(SourceError) as caught:
        await Prometheus(entry(url, **fields)).ask(make_cluster(make_node("n1")).nodes)
    return str(caught.value)


async def test_a_redirect_is_not_followed() -> None:
    visited: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        visited.append(request.path)
        return web.Response(body=vector(HALF["CPU"]))

    async with serving(elsewhere) as other:

        async def redirect(request: web.Request) -> web.Response:
            raise web.HTTPFound(f"{other}/api/v1/query")

        async with serving(redirect) as url:
            assert "status 302" in await failing(url)
    assert visited == []


async def test_nobody_listens() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    async with serving(answer) as url:
        pass
    assert "Cannot connect to host localhost" in await failing(url)


async def test_a_server_that_never_answers() -> None:
    async def wait(request: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    async with serving(wait) as url:
        assert await failing(url, timeoutSeconds=0.2)


async def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MAX_ANSWER", 100_000)

    async def pour(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 10_000)

    async with serving(pour) as url:
        assert "longer than 100000 bytes" in await failing(url)


WALL = datetime.now(UTC)  # OpenSSL checks certificates against the clock
CA = pki.make_ca(now=WALL)


@asynccontextmanager
async def secured(directory: Path, seen: list[str | None]) -> AsyncIterator[str]:
    """Serve over TLS under our own authority; note who asks."""
    leaf = pki.make_leaf(CA, dns_names=["localhost"], now=WALL)
    (directory / "tls.pem").write_bytes(leaf.cert_pem + leaf.key_pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "tls.pem")

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(body=vector(HALF["CPU"]))

    async with serving(answer, context) as url:
        yield url


async def test_the_token_and_the_ca_are_read_as_they_are_now(tmp_path: Path) -> None:
    seen: list[str | None] = []
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    ca.write_bytes(CA.cert_pem)
    cluster = make_cluster(make_node("n1"))
    async with secured(tmp_path, seen) as url:
        source = Prometheus(entry(url, QueriesEntry(cpu="CPU"), bearerTokenFile=str(token), caFile=str(ca)))
        for text in ("first\n", "second"):
            token.write_text(text)
            assert len((await source.ask(cluster.nodes)).readings) == 1
    assert seen == ["Bearer first", "Bearer second"]


async def test_a_token_that_is_none_is_not_sent(tmp_path: Path) -> None:
    seen: list[str | None] = []
    token = tmp_path / "token"
    async with secured(tmp_path, seen) as url:
        assert "credentials: " in await failing(url, bearerTokenFile=str(token))
        for text in ("", "two\nlines"):
            token.write_text(text)
            assert "expected one line with a token" in await failing(url, bearerTokenFile=str(token))
    assert seen == []


async def test_a_server_of_another_authority_is_not_asked(tmp_path: Path) -> None:
    seen: list[str | None] = []
    other = tmp_path / "other.crt"
    other.write_bytes(pki.make_ca(now=WALL).cert_pem)
    async with secured(tmp_path, seen) as url:
        assert "certificate verify failed" in await failing(url, caFile=str(other))
        assert "certificate verify failed" in await failing(url)
    assert seen == []
