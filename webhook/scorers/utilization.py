"""utilization: prefer the node that will be used least, the Pod included."""

from dataclasses import dataclass

import numpy as np

from webhook.load import View
from webhook.scorers.base import MAX_SCORE
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Utilization:
    """100 - used %, the weighted mean over CPU and memory of 100 x (1 - (load + pod) / allocatable).

    By default only CPU counts here: a hot CPU slows everyone on the node at once, while memory in use hurts
    only near its end, and `balance` keeps it level.
    """

    cpu: float = 1.0
    memory: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("cpu", self.cpu), ("memory", self.memory)):
            if not 0 <= value <= 100:
                raise ValueError(f"{name}: expected a number from 0 to 100, found {value}")
        if self.cpu + self.memory == 0:
            raise ValueError("cpu: expected cpu or memory above 0, found both 0")

    def score(self, nodes: View) -> FloatArray:
        return utilization_score(nodes.used[0], nodes.used[1], self.cpu, self.memory)


def utilization_score(
    cpu: FloatArray, memory: FloatArray, cpu_weight: float, memory_weight: float
) -> FloatArray:
    """Return 100 x (1 - the weighted mean of the used fractions), within 0 and 100."""
    mean = cpu
    if memory_weight:
        mean = (cpu_weight * cpu + memory_weight * memory) / (cpu_weight + memory_weight)
    return np.maximum(MAX_SCORE - MAX_SCORE * mean, 0.0)
