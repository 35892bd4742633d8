"""What an answer does to a cluster, as the poller would take it in."""

from tests.builders import NOW
from webhook.cluster import Cluster
from webhook.usage.answer import Answer


def take(cluster: Cluster, answer: Answer, *, now: float = NOW, wall: float = NOW) -> None:
    for reading in answer.readings:
        cluster.set_usage(
            reading.node,
            reading.cpu_milli,
            reading.memory_bytes,
            timestamp=reading.timestamp,
            window=reading.window,
            now=now,
            wall=wall,
            told=reading.told,
        )
