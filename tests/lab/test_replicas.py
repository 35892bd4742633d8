"""Replicas that see each other's Pods late, over the modelled scheduler."""

from statistics import median

from .replicas import efficiencies

ONE, THREE = (1, 4), (3, 4)


def test_three_replicas_that_are_blind_for_four_pods_lose_little() -> None:
    runs = [efficiencies(100, 200, seed, [ONE, THREE]) for seed in (1, 2, 3)]

    one, three = (median(values) for values in zip(*runs, strict=True))

    assert one >= 0.95
    assert three >= 0.93
