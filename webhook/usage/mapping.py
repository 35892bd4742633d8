"""Which node a series belongs to, by the label that the policy names."""

from collections.abc import Iterator, Mapping

from webhook.policy.sources import NodeEntry
from webhook.snapshot import Snapshot
from webhook.usage.turns import turns


class AmbiguousError(LookupError):
    """What a series says of its node is true of several nodes."""


class NodeIndex:
    """The nodes by what a series' label is matched with."""

    def __init__(self, label: str) -> None:
        self._label = label
        # None for what several nodes have.
        self._names: dict[str, str | None] = {}

    @classmethod
    async def of(cls, nodes: Snapshot, entry: NodeEntry) -> "NodeIndex":
        index = cls(entry.label)
        async for row in turns(range(nodes.size)):
            for value in _values(nodes, row, entry):
                index._names[value] = nodes.names[row] if value not in index._names else None
        return index

    def find(self, series: Mapping[str, str]) -> str | None:
        """Return the name of the node of a series, its label's value taken with or without a port.

        None where it matches none; raise AmbiguousError where it matches several.
        """
        value = series.get(self._label, "")
        for candidate in (value, without_port(value)):
            if candidate in self._names:
                name = self._names[candidate]
                if name is None:
                    raise AmbiguousError(candidate)
                return name
        return None


def _values(nodes: Snapshot, row: int, entry: NodeEntry) -> Iterator[str]:
    """Yield what a series of this node may say; a removed node has nothing to say."""
    node = nodes.node(row)
    if node is None:
        return
    if entry.match == "name":
        yield nodes.names[row]
    elif entry.match == "internalIP":
        addresses = (node.status.addresses if node.status else None) or ()
        yield from sorted({each.address for each in addresses if each.type == "InternalIP" and each.address})
    elif value := nodes.labels(row).get(entry.nodeLabel or ""):
        yield value


def without_port(value: str) -> str:
    """Return a host or address without its port: `10.0.0.1:9100`, `node-1:9100`, `[fd00::1]:9100`."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    host, colon, port = value.rpartition(":")
    return host if colon and port.isascii() and port.isdigit() and ":" not in host else value
