"""How well several replicas steer one burst together: `python -m tests.lab.replicas`.

Each replica is a `Cluster` of its own. Pods are dealt over them by chance and unevenly, as a balancer of
connections does. What the watch tells comes to all of them only after `delay` more Pods were admitted, so a
replica decides blind to what the others did with those. The modelled stock scheduler places each Pod, as in
the demo.
"""

import argparse
import base64
import json
import random
import tempfile
from collections import deque
from pathlib import Path
from statistics import median

import msgspec

from webhook import admission, clusterfile, follow, policy
from webhook.cluster import Cluster
from webhook.demo import replay, workload
from webhook.demo.workload import Object, Workload
from webhook.peers import Peers

COUNTS = (1, 2, 3, 5)
DELAYS = (0, 4, 16, 48)
PODS_PER_SECOND = 100.0
SHARES = (4, 1, 3, 2, 2)


class Replicas:
    """Replicas that admissions are dealt to, behind a watch that is `delay` Pods late."""

    def __init__(self, clusters: list[Cluster], delay: int) -> None:
        self._clusters, self._delay = clusters, delay
        self._policy = policy.default()
        self._late: deque[tuple[int, bytes]] = deque()
        self._admitted = 0
        self._deal = random.Random(1)

    def admit(self, review: Object) -> list[Object]:
        while self._late and self._late[0][0] <= self._admitted:
            _, event = self._late.popleft()
            for cluster in self._clusters:
                follow.apply(event, cluster, self._now)
        (chosen,) = self._deal.choices(self._clusters, SHARES[: len(self._clusters)])
        clock = admission.Clock(self._now, "2026-01-01T00:00:00Z", wall=self._now)
        answer = admission.respond(msgspec.json.encode(review), chosen, self._policy, clock)
        self._admitted += 1
        encoded = json.loads(answer.body)["response"].get("patch")
        operations: list[Object] = json.loads(base64.b64decode(encoded)) if encoded else []
        return operations

    def watch_event(self, kind: str, item: Object) -> None:
        event = msgspec.json.encode({"type": kind, "object": item})
        self._late.append((self._admitted + self._delay, event))

    @property
    def _now(self) -> float:
        return self._admitted / PODS_PER_SECOND


def steer(generated: Workload, seed: int, *, replicas: int, delay: int) -> replay.Run:
    """Place the workload's Pods with that many replicas."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "cluster.json"
        path.write_text(json.dumps(generated.cluster()))
        clusters = [clusterfile.load(path) for _ in range(replicas)]
    for number, cluster in enumerate(clusters):
        cluster.peers = Peers(f"replica-{number}")
    return replay.scheduled(generated, seed, lambda: None, shown=-1, steering=Replicas(clusters, delay))


def efficiencies(nodes: int, pods: int, seed: int, cells: list[tuple[int, int]]) -> list[float]:
    """Return E for each (replicas, delay) on one workload."""
    generated = workload.generate(nodes, pods, seed)
    stock = replay.scheduled(generated, seed, lambda: None, shown=-1).balance
    best = replay.ideal(generated, lambda: None).balance
    found = []
    for replicas, delay in cells:
        steered = steer(generated, seed, replicas=replicas, delay=delay).balance
        found.append(replay.efficiency(stock, steered, best) or 0.0)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--pods", type=int, default=600)
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    cells = [(count, delay) for delay in DELAYS for count in COUNTS]
    runs = [efficiencies(given.nodes, given.pods, seed, cells) for seed in range(1, given.seeds + 1)]
    print("E, median (lowest to highest) over", given.seeds, "seeds")
    for (count, delay), values in zip(cells, zip(*runs, strict=True), strict=True):
        print(
            f"{count} replicas, watch {delay:2d} Pods late: "
            f"{median(values):.3f} ({min(values):.3f} to {max(values):.3f})"
        )


if __name__ == "__main__":
    main()
