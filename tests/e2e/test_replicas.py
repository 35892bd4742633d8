"""Several replicas steer a burst that is dealt out over them about as well as one does."""

import json
from collections.abc import Iterator
from statistics import median

import pytest

from ..cluster import topology, waiting
from ..cluster.control_plane import ControlPlane
from ..cluster.simulation import Simulation
from ..cluster.trimtab import DECISION, Trimtab
from . import balance
from .conftest import STEERED, STOCK, WITHIN_S

PODS = 300
SEEDS = (1, 2, 3)
REPLICAS = 3


@pytest.fixture
def replicas(plane: ControlPlane, trimtab: Trimtab) -> Iterator[Trimtab]:
    with Trimtab(plane, replicas=REPLICAS) as started:
        yield started
    lead(trimtab)


def test_a_burst_dealt_over_three_replicas_is_balanced_about_as_well_as_by_one(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    trimtab: Trimtab,
    replicas: Trimtab,
) -> None:
    stock = [burst(plane, simulation, nodes, STOCK, seed)[0] for seed in SEEDS]
    medians = []
    for receiver in (trimtab, replicas):
        lead(receiver)
        found = []
        for seed, unsteered in zip(SEEDS, stock, strict=True):
            before = decisions(receiver)
            sigma, ideal = burst(plane, simulation, nodes, STEERED, seed)
            dealt = [int(now - then) for now, then in zip(decisions(receiver), before, strict=True)]
            assert sum(dealt) == PODS
            assert min(dealt) >= PODS / 20
            # The order of arrival differs from burst to burst, and with it the ideal.
            found.append(balance.efficiency(unsteered, sigma, ideal))
            print(
                f"seed {seed}, Pods dealt {dealt}: sigma {sigma:.4f}, ideal {ideal:.4f}, E {found[-1]:.3f}",
                flush=True,
            )
        medians.append(median(found))
    one, three = medians
    print(f"E of one replica {one:.3f}, of {REPLICAS} {three:.3f}")

    assert one >= 0.95
    assert three >= 0.85


def burst(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    namespace: str,
    seed: int,
) -> tuple[float, float]:
    """Return the deviation of utilization that a burst leaves, and the ideal one; clear it away."""
    load = balance.workloads(PODS, seed=seed)
    pods, arrivals = balance.burst(plane, simulation, namespace, load)
    outcomes = {
        json.loads(pod["metadata"].get("annotations", {}).get(DECISION, "{}")).get("outcome") for pod in pods
    }
    assert outcomes == ({"steered"} if namespace == STEERED else {None})
    sigma = balance.sigma(balance.utilization(simulation, nodes))
    balance.clear(plane, simulation, namespace)
    return sigma, balance.sigma(balance.ideal(nodes, arrivals))


def lead(receiver: Trimtab) -> None:
    """Let a Trimtab have the API server's calls, and wait until it has them."""
    receiver.receive()
    before = sum(decisions(receiver))

    def called() -> bool:
        receiver.wait_called()
        return sum(decisions(receiver)) > before

    waiting.until(called, "the API server's calls", timeout_s=WITHIN_S)


def decisions(receiver: Trimtab) -> list[float]:
    """Count the decisions of each replica."""
    return [
        sum(
            value
            for sample, value in receiver.metrics(index).items()
            if sample.startswith("trimtab_decisions_total")
        )
        for index in range(len(receiver.replicas))
    ]
