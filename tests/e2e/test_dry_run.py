"""A dry run answers what the real create would get, and leaves nothing behind."""

import json
from typing import Any

import pytest

from ..builders import make_container, make_pod
from ..cluster import waiting
from ..cluster.control_plane import ControlPlane
from ..cluster.trimtab import Trimtab
from .conftest import WITHIN_S, Json, MakeNamespace, decision, reserved, terms

# Between the two creates of one attempt a reading may arrive, and the plan rightly differs.
ATTEMPTS = 5

PODS: dict[str, dict[str, Any]] = {
    "that says nothing": {},
    "with requests": {"containers": [make_container(cpu="500m", memory="1Gi")]},
    "with a preference of its own": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 10,
                        "preference": {
                            "matchExpressions": [
                                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
                            ]
                        },
                    }
                ]
            }
        }
    },
    "in one zone": {"nodeSelector": {"topology.kubernetes.io/zone": "b"}},
}


@pytest.mark.parametrize("name", PODS)
def test_a_dry_run_shows_what_the_real_create_gets(
    name: str, plane: ControlPlane, trimtab: Trimtab, make_namespace: MakeNamespace, no_scheduler: None
) -> None:
    namespace = make_namespace("enabled")
    waiting.until(lambda: reserved(trimtab) == 0, "nothing reserved", timeout_s=WITHIN_S)

    for attempt in range(ATTEMPTS):
        dry = kubectl_create(plane, PODS[name], namespace, "--dry-run=server")
        assert reserved(trimtab) == attempt
        real = kubectl_create(plane, PODS[name], namespace)
        assert reserved(trimtab) == attempt + 1
        assert outcome(dry) == outcome(real) == "steered"
        assert len(terms(dry)) > len(own_terms(PODS[name]))
        if terms(dry) == terms(real):
            return
    pytest.fail(f"{ATTEMPTS} times the real create got other terms than the dry run")


def kubectl_create(plane: ControlPlane, spec: dict[str, Any], namespace: str, *arguments: str) -> Json:
    manifest = json.dumps(make_pod(namespace=namespace, **spec))
    created: Json = json.loads(plane.kubectl("create", "-f", "-", "-o", "json", *arguments, input=manifest))
    return created


def own_terms(spec: dict[str, Any]) -> list[Json]:
    return terms({"spec": spec})


def outcome(pod: Json) -> str:
    return str((decision(pod) or {}).get("outcome"))
