"""Pods for property tests: `valid_pods` that the API server accepts, `any_pods` that nobody should send."""

import copy
from typing import Any

from hypothesis import strategies as st

from tests.builders import (
    Json,
    make_container,
    make_owner,
    make_pod,
    make_requirement,
    make_term,
)
from webhook import kube

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFIX = "trimtab.dev/"

KEYS = ("disk", "size", "team.example/tier", kube.ZONE)
VALUES = ("ssd", "hdd", "a", "b", "4", "x-y_z.0", "")
CPU = ("0", "100m", "0.5", "1", "250m", "1500m")
MEMORY = ("0", "64Mi", "200Mi", "1Gi", "128974848", "1e8")

label_keys = st.sampled_from(("app", "pod-template-hash", "team.example/name", "a.b-c/d_e.f"))
labels = st.dictionaries(label_keys, st.sampled_from(VALUES), max_size=3)
words = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)
numbers = st.integers(0, 20).map(str)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a value, or `...` for a field that is left out."""
    return st.just(...) | values


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """Return a mapping of those fields that are not `...`."""
    return st.fixed_dictionaries({}, optional=fields).map(
        lambda drawn: {key: value for key, value in drawn.items() if value is not ...}
    )


# Annotations: the author's own, inputs, and outputs of ours that somebody forged.
names = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?", fullmatch=True)
annotation_keys = st.one_of(
    st.sampled_from(("team", "example.com/note", "trimtab.devious/x")),
    st.sampled_from(("decision", "score", "near", "expected-cpu", "skip")).map(PREFIX.__add__),
    names.map(PREFIX.__add__),
)
decisions = st.sampled_from(
    (
        "",
        "steered",
        "{}",
        "null",
        '{"id":"x","outcome":"steered","policy":"p","hash":"h","time":"t","nodes":{},"digest":"0123456789abcdef"}',
    )
)
annotations = st.dictionaries(
    annotation_keys, decisions | st.sampled_from(("true", "false")) | st.text(max_size=20), max_size=5
)


# Resources and containers.
def requests(cpu: tuple[str, ...] = CPU) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(cpu),
            "memory": st.sampled_from(MEMORY),
            "ephemeral-storage": st.sampled_from(("0", "1Gi")),
        },
    )


def ports(name: str) -> st.SearchStrategy[list[Json]]:
    """Return a host port; the API server takes none that two containers of a Pod have."""
    number = 8000 + sum(map(ord, name))
    return some(
        protocol=optional(st.sampled_from(("TCP", "UDP"))), hostIP=optional(st.sampled_from(("", "10.0.0.1")))
    ).map(lambda port: [{"containerPort": number, "hostPort": number, **port}])


@st.composite
def containers(draw: st.DrawFn, name: str) -> Json:
    """Return a container whose limits are at least its requests, extended resources included."""
    fields: Json = draw(
        some(
            env=optional(st.lists(words.map(lambda name: {"name": name, "value": "x"}), max_size=2)),
            args=optional(st.lists(st.text(max_size=5), max_size=2)),
            ports=optional(st.just([{"containerPort": 8080}]) | ports(name)),
            securityContext=optional(st.just({"runAsNonRoot": True})),
        )
    )
    container = make_container(name, requests=draw(requests()), **fields)
    if draw(st.booleans()):
        container.setdefault("resources", {})["limits"] = {"cpu": "2", "memory": "4Gi"}
    if draw(st.integers(0, 15)) == 0:
        resources = container.setdefault("resources", {})
        resources["requests"] = {**resources.get("requests", {}), "example.com/gpu": "1"}
        resources["limits"] = {**resources.get("limits", {}), "example.com/gpu": "1"}
    return container


@st.composite
def init_containers(draw: st.DrawFn) -> list[Json]:
    result = []
    for number in range(draw(st.integers(0, 3))):
        container = draw(containers(f"init-{number}"))
        if draw(st.booleans()):
            container["restartPolicy"] = "Always"
        result.append(container)
    return result


# Node affinity.
@st.composite
def requirements(draw: st.DrawFn, *, hosts: bool = False) -> Json:
    key = draw(st.sampled_from((*KEYS, kube.HOSTNAME) if hosts else KEYS))
    operator = draw(st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")))
    if operator in ("In", "NotIn"):
        values = draw(st.lists(st.sampled_from((*VALUES, "n1", "n2")), min_size=1, max_size=3))
        return make_requirement(key, operator, *values)
    return make_requirement(key, operator, *([draw(numbers)] if operator in ("Gt", "Lt") else []))


@st.composite
def terms(draw: st.DrawFn, *, hosts: bool = False) -> Json:
    expressions = draw(st.lists(requirements(hosts=hosts), max_size=3))
    fields = []
    if hosts and draw(st.integers(0, 4)) == 0:
        operator, name = draw(st.sampled_from(("In", "NotIn"))), draw(st.sampled_from(("n1", "n9")))
        fields = [make_requirement("metadata.name", operator, name)]
    return make_term(*expressions, fields=fields)


@st.composite
def preferred(draw: st.DrawFn) -> list[Json]:
    hosts = draw(st.integers(0, 3)) == 0
    weights = draw(st.lists(st.sampled_from((1, 2, 10, 50, 99, 100)) | st.integers(1, 100), max_size=4))
    return [{"weight": weight, "preference": draw(terms(hosts=hosts))} for weight in weights]


# What an API server takes at each level of affinity: nothing, null, empty, or something.
selectors: st.SearchStrategy[Json] = st.just({}) | st.one_of(
    st.just({"matchLabels": {"app": "a"}}),
    st.sampled_from(("In", "NotIn")).map(
        lambda operator: {"matchExpressions": [make_requirement("app", operator, "a", "4")]}
    ),
    st.sampled_from(("Exists", "DoesNotExist")).map(
        lambda operator: {"matchExpressions": [make_requirement("app", operator)]}
    ),
)
label_key_lists = st.sampled_from(([], ["pod-template-hash"], ["team.example/name", "pod-template-hash"]))


@st.composite
def pod_terms(draw: st.DrawFn) -> Json:
    term: Json = {"topologyKey": draw(st.sampled_from((kube.HOSTNAME, kube.ZONE, "disk")))}
    term |= draw(
        some(
            namespaces=optional(st.sampled_from(([], ["shop"], ["shop", "ops"]))),
            namespaceSelector=optional(st.none() | selectors),
        )
    )
    if draw(st.integers(0, 7)):
        term["labelSelector"] = draw(selectors)
        # Such a key may be in one of the lists, and not in the selector.
        keys = draw(
            some(matchLabelKeys=optional(label_key_lists), mismatchLabelKeys=optional(label_key_lists))
        )
        term |= dict(list(keys.items())[:1])
    return term


pod_affinity = some(
    **{
        PREFERRED: optional(
            st.none()
            | st.lists(pod_terms(), max_size=2).map(
                lambda found: [{"weight": 50, "podAffinityTerm": term} for term in found]
            )
        ),
        REQUIRED: optional(st.none() | st.lists(pod_terms(), max_size=2)),
    }
)
node_affinity = some(
    **{
        PREFERRED: optional(st.none() | st.just([]) | preferred()),
        REQUIRED: optional(
            st.none()
            | st.lists(terms(hosts=True), min_size=1, max_size=3).map(
                lambda found: {"nodeSelectorTerms": found}
            )
        ),
    }
)
affinities = st.none() | some(
    nodeAffinity=optional(st.none() | st.just({}) | node_affinity),
    podAffinity=optional(st.none() | pod_affinity),
    podAntiAffinity=optional(st.none() | pod_affinity),
)


@st.composite
def tolerations(draw: st.DrawFn) -> Json:
    effect = draw(st.sampled_from(("", "NoSchedule", "PreferNoSchedule", "NoExecute")))
    result: Json = {"effect": effect} if effect else {}
    if draw(st.booleans()):
        result["operator"] = "Exists"
        if draw(st.booleans()):
            result["key"] = draw(st.sampled_from(("team", "node.kubernetes.io/unschedulable")))
    else:
        result |= {"key": "team", "operator": "Equal", "value": draw(st.sampled_from(("data", "web")))}
    if effect == "NoExecute" and draw(st.booleans()):
        result["tolerationSeconds"] = draw(st.integers(0, 600))
    return result


@st.composite
def constraints(draw: st.DrawFn, key: str, action: str) -> Json:
    policies = st.sampled_from(("Honor", "Ignore"))
    fields: Json = draw(
        some(
            labelSelector=optional(st.none() | selectors),
            nodeAffinityPolicy=optional(policies),
            nodeTaintsPolicy=optional(policies),
            **({"minDomains": optional(st.integers(1, 3))} if action == "DoNotSchedule" else {}),
        )
    )
    if fields.get("labelSelector") is not None:
        fields |= draw(some(matchLabelKeys=optional(label_key_lists)))
    return {"maxSkew": draw(st.integers(1, 3)), "topologyKey": key, "whenUnsatisfiable": action, **fields}


spread = st.lists(
    st.tuples(
        st.sampled_from((kube.HOSTNAME, kube.ZONE)), st.sampled_from(("DoNotSchedule", "ScheduleAnyway"))
    ),
    max_size=3,
    unique=True,
).flatmap(lambda pairs: st.tuples(*(constraints(key, action) for key, action in pairs)).map(list))

SPEC: dict[str, st.SearchStrategy[Any]] = {
    "initContainers": init_containers(),
    "affinity": affinities,
    "tolerations": st.lists(tolerations(), max_size=3),
    "nodeSelector": st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2),
    "topologySpreadConstraints": spread,
    # No less than the sum of what the containers can request: six, each as much as its limits.
    "resources": st.just({"requests": {"cpu": "12", "memory": "24Gi"}}),
    "schedulingGates": st.just([]) | st.just([{"name": "example.com/wait"}]),
    "schedulerName": st.sampled_from(("default-scheduler", "packer")),
    "terminationGracePeriodSeconds": st.integers(0, 60),
    "volumes": st.lists(st.sampled_from(("in-a", "pending", "unknown")), max_size=3, unique=True).map(
        lambda claims: [
            {"name": "scratch", "emptyDir": {}},
            *({"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims),
        ]
    ),
    "hostname": st.just("web"),
    "restartPolicy": st.sampled_from(("Always", "OnFailure", "Never")),
}


@st.composite
def valid_pods(draw: st.DrawFn) -> Json:
    """Return a Pod as its author would send it, that the API server accepts: every optional field."""
    spec = draw(some(**{name: optional(values) for name, values in SPEC.items()}))
    spec["containers"] = [draw(containers(f"c{number}")) for number in range(draw(st.integers(1, 3)))]
    # Most Pods are to be steered: what would keep them from it is rarer than the rest.
    for name in ("schedulingGates", "schedulerName", "nodeSelector"):
        if draw(st.integers(0, 3)):
            spec.pop(name, None)
    inner = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    if draw(st.integers(0, 2)):
        inner.pop(REQUIRED, None)
    near = (spec.get("affinity") or {}).get("podAffinity") or {}
    if draw(st.integers(0, 2)):
        near.pop(REQUIRED, None)
    metadata: Json = draw(some(labels=optional(labels), annotations=optional(annotations)))
    if draw(st.integers(0, 3)) == 0:
        owner = draw(st.sampled_from(("ReplicaSet", "Job", "StatefulSet", "DaemonSet")))
        metadata["ownerReferences"] = [make_owner(owner)]
    return make_pod(metadata=metadata, **spec)


# Hostile Pods: a valid one with a few places overwritten by something odd.
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
quantities = st.sampled_from(("9E", "-1", "lots", "1e400", "0.0000001", "", 1, 0.5, None, True))
wide_annotations = st.dictionaries(
    st.text(max_size=12) | st.text(max_size=12).map(PREFIX.__add__),
    st.text(max_size=12) | decisions,
    max_size=6,
)
wild_selectors = st.none() | some(
    matchLabels=optional(st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)),
    matchExpressions=optional(
        st.lists(
            st.fixed_dictionaries(
                {
                    "key": st.sampled_from(("app", "", "?")),
                    "operator": st.sampled_from(("In", "Exists", "Gt", "in", "")),
                    "values": st.none() | st.lists(st.text(max_size=3), max_size=2),
                }
            ),
            max_size=3,
        )
    ),
)
# Terms and constraints alike, with what an API server refuses in them.
wild_terms = some(
    topologyKey=optional(st.none() | st.sampled_from(("", "disk", kube.ZONE))),
    labelSelector=optional(wild_selectors),
    namespaceSelector=optional(wild_selectors),
    namespaces=optional(st.none() | st.lists(st.sampled_from(("", "shop", "?")), max_size=3)),
    matchLabelKeys=optional(st.none() | st.lists(st.sampled_from(("", "app")), max_size=2)),
    maxSkew=optional(st.none() | st.integers(-(2**40), 2**40)),
    minDomains=optional(st.none() | st.integers(-(2**40), 2**40)),
    whenUnsatisfiable=optional(st.none() | st.sampled_from(("DoNotSchedule", "?"))),
    nodeAffinityPolicy=optional(st.none() | st.sampled_from(("Honor", "?"))),
)
PLACES: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("metadata",): json_values,
    ("metadata", "annotations"): wide_annotations | json_values,
    ("metadata", "labels"): json_values,
    ("metadata", "ownerReferences"): json_values,
    ("metadata", "futureMark"): json_values,
    ("spec",): json_values,
    ("spec", "affinity"): json_values,
    ("spec", "affinity", "futureAffinity"): json_values,
    ("spec", "affinity", "nodeAffinity"): json_values,
    ("spec", "affinity", "nodeAffinity", "futureTerms"): json_values,
    ("spec", "affinity", "nodeAffinity", PREFERRED): json_values
    | st.lists(
        st.fixed_dictionaries(
            {"weight": st.integers(-1, 102) | st.just(50.0), "preference": terms(hosts=True)}
        ),
        max_size=30,
    ),
    ("spec", "affinity", "nodeAffinity", REQUIRED): json_values
    | st.fixed_dictionaries({"nodeSelectorTerms": st.lists(terms(hosts=True), max_size=3) | json_values}),
    ("spec", "affinity", "podAffinity"): json_values,
    ("spec", "affinity", "podAntiAffinity", REQUIRED): st.lists(wild_terms, max_size=40) | json_values,
    ("spec", "topologySpreadConstraints"): st.lists(wild_terms, max_size=40) | json_values,
    ("spec", "volumes"): st.lists(
        st.fixed_dictionaries(
            {
                "persistentVolumeClaim": st.none()
                | st.dictionaries(st.just("claimName"), st.none() | st.text())
            }
        )
    )
    | json_values,
    ("spec", "containers"): json_values,
    ("spec", "initContainers"): json_values,
    ("spec", "overhead"): st.dictionaries(st.sampled_from(("cpu", "memory", "a.b/c")), quantities)
    | json_values,
    ("spec", "resources"): st.fixed_dictionaries(
        {"requests": st.dictionaries(st.sampled_from(("cpu", "memory", "hugepages-2Mi")), quantities)}
    )
    | json_values,
    ("spec", "nodeSelector"): st.dictionaries(st.text(max_size=5), st.text(max_size=5)) | json_values,
    ("spec", "tolerations"): st.lists(
        st.dictionaries(st.sampled_from(("key", "operator", "value", "effect")), st.text(max_size=5))
    )
    | json_values,
    ("spec", "schedulingGates"): json_values,
    ("spec", "nodeName"): st.sampled_from(("", "n1")) | json_values,
    ("spec", "priority"): json_values,
    ("spec", "preemptionPolicy"): json_values,
    ("spec", "priorityClassName"): json_values,
    ("spec", "futureKnob"): json_values,
    ("status",): json_values,
}
HARMLESS = (
    ("metadata", "annotations"),
    ("metadata", "futureMark"),
    ("spec", "affinity", "futureAffinity"),
    ("spec", "affinity", "nodeAffinity", "futureTerms"),
    ("spec", "priority"),
    ("spec", "preemptionPolicy"),
    ("spec", "futureKnob"),
)


def overwritten(place: tuple[str, ...]) -> st.SearchStrategy[tuple[tuple[str, ...], Any]]:
    # Null is what every level may be; what is odd in more than type is mostly unreadable, so it is rarer.
    odd = wide_annotations if place[-1] == "annotations" else PLACES[place]
    return st.tuples(st.just(place), st.none() | odd)


changes = st.one_of(
    st.sampled_from(HARMLESS).flatmap(overwritten),
    st.sampled_from(HARMLESS).flatmap(overwritten),
    st.sampled_from(tuple(PLACES)).flatmap(overwritten),
)


@st.composite
def any_pods(draw: st.DrawFn) -> Json:
    """Return a Pod with places overwritten: odd types, nulls, hostile texts, unknown fields."""
    pod: Json = copy.deepcopy(draw(valid_pods()))
    for place, value in draw(st.lists(changes, min_size=1, max_size=3)):
        parent: Any = pod
        for step in place[:-1]:
            parent = parent.get(step) if isinstance(parent, dict) else None
        if isinstance(parent, dict):
            parent[place[-1]] = value
    return pod
