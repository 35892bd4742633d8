"""With a real Prometheus as the only source of readings, Pods are balanced as with metrics-server."""

import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from ..cluster import topology, waiting
from ..cluster.control_plane import ControlPlane
from ..cluster.prometheus import Prometheus
from ..cluster.simulation import Simulation
from ..cluster.trimtab import Trimtab
from . import balance, policies
from .bursts import STEERED, Bursts

SEEDS = (1, 2, 3)
WITHIN_S = 120
WINDOW_S = 30
CORES = f"sum(deriv(node_cpu_usage_seconds_total[{WINDOW_S}s]))"
FRESH = 'trimtab_nodes{usage="fresh"}'


@pytest.fixture
def prometheus(
    plane: ControlPlane, simulation: Simulation, nodes: dict[str, topology.SimulatedNode], tmp_path: Path
) -> Iterator[Prometheus]:
    """It scrapes every simulated kubelet's resource metrics as often as metrics-server does."""
    address = simulation.kubelets_url.removeprefix("https://")
    targets = [
        {"targets": [address], "labels": {"node": name, "__metrics_path__": f"/{name}/metrics/resource"}}
        for name in nodes
    ]
    kept = {"source_labels": ["__name__"], "regex": "node_.*", "action": "keep"}
    job = {
        "job_name": "kubelets",
        "scheme": "https",
        "tls_config": {"ca_file": str(plane.authority.files.certificate)},
        "static_configs": targets,
        "metric_relabel_configs": [kept],
    }
    with Prometheus(tmp_path / "prometheus", [job], interval="10s") as started:
        base = balance.base_cores(simulation)
        waiting.until(
            lambda: abs(cores(started) - base) < 0.02 * base,
            "rates of every node",
            timeout_s=WITHIN_S,
            state=started.process.tail,
        )
        yield started


def cores(server: Prometheus) -> float:
    return sum(float(sample["value"][1]) for sample in server.query(CORES))


def test_the_same_balance_as_with_metrics_server(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    trimtab: Trimtab,
    bursts: Bursts,
    prometheus: Prometheus,
) -> None:
    source = {
        "type": "prometheus",
        "url": prometheus.url,
        "preset": "kubelet",
        "windowSeconds": WINDOW_S,
        "intervalSeconds": 5,
        "node": {"label": "node", "match": "name"},
    }
    base = balance.base_cores(simulation)
    stock, known = bursts.stock(SEEDS), bursts.steered(SEEDS)
    policies.write(plane, "sources", usage={"sources": [source]})
    waiting.until(
        functools.partial(is_asked_alone, trimtab, "prometheus", len(nodes)),
        "readings of Prometheus alone",
        timeout_s=WITHIN_S,
        state=trimtab.metrics,
    )
    by_server = [each.efficiency(unsteered) for each, unsteered in zip(known, stock, strict=True)]
    found = []
    for seed, unsteered, other in zip(SEEDS, stock, by_server, strict=True):
        waiting.until(
            lambda: abs(cores(prometheus) - base) < 0.02 * base, "idle nodes", timeout_s=WITHIN_S, poll_s=1
        )
        found.append(bursts.measure(STEERED, seed).efficiency(unsteered))
        assert up(trimtab) == {"prometheus": 1}
        print(f"seed {seed}: E with metrics-server {other:.3f}, with Prometheus {found[-1]:.3f}", flush=True)
    shown = usage_of(plane)
    policies.remove(plane)

    assert shown == {
        "source": "prometheus",
        "error": None,
        "matched": len(nodes),
        "silent": 0,
        "unmatched": 0,
    }
    assert median(found) >= 0.95 * median(by_server)


def is_asked_alone(trimtab: Trimtab, source: str, count: int) -> bool:
    return [*up(trimtab)] == [source] and trimtab.metrics()[FRESH] == count


def usage_of(plane: ControlPlane) -> dict[str, object]:
    """Return what `trimtab usage` says of the only source of the policy in the cluster."""
    command = [
        str(Path(sys.executable).with_name("trimtab")),
        "usage",
        f"--kubeconfig={plane.kubeconfig}",
        "-o",
        "json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    (found,) = json.loads(done.stdout)["sources"]
    counts = {key: found[key]["count"] for key in ("silent", "unmatched")}
    return {**{key: found[key] for key in ("source", "error", "matched")}, **counts}


def up(trimtab: Trimtab) -> dict[str, float]:
    """Return the sources that are asked, and whether each answers."""
    prefix = 'trimtab_usage_source_up{source="'
    return {
        sample.removeprefix(prefix).removesuffix('"}'): value
        for sample, value in trimtab.metrics().items()
        if sample.startswith(prefix)
    }
