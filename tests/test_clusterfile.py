"""A cluster from a file: what kubectl prints is read, and everything that is wrong is said at once."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders import (
    GIB,
    Json,
    decode_pod,
    make_claim,
    make_container,
    make_node,
    make_owner,
    make_pod,
    make_volume,
)
from webhook import clusterfile
from webhook.cluster import Cluster
from webhook.policy import ConfigError
from webhook.snapshot import CPU, MEMORY

KINDS = (
    "Node, Pod, Namespace, PriorityClass, PersistentVolume, PersistentVolumeClaim, NodeMetrics, PodMetrics, "
    "ReplicaSet, StatefulSet, Job"
)
QUANTITY = "expected a quantity such as 250m, 2 or 1.5Gi, found"


def make_list(*items: object) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items), "metadata": {"resourceVersion": ""}}


def make_namespace(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def make_reading(name: str = "n1", **usage: object) -> Json:
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "10s",
        "usage": usage,
    }


def write(directory: Path, content: str | bytes | Json) -> Path:
    file = directory / "cluster"
    text = json.dumps(content) if isinstance(content, dict) else content
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def load(directory: Path, content: str | bytes | Json) -> Cluster:
    return clusterfile.load(write(directory, content))


def problems(directory: Path, content: str | bytes | Json) -> list[str]:
    """Load what cannot be loaded; return what is said of it, the file's own name left out."""
    file = write(directory, content)
    with pytest.raises(ConfigError) as caught:
        clusterfile.load(file)
    return [str(problem).replace(str(file), "FILE") for problem in caught.value.problems]


WHOLE = make_list(
    make_node("n1"),
    make_node("n2", cpu=4),
    make_pod(uid="a", node="n1", cpu="1", memory="1Gi"),
    make_pod(uid="b", cpu="1"),
    make_namespace("shop", **{"trimtab.dev/steering": "shadow"}),
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9},
    make_claim("data", "disk"),
    make_volume("disk", labels={"topology.kubernetes.io/zone": "a"}),
    make_reading("n1", cpu="1500m", memory="2Gi"),
    {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": "a"},
        "containers": [],
    },
)

FORMS: dict[str, str | bytes] = {
    "JSON": json.dumps(WHOLE),
    "JSON over lines": json.dumps(WHOLE, indent=4),
    "JSON after white space": " \n\t" + json.dumps(WHOLE),
    "JSON with a byte order mark": b"\xef\xbb\xbf" + json.dumps(WHOLE).encode(),
    "JSON in UTF-16, as some shells redirect it": json.dumps(WHOLE).encode("utf-16"),
    "YAML": yaml.safe_dump(WHOLE),
    "YAML with a document mark and a comment": "# mine\n---\n" + yaml.safe_dump(WHOLE),
    "YAML with Windows line ends": yaml.safe_dump(WHOLE).replace("\n", "\r\n"),
}


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS.keys())
def test_every_kind_is_read_in_every_form(content: str | bytes, tmp_path: Path) -> None:
    cluster = load(tmp_path, content)

    assert cluster.synced
    assert cluster.nodes.node_names() == ["n1", "n2"]
    assert cluster.nodes.allocatable[CPU, :2].tolist() == [8000, 4000]
    assert cluster.nodes.requested[[CPU, MEMORY], 0].tolist() == [1000, GIB]
    assert cluster.nodes.used[:, 0].tolist() == [1500, 2 * GIB]
    assert cluster.nodes.states(1e9, 60.0) == {"fresh": 1, "stale": 0, "missing": 1, "invalid": 0}
    assert cluster.pods == 1
    assert cluster.steering("shop") == "shadow"
    assert cluster.priority_classes == {"high": 9}
    assert cluster.nodes.volumes.claim("shop", "data") is not None
    assert (cluster.ledger.in_flight, cluster.ledger.unseen) == (0, 0)


def as_kubectl_prints(item: Json) -> Json:
    """Return an object with what every real one has and nobody here reads."""
    metadata = {
        "creationTimestamp": None,
        "deletionGracePeriodSeconds": None,
        "generation": 3,
        "annotations": None,
        "labels": {},
        "managedFields": [{"fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {".": {}}}, "time": None}],
        "resourceVersion": "812",
        "selfLink": "",
        **item["metadata"],
    }
    return {**item, "metadata": metadata, "unknown": {"deep": [1, None, 2.5]}}


def test_what_kubectl_prints_of_a_real_cluster(tmp_path: Path) -> None:
    node = as_kubectl_prints(make_node("n1"))
    node["spec"] |= {"podCIDR": "10.0.0.0/24", "taints": None, "unschedulable": None}
    node["status"] |= {"images": [{"names": None, "sizeBytes": 1}], "capacity": None, "volumesInUse": None}
    pod = as_kubectl_prints(make_pod(uid="a", node="n1", cpu="1", phase="Running"))
    pod["spec"] |= {
        "containers": [
            {**make_container(cpu="1"), "ports": None, "terminationMessagePath": "/dev/termination-log"},
            {"name": "plain", "resources": {}},
            {"name": "null", "resources": None},
            {"name": "only limits", "resources": {"limits": {"cpu": "1"}, "requests": None}},
        ],
        "initContainers": None,
        "overhead": None,
        "resources": None,
        "affinity": None,
        "nodeSelector": None,
        "tolerations": None,
        "schedulingGates": None,
    }
    bare = as_kubectl_prints({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "spec": {}})

    cluster = load(tmp_path, make_list(node, pod, bare, as_kubectl_prints(make_namespace("shop"))))

    assert cluster.nodes.node_names() == ["n1"]
    assert cluster.pods == 1
    assert cluster.nodes.requested[CPU, 0] == 1000


def test_pods_and_readings_may_come_before_their_nodes(tmp_path: Path) -> None:
    items = [
        make_reading("n1", cpu="1", memory="1Gi"),
        make_pod(uid="a", node="n1", cpu="2"),
        make_node("n1"),
    ]

    cluster = load(tmp_path, make_list(*items))

    assert cluster.nodes.requested[CPU, 0] == 2000
    assert cluster.nodes.used[CPU, 0] == 1000


def test_a_reading_of_a_node_that_is_not_there_is_none(tmp_path: Path) -> None:
    cluster = load(tmp_path, make_list(make_node("n1"), make_reading("gone", cpu="1", memory="1Gi")))

    assert cluster.nodes.node_names() == ["n1"]


def test_pods_that_have_ended_count_nothing(tmp_path: Path) -> None:
    ended = [make_pod(uid=phase, node="n1", cpu="1", phase=phase) for phase in ("Succeeded", "Failed")]

    cluster = load(tmp_path, make_list(make_node("n1"), *ended))

    assert cluster.pods == 0
    assert cluster.nodes.requested[CPU, 0] == 0


NO_LIST = "FILE: expected a List of Kubernetes objects: "

FILES: dict[str, tuple[str | bytes, list[str]]] = {
    "empty": ("", [NO_LIST + "expected object, found null"]),
    "white space": ("\n \n", [NO_LIST + "expected object, found null"]),
    "a text": ('"nodes"', [NO_LIST + "expected object, found str"]),
    "a list without its head": ("[]", [NO_LIST + "expected object, found array"]),
    "an object that is none of ours": ("{}", [NO_LIST + "Object missing required field kind"]),
    "one object": (json.dumps(make_node()), [NO_LIST + "Object missing required field items"]),
    "items is null": (
        '{"kind": "List", "items": null}',
        ["FILE.items: " + NO_LIST[6:] + "expected array, found null"],
    ),
    "JSON that breaks off": ('{"kind": "List", "items": [', [NO_LIST + "Input data was truncated"]),
    "more than one document": (
        "kind: List\nitems: []\n---\nkind: List\nitems: []\n",
        ["FILE: is neither JSON nor YAML: line 3: but found another document"],
    ),
    "YAML that breaks off": (
        "kind: List\nitems: [",
        ["FILE: is neither JSON nor YAML: line 3: did not find expected node content"],
    ),
    "YAML that would run something": (
        "kind: !!python/object/apply:os.getcwd []",
        [
            (
                "FILE: is neither JSON nor YAML: line 1: could not determine a constructor for the tag "
                "'tag:yaml.org,2002:python/object/apply:os.getcwd'"
            )
        ],
    ),
    "YAML that holds itself": (
        "kind: List\nitems: [&a {kind: Pod, metadata: *a}]",
        [NO_LIST + "maximum recursion depth exceeded while serializing an object"],
    ),
    "nested without end": (
        '{"a":' * 100_000,
        [NO_LIST + "maximum recursion depth exceeded while deserializing an object"],
    ),
    "bytes that are no text": (
        b"\x00\x01",
        [
            (
                NO_LIST + "unacceptable character #x0000: control characters are not allowed "
                'in "<byte string>", position 0'
            )
        ],
    ),
    "a day that does not exist": ("kind: 2026-02-31", [NO_LIST + "day is out of range for month"]),
}


@pytest.mark.parametrize(("content", "want"), FILES.values(), ids=FILES.keys())
def test_files_that_are_no_list(content: str | bytes, want: list[str], tmp_path: Path) -> None:
    assert problems(tmp_path, content) == want


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "none", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigError) as caught:
            clusterfile.load(path)
        assert [str(problem) for problem in caught.value.problems] == [f"{path}: cannot be read: {reason}"]


def pod_of(**spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


ITEMS: dict[str, tuple[Json | int, list[str]]] = {
    "a kind that is not read": (
        {"kind": "Deployment", "metadata": {}},
        [f"items[1].kind: expected one of {KINDS}, found 'Deployment'"],
    ),
    "no kind": ({"metadata": {"name": "a"}}, ["items[1]: Object missing required field kind"]),
    "a kind that is no text": ({"kind": ["Pod"]}, ["items[1].kind: expected str, found array"]),
    "no object": (3, ["items[1]: expected object, found int"]),
    "no metadata": ({"kind": "Node"}, ["items[1]: Object missing required field metadata"]),
    "a Pod without spec": ({"kind": "Pod", "metadata": {}}, ["items[1]: Object missing required field spec"]),
    "a field of another type": (
        {"kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": [{"key": "a", "effect": 7}]}},
        ["items[1].spec.taints[0].effect: expected str, found int"],
    ),
    "a label that is no text": (
        make_namespace("shop") | {"metadata": {"labels": {"a": 1}}},
        ["items[1].metadata.labels[...]: expected str, found int"],
    ),
    "a reading without use": (
        {"kind": "NodeMetrics", "metadata": {"name": "n1"}},
        ["items[1]: Object missing required field usage"],
    ),
    "a reading of nothing": (
        make_reading(),
        [
            "items[1].usage.cpu: missing; expected a quantity",
            "items[1].usage.memory: missing; expected a quantity",
        ],
    ),
    "a reading of CPU alone": (
        make_reading(cpu="1"),
        ["items[1].usage.memory: missing; expected a quantity"],
    ),
    "quantities of a Node": (
        make_node(cpu="eight", memory="1Zi", pods=""),
        [
            f"items[1].status.allocatable.cpu: {QUANTITY} 'eight'",
            f"items[1].status.allocatable.memory: {QUANTITY} '1Zi'",
            f"items[1].status.allocatable.pods: {QUANTITY} ''",
        ],
    ),
    "a quantity that is a list": (
        make_node(cpu=[8]),
        ["items[1].status.allocatable[...]: expected int | float | str, found array"],
    ),
    "quantities below zero": (
        pod_of(nodeName="n1", containers=[make_container(cpu="-1")], overhead={"memory": "-1Ki"}),
        [
            (
                "items[1].spec.containers[0].resources.requests.cpu: expected a quantity of zero or more, "
                "found '-1'"
            ),
            "items[1].spec.overhead.memory: expected a quantity of zero or more, found '-1Ki'",
        ],
    ),
    "quantities of a reading": (
        make_reading(cpu="1 core", memory="1GiB"),
        [f"items[1].usage.cpu: {QUANTITY} '1 core'", f"items[1].usage.memory: {QUANTITY} '1GiB'"],
    ),
    "quantities all over a Pod": (
        pod_of(
            containers=[
                make_container(cpu="1"),
                make_container(resources={"requests": {"cpu": "a", "memory": "b"}, "limits": {"cpu": "f"}}),
            ],
            initContainers=[make_container(memory="c")],
            overhead={"cpu": "d"},
            resources={"requests": {"memory": "e", "cpu": "1"}, "limits": {"cpu": "g"}},
        ),
        [
            f"items[1].spec.containers[1].resources.requests.cpu: {QUANTITY} 'a'",
            f"items[1].spec.containers[1].resources.requests.memory: {QUANTITY} 'b'",
            f"items[1].spec.containers[1].resources.limits.cpu: {QUANTITY} 'f'",
            f"items[1].spec.initContainers[0].resources.requests.memory: {QUANTITY} 'c'",
            f"items[1].spec.overhead.cpu: {QUANTITY} 'd'",
            f"items[1].spec.resources.requests.memory: {QUANTITY} 'e'",
            f"items[1].spec.resources.limits.cpu: {QUANTITY} 'g'",
        ],
    ),
}


@pytest.mark.parametrize(("item", "want"), ITEMS.values(), ids=ITEMS.keys())
def test_items_that_cannot_be_used(item: Json | int, want: list[str], tmp_path: Path) -> None:
    assert problems(tmp_path, make_list(make_node(), item)) == want


def test_every_problem_of_every_item_is_said_in_their_order(tmp_path: Path) -> None:
    items = [item for item, _ in ITEMS.values()]
    # What is missing in a reading is found last, once every node is there.
    late = {name for name in ITEMS if name in ("a reading of nothing", "a reading of CPU alone")}
    order = [name for name in ITEMS if name not in late] + [name for name in ITEMS if name in late]
    numbers = {name: number for number, name in enumerate(ITEMS)}

    found = problems(tmp_path, make_list(*items))

    assert found == [
        text.replace("items[1]", f"items[{numbers[name]}]") for name in order for text in ITEMS[name][1]
    ]


def test_a_problem_says_what_is_wrong_in_yaml_as_in_json(tmp_path: Path) -> None:
    content = make_list(make_node(cpu="eight"), {"kind": "Secret"})

    assert problems(tmp_path, yaml.safe_dump(content)) == problems(tmp_path, content)


def test_a_value_that_is_long_is_cut(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, make_list(make_node(cpu="x" * 10_000)))

    assert len(problem) < 200


def test_pods_in_a_file_are_learned_from_and_their_owners_known(tmp_path: Path) -> None:
    """What a file says of a Pod's use stands for good: one reading is enough. The order does not matter."""

    def pod(**fields: Any) -> Json:
        owner = {"ownerReferences": [make_owner("Job", "nightly-1")]}
        return make_pod(cpu="1", metadata=owner, **fields)

    cluster = load(
        tmp_path,
        make_list(
            {
                "kind": "PodMetrics",
                "metadata": {"name": "a", "namespace": "shop"},
                "containers": [
                    {"usage": {"cpu": "3", "memory": "2Gi"}},
                    {"usage": {"cpu": "1", "memory": "1"}},
                ],
            },
            {"kind": "PodMetrics", "metadata": {"name": "unknown", "namespace": "shop"}, "containers": []},
            make_node("n1"),
            pod(uid="a", node="n1", phase="Running"),
            {
                "kind": "Job",
                "metadata": {
                    "name": "nightly-1",
                    "namespace": "shop",
                    "ownerReferences": [make_owner("CronJob", "nightly")],
                },
                "spec": {"parallelism": 3},
            },
        ),
    )
    found = cluster.expected(decode_pod(pod()))

    assert (found.load.cpu_milli, found.load.memory_bytes) == (4000, 2 * GIB + 1)
    assert found.sources == ("learned", "learned")
    assert cluster.owners.workload(decode_pod(pod())) == ("shop", "CronJob", "nightly")
    assert cluster.owners.outstanding(decode_pod(pod())) == 2


def test_bad_quantities_of_pods_use_and_limits(tmp_path: Path) -> None:
    metrics = {"kind": "PodMetrics", "metadata": {"name": "a"}, "containers": [{"usage": {"cpu": "-1"}}]}
    limited = make_pod(containers=[make_container(resources={"limits": {"cpu": "lots"}})])

    assert problems(tmp_path, make_list(metrics, limited)) == [
        "items[0].containers[0].usage.cpu: expected a quantity of zero or more, found '-1'",
        f"items[1].spec.containers[0].resources.limits.cpu: {QUANTITY} 'lots'",
    ]


# A node's use in a file; the states of its CPU and memory.
USES: dict[str, tuple[Json, list[str]]] = {
    "a use": ({"cpu": "1500m", "memory": "2Gi"}, ["FRESH", "FRESH"]),
    "no CPU at all": ({"cpu": "0", "memory": "2Gi"}, ["INVALID", "FRESH"]),
    "no memory at all": ({"cpu": "1500m", "memory": 0}, ["FRESH", "INVALID"]),
    "cores told as nanocores": ({"cpu": "4n", "memory": "2Gi"}, ["INVALID", "FRESH"]),
    "bytes told as mebibytes": ({"cpu": 2, "memory": "2048"}, ["FRESH", "INVALID"]),
}


@pytest.mark.parametrize(("use", "states"), USES.values(), ids=USES.keys())
def test_a_reading_that_no_node_can_have_is_invalid(use: Json, states: list[str], tmp_path: Path) -> None:
    cluster = load(tmp_path, make_list(make_node("n1"), make_reading("n1", **use)))

    assert [state.name for state in cluster.nodes.state(0, 1e9, 60.0)] == states
