"""A Pod from a file: as the API server would send it, and what is said of a file that holds none."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.builders import Json, make_container, make_pod
from webhook.explain import podfile
from webhook.explain.podfile import Incoming
from webhook.policy import ConfigError

SPEC: Json = {"containers": [make_container(cpu="1")]}
KINDS = "Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob"
ONE = f"expected one object of kind {KINDS}, found"


def write(directory: Path, content: str) -> Path:
    file = directory / "pod.yaml"
    file.write_text(content)
    return file


def load(directory: Path, item: object, namespace: str | None = None) -> tuple[Incoming, Json]:
    incoming = podfile.load(write(directory, json.dumps(item)), namespace)
    body: Json = json.loads(incoming.body)
    return incoming, body


def make_workload(kind: str, *, metadata: object = None, **spec: object) -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": SPEC}
    inner = {"template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"} if metadata is None else metadata,
        "spec": {"jobTemplate": {"spec": inner}} if kind == "CronJob" else {**inner, **spec},
    }


def test_a_pod_stays_as_it_is(tmp_path: Path) -> None:
    pod = make_pod(name="a", cpu="1", labels={"app": "web"}, dnsPolicy="Default")

    incoming, body = load(tmp_path, pod)

    assert body == pod
    assert (incoming.namespace, incoming.pod.metadata.name) == ("shop", "a")


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob"])
def test_a_workload_stands_for_the_pod_of_its_template(kind: str, tmp_path: Path) -> None:
    incoming, body = load(tmp_path, make_workload(kind, replicas=3))

    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "controller": True}
    assert body == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": {"app": "web"},
            "namespace": "shop",
            "generateName": "web-",
            "ownerReferences": [owner],
        },
        "spec": SPEC,
    }
    assert incoming.namespace == "shop"


@pytest.mark.parametrize(
    ("own", "asked", "want"),
    [("a", None, "a"), ("a", "a", "a"), (None, "b", "b"), ("", "b", "b"), (None, None, "default")],
)
def test_the_namespace(own: str | None, asked: str | None, want: str, tmp_path: Path) -> None:
    incoming, body = load(tmp_path, {"kind": "Pod", "metadata": {"namespace": own}, "spec": SPEC}, asked)

    assert incoming.namespace == body["metadata"]["namespace"] == want


# Containers' (requests, limits), and the Pod's own; then the requests that the API server makes of them.
LIMITS: dict[str, tuple[list[Json], Json | None, list[Json], Json | None]] = {
    "a limit stands in": (
        [{"limits": {"cpu": 1, "memory": "1Gi"}}],
        None,
        [{"cpu": 1, "memory": "1Gi"}],
        None,
    ),
    "a request stays": (
        [{"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 1}}],
        None,
        [{"cpu": 1, "memory": "1Gi"}],
        None,
    ),
    "the Pod's limit, where no container requests": (
        [{"requests": {"cpu": 1}}],
        {"limits": {"cpu": 4, "memory": "2Gi"}},
        [{"cpu": 1}],
        {"memory": "2Gi"},
    ),
    "no limits": ([{}], {"requests": {"cpu": 1}}, [{}], {"cpu": 1}),
}


@pytest.mark.parametrize(("containers", "pod", "want", "want_pod"), LIMITS.values(), ids=LIMITS.keys())
def test_limits_stand_in_for_requests(
    containers: list[Json], pod: Json | None, want: list[Json], want_pod: Json | None, tmp_path: Path
) -> None:
    spec: Json = {
        "containers": [{"name": "c", "resources": item} for item in containers],
        "initContainers": [{"name": "i", "resources": item} for item in containers],
        **({"resources": pod} if pod else {}),
    }

    _, body = load(tmp_path, {"kind": "Pod", "spec": spec})

    for field in ("containers", "initContainers"):
        assert [item["resources"].get("requests", {}) for item in body["spec"][field]] == want
    assert body["spec"].get("resources", {}).get("requests") == want_pod


@pytest.mark.parametrize(
    "text",
    [
        "kind: Service\n---\n" + yaml.safe_dump(make_workload("Job")) + "\n---\n",
        yaml.safe_dump({"kind": "List", "items": [{"kind": "ConfigMap"}, make_workload("Job")]}),
        json.dumps(make_workload("Job")),
    ],
    ids=["documents", "a List", "JSON"],
)
def test_what_stands_beside_is_passed_over(text: str, tmp_path: Path) -> None:
    assert podfile.load(write(tmp_path, text), None).pod.metadata.generate_name == "web-"


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO(json.dumps(make_pod(name="a")).encode())
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=content))

    assert podfile.load(Path("-"), None).where == "stdin: "


POD = "kind: Pod\n"

# The text of pod.yaml, and what is said of it.
BAD: dict[str, tuple[str, str]] = {
    "nothing": ("", f"{ONE} nothing"),
    "another kind": ("kind: Service", f"{ONE} Service"),
    "no kind": ("a: 1", f"{ONE} None"),
    "no object": ("[1]", f"{ONE} [1]"),
    "a kind that is no text": ("kind: [Pod]", f"{ONE} ['Pod']"),
    "two Pods": (f"{POD}---\nkind: Service\n---\nkind: Job\n", f"{ONE} Pod, Job"),
    "broken YAML": ("a: [", "is neither JSON nor YAML: line 2: did not find expected node content"),
    "broken JSON": ('{"a": ', "is neither JSON nor YAML: Input data was truncated"),
    "no spec": (POD, "spec: expected a mapping, found nothing"),
    "a spec that is a text": (f"{POD}spec: a", "spec: expected a mapping, found 'a'"),
    "metadata that is a list": (
        f"{POD}metadata: [a]\nspec: {{}}",
        "metadata: expected a mapping, found ['a']",
    ),
    "no template": (
        "kind: CronJob\nspec: {jobTemplate: {spec: {}}}",
        "spec.jobTemplate.spec.template: expected a",
    ),
    "a field of the Pod": (
        f"{POD}spec: {{containers: web}}",
        "spec.containers: expected array | null, found str",
    ),
    "a field of the template": (
        "kind: Job\nspec: {template: {spec: {nodeSelector: {disk: 1}}}}",
        "spec.template.spec.nodeSelector[...]: expected str, found int",
    ),
    "a namespace that is a number": (
        f"{POD}metadata: {{namespace: 5}}\nspec: {{}}",
        "metadata.namespace: expected str | null, found int",
    ),
    "a key that is no text": (f"{POD}spec: {{null: 1}}", "Only dicts with str-like"),
    "it holds itself": (f"{POD}spec: &a {{b: *a}}", "maximum recursion depth exceeded"),
}


@pytest.mark.parametrize(("text", "want"), BAD.values(), ids=BAD.keys())
def test_a_file_that_cannot_be_used(text: str, want: str, tmp_path: Path) -> None:
    file = write(tmp_path, text)

    with pytest.raises(ConfigError) as error:
        podfile.load(file, None)

    (problem,) = error.value.problems
    assert str(problem).startswith(f"{file}: {want}")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none: cannot be read: No such file or directory$"):
        podfile.load(tmp_path / "none", None)


def test_a_namespace_that_is_not_the_one_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"metadata\.namespace: expected other, as -n says, found shop$"):
        load(tmp_path, make_pod(), "other")
