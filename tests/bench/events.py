"""What events cost in time, and what a cached Pod and node cost in memory.

100,000 events at 5,000 nodes: Pods that come bound and go, nodes that change, readings. The total must
grow linearly with their number, so its exponent is near 1.
"""

import gc
import json
import math
import time
import tracemalloc
from typing import Any

from webhook.cluster import Cluster

from . import synthetic

NODES = 5_000
EVENTS = (12_500, 25_000, 50_000, 100_000)
PODS = 100_000


def run(events: int) -> float:
    """Return the CPU seconds of a mix of events on a cluster of 5,000 nodes with a Pod each."""
    cluster = synthetic.cluster(NODES, NODES)
    items = [_event(number) for number in range(events)]
    before = time.thread_time()
    for number, (kind, item) in enumerate(items):
        now = 1000.0 + number / 1000
        if kind == "pod":
            cluster.set_pod(item, now)
        elif kind == "gone":
            cluster.remove_pod(item)
        elif kind == "node":
            cluster.set_node(item)
        else:
            name, cpu, memory = item
            cluster.set_usage(name, cpu, memory, timestamp=now, window=15.0, now=now, wall=now)
    return time.thread_time() - before


def _event(number: int) -> tuple[str, Any]:
    row = number * 7919 % NODES
    match number % 5:
        case 0 | 1:
            return "pod", synthetic.pod(NODES + number, f"node-{row}")
        case 2:
            return "gone", synthetic.pod(NODES + number - 2, None).metadata.uid
        case 3:
            return "node", synthetic.node(row)
        case _:
            cpu, memory = synthetic.use(row + number)
            return "reading", (f"node-{row}", cpu % 8000, memory % (32 * synthetic.GIB))


def bytes_each() -> dict[str, float]:
    """Return what the cache holds for a node and for a Pod, without the objects they were read from."""
    gc.collect()
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        cluster: Cluster = synthetic.cluster(NODES, 0)
        gc.collect()
        with_nodes = tracemalloc.get_traced_memory()[0]
        for number in range(PODS):
            cluster.set_pod(synthetic.pod(number, f"node-{number % NODES}"), None)
        gc.collect()
        with_pods = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    return {
        "node": round((with_nodes - start) / NODES, 1),
        "pod": round((with_pods - with_nodes) / PODS, 1),
    }


def measured() -> dict[str, Any]:
    run(EVENTS[0])
    seconds = {events: min(run(events) for _ in range(3)) for events in EVENTS}
    first, last = EVENTS[0], EVENTS[-1]
    return {
        "nodes": NODES,
        "us_an_event": {str(events): round(total / events * 1e6, 2) for events, total in seconds.items()},
        "growth_exponent": round(math.log(seconds[last] / seconds[first]) / math.log(last / first), 3),
        "bytes_each": bytes_each(),
    }


if __name__ == "__main__":
    print(json.dumps(measured(), indent=2))
