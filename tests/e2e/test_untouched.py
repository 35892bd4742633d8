"""Pods that are not to be steered: what the API server stores of them, and whether it calls at all."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ..builders import make_container, make_owner, make_pod
from ..cases import reviews
from ..cluster import waiting
from ..cluster.client import ApiError
from ..cluster.control_plane import ControlPlane
from ..cluster.trimtab import DECISION, NAMESPACE, STEERING, Trimtab
from .bursts import STEERED, STOCK
from .conftest import (
    NODES,
    WITHIN_S,
    Json,
    MakeNamespace,
    calls,
    create,
    decision,
    reserved,
    terms,
)

SYSTEM = "kube-system"
SKIP = "trimtab.dev/skip"
FORGED = {DECISION: "forged"}
NODE = "node-00"

# What the level that the own namespace enforces asks of a Pod.
RESTRICTED: dict[str, Any] = {
    "containers": [
        make_container(securityContext={"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}})
    ],
    "securityContext": {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}
PINNED = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
            ]
        }
    }
}

NOT_CALLED: dict[str, Json] = {
    "in an unlabelled namespace": make_pod(namespace=STOCK),
    "in kube-system, labelled all the same": make_pod(namespace=SYSTEM),
    "in the own namespace, labelled all the same": make_pod(namespace=NAMESPACE, **RESTRICTED),
    "opted out by label": make_pod(namespace=STEERED, labels={SKIP: "true"}),
    "opted out by annotation": make_pod(namespace=STEERED, annotations={SKIP: "true"}),
    "opted out by both": make_pod(namespace=STEERED, labels={SKIP: "true"}, annotations={SKIP: "true"}),
    "on a node already": make_pod(namespace=STEERED, node=NODE),
    "a mirror Pod": make_pod(
        namespace=STEERED, node=NODE, annotations={"kubernetes.io/config.mirror": "0123"}
    ),
    "of another scheduler": make_pod(namespace=STEERED, schedulerName="packer"),
    "gated": make_pod(namespace=STEERED, schedulingGates=[{"name": "example.com/wait"}]),
}
CALLED_IN_VAIN: dict[str, Json] = {
    "pinned by its node selector": make_pod(namespace=STEERED, nodeSelector={"kubernetes.io/hostname": NODE}),
    "pinned by name": make_pod(namespace=STEERED, affinity=PINNED),
}
# These the API server sends only because of the forged key: by nature they are not steered.
FORGED_ON_A_SKIPPED_POD: dict[str, Json] = {
    "opted out": make_pod(namespace=STEERED, annotations={SKIP: "true", **FORGED}),
    "on a node already": make_pod(namespace=STEERED, node=NODE, annotations=FORGED),
    "of another scheduler": make_pod(namespace=STEERED, schedulerName="packer", annotations=FORGED),
    "gated": make_pod(namespace=STEERED, schedulingGates=[{"name": "example.com/wait"}], annotations=FORGED),
    "pinned": make_pod(namespace=STEERED, affinity=PINNED, annotations=FORGED),
    "of a DaemonSet": make_pod(
        namespace=STEERED, annotations=FORGED, metadata={"ownerReferences": [make_owner("DaemonSet")]}
    ),
}

LABELS: dict[str, Any] = {"no labels": None, "labels": {"app": "web"}}
ANNOTATIONS: dict[str, Any] = {
    "no annotations": None,
    "the author's annotations": {"team": "a"},
    "a key under our prefix": {"trimtab.dev/score": "9", "team": "a"},
}
OWNERS: dict[str, list[Json]] = {
    "no owner": [],
    "a ReplicaSet": [make_owner("ReplicaSet")],
    "a DaemonSet": [make_owner("DaemonSet")],
    # Whoever does not control the Pod says nothing about its nature.
    "a DaemonSet that does not control it": [make_owner("DaemonSet", controller=False)],
}
CONDITIONS = [
    (labels, annotations, owner) for labels in LABELS for annotations in ANNOTATIONS for owner in OWNERS
]

CASES = {case["id"]: case for case in reviews.load()}
REFUSED = sorted(name for name, case in CASES.items() if case["outcome"] == "api_reject")
UNCALLED = sorted(name for name, case in CASES.items() if case["outcome"] == "not_called")
MATCHED = sorted(name for name in CASES if name.startswith("match"))


@pytest.fixture(autouse=True, scope="module")
def _labelled_all_the_same(plane: ControlPlane, trimtab: Trimtab) -> Iterator[None]:
    """The namespaces that are never steered, with the label that asks for it."""
    for namespace in (SYSTEM, NAMESPACE):
        trimtab.enable(namespace)
    yield
    for namespace in (SYSTEM, NAMESPACE):
        plane.request("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {STEERING: None}}})


@pytest.mark.parametrize("name", NOT_CALLED)
def test_the_api_server_does_not_even_call_for_a_pod(
    name: str, plane: ControlPlane, trimtab: Trimtab
) -> None:
    before = calls(trimtab)

    stored = create(plane, NOT_CALLED[name])

    assert terms(stored) == []
    assert decision(stored) is None
    assert calls(trimtab) == before
    _delete(plane, stored)


@pytest.mark.parametrize("name", CALLED_IN_VAIN)
def test_a_pod_that_only_one_node_can_take_is_left_alone(
    name: str, plane: ControlPlane, trimtab: Trimtab
) -> None:
    before = calls(trimtab)

    stored = create(plane, CALLED_IN_VAIN[name])

    assert terms(stored) == []
    assert decision(stored) is None
    assert calls(trimtab) == before + 1
    _delete(plane, stored)


def test_the_pods_of_a_daemon_set_are_left_alone(
    plane: ControlPlane, trimtab: Trimtab, make_namespace: MakeNamespace
) -> None:
    namespace = make_namespace("enabled")
    before, labels = calls(trimtab), {"app": "agent"}
    agent = {
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [make_container(cpu="1m")],
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                },
            },
        },
    }

    plane.request("POST", f"/apis/apps/v1/namespaces/{namespace}/daemonsets", agent)
    pods = waiting.until(
        lambda: _running(plane, namespace, NODES), "a Pod of the DaemonSet on every node", timeout_s=WITHIN_S
    )

    assert len({pod["spec"]["nodeName"] for pod in pods}) == NODES
    assert [pod["metadata"]["name"] for pod in pods if terms(pod) or decision(pod)] == []
    assert calls(trimtab) == before


@pytest.mark.parametrize("name", FORGED_ON_A_SKIPPED_POD)
def test_a_forged_decision_on_a_pod_that_is_not_steered_is_removed(
    name: str, plane: ControlPlane, trimtab: Trimtab
) -> None:
    before, pod = calls(trimtab), FORGED_ON_A_SKIPPED_POD[name]

    stored = create(plane, pod, dry_run=True)

    kept = {key: value for key, value in pod["metadata"]["annotations"].items() if key != DECISION}
    assert stored["metadata"].get("annotations", {}) == kept
    assert terms(stored) == []
    assert calls(trimtab) == before + 1


def test_a_forged_decision_on_a_steered_pod_is_overwritten(plane: ControlPlane, trimtab: Trimtab) -> None:
    forged = {DECISION: json.dumps({"id": "forged", "outcome": "steered"}), "trimtab.dev/score": "100"}

    stored = create(plane, make_pod(namespace=STEERED, annotations={"team": "a", **forged}), dry_run=True)

    decided = decision(stored)
    assert decided is not None
    assert decided["outcome"] == "steered"
    assert decided["id"] != "forged"
    assert stored["metadata"]["annotations"].keys() == {"team", DECISION}
    assert terms(stored)


def test_outside_steered_namespaces_annotations_are_the_authors_own(
    plane: ControlPlane, trimtab: Trimtab
) -> None:
    before = calls(trimtab)

    stored = create(plane, make_pod(namespace=STOCK, annotations=FORGED), dry_run=True)

    assert stored["metadata"]["annotations"] == FORGED
    assert calls(trimtab) == before


@pytest.mark.parametrize(("labels", "annotations", "owner"), CONDITIONS)
def test_the_conditions_pass_every_pod_that_is_ours(
    labels: str, annotations: str, owner: str, plane: ControlPlane, trimtab: Trimtab
) -> None:
    pod = make_pod(
        namespace=STEERED,
        labels=LABELS[labels],
        annotations=ANNOTATIONS[annotations],
        metadata={"ownerReferences": OWNERS[owner]} if OWNERS[owner] else {},
    )
    ours, forged = owner != "a DaemonSet", annotations == "a key under our prefix"
    before = calls(trimtab)

    stored = create(plane, pod, dry_run=True)

    assert calls(trimtab) == before + (ours or forged)
    assert bool(terms(stored)) is ours
    assert (decision(stored) is not None) is ours
    assert "trimtab.dev/score" not in stored["metadata"].get("annotations", {})


def test_in_shadow_a_pod_is_annotated_and_nothing_else(
    plane: ControlPlane, trimtab: Trimtab, make_namespace: MakeNamespace, no_scheduler: None
) -> None:
    shadow, enabled = make_namespace("shadow"), make_namespace("enabled")
    before = reserved(trimtab)

    watched = create(plane, make_pod(namespace=shadow))
    after_shadow = reserved(trimtab)
    steered = create(plane, make_pod(namespace=enabled))

    decided = decision(watched)
    assert decided is not None
    assert (decided["outcome"], decided["reason"]) == ("shadow", "shadow")
    assert decided["names"]
    assert terms(watched) == []
    assert after_shadow == before
    assert terms(steered)
    assert reserved(trimtab) == before + 1


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_the_users_own_error_is_refused_with_and_without_the_webhook(
    name: str, plane: ControlPlane, trimtab: Trimtab
) -> None:
    refused = [_refusal(plane, name, namespace) for namespace in (STOCK, STEERED)]

    assert refused[0] == refused[1]
    assert refused[0].startswith("422: Pod ")
    assert "trimtab" not in refused[0].replace('"trimtab.dev/wait"', "")


@pytest.mark.parametrize("name", UNCALLED)
def test_the_case_of_a_pod_that_nobody_asks_about(name: str, plane: ControlPlane, trimtab: Trimtab) -> None:
    case, before = CASES[name], calls(trimtab)
    pod = _sent(case, NAMESPACE if reviews.namespace(case) == NAMESPACE else STOCK)
    pod["spec"] |= RESTRICTED

    stored = create(plane, pod, dry_run=True)

    assert decision(stored) is None
    assert calls(trimtab) == before


@pytest.mark.parametrize("name", MATCHED)
def test_the_case_of_a_pod_that_the_conditions_send(name: str, plane: ControlPlane, trimtab: Trimtab) -> None:
    before = calls(trimtab)

    stored = create(plane, _sent(CASES[name], STEERED), dry_run=True)

    assert terms(stored)
    assert calls(trimtab) == before + 1


def _sent(case: reviews.Case, namespace: str) -> Json:
    """Return the case's Pod as one sends it to that namespace."""
    pod = reviews.inflated(case)
    pod["metadata"]["namespace"] = namespace
    return pod


def _refusal(plane: ControlPlane, name: str, namespace: str) -> str:
    with pytest.raises(ApiError) as refused:
        create(plane, _sent(CASES[name], namespace), dry_run=True)
    # The generated name differs from one Pod to the next.
    return re.sub(r'^(\d+: Pod "w-)\w+"', r'\1…"', str(refused.value))


def _running(plane: ControlPlane, namespace: str, count: int) -> list[Json]:
    pods: list[Json] = plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    return running if len(running) == count else []


def _delete(plane: ControlPlane, pod: Json) -> None:
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    plane.request("DELETE", f"{path}?gracePeriodSeconds=0")
