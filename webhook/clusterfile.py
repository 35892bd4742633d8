"""A cluster in a file: what `kubectl get nodes,pods -A -o json` prints, and readings. No network here."""

import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Raw, Struct

from webhook import kube, quantity
from webhook.cluster import Cluster
from webhook.expectation import owners
from webhook.policy import ConfigError, Problem
from webhook.usage import metricsapi, podmetrics

_AT = re.compile(r"(?P<what>.*?)(?: - at `\$?\.?(?P<path>.*)`)?")


class _Items(Struct):
    kind: str
    items: list[Raw]


class _Typed(Struct):
    kind: str


def load(path: Path) -> Cluster:
    """Return the cluster in a JSON or YAML file; raise ConfigError with every problem in it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError([Problem(str(path), f"cannot be read: {error.strerror}")]) from None
    listed = _parse(path, content)
    cluster = Cluster()
    problems: list[Problem] = []
    readings: list[tuple[str, kube.NodeMetrics]] = []
    of_pods: list[kube.PodMetrics] = []
    for number, raw in enumerate(listed.items):
        where = f"items[{number}]"
        try:
            kind = msgspec.json.decode(raw, type=_Typed).kind
            take = _KINDS.get(kind)
            if take is None:
                problems.append(
                    Problem(f"{where}.kind", f"expected one of {', '.join(_KINDS)}, found {kind!r}")
                )
                continue
            item = msgspec.json.decode(raw, type=_TYPES[kind])
        except (msgspec.DecodeError, RecursionError) as error:
            problems.append(problem(where, error))
            continue
        bad = [Problem(f"{where}.{path}", text) for path, text in bad_quantities(item)]
        problems += bad
        if bad:
            continue
        if isinstance(item, kube.NodeMetrics):
            readings.append((where, item))
        elif isinstance(item, kube.PodMetrics):
            of_pods.append(item)
        else:
            take(cluster, item)
    problems += _read(cluster, readings)
    for metrics in of_pods:
        said = podmetrics.reading(metrics)
        cluster.pin_pod_usage(metrics.metadata.namespace or "", said.name, said.cpu_milli, said.memory_bytes)
    if problems:
        raise ConfigError(problems)
    cluster.synced = True
    return cluster


def _parse(path: Path, content: bytes) -> _Items:
    """Read the list itself. Anything that does not begin as JSON is taken as YAML, and re-encoded."""
    try:
        if not content.lstrip().startswith(b"{"):
            content = msgspec.json.encode(yaml.load(content, Loader=yaml.CSafeLoader), enc_hook=str)
        return msgspec.json.decode(content, type=_Items)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ConfigError([Problem(str(path), f"is neither JSON nor YAML: {line}{error.problem}")]) from None
    except (yaml.YAMLError, msgspec.MsgspecError, RecursionError, ValueError) as error:
        found = problem(str(path), error)
        raise ConfigError(
            [Problem(found.path, f"expected a List of Kubernetes objects: {found.message}")]
        ) from None


def _read(cluster: Cluster, readings: list[tuple[str, kube.NodeMetrics]]) -> list[Problem]:
    """Take the readings in once every node is there."""
    problems = []
    for where, reading in readings:
        missing = [name for name in (kube.CPU, kube.MEMORY) if name not in reading.usage]
        problems += [Problem(f"{where}.usage.{name}", "missing; expected a quantity") for name in missing]
        if not missing:
            # Exactly nothing is no use of a node: usage.answer.account takes it for no number as well.
            cpu, memory = (value or math.nan for value in metricsapi.amounts(reading))
            cluster.pin_usage(reading.metadata.name or "", cpu, memory)
    return problems


def bad_quantities(item: Any) -> list[tuple[str, str]]:
    """Return each quantity of an object that is none, as its path and what was expected."""
    found: list[tuple[str, str]] = []

    def check(where: str, amounts: Mapping[str, Any] | None) -> None:
        for name, value in (amounts or {}).items():
            try:
                if kube.amount(name, value) < 0:
                    found.append((f"{where}.{name}", f"expected a quantity of zero or more, found {value!r}"))
            except quantity.QuantityError as error:
                found.append((f"{where}.{name}", str(error)))

    if isinstance(item, kube.Node) and item.status is not None:
        check("status.allocatable", item.status.allocatable)
    if isinstance(item, kube.NodeMetrics):
        check("usage", item.usage)
    if isinstance(item, kube.PodMetrics):
        for number, measured in enumerate(item.containers or ()):
            check(f"containers[{number}].usage", measured.usage)
    if isinstance(item, kube.Pod):
        for field in ("containers", "init_containers"):
            for number, container in enumerate(getattr(item.spec, field) or ()):
                own = container.resources or kube.Resources()
                check(f"spec.{_CAMEL[field]}[{number}].resources.requests", own.requests)
                check(f"spec.{_CAMEL[field]}[{number}].resources.limits", own.limits)
        check("spec.overhead", item.spec.overhead)
        own = item.spec.resources or kube.Resources()
        check("spec.resources.requests", own.requests)
        check("spec.resources.limits", own.limits)
    return found


def problem(where: str, error: Exception) -> Problem:
    """Return what msgspec found, at the path below `where` that it names."""
    match = _AT.fullmatch(str(error))
    what, inner = (match["what"], match["path"]) if match else (str(error), None)
    text = what.replace("Expected", "expected").replace(", got", ", found").replace("`", "")
    return Problem(".".join(filter(None, (where, inner))), text)


_CAMEL = {"containers": "containers", "init_containers": "initContainers"}

_OWNERS = (owners.REPLICA_SET, owners.STATEFUL_SET, owners.JOB)

_TYPES: Mapping[str, type[Any]] = {
    "Node": kube.Node,
    "Pod": kube.Pod,
    "Namespace": kube.Named,
    "PriorityClass": kube.Named,
    "PersistentVolume": kube.PersistentVolume,
    "PersistentVolumeClaim": kube.PersistentVolumeClaim,
    "NodeMetrics": kube.NodeMetrics,
    "PodMetrics": kube.PodMetrics,
    **dict.fromkeys(_OWNERS, kube.Controller),
}

_KINDS: Mapping[str, Callable[[Cluster, Any], None]] = {
    "Node": Cluster.set_node,
    "Pod": lambda cluster, pod: cluster.set_pod(pod, None),
    "Namespace": Cluster.set_namespace,
    "PriorityClass": Cluster.set_priority_class,
    "PersistentVolume": lambda cluster, volume: cluster.nodes.volumes.set_volume(volume),
    "PersistentVolumeClaim": lambda cluster, claim: cluster.nodes.volumes.set_claim(claim),
    "NodeMetrics": lambda _cluster, _reading: None,
    "PodMetrics": lambda _cluster, _reading: None,
    **{kind: partial(lambda kind, cluster, item: cluster.owners.set(kind, item), kind) for kind in _OWNERS},
}
