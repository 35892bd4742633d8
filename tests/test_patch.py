"""The operations for every shape of a Pod, and what is refused before the API server would."""

import json
from typing import Any

import numpy as np
import pytest

from tests.builders import (
    Json,
    apply,
    decode_pod,
    make_node_affinity,
    make_pod,
    make_preferred,
    make_requirement,
    make_term,
    preferred_terms,
)
from webhook import decision, kube, patch
from webhook.ledger import Share
from webhook.patch import MAX_ANNOTATIONS_BYTES, MAX_PATCH_BYTES
from webhook.planner import Plan, Tier

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = "/spec/affinity"
NODE_AFFINITY = "/spec/affinity/nodeAffinity"
LIST = f"{NODE_AFFINITY}/{PREFERRED}"
ANNOTATIONS = "/metadata/annotations"
DECISION = f"{ANNOTATIONS}/trimtab.dev~1decision"

FIRST = make_preferred(100, make_requirement(kube.HOSTNAME, "In", "n1"))
SECOND = make_preferred(80, make_requirement(kube.HOSTNAME, "In", "n2", "n3"))
USER = make_preferred(50, make_requirement("disk", "In", "ssd"))
OTHER = make_preferred(40, make_requirement("zone", "In", "a"))
RULE = make_term(make_requirement("disk", "Exists"))
APART = {PREFERRED: [{"weight": 50, "podAffinityTerm": {"topologyKey": kube.HOSTNAME}}]}
ABSENT = object()


def pod_with(affinity: object) -> Json:
    return make_pod() if affinity is ABSENT else make_pod(affinity=affinity)


# The Pod's affinity; where each of the two operations or the only one goes. Ids of cases where there is one.
SHAPES: dict[str, tuple[object, list[str]]] = {
    "affinity absent": (ABSENT, [AFFINITY]),
    "affinity null (shape-affinity-null)": (None, [AFFINITY]),
    "affinity empty (shape-affinity-empty)": ({}, [NODE_AFFINITY]),
    "nodeAffinity null": ({"nodeAffinity": None}, [NODE_AFFINITY]),
    "nodeAffinity empty (shape-nodeaffinity-empty)": ({"nodeAffinity": {}}, [LIST]),
    "the list null (shape-preferred-null)": ({"nodeAffinity": {PREFERRED: None}}, [LIST]),
    "the list empty (shape-preferred-empty-list)": (
        {"nodeAffinity": {PREFERRED: []}},
        [f"{LIST}/-", f"{LIST}/-"],
    ),
    "only podAntiAffinity (shape-only-antiaffinity)": ({"podAntiAffinity": APART}, [NODE_AFFINITY]),
    "podAffinity and nodeAffinity null": ({"podAffinity": APART, "nodeAffinity": None}, [NODE_AFFINITY]),
    "only required terms (aff-user-required-one-term)": (make_node_affinity(required=[RULE]), [LIST]),
    "required without terms (aff-user-required-no-terms)": (make_node_affinity(required=[]), [LIST]),
    "required null": ({"nodeAffinity": {REQUIRED: None}}, [LIST]),
    "the user's terms (aff-user-preferred-strong)": (
        make_node_affinity(preferred=[USER, OTHER], required=[RULE]),
        [f"{LIST}/-", f"{LIST}/-"],
    ),
    "a field of the future": ({"nodeAffinity": {"futureField": [1]}, "futureAffinity": {}}, [LIST]),
}


@pytest.mark.parametrize(("affinity", "paths"), SHAPES.values(), ids=SHAPES.keys())
def test_terms_are_added_below_the_deepest_parent_that_is_there(affinity: object, paths: list[str]) -> None:
    raw = pod_with(affinity)
    pod = decode_pod(raw)

    operations = patch.inject(pod, [FIRST, SECOND])

    assert [(operation["op"], operation["path"]) for operation in operations] == [
        ("add", path) for path in paths
    ]
    assert patch.problem(operations, patch.encode(operations), pod) is None
    patched = apply(operations, raw)
    assert preferred_terms(patched) == [*preferred_terms(raw), FIRST, SECOND]
    assert strip(patched) == strip(raw)


def strip(raw: Json) -> Json:
    """Return the Pod without its preferred terms, nor any level that is empty or null without them."""
    rest: Json = json.loads(json.dumps(raw))
    affinity = rest["spec"].get("affinity") or {}
    (affinity.get("nodeAffinity") or {}).pop(PREFERRED, None)
    if not affinity.get("nodeAffinity"):
        affinity.pop("nodeAffinity", None)
    if not affinity:
        rest["spec"].pop("affinity", None)
    return rest


def test_terms_say_the_tiers_and_then_the_baseline() -> None:
    plan = Plan((Tier(25, ("n1",)), Tier(20, ("n2", "n3"))), 75, Share.of([], []), np.zeros(0), {})

    assert patch.terms(plan) == [
        make_preferred(25, make_requirement(kube.HOSTNAME, "In", "n1")),
        make_preferred(20, make_requirement(kube.HOSTNAME, "In", "n2", "n3")),
        make_preferred(75, make_requirement(kube.HOSTNAME, "Exists")),
    ]


def test_weights_are_written_as_integers() -> None:  # aff-weight-float
    plan = Plan((Tier(33, ("n1",)),), 67, Share.of([], []), np.zeros(0), {})

    encoded = patch.encode(patch.inject(decode_pod(make_pod()), patch.terms(plan)))

    assert b'"weight":33,' in encoded
    assert b'"weight":67,' in encoded


ANNOTATED: dict[str, tuple[object, str]] = {
    "annotations absent": (ABSENT, ANNOTATIONS),
    "annotations null": (None, ANNOTATIONS),
    "annotations empty (shape-annotations-empty-map)": ({}, DECISION),
    "annotations of the user's": ({"team": "a"}, DECISION),
    "a decision that somebody forged": ({"trimtab.dev/decision": "steered", "team": "a"}, DECISION),
}


@pytest.mark.parametrize(("annotations", "path"), ANNOTATED.values(), ids=ANNOTATED.keys())
def test_the_decision_is_set_and_the_users_annotations_stay(annotations: object, path: str) -> None:
    raw = make_pod() if annotations is ABSENT else make_pod(metadata={"annotations": annotations})
    pod = decode_pod(raw)

    operations = patch.annotate(pod, "{}")

    assert [operation["path"] for operation in operations] == [path]
    assert patch.problem(operations, patch.encode(operations), pod) is None
    kept = {} if annotations in (ABSENT, None) else annotations
    assert isinstance(kept, dict)
    assert apply(operations, raw)["metadata"]["annotations"] == {**kept, "trimtab.dev/decision": "{}"}


OURS = len("trimtab.dev/decision") + len("{}")
CAPS: dict[str, tuple[dict[str, str], bool]] = {
    "to the last byte": ({"a": "x" * (MAX_ANNOTATIONS_BYTES - OURS - 1)}, True),
    "a byte too many (audit-near-cap)": ({"a": "x" * (MAX_ANNOTATIONS_BYTES - OURS)}, False),
    "keys count": ({"a" * 100: "x" * (MAX_ANNOTATIONS_BYTES - OURS - 99)}, False),
    "bytes count, not characters": ({"a": "ö" * ((MAX_ANNOTATIONS_BYTES - OURS) // 2 + 1)}, False),
    "the user is over it already (audit-over-cap-already)": ({"a": "x" * (MAX_ANNOTATIONS_BYTES + 1)}, False),
    "what is replaced or removed does not count": (
        {"trimtab.dev/decision": "x" * MAX_ANNOTATIONS_BYTES, "trimtab.dev/forged": "x" * 1000},
        True,
    ),
    "what its author may set does": ({"trimtab.dev/near": "x" * (MAX_ANNOTATIONS_BYTES - OURS)}, False),
}


@pytest.mark.parametrize(("annotations", "want"), CAPS.values(), ids=CAPS.keys())
def test_no_annotation_where_the_api_server_would_refuse_it(
    annotations: dict[str, str], *, want: bool
) -> None:
    assert bool(patch.annotate(decode_pod(make_pod(annotations=annotations)), "{}")) is want


FORGED: dict[str, tuple[dict[str, str], list[str]]] = {
    "none": ({"team": "a"}, []),
    "inputs are the author's to set": (
        {
            "trimtab.dev/skip": "false",
            "trimtab.dev/expected-cpu": "1",
            "trimtab.dev/expected-memory": "1Gi",
            "trimtab.dev/near": "db",
        },
        [],
    ),
    "any other key under the prefix": ({"trimtab.dev/score": "1"}, ["/trimtab.dev~1score"]),
    "the decision": ({"trimtab.dev/decision": "x", "team": "a"}, ["/trimtab.dev~1decision"]),
    "keys that need escaping": (
        {"trimtab.dev/a~b": "1", "trimtab.dev/a/b": "2", "trimtab.dev/a~1b": "3", "trimtab.dev/": "4"},
        ["/trimtab.dev~1a~0b", "/trimtab.dev~1a~1b", "/trimtab.dev~1a~01b", "/trimtab.dev~1"],
    ),
    "a prefix that only begins alike": ({"trimtab.devious/a": "1", "x.trimtab.dev/a": "2"}, []),
    "another case is another prefix": ({"Trimtab.dev/decision": "1"}, []),
}


@pytest.mark.parametrize(("annotations", "paths"), FORGED.values(), ids=FORGED.keys())
def test_forged_outputs_are_removed(annotations: dict[str, str], paths: list[str]) -> None:
    raw = make_pod(annotations=annotations)
    pod = decode_pod(raw)

    operations = patch.clean(pod)

    assert operations == [{"op": "remove", "path": ANNOTATIONS + path} for path in paths]
    assert patch.problem(operations, patch.encode(operations), pod) is None
    left = apply(operations, raw)["metadata"]["annotations"]
    assert len(left) == len(annotations) - len(paths)
    assert left.items() <= annotations.items()


def test_one_key_may_be_kept() -> None:
    pod = decode_pod(make_pod(annotations={"trimtab.dev/decision": "x", "trimtab.dev/y": "z"}))

    assert [operation["path"] for operation in patch.clean(pod, keep=decision.DECISION)] == [
        f"{ANNOTATIONS}/trimtab.dev~1y"
    ]


def test_nothing_is_removed_where_there_are_no_annotations() -> None:
    assert patch.clean(decode_pod(make_pod())) == []
    assert patch.clean(decode_pod(make_pod(metadata={"annotations": None}))) == []


def test_any_number_of_forged_outputs_is_removed() -> None:
    # 256 KiB of annotations hold thousands; they must not keep one of them by being many.
    pod = decode_pod(make_pod(annotations={f"trimtab.dev/forged-{number}": "x" for number in range(3000)}))
    operations = patch.clean(pod)

    assert len(operations) == 3000
    assert patch.problem(operations, patch.encode(operations), pod) is None


def add(path: str, value: object) -> Json:
    return {"op": "add", "path": path, "value": value}


def terms(*weights: object) -> list[Json]:
    return [make_preferred(weight, make_requirement(kube.HOSTNAME, "In", "n1")) for weight in weights]


BARE = make_pod()
EMPTY = make_pod(affinity={}, annotations={})
LISTED = make_pod(
    affinity=make_node_affinity(preferred=[USER]), annotations={"team": "a", "trimtab.dev/x": "y"}
)

BAD: dict[str, tuple[Json, list[Json]]] = {
    "the affinity would be replaced": (EMPTY, [add(AFFINITY, {"nodeAffinity": {PREFERRED: terms(1)}})]),
    "nodeAffinity without its parent": (BARE, [add(NODE_AFFINITY, {PREFERRED: terms(1)})]),
    "nodeAffinity would be replaced": (LISTED, [add(NODE_AFFINITY, {PREFERRED: terms(1)})]),
    "the list without its parent": (EMPTY, [add(LIST, terms(1))]),
    "the list would be replaced": (LISTED, [add(LIST, terms(1))]),
    "appending to a list that is not there": (EMPTY, [add(f"{LIST}/-", terms(1)[0])]),
    "appending something that is no term": (LISTED, [add(f"{LIST}/-", "term")]),
    "appending a list": (LISTED, [add(f"{LIST}/-", terms(1))]),
    "inserting in front of the user's": (LISTED, [add(f"{LIST}/0", terms(1)[0])]),
    "the list as a mapping": (
        make_pod(affinity={"nodeAffinity": {}}),
        [add(LIST, {"0": terms(1)[0]})],
    ),
    "affinity as a list": (BARE, [add(AFFINITY, terms(1))]),
    "affinity without nodeAffinity": (BARE, [add(AFFINITY, {})]),
    "a required term": (EMPTY, [add(NODE_AFFINITY, {REQUIRED: {"nodeSelectorTerms": []}})]),
    "a required term beside preferred ones": (
        EMPTY,
        [add(NODE_AFFINITY, {PREFERRED: terms(1), REQUIRED: {"nodeSelectorTerms": []}})],
    ),
    "a weight with a fraction": (BARE, patch.inject(decode_pod(BARE), terms(50.0))),
    "a weight that is a truth value": (BARE, patch.inject(decode_pod(BARE), terms(*[True]))),
    "a weight of zero": (BARE, patch.inject(decode_pod(BARE), terms(0))),
    "a weight over 100": (BARE, patch.inject(decode_pod(BARE), terms(101))),
    "a weight as a text": (BARE, patch.inject(decode_pod(BARE), terms("50"))),
    "one bad weight among good ones": (LISTED, patch.inject(decode_pod(LISTED), terms(50, 0))),
    "21 terms": (BARE, patch.inject(decode_pod(BARE), terms(*range(1, 22)))),
    "21 terms, one by one": (LISTED, patch.inject(decode_pod(LISTED), terms(*range(1, 22)))),
    "more than 16 KiB": (
        BARE,
        patch.inject(
            decode_pod(BARE),
            [make_preferred(1, make_requirement(kube.HOSTNAME, "In", "x" * MAX_PATCH_BYTES))],
        ),
    ),
    "the annotations would be replaced": (EMPTY, [add(ANNOTATIONS, {"trimtab.dev/decision": "x"})]),
    "an annotation without its parent": (BARE, [add(DECISION, "x")]),
    "an annotation that is no text": (EMPTY, [add(DECISION, 1)]),
    "annotations that hold no texts": (BARE, [add(ANNOTATIONS, {"trimtab.dev/decision": 1})]),
    "an annotation of the user's": (LISTED, [add(f"{ANNOTATIONS}/team", "b")]),
    "annotations beside ours": (BARE, [add(ANNOTATIONS, {"trimtab.dev/decision": "x", "team": "b"})]),
    "removing what is not there": (EMPTY, [{"op": "remove", "path": DECISION}]),
    "removing twice": (LISTED, [{"op": "remove", "path": f"{ANNOTATIONS}/trimtab.dev~1x"}] * 2),
    "removing what is the user's": (LISTED, [{"op": "remove", "path": f"{ANNOTATIONS}/team"}]),
    "removing all annotations": (LISTED, [{"op": "remove", "path": ANNOTATIONS}]),
    "removing the affinity": (LISTED, [{"op": "remove", "path": AFFINITY}]),
    "adding the same parent twice": (BARE, patch.inject(decode_pod(BARE), terms(1)) * 2),
    "replace": (LISTED, [{"op": "replace", "path": f"{LIST}/0", "value": terms(1)[0]}]),
    "test": (LISTED, [{"op": "test", "path": f"{LIST}/0", "value": terms(1)[0]}]),
    "move": (LISTED, [{"op": "move", "path": f"{LIST}/-", "from": f"{LIST}/0"}]),
    "another field": (BARE, [add("/spec/nodeName", "n1")]),
    "tolerations": (BARE, [add("/spec/tolerations", [])]),
    "the whole Pod": (BARE, [add("", {})]),
}


@pytest.mark.parametrize(("raw", "operations"), BAD.values(), ids=BAD.keys())
def test_a_patch_that_would_cost_the_pod_its_admission_is_refused(raw: Json, operations: list[Json]) -> None:
    found = patch.problem(operations, patch.encode(operations), decode_pod(raw))

    assert found
    assert "\n" not in found


def test_one_bad_operation_is_found_wherever_it_stands() -> None:
    pod = decode_pod(LISTED)
    good: list[Any] = [*patch.inject(pod, terms(50, 40)), *patch.annotate(pod, "x"), *patch.clean(pod)]
    assert patch.problem(good, patch.encode(good), pod) is None

    for position in range(len(good) + 1):
        mixed = [*good[:position], add("/spec/nodeName", "n1"), *good[position:]]
        assert patch.problem(mixed, patch.encode(mixed), pod)


def test_no_operations_have_no_problem() -> None:
    assert patch.problem([], b"[]", decode_pod(BARE)) is None
