"""Kubernetes JSON to the fields that placement needs: requests as the scheduler adds them up."""

from typing import Any

import msgspec
import pytest

from tests.builders import GIB, MIB, Json, decode_node, decode_pod, make_container, make_node, make_pod
from webhook import kube, quantity
from webhook.kube import Requests


def want(
    cpu: int = 0,
    memory: int = 0,
    *,
    ephemeral: int = 0,
    extended: tuple[tuple[str, int], ...] = (),
    score_cpu: int | None = None,
    score_memory: int | None = None,
) -> Requests:
    """Expect `cpu` and `memory` to score as they are, unless the row says otherwise."""
    return Requests(
        cpu,
        memory,
        ephemeral,
        extended,
        cpu if score_cpu is None else score_cpu,
        memory if score_memory is None else score_memory,
    )


def sidecar(name: str, **amounts: Any) -> Json:
    return make_container(name, restartPolicy="Always", **amounts)


def init(name: str, **amounts: Any) -> Json:
    return make_container(name, **amounts)


REQUESTS: dict[str, tuple[Json, Requests]] = {
    "one container": (make_pod(cpu="500m", memory="1Gi"), want(500, GIB)),
    "containers add up": (
        make_pod(containers=[make_container(cpu="1", memory="1Gi"), make_container(cpu=".5", memory="2Gi")]),
        want(1500, 3 * GIB),
    ),
    "numbers instead of texts": (make_pod(cpu=2, memory=1024), want(2000, 1024)),
    "a fraction as a number": (make_pod(cpu=0.5, memory=1e3), want(500, 1000)),
    # res-no-requests: nothing to Filter; 100m and 200Mi to Score.
    "a container that requests nothing counts the defaults, for scoring only": (
        make_pod(),
        want(0, 0, score_cpu=100, score_memory=200 * MIB),
    ),
    "the defaults count for each container and each resource that is missing": (
        make_pod(containers=[make_container(cpu="1"), make_container(memory="1Gi"), make_container()]),
        want(1000, GIB, score_cpu=1200, score_memory=GIB + 400 * MIB),  # 1000+100+100; 200Mi+1Gi+200Mi
    ),
    "a request of zero is a request": (make_pod(cpu="0", memory="0"), want(0, 0)),
    "an init container counts where it is larger": (
        make_pod(cpu="500m", memory="1Gi", initContainers=[init("i", cpu="2", memory="512Mi")]),
        want(2000, GIB),  # max(500, 2000), max(1Gi, 512Mi)
    ),
    "init containers run one after the other": (
        make_pod(
            cpu="500m",
            memory="1Gi",
            initContainers=[init("i", cpu="700m", memory="0"), init("j", cpu="600m", memory="0")],
        ),
        want(700, GIB),  # max(500, 700, 600)
    ),
    # res-native-sidecar-sum: max(500 + 200, 600 + 200) = 800.
    "a sidecar runs beside containers and later init containers": (
        make_pod(
            cpu="500m",
            memory="0",
            initContainers=[sidecar("s", cpu="200m", memory="0"), init("i", cpu="600m", memory="0")],
        ),
        want(800, 0),
    ),
    "an init container before the sidecar runs without it": (
        make_pod(
            cpu="500m",
            memory="0",
            initContainers=[init("i", cpu="600m", memory="0"), sidecar("s", cpu="200m", memory="0")],
        ),
        want(700, 0),  # max(500 + 200, 600)
    ),
    "each init container sees the sidecars before it": (
        make_pod(
            cpu="100m",
            memory="0",
            initContainers=[
                sidecar("s", cpu="200m", memory="0"),
                init("i", cpu="500m", memory="0"),
                sidecar("t", cpu="300m", memory="0"),
                init("j", cpu="400m", memory="0"),
            ],
        ),
        want(900, 0),  # max(100+200+300, 200+500, 200+300+400)
    ),
    "a restart policy other than Always is no sidecar": (
        make_pod(
            cpu="500m",
            memory="0",
            initContainers=[make_container("i", cpu="200m", memory="0", restartPolicy="OnFailure")],
        ),
        want(500, 0),  # max(500, 200)
    ),
    "sidecars and init containers count defaults too": (
        make_pod(cpu="500m", memory="0", initContainers=[sidecar("s"), init("i")]),
        want(500, 0, score_cpu=600, score_memory=400 * MIB),  # max(500+100, 100+100); max(200Mi, 400Mi)
    ),
    "overhead comes on top": (
        make_pod(cpu="500m", memory="1Gi", overhead={"cpu": "250m", "memory": "120Mi"}),
        want(750, GIB + 120 * MIB),
    ),
    "overhead comes on top of an init container's peak": (
        make_pod(cpu="1", memory="0", initContainers=[init("i", cpu="2", memory="0")], overhead={"cpu": "1"}),
        want(3000, 0),  # max(1000, 2000) + 1000
    ),
    # res-pod-level.
    "Pod-level requests replace the sum for the resources they name": (
        make_pod(cpu="100m", memory="1Gi", resources={"requests": {"cpu": "1"}}),
        want(1000, GIB),
    ),
    "Pod-level requests may be lower than the sum of defaults": (
        make_pod(resources={"requests": {"cpu": "50m", "memory": "10Mi"}}),
        want(50, 10 * MIB),
    ),
    "beside Pod-level requests a container has the default only of what nobody names": (
        make_pod(
            containers=[make_container(requests={"memory": "1Gi"}), make_container("sidecar")],
            resources={"requests": {"hugepages-2Mi": "4Mi"}},
        ),
        want(0, GIB, score_cpu=200, extended=(("hugepages-2Mi", 4 * MIB),)),
    ),
    "overhead comes on top of Pod-level requests": (
        make_pod(memory="0", resources={"requests": {"cpu": "1"}}, overhead={"cpu": "250m"}),
        want(1250, 0, score_cpu=1250),
    ),
    "Pod-level huge pages count, other Pod-level resources do not": (
        make_pod(
            cpu="1",
            memory="0",
            resources={
                "requests": {"hugepages-2Mi": "4Mi", "example.com/gpu": "3", "ephemeral-storage": "1Gi"}
            },
        ),
        want(1000, 0, extended=(("hugepages-2Mi", 4 * MIB),)),
    ),
    "extended resources add up, in the order of their names": (
        make_pod(
            containers=[
                make_container(cpu="0", memory="0", requests={"z.example/b": "1", "example.com/gpu": "1"}),
                make_container(cpu="0", memory="0", requests={"example.com/gpu": 2}),
            ]
        ),
        want(extended=(("example.com/gpu", 3), ("z.example/b", 1))),
    ),
    "an extended resource of zero is not asked for": (
        make_pod(containers=[make_container(cpu="0", memory="0", requests={"example.com/gpu": "0"})]),
        want(),
    ),
    "ephemeral storage": (
        make_pod(containers=[make_container(cpu="0", memory="0", requests={"ephemeral-storage": "1Gi"})]),
        want(ephemeral=GIB),
    ),
    "null is absent, at every level": (
        make_pod(
            containers=[{"name": "c", "resources": {"requests": None}}, {"name": "d", "resources": None}],
            initContainers=None,
            overhead=None,
            resources={"requests": None},
        ),
        want(0, 0, score_cpu=200, score_memory=400 * MIB),
    ),
    "no containers at all": (make_pod(containers=None), want()),
    "limits are not requests": (
        make_pod(containers=[{"name": "c", "resources": {"limits": {"cpu": "4", "memory": "4Gi"}}}]),
        want(0, 0, score_cpu=100, score_memory=200 * MIB),
    ),
}


@pytest.mark.parametrize(("pod", "expected"), REQUESTS.values(), ids=REQUESTS.keys())
def test_requests(pod: Json, expected: Requests) -> None:
    assert kube.read_requests(decode_pod(pod).spec) == expected


BAD_REQUESTS: dict[str, Json] = {
    "a word": make_pod(cpu="lots"),  # res-bad-quantity
    "a negative request": make_pod(cpu="-1"),
    "a negative number": make_pod(memory=-5),
    "a bad extended resource": make_pod(containers=[make_container(requests={"example.com/gpu": "one"})]),
    "in an init container": make_pod(initContainers=[init("i", memory="1gb")]),
    "in the overhead": make_pod(overhead={"cpu": "x"}),
    "at Pod level": make_pod(resources={"requests": {"cpu": "x"}}),
    "at Pod level, of a resource that does not count": make_pod(resources={"requests": {"storage": "x"}}),
}


@pytest.mark.parametrize("pod", BAD_REQUESTS.values(), ids=BAD_REQUESTS.keys())
def test_a_request_that_is_no_quantity_is_an_error(pod: Json) -> None:
    with pytest.raises(quantity.QuantityError):
        kube.read_requests(decode_pod(pod).spec)


def test_a_sum_past_the_end_of_an_int64_still_fits_into_one() -> None:
    # The API server takes 9E (9 x 10**18 < 2**63) for a container, and as many containers as one likes.
    huge = [
        make_container(f"c{number}", cpu="9E", memory="9E", requests={"ephemeral-storage": "9E", "a/b": "9E"})
        for number in range(3)
    ]

    found = kube.read_requests(decode_pod(make_pod(containers=huge)).spec)

    for amount in (found.cpu_milli, found.memory_bytes, found.ephemeral_bytes, found.extended[0][1]):
        assert 2**50 <= amount < 2**63  # more than any node has
    assert max(found.score_cpu_milli, found.score_memory_bytes) < 2**63


def limited(name: str = "main", /, limits: object = None, **fields: Any) -> Json:
    return make_container(name, resources={"limits": limits}, **fields)


# Milli-CPU and bytes. component-helpers/resource/helpers.go: PodLimits.
LIMITS: dict[str, tuple[Json, kube.Limits]] = {
    "none": (make_pod(cpu="1"), kube.NO_LIMITS),
    "null": (make_pod(containers=[limited(limits=None)]), kube.NO_LIMITS),
    "the sum of the containers": (
        make_pod(containers=[limited("a", {"cpu": "1", "memory": "1Gi"}), limited("b", {"cpu": "500m"})]),
        kube.Limits(1500, GIB),
    ),
    "an init container alone, beside the sidecars before it": (  # 2 + 0.5 > 1 + 0.5
        make_pod(
            initContainers=[
                limited("s", {"cpu": "500m"}, restartPolicy="Always"),
                limited("i", {"cpu": "2"}),
            ],
            containers=[limited("a", {"cpu": "1"})],
        ),
        kube.Limits(2500, 0),
    ),
    "a sidecar after it runs with the containers alone": (  # 1 + 0.5 < 2
        make_pod(
            initContainers=[
                limited("i", {"cpu": "2"}),
                limited("s", {"cpu": "500m"}, restartPolicy="Always"),
            ],
            containers=[limited("a", {"cpu": "1"})],
        ),
        kube.Limits(2000, 0),
    ),
    "at Pod level": (
        make_pod(
            containers=[limited("a", {"cpu": "1", "memory": "1Gi"})], resources={"limits": {"cpu": "4"}}
        ),
        kube.Limits(4000, GIB),
    ),
    "overhead comes on top of what is limited": (
        make_pod(containers=[limited("a", {"cpu": "1"})], overhead={"cpu": "250m", "memory": "1Gi"}),
        kube.Limits(1250, 0),
    ),
}


@pytest.mark.parametrize(("pod", "expected"), LIMITS.values(), ids=LIMITS.keys())
def test_limits(pod: Json, expected: kube.Limits) -> None:
    assert kube.read_limits(decode_pod(pod).spec) == expected


READY = {
    "ready": ("True", True),
    "not ready": ("False", False),
    "unknown, as after the kubelet stopped": ("Unknown", False),
    "no condition at all": (None, True),
}


@pytest.mark.parametrize(("status", "expected"), READY.values(), ids=READY.keys())
def test_readiness(status: str | None, *, expected: bool) -> None:
    assert kube.is_ready(decode_node(make_node(ready=status))) is expected


def test_a_node_without_status_is_taken_as_ready() -> None:
    assert kube.is_ready(decode_node({"metadata": {"name": "n1"}}))


FINISHED = {"Pending": False, "Running": False, "Unknown": False, "Succeeded": True, "Failed": True}


@pytest.mark.parametrize(("phase", "expected"), FINISHED.items())
def test_finished(phase: str, *, expected: bool) -> None:
    assert kube.is_finished(decode_pod(make_pod(phase=phase))) is expected


def test_a_pod_without_status_is_not_finished() -> None:
    assert not kube.is_finished(decode_pod(make_pod()))


UNREADABLE: dict[str, Json] = {
    "no metadata": {"spec": {}},
    "no spec": {"metadata": {}},
    "spec null": {"metadata": {}, "spec": None},
    "containers as a mapping": make_pod(containers={}),
    "a label as a number": make_pod(labels={"a": 1}),
    "an annotation as a list": make_pod(annotations={"a": []}),
    "a request as a truth value": make_pod(cpu=True),
    "a weight with a fraction": make_pod(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1.5, "preference": {}}]
            }
        }
    ),
    "affinity as a list": make_pod(affinity=[]),
}


@pytest.mark.parametrize("pod", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_shape_that_the_api_does_not_have_is_a_decode_error(pod: Json) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_pod(pod)


def test_unknown_fields_are_passed_over() -> None:
    pod = decode_pod(make_pod(futureKnob={"mode": ["x"]}, metadata={"futureMark": 1}))

    assert pod.metadata.generate_name == "web-"
