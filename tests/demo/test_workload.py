"""The generated cluster and its workload: what its docstring promises."""

import json
from collections import Counter
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from tests.builders import decode_pod
from webhook import clusterfile, kube
from webhook.demo import workload
from webhook.demo.workload import Workload


@pytest.fixture(name="generated", scope="module")
def _generated() -> Workload:
    return workload.generate(200, 1200, 1)


def test_the_same_seed_gives_the_same_and_another_one_another() -> None:
    first, again, other = (json.dumps(workload.generate(20, 40, seed).__repr__()) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_nodes_are_of_three_sizes_in_three_zones(generated: Workload) -> None:
    nodes = [item for item in generated.items if item["kind"] == "Node"]
    assert Counter(node["status"]["allocatable"]["cpu"] for node in nodes) == {
        "8000m": 100,
        "16000m": 60,
        "32000m": 40,
    }
    assert Counter(node["metadata"]["labels"][kube.ZONE] for node in nodes) == {
        "zone-a": 67,
        "zone-b": 67,
        "zone-c": 66,
    }


def test_a_quarter_of_the_nodes_runs_hot(generated: Workload) -> None:
    cpu, memory = generated.base / generated.allocatable
    hot = cpu > 0.4
    assert hot.sum() == 50
    assert (cpu[hot].min() > 0.449, cpu[hot].max() <= 0.65) == (True, True)
    assert (cpu[~hot].min() > 0.019, cpu[~hot].max() <= 0.30) == (True, True)
    assert (memory.min() > 0.099, memory.max() <= 0.40) == (True, True)


def test_the_base_load_is_measured_but_not_requested(generated: Workload, tmp_path: Path) -> None:
    """Read as the server reads it, every node has its use and no requests but the Pod count."""
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(generated.cluster()))
    cluster = clusterfile.load(path)
    nodes = cluster.nodes
    rows = np.array([nodes.row(name) for name in generated.names], np.int64)
    assert cluster.pods == 200
    assert nodes.requested[:3, rows].sum() == 0
    assert nodes.fresh(0.0, 1.0)[:, rows].all()
    assert np.array_equal(nodes.allocatable[:2, rows], generated.allocatable)
    assert np.array_equal(nodes.used[0, rows], generated.base[0])
    assert np.abs(nodes.used[1, rows] - generated.base[1]).max() < 1024
    assert cluster.steering(workload.NAMESPACE) == "enabled"


def test_pods_arrive_by_deployment_and_are_of_the_documented_sizes(generated: Workload) -> None:
    pods = [decode_pod(raw) for raw in generated.pods]
    assert len(pods) == 1200
    apps = [(key, list(group)) for key, group in groupby(pods, key=lambda pod: pod.metadata.generate_name)]
    assert len({key for key, _ in apps}) == len(apps)
    assert {
        len({pod.metadata.labels["app"] for pod in group if pod.metadata.labels}) for _, group in apps
    } == {1}
    assert min(len(group) for _, group in apps) >= 1
    assert 20 < max(len(group) for _, group in apps) <= workload.MAX_REPLICAS
    for _, group in apps:
        requests = {kube.read_requests(pod.spec) for pod in group}
        assert len(requests) == 1
        only = requests.pop()
        assert only.cpu_milli in {size for size, _ in workload.CPU_SIZES}
        per_cpu = only.memory_bytes * 1000 / workload.GIB / only.cpu_milli
        assert any(per_cpu == pytest.approx(size, rel=1e-4) for size in workload.GIB_PER_CPU)


@pytest.mark.parametrize("seed", range(1, 6))
def test_six_pods_a_node_add_about_a_third_to_the_use(seed: int) -> None:
    generated = workload.generate(200, 1200, seed)
    added = sum(kube.read_requests(decode_pod(raw).spec).cpu_milli for raw in generated.pods)
    assert 0.24 < added / generated.allocatable[0].sum() < 0.40


def test_two_nodes_are_enough() -> None:
    generated = workload.generate(2, 1, 1)
    assert generated.names == ["node-0", "node-1"]
    assert len(generated.pods) == 1
