"""Host ports: what is taken on a node, by whom, and at which address."""

import pytest

from tests.builders import Json, decode_pod, make_container, make_pod
from webhook import filters
from webhook.filters import FILTERS
from webhook.pods import read_shape

from .world import bound, passing, with_ports, world

ALL = "a1 a2 b1 b2 x"

# What a Pod on a1 has, what the other wants, and where that can go.
PORTS: dict[str, tuple[Json, Json, str]] = {
    "the same port": ({"hostPort": 80}, {"hostPort": 80}, "a2 b1 b2 x"),
    "another port": ({"hostPort": 80}, {"hostPort": 81}, ALL),
    "another protocol": ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, ALL),
    "TCP is the default": ({"hostPort": 80}, {"hostPort": 80, "protocol": "TCP"}, "a2 b1 b2 x"),
    "the same address": (
        {"hostPort": 80, "hostIP": "10.0.0.1"},
        {"hostPort": 80, "hostIP": "10.0.0.1"},
        "a2 b1 b2 x",
    ),
    "another address": ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, ALL),
    "every address, where one is taken": (
        {"hostPort": 80, "hostIP": "10.0.0.1"},
        {"hostPort": 80},
        "a2 b1 b2 x",
    ),
    "one address, where every is taken": (
        {"hostPort": 80},
        {"hostPort": 80, "hostIP": "10.0.0.1"},
        "a2 b1 b2 x",
    ),
    "0.0.0.0 is every address": (
        {"hostPort": 80, "hostIP": "0.0.0.0"},
        {"hostPort": 80, "hostIP": "10.0.0.1"},
        "a2 b1 b2 x",
    ),
    "a container's port is none of the host's": ({"containerPort": 80}, {"hostPort": 80}, ALL),
    "port 0 is none": ({"hostPort": 0}, {"hostPort": 0}, ALL),
    "everything null": (
        {"hostPort": None, "protocol": None, "hostIP": None},
        {"hostPort": None, "protocol": None, "hostIP": None},
        ALL,
    ),
    "null is the default": (
        {"hostPort": 80, "protocol": None, "hostIP": None},
        {"hostPort": 80},
        "a2 b1 b2 x",
    ),
}


@pytest.mark.parametrize(("has", "wants", "want"), PORTS.values(), ids=PORTS.keys())
def test_node_ports(has: Json, wants: Json, want: str) -> None:
    nodes = world(bound("a1", containers=with_ports(has)))

    assert passing("NodePorts", make_pod(containers=with_ports(wants)), nodes) == want


RUNNING: dict[str, tuple[Json, str]] = {
    "a sidecar runs as long as the Pod": ({"restartPolicy": "Always"}, "a2 b1 b2 x"),
    "another init container has ended": ({}, ALL),
}


@pytest.mark.parametrize(("fields", "want"), RUNNING.values(), ids=RUNNING.keys())
def test_ports_of_init_containers(fields: Json, want: str) -> None:
    init = [make_container("init", ports=[{"hostPort": 80}], **fields)]
    nodes = world(bound("a1", initContainers=init))

    assert passing("NodePorts", make_pod(containers=with_ports({"hostPort": 80})), nodes) == want


def test_a_port_is_free_once_the_last_pod_that_has_it_is_gone() -> None:
    shape = read_shape(decode_pod(bound("a1", containers=with_ports({"hostPort": 80}))))
    nodes, wanted = world(), make_pod(containers=with_ports({"hostPort": 80}))
    pods = [nodes.bind("a1", shape), nodes.bind("a1", shape), nodes.bind("b1", shape)]
    assert passing("NodePorts", wanted, nodes) == "a2 b2 x"

    nodes.unbind(pods[0])
    nodes.unbind(pods[2])
    assert passing("NodePorts", wanted, nodes) == "a2 b1 b2 x"

    nodes.unbind(pods[1])
    assert passing("NodePorts", wanted, nodes) == ALL


def test_nothing_is_looked_at_for_a_pod_without_host_ports() -> None:
    nodes = world(bound("a1", containers=with_ports({"hostPort": 80})))

    assert FILTERS["NodePorts"](filters.demand(decode_pod(make_pod())), nodes) is None
