"""HTTP in and out: /mutate over TLS on one port, probes and metrics on another, and the deadline."""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from webhook import admission, review
from webhook.admission import Answer, Clock
from webhook.cluster import Cluster
from webhook.metrics import Metrics
from webhook.policy import Policy
from webhook.reasons import Outcome

LOG = logging.getLogger(__name__)

# A review holds two objects of up to 3 MiB and what describes the request; controller-runtime's cap.
MAX_BODY = 7 * 1024 * 1024
# Go's client drops an idle connection after 90 s; ours must not be the first to go, for a POST on a
# connection that just closed is not tried again.
KEEPALIVE_S = 120.0
# The share of the caller's timeout that we take: the answer has to travel as well.
DEADLINE_SHARE = 0.8
DEFAULT_TIMEOUT_S = 2.0
PROBE_EVERY_S = 5.0


class Server:
    """The two listeners over one cluster; `policy` returns the one in force."""

    def __init__(self, cluster: Cluster, policy: Callable[[], Policy], metrics: Metrics) -> None:
        self.cluster = cluster
        self.metrics = metrics
        self.stopping = False
        self._policy = policy
        self._trusted = False
        self._runners: list[web.AppRunner] = []

    @property
    def ready(self) -> bool:
        """Tell whether Pods may be sent here: caches synced, certificate loaded and answering."""
        return self.cluster.synced and self._trusted and not self.stopping

    async def listen(self, host: str, port: int, context: ssl.SSLContext) -> int:
        """Serve /mutate; return the port in use."""
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post("/mutate", self._mutate)
        return await self._start(app, host, port, context)

    async def listen_admin(self, host: str, port: int) -> int:
        """Serve the probes and metrics; return the port in use."""
        app = web.Application()
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._metrics)
        return await self._start(app, host, port, None)

    async def until_ready(self) -> None:
        while not self.ready:  # noqa: ASYNC110, three things make it ready and none is an event
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()

    async def probe(self, host: str, port: int, context: ssl.SSLContext, name: str) -> None:
        """Ask ourselves over TLS for ever, as the API server would, and note whether it holds."""
        while True:
            trusted = await self._answers(host, port, context, name)
            if trusted != self._trusted:
                LOG.info("self-probe over TLS as %s: %s", name, "answers" if trusted else "fails")
            self._trusted = trusted
            await asyncio.sleep(PROBE_EVERY_S if trusted else 0.2)

    async def _answers(self, host: str, port: int, context: ssl.SSLContext, name: str) -> bool:
        writer = None
        try:
            async with asyncio.timeout(PROBE_EVERY_S):
                reader, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
                writer.write(b"GET /mutate HTTP/1.1\r\nHost: self\r\nConnection: close\r\n\r\n")
                return (await reader.readline()).startswith(b"HTTP/1.1 405")
        except (OSError, TimeoutError):
            return False
        finally:
            if writer is not None:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    async def _start(self, app: web.Application, host: str, port: int, context: ssl.SSLContext | None) -> int:
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, keepalive_timeout=KEEPALIVE_S, logger=_HTTP_LOG
        )
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host, port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            raise OSError(f"cannot listen on {authority(host, port)}: {error.strerror or error}") from error
        bound: int = runner.addresses[0][1]
        return bound

    async def _mutate(self, request: web.Request) -> web.Response:
        started = time.monotonic()
        if request.content_type != "application/json":
            return self._refuse(415, "expected Content-Type application/json")
        if (request.content_length or 0) > MAX_BODY:
            return self._refuse(413, f"expected a body of at most {MAX_BODY} bytes")
        limit = DEADLINE_SHARE * timeout_s(request.query.get("timeout"))
        try:
            body = await _read_within(limit, request)
        except web.HTTPRequestEntityTooLarge:
            return self._refuse(413, f"expected a body of at most {MAX_BODY} bytes")
        except (web.RequestPayloadError, HttpProcessingError):
            return self._refuse(400, "the body cannot be read")
        if body is None:
            return self._refuse(408, "the body did not arrive in time")
        return self._answer(body, started, limit)

    def _answer(self, body: bytes, started: float, limit: float) -> web.Response:
        try:
            answer = self._respond(body, late=time.monotonic() - started > limit)
            if answer.outcome is Outcome.STEERED and time.monotonic() - started > limit:
                # Nobody waits for this answer any more, so the Pod will not go where it says.
                self.cluster.ledger.release(answer.uid)
                answer = self._respond(body, late=True)
        except review.ReviewError as error:
            return self._refuse(400, str(error))
        elapsed = time.monotonic() - started
        self.metrics.observe(answer, elapsed)
        _log(answer, elapsed)
        response = web.Response(body=answer.body, content_type="application/json")
        if self.stopping:
            response.force_close()
        return response

    def _respond(self, body: bytes, *, late: bool) -> Answer:
        wall = datetime.now(UTC)
        clock = Clock(time.monotonic(), wall.strftime("%Y-%m-%dT%H:%M:%SZ"), wall.timestamp())
        return admission.respond(body, self.cluster, self._policy(), clock, late=late)

    def _refuse(self, status: int, text: str) -> web.Response:
        self.metrics.rejected.labels(str(status)).inc()
        response = web.Response(status=status, text=text + "\n")
        # What is left of the body is not worth reading.
        response.force_close()
        return response

    async def _live(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _ready(self, _request: web.Request) -> web.Response:
        checks = {"caches": self.cluster.synced, "tls": self._trusted, "running": not self.stopping}
        failed = [name for name, passed in checks.items() if not passed]
        if failed:
            return web.Response(status=503, text=f"not ready: {', '.join(failed)}\n")
        return web.Response(text="ok\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        states = self.cluster.nodes.states(time.monotonic(), self._policy().stale_after_s)
        text = await self.metrics.render(self.cluster, states)
        return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})


async def _read_within(seconds: float, request: web.Request) -> bytes | None:
    """Return the body, or None where it does not arrive in time.

    A timeout that cancels would throw away a body that arrived while the event loop was busy; with it at
    hand the Pod can be answered, late as it is.
    """
    reading = asyncio.ensure_future(request.read())
    try:
        await asyncio.wait({reading}, timeout=seconds)
        return await reading if reading.done() else None
    finally:
        reading.cancel()


def _is_ours(record: logging.LogRecord) -> bool:
    """Tell whether an error that the HTTP library logs is more than a client's garbage, or its going away."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | web.RequestPayloadError | ConnectionError)


_HTTP_LOG = logging.getLogger(f"{__name__}.http")
_HTTP_LOG.addFilter(_is_ours)


def reachable(host: str) -> str:
    """Return where to reach ourselves when listening on `host`."""
    if host == "::":
        return "::1"
    return "127.0.0.1" if host in ("0.0.0.0", "") else host  # noqa: S104, a comparison


def authority(host: str, port: int) -> str:
    """Return host and port as a URL has them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def timeout_s(text: str | None) -> float:
    """Return the caller's timeout, as the API server writes it (`2s`); 2 s where it says none."""
    try:
        seconds = float((text or "").removesuffix("s"))
    except ValueError:
        return DEFAULT_TIMEOUT_S
    return seconds if 0 < seconds <= 30 else DEFAULT_TIMEOUT_S


def _log(answer: Answer, elapsed: float) -> None:
    """Log ids and reasons only, as JSON, so that no name can forge a line."""
    if not LOG.isEnabledFor(logging.INFO):
        return
    line = {
        "event": "admission",
        "uid": answer.uid[:64],
        "namespace": answer.namespace[:253],
        "name": answer.name[:253],
        "outcome": answer.outcome,
        "reason": answer.reason,
        "dry_run": answer.dry_run,
        "ms": round(elapsed * 1000, 3),
    }
    if answer.detail:
        line["detail"] = answer.detail[:200]
    LOG.info("%s", msgspec.json.encode(line).decode())
