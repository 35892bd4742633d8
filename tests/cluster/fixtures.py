"""One control plane with 20 simulated nodes for the whole session, a fresh namespace for each test."""

import itertools
from collections.abc import Iterator

import pytest

from . import topology, waiting
from .control_plane import ControlPlane
from .simulation import Simulation

NODES = 20
GONE_WITHIN_S = 60

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The real control plane, without nodes."""
    with ControlPlane(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def simulation(control_plane: ControlPlane) -> Iterator[Simulation]:
    """The control plane's 20 nodes in three zones, of unequal hidden load, with metrics-server."""
    with Simulation(control_plane) as started:
        started.add_nodes(topology.nodes(NODES))
        yield started


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of the test's own; its Pods are gone from the nodes when the next test begins."""
    name = f"test-{next(_numbers)}"
    control_plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts"
    waiting.until(
        lambda: control_plane.request("GET", account)["items"],
        "default ServiceAccount",
        timeout_s=GONE_WITHIN_S,
    )
    yield name
    control_plane.request("DELETE", f"/api/v1/namespaces/{name}")
    pods = f"/api/v1/namespaces/{name}/pods"
    # No controller can replace them any more, and the namespace's own deletion takes seconds to reach them.
    control_plane.request("DELETE", pods)
    waiting.until(
        lambda: not control_plane.request("GET", pods)["items"], f"no Pods in {name}", timeout_s=GONE_WITHIN_S
    )
