"""Why a node could not take a Pod: each text begins with the plugin, and gives the numbers."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pytest

from tests.builders import (
    Json,
    decode_pod,
    make_cluster,
    make_node,
    make_node_affinity,
    make_pod,
    make_requirement,
    make_taint,
    make_term,
)
from webhook import filters, refusals
from webhook.filters import Demand
from webhook.snapshot import Mask, Snapshot


def refused(pod: Json, *nodes: Json, bound: Iterable[Json] = ()) -> dict[str, list[str]]:
    """Return the texts by the node's name."""
    cluster = make_cluster(*nodes)
    for other in bound:
        cluster.set_pod(decode_pod(other), None)
    found = refusals.refusals(filters.demand(decode_pod(pod)), cluster.nodes)
    return {cluster.nodes.names[row]: texts for row, texts in found.items()}


def required(*terms: Json) -> Json:
    return {"affinity": make_node_affinity(required=terms)}


GPU, SOON = make_taint("dedicated", "NoSchedule", "gpu"), make_taint("spot", "NoExecute")
TAKEN = [make_pod(uid="a", node="n1", cpu="6500m", memory="31Gi")]
SSD = make_requirement("disk", "In", "ssd", "nvme")
TAINTED = "TaintToleration: taint"

# The Pod, the node n1, what is bound there, the reasons.
CASES: dict[str, tuple[Json, Json, list[Json], list[str]]] = {
    "it fits": (make_pod(cpu="8", memory="32Gi"), make_node(), [], []),
    "cordoned": (make_pod(), make_node(unschedulable=True), [], ["NodeUnschedulable: node is cordoned"]),
    "not ready": (make_pod(), make_node(ready="False"), [], ["TaintToleration: node is not Ready"]),
    "taints": (
        make_pod(),
        make_node(taints=[SOON, GPU, make_taint("old", "PreferNoSchedule")]),
        [],
        [
            f"{TAINTED} dedicated=gpu:NoSchedule is not tolerated",
            f"{TAINTED} spot:NoExecute is not tolerated",
        ],
    ),
    "one taint of two is tolerated": (
        make_pod(tolerations=[{"key": "spot", "operator": "Exists"}]),
        make_node(taints=[SOON, GPU]),
        [],
        [f"{TAINTED} dedicated=gpu:NoSchedule is not tolerated"],
    ),
    "another label, and none": (
        make_pod(nodeSelector={"disk": "ssd", "arch": "arm64"}),
        make_node(labels={"disk": "hdd"}),
        [],
        [
            "NodeAffinity: does not match nodeSelector disk=ssd: the node has hdd",
            "NodeAffinity: does not match nodeSelector arch=arm64: the node has no such label",
        ],
    ),
    "one required term: what of it fails": (
        make_pod(
            **required(make_term(SSD, make_requirement("zone", "Exists"), make_requirement("a", "Gt", "4")))
        ),
        make_node(labels={"zone": "z", "a": "4"}),
        [],
        [
            "NodeAffinity: does not match required disk In (ssd, nvme)",
            "NodeAffinity: does not match required a Gt (4)",
        ],
    ),
    "a required field": (
        make_pod(**required(make_term(fields=[make_requirement("metadata.name", "NotIn", "n1")]))),
        make_node(),
        [],
        ["NodeAffinity: does not match required metadata.name NotIn (n1)"],
    ),
    "several required terms": (
        make_pod(**required(make_term(SSD), make_term(make_requirement("zone", "Exists")))),
        make_node(),
        [],
        ["NodeAffinity: matches none of the 2 required terms"],
    ),
    "a term that is empty": (
        make_pod(**required(make_term())),
        make_node(),
        [],
        ["NodeAffinity: matches none of the 1 required terms"],
    ),
    "cpu and memory beside what is bound": (
        make_pod(cpu=2, memory="1536Mi"),
        make_node(),
        TAKEN,
        [
            "NodeResourcesFit: cpu: asks for 2, 1500m of 8 is free",
            "NodeResourcesFit: memory: asks for 1.5Gi, 1Gi of 32Gi is free",
        ],
    ),
    "what just fits is no reason": (
        make_pod(cpu=8, memory="33Gi"),
        make_node(),
        [],
        ["NodeResourcesFit: memory: asks for 33Gi, 32Gi of 32Gi is free"],
    ),
    "a node that is over-committed has nothing free": (
        make_pod(cpu="100m"),
        make_node(cpu=4),
        TAKEN,
        ["NodeResourcesFit: cpu: asks for 100m, 0 of 4 is free"],
    ),
    "a resource that the node lacks": (
        make_pod(containers=[{"name": "c", "resources": {"requests": {"example.com/gpu": 1}}}]),
        make_node(),
        [],
        ["NodeResourcesFit: example.com/gpu: asks for 1, the node has none"],
    ),
    "no place": (
        make_pod(),
        make_node(pods=1),
        [make_pod(uid="a", node="n1")],
        ["NodeResourcesFit: pods: all 1 places are taken"],
    ),
    "no places at all": (
        make_pod(),
        make_node(pods=0),
        [],
        ["NodeResourcesFit: pods: the node takes none"],
    ),
    "everything at once, in the order of the filters": (
        make_pod(cpu=9, nodeSelector={"disk": "ssd"}),
        make_node(unschedulable=True, ready="Unknown", taints=[GPU]),
        [],
        [
            "NodeUnschedulable: node is cordoned",
            "TaintToleration: node is not Ready",
            f"{TAINTED} dedicated=gpu:NoSchedule is not tolerated",
            "NodeAffinity: does not match nodeSelector disk=ssd: the node has no such label",
            "NodeResourcesFit: cpu: asks for 9, 8 of 8 is free",
        ],
    ),
}


@pytest.mark.parametrize(("pod", "node", "bound", "want"), CASES.values(), ids=CASES.keys())
def test_the_reasons(pod: Json, node: Json, bound: list[Json], want: list[str]) -> None:
    fine = make_node(
        "fine", cpu=64, memory="256Gi", labels={"disk": "ssd", "arch": "arm64", "zone": "z", "a": "5"}
    )

    found = refused(pod, fine, node, bound=bound)

    assert found.get("n1", []) == want


def test_a_node_is_named_exactly_where_a_filter_excludes_it() -> None:
    cluster = make_cluster(
        *(make_node(f"n{number}", cpu=number, unschedulable=number == 3) for number in range(1, 6))
    )
    cluster.set_pod(decode_pod(make_pod(uid="a", node="unknown", cpu=1)), None)
    demand = filters.demand(decode_pod(make_pod(cpu=3)))

    found = refusals.refusals(demand, cluster.nodes)

    feasible = filters.feasible(demand, cluster.nodes) | ~cluster.nodes.exists[: cluster.nodes.size]
    assert sorted(found) == np.flatnonzero(~feasible).tolist() == [0, 1, 2]


def test_a_predicate_without_words_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_first(_demand: Demand, nodes: Snapshot) -> Mask:
        return np.arange(nodes.size) > 0

    more: Mapping[str, Callable[[Demand, Snapshot], Mask]] = {**filters.FILTERS, "NodePorts": no_first}
    monkeypatch.setattr(filters, "FILTERS", more)

    assert refused(make_pod(), make_node("n1"), make_node("n2")) == {
        "n1": ["NodePorts: would refuse the Pod"]
    }


def test_every_filter_has_words() -> None:
    assert refusals.TEXTS.keys() <= filters.FILTERS.keys()
