"""What a bound Pod requests while it is resized in place, by what its kubelet reports."""

import pytest

from tests.builders import GIB, Json, decode_pod, make_container, make_pod
from webhook import kube, resize


def report(cpu: str, *, allocated: str | None = None, name: str = "main") -> Json:
    """Return a container's status: `cpu` is in effect, `allocated` is set aside, the same where not said."""
    given = {"cpu": cpu if allocated is None else allocated}
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, "allocatedResources": given}


def pending(reason: str) -> list[Json]:
    return [{"type": "PodResizePending", "status": "True", "reason": reason}]


SIDECAR = make_container("side", cpu="1", restartPolicy="Always")
INIT = make_container("init", cpu="1")

# name: (spec beside one container `main` that asks for 2 CPU, status, milli-CPU that count)
RESIZES: dict[str, tuple[Json, Json, int]] = {
    "nothing reported": ({}, {}, 2000),
    "as asked for": ({}, {"containerStatuses": [report("2")]}, 2000),
    "the same in other words": ({}, {"containerStatuses": [report("2000m")]}, 2000),
    "growing: what is asked for": ({}, {"containerStatuses": [report("1")]}, 2000),
    "shrinking: what is in effect": ({}, {"containerStatuses": [report("3", allocated="2")]}, 3000),
    "set aside, not in effect yet": ({}, {"containerStatuses": [report("1", allocated="4")]}, 4000),
    "waiting for room: what is asked for": (
        {},
        {"containerStatuses": [report("1")], "conditions": pending("Deferred")},
        2000,
    ),
    "never to be: what is in effect": (
        {},
        {"containerStatuses": [report("1")], "conditions": pending("Infeasible")},
        1000,
    ),
    "a report without resources": ({}, {"containerStatuses": [{"name": "main"}]}, 2000),
    "another container's report": ({}, {"containerStatuses": [report("9", name="other")]}, 2000),
    "a sidecar is resized: 2 + 3": (
        {"initContainers": [SIDECAR]},
        {"initContainerStatuses": [report("3", name="side")]},
        5000,
    ),
    "an init container is not": (
        {"initContainers": [INIT]},
        {"initContainerStatuses": [report("9", name="init")]},
        2000,
    ),
    "the Pod as a whole": (
        {"resources": {"requests": {"cpu": "3"}}},
        {"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "3"}},
        4000,
    ),
    "the Pod as a whole, never to be": (
        {"resources": {"requests": {"cpu": "3"}}},
        {
            "resources": {"requests": {"cpu": "1"}},
            "allocatedResources": {"cpu": "1"},
            "conditions": pending("Infeasible"),
        },
        1000,
    ),
}


@pytest.mark.parametrize(("spec", "status", "want"), RESIZES.values(), ids=RESIZES.keys())
def test_what_counts_of_a_resize(spec: Json, status: Json, want: int) -> None:
    pod = decode_pod({**make_pod(containers=[make_container(cpu="2")], **spec), "status": status})

    assert kube.read_requests(resize.in_effect(pod)).cpu_milli == want


def test_each_resource_counts_for_itself() -> None:
    status = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "3Gi"}}}
    pod = decode_pod({**make_pod(cpu="2", memory="1Gi"), "status": {"containerStatuses": [status]}})
    found = kube.read_requests(resize.in_effect(pod))

    assert (found.cpu_milli, found.memory_bytes) == (2000, 3 * GIB)


def test_a_pod_that_is_not_resized_keeps_its_very_spec() -> None:
    status = {"containerStatuses": [report("2")], "conditions": pending("Deferred")}
    pod = decode_pod({**make_pod(cpu="2"), "status": status})

    assert resize.in_effect(pod) is pod.spec
