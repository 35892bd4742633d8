"""Scorers and thresholds of a policy, through the whole decision."""

import json
from typing import Any

import numpy as np
import pytest

from tests.builders import (
    NOW,
    apply,
    decode_node,
    decode_pod,
    make_cluster,
    make_container,
    make_node,
    make_pod,
    make_review,
    patch_in,
    to_bytes,
)
from webhook import admission, policy
from webhook.admission import Clock
from webhook.cluster import Cluster

HEAD = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\n"
CLOCK = Clock(NOW, "2026-01-01T00:00:00Z")


def first_name(cluster: Cluster, profile: str, **pod: Any) -> str:
    """Return the first name for a Pod under a profile."""
    raw = make_pod(**pod)
    rules = policy.load(f"{HEAD}profile: {profile}")
    answer = admission.respond(to_bytes(make_review(raw)), cluster, rules, CLOCK)
    patched = apply(patch_in(answer.body), raw)
    said = json.loads(patched["metadata"]["annotations"]["trimtab.dev/decision"])
    return str(said["names"][0][0] if "names" in said else said["reason"])


def three_nodes() -> Cluster:
    """Return n0, n1 and n2 of 8 CPU in zones a, b and c, using 1, 2 and 3 CPU."""
    nodes = [
        make_node(f"n{i}", labels={"topology.kubernetes.io/zone": "abc"[i], "rank": str(i)}) for i in range(3)
    ]
    cluster = make_cluster(*nodes)
    for row in range(3):
        cluster.nodes.set_usage(row, 1000.0 * (row + 1), 2.0**33, NOW)
    return cluster


# Profile, first name or reason.
FIRST: dict[str, tuple[str, str]] = {
    "the least used": ("{scorers: {utilization: {}}}", "n0"),
    "a threshold leaves the first out": ("{scorers: {target-load: {}}, thresholds: {cpu: 30}}", "n1"),
    "no threshold: nearest to the target": ("{scorers: {target-load: {}}}", "n2"),
    "all over the threshold": ("{scorers: {utilization: {}}, thresholds: {cpu: 5}}", "over-thresholds"),
    "a label's number": ("{scorers: {custom: {args: {label: rank, max: 2}}}}", "n2"),
    "a label's number, weighed": (
        "{scorers: {utilization: {weight: 9}, custom: {args: {label: rank, max: 2}}}}",
        "n0",
    ),
    "near": ("{scorers: {topology: {}}}", "n1"),
    "energy": ("{scorers: {energy: {args: {default: {k0: 1, k1: -90, k2: -0.02}}}}}", "n2"),
    "hot": (
        "{scorers: {hot-node: {args: {windows: [{seconds: 60, count: 1}]}}, least-requested: {weight: 0.1}}}",
        "n0",
    ),
}


@pytest.mark.parametrize(("profile", "want"), FIRST.values(), ids=FIRST.keys())
def test_first_names(profile: str, want: str) -> None:
    cluster = three_nodes()
    cluster.set_pod(
        decode_pod(
            make_pod(
                uid="db",
                node="n1",
                labels={"app": "db"},
                containers=[make_container(cpu="10m", memory="1Mi")],
            )
        ),
        NOW,
    )

    assert first_name(cluster, profile, cpu="100m", annotations={"trimtab.dev/near": "app=db"}) == want


def test_a_pod_that_was_listed_is_no_binding_of_late() -> None:
    cluster = three_nodes()
    for number, now in enumerate((None, NOW, NOW)):
        cluster.set_pod(decode_pod(make_pod(uid=f"p{number}", node="n1")), now)

    assert cluster.nodes.bindings.within(60.0, NOW, 3).tolist() == [0, 2, 0]
    cluster.set_pod(decode_pod(make_pod(uid="p1", node="n1", phase="Running")), NOW + 1)
    assert cluster.nodes.bindings.within(60.0, NOW, 3).tolist() == [0, 2, 0]


def test_limits_are_counted_by_row_no_less_than_requests() -> None:
    cluster = three_nodes()
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "3"}}
    pod = make_pod(uid="p", node="n1", containers=[make_container(resources=resources)])

    cluster.set_pod(decode_pod(pod), NOW)
    assert cluster.nodes.limits[:, 1].tolist() == [3000, 2**30]

    cluster.remove_pod("p")
    assert cluster.nodes.limits[:, 1].tolist() == [0, 0]


def test_a_nodes_annotation_is_read_anew_when_it_alone_changes() -> None:
    cluster = three_nodes()
    assert np.isnan(cluster.nodes.columns.numbers("annotation", "score")).all()

    cluster.set_node(
        decode_node(
            make_node(
                "n1", labels={"topology.kubernetes.io/zone": "b", "rank": "1"}, annotations={"score": "5"}
            )
        )
    )

    assert cluster.nodes.columns.numbers("annotation", "score")[1] == 5.0
