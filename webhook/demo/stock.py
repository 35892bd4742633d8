"""A model of the stock kube-scheduler (1.36, default configuration): what it does with a Pod. No I/O here.

Filter, the sample of nodes that is scored, the weighted sum of `stockscores`, ties broken at random.
Not modelled: the score of Pod affinity, volumes that are not bound yet, images, preemption, resource
claims; with none in play they say nothing. The default spread counts the Pods of the same owner, as its
selector does; a Service's selector, which counts where there is no such owner, is not known here.
"""

import msgspec
import numpy as np

from webhook import filters, kube
from webhook.demo import stockscores
from webhook.filters import spread
from webhook.filters.demand import read_spread
from webhook.pods import read_shape
from webhook.snapshot import IntArray, Mask, Snapshot

# pkg/scheduler/apis/config/v1/default_plugins.go.
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
}

# pkg/scheduler/schedule_one.go: minFeasibleNodesToFind, minFeasibleNodesPercentageToFind.
MIN_FEASIBLE = 100
MIN_PERCENTAGE = 5

# podtopologyspread/plugin.go: systemDefaultConstraints, as (topology key, maxSkew).
DEFAULT_SPREAD = ((kube.HOSTNAME, 3), (kube.ZONE, 5))

# Owners whose selector the scheduler looks up for the default spread (plugins/helper/spread.go).
_SPREAD_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})

Owner = tuple[str, str, str]


class StockScheduler:
    """The scheduler over a snapshot of its own: `schedule` picks a node for a Pod and binds it there.

    `percentage_of_nodes_to_score` is the scheduler's own setting, 0 for its default; `scored` holds the rows
    that were scored for the last Pod.
    """

    def __init__(
        self, nodes: Snapshot, rng: np.random.Generator, percentage_of_nodes_to_score: int = 0
    ) -> None:
        self.nodes = nodes
        self.scored: IntArray = np.zeros(0, np.int64)
        self._rng = rng
        self._percentage = percentage_of_nodes_to_score
        self._next_start = 0
        self._seen = (-1, -1)
        self._order: IntArray = np.zeros(0, np.int64)
        self._owned: dict[Owner, IntArray] = {}

    def schedule(self, pod: kube.Pod) -> str | None:
        """Bind `pod` to the node the scheduler would choose; return its name, or None where none fits."""
        demand = filters.demand(pod)
        rows = self.scored = self.sample(feasible(demand, self.nodes))
        if rows.size == 0:
            return None
        row = int(rows[0]) if rows.size == 1 else self._best(pod, demand, rows)
        self.bind(pod, self.nodes.names[row])
        return self.nodes.names[row]

    def bind(self, pod: kube.Pod, node_name: str) -> None:
        """Count `pod` on a node, as a bound Pod that the scheduler sees."""
        bound = self.nodes.bind(node_name, read_shape(pod))
        owner = _owner(pod)
        if owner is not None and not bound.shape.terminating:
            self._owned_by(owner)[bound.row] += 1

    def sample(self, mask: Mask) -> IntArray:
        """Return the feasible rows that are scored, in the order found, and move on for the next Pod.

        schedule_one.go, findNodesThatPassFilters: the search goes round from where the last one ended
        until it meets one more feasible node than it wants; the nodes up to there count as processed.
        """
        self._refresh()
        order = np.roll(self._order, -self._next_start)
        found = np.flatnonzero(mask[order])
        wanted = nodes_to_find(order.size, self._percentage)
        processed = int(found[wanted]) if found.size > wanted else order.size
        if order.size:
            self._next_start = (self._next_start + processed) % order.size
        return order[found[:wanted]]

    def scores(self, pod: kube.Pod, demand: filters.Demand, rows: IntArray) -> dict[str, IntArray]:
        """Return each plugin's normalized scores of the rows, without the weights."""
        self._refresh()
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        return {
            "TaintToleration": stockscores.taint_toleration(demand, self.nodes, rows),
            "NodeAffinity": stockscores.node_affinity(
                (affinity.preferred if affinity else None) or (), self.nodes, rows
            ),
            "PodTopologySpread": self._topology_spread(pod, demand, rows),
            "NodeResourcesFit": stockscores.least_allocated(_without_own(pod, demand), self.nodes, rows),
            "NodeResourcesBalancedAllocation": stockscores.balanced_allocation(
                demand.requests, self.nodes, rows
            ),
        }

    def _best(self, pod: kube.Pod, demand: filters.Demand, rows: IntArray) -> int:
        total = np.zeros(rows.size, np.int64)
        for name, score in self.scores(pod, demand, rows).items():
            total += WEIGHTS[name] * score
        ties = np.flatnonzero(total == total.max())
        return int(rows[ties[self._rng.integers(ties.size)]])

    def _topology_spread(self, pod: kube.Pod, demand: filters.Demand, rows: IntArray) -> IntArray:
        """Score by the Pod's soft constraints; where it has none of any kind, by the system's default."""
        if pod.spec.topology_spread_constraints:
            return stockscores.topology_spread(self._own_spreads(pod, demand), rows, require_all=True)
        return stockscores.topology_spread(self._default_spreads(pod, demand), rows)

    def _own_spreads(self, pod: kube.Pod, demand: filters.Demand) -> tuple[stockscores.Spread, ...]:
        return tuple(
            stockscores.Spread(
                self.nodes.domains(constraint.topology_key).of,
                constraint.topology_key == kube.HOSTNAME,
                constraint.max_skew,
                spread.matching_pods(constraint, demand, self.nodes)
                * spread.included(constraint, demand, self.nodes),
            )
            for constraint in read_spread(pod.spec, demand.labels, "ScheduleAnyway")
        )

    def _default_spreads(self, pod: kube.Pod, demand: filters.Demand) -> tuple[stockscores.Spread, ...]:
        """Return the system's constraints for a Pod that a known owner selects."""
        owner = _owner(pod)
        if owner is None:
            return ()
        matching = self._owned_by(owner)[: self.nodes.size]
        if (passed := filters.node_affinity(demand, self.nodes)) is not None:
            matching = matching * passed
        return tuple(
            stockscores.Spread(self.nodes.domains(key).of, key == kube.HOSTNAME, max_skew, matching)
            for key, max_skew in DEFAULT_SPREAD
        )

    def _owned_by(self, owner: Owner) -> IntArray:
        counts = self._owned.get(owner)
        capacity = self.nodes.exists.shape[0]
        if counts is None:
            counts = self._owned[owner] = np.zeros(capacity, np.int64)
        elif counts.size < capacity:
            counts = self._owned[owner] = np.concatenate((counts, np.zeros(capacity - counts.size, np.int64)))
        return counts

    def _refresh(self) -> None:
        seen = self.nodes.labels_generation, self.nodes.size
        if self._seen != seen:
            self._seen = seen
            self._order = node_order(self.nodes)


# Filter and sample


def feasible(demand: filters.Demand, nodes: Snapshot) -> Mask:
    """Rows that pass the scheduler's Filter; it leaves readiness to a taint."""
    return filters.feasible(demand, nodes, but="NodeReady")


def nodes_to_find(nodes: int, percentage: int = 0) -> int:
    """Return how many feasible nodes end the search (schedule_one.go: numFeasibleNodesToFind)."""
    if nodes < MIN_FEASIBLE:
        return nodes
    if percentage == 0:
        percentage = max(MIN_PERCENTAGE, 50 - nodes // 125)
    return max(MIN_FEASIBLE, nodes * percentage // 100)


def node_order(nodes: Snapshot) -> IntArray:
    """Return the rows as the scheduler walks them: one of each zone in turn (backend/cache/node_tree.go)."""
    zones: dict[str, list[int]] = {}
    for row in np.flatnonzero(nodes.exists[: nodes.size]).tolist():
        zones.setdefault(_zone_key(nodes, row), []).append(row)
    longest = max(map(len, zones.values()), default=0)
    return np.array(
        [rows[index] for index in range(longest) for rows in zones.values() if index < len(rows)], np.int64
    )


def _zone_key(nodes: Snapshot, row: int) -> str:
    labels = nodes.labels(row)
    region = labels.get(
        "failure-domain.beta.kubernetes.io/region", labels.get("topology.kubernetes.io/region")
    )
    zone = labels.get("failure-domain.beta.kubernetes.io/zone", labels.get(kube.ZONE))
    return f"{region or ''}:\0:{zone or ''}"


def _without_own(pod: kube.Pod, demand: filters.Demand) -> kube.Requests:
    """Return the requests without what the Pod requests as a whole, which NodeResourcesFit does not score.

    noderesources/fit.go, getScorer: nothing tells the scorer that Pod-level requests are enabled. Those of
    bound Pods are counted.
    """
    if pod.spec.resources is None:
        return demand.requests
    return kube.read_requests(msgspec.structs.replace(pod.spec, resources=None))


def _owner(pod: kube.Pod) -> Owner | None:
    for owner in pod.metadata.owner_references or ():
        if owner.controller and owner.kind in _SPREAD_OWNERS:
            return pod.metadata.namespace or "", owner.kind, owner.name
    return None
