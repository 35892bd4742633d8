"""`trimtab serve --cluster` as a process, and a client that speaks to it as the API server does."""

import base64
import http.client
import json
import ssl
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

READY_WITHIN_S = 60


@dataclass(frozen=True)
class Reply:
    """An HTTP answer; `response` and `patch` are those of the AdmissionReview in it."""

    status: int
    body: bytes

    @property
    def response(self) -> dict[str, Any]:
        review = json.loads(self.body)
        assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: dict[str, Any] = review["response"]
        return response

    @property
    def patch(self) -> list[dict[str, Any]]:
        response = self.response
        assert ("patch" in response) == ("patchType" in response)
        if "patch" not in response:
            return []
        assert response["patchType"] == "JSONPatch"
        operations: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"], validate=True))
        return operations


class Serving:
    """The server over one cluster file, started on entering and stopped on leaving."""

    def __init__(self, cluster: dict[str, Any], directory: Path, *, policy: str | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / "cluster.json"
        self._file.write_text(json.dumps(cluster))
        self._certs = directory / "certs"
        self._log = directory / "log"
        self._policy = ["--policy", str(directory / "policy.yaml")] if policy is not None else []
        if policy is not None:
            (directory / "policy.yaml").write_text(policy)

    def __enter__(self) -> Self:
        command = [
            sys.executable,
            "-m",
            "webhook.cli",
            "serve",
            "--cluster",
            str(self._file),
            "--cert-dir",
            str(self._certs),
            "--port",
            "0",
            *self._policy,
        ]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self._first_line()
        assert line.startswith("listening on https://"), f"{line!r}\n{self.log}"
        self.url = line.removeprefix("listening on ").strip()
        self._host = urlsplit(self.url)
        self.context = ssl.create_default_context(cafile=str(self._certs / "ca.crt"))
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait(timeout=30)
        if self.process.stdout:
            self.process.stdout.close()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            self._host.hostname or "", self._host.port, context=self.context, timeout=30
        )

    def post(
        self, body: bytes, *, query: str = "timeout=2s", content_type: str = "application/json"
    ) -> Reply:
        connection = self.connect()
        try:
            connection.request("POST", f"/mutate?{query}", body, {"Content-Type": content_type})
            answer = connection.getresponse()
            return Reply(answer.status, answer.read())
        finally:
            connection.close()

    def _first_line(self) -> str:
        """Read the line that says it is ready, and do not wait for ever for it."""
        assert self.process.stdout is not None
        timer = threading.Timer(READY_WITHIN_S, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.readline()
        finally:
            timer.cancel()
