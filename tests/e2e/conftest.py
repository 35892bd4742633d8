"""One real control plane with 100 nodes of unequal measured load, and Trimtab installed in it."""

import functools
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ..builders import make_pod
from ..cluster import topology, waiting
from ..cluster.client import ApiError
from ..cluster.control_plane import ControlPlane
from ..cluster.simulation import Simulation
from ..cluster.trimtab import DECISION, STEERING, Trimtab
from . import balance
from .bursts import STEERED, STOCK, Bursts

NODES = 100
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WITHIN_S = 60

Json = dict[str, Any]
MakeNamespace = Callable[[str | None], str]

_numbers = itertools.count(1)


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


@pytest.fixture(scope="package")
def bursts(
    plane: ControlPlane, simulation: Simulation, nodes: dict[str, topology.SimulatedNode], trimtab: Trimtab
) -> Bursts:
    return Bursts(plane, simulation, nodes)


@pytest.fixture
def make_namespace(plane: ControlPlane, trimtab: Trimtab) -> Iterator[MakeNamespace]:
    """Make namespaces of the test's own, with that steering label or none; they go with the test."""
    made: list[str] = []

    def make(mode: str | None) -> str:
        name = f"e2e-{next(_numbers)}"
        labels = {STEERING: mode} if mode else {}
        plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        made.append(name)
        waiting.until(lambda: _is_known(plane, name, mode), f"namespace {name} known", timeout_s=WITHIN_S)
        return name

    yield make
    for name in made:
        plane.request("DELETE", f"/api/v1/namespaces/{name}")
        # No controller can replace them any more, and the namespace's own deletion takes seconds.
        plane.request("DELETE", f"/api/v1/namespaces/{name}/pods")
    for name in made:
        waiting.until(
            functools.partial(_is_empty, plane, name), f"no Pods in {name}", timeout_s=WITHIN_S, poll_s=0.3
        )


@pytest.fixture
def no_scheduler(plane: ControlPlane) -> Iterator[None]:
    """Nothing is bound while the test runs, so that what is reserved stays reserved."""
    plane.stop_part("kube-scheduler")
    yield
    plane.start_part("kube-scheduler")


def create(plane: ControlPlane, pod: Json, *, dry_run: bool = False) -> Json:
    """Create a Pod in the namespace that it names; return it as it was stored, or would have been."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"
    stored: Json = plane.request("POST", f"{path}?dryRun=All" if dry_run else path, pod)
    return stored


def decision(pod: Json) -> Json | None:
    """Return what the Pod's decision annotation says, or None where it has none."""
    text = pod["metadata"].get("annotations", {}).get(DECISION)
    decoded: Json | None = None if text is None else json.loads(text)
    return decoded


def terms(pod: Json) -> list[Json]:
    """Return the Pod's preferred node affinity terms."""
    found: list[Json] = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get(PREFERRED, [])
    return found


def calls(trimtab: Trimtab) -> float:
    """Count the requests that the webhook was ever sent."""
    counters = ("trimtab_decisions_total", "trimtab_bad_requests_total")
    return sum(value for sample, value in trimtab.metrics().items() if sample.startswith(counters))


def reserved(trimtab: Trimtab) -> float:
    """Count the Pods that are admitted and not bound yet, as the webhook's ledger has them."""
    return trimtab.metrics()['trimtab_ledger_pods{state="in-flight"}']


def counted(plane: ControlPlane, counter: str, *labels: str) -> float:
    """Return what the API server counts under those labels, each given as its metrics write it."""
    lines = plane.request("GET", "/metrics").splitlines()
    chosen = [
        line for line in lines if line.startswith(counter + "{") and all(map(line.__contains__, labels))
    ]
    return sum(float(line.rpartition(" ")[2]) for line in chosen)


def _is_empty(plane: ControlPlane, namespace: str) -> bool:
    return not plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]


def _is_known(plane: ControlPlane, namespace: str, mode: str | None) -> bool:
    """Tell whether a Pod can be created there, and comes back as the namespace's label wants it."""
    try:
        decided = decision(create(plane, make_pod(namespace=namespace), dry_run=True))
    except ApiError:
        return False  # no default ServiceAccount yet
    return (decided is not None) == (mode is not None) and (
        mode != "shadow" or (decided or {}).get("outcome") == "shadow"
    )
