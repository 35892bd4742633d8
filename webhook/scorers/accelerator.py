"""accelerator: the right model, no scattered remainders, and no plain Pods on accelerator nodes."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from webhook.load import View
from webhook.scorers.base import MAX_SCORE, Arguments, Label, Weight, share
from webhook.snapshot import FloatArray


@dataclass(frozen=True, slots=True)
class Accelerator(Arguments):
    """The weighted mean of `packing` and `model` for a Pod that asks for an accelerator; others stay off.

    packing is 100 x (requested + asked) / allocatable of the scarcest resource it asks for: the fullest
    node that fits comes first (the scheduler's MostAllocated), so that whole devices, or whole nodes,
    stay free for Pods that need them. model is 100 where the node's `modelLabel` is what the Pod's
    annotation trimtab.dev/accelerator names, else 0; without the annotation it leaves the mean. A Pod that
    asks for none gets 0 on nodes that have one and 100 on others; neutral where no node has any.
    """

    resources: Annotated[tuple[Label, ...], Field(min_length=1)] = (
        "nvidia.com/gpu",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "google.com/tpu",
    )
    model_label: Label = "nvidia.com/gpu.product"
    packing: Weight = 1.0
    model: Weight = 1.0

    def __post_init__(self) -> None:
        if self.packing + self.model == 0:
            raise ValueError("expected packing or model above 0, found both 0")

    def score(self, nodes: View) -> FloatArray:
        asked = [(name, value) for name, value in nodes.demand.requests.extended if name in self.resources]
        if not asked:
            return self._without(nodes)
        total, weight = np.zeros(nodes.size), 0.0
        if self.packing:
            total += self.packing * packing_score(nodes, asked)
            weight += self.packing
        if self.model and nodes.demand.wishes.accelerator is not None:
            rows = nodes.nodes.label_index.get(self.model_label, {}).get(nodes.demand.wishes.accelerator, ())
            total[np.fromiter(rows, np.int64)] += self.model * MAX_SCORE
            weight += self.model
        return total / weight if weight else np.full(nodes.size, np.nan)

    def _without(self, nodes: View) -> FloatArray:
        columns = [nodes.nodes.resources[name] for name in self.resources if name in nodes.nodes.resources]
        has = (nodes.nodes.allocatable[columns, : nodes.size] > 0).any(axis=0)
        return np.where(has, 0.0, MAX_SCORE) if has.any() else np.full(nodes.size, np.nan)


def packing_score(nodes: View, asked: list[tuple[str, int]]) -> FloatArray:
    """Return how full the asked resources would be, the fullest of them; 0 where a node lacks one."""
    fullest = np.zeros(nodes.size)
    for name, value in asked:
        column = nodes.nodes.resources.get(name)
        if column is None:
            return np.zeros(nodes.size)
        allocatable = nodes.nodes.allocatable[column, : nodes.size].astype(np.float64)
        wanted = (nodes.nodes.requested[column, : nodes.size] + value).astype(np.float64)
        full = share(wanted, allocatable)
        fullest = np.maximum(fullest, np.where(full <= 1.0, full, 0.0))
    return MAX_SCORE * fullest
