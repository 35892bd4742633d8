"""A real Prometheus on loopback, and small exporters for it to scrape.

The exporters say what the real ones say, in their names and labels: node-exporter `node_cpu_seconds_total`
by core and mode, cAdvisor `container_…{id="/"}` with timestamps of its own, the kubelet its resource metrics.
"""

import json
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from . import debian, parts, process, waiting

READY_WITHIN_S = 60


class Prometheus:
    """One server over a scrape configuration; a JSON document is YAML as well."""

    def __init__(
        self, directory: Path, scrape_configs: Sequence[Mapping[str, Any]], *, interval: str
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = process.free_port()
        self.url = f"http://{parts.LOOPBACK}:{self.port}"
        config = directory / "prometheus.yaml"
        timing = {"scrape_interval": interval, "scrape_timeout": interval}
        config.write_text(json.dumps({"global": timing, "scrape_configs": list(scrape_configs)}))
        program = debian.find("prometheus")
        argv = [
            str(program.path),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={parts.LOOPBACK}:{self.port}",
            "--log.level=warn",
        ]
        log = directory / "prometheus.log"
        self.process = process.Process("prometheus", argv, log=log, env=program.env)

    def __enter__(self) -> Self:
        self.process.start()
        waiting.until(self._ready, "Prometheus ready", timeout_s=READY_WITHIN_S, state=self.process.tail)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop(process.LAST_GRACE_S)

    def query(self, text: str) -> list[dict[str, Any]]:
        """What an instant query finds."""
        arguments = urllib.parse.urlencode({"query": text})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{arguments}", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
            return found

    def _ready(self) -> bool:
        self.process.require_running()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
                return True
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        return False


@dataclass
class Exporter:
    """One node's exporter: a busy `cores` of its 8, `memory` of its 32 GiB in use, on a port of its own."""

    cores: float
    memory: float
    frozen: bool = False
    _seconds: float = 1000.0
    _at: float = field(default_factory=time.time)
    _page: str = ""
    _server: ThreadingHTTPServer | None = None
    port: int = 0

    def __enter__(self) -> Self:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = exporter.page().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer((parts.LOOPBACK, 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Die, as an exporter does."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def page(self) -> str:
        """All metrics; the same again and again, timestamps and all, while it is frozen."""
        if not self.frozen or not self._page:
            now = time.time()
            self._seconds, self._at = self._seconds + self.cores * (now - self._at), now
            self._page = self._text(int(now * 1000))
        return self._page

    def _text(self, at: int) -> str:
        # Half of it on each of two cores, in user mode but for a tenth; idle and iowait are no use.
        modes = [
            f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {self._seconds * share:.6f}'
            for core in (0, 1)
            for mode, share in (("user", 0.45), ("system", 0.05))
        ]
        idle = [
            f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {at / 1000:.3f}'
            for core in (0, 1)
            for mode in ("idle", "iowait", "steal")
        ]
        total = 32 << 30
        lines = [
            *modes,
            *idle,
            f"node_memory_MemTotal_bytes {total}",
            f"node_memory_MemAvailable_bytes {total - self.memory:.0f}",
            f'container_cpu_usage_seconds_total{{cpu="total",id="/"}} {self._seconds:.6f} {at}',
            f'container_cpu_usage_seconds_total{{cpu="total",id="/kubepods"}} {self._seconds / 2:.6f} {at}',
            f'container_memory_working_set_bytes{{id="/"}} {self.memory:.0f} {at}',
            f'container_memory_working_set_bytes{{id="/kubepods"}} {self.memory / 2:.0f} {at}',
            f"node_cpu_usage_seconds_total {self._seconds:.6f} {at}",
            f"node_memory_working_set_bytes {self.memory:.0f} {at}",
        ]
        return "\n".join(lines) + "\n"
