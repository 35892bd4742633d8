"""The simulated cluster keeps what its users rely on."""

import json
from typing import Any

import pytest

from . import process, usage, waiting
from .client import ApiError
from .control_plane import ControlPlane, KubectlError
from .simulation import Simulation

WITHIN_S = 60


def deployment(name: str, *, replicas: int, cpu: str, annotations: dict[str, str] | None = None) -> str:
    labels = {"app": name}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": "256Mi"}}}
    template = {
        "metadata": {"labels": labels, "annotations": annotations or {}},
        "spec": {"containers": [container]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return json.dumps(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    )


def running(control_plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    pods = control_plane.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [pod for pod in pods if pod["status"]["phase"] == "Running"]


def test_every_part_is_the_real_one(control_plane: ControlPlane) -> None:
    versions = json.loads(control_plane.kubectl("version", "-o", "json"))
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"] == "v1.36.3"


def test_nodes_are_ready_and_spread_over_three_zones(
    control_plane: ControlPlane, simulation: Simulation
) -> None:
    nodes = control_plane.request("GET", "/api/v1/nodes")["items"]
    assert {node["metadata"]["name"] for node in nodes} == simulation.schedulable()
    assert {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes} == {"a", "b", "c"}


def test_pods_are_bound_run_and_are_deleted(
    control_plane: ControlPlane, simulation: Simulation, namespace: str
) -> None:
    control_plane.kubectl(
        "-n", namespace, "apply", "-f", "-", input=deployment("web", replicas=30, cpu="100m")
    )
    waiting.until(lambda: len(running(control_plane, namespace)) == 30, "30 Pods running", timeout_s=WITHIN_S)
    assert {pod["spec"]["nodeName"] for pod in running(control_plane, namespace)} <= simulation.schedulable()
    control_plane.kubectl("-n", namespace, "delete", "deployment", "web")
    waiting.until(lambda: not running(control_plane, namespace), "no Pod running", timeout_s=WITHIN_S)


def test_a_job_completes(control_plane: ControlPlane, simulation: Simulation, namespace: str) -> None:
    control_plane.kubectl("-n", namespace, "create", "job", "once", "--image=none")
    control_plane.kubectl("-n", namespace, "wait", "job/once", "--for=condition=Complete", "--timeout=60s")


def test_metrics_server_tells_hidden_load_and_pods(
    control_plane: ControlPlane, simulation: Simulation, namespace: str
) -> None:
    """A Pod uses what its annotation says, not what it asks for, and the readings show it."""
    before = simulation.true_usage()
    applied = deployment(
        "busy", replicas=10, cpu="100m", annotations={usage.CPU: "700m", usage.MEMORY: "1Gi"}
    )
    control_plane.kubectl("-n", namespace, "apply", "-f", "-", input=applied)
    waiting.until(lambda: len(running(control_plane, namespace)) == 10, "10 Pods running", timeout_s=WITHIN_S)
    waiting.until(
        lambda: (
            sum(cores for cores, _ in simulation.true_usage().values())
            == pytest.approx(sum(cores for cores, _ in before.values()) + 10 * 0.7)
        ),
        "the Pods' use on the nodes",
        timeout_s=WITHIN_S,
    )
    true = simulation.true_usage()
    waiting.until(
        lambda: (
            all(
                measured == pytest.approx(true[node], rel=0.1)
                for node, measured in simulation.measured_usage().items()
            )
            and simulation.measured_usage().keys() == true.keys()
        ),
        "readings within a tenth of the truth",
        timeout_s=WITHIN_S,
        state=lambda: (true, simulation.measured_usage()),
    )
    assert "node-00" in control_plane.kubectl("top", "nodes")


def test_a_service_account_has_only_its_own_rights(control_plane: ControlPlane, namespace: str) -> None:
    path = control_plane.service_account_kubeconfig(namespace, "default")
    answer = control_plane.kubectl(f"--kubeconfig={path}", "auth", "whoami", "-o", "json")
    assert (
        json.loads(answer)["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"
    )
    with pytest.raises(KubectlError, match="Forbidden"):
        control_plane.kubectl(f"--kubeconfig={path}", "get", "nodes")


def test_it_survives_a_killed_part_and_leaves_nothing_behind() -> None:
    plane = ControlPlane()
    with plane:
        pids = [part.pid for part in plane.processes()]
        plane.restart("etcd", kill=True)
        plane.restart("kube-apiserver", kill=True)
        pids += [part.pid for part in plane.processes()]
        assert plane.request("GET", "/api/v1/namespaces/default")["metadata"]["name"] == "default"
    assert [pid for pid in pids if process.began(pid) is not None] == []
    assert not plane.directory.exists()
    with pytest.raises((OSError, ApiError)):
        plane.request("GET", "/readyz")
