"""Bursts of the same Deployments, stock and steered, each measured once and shared by the tests."""

import json
from dataclasses import dataclass, field

from ..cluster import topology
from ..cluster.control_plane import ControlPlane
from ..cluster.simulation import Simulation
from ..cluster.trimtab import DECISION
from . import balance

PODS = 300
STEERED, STOCK = "steered", "stock"


@dataclass(frozen=True, slots=True)
class Spread:
    """The standard deviation of true CPU utilization that a burst leaves, and that an ideal one would.

    The order of arrival differs from burst to burst, and with it the ideal.
    """

    sigma: float
    ideal: float

    def efficiency(self, stock: float) -> float:
        return balance.efficiency(stock, self.sigma, self.ideal)


@dataclass(slots=True)
class Bursts:
    """The same seed is the same Deployments on the same nodes: what was measured is not measured again."""

    plane: ControlPlane
    simulation: Simulation
    nodes: dict[str, topology.SimulatedNode]
    _stock: dict[int, float] = field(default_factory=dict)
    _steered: dict[int, Spread] = field(default_factory=dict)

    def stock(self, seeds: tuple[int, ...]) -> list[float]:
        """Return what the stock scheduler alone leaves, seed by seed. It does not wait for readings."""
        for seed in seeds:
            if seed not in self._stock:
                self._stock[seed] = self.measure(STOCK, seed).sigma
        return [self._stock[seed] for seed in seeds]

    def steered(self, seeds: tuple[int, ...]) -> list[Spread]:
        """Return what one Trimtab with metrics-server leaves, seed by seed."""
        for seed in seeds:
            if seed not in self._steered:
                self._steered[seed] = self.measure(STEERED, seed)
        return [self._steered[seed] for seed in seeds]

    def measure(self, namespace: str, seed: int) -> Spread:
        """Create a burst, see that every Pod was steered, or none; clear it away."""
        load = balance.workloads(PODS, seed=seed)
        if namespace == STEERED:
            balance.settle(self.simulation)
        pods, arrivals = balance.burst(self.plane, self.simulation, namespace, load)
        outcomes = {
            json.loads(pod["metadata"].get("annotations", {}).get(DECISION, "{}")).get("outcome")
            for pod in pods
        }
        assert outcomes == ({"steered"} if namespace == STEERED else {None})
        sigma = balance.sigma(balance.utilization(self.simulation, self.nodes))
        balance.clear(self.plane, namespace)
        return Spread(sigma, balance.sigma(balance.ideal(self.nodes, arrivals)))
