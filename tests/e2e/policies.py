"""Policies in the ConfigMap while Trimtab runs, and what it decides under them."""

import json
from pathlib import Path

from ..builders import make_pod
from ..cluster import waiting
from ..cluster.control_plane import ControlPlane
from ..cluster.trimtab import NAMESPACE
from .bursts import STEERED
from .conftest import WITHIN_S, Json, create, decision

CONFIG_MAP = f"/api/v1/namespaces/{NAMESPACE}/configmaps/scoring-policy"
MANIFESTS = Path(__file__).parents[2] / "manifests"


def write(plane: ControlPlane, name: str, **sections: object) -> None:
    """Put a policy into the ConfigMap, which is made where it is missing."""
    plane.kubectl("apply", "-f", str(MANIFESTS / "policy.yaml"))
    document = {
        "apiVersion": "trimtab.dev/v1alpha1",
        "kind": "ScoringPolicy",
        "metadata": {"name": name},
        **sections,
    }
    plane.request("PATCH", CONFIG_MAP, {"data": {"policy.yaml": json.dumps(document)}})


def remove(plane: ControlPlane) -> None:
    """Take it away, as after the installation, and wait until the built-in one is in force."""
    plane.request("PATCH", CONFIG_MAP, {"data": None})
    wait_for(plane, "built-in")


def wait_for(plane: ControlPlane, name: str) -> None:
    waiting.until(lambda: decided_now(plane)["policy"] == name, f"policy {name} in force", timeout_s=WITHIN_S)


def decided_now(plane: ControlPlane) -> Json:
    """Return the decision for a Pod that asks for next to nothing; there must be one."""
    found = decision(create(plane, make_pod(namespace=STEERED, cpu="10m"), dry_run=True))
    assert found is not None
    return found
