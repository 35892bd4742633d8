"""Several replicas steer a burst that is dealt out over them about as well as one does."""

from collections.abc import Iterator
from statistics import median

import pytest

from ..cluster import waiting
from ..cluster.control_plane import ControlPlane
from ..cluster.trimtab import Trimtab
from .bursts import PODS, STEERED, Bursts
from .conftest import WITHIN_S

SEEDS = (1, 2, 3)
REPLICAS = 3


@pytest.fixture
def replicas(plane: ControlPlane, trimtab: Trimtab) -> Iterator[Trimtab]:
    with Trimtab(plane, replicas=REPLICAS) as started:
        yield started
    lead(trimtab)


def test_a_burst_dealt_over_three_replicas_is_balanced_about_as_well_as_by_one(
    bursts: Bursts, trimtab: Trimtab, replicas: Trimtab
) -> None:
    lead(trimtab)
    stock, alone = bursts.stock(SEEDS), bursts.steered(SEEDS)
    lead(replicas)
    found = []
    for seed, unsteered in zip(SEEDS, stock, strict=True):
        before = decisions(replicas)
        spread = bursts.measure(STEERED, seed)
        dealt = [int(now - then) for now, then in zip(decisions(replicas), before, strict=True)]
        assert sum(dealt) == PODS
        assert min(dealt) >= PODS / 20
        found.append(spread.efficiency(unsteered))
        print(
            f"seed {seed}, Pods dealt {dealt}: sigma {spread.sigma:.4f}, ideal {spread.ideal:.4f}, "
            f"E {found[-1]:.3f}",
            flush=True,
        )
    one = median(each.efficiency(unsteered) for each, unsteered in zip(alone, stock, strict=True))
    three = median(found)
    print(f"E of one replica {one:.3f}, of {REPLICAS} {three:.3f}")

    # Blind to each other they would be at 0.73 to 0.87 (median 0.86 before they took turns).
    assert three >= 0.8


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
