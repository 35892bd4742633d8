"""A small blocking JSON client of the API server, safe to share between threads.

Connections are kept open and reused: a new TLS connection costs more than the request that it carries.
"""

import collections
import concurrent.futures
import contextlib
import http.client
import json
import ssl
import time
import urllib.parse
from collections.abc import Iterable
from typing import Any

PARALLEL = 16
TIMEOUT_S = 60
REUSE_WITHIN_S = 30  # the server closes a connection that was idle for longer than it likes


class ApiError(Exception):
    """The API server answered with an error; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """Requests to one server; JSON in, JSON (or text, where the answer is none) out."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None) -> None:
        self._url = urllib.parse.urlsplit(url)
        self._context = context
        self._idle: collections.deque[tuple[float, http.client.HTTPConnection]] = collections.deque()

    def request(self, method: str, path: str, body: Any = None, *, content_type: str | None = None) -> Any:
        """Send one request; an answer from 400 on raises ApiError, an unreachable server OSError."""
        default = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Accept": "application/json", "Content-Type": content_type or default}
        content = None if body is None else json.dumps(body)
        connection = self._reused() or self._connect()
        try:
            connection.request(method, path, content, headers)
            answer = connection.getresponse()
            data = answer.read()
        except http.client.HTTPException as error:
            connection.close()
            raise ConnectionError(f"{method} {path}: {error!r}") from error
        except BaseException:
            connection.close()
            raise
        self._idle.append((time.monotonic(), connection))
        return _decoded(answer, data)

    def request_all(self, requests: Iterable[tuple[str, str, Any]], *, parallel: int = PARALLEL) -> list[Any]:
        """Send many (method, path, body) at a time; answers in the order of the requests."""
        with concurrent.futures.ThreadPoolExecutor(parallel) as pool:
            return list(pool.map(lambda request: self.request(*request), requests))

    def close(self) -> None:
        """Drop the idle connections; the next request opens a new one."""
        while self._idle:
            self._idle.pop()[1].close()

    def _reused(self) -> http.client.HTTPConnection | None:
        with contextlib.suppress(IndexError):
            while True:
                since, connection = self._idle.pop()
                if time.monotonic() - since < REUSE_WITHIN_S:
                    return connection
                connection.close()
        return None

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self._context)


def unverified() -> ssl.SSLContext:
    """For servers on loopback that sign their own certificate; only their health is asked."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _decoded(answer: http.client.HTTPResponse, data: bytes) -> Any:
    is_json = (answer.getheader("Content-Type") or "").startswith("application/json")
    value = json.loads(data) if is_json and data else data.decode(errors="replace")
    if answer.status >= 400:
        message = value.get("message", "") if isinstance(value, dict) else value
        raise ApiError(answer.status, str(message).strip())
    return value
