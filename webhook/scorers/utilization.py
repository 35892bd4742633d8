"""utilization: prefer the node that will be used least, the Pod included."""

from dataclasses import dataclass

import numpy as np

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Measured, Weight
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Utilization(Measured):
    """100 - used %, the weighted mean over CPU and memory of 100 x (1 - (load + pod) / allocatable).

    `dominant` is a further weight of the resource that is used more, as Koordinator's
    dominantResourceWeight (pkg/scheduler/plugins/loadaware/load_aware.go).

    By default only CPU counts here: a hot CPU slows everyone on the node at once, while memory in use hurts
    only near its end, and `balance` keeps it level.
    """

    cpu: Weight = 1.0
    memory: Weight = 0.0
    dominant: Weight = 0.0

    def __post_init__(self) -> None:
        if self.cpu + self.memory + self.dominant == 0:
            raise ValueError("expected cpu, memory or dominant above 0, found all 0")

    def score(self, nodes: View) -> FloatArray:
        cpu, memory = self.used(nodes)
        mean = weighted(cpu, memory, self.cpu, self.memory, self.dominant)
        score = mean * -MAX_SCORE
        score += MAX_SCORE
        return np.maximum(score, 0.0, out=score)


def weighted(
    cpu: FloatArray, memory: FloatArray, cpu_weight: float, memory_weight: float, dominant_weight: float = 0.0
) -> FloatArray:
    """Return the weighted mean of two used fractions; a resource without weight need not be known."""
    if not memory_weight and not dominant_weight:
        return cpu
    total = memory_weight * memory
    if cpu_weight:
        total += cpu_weight * cpu
    if dominant_weight:
        total = total + dominant_weight * np.maximum(cpu, memory)
    total /= cpu_weight + memory_weight + dominant_weight
    return total
