"""The simulated kubelets count right: a wrong counter would make every measurement against them wrong."""

import pytest

from . import usage

GIB = 1 << 30


def node(**annotations: str) -> usage.Node:
    said = {f"sim.trimtab.dev/{key}": value for key, value in annotations.items()}
    return usage.Node(usage.Metadata(name="n", annotations=said))


def pod(phase: str, cpu: str) -> usage.Pod:
    requests = usage.Requirements(requests={"cpu": cpu, "memory": "1Gi"})
    return usage.Pod(
        usage.Metadata(name="p", namespace="d", uid="1"),
        usage.PodSpec([usage.Container("c", requests)], node_name="n"),
        usage.PodStatus(phase),
    )


def test_the_counter_is_the_integral_of_a_changing_use() -> None:
    world = usage.Simulation()
    world.put_node(node(cpu="2", memory="1Gi"), 0)
    world.put_pod(pod("Pending", "500m"), 5)  # uses nothing yet
    world.put_pod(pod("Running", "500m"), 10)
    world.put_node(node(cpu="1", memory="1Gi"), 20)
    assert world.true_usage() == {"n": (1.5, 2 * GIB)}
    world.put_pod(pod("Succeeded", "500m"), 30)
    # 20 s of 2 cores, 20 s of 1 core, and the Pod's half core from 10 to 30
    assert world.kubelets["n"].meter.read(40) == pytest.approx(20 * 2 + 20 * 1 + 20 * 0.5)
    assert world.true_usage() == {"n": (1.0, GIB)}


def test_a_page_has_the_time_of_its_reading_unless_it_is_frozen() -> None:
    world = usage.Simulation()
    world.put_node(node(cpu="2", memory="1Gi"), 0)
    assert "node_cpu_usage_seconds_total 20.000000 10000\n" in world.kubelets["n"].page(10)
    world.put_node(node(cpu="4", memory="1Gi", readings=usage.FROZEN), 10)
    assert "node_cpu_usage_seconds_total 20.000000 10000\n" in world.kubelets["n"].page(20)
    world.put_node(node(cpu="4", memory="1Gi"), 20)
    assert "node_cpu_usage_seconds_total 60.000000 20000\n" in world.kubelets["n"].page(20)


@pytest.mark.parametrize(
    ("text", "value"),
    [("250m", 0.25), ("2", 2), ("3k", 3000), ("1Ki", 1024), ("1.5Gi", 1.5 * GIB), ("5n", 5e-9)],
)
def test_quantities(text: str, value: float) -> None:
    assert usage.quantity(text) == pytest.approx(value)
