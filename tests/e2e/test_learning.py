"""Pods that use other amounts than they request are placed by what their workload was seen to use."""

import dataclasses
import json
import random
from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from ..builders import make_pod
from ..cluster import topology, usage, waiting
from ..cluster.control_plane import ControlPlane
from ..cluster.simulation import Simulation
from ..cluster.trimtab import Trimtab
from . import balance
from .balance import Workload
from .bursts import STEERED, STOCK
from .conftest import MakeNamespace, create, decision

PODS = 300
SEEDS = (1, 2, 3)
REQUEST_MILLI, LEAST_MILLI, MOST_MILLI = 500, 50, 1500
LEARNED_WITHIN_S = 180
IN_FORCE_WITHIN_S = 30

POLICY = "/api/v1/namespaces/trimtab-system/configmaps/scoring-policy"


@pytest.fixture
def namespaces(plane: ControlPlane, simulation: Simulation, trimtab: Trimtab) -> Iterator[None]:
    """Leave the nodes and the policy as they were found."""
    yield
    for namespace in (STEERED, STOCK):
        balance.clear(plane, namespace)
    plane.request("PATCH", POLICY, {"data": None})


def test_a_deployment_is_placed_by_what_its_pods_use_from_its_second_scale_up(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    trimtab: Trimtab,
    namespaces: None,
) -> None:
    load = Workload("greedy", 3, 1000, 1024, uses_milli=3000)
    balance.burst(plane, simulation, STOCK, [load])
    scale(plane, simulation, STOCK, load, 30)
    stock = balance.sigma(balance.utilization(simulation, nodes))
    balance.clear(plane, STOCK)
    balance.settle(simulation)
    known = trimtab.metrics()["trimtab_learned_workloads"]
    first, _ = balance.burst(plane, simulation, STEERED, [load])
    wait_learned(trimtab, int(known) + 1)
    names = {pod["metadata"]["name"] for pod in first}
    found = scale(plane, simulation, STEERED, load, 30)
    steered = balance.sigma(balance.utilization(simulation, nodes))
    second = [pod for pod in found if pod["metadata"]["name"] not in names]
    best = balance.sigma(balance.ideal(nodes, [3.0] * 30))
    efficiency = balance.efficiency(stock, steered, best)
    print(
        f"requests 1, uses 3: sigma stock {stock:.4f}, steered {steered:.4f}, ideal {best:.4f}, "
        f"E {efficiency:.3f}",
        flush=True,
    )

    assert [expected(pod) for pod in first] == [("1", "requests")] * 3
    assert len(second) == 27
    for pod in second:
        cpu, source = expected(pod)
        assert source == "learned"
        assert usage.quantity(cpu) == pytest.approx(3.0, rel=0.05)
    assert efficiency >= 0.9


def test_the_next_run_of_a_cron_job_is_placed_by_what_the_last_one_used(
    plane: ControlPlane, trimtab: Trimtab, make_namespace: MakeNamespace
) -> None:
    namespace, known = make_namespace("enabled"), trimtab.metrics()["trimtab_learned_workloads"]
    plane.request("POST", f"/apis/batch/v1/namespaces/{namespace}/cronjobs", cron_job())

    first = run_job(plane, namespace, "first")
    wait_learned(trimtab, int(known) + 1)
    plane.kubectl("delete", "job", "first", "-n", namespace)
    second = run_job(plane, namespace, "second")

    assert [expected(pod) for pod in first] == [("250m", "requests")] * 2
    for pod in second:
        cpu, source = expected(pod)
        assert source == "learned"
        assert usage.quantity(cpu) == pytest.approx(2.0, rel=0.05)


def test_workloads_that_use_other_than_they_request_are_balanced_once_they_are_known(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    trimtab: Trimtab,
    namespaces: None,
) -> None:
    loads = {seed: workloads(seed) for seed in SEEDS}
    known = trimtab.metrics()["trimtab_learned_workloads"]
    few = [dataclasses.replace(each, replicas=2) for load in loads.values() for each in load]
    balance.burst(plane, simulation, STEERED, few)
    wait_learned(trimtab, int(known) + len(few))
    balance.clear(plane, STEERED)
    stock = {seed: _spread(plane, simulation, nodes, STOCK, load)[0] for seed, load in loads.items()}
    found = [_efficiency(plane, simulation, nodes, seed, load, stock[seed]) for seed, load in loads.items()]

    assert median(found) >= 0.93


def _spread(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    namespace: str,
    load: list[Workload],
) -> tuple[float, float, set[str]]:
    """Return what a burst leaves, what an ideal one would, and where its Pods' expected CPU came from."""
    pods, cores = balance.burst(plane, simulation, namespace, load)
    found = balance.sigma(balance.utilization(simulation, nodes))
    sources = {expected(pod)[1].split(",")[0] for pod in pods} if namespace == STEERED else set()
    balance.clear(plane, namespace)
    return found, balance.sigma(balance.ideal(nodes, cores)), sources


def _efficiency(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    seed: int,
    load: list[Workload],
    stock: float,
) -> float:
    """Return E with what was learned; print it beside that of believing requests."""
    shown = [f"seed {seed}: sigma stock {stock:.4f}"]
    efficiency = 0.0
    for mode in ("requests", "learned"):
        use_policy(plane, mode, learn=mode == "learned")
        balance.settle(simulation)
        sigma, best, sources = _spread(plane, simulation, nodes, STEERED, load)
        assert sources == {mode}
        efficiency = balance.efficiency(stock, sigma, best)
        shown.append(f"by {mode} {sigma:.4f}, ideal {best:.4f}, E {efficiency:.3f}")
    print("; ".join(shown), flush=True)
    return efficiency


def cron_job() -> dict[str, Any]:
    """Return a CronJob that runs when it is told to: two Pods that request 250m and use 2 CPU."""
    requests = {"cpu": "250m", "memory": "256Mi"}
    container = {"name": "sum", "image": "registry.example/sum:1", "resources": {"requests": requests}}
    template = {
        "metadata": {"annotations": {usage.CPU: "2", "sim.trimtab.dev/run-for": "10m"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    job = {"parallelism": 2, "completions": 2, "template": template}
    return {
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": job}},
    }


def run_job(plane: ControlPlane, namespace: str, name: str) -> list[dict[str, Any]]:
    """Run the CronJob now; return the two Pods of this run."""
    plane.kubectl("create", "job", name, "--from=cronjob/nightly", "-n", namespace)

    def pods() -> list[dict[str, Any]]:
        found = balance.pods(plane, namespace)
        mine = [pod for pod in found if pod["metadata"]["ownerReferences"][0]["name"] == name]
        return mine if len(mine) == 2 else []

    return waiting.until(pods, f"two Pods of {name}", timeout_s=balance.BOUND_WITHIN_S)


def workloads(seed: int) -> list[Workload]:
    """Return ten workloads of 500m each; what they use rises by equal steps of ratio, in random order."""
    draw = random.Random(seed)
    ratio = MOST_MILLI / LEAST_MILLI
    uses = [round(LEAST_MILLI * ratio ** (step / 9)) for step in range(10)]
    draw.shuffle(uses)
    return [
        Workload(f"seed{seed}-{each.name}", each.replicas, REQUEST_MILLI, 512, uses_milli=milli)
        for each, milli in zip(balance.workloads(PODS, seed=seed), uses, strict=True)
    ]


def expected(pod: dict[str, Any]) -> tuple[str, str]:
    """Return the CPU that the Pod's decision expected, and where that came from."""
    found = (decision(pod) or {})["expected"]
    return found["cpu"], found["from"]


def wait_learned(trimtab: Trimtab, count: int) -> None:
    waiting.until(
        lambda: trimtab.metrics()["trimtab_learned_workloads"] >= count,
        f"{count} workloads learned",
        timeout_s=LEARNED_WITHIN_S,
        poll_s=1.0,
    )


def scale(
    plane: ControlPlane, simulation: Simulation, namespace: str, load: Workload, replicas: int
) -> list[dict[str, Any]]:
    """Scale a Deployment; return its Pods once all run and the simulated kubelets use what they use."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{load.name}"
    plane.request("PATCH", path, {"spec": {"replicas": replicas}})

    def running() -> list[dict[str, Any]]:
        found = balance.pods(plane, namespace)
        up = [pod for pod in found if pod["status"].get("phase") == "Running"]
        return found if len(up) == replicas else []

    found = waiting.until(running, f"{replicas} Pods running", timeout_s=balance.BOUND_WITHIN_S)
    cores = replicas * (load.uses_milli or 0) / 1000 + balance.base_cores(simulation)
    waiting.until(
        lambda: abs(balance.total_cores(simulation) - cores) < 0.1,
        "the simulated kubelets to use what the Pods use",
        timeout_s=balance.SETTLED_WITHIN_S,
    )
    return found


def use_policy(plane: ControlPlane, name: str, *, learn: bool) -> None:
    """Put a policy in the ConfigMap, and wait until decisions are made by it."""
    text = {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "ScoringPolicy",
        "metadata": {"name": name},
        "expectedUsage": {"learn": learn},
    }
    plane.request("PATCH", POLICY, {"data": {"policy.yaml": json.dumps(text)}})

    def in_force() -> bool:
        decided = decision(create(plane, make_pod(namespace=STEERED), dry_run=True))
        return decided is not None and decided["policy"] == name

    waiting.until(in_force, f"policy {name} in force", timeout_s=IN_FORCE_WITHIN_S)
