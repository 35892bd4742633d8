"""Batches: Pods of one owner that ask for the same, planned by one deal. No I/O here.

A deal is done anew when a node that was left out may be better, when nodes or the policy change, and after a
few seconds.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from webhook import kube, planner
from webhook.batch import deal
from webhook.batch.deal import Ask, Deal
from webhook.batch.limits import stand_alone
from webhook.ledger import Load
from webhook.load import View
from webhook.peers import Turn
from webhook.planner import Plan
from webhook.reasons import Reason
from webhook.snapshot import Snapshot
from webhook.thresholds import OFF

# Readings that fell, and Pods of others that ended, are only seen by a new deal.
VALID_S = 5.0

# How many Pods to deal for where nobody knows how many will come.
CHUNK = 32

# Below this, a deal costs more than it saves.
MIN_PODS = 8

# What tells a Pod of a StatefulSet or of an Indexed Job from the others.
NUMBERS = frozenset(
    (
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "statefulset.kubernetes.io/pod-name",
    )
)

MAX_BATCHES = 64


class Batches:
    """Plans for Pods, remembered by their owner.

    `outstanding` says how many Pods of a Pod's owner are still to come, with it; None where nobody knows.
    """

    def __init__(self, nodes: Snapshot, outstanding: Callable[[kube.Pod, str], int | None]) -> None:
        self._nodes = nodes
        self._outstanding = outstanding
        self._known: OrderedDict[str, _Batch] = OrderedDict()

    def plan(
        self, pod: kube.Pod, ask: Ask, view: Callable[[Load], View], now: float, turn: Turn | None = None
    ) -> Plan | Reason:
        """Choose the nodes to name for `pod`; `view` is how the nodes look with a load placed on each."""
        controller = kube.controller(pod.metadata)
        owner = controller.uid if controller else ""
        known = self._known.get(owner)
        if known is not None and known.dealt is not None and known.holds(ask, self._nodes, now):
            self._known.move_to_end(owner)
            if planned := known.dealt.next(self._nodes, turn):
                return planned
        pods = self._pods(pod, ask, known) if owner and not _stands_alone(ask) else 1
        dealt = deal.make(ask, self._nodes, view, pods) if pods >= MIN_PODS else None
        if isinstance(dealt, Reason):
            return dealt
        if owner:
            self._remember(owner, _Batch(ask, self._nodes.generation, now, dealt))
        return (dealt and dealt.next(self._nodes, turn)) or planner.plan(
            ask.demand, ask.preferred, self._nodes, view(ask.expected), ask.profile, turn
        )

    def _pods(self, pod: kube.Pod, ask: Ask, known: "_Batch | None") -> int:
        """Return for how many Pods to deal."""
        if known is not None and not alike(known.ask, ask):
            # Its Pods may differ every time.
            return 1
        pods = self._outstanding(pod, ask.demand.namespace)
        if pods is None:
            return 1 if known is None else CHUNK
        return pods

    def _remember(self, owner: str, batch: "_Batch") -> None:
        self._known[owner] = batch
        self._known.move_to_end(owner)
        if len(self._known) > MAX_BATCHES:
            self._known.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The last plan made for an owner: for what, when, and the deal where more than one Pod was to come."""

    ask: Ask
    generation: int
    at: float
    dealt: Deal | None

    def holds(self, ask: Ask, nodes: Snapshot, now: float) -> bool:
        return self.generation == nodes.generation and now - self.at <= VALID_S and alike(self.ask, ask)


def alike(first: Ask, second: Ask) -> bool:
    """Tell whether two Pods may share a deal: they differ in nothing, or in their number alone."""
    return first == second or (
        not NUMBERS.isdisjoint(second.demand.labels) and _without_number(first) == _without_number(second)
    )


def _stands_alone(ask: Ask) -> bool:
    # Which nodes are over a threshold has to be asked anew for every Pod.
    return stand_alone(ask.demand) or ask.profile.thresholds != OFF


def _without_number(ask: Ask) -> Ask:
    labels = {key: value for key, value in ask.demand.labels.items() if key not in NUMBERS}
    return replace(ask, demand=replace(ask.demand, labels=labels))
