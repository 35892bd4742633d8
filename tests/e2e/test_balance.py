"""The first thing that has to hold: real Pods are admitted, steered, bound, and better balanced."""

from statistics import median

from .bursts import Bursts

SEEDS = (1, 2, 3, 4, 5)


def test_steered_deployments_are_better_balanced_than_the_same_unsteered(bursts: Bursts) -> None:
    found = []
    for seed, stock, steered in zip(SEEDS, bursts.stock(SEEDS), bursts.steered(SEEDS), strict=True):
        found.append(steered.efficiency(stock))
        print(
            f"seed {seed}: sigma stock {stock:.4f}, steered {steered.sigma:.4f}, "
            f"ideal {steered.ideal:.4f}, E {found[-1]:.3f}",
            flush=True,
        )

    assert median(found) >= 0.95
