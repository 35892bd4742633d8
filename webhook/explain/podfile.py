"""A Pod in a file, or the template of a workload: what the API server would send of it to a webhook."""

import reprlib
import sys
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from webhook import clusterfile, kube
from webhook.policy import ConfigError, Problem

STDIN = Path("-")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A Pod that is about to be created: the object, what placement reads of it, its namespace.

    `where` is the file and the path of the Pod in it, for messages.
    """

    body: bytes
    pod: kube.Pod
    namespace: str
    where: str


def load(path: Path, namespace: str | None) -> Incoming:
    """Return the one Pod or workload in a JSON or YAML file, `-` for stdin; raise ConfigError.

    Objects of other kinds beside it are passed over. `namespace` is for one that names none.
    """
    where = "stdin" if path == STDIN else str(path)
    try:
        content = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
    except OSError as error:
        raise _bad(where, f"cannot be read: {error.strerror}") from None
    item = _only(where, list(_objects(where, content)))
    own = _mapping(where, item, "metadata").get("namespace")
    if own and namespace and own != namespace:
        raise _bad(f"{where}: metadata.namespace", f"expected {namespace}, as -n says, found {own}")
    known = own or namespace or "default"
    inside, raw = _pod(where, item, known)
    try:
        body = msgspec.json.encode(raw)
        pod: kube.Pod = kube.decoder(kube.Pod).decode(body)
    except (msgspec.MsgspecError, RecursionError, TypeError, ValueError) as error:
        found = clusterfile.problem(inside, error)
        raise _bad(": ".join(filter(None, (where, found.path))), found.message) from None
    return Incoming(body, pod, known, f"{where}: {inside}{inside and '.'}")


def _bad(path: str, message: str) -> ConfigError:
    return ConfigError([Problem(path, message)])


def _objects(where: str, content: bytes) -> Iterator[Any]:
    """Yield every object in the documents, those in Lists too."""
    try:
        if content.lstrip().startswith(b"{"):
            documents = [msgspec.json.decode(content)]
        else:
            documents = list(yaml.load_all(content, Loader=yaml.CSafeLoader))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise _bad(where, f"is neither JSON nor YAML: {line}{error.problem}") from None
    except (yaml.YAMLError, msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise _bad(where, f"is neither JSON nor YAML: {error}") from None
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        if isinstance(items, list):
            yield from items
        elif document is not None:
            yield document


def _only(where: str, items: list[Any]) -> Json:
    """Return the one object that is a Pod or makes Pods."""
    kinds = [str(item.get("kind")) if isinstance(item, dict) else reprlib.repr(item) for item in items]
    found = [number for number, kind in enumerate(kinds) if kind in _PODS]
    if len(found) == 1:
        only: Json = items[found[0]]
        return only
    expected = f"expected one object of kind {', '.join(list(_PODS)[:-1])} or {list(_PODS)[-1]}"
    what = ", ".join(kinds[number] for number in found) or ", ".join(kinds) or "nothing"
    raise _bad(where, f"{expected}, found {what}")


def _pod(where: str, item: Json, namespace: str) -> tuple[str, Json]:
    """Return the Pod of an object, and the path of its template there."""
    kind, path = item["kind"], _PODS[item["kind"]]
    inner = item
    for number, name in enumerate(path):
        inner = _mapping(where, inner, name, path[:number])
    metadata = {**_mapping(where, inner, "metadata", path), "namespace": namespace}
    if path:
        name = _mapping(where, item, "metadata").get("name") or kind.lower()
        # A Deployment's Pods belong to a ReplicaSet, and a CronJob's to a Job, that are yet to be made.
        owner = {"apiVersion": item.get("apiVersion"), "kind": kind, "name": name, "controller": True}
        metadata |= {"generateName": f"{name}-", "ownerReferences": [owner]}
    spec = _with_requests(dict(_mapping(where, inner, "spec", path)))
    return ".".join(path), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _mapping(where: str, item: Json, name: str, above: tuple[str, ...] = ()) -> Json:
    """Return a part of an object; metadata may be absent."""
    value = item.get(name)
    if isinstance(value, dict):
        return value
    if value is None and name == "metadata":
        return {}
    found = "nothing" if value is None else reprlib.repr(value)
    raise _bad(f"{where}: {'.'.join((*above, name))}", f"expected a mapping, found {found}")


def _with_requests(spec: Json) -> Json:
    """Let limits stand in for requests that are absent (pkg/apis/core/v1/defaults.go: SetDefaults_Pod)."""
    named: set[str] = set()
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            spec[field] = [_limited(container) for container in spec[field]]
            named |= {name for container in spec[field] for name in _amounts(container, "requests")}
    limited: Json = _limited(spec, named)
    return limited


def _limited(holder: Any, named: Set[str] = frozenset()) -> Any:
    limits = {name: value for name, value in _amounts(holder, "limits").items() if name not in named}
    if not limits:
        return holder
    resources = holder["resources"]
    return {**holder, "resources": {**resources, "requests": {**limits, **_amounts(holder, "requests")}}}


def _amounts(holder: Any, name: str) -> Mapping[str, Any]:
    resources = holder.get("resources") if isinstance(holder, dict) else None
    amounts = resources.get(name) if isinstance(resources, dict) else None
    return amounts if isinstance(amounts, dict) else {}


# Where each kind holds its Pod.
_TEMPLATE = ("spec", "template")
_PODS: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "Deployment": _TEMPLATE,
    "ReplicaSet": _TEMPLATE,
    "StatefulSet": _TEMPLATE,
    "DaemonSet": _TEMPLATE,
    "Job": _TEMPLATE,
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
}
