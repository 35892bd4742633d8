"""Which node a series belongs to."""

import pytest

from tests.builders import make_cluster, make_node
from webhook.policy.sources import NodeEntry
from webhook.usage.mapping import AmbiguousError, NodeIndex, without_port

NAME = NodeEntry(label="node", match="name")
ADDRESS = NodeEntry()
LABEL = NodeEntry(label="host", match="label", nodeLabel="example.com/alias")

# How, the labels of a series, the node; None for none of them.
SERIES: dict[str, tuple[NodeEntry, dict[str, str], str | None]] = {
    "by name": (NAME, {"node": "n1"}, "n1"),
    "by name with a port": (NAME, {"node": "n1:9100"}, "n1"),
    "a name that no node has": (NAME, {"node": "n9"}, None),
    "a prefix of a name": (NAME, {"node": "n"}, None),
    "another case": (NAME, {"node": "N1"}, None),
    "a name under another label": (NAME, {"instance": "n1"}, None),
    "an address is no name": (NAME, {"node": "10.0.0.1"}, None),
    "by address": (ADDRESS, {"instance": "10.0.0.1"}, "n1"),
    "by address with a port": (ADDRESS, {"instance": "10.0.0.1:9100"}, "n1"),
    "an address that begins alike": (ADDRESS, {"instance": "10.0.0.12:9100"}, None),
    "IPv6": (ADDRESS, {"instance": "fd00::2"}, "n2"),
    "IPv6 with a port": (ADDRESS, {"instance": "[fd00::2]:9100"}, "n2"),
    "IPv6 in brackets": (ADDRESS, {"instance": "[fd00::2]"}, "n2"),
    "a name is no address": (ADDRESS, {"instance": "n1"}, None),
    "the empty label": (ADDRESS, {"instance": ""}, None),
    "no label at all": (ADDRESS, {}, None),
    "by a label of the node": (LABEL, {"host": "alpha"}, "n1"),
    "by a label that two nodes share": (LABEL, {"host": "beta"}, "ambiguous"),
}


@pytest.mark.parametrize(("entry", "series", "want"), SERIES.values(), ids=SERIES.keys())
async def test_series(entry: NodeEntry, series: dict[str, str], want: str | None) -> None:
    cluster = make_cluster(
        make_node("n1", internal_ip="10.0.0.1", labels={"example.com/alias": "alpha"}),
        make_node("n2", internal_ip="fd00::2", labels={"example.com/alias": "beta"}),
        make_node("n3", labels={"example.com/alias": "beta"}),
        make_node("gone", internal_ip="10.0.0.9"),
    )
    cluster.remove_node("gone")

    index = await NodeIndex.of(cluster.nodes, entry)

    try:
        found = index.find(series)
    except AmbiguousError:
        found = "ambiguous"
    assert found == want


async def test_an_address_that_several_nodes_share_is_nobodys() -> None:
    nodes = make_cluster(*(make_node(f"n{number}", internal_ip="127.0.0.1") for number in range(3))).nodes

    index = await NodeIndex.of(nodes, ADDRESS)

    with pytest.raises(AmbiguousError):
        index.find({"instance": "127.0.0.1:9100"})


@pytest.mark.parametrize(
    ("value", "host"),
    [
        ("10.0.0.1:9100", "10.0.0.1"),
        ("node-1.example.com:9100", "node-1.example.com"),
        ("[fd00::1]:9100", "fd00::1"),
        ("fd00::1", "fd00::1"),
        ("node-1", "node-1"),
        ("node-1:", "node-1:"),
        ("node-1:http", "node-1:http"),
        (":9100", ""),
        ("", ""),
    ],
)
def test_without_port(value: str, host: str) -> None:
    assert without_port(value) == host
