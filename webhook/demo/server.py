"""The server as a process of its own, spoken to as an API server does: reviews over TLS, watch events."""

import base64
import contextlib
import http.client
import json
import select
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self
from urllib.parse import urlsplit

Object = dict[str, Any]

READY_WITHIN_S = 30.0
ANSWER_WITHIN_S = 10.0
SERVE = (sys.executable, "-m", "webhook.cli", "serve", "--follow", "--log-level", "warning")
_ANNOUNCED = "listening on "


class ServerError(RuntimeError):
    """The server did not start, or does not answer; the message has the end of its log."""


class Webhook:
    """`trimtab serve --cluster` over `cluster`, started on entering and stopped on leaving."""

    def __init__(self, cluster: Mapping[str, Any], directory: Path) -> None:
        self._directory = directory
        self._cluster_file = directory / "cluster.json"
        self._cluster_file.write_text(json.dumps(cluster))
        self._log = directory / "server.log"

    def __enter__(self) -> Self:
        certificates = self._directory / "certs"
        files = ["--cluster", str(self._cluster_file), "--cert-dir", str(certificates)]
        command = [*SERVE, *files, "--port", "0"]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603, our own interpreter and module
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        try:
            url = urlsplit(self._announced())
            trust = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
            self._connection = http.client.HTTPSConnection(
                str(url.hostname), url.port, timeout=ANSWER_WITHIN_S, context=trust
            )
            self._path = f"{url.path}?timeout={ANSWER_WITHIN_S:.0f}s"
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        self._stop()

    def admit(self, review: Object) -> list[Object]:
        """Send one AdmissionReview; return the JSON Patch operations of the answer."""
        try:
            self._connection.request(
                "POST", self._path, json.dumps(review), {"Content-Type": "application/json"}
            )
            answer = self._connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(f"does not answer: {error}") from error
        if answer.status != http.client.OK:
            raise self._failure(f"answered {answer.status}: {body[:200].decode(errors='replace')}")
        response = json.loads(body)["response"]
        return json.loads(base64.b64decode(response["patch"])) if response.get("patch") else []

    def watch_event(self, kind: str, item: Object) -> None:
        """Tell the server of an object that was ADDED, MODIFIED or DELETED."""
        stdin = _pipe(self.process.stdin)
        try:
            stdin.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise self._failure(f"takes no more events: {error}") from error

    def _announced(self) -> str:
        """Return the URL in the line that the server prints when it is ready."""
        stdout = _pipe(self.process.stdout)
        ready, _, _ = select.select([stdout], [], [], READY_WITHIN_S)
        line = stdout.readline().decode(errors="replace").strip() if ready else ""
        if not ready:
            raise self._failure(f"was not ready within {READY_WITHIN_S:.0f} s")
        if not line.startswith(_ANNOUNCED):
            raise self._failure(
                f"said {line!r}, not where it listens" if line else "ended before it was ready"
            )
        return line.removeprefix(_ANNOUNCED)

    def _failure(self, what: str) -> ServerError:
        # A process that is about to die gets the moment to say why.
        deadline = time.monotonic() + 1.0
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        lines = self._log.read_text(errors="replace").splitlines()[-10:]
        return ServerError("\n".join([f"the server {what}", *lines]))

    def _stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            # Events that a dead server did not read are no further error.
            with contextlib.suppress(OSError):
                _pipe(pipe).close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101, the process was started with pipes
    return pipe
