"""Seeded generator of Pods, as the API server gives them to a webhook: valid and with its defaults filled in.

A Pod is built from topics, each about one predicate, so that any mix of them can be asked for.
"""

import copy
from collections.abc import Callable, Mapping
from random import Random

from . import placement
from .placement import PREFERRED, REQUIRED
from .vocabulary import APPS, CPU, FPGA, GPU, MEMORY, NAMESPACES, PORTS, TIERS, Json, chance, some

OWNER_LABEL = "owner"


def make(rng: Random, name: str, topics: Mapping[str, float]) -> Json:
    """Return a Pod that speaks of each topic with the probability given."""
    pod: Json = {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": rng.choice(("shop", "shop", *NAMESPACES)),
            "labels": {"app": rng.choice(APPS), "tier": rng.choice(TIERS), "hash": rng.choice("12")},
        },
        "spec": {"containers": [_container(rng, f"c{number}") for number in range(rng.choice((1, 1, 2)))]},
    }
    for topic, share in topics.items():
        if chance(rng, share):
            TOPICS[topic](rng, pod)
    if chance(rng, 0.03) and "ownerReferences" not in pod["metadata"]:
        del pod["metadata"]["labels"]
    return pod


def as_stored(pod: Json) -> Json:
    """Return the Pod as the API server stores it: its affinity terms' label keys merged into the selectors.

    pkg/registry/core/pod/strategy.go, applyMatchLabelKeysAndMismatchLabelKeys: that happens after admission.
    """
    if "affinity" not in pod["spec"]:
        return pod
    stored: Json = copy.deepcopy(pod)
    labels = pod["metadata"].get("labels", {})
    affinity = stored["spec"]["affinity"]
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind, {})
        weighted = [term["podAffinityTerm"] for term in terms.get(PREFERRED, ())]
        for term in [*terms.get(REQUIRED, ()), *weighted]:
            for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
                for key in term.get(field, ()):
                    if key in labels and term.get("labelSelector") is not None:
                        expression = {"key": key, "operator": operator, "values": [labels[key]]}
                        term["labelSelector"].setdefault("matchExpressions", []).append(expression)
    return stored


# Resources


def _container(rng: Random, name: str) -> Json:
    requests: Json = {}
    if chance(rng, 0.8):
        requests["cpu"] = rng.choice(CPU)
    if chance(rng, 0.8):
        requests["memory"] = rng.choice(MEMORY)
    if chance(rng, 0.03):
        requests[GPU] = "1"
    return {"name": name, "image": "app:1", **({"resources": {"requests": requests}} if requests else {})}


def _demanding(rng: Random, pod: Json) -> None:
    """Ask for much of one resource, so that some nodes are too small."""
    container = pod["spec"]["containers"][0]
    requests = container.setdefault("resources", {}).setdefault("requests", {})
    resource, amounts = rng.choice(
        (
            ("cpu", ("2", "3", "4500m", "8")),
            ("memory", ("4Gi", "6000Mi", "12Gi")),
            ("ephemeral-storage", ("1Gi", "8Gi", "9.5Gi")),
            (GPU, ("1", "2", "4")),
            (FPGA, ("0", "1")),
            ("hugepages-2Mi", ("4Mi", "64Mi")),
        )
    )
    requests[resource] = rng.choice(amounts)


def _structured(rng: Random, pod: Json) -> None:
    """Add init containers, sidecars, overhead and Pod-level requests."""
    spec = pod["spec"]
    inits = [_container(rng, f"i{number}") for number in range(rng.randint(0, 3))]
    for container in inits:
        if chance(rng, 0.5):
            container["restartPolicy"] = "Always"
    if inits:
        spec["initContainers"] = inits
    if chance(rng, 0.3):
        spec["overhead"] = {"cpu": "50m", "memory": "100Mi"}
    if chance(rng, 0.3):
        # No less than the containers can ask for together.
        both = {"cpu": "7", "memory": "12Gi"}
        spec["resources"] = {"requests": {key: both[key] for key in some(rng, tuple(both), 2)}}


def _resized(rng: Random, pod: Json) -> None:
    """Let a bound Pod be on its way from other requests, as its kubelet reports it."""

    def status(container: Json) -> Json:
        asked = container.get("resources", {}).get("requests", {})
        # Mostly what is asked for; a kubelet that knows no resizing says nothing.
        given = asked if chance(rng, 0.5) else _container(rng, "").get("resources", {}).get("requests", {})
        used = given if chance(rng, 0.5) else _container(rng, "").get("resources", {}).get("requests", {})
        reported: Json = {"name": container["name"]}
        if chance(rng, 0.9):
            reported |= {"resources": {"requests": used}, "allocatedResources": given}
        return reported

    spec, status_of = pod["spec"], pod.setdefault("status", {})
    status_of["containerStatuses"] = [status(container) for container in spec["containers"]]
    status_of["initContainerStatuses"] = [status(container) for container in spec.get("initContainers", ())]
    if "resources" in spec and chance(rng, 0.7):
        amounts = {"cpu": rng.choice(("1", "9")), "memory": rng.choice(("1Gi", "13Gi"))}
        status_of |= {"resources": {"requests": amounts}, "allocatedResources": amounts}
    if chance(rng, 0.5):
        reason = rng.choice(("Infeasible", "Deferred"))
        status_of["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]


def _ports(rng: Random, pod: Json) -> None:
    container = rng.choice([*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())])
    container["ports"] = [
        {
            "containerPort": port,
            "protocol": rng.choice(("TCP", "TCP", "UDP")),
            **({"hostPort": port} if chance(rng, 0.8) else {}),
            **({"hostIP": rng.choice(("0.0.0.0", "10.0.0.1", "10.0.0.2"))} if chance(rng, 0.4) else {}),
        }
        for port in some(rng, PORTS, 2)
    ]


def _owned(rng: Random, pod: Json) -> None:
    """Give the Pod a controller, which selects it by a label that its Pods alone have."""
    kind = rng.choice(("ReplicaSet", "ReplicaSet", "StatefulSet", "Job"))
    name = f"{kind.lower()}-{rng.choice(APPS)}"
    pod["metadata"]["labels"][OWNER_LABEL] = name
    version = "batch/v1" if kind == "Job" else "apps/v1"
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]


TOPICS: Mapping[str, Callable[[Random, Json], None]] = {
    "demanding": _demanding,
    "structured": _structured,
    "resized": _resized,
    "ports": _ports,
    "tolerations": placement.tolerations,
    "nodeSelector": placement.node_selector,
    "nodeAffinity": placement.node_affinity,
    "preferredNodes": placement.preferred_nodes,
    "podAffinity": placement.pod_affinity,
    "podAntiAffinity": placement.pod_anti_affinity,
    "spread": placement.spread,
    "softSpread": placement.soft_spread,
    "owned": _owned,
}
