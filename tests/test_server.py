"""HTTP in and out over real sockets: what is refused, what is late, who is ready, what is logged."""

import asyncio
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from certs import pki
from certs.tls import ServingContext
from tests.builders import (
    GIB,
    Json,
    apply,
    make_cluster,
    make_node,
    make_pod,
    make_review,
    patch_in,
    to_bytes,
)
from webhook import planner, policy, server
from webhook.cluster import Cluster
from webhook.metrics import Metrics
from webhook.policy import Policy
from webhook.server import Server

PATIENCE_S = 20
HOST = "127.0.0.1"
CA = pki.make_ca(now=datetime.now(UTC))
OTHER_CA = pki.make_ca(now=datetime.now(UTC))
LEAF = pki.make_leaf(CA, dns_names=["localhost"], ip_addresses=[HOST], now=datetime.now(UTC))
OTHER_LEAF = pki.make_leaf(OTHER_CA, dns_names=["localhost"], ip_addresses=[HOST], now=datetime.now(UTC))
JSON = {"Content-Type": "application/json"}


def trusting(ca: pki.Pair) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca.cert_pem.decode())


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Connection:
    """An open connection, on which bytes are sent as they are."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, content: bytes) -> None:
        self.writer.write(content)
        await self.writer.drain()

    async def reply(self) -> Reply:
        """Read one answer whole."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Reply(int(head[0].split()[1]), headers, body)

    async def ends(self) -> bool:
        """Tell whether the server closes the connection, with nothing more to say."""
        return await self.reader.read() == b""


@dataclass
class Running:
    """A server that listens on both ports."""

    server: Server
    serving: ServingContext
    port: int
    admin_port: int
    metrics: Metrics = field(default_factory=Metrics)

    @asynccontextmanager
    async def connect(self, *, tls: bool = True, port: int = 0) -> AsyncIterator[Connection]:
        context = trusting(CA) if tls else None
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(HOST, port or self.port, ssl=context)
            try:
                yield Connection(reader, writer)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    async def post(self, body: bytes, query: str = "", **headers: str) -> Reply:
        return await self.ask("POST", f"/mutate{query}", body, JSON | headers)

    async def ask(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Reply:
        async with self.connect() as connection:
            await connection.send(request(body, method=method, path=path, headers=headers or {}))
            return await connection.reply()

    async def get(self, path: str) -> Reply:
        """Ask the port of probes and metrics."""
        async with self.connect(tls=False, port=self.admin_port) as connection:
            await connection.send(request(b"", method="GET", path=path, headers={}))
            return await connection.reply()

    @asynccontextmanager
    async def probed(self, ca: pki.Pair = CA) -> AsyncIterator[None]:
        """Let the server ask itself for as long as this lasts."""
        task = asyncio.create_task(self.server.probe(HOST, self.port, trusting(ca), "localhost"))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def request(
    body: bytes, *, method: str = "POST", path: str = "/mutate", headers: dict[str, str] = JSON
) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: trimtab",
        *(f"{name}: {text}" for name, text in headers.items()),
    ]
    if "Transfer-Encoding" not in headers and "Content-Length" not in headers:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def chunked(body: bytes, size: int = 100) -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])


def uneven() -> Cluster:
    """Return a cluster that has something to prefer, whatever the clock says."""
    cluster = make_cluster(*(make_node(f"n{number}") for number in range(1, 7)))
    for number in range(1, 7):
        cluster.pin_usage(f"n{number}", 1000.0 * number, 4.0 * GIB)
    return cluster


@asynccontextmanager
async def running(
    cluster: Cluster | None = None, current: Callable[[], Policy] = policy.default
) -> AsyncIterator[Running]:
    """Serve on free ports."""
    metrics, serving = Metrics(), ServingContext()
    serving.load(LEAF)
    served = Server(uneven() if cluster is None else cluster, current, metrics)
    try:
        port = await served.listen(HOST, 0, serving.context)
        yield Running(served, serving, port, await served.listen_admin(HOST, 0), metrics)
    finally:
        await served.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110, the conditions are of code that tells nobody
            await asyncio.sleep(0.005)


def shows_no_trace(reply: Reply) -> bool:
    return not any(word in reply.text for word in ("Traceback", 'File "', ".py", "Error:"))


REVIEW = to_bytes(make_review(make_pod(cpu="1", memory="1Gi")))

# What is sent; the status and what the answer begins with.
REQUESTS: dict[str, tuple[str, str, dict[str, str], bytes, int, str]] = {
    "a review": ("POST", "/mutate", JSON, REVIEW, 200, '{"apiVersion":"admission.k8s.io/v1"'),
    "with a charset": (
        "POST",
        "/mutate?timeout=2s",
        {"Content-Type": "application/json; charset=utf-8"},
        REVIEW,
        200,
        "{",
    ),
    "in capitals": ("POST", "/mutate", {"Content-Type": "APPLICATION/JSON"}, REVIEW, 200, "{"),
    "YAML": ("POST", "/mutate", {"Content-Type": "application/yaml"}, REVIEW, 415, "expected Content-Type"),
    "protobuf": (
        "POST",
        "/mutate",
        {"Content-Type": "application/vnd.kubernetes.protobuf"},
        REVIEW,
        415,
        "expected Content-Type",
    ),
    "no Content-Type": ("POST", "/mutate", {}, REVIEW, 415, "expected Content-Type application/json\n"),
    "an empty Content-Type": ("POST", "/mutate", {"Content-Type": ""}, REVIEW, 415, "expected Content-Type"),
    "no body": ("POST", "/mutate", JSON, b"", 400, "the body is not an AdmissionReview: "),
    "no JSON": ("POST", "/mutate", JSON, b"<html>", 400, "the body is not an AdmissionReview: "),
    "no review": ("POST", "/mutate", JSON, b'{"kind": "Pod"}', 400, "the body is not an AdmissionReview: "),
    "nested without end": ("POST", "/mutate", JSON, b"[" * 200_000, 400, "the body is "),
    "no UTF-8": ("POST", "/mutate", JSON, b'{"kind": "\xff"}', 400, "the body is "),
    "a GET": ("GET", "/mutate", {}, b"", 405, "405: Method Not Allowed"),
    "a PUT": ("PUT", "/mutate", JSON, REVIEW, 405, "405: Method Not Allowed"),
    "elsewhere": ("POST", "/", JSON, REVIEW, 404, "404: Not Found"),
    "with a slash too many": ("POST", "/mutate/", JSON, REVIEW, 404, "404: Not Found"),
    "metrics over TLS": ("GET", "/metrics", {}, b"", 404, "404: Not Found"),
    "probes over TLS": ("GET", "/readyz", {}, b"", 404, "404: Not Found"),
    "a path outside": ("GET", "/../../etc/passwd", {}, b"", 404, "404: Not Found"),
}


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "status", "text"), REQUESTS.values(), ids=REQUESTS.keys()
)
async def test_requests(
    method: str, path: str, headers: dict[str, str], body: bytes, status: int, text: str
) -> None:
    async with running() as here:
        reply = await here.ask(method, path, body, headers)

    assert (reply.status, reply.text[: len(text)]) == (status, text)
    assert shows_no_trace(reply)
    assert reply.headers["content-type"].startswith("application/json" if status == 200 else "text/plain")


@pytest.mark.parametrize("path", ["/mutate", "/", "/readyz/x", "/debug/pprof"])
async def test_the_port_of_probes_answers_nothing_else(path: str) -> None:
    async with running() as here:
        assert (await here.get(path)).status == 404


CAP = 2000


def sized(size: int) -> bytes:
    """Return a body of exactly so many bytes, which is a review with white space after it."""
    return REVIEW.ljust(size)


SIZES: dict[str, tuple[int, int]] = {
    "just as large as it may be": (CAP, 200),
    "one byte more": (CAP + 1, 413),
    "much more": (CAP * 200, 413),
}


@pytest.mark.parametrize("in_chunks", [False, True], ids=["Content-Length", "chunked"])
@pytest.mark.parametrize(("size", "want"), SIZES.values(), ids=SIZES.keys())
async def test_the_size_of_a_body(
    size: int, want: int, *, in_chunks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(REVIEW) < CAP
    monkeypatch.setattr(server, "MAX_BODY", CAP)
    headers = JSON | ({"Transfer-Encoding": "chunked"} if in_chunks else {})
    body = chunked(sized(size)) if in_chunks else sized(size)

    async with running() as here:
        reply = await here.ask("POST", "/mutate", body, headers)

        assert reply.status == want
        if want == 413:
            assert reply.text == f"expected a body of at most {CAP} bytes\n"
            assert rejected(here) == {"413": 1}


async def test_a_body_that_says_it_is_too_large_is_not_waited_for() -> None:
    head = request(b"", headers=JSON | {"Content-Length": str(server.MAX_BODY + 1)})

    async with running() as here, here.connect() as connection:
        await connection.send(head)
        assert (await connection.reply()).status == 413


async def test_chunks_without_end_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_BODY", CAP)

    async with running() as here, here.connect() as connection:
        await connection.send(request(b"", headers=JSON | {"Transfer-Encoding": "chunked"}))
        for _ in range(CAP // 100 + 1):
            await connection.send(b"64\r\n" + b" " * 100 + b"\r\n")
        assert (await connection.reply()).status == 413


# What the caller says of its patience; what is taken of it, in seconds.
TIMEOUTS: dict[str, tuple[str | None, float]] = {
    "as the API server says it": ("2s", 2.0),
    "the most it may": ("30s", 30.0),
    "a part of a second": ("0.25s", 0.25),
    "a plain number": ("7", 7.0),
    "nothing": (None, 2.0),
    "an empty text": ("", 2.0),
    "no number": ("soon", 2.0),
    "milliseconds": ("500ms", 2.0),
    "zero": ("0s", 2.0),
    "negative": ("-1s", 2.0),
    "longer than any webhook may": ("31s", 2.0),
    "for ever": ("infs", 2.0),
    "not a number": ("nan", 2.0),
}


@pytest.mark.parametrize(("text", "want"), TIMEOUTS.values(), ids=TIMEOUTS.keys())
def test_the_callers_timeout(text: str | None, want: float) -> None:
    assert server.timeout_s(text) == want


@pytest.mark.parametrize("sent", [b"", REVIEW[:50], chunked(REVIEW)[:50]], ids=["nothing", "some", "a chunk"])
async def test_a_body_that_does_not_come_is_given_up_within_the_callers_timeout(sent: bytes) -> None:
    extra = {"Transfer-Encoding": "chunked"} if b"\r\n" in sent else {"Content-Length": str(len(REVIEW))}

    async with running() as here, here.connect() as connection:
        await connection.send(request(sent, path="/mutate?timeout=0.05s", headers=JSON | extra))
        reply = await connection.reply()

        assert (reply.status, reply.text) == (408, "the body did not arrive in time\n")
        assert reply.headers["connection"] == "close"
        assert rejected(here) == {"408": 1}


def clock(*times: float) -> Any:
    """Return what stands in for the `time` module: these times, one after another, then the last."""
    left: Iterator[float] = iter(times)
    return SimpleNamespace(monotonic=lambda: next(left, times[-1]))


# Seconds between the head of the request and the decision; whether it is too late then. The caller waits 1 s.
DELAYS: dict[str, tuple[float, bool]] = {
    "at once": (0.0, False),
    "just in time": (0.79, False),
    "too late for the answer to travel": (0.81, True),
    "a busy event loop": (2.0, True),
}


async def holds_to_the_deadline(*, late: bool) -> None:
    async with running() as here:
        reply = await here.post(REVIEW, "?timeout=1s")

        operations = patch_in(reply.body)
        patched = apply(operations, json.loads(REVIEW)["request"]["object"])
        decision = json.loads(patched["metadata"]["annotations"]["trimtab.dev/decision"])
        assert reply.status == 200
        assert json.loads(reply.body)["response"]["allowed"] is True
        assert ("affinity" in patched["spec"]) is not late
        assert decision.get("reason") == ("deadline" if late else None)
        assert here.server.cluster.ledger.in_flight == (0 if late else 1)
        assert decisions(here) == ({("skipped", "deadline"): 1} if late else {("steered", ""): 1})
        if late:
            assert {operation["path"].split("/")[1] for operation in operations} == {"metadata"}


@pytest.mark.parametrize(("delay", "late"), DELAYS.values(), ids=DELAYS.keys())
async def test_a_short_deadline(delay: float, *, late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "time", clock(100.0, 100.0 + delay))

    await holds_to_the_deadline(late=late)


async def test_a_plan_that_took_too_long_is_neither_sent_nor_reserved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Head of the request, decision begun, its own clock; then the plan is made, and the caller is gone.
    monkeypatch.setattr(server, "time", clock(100.0, 100.0, 100.0, 102.0))

    await holds_to_the_deadline(late=True)


async def test_a_body_that_came_while_the_event_loop_was_busy_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = request(REVIEW, path="/mutate?timeout=0.5s")
    reads: list[asyncio.Event] = []
    original = web.Request.read

    async def read(asked: web.Request) -> bytes:
        reads[0].set()
        return await original(asked)

    monkeypatch.setattr(web.Request, "read", read)
    reads.append(asyncio.Event())

    async with running() as here, here.connect() as connection:
        await connection.send(content[:-20])
        await asyncio.wait_for(reads[0].wait(), PATIENCE_S)
        # The rest comes while nothing else runs, for longer than the caller waits.
        connection.writer.write(content[-20:])
        time.sleep(0.5)  # noqa: ASYNC251, that is the point
        reply = await connection.reply()

        assert reply.status == 200
        assert json.loads(reply.body)["response"]["allowed"] is True
        assert decisions(here) == {("skipped", "deadline"): 1}


async def test_garbage_and_clients_that_go_away_are_no_errors_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running() as here:
        async with here.connect() as connection:
            await connection.send(GARBAGE["a header without a colon"])
            assert (await connection.reply()).status == 400
        async with here.connect() as connection:
            await connection.send(request(REVIEW)[:-10])
        assert (await here.post(REVIEW)).status == 200

    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_an_error_of_our_own_is_logged_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Policy:
        raise RuntimeError("of our own")

    async with running(current=broken) as here:
        await here.post(REVIEW)

    assert "RuntimeError: of our own" in caplog.text


def rejected(here: Running) -> dict[str, float]:
    return {
        sample.labels["status"]: sample.value
        for family in here.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "trimtab_bad_requests_total"
    }


def decisions(here: Running) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["outcome"], sample.labels["reason"]): sample.value
        for family in here.metrics.registry.collect()
        for sample in family.samples
        if sample.name == "trimtab_decisions_total"
    }


async def test_a_connection_stays_open_for_the_next_review() -> None:
    async with running() as here, here.connect() as connection:
        for _ in range(3):
            await connection.send(request(REVIEW))
            reply = await connection.reply()
            assert reply.status == 200
            assert "connection" not in reply.headers


async def test_reviews_sent_ahead_are_answered_in_their_order() -> None:
    sent = [to_bytes(make_review(make_pod(cpu="1"), uid=f"r{number}")) for number in range(5)]

    async with running() as here, here.connect() as connection:
        await connection.send(b"".join(map(request, sent)))
        uids = [json.loads((await connection.reply()).body)["response"]["uid"] for _ in sent]

    assert uids == ["r0", "r1", "r2", "r3", "r4"]


def test_an_idle_connection_outlives_the_api_servers_own_patience() -> None:
    assert server.KEEPALIVE_S > 90  # Go's http.Transport of the API server: IdleConnTimeout


async def test_an_answer_to_a_refused_request_ends_the_connection() -> None:
    async with running() as here, here.connect() as connection:
        await connection.send(request(b"no review"))
        reply = await connection.reply()

        assert (reply.status, reply.headers["connection"]) == (400, "close")
        assert await connection.ends()


GARBAGE: dict[str, bytes] = {
    "no HTTP": b"hello\r\n\r\n",
    "bytes": bytes(range(256)) * 4 + b"\r\n\r\n",
    "a version that does not exist": b"POST /mutate HTTP/9.9\r\nHost: a\r\n\r\n",
    "a header without a colon": b"POST /mutate HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "a header that is too long": b"POST /mutate HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "two lengths": b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "a length that is none": b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
    "a length below nothing": b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    "a length and chunks": (
        b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "a chunk that is none": (
        b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"
    ),
    "a path that is no URL": b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n",
    "a script in the path": b"GET /<script>x</script>\x01 HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n",
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_is_refused_and_nobody_else_notices(content: bytes) -> None:
    async with running() as here, here.connect() as neighbour:
        for port, tls in ((here.port, True), (here.admin_port, False)):
            async with here.connect(tls=tls, port=port) as connection:
                await connection.send(content)
                with suppress(ConnectionError):
                    answer = await connection.reader.read(100_000)
                    assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
                    assert b"Traceback" not in answer
                    assert answer == b"" or b"Content-Type: text/plain" in answer
        await neighbour.send(request(REVIEW))
        assert (await neighbour.reply()).status == 200


async def test_plain_http_on_the_tls_port_is_cut_off() -> None:
    async with running() as here:
        async with here.connect(tls=False) as connection:
            await connection.send(request(REVIEW))
            with suppress(ConnectionError):
                assert b"HTTP/1.1 200" not in await connection.reader.read()

        assert (await here.post(REVIEW)).status == 200


async def test_a_client_that_goes_away_half_way_harms_nobody() -> None:
    async with running() as here:
        for length in (10, 200):
            async with here.connect() as connection:
                await connection.send(request(REVIEW)[:length])

        assert (await here.post(REVIEW)).status == 200
        assert decisions(here) == {("steered", ""): 1}


async def test_an_error_of_our_own_shows_no_trace() -> None:
    def broken() -> Policy:
        raise RuntimeError("the pool of secrets is empty")

    async with running(current=broken) as here:
        replies = [
            await here.post(REVIEW),
            await here.post(REVIEW, Accept="text/html"),
            await here.get("/metrics"),
        ]

    for reply in replies:
        assert reply.status == 500
        assert shows_no_trace(reply)
        assert "secrets" not in reply.text


# Caches are synced, the certificate holds, the server stops; what /readyz says.
CHECKS: dict[str, tuple[bool, bool, bool, int, str]] = {
    "ready": (True, True, False, 200, "ok\n"),
    "caches are cold": (False, True, False, 503, "not ready: caches\n"),
    "the certificate is not trusted": (True, False, False, 503, "not ready: tls\n"),
    "stopping": (True, True, True, 503, "not ready: running\n"),
    "everything at once": (False, False, True, 503, "not ready: caches, tls, running\n"),
}


@pytest.mark.parametrize(
    ("synced", "trusted", "stopping", "status", "text"), CHECKS.values(), ids=CHECKS.keys()
)
async def test_readiness(
    *,
    synced: bool,
    trusted: bool,
    stopping: bool,
    status: int,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "webhook.server")
    async with running() as here, here.probed(CA if trusted else OTHER_CA):
        if trusted:
            await until(lambda: here.server.ready)
        here.server.cluster.synced = synced
        here.server.stopping = stopping

        reply = await here.get("/readyz")

        assert (reply.status, reply.text) == (status, text)
        assert here.server.ready is (status == 200)
        assert (await here.get("/livez")).text == "ok\n"


async def test_readiness_turns_with_the_certificate(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webhook.server")
    monkeypatch.setattr(server, "PROBE_EVERY_S", 0.2)
    async with running() as here:
        assert not here.server.ready
        async with here.probed():
            await asyncio.wait_for(here.server.until_ready(), PATIENCE_S)
            here.serving.load(OTHER_LEAF)
            await until(lambda: not here.server.ready)
            here.serving.load(LEAF)
            await until(lambda: here.server.ready)

    assert [record.getMessage() for record in caplog.records if record.name == "webhook.server"] == [
        "self-probe over TLS as localhost: answers",
        "self-probe over TLS as localhost: fails",
        "self-probe over TLS as localhost: answers",
    ]


async def plain(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
    writer.close()


async def test_a_probe_that_nobody_answers_or_another_does_is_no_readiness(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PROBE_EVERY_S", 0.5)
    stranger = await asyncio.start_server(plain, HOST, 0)
    async with running() as here, stranger:
        for port, name in (
            (unused_tcp_port, "localhost"),
            (stranger.sockets[0].getsockname()[1], "localhost"),
            (here.admin_port, "localhost"),
            (here.port, "trimtab.elsewhere.svc"),
        ):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await here.server.probe(HOST, port, trusting(CA), name)
            assert not here.server.ready


HOSTS = {
    "0.0.0.0": HOST,
    "::": "::1",
    "::1": "::1",
    "": HOST,
    "10.0.0.7": "10.0.0.7",
    "localhost": "localhost",
}


@pytest.mark.parametrize(("host", "want"), HOSTS.items())
def test_where_to_reach_ourselves(host: str, want: str) -> None:
    assert server.reachable(host) == want


async def test_while_stopping_reviews_are_answered_and_their_connections_end() -> None:
    async with running() as here, here.connect() as connection:
        await connection.send(request(REVIEW))
        assert "connection" not in (await connection.reply()).headers
        here.server.stopping = True

        await connection.send(request(REVIEW))
        reply = await connection.reply()

        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert patch_in(reply.body)
        assert await connection.ends()


async def test_closing_ends_idle_connections_and_half_sent_requests() -> None:
    async with running() as here, here.connect() as idle, here.connect() as half:
        await idle.send(request(REVIEW))
        await idle.reply()
        await half.send(request(REVIEW)[:30])

        async with asyncio.timeout(PATIENCE_S):
            await here.server.close()

            assert await idle.ends()
            assert await half.ends()


def lines(caplog: pytest.LogCaptureFixture) -> list[Json]:
    """Return the log lines of admissions; each is one line of JSON."""
    texts = [record.getMessage() for record in caplog.records if record.name == "webhook.server"]
    assert all(len(text.splitlines()) == 1 for text in texts)
    return [json.loads(text) for text in texts]


# Fields of a request and its Pod that a user chooses; what is logged of them.
LOGGED: dict[str, tuple[Json, Json, Json]] = {
    "a plain name": ({"name": "web-1"}, {}, {"name": "web-1"}),
    "the name that it will be made of": ({}, {}, {"name": "web-"}),
    "a name over lines": ({"name": 'a\n2026 ERROR "b"\r\n'}, {}, {"name": 'a\n2026 ERROR "b"\r\n'}),
    "a namespace over lines": ({"namespace": "a\nb\x1b[31m"}, {}, {"namespace": "a\nb\x1b[31m"}),
    "a uid over lines": ({"uid": "a\nb"}, {}, {"uid": "a\nb"}),
    "names without end": (
        {"uid": "u" * 9999, "name": "n" * 9999, "namespace": "s" * 9999},
        {},
        {"uid": "u" * 64, "name": "n" * 253, "namespace": "s" * 253},
    ),
    "a dry run": ({"dryRun": True}, {}, {"dry_run": True, "outcome": "steered"}),
    "a reason": ({}, {"nodeName": "n1"}, {"outcome": "skipped", "reason": "node-name"}),
}


@pytest.mark.parametrize(("fields", "spec", "want"), LOGGED.values(), ids=LOGGED.keys())
async def test_no_name_can_forge_a_line(
    fields: Json, spec: Json, want: Json, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webhook.server")

    async with running() as here:
        await here.post(to_bytes(make_review(make_pod(cpu="1", **spec), **fields)))

    (line,) = lines(caplog)
    assert line["event"] == "admission"
    assert {key: line[key] for key in want} == want


async def test_what_went_wrong_is_logged_in_one_line_and_not_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("first\nsecond " + "x" * 999)

    caplog.set_level(logging.INFO, "webhook.server")
    monkeypatch.setattr(planner, "plan", fail)

    async with running() as here:
        reply = await here.post(REVIEW)

    assert json.loads(reply.body)["response"] == {"uid": "review-1", "allowed": True}
    (line,) = lines(caplog)
    assert (line["outcome"], line["reason"]) == ("failed", "error")
    assert line["detail"].startswith("RuntimeError: first\nsecond x")
    assert len(line["detail"]) == 200


async def test_nothing_of_the_pod_itself_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    pod = make_pod(cpu="1", labels={"token": "hunter2"}, annotations={"note": "hunter2"})
    pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": "hunter2"}]

    async with running() as here:
        await here.post(to_bytes(make_review(pod)))
        await here.post(to_bytes(make_review(pod))[:-1])

    assert "hunter2" not in caplog.text


async def test_metrics_tell_what_was_answered() -> None:
    other = to_bytes(make_review(make_pod(), operation="UPDATE"))
    async with running() as here:
        for body in (REVIEW, REVIEW, other, to_bytes(make_review(make_pod(cpu="1"), dryRun=True))):
            assert (await here.post(body)).status == 200
        await here.post(b"{}")
        await here.ask("POST", "/mutate", REVIEW)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{HOST}:{here.admin_port}/metrics") as reply,
        ):
            content_type, text = reply.headers["Content-Type"], await reply.text()

    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name, *(text for _, text in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["trimtab_decisions_total", "false", "steered", ""] == 2
    assert samples["trimtab_decisions_total", "true", "steered", ""] == 1
    assert samples["trimtab_decisions_total", "false", "skipped", "wrong-operation"] == 1
    assert samples["trimtab_bad_requests_total", "400"] == 1
    assert samples["trimtab_bad_requests_total", "415"] == 1
    assert samples["trimtab_admission_duration_seconds_count",] == 4
    assert samples["trimtab_nodes", "fresh"] == 6
    assert samples["trimtab_ledger_pods", "in-flight"] == 1  # one review, asked twice
    assert samples["trimtab_synced",] == 1
