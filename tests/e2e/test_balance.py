"""The first thing that has to hold: real Pods are admitted, steered, bound, and better balanced."""

import json
from statistics import median

from ..cluster import topology
from ..cluster.control_plane import ControlPlane
from ..cluster.simulation import Simulation
from ..cluster.trimtab import DECISION, Trimtab
from . import balance
from .conftest import STEERED, STOCK

PODS = 300
SEEDS = (1, 2, 3, 4, 5)


def test_steered_deployments_are_better_balanced_than_the_same_unsteered(
    plane: ControlPlane, simulation: Simulation, nodes: dict[str, topology.SimulatedNode], trimtab: Trimtab
) -> None:
    found = []
    for seed in SEEDS:
        load = balance.workloads(PODS, seed=seed)
        spread, arrivals = {}, {}
        for namespace in (STEERED, STOCK):
            pods, arrivals[namespace] = balance.burst(plane, simulation, namespace, load)
            spread[namespace] = balance.sigma(balance.utilization(simulation, nodes))
            decided = [pod for pod in pods if DECISION in pod["metadata"].get("annotations", {})]
            assert len(decided) == (PODS if namespace == STEERED else 0)
            if namespace == STEERED:
                outcomes = {json.loads(pod["metadata"]["annotations"][DECISION])["outcome"] for pod in pods}
                assert outcomes == {"steered"}
            balance.clear(plane, simulation, namespace)
        best = balance.sigma(balance.ideal(nodes, arrivals[STEERED]))
        found.append(balance.efficiency(spread[STOCK], spread[STEERED], best))
        print(
            f"seed {seed}: sigma stock {spread[STOCK]:.4f}, steered {spread[STEERED]:.4f}, "
            f"ideal {best:.4f}, E {found[-1]:.3f}",
            flush=True,
        )

    assert median(found) >= 0.95
