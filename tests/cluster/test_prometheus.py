"""Readings from a real Prometheus: every preset and mapping, and exporters that die or stand still."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from webhook.cluster import Cluster
from webhook.policy.sources import NodeEntry, PrometheusEntry, QueriesEntry
from webhook.snapshot import State
from webhook.usage.answer import Answer, SourceError
from webhook.usage.prometheus import Prometheus as Source

from ..builders import GIB, make_cluster, make_node
from ..usage.listening import take
from . import waiting
from .prometheus import Exporter, Prometheus

NODES = ("node-0", "node-1", "node-2")
USES = {"node-0": (2.0, 8.0), "node-1": (4.0, 16.0), "node-2": (0.5, 2.0)}  # cores, GiB
WINDOW_S = 5.0
WITHIN_S = 60
STALE_AFTER_S = 6.0
NAME = NodeEntry(label="node", match="name")


Exporters = dict[str, Exporter]


@contextmanager
def scraping(directory: Path) -> Iterator[tuple[Prometheus, Exporters]]:
    """Scrape every second; `instance` is 10.0.0.N:9100, `node` the name, and a fourth target a stranger."""
    with ExitStack() as stack:
        exporters = {
            name: stack.enter_context(Exporter(cores, gib * GIB)) for name, (cores, gib) in USES.items()
        }
        targets = [
            (exporter.port, {"instance": f"10.0.0.{NODES.index(name)}:9100", "node": name})
            for name, exporter in exporters.items()
        ]
        targets.append((exporters["node-2"].port, {"instance": "10.9.9.9:9100", "node": "stranger"}))
        static = [{"targets": [f"127.0.0.1:{port}"], "labels": labels} for port, labels in targets]
        job = {"job_name": "nodes", "static_configs": static}
        server = stack.enter_context(Prometheus(directory, [job], interval="1s"))
        waiting.until(
            lambda: (
                len(server.query(f"deriv(node_cpu_usage_seconds_total[{WINDOW_S:.0f}s])")) == len(targets)
            ),
            "two samples of every target",
            timeout_s=WITHIN_S,
            state=server.process.tail,
        )
        yield server, exporters


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A server for the tests that only read."""
    with scraping(tmp_path_factory.mktemp("prometheus")) as (started, _):
        yield started


def nodes() -> Cluster:
    return make_cluster(
        *(make_node(name, internal_ip=f"10.0.0.{number}") for number, name in enumerate(NODES)),
        make_node("lonely"),
    )


def entry(server: Prometheus, **fields: Any) -> PrometheusEntry:
    return PrometheusEntry(type="prometheus", url=server.url, windowSeconds=WINDOW_S, **fields)


def ask(cluster: Cluster, source: PrometheusEntry) -> Answer:
    """Ask once and take the answer in, as the poller does."""
    answer = asyncio.run(Source(source).ask(cluster.nodes))
    take(cluster, answer, now=time.monotonic(), wall=time.time())
    return answer


def states(cluster: Cluster) -> dict[str, tuple[State, State]]:
    return {
        name: cluster.nodes.state(cluster.nodes.row(name) or 0, time.monotonic(), STALE_AFTER_S)
        for name in (*NODES, "lonely")
    }


FRESH, STALE, MISSING = (State.FRESH,) * 2, (State.STALE,) * 2, (State.MISSING,) * 2


@pytest.mark.parametrize("preset", ["node-exporter", "cadvisor", "kubelet"])
def test_every_preset_by_name_and_by_address(server: Prometheus, preset: Any) -> None:
    for node in (NAME, NodeEntry()):
        cluster = nodes()

        report = ask(cluster, entry(server, preset=preset, node=node)).report

        for row, (cores, gib) in enumerate(USES.values()):
            assert cluster.nodes.used[0, row] == pytest.approx(cores * 1000, rel=0.1)
            assert cluster.nodes.used[1, row] == gib * GIB
        assert states(cluster) == {**dict.fromkeys(NODES, FRESH), "lonely": MISSING}
        assert (report.matched, report.silent.first, report.ambiguous.count) == (3, ["lonely"], 0)
        # Three queries, each with the target that is no node.
        assert report.unmatched.count == 3
        assert all("stranger" in series for series in report.unmatched.first)


def test_two_jobs_that_scrape_one_node_are_ambiguous(server: Prometheus) -> None:
    cluster = nodes()
    queries = QueriesEntry(
        cpu='label_replace(node_memory_MemTotal_bytes, "node", "node-1", "node", "node-0")'
    )

    report = ask(cluster, entry(server, queries=queries, node=NAME)).report

    assert report.ambiguous.count == 1
    assert "node-1" in report.silent.first
    assert states(cluster)["node-1"] == MISSING


def test_named_numbers_and_a_query_that_is_none(server: Prometheus) -> None:
    source = entry(
        server,
        preset="kubelet",
        node=NAME,
        series={
            "free": "1 - node_memory_working_set_bytes / (32 * 2^30)",
            "typo": "rate(",
            "all": "vector(1)",
        },
    )

    answer = ask(nodes(), source)

    assert {(name, node): value for name, node, value in answer.numbers} == {
        ("free", "node-0"): 0.75,
        ("free", "node-1"): 0.5,
        ("free", "node-2"): 0.9375,
    }
    assert answer.report.matched == 3
    assert len(answer.report.errors) == 1
    assert answer.report.errors[0].startswith("series.typo: bad_data: ")
    assert "{}" in answer.report.unmatched.first  # vector(1) says nothing of a node


PRESETS: tuple[Any, ...] = ("node-exporter", "cadvisor", "kubelet")


def test_an_exporter_that_dies_takes_its_node_with_it_and_no_other(tmp_path: Path) -> None:
    with scraping(tmp_path) as (server, exporters):
        clusters = {preset: nodes() for preset in PRESETS}
        sources = {preset: entry(server, preset=preset, node=NAME) for preset in PRESETS}
        for preset, cluster in clusters.items():
            ask(cluster, sources[preset])

        exporters["node-0"].stop()
        seen: set[tuple[State, State]] = set()

        def gone() -> bool:
            for preset, cluster in clusters.items():
                ask(cluster, sources[preset])
                found = states(cluster)
                seen.add(found["node-0"])
                assert found["node-1"] == found["node-2"] == FRESH
            return all(states(cluster)["node-0"] == STALE for cluster in clusters.values())

        waiting.until(gone, "its reading stale", timeout_s=WITHIN_S, poll_s=0.5)

    assert seen == {FRESH, STALE}
    for cluster in clusters.values():
        assert cluster.nodes.used[0, 0] == pytest.approx(2000, rel=0.1)


def test_an_exporter_that_repeats_itself_does_not_make_an_idle_node(tmp_path: Path) -> None:
    with scraping(tmp_path) as (server, exporters):
        clusters = {preset: nodes() for preset in PRESETS}
        sources = {preset: entry(server, preset=preset, node=NAME) for preset in PRESETS}
        for preset, cluster in clusters.items():
            ask(cluster, sources[preset])

        exporters["node-0"].frozen = True
        # node-exporter's samples have no time of their own, so Prometheus takes the page for a new one.
        want = {"node-exporter": (State.INVALID, State.FRESH), "cadvisor": STALE, "kubelet": STALE}

        def known() -> bool:
            for preset, cluster in clusters.items():
                ask(cluster, sources[preset])
                found = states(cluster)
                assert found["node-1"] == found["node-2"] == FRESH
            return all(states(cluster)["node-0"] == want[preset] for preset, cluster in clusters.items())

        waiting.until(known, "its reading not used", timeout_s=WITHIN_S, poll_s=0.5)


def test_prometheus_itself_goes_and_the_last_readings_stay_until_they_are_stale(tmp_path: Path) -> None:
    with scraping(tmp_path) as (server, _):
        cluster, source = nodes(), entry(server, preset="kubelet", node=NAME)
        ask(cluster, source)

        server.process.stop()

        with pytest.raises(SourceError):
            ask(cluster, source)
        assert states(cluster)["node-0"] == FRESH
        waiting.until(
            lambda: {state for name, state in states(cluster).items() if name != "lonely"} == {STALE},
            "every reading stale",
            timeout_s=WITHIN_S,
        )
