"""Volumes: which nodes reach them, and what says nothing."""

import pytest

from tests.builders import (
    Json,
    decode_claim,
    decode_volume,
    make_claim,
    make_node,
    make_pod,
    make_requirement,
    make_term,
    make_volume,
)
from webhook import kube
from webhook.snapshot import Snapshot

from .world import passing, world

ALL = "a1 a2 b1 b2 x"
BETA = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
IN_A = [make_term(make_requirement(kube.ZONE, "In", "a"))]
IN_B = [make_term(make_requirement(kube.ZONE, "In", "b"))]


def stored(nodes: Snapshot, *items: Json) -> Snapshot:
    for item in items:
        if item["kind"] == "PersistentVolume":
            nodes.volumes.set_volume(decode_volume(item))
        else:
            nodes.volumes.set_claim(decode_claim(item))
    return nodes


def claiming(*names: str | None) -> Json:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
        for number, name in enumerate(names)
    ]
    return make_pod(volumes=[*volumes, {"name": "scratch", "emptyDir": {}}])


# Claims and volumes that are known, and the nodes of a Pod with the claim `c`.
BINDING: dict[str, tuple[list[Json], str]] = {
    "the volume is in zone a": ([make_claim("c", "v"), make_volume("v", required=IN_A)], "a1 a2"),
    "one term of several": ([make_claim("c", "v"), make_volume("v", required=IN_A + IN_B)], "a1 a2 b1 b2"),
    "no term at all": ([make_claim("c", "v"), make_volume("v", required=[])], ""),
    "no affinity": ([make_claim("c", "v"), make_volume("v")], ALL),
    "affinity null": ([make_claim("c", "v"), make_volume("v", nodeAffinity=None)], ALL),
    "nothing required": ([make_claim("c", "v"), make_volume("v", nodeAffinity={"required": None})], ALL),
    "an unknown claim": ([make_volume("v", required=IN_A)], ALL),
    "an unknown volume": ([make_claim("c", "v")], ALL),
    "a claim that waits for its first Pod": ([make_claim("c", None, bound=False)], ALL),
    "a claim that is not fully bound yet": (
        [make_claim("c", "v", bound=False), make_volume("v", required=IN_A)],
        ALL,
    ),
    "a claim of another namespace": (
        [make_claim("c", "v", namespace="ops"), make_volume("v", required=IN_A)],
        ALL,
    ),
    "an in-tree volume, for the scheduler may translate it": (
        [make_claim("c", "v"), make_volume("v", required=IN_A, gcePersistentDisk={"pdName": "d"})],
        ALL,
    ),
    "terms on fields, for the scheduler compares labels alone": (
        [
            make_claim("c", "v"),
            make_volume("v", required=[make_term(fields=[make_requirement("metadata.name", "In", "a1")])]),
        ],
        ALL,
    ),
}


@pytest.mark.parametrize(("items", "want"), BINDING.values(), ids=BINDING.keys())
def test_volume_binding(items: list[Json], want: str) -> None:
    assert passing("VolumeBinding", claiming("c"), stored(world(), *items)) == want


def test_every_volume_has_to_be_in_reach() -> None:
    nodes = stored(
        world(),
        make_claim("c", "v"),
        make_claim("d", "w"),
        make_volume("v", required=IN_A),
        make_volume("w", required=[make_term(make_requirement(kube.HOSTNAME, "In", "a2", "b2"))]),
    )

    assert passing("VolumeBinding", claiming("c", "d"), nodes) == "a2"


@pytest.mark.parametrize("pod", [claiming(None), claiming(""), make_pod(volumes=None)])
def test_a_claim_without_a_name_says_nothing(pod: Json) -> None:
    nodes = stored(world(), make_claim("", "v"), make_volume("v", required=IN_A, labels={kube.ZONE: "a"}))

    assert passing("VolumeBinding", pod, nodes) == ALL
    assert passing("VolumeZone", pod, nodes) == ALL


# The volume's labels. Node x says nothing of zones.
ZONES: dict[str, tuple[dict[str, str], str]] = {
    "a zone": ({kube.ZONE: "a"}, "a1 a2 x"),
    "several zones": ({kube.ZONE: "a__c"}, "a1 a2 x"),
    "with spaces": ({kube.ZONE: " a __ b "}, ALL),
    "an empty zone among them makes the label unreadable": ({kube.ZONE: "a__"}, ALL),
    "the beta label, where nodes have its successor": ({BETA: "a"}, "a1 a2 x"),
    "a region that these nodes do not name": ({REGION: "r"}, "x"),
    "zone and region": ({kube.ZONE: "a", REGION: "r"}, "x"),
    "another label": ({"disk": "ssd"}, ALL),
}


@pytest.mark.parametrize(("labels", "want"), ZONES.values(), ids=ZONES.keys())
def test_volume_zone(labels: dict[str, str], want: str) -> None:
    nodes = stored(world(), make_claim("c", "v"), make_volume("v", labels=labels))

    assert passing("VolumeZone", claiming("c"), nodes) == want


def test_a_node_with_the_beta_label_is_held_against_that() -> None:
    nodes = world(
        nodes=[
            make_node("both", labels={BETA: "b", kube.ZONE: "a"}),
            make_node("old", labels={BETA: "a"}),
            make_node("new", labels={kube.ZONE: "a"}),
        ]
    )
    stored(nodes, make_claim("c", "v"), make_volume("v", labels={BETA: "a"}))

    assert passing("VolumeZone", claiming("c"), nodes) == "old new"


def test_the_zone_counts_before_the_binding_is_complete() -> None:
    nodes = stored(world(), make_claim("c", "v", bound=False), make_volume("v", labels={kube.ZONE: "b"}))

    assert passing("VolumeZone", claiming("c"), nodes) == "b1 b2 x"
