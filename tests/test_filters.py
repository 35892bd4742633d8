"""Which nodes could take a Pod: operators, taints, resources."""

from typing import Any

import numpy as np
import pytest

from tests.builders import (
    Json,
    decode_node,
    decode_pod,
    make_container,
    make_node,
    make_node_affinity,
    make_pod,
    make_requirement,
    make_taint,
    make_term,
)
from webhook import filters, kube
from webhook.pods import read_shape
from webhook.snapshot import Mask, Snapshot


def snapshot(*nodes: Json) -> Snapshot:
    result = Snapshot(capacity=2)
    for node in nodes:
        result.set_node(decode_node(node))
    return result


def passed(mask: Mask | None, nodes: Snapshot) -> Mask:
    return np.ones(nodes.size, np.bool_) if mask is None else mask


def names(mask: Mask, nodes: Snapshot) -> str:
    """Return the names of the rows in `mask`, in order."""
    return " ".join(nodes.names[row] for row in np.flatnonzero(mask))


def labelled() -> Snapshot:
    """Four nodes, and a row that is no node: a Pod is bound to n9, which was never seen."""
    nodes = snapshot(
        make_node("n1", labels={"disk": "ssd", "size": "4"}),
        make_node("n2", labels={"disk": "hdd", "size": "16"}),
        make_node("n3", labels={"disk": "", "size": "large"}),
        make_node("n4", hostname=None),
    )
    nodes.bind("n9", read_shape(decode_pod(make_pod())))
    return nodes


TERMS: dict[str, tuple[Json, str]] = {
    "In, one value": (make_term(make_requirement("disk", "In", "ssd")), "n1"),
    "In, several values": (make_term(make_requirement("disk", "In", "ssd", "hdd", "nvme")), "n1 n2"),
    "In, the empty value": (make_term(make_requirement("disk", "In", "")), "n3"),
    "In, a value nobody has": (make_term(make_requirement("disk", "In", "nvme")), ""),
    "In, a key nobody has": (make_term(make_requirement("color", "In", "red")), ""),
    "In without values is an error, so no match": (make_term(make_requirement("disk", "In")), ""),
    "NotIn takes nodes without the key": (make_term(make_requirement("disk", "NotIn", "ssd")), "n2 n3 n4"),
    "NotIn, a key nobody has": (make_term(make_requirement("color", "NotIn", "red")), "n1 n2 n3 n4"),
    "NotIn without values is an error": (make_term(make_requirement("disk", "NotIn")), ""),
    "Exists": (make_term(make_requirement("disk", "Exists")), "n1 n2 n3"),
    "Exists with values is an error": (make_term(make_requirement("disk", "Exists", "ssd")), ""),
    "DoesNotExist": (make_term(make_requirement("disk", "DoesNotExist")), "n4"),
    "DoesNotExist, a key nobody has": (
        make_term(make_requirement("color", "DoesNotExist")),
        "n1 n2 n3 n4",
    ),
    "DoesNotExist with values is an error": (make_term(make_requirement("disk", "DoesNotExist", "x")), ""),
    "Gt compares numbers, not texts": (make_term(make_requirement("size", "Gt", "5")), "n2"),  # 16 > 5
    "Gt is strict": (make_term(make_requirement("size", "Gt", "4")), "n2"),
    "Lt": (make_term(make_requirement("size", "Lt", "5")), "n1"),
    "Lt is strict": (make_term(make_requirement("size", "Lt", "4")), ""),
    "Gt, below every number": (make_term(make_requirement("size", "Gt", "-1")), "n1 n2"),
    "Gt with a word": (make_term(make_requirement("size", "Gt", "small")), ""),
    "Gt with a fraction": (make_term(make_requirement("size", "Gt", "1.5")), ""),
    "Gt with a space": (make_term(make_requirement("size", "Gt", " 1")), ""),
    "Gt with underscores": (make_term(make_requirement("size", "Gt", "1_0")), ""),
    "Gt with zeros in front": (make_term(make_requirement("size", "Gt", "0" * 25 + "5")), "n2"),
    "Gt with the least int64": (make_term(make_requirement("size", "Gt", str(-(2**63)))), "n1 n2"),
    "Lt with the largest int64": (make_term(make_requirement("size", "Lt", str(2**63 - 1))), "n1 n2"),
    "Lt with more than an int64": (make_term(make_requirement("size", "Lt", str(2**63))), ""),
    "Lt with a number of 5000 digits": (make_term(make_requirement("size", "Lt", "9" * 5000)), ""),
    "Gt with two values": (make_term(make_requirement("size", "Gt", "1", "2")), ""),
    "Gt without values": (make_term(make_requirement("size", "Gt")), ""),
    "an operator of the future matches nothing": (make_term(make_requirement("disk", "Near", "ssd")), ""),
    "expressions are all needed": (
        make_term(make_requirement("disk", "Exists"), make_requirement("size", "Gt", "5")),
        "n2",
    ),
    "one bad expression spoils the term": (
        make_term(make_requirement("disk", "Exists"), make_requirement("disk", "In")),
        "",
    ),
    "a field names the node": (
        make_term(fields=[make_requirement("metadata.name", "In", "n4")]),
        "n4",
    ),
    "a field excludes the node": (
        make_term(fields=[make_requirement("metadata.name", "NotIn", "n4")]),
        "n1 n2 n3",
    ),
    "a field names a node that is not there": (
        make_term(fields=[make_requirement("metadata.name", "In", "n7")]),
        "",
    ),
    "a field names what only a Pod has named": (
        make_term(fields=[make_requirement("metadata.name", "In", "n9")]),
        "",
    ),
    "a field excludes a node that is not there": (
        make_term(fields=[make_requirement("metadata.name", "NotIn", "n7")]),
        "n1 n2 n3 n4",
    ),
    "a field takes exactly one value": (
        make_term(fields=[make_requirement("metadata.name", "In", "n1", "n2")]),
        "",
    ),
    "a field of another key": (make_term(fields=[make_requirement("spec.x", "NotIn", "n1")]), ""),
    "a field with an operator it does not take": (
        make_term(fields=[make_requirement("metadata.name", "Exists", "n1")]),
        "",
    ),
    "fields and expressions are all needed": (
        make_term(
            make_requirement("disk", "Exists"), fields=[make_requirement("metadata.name", "NotIn", "n1")]
        ),
        "n2 n3",
    ),
    "an empty term matches nothing": (make_term(), ""),
    "null lists are an empty term": ({"matchExpressions": None, "matchFields": None}, ""),
    "empty lists are an empty term": ({"matchExpressions": [], "matchFields": []}, ""),
}


@pytest.mark.parametrize(("term", "want"), TERMS.values(), ids=TERMS.keys())
def test_a_term_matches(term: Json, want: str) -> None:
    nodes = labelled()
    pod = decode_pod(make_pod(affinity=make_node_affinity(required=[term])))

    found = filters.demand(pod).required

    assert found is not None
    assert names(filters.match(found[0], nodes), nodes) == want


AFFINITY: dict[str, tuple[dict[str, Any], str]] = {
    "nothing asked": ({}, "n1 n2 n3 n4"),
    "a node selector": ({"nodeSelector": {"disk": "ssd"}}, "n1"),
    "a node selector of two keys": ({"nodeSelector": {"disk": "ssd", "size": "16"}}, ""),
    "a node selector with the empty value": ({"nodeSelector": {"disk": ""}}, "n3"),
    "an empty node selector": ({"nodeSelector": {}}, "n1 n2 n3 n4"),
    "required terms are ORed": (
        {
            "affinity": make_node_affinity(
                required=[
                    make_term(make_requirement("disk", "In", "ssd")),
                    make_term(make_requirement("disk", "DoesNotExist")),
                ]
            )
        },
        "n1 n4",
    ),
    "an empty term beside another adds nothing": (
        {
            "affinity": make_node_affinity(
                required=[make_term(), make_term(make_requirement("disk", "In", "ssd"))]
            )
        },
        "n1",
    ),
    "required without terms matches nothing": ({"affinity": make_node_affinity(required=[])}, ""),
    "required null is not there": (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}},
        "n1 n2 n3 n4",
    ),
    "required with null terms matches nothing": (
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": None}
                }
            }
        },
        "",
    ),
    "the node selector and the required terms are both needed": (
        {
            "nodeSelector": {"disk": "ssd"},
            "affinity": make_node_affinity(required=[make_term(make_requirement("size", "Gt", "5"))]),
        },
        "",
    ),
    "preferred terms exclude nothing": (
        {
            "affinity": make_node_affinity(
                preferred=[{"weight": 1, "preference": make_term(make_requirement("disk", "In", "ssd"))}]
            )
        },
        "n1 n2 n3 n4",
    ),
}


@pytest.mark.parametrize(("spec", "want"), AFFINITY.values(), ids=AFFINITY.keys())
def test_node_selector_and_affinity(spec: dict[str, Any], want: str) -> None:
    nodes = labelled()
    demand = filters.demand(decode_pod(make_pod(**spec)))

    assert (
        names(passed(filters.node_affinity(demand, nodes), nodes) & nodes.exists[: nodes.size], nodes) == want
    )


TAINT = ("team", "data", "NoSchedule")
TOLERATIONS: dict[str, tuple[Json, bool]] = {
    "equal key, value and effect": (
        {"key": "team", "operator": "Equal", "value": "data", "effect": "NoSchedule"},
        True,
    ),
    "the operator defaults to Equal": ({"key": "team", "value": "data", "effect": "NoSchedule"}, True),
    "an empty operator is Equal": ({"key": "team", "operator": "", "value": "data"}, True),
    "no effect covers every effect": ({"key": "team", "value": "data"}, True),
    "another value": ({"key": "team", "value": "web"}, False),
    "no value is the empty value": ({"key": "team"}, False),
    "another key": ({"key": "squad", "value": "data"}, False),
    "another effect": ({"key": "team", "value": "data", "effect": "NoExecute"}, False),
    "Exists needs no value": ({"key": "team", "operator": "Exists"}, True),
    "Exists with another effect": ({"key": "team", "operator": "Exists", "effect": "NoExecute"}, False),
    "Exists without a key covers everything": ({"operator": "Exists"}, True),
    "Exists without a key, of one effect": ({"operator": "Exists", "effect": "NoSchedule"}, True),
    "Exists without a key, of another effect": (
        {"operator": "Exists", "effect": "PreferNoSchedule"},
        False,
    ),
    "no key and an equal value": ({"value": "data"}, True),
    "an operator of the future covers nothing": ({"key": "team", "operator": "Near", "value": "data"}, False),
    "operators are written with a capital": ({"key": "team", "operator": "exists"}, False),
}


@pytest.mark.parametrize(("toleration", "want"), TOLERATIONS.values(), ids=TOLERATIONS.keys())
def test_a_toleration_covers_a_taint(toleration: Json, *, want: bool) -> None:
    pod = decode_pod(make_pod(tolerations=[toleration]))

    assert filters.tolerates(filters.demand(pod).tolerations, TAINT) is want


TAINTED: dict[str, tuple[list[Json], list[Json], bool]] = {
    "no taint": ([], [], True),
    "NoSchedule": ([make_taint("a", "NoSchedule")], [], False),
    "NoExecute": ([make_taint("a", "NoExecute")], [], False),
    "PreferNoSchedule excludes nothing": ([make_taint("a", "PreferNoSchedule")], [], True),
    "tolerated": ([make_taint("a", "NoSchedule")], [{"key": "a", "operator": "Exists"}], True),
    "one of two is not tolerated": (
        [make_taint("a", "NoSchedule"), make_taint("b", "NoExecute")],
        [{"key": "a", "operator": "Exists"}],
        False,
    ),
    "each taint may have its own toleration": (
        [make_taint("a", "NoSchedule"), make_taint("b", "NoExecute")],
        [{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "Exists"}],
        True,
    ),
    "a taint without value is the empty value": (
        [make_taint("a", "NoSchedule")],
        [{"key": "a", "operator": "Equal", "value": ""}],
        True,
    ),
    # What DefaultTolerationSeconds gives every Pod: it covers NoExecute, so not this taint.
    "the default tolerations are of NoExecute": (
        [make_taint("node.kubernetes.io/not-ready", "NoSchedule")],
        [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        False,
    ),
}


@pytest.mark.parametrize(("taints", "tolerations", "want"), TAINTED.values(), ids=TAINTED.keys())
def test_taints(taints: list[Json], tolerations: list[Json], *, want: bool) -> None:
    nodes = snapshot(make_node(taints=taints))
    demand = filters.demand(decode_pod(make_pod(tolerations=tolerations)))

    assert passed(filters.taint_toleration(demand, nodes), nodes).tolist() == [want]


def test_a_node_to_be_avoided_is_one_with_a_soft_taint_that_is_not_tolerated() -> None:
    nodes = snapshot(
        make_node("n1", taints=[make_taint("a", "PreferNoSchedule")]),
        make_node("n2", taints=[make_taint("a", "NoSchedule")]),
        make_node("n3"),
    )
    plain = filters.demand(decode_pod(make_pod()))
    tolerant = filters.demand(decode_pod(make_pod(tolerations=[{"key": "a", "operator": "Exists"}])))

    avoided = filters.prefers_to_avoid(plain, nodes)
    assert avoided is not None
    assert names(avoided, nodes) == "n1"
    assert filters.prefers_to_avoid(tolerant, nodes) is None


UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
CORDONED: dict[str, tuple[list[Json], bool]] = {
    "no toleration": ([], False),
    "the unschedulable taint is tolerated": ([{"key": UNSCHEDULABLE, "operator": "Exists"}], True),
    "everything is tolerated": ([{"operator": "Exists"}], True),
    "another effect of it is tolerated": (
        [{"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoExecute"}],
        False,
    ),
    "another taint is tolerated": ([{"key": "a", "operator": "Exists"}], False),
}


@pytest.mark.parametrize(("tolerations", "want"), CORDONED.values(), ids=CORDONED.keys())
def test_a_cordoned_node(tolerations: list[Json], *, want: bool) -> None:
    nodes = snapshot(make_node(unschedulable=True))
    demand = filters.demand(decode_pod(make_pod(tolerations=tolerations)))

    assert passed(filters.node_unschedulable(demand, nodes), nodes).tolist() == [want]


# The node offers 4 CPU, 8Gi, 10Gi of ephemeral storage, 3 Pods and 2 GPUs. One Pod of 1 CPU, 1Gi, 1Gi and
# 1 GPU is bound, so 3 CPU, 7Gi, 9Gi, 2 Pods and 1 GPU are left.
FITS: dict[str, tuple[dict[str, object], bool]] = {
    "CPU to the last": ({"cpu": "3"}, True),
    "a milli-CPU too many": ({"cpu": "3001m"}, False),
    "memory to the last": ({"memory": "7Gi"}, True),
    "a byte too many": ({"memory": 7 * 1024**3 + 1}, False),
    "ephemeral storage to the last": ({"ephemeral-storage": "9Gi"}, True),
    "ephemeral storage too many": ({"ephemeral-storage": "9.1Gi"}, False),
    "the last GPU": ({"example.com/gpu": "1"}, True),
    "a GPU too many": ({"example.com/gpu": "2"}, False),
    "a resource that no node has": ({"example.com/fpga": "1"}, False),
    "none of a resource that no node has": ({"example.com/fpga": "0"}, True),
    "nothing": ({}, True),
    "the end of an int64": ({"memory": "9223372036854775807"}, False),
    "more than an int64": ({"memory": "10E"}, False),
}


def crowded(**fields: Any) -> Snapshot:
    offered = {"ephemeral-storage": "10Gi", "example.com/gpu": "2"}
    nodes = snapshot(make_node(cpu="4", memory="8Gi", pods="3", allocatable=offered, **fields))
    taken = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi", "example.com/gpu": "1"}
    bound = decode_pod(make_pod(containers=[make_container(requests=taken)]))
    nodes.bind("n1", read_shape(bound))
    return nodes


def fits(pod: kube.Pod, nodes: Snapshot) -> list[bool]:
    verdicts: list[bool] = filters.node_resources_fit(filters.demand(pod), nodes).tolist()
    return verdicts


@pytest.mark.parametrize(("wanted", "want"), FITS.values(), ids=FITS.keys())
def test_resources_fit(wanted: dict[str, object], *, want: bool) -> None:
    assert fits(decode_pod(make_pod(containers=[make_container(requests=wanted)])), crowded()) == [want]


def test_several_containers_past_the_end_of_an_int64_fit_nowhere() -> None:
    assert fits(decode_pod(make_pod(containers=[make_container(memory="9E")] * 2)), crowded()) == [False]


def test_a_pod_that_asks_for_nothing_fits_an_over_requested_node() -> None:
    nodes = crowded()
    nodes.set_node(decode_node(make_node(cpu="1m", memory="1", pods="3")))

    assert fits(decode_pod(make_pod()), nodes) == [True]


def test_the_number_of_pods_is_a_resource() -> None:
    nodes = crowded()
    pod = decode_pod(make_pod())
    nodes.bind("n1", read_shape(pod))
    assert fits(pod, nodes) == [True]

    nodes.bind("n1", read_shape(pod))

    assert fits(pod, nodes) == [False]


def test_feasible_is_what_every_filter_lets_pass_and_exists() -> None:
    nodes = snapshot(
        make_node("n1"),
        make_node("n2", unschedulable=True),
        make_node("n3", ready="False"),
        make_node("n4", taints=[make_taint("a", "NoSchedule")]),
        make_node("n5", labels={"disk": "hdd"}),
        make_node("n6", cpu="100m"),
        make_node("n7"),
    )
    nodes.remove_node("n7")
    nodes.bind("n8", read_shape(decode_pod(make_pod())))
    pod = make_pod(
        cpu="200m",
        affinity=make_node_affinity(required=[make_term(make_requirement("disk", "DoesNotExist"))]),
    )

    assert names(filters.feasible(filters.demand(decode_pod(pod)), nodes), nodes) == "n1"


def test_no_nodes_are_no_candidates() -> None:
    assert filters.feasible(filters.demand(decode_pod(make_pod())), Snapshot()).tolist() == []
