"""Why a node could not take a Pod: each text begins with the plugin, and gives the numbers."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
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
from webhook import filters, kube, volumes
from webhook.explain import refusals
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
WEB = {"app": "web"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def with_ports(*ports: int, **fields: Any) -> Json:
    container = {"name": "c", "ports": [{"hostPort": port, "containerPort": port} for port in ports]}
    return make_pod(containers=[container], **fields)


def spread(key: str, *, skew: int = 1) -> Json:
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
    }


def about(labels: Json, key: str = kube.HOSTNAME) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}}


def apart(*labels: Json) -> Json:
    return {"podAntiAffinity": {REQUIRED: [about(each) for each in labels]}}


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
    "host ports, by the protocol": (
        with_ports(80, 443, 53),
        make_node(),
        [with_ports(443, 53, uid="a", node="n1")],
        ["NodePorts: host port 53/TCP is taken", "NodePorts: host port 443/TCP is taken"],
    ),
    "the skew of a constraint": (
        make_pod(labels=WEB, topologySpreadConstraints=[spread("zone"), spread("rack", skew=3)]),
        make_node(labels={"zone": "z1", "rack": "r"}),
        [make_pod(uid="a", node="n1", labels=WEB)],
        ["PodTopologySpread: zone: one more would pass maxSkew 1"],
    ),
    "a label that a constraint needs": (
        make_pod(labels=WEB, topologySpreadConstraints=[spread("a")]),
        make_node(),
        [],
        ["PodTopologySpread: a: the node has no such label"],
    ),
    "a Pod there keeps away": (
        make_pod(labels=WEB),
        make_node(),
        [make_pod(uid="a", node="n1", affinity=apart(WEB))],
        ["InterPodAffinity: the anti-affinity of a Pod there keeps this Pod away"],
    ),
    "its own anti-affinity": (
        make_pod(affinity=apart(WEB, {"app": "db"})),
        make_node(),
        [make_pod(uid="a", node="n1", labels={"app": "db"})],
        ["InterPodAffinity: a Pod that its anti-affinity avoids is in the same kubernetes.io/hostname"],
    ),
    "its affinity": (
        make_pod(affinity={"podAffinity": {REQUIRED: [about(WEB, "zone")]}}),
        make_node(),
        [make_pod(uid="a", node="fine", labels=WEB)],
        ["InterPodAffinity: no Pod that its affinity asks for is in the same zone"],
    ),
}


@pytest.mark.parametrize(("pod", "node", "bound", "want"), CASES.values(), ids=CASES.keys())
def test_the_reasons(pod: Json, node: Json, bound: list[Json], want: list[str]) -> None:
    fine = make_node(
        "fine",
        cpu=64,
        memory="256Gi",
        labels={"disk": "ssd", "arch": "arm64", "zone": "z", "rack": "r", "a": "5"},
    )

    found = refused(pod, fine, node, bound=bound)

    assert found.get("n1", []) == want


def test_volumes_that_cannot_be_reached() -> None:
    cluster = make_cluster(make_node("n1", labels={kube.ZONE: "a"}), make_node("n2", labels={kube.ZONE: "b"}))
    here = make_term(make_requirement(kube.HOSTNAME, "In", "n1"))
    for item in (
        {"metadata": {"name": "v1", "labels": {kube.ZONE: "b"}}, "spec": {}},
        {"metadata": {"name": "v2"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [here]}}}},
    ):
        cluster.nodes.volumes.set_volume(msgspec.convert(item, kube.PersistentVolume))
    for name, volume in (("data", "v1"), ("logs", "v2"), ("other", "v3")):
        metadata = {"name": name, "namespace": "shop", "annotations": {volumes.BIND_COMPLETED: "yes"}}
        claim = {"metadata": metadata, "spec": {"volumeName": volume}}
        cluster.nodes.volumes.set_claim(msgspec.convert(claim, kube.PersistentVolumeClaim))
    mounted = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "logs", "other")
    ]

    found = refusals.refusals(filters.demand(decode_pod(make_pod(volumes=mounted))), cluster.nodes)

    assert found == {
        0: ["VolumeZone: the volume of claim data is in another zone or region"],
        1: ["VolumeBinding: the volume of claim logs cannot be reached from the node"],
    }


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

    more: Mapping[str, filters.Predicate] = {**filters.FILTERS, "NodeColour": no_first}
    monkeypatch.setattr(filters, "FILTERS", more)

    assert refused(make_pod(), make_node("n1"), make_node("n2")) == {
        "n1": ["NodeColour: would refuse the Pod"]
    }


def test_every_filter_has_words() -> None:
    assert refusals.TEXTS.keys() == filters.FILTERS.keys()
