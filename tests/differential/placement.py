"""Topics of generated Pods about where they may go: labels, taints, and the Pods that are there."""

from random import Random

from webhook import kube

from .vocabulary import (
    APPS,
    DISKS,
    EFFECTS,
    NAMESPACES,
    RACK,
    SIZES,
    TAINTS,
    TIERS,
    TOPOLOGIES,
    UNSCHEDULABLE,
    ZONES,
    Json,
    chance,
    some,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


# Nodes named by label and taint


def tolerations(rng: Random, pod: Json) -> None:
    def one() -> Json:
        effect = {} if chance(rng, 0.4) else {"effect": rng.choice(EFFECTS)}
        if chance(rng, 0.1):
            return {"operator": "Exists", **effect}
        if chance(rng, 0.2):
            return {"key": UNSCHEDULABLE, "operator": "Exists", **effect}
        key, value = rng.choice(TAINTS)
        if chance(rng, 0.5):
            return {"key": key, "operator": "Exists", **effect}
        operator = {} if chance(rng, 0.5) else {"operator": "Equal"}
        return {"key": key, "value": value, **operator, **effect}

    pod["spec"]["tolerations"] = [one() for _ in range(rng.randint(1, 3))]


def node_selector(rng: Random, pod: Json) -> None:
    choices = ({"disk": rng.choice(DISKS)}, {kube.ZONE: rng.choice(ZONES)}, {"size": rng.choice(SIZES)})
    pod["spec"]["nodeSelector"] = rng.choice(choices)


def node_requirement(rng: Random) -> Json:
    key, values = rng.choice(
        (("disk", DISKS), (kube.ZONE, ZONES), ("size", SIZES), (kube.HOSTNAME, ("n0", "n1", "n2", "n3")))
    )
    operator = rng.choice(("In", "In", "NotIn", "Exists", "DoesNotExist"))
    if key == "size" and chance(rng, 0.5):
        return {"key": key, "operator": rng.choice(("Gt", "Lt")), "values": [rng.choice(("3", "7", "10"))]}
    if operator in ("In", "NotIn"):
        return {"key": key, "operator": operator, "values": some(rng, values, 2)}
    return {"key": key, "operator": operator}


def _node_term(rng: Random) -> Json:
    term: Json = {}
    if chance(rng, 0.9):
        term["matchExpressions"] = [node_requirement(rng) for _ in range(rng.choice((1, 1, 2)))]
    if chance(rng, 0.1):
        operator = rng.choice(("In", "NotIn"))
        name = f"n{rng.randint(0, 6)}"
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    return term


def node_affinity(rng: Random, pod: Json) -> None:
    terms = [_node_term(rng) for _ in range(rng.randint(1, 2))]
    _affinity(pod, "nodeAffinity")[REQUIRED] = {"nodeSelectorTerms": terms}


def preferred_nodes(rng: Random, pod: Json) -> None:
    terms = [
        {"weight": rng.choice((1, 10, 33, 100)), "preference": _node_term(rng)}
        for _ in range(rng.randint(1, 3))
    ]
    _affinity(pod, "nodeAffinity")[PREFERRED] = terms


def _affinity(pod: Json, kind: str) -> Json:
    inner: Json = pod["spec"].setdefault("affinity", {}).setdefault(kind, {})
    return inner


# Other Pods


def _selector(rng: Random) -> Json:
    if chance(rng, 0.05):
        return {}
    if chance(rng, 0.7):
        return {"matchLabels": {"app": rng.choice(APPS)}}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": some(rng, APPS, 2)} if operator in ("In", "NotIn") else {}
    return {
        "matchExpressions": [{"key": "app", "operator": operator, **values}],
        **({"matchLabels": {"tier": rng.choice(TIERS)}} if chance(rng, 0.5) else {}),
    }


def _pod_term(rng: Random, topologies: tuple[str, ...]) -> Json:
    term: Json = {"topologyKey": rng.choice(topologies), "labelSelector": _selector(rng)}
    if chance(rng, 0.05):
        del term["labelSelector"]
    elif chance(rng, 0.2):
        term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["hash"]
    if chance(rng, 0.3):
        term["namespaces"] = some(rng, tuple(NAMESPACES), 2)
    if chance(rng, 0.3):
        term["namespaceSelector"] = rng.choice(
            (
                {},
                {"matchLabels": {"team": "web"}},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
            )
        )
    return term


def pod_affinity(rng: Random, pod: Json) -> None:
    terms = [
        _pod_term(rng, (kube.ZONE, kube.ZONE, RACK, kube.HOSTNAME)) for _ in range(rng.choice((1, 1, 2)))
    ]
    _affinity(pod, "podAffinity")[REQUIRED] = terms


def pod_anti_affinity(rng: Random, pod: Json) -> None:
    terms = [
        _pod_term(rng, (kube.HOSTNAME, kube.HOSTNAME, RACK, kube.ZONE)) for _ in range(rng.choice((1, 1, 2)))
    ]
    _affinity(pod, "podAntiAffinity")[REQUIRED] = terms


def spread(rng: Random, pod: Json) -> None:
    _constrain(rng, pod, ("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"))


def soft_spread(rng: Random, pod: Json) -> None:
    _constrain(rng, pod, ("ScheduleAnyway", "ScheduleAnyway", "ScheduleAnyway", "DoNotSchedule"))


def _constrain(rng: Random, pod: Json, actions: tuple[str, ...]) -> None:
    pod["spec"]["topologySpreadConstraints"] = [
        _constraint(rng, key, rng.choice(actions)) for key in some(rng, TOPOLOGIES, 2)
    ]


def _constraint(rng: Random, key: str, action: str) -> Json:
    constraint: Json = {
        "topologyKey": key,
        "maxSkew": rng.choice((1, 1, 2, 3)),
        "whenUnsatisfiable": action,
        "labelSelector": _selector(rng),
    }
    if chance(rng, 0.05):
        del constraint["labelSelector"]
    elif chance(rng, 0.2):
        constraint["matchLabelKeys"] = ["hash"]
    if action == "DoNotSchedule" and chance(rng, 0.2):
        constraint["minDomains"] = rng.randint(1, 5)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if chance(rng, 0.4):
            constraint[policy] = rng.choice(("Honor", "Ignore"))
    return constraint
