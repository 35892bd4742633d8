"""The JSON Patch for a Pod: build the operations, and check that they apply. No I/O here.

The only writer of Pod shape. The API server refuses a Pod whose patch cannot be applied, whatever the
failure policy says. So every operation adds below the deepest parent that is there, and `problem` looks
at each once more.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from webhook import decision, kube
from webhook.planner import MAX_TERMS, Plan

Operation = dict[str, Any]

MAX_PATCH_BYTES = 16 * 1024
# apimachinery pkg/api/validation/objectmeta.go: TotalAnnotationSizeLimitB.
MAX_ANNOTATIONS_BYTES = 256 * 1024

_ANNOTATIONS = "/metadata/annotations"
_AFFINITY = "/spec/affinity"
_NODE_AFFINITY = _AFFINITY + "/nodeAffinity"
_FIELD = "preferredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = f"{_NODE_AFFINITY}/{_FIELD}"


def terms(plan: Plan) -> list[dict[str, Any]]:
    """Return the plan as preferred scheduling terms: one a tier, and the baseline where it has one."""
    result = [
        _term(tier.weight, {"key": kube.HOSTNAME, "operator": "In", "values": list(tier.hostnames)})
        for tier in plan.tiers
    ]
    if plan.baseline:
        result.append(_term(plan.baseline, {"key": kube.HOSTNAME, "operator": "Exists"}))
    return result


def _term(weight: int, expression: dict[str, Any]) -> dict[str, Any]:
    return {"weight": weight, "preference": {"matchExpressions": [expression]}}


def inject(pod: kube.Pod, new: Sequence[dict[str, Any]]) -> list[Operation]:
    """Append preferred terms after the user's own, below the deepest parent that exists."""
    affinity = pod.spec.affinity
    if affinity is None:
        return [_add(_AFFINITY, {"nodeAffinity": {_FIELD: list(new)}})]
    if affinity.node_affinity is None:
        return [_add(_NODE_AFFINITY, {_FIELD: list(new)})]
    if affinity.node_affinity.preferred is None:
        return [_add(_PREFERRED, list(new))]
    return [_add(f"{_PREFERRED}/-", term) for term in new]


def annotate(pod: kube.Pod, value: str) -> list[Operation]:
    """Set the decision annotation; nothing where the annotations would pass the API server's limit."""
    known = pod.metadata.annotations
    kept = {key: text for key, text in (known or {}).items() if not _is_output(key)}
    size = sum(len(key.encode()) + len(text.encode()) for key, text in kept.items())
    if size + len(decision.DECISION) + len(value.encode()) > MAX_ANNOTATIONS_BYTES:
        return []
    if known is None:
        return [_add(_ANNOTATIONS, {decision.DECISION: value})]
    return [_add(_pointer(decision.DECISION), value)]


def clean(pod: kube.Pod, *, keep: str | None = None) -> list[Operation]:
    """Remove every annotation under our prefix that is no input: its author forged it."""
    return [
        {"op": "remove", "path": _pointer(key)}
        for key in pod.metadata.annotations or {}
        if _is_output(key) and key != keep
    ]


def encode(operations: Sequence[Operation]) -> bytes:
    return msgspec.json.encode(operations)


def problem(operations: Sequence[Operation], encoded: bytes, pod: kube.Pod) -> str | None:
    """Say why these operations must not be sent, or None.

    Walks the touched paths only: parents exist, what is removed exists, types and bounds are right,
    caps are kept. The property tests prove it as sure as applying the patch.
    """
    removed = [operation["path"] for operation in operations if operation["op"] == "remove"]
    # Removals are as many as the author's own annotations; the cap is for what is added.
    if len(encoded) > MAX_PATCH_BYTES + sum(len(path) + 32 for path in removed):
        return f"the patch has {len(encoded)} bytes, over {MAX_PATCH_BYTES}"
    outputs = {_pointer(key) for key in pod.metadata.annotations or {} if _is_output(key)}
    touched = [operation["path"] for operation in operations if not operation["path"].endswith("/-")]
    if len(set(touched)) < len(touched):
        return "a path is touched twice"
    found = (_problem(operation, pod, outputs) for operation in operations)
    if text := next((text for text in found if text), None):
        return text
    weights = [term for operation in operations for term in _terms_in(operation)]
    if len(weights) > MAX_TERMS:
        return f"the patch has {len(weights)} terms, over {MAX_TERMS}"
    return next(filter(None, map(_bad_term, weights)), None)


def _problem(operation: Operation, pod: kube.Pod, outputs: set[str]) -> str | None:
    path, value = operation["path"], operation.get("value")
    annotations, affinity = pod.metadata.annotations, pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity else None
    if operation["op"] == "remove":
        return None if path in outputs else f"{path} is removed but absent, or not ours"
    places: Mapping[str, bool] = {
        _ANNOTATIONS: annotations is None and _is_decision(value),
        _pointer(decision.DECISION): annotations is not None and isinstance(value, str),
        _AFFINITY: affinity is None
        and isinstance(value, dict)
        and value.keys() == {"nodeAffinity"}
        and _is_preference(value["nodeAffinity"]),
        _NODE_AFFINITY: affinity is not None and node_affinity is None and _is_preference(value),
        _PREFERRED: node_affinity is not None and node_affinity.preferred is None and isinstance(value, list),
        f"{_PREFERRED}/-": node_affinity is not None
        and node_affinity.preferred is not None
        and isinstance(value, dict),
    }
    return None if operation["op"] == "add" and places.get(path) else f"{path} cannot be added there"


def _is_decision(value: object) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {decision.DECISION}
        and isinstance(value[decision.DECISION], str)
    )


def _is_preference(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {_FIELD} and isinstance(value[_FIELD], list)


def _terms_in(operation: Operation) -> list[dict[str, Any]]:
    path, value = operation["path"], operation.get("value")
    if path == _AFFINITY and isinstance(value, dict):
        return list(value["nodeAffinity"][_FIELD])
    if path == _NODE_AFFINITY and isinstance(value, dict):
        return list(value[_FIELD])
    if path == _PREFERRED and isinstance(value, list):
        return value
    return [value] if path == f"{_PREFERRED}/-" and isinstance(value, dict) else []


def _bad_term(term: dict[str, Any]) -> str | None:
    weight = term["weight"]
    if type(weight) is not int or not 1 <= weight <= 100:
        return f"weight: expected an integer from 1 to 100, found {weight!r}"
    return None


def _add(path: str, value: object) -> Operation:
    return {"op": "add", "path": path, "value": value}


def _is_output(key: str) -> bool:
    return key.startswith(decision.PREFIX) and key not in decision.INPUTS


def _pointer(key: str) -> str:
    return f"{_ANNOTATIONS}/{key.replace('~', '~0').replace('/', '~1')}"
