"""One real control plane with 100 nodes of unequal measured load, and Trimtab installed in it."""

from collections.abc import Iterator

import pytest

from ..cluster import topology
from ..cluster.control_plane import ControlPlane
from ..cluster.simulation import Simulation
from ..cluster.trimtab import Trimtab
from . import balance

NODES = 100
STEERED, STOCK = "steered", "stock"


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("e2e")) as started:
        yield started


@pytest.fixture(scope="package")
def nodes() -> dict[str, topology.SimulatedNode]:
    return {node.name: node for node in topology.nodes(NODES, seed=7, cores=(8, 16))}


@pytest.fixture(scope="package")
def simulation(plane: ControlPlane, nodes: dict[str, topology.SimulatedNode]) -> Iterator[Simulation]:
    with Simulation(plane) as started:
        started.add_nodes(nodes.values())
        started.wait_measured()
        balance.base_cores(started)
        yield started


@pytest.fixture(scope="package")
def trimtab(plane: ControlPlane, simulation: Simulation) -> Iterator[Trimtab]:
    with Trimtab(plane) as started:
        started.enable(STEERED)
        plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": STOCK}})
        yield started
