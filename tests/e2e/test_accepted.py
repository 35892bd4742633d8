"""Whatever Pod the API server accepts it accepts steered too, with all that its author wrote."""

import concurrent.futures
import copy
import itertools
import json
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ..cluster import client, topology
from ..cluster.client import ApiError
from ..cluster.control_plane import ControlPlane
from ..cluster.trimtab import DECISION, Trimtab
from ..strategies import REQUIRED, valid_pods
from .bursts import STEERED, STOCK
from .conftest import PREFERRED, Json, create, decision, terms

PODS = 1000
STEERED_AT_LEAST = 500

INPUTS = {"trimtab.dev/skip", "trimtab.dev/expected-cpu", "trimtab.dev/expected-memory", "trimtab.dev/near"}
# What the generated Pods ask for, on different nodes in turn.
LABELS: tuple[dict[str, str], ...] = (
    {"disk": "ssd", "size": "4", "team.example/tier": "a"},
    {"disk": "hdd", "size": "16"},
    {"disk": "a", "size": "hdd", "team.example/tier": "ssd"},
    {"disk": "4", "team.example/tier": "4"},
    {},
)
RESOURCES = {"ephemeral-storage": "100Gi", "example.com/gpu": "8"}
HOSTS = ("metadata.name", "kubernetes.io/hostname")


@pytest.fixture(autouse=True, scope="module")
def _nodes_that_can_take_them(
    plane: ControlPlane, nodes: dict[str, topology.SimulatedNode], trimtab: Trimtab
) -> None:
    labels = itertools.cycle(LABELS)
    patches: list[tuple[str, str, Json]] = []
    for name in nodes:
        patches.append(("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": next(labels)}}))
        status = {"allocatable": RESOURCES, "capacity": RESOURCES}
        patches.append(("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}))
    plane.client.request_all(patches)


@cache
def examples() -> list[Json]:
    """Return the same Pods on every run, no two alike."""
    found: dict[str, Json] = {}

    @settings(
        max_examples=PODS,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(valid_pods())
    def collect(pod: Json) -> None:
        found[json.dumps(pod, sort_keys=True)] = pod

    collect()
    return list(found.values())


def test_whatever_is_accepted_is_accepted_steered_too(plane: ControlPlane, trimtab: Trimtab) -> None:
    pods = examples()
    plain, patched = all_sent(plane, pods, STOCK), all_sent(plane, pods, STEERED)
    accepted = [index for index, answer in enumerate(plain) if not isinstance(answer, ApiError)]
    decided = [index for index in accepted if is_decided(patched[index])]
    steered = [index for index in decided if terms(patched[index]) != terms(plain[index])]
    print(
        f"{len(pods)} Pods: {len(accepted)} accepted unpatched, {len(decided)} of them decided, "
        f"{len(steered)} steered",
        flush=True,
    )

    assert len(steered) >= STEERED_AT_LEAST
    assert [str(patched[index]) for index in accepted if isinstance(patched[index], ApiError)] == []
    assert [pods[index] for index in accepted if must_be_decided(pods[index]) and index not in decided] == []
    for index in accepted:
        check_kept(plain[index], patched[index])
    # What the API server refuses is the author's own error, and stays that.
    for one, other in zip(plain, patched, strict=True):
        assert isinstance(one, ApiError) == isinstance(other, ApiError)


def all_sent(plane: ControlPlane, pods: list[Json], namespace: str) -> list[Any]:
    """Return for each Pod what would be stored, or the error that refuses it."""

    def sent(pod: Json) -> Json | ApiError:
        placed = copy.deepcopy(pod)
        placed["metadata"]["namespace"] = namespace
        try:
            return create(plane, placed, dry_run=True)
        except ApiError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(client.PARALLEL) as pool:
        return list(pool.map(sent, pods))


def is_decided(answer: Json | ApiError) -> bool:
    """Tell whether the Pod carries a decision of ours: a forged one has no id that reads like a uid."""
    if isinstance(answer, ApiError) or DECISION not in answer["metadata"].get("annotations", {}):
        return False
    return len((decision(answer) or {})["id"]) == 36


def must_be_decided(pod: Json) -> bool:
    """Tell whether nothing about the Pod's nature keeps it from being ours."""
    metadata, spec = pod["metadata"], pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return not (
        metadata.get("annotations", {}).get("trimtab.dev/skip") == "true"
        or any(owner["kind"] == "DaemonSet" for owner in metadata.get("ownerReferences", ()))
        or spec.get("schedulingGates")
        or spec.get("schedulerName", "default-scheduler") != "default-scheduler"
        # Whether only one node is named is a finer question than this test asks.
        or any(key in json.dumps(affinity.get(REQUIRED)) for key in HOSTS)
    )


def check_kept(plain: Json, patched: Json) -> None:
    """Hold both stored Pods against each other, less what is ours and what no two Pods share."""
    own = terms(plain)
    assert terms(patched)[: len(own)] == own
    assert rest(patched) == rest(plain)


def rest(pod: Json) -> Json:
    other: Json = json.loads(re.sub(r"kube-api-access-\w{5}", "kube-api-access", json.dumps(pod)))
    metadata, spec = other["metadata"], other["spec"]
    for field in ("name", "uid", "namespace", "creationTimestamp", "managedFields"):
        metadata.pop(field, None)
    other.pop("status")  # of the moment
    written = metadata.pop("annotations", {})
    metadata["annotations"] = {
        key: text for key, text in written.items() if not key.startswith("trimtab.dev/") or key in INPUTS
    }
    affinity = spec.get("affinity", {})
    affinity.get("nodeAffinity", {}).pop(PREFERRED, None)
    # An empty parent says the same as none.
    if not affinity.get("nodeAffinity"):
        affinity.pop("nodeAffinity", None)
    if not affinity:
        spec.pop("affinity", None)
    return other
