"""Admissions a second and latency beside a no-op webhook under the same load.

Every server is a process of its own; the rounds go through all of them in turn, so that a change of the
machine's speed meets each alike. Trust the ratios: client and servers share the machine's cores.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from ..cases import reviews
from . import load

SIZES = (100, 1000)
ROUNDS = 5
SECONDS = 2.0
SATURATED, ALONE = 8, 1
NOOP = "no-op"


@contextmanager
def server(command: list[str]) -> Iterator[str]:
    """Start a server; give the URL that it prints once it listens."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), f"{command} did not start"
        yield line.removeprefix("listening on ").strip()
    finally:
        process.terminate()
        process.wait(timeout=30)


def cluster_file(directory: Path, nodes: int) -> Path:
    path = directory / f"{nodes}.json"
    path.write_text(
        json.dumps(
            reviews.cluster_file(
                {
                    "cluster": {"node_count": nodes},
                    "namespace_labels": {"trimtab.dev/steering": "enabled"},
                    "request": {"namespace": "team"},
                }
            )
        )
    )
    return path


def start_all(stack: ExitStack, directory: Path) -> dict[str, tuple[str, Path]]:
    """Start the no-op and a Trimtab for each size; return their URLs and CA files."""
    python = sys.executable
    certificates = directory / NOOP
    certificates.mkdir()
    url = stack.enter_context(server([python, "-m", "tests.bench.noop", str(certificates)]))
    started = {NOOP: (url, certificates / "ca.crt")}
    for nodes in SIZES:
        certificates = directory / f"certs-{nodes}"
        command = [
            python,
            "-m",
            "webhook.cli",
            "serve",
            "--cluster",
            str(cluster_file(directory, nodes)),
            "--cert-dir",
            str(certificates),
            "--port",
            "0",
        ]
        started[str(nodes)] = (stack.enter_context(server(command)), certificates / "ca.crt")
    return started


async def measure(servers: dict[str, tuple[str, Path]]) -> dict[str, dict[int, list[load.Sample]]]:
    samples: dict[str, dict[int, list[load.Sample]]] = {name: {SATURATED: [], ALONE: []} for name in servers}
    for number in range(ROUNDS + 1):
        print(f"round {number} of {ROUNDS}{' (warm-up)' * (number == 0)}", file=sys.stderr)
        for name, (url, ca_file) in servers.items():
            for connections, found in samples[name].items():
                sample = await load.admit(url, ca_file, connections=connections, seconds=SECONDS)
                if number:
                    found.append(sample)
                if name != NOOP:
                    assert sample.patched, f"{name} nodes: no Pod was steered, so nothing was measured"
    return samples


def summary(samples: dict[int, list[load.Sample]]) -> dict[str, Any]:
    saturated, alone = samples[SATURATED], samples[ALONE]
    return {
        "admissions_per_second": round(median(sample.per_second for sample in saturated), 1),
        "saturated": {"p50_ms": _median(saturated, "p50_ms"), "p99_ms": _median(saturated, "p99_ms")},
        "alone": {"p50_ms": _median(alone, "p50_ms"), "p99_ms": _median(alone, "p99_ms")},
    }


def ratios(ours: dict[int, list[load.Sample]], noop: dict[int, list[load.Sample]]) -> dict[str, float]:
    """Compare round by round, then take the median: the machine's drift falls out."""

    def ratio(connections: int, field: str) -> float:
        pairs = zip(ours[connections], noop[connections], strict=True)
        found: float = median(getattr(one, field) / getattr(other, field) for one, other in pairs)
        return round(found, 3)

    return {
        "throughput": ratio(SATURATED, "per_second"),
        "p50_alone": ratio(ALONE, "p50_ms"),
        "p99_alone": ratio(ALONE, "p99_ms"),
        "p99_saturated": ratio(SATURATED, "p99_ms"),
    }


def _median(samples: list[load.Sample], field: str) -> float:
    found: float = median(getattr(sample, field) for sample in samples)
    return round(found, 3)


def measured() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as name, ExitStack() as stack:
        servers = start_all(stack, Path(name))
        samples = asyncio.run(measure(servers))
    return {
        "rounds": ROUNDS,
        "seconds_a_round": SECONDS,
        "connections": {"saturated": SATURATED, "alone": ALONE},
        "noop": summary(samples[NOOP]),
        "trimtab": {
            nodes: summary(samples[nodes]) | {"ratio_to_noop": ratios(samples[nodes], samples[NOOP])}
            for nodes in map(str, SIZES)
        },
    }
