"""Something breaks while Pods are created: none is refused, and steering resumes by itself."""

import base64
import ssl
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from certs import pki

from ..builders import make_pod
from ..cluster import parts, topology, usage, waiting
from ..cluster.control_plane import ControlPlane
from ..cluster.simulation import Simulation
from ..cluster.trimtab import NAME, NAMESPACE, WEBHOOK, Trimtab
from . import balance, policies
from .bursts import STEERED
from .conftest import Json, MakeNamespace, counted, create, decision, terms
from .policies import decided_now

BURST = 300
KILLED_AFTER = 60  # Pods
WITHIN_S = 90

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/trimtab-tls"
CANNOT_WRITE = "answered 403"
BAD_POLICY = "the one before stays"
NO_READINGS = "no node has a fresh reading any more"
STALE_AFTER_S = 12  # more than metrics-server's own ten seconds between readings
SERVICE_NAMES = pki.service_names(NAME, NAMESPACE)

# The server looks at its Secret once a minute; a test need not wait for that.
IMPATIENT = """
import sys
from webhook import cli, incluster
incluster.CERT_CHECK_S = 0.5
sys.argv[0] = "trimtab"
cli.main()
"""


def test_a_crash_in_the_middle_of_a_burst_refuses_no_pod(
    plane: ControlPlane, trimtab: Trimtab, make_namespace: MakeNamespace
) -> None:
    namespace = make_namespace("enabled")
    rejected, failed_open = rejections(plane), fail_opens(plane)

    for workload in balance.workloads(BURST, seed=4):
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
        plane.request("POST", path, balance.manifest(workload))
    waiting.until(
        lambda: len(balance.pods(plane, namespace)) >= KILLED_AFTER,
        f"{KILLED_AFTER} Pods created",
        timeout_s=WITHIN_S,
        poll_s=0.01,
    )
    trimtab.kill()
    pods = waiting.until(
        lambda: bound(plane, namespace, BURST), f"{BURST} Pods bound", timeout_s=balance.BOUND_WITHIN_S
    )

    steered = [pod for pod in pods if terms(pod)]
    print(f"steered {len(steered)}, admitted without the webhook {len(pods) - len(steered)}", flush=True)
    assert 0 < len(steered) < BURST
    assert all((decision(pod) is not None) == bool(terms(pod)) for pod in pods)
    assert refusals(plane, namespace) == []
    assert rejections(plane) == rejected
    assert fail_opens(plane) >= failed_open + BURST - len(steered)

    trimtab.start_replica()
    waiting.until(lambda: is_steered(plane), "steering resumes", timeout_s=WITHIN_S)
    later = balance.Workload("later", replicas=30, cpu_milli=100, memory_mib=100)
    plane.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", balance.manifest(later))
    pods = waiting.until(
        lambda: bound(plane, namespace, BURST + 30), "30 more Pods bound", timeout_s=WITHIN_S
    )
    assert len([pod for pod in pods if terms(pod)]) == len(steered) + 30


def test_a_burst_goes_on_through_a_crash_and_a_restart(
    plane: ControlPlane, trimtab: Trimtab, make_namespace: MakeNamespace
) -> None:
    namespace, rejected = make_namespace("enabled"), rejections(plane)

    for number in range(BURST):
        create(plane, make_pod(name=f"web-{number}", namespace=namespace, cpu="10m"))
        if number == BURST // 3:
            trimtab.kill()
            trimtab.replicas[0].process.start()
    waiting.until(lambda: is_steered(plane), "steering resumes", timeout_s=WITHIN_S)
    create(plane, make_pod(name="last", namespace=namespace, cpu="10m"))
    pods = waiting.until(
        lambda: bound(plane, namespace, BURST + 1), f"{BURST + 1} Pods bound", timeout_s=WITHIN_S
    )

    steered = {pod["metadata"]["name"] for pod in pods if terms(pod)}
    print(f"steered {len(steered)} of {len(pods)}", flush=True)
    assert {f"web-{number}" for number in range(BURST // 3)} <= steered
    assert "last" in steered
    assert f"web-{BURST // 3 + 1}" not in steered
    assert rejections(plane) == rejected


@pytest.fixture
def impatient(trimtab: Trimtab) -> Iterator[None]:
    """The replica looks at its Secret twice a second."""
    process = trimtab.replicas[0].process
    usual = process.argv
    trimtab.kill()
    process.argv = [sys.executable, "-c", IMPATIENT, *usual[1:]]
    trimtab.start_replica()
    trimtab.wait_called()
    yield
    trimtab.kill()
    process.argv = usual
    trimtab.start_replica()
    trimtab.wait_called()


def other_pair() -> dict[str, bytes]:
    """Return a serving pair that another authority signed for our names."""
    now = datetime.now(UTC)
    leaf = pki.make_leaf(pki.make_ca(now=now), dns_names=SERVICE_NAMES, now=now)
    return {"tls.crt": leaf.cert_pem, "tls.key": leaf.key_pem}


DAMAGE: dict[str, dict[str, bytes]] = {
    "the key of another pair": {"tls.key": other_pair()["tls.key"]},
    "the certificate of another pair": {"tls.crt": other_pair()["tls.crt"]},
    "a pair that our authority did not sign": other_pair(),
    "no certificate at all": {"tls.crt": b"hello"},
    "an empty key": {"tls.key": b""},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_pair_is_replaced_and_every_pod_is_decided_meanwhile(
    name: str, plane: ControlPlane, trimtab: Trimtab, impatient: None
) -> None:
    before = secret(plane)

    write_secret(plane, DAMAGE[name])
    hold_until(lambda: is_served(plane, trimtab), lambda: is_decided(plane), "a new pair served")

    assert is_decided(plane)
    after = secret(plane)
    assert after["ca.crt"] == before["ca.crt"]
    assert after["tls.crt"] != before["tls.crt"]


def test_a_damaged_pair_that_cannot_be_replaced_leaves_the_old_one_serving(
    plane: ControlPlane, trimtab: Trimtab, impatient: None
) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles/{NAME}"
    rules, before = plane.request("GET", path)["rules"], secret(plane)
    log = trimtab.replicas[0].process.log
    said = log.read_text().count(CANNOT_WRITE)
    only_read = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "update"]} for rule in rules]

    plane.request("PATCH", path, {"rules": only_read})
    try:
        write_secret(plane, {"tls.key": other_pair()["tls.key"]})
        # Twice, so that what the first turn left behind is seen too.
        hold_until(
            lambda: log.read_text().count(CANNOT_WRITE) >= said + 2,
            lambda: is_decided(plane),
            "two attempts to replace it",
        )
        assert is_serving(trimtab, before["tls.crt"])
        assert not is_sound(plane)
    finally:
        plane.request("PATCH", path, {"rules": rules})
    waiting.until(lambda: is_served(plane, trimtab), "a new pair served", timeout_s=WITHIN_S)
    assert is_decided(plane)


def test_an_emptied_secret_is_filled_anew_and_steering_resumes(
    plane: ControlPlane, trimtab: Trimtab, impatient: None
) -> None:
    before = secret(plane)

    plane.request("PATCH", SECRET, {"data": None})
    waiting.until(lambda: is_sound(plane), "the Secret filled", timeout_s=WITHIN_S)
    waiting.until(lambda: is_served(plane, trimtab), "the new pair served", timeout_s=WITHIN_S)
    waiting.until(lambda: is_decided(plane), "steering resumes", timeout_s=WITHIN_S)

    assert secret(plane)["ca.crt"] != before["ca.crt"]


def test_without_its_config_map_decisions_go_on_with_the_built_in_policy(
    plane: ControlPlane, trimtab: Trimtab, custom_policy: None
) -> None:
    assert decided_now(plane)["policy"] == "custom"

    plane.request("DELETE", policies.CONFIG_MAP)
    hold_until(
        lambda: decided_now(plane)["hash"] == "built-in",
        lambda: decided_now(plane)["outcome"] == "steered",
        "the built-in policy in force",
    )
    assert decided_now(plane)["policy"] == "built-in"

    policies.write(plane, "custom")
    hold_until(
        lambda: decided_now(plane)["policy"] == "custom",
        lambda: decided_now(plane)["outcome"] == "steered",
        "the policy followed again",
    )


def test_a_policy_that_cannot_be_read_leaves_the_last_good_one_in_force(
    plane: ControlPlane, trimtab: Trimtab, custom_policy: None
) -> None:
    log = trimtab.replicas[0].process.log
    said, good = log.read_text().count(BAD_POLICY), decided_now(plane)

    plane.request(
        "PATCH",
        policies.CONFIG_MAP,
        {"data": {"policy.yaml": "kind: ScoringPolicy\nprofile: {strength: 7}\n"}},
    )
    hold_until(
        lambda: log.read_text().count(BAD_POLICY) > said,
        lambda: decided_now(plane)["hash"] == good["hash"],
        "the bad policy noticed",
    )

    assert decided_now(plane)["hash"] == good["hash"]


def test_after_a_crash_of_the_api_server_steering_resumes_and_bindings_are_seen(
    plane: ControlPlane, trimtab: Trimtab, make_namespace: MakeNamespace
) -> None:
    plane.restart("kube-apiserver", kill=True)
    waiting.until(lambda: is_steered(plane), "steering resumes", timeout_s=WITHIN_S)
    namespace = make_namespace("enabled")

    create(plane, make_pod(namespace=namespace))

    waiting.until(lambda: bound(plane, namespace, 1), "the Pod bound", timeout_s=WITHIN_S)
    waiting.until(
        lambda: known_pods(trimtab) == all_bound(plane),
        "every bound Pod known",
        timeout_s=WITHIN_S,
        state=lambda: f"{known_pods(trimtab)} of {all_bound(plane)}",
    )


def test_without_its_source_of_readings_decisions_go_on_by_requests_and_say_so(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    trimtab: Trimtab,
    custom_policy: None,
) -> None:
    policies.write(
        plane, "impatient", usage={"staleAfterSeconds": STALE_AFTER_S}, audit={"verbosity": "full"}
    )
    log = trimtab.replicas[0].process.log
    said = log.read_text().count(NO_READINGS)
    seen: list[Json] = []

    def all_are(state: str) -> bool:
        seen.append(decided_now(plane))
        count: int = seen[-1]["nodes"][state]
        return seen[-1]["policy"] == "impatient" and count == len(nodes)

    def wait_for(state: str) -> Json:
        waiting.until(
            lambda: all_are(state), f"every reading {state}", timeout_s=WITHIN_S, state=lambda: seen[-1]
        )
        return seen[-1]

    # With readings the idle ones are named, by their use.
    assert max(nodes[name].base_cores / nodes[name].cores for name in first_names(wait_for("fresh"))) < 0.3
    simulation.metrics_server.stop()
    try:
        stale = wait_for("stale")
        print(f"without metrics-server: {stale}", flush=True)
        metrics = trimtab.metrics()
        assert metrics['trimtab_usage_poll_failures_total{source="metrics.k8s.io"}'] > 0
        assert metrics['trimtab_usage_source_up{source="metrics.k8s.io"}'] == 0
        assert metrics['trimtab_nodes{usage="stale"}'] == len(nodes)
        # It looks once a second.
        waiting.until(
            lambda: log.read_text().count(NO_READINGS) > said, "a line in the log", timeout_s=WITHIN_S
        )
    finally:
        simulation.metrics_server.start()
    # By what Pods request, where nothing runs but the one that asks: the larger nodes, whatever they use.
    assert {nodes[name].cores for name in first_names(stale)} == {16}
    assert max(nodes[name].base_cores / nodes[name].cores for name in first_names(wait_for("fresh"))) < 0.3
    assert log.read_text().count(NO_READINGS) == said + 1
    assert trimtab.metrics()['trimtab_usage_source_up{source="metrics.k8s.io"}'] == 1
    assert {one["outcome"] for one in seen} == {"steered"}


def test_no_node_is_named_because_it_is_unknown(
    plane: ControlPlane,
    simulation: Simulation,
    nodes: dict[str, topology.SimulatedNode],
    trimtab: Trimtab,
    custom_policy: None,
) -> None:
    policies.write(plane, "impatient", usage={"staleAfterSeconds": STALE_AFTER_S})
    policies.wait_for(plane, "impatient")
    load = {name: node.base_cores / node.cores for name, node in nodes.items()}
    # The hottest must not look idle; and of one of the coolest nobody knows any more that it is.
    hot = sorted(nodes, key=lambda name: -load[name])[:10]
    cool = min(nodes, key=lambda name: load[name])
    silent = {*hot, cool}

    def wait_for(**counts: int) -> Json:
        waiting.until(
            lambda: counts.items() <= decided_now(plane)["nodes"].items(), f"{counts}", timeout_s=WITHIN_S
        )
        return create(plane, make_pod(namespace=STEERED, cpu="10m"), dry_run=True)

    assert cool in hosts(wait_for(fresh=len(nodes)))
    try:
        for name in silent:
            simulation.set_readings(name, usage.SILENT)
        named = hosts(wait_for(fresh=len(nodes) - len(silent), stale=len(silent)))
        assert len(named) > 10
        assert not named & silent
    finally:
        for name in silent:
            simulation.set_readings(name, None)
    assert cool in hosts(wait_for(fresh=len(nodes)))


def first_names(decided: Json) -> set[str]:
    return {name for name, _, _ in decided["names"]}


def hosts(pod: Json) -> set[str]:
    """Return all hosts that the Pod's preferred terms name."""
    return {
        value
        for term in terms(pod)
        for expression in term["preference"]["matchExpressions"]
        for value in expression["values"]
    }


@pytest.fixture
def custom_policy(plane: ControlPlane, trimtab: Trimtab) -> Iterator[None]:
    """A policy of the user's own is in force; afterwards there is none again, as after the installation."""
    policies.write(plane, "custom")
    policies.wait_for(plane, "custom")
    yield
    policies.remove(plane)


def hold_until(check: Callable[[], bool], holds: Callable[[], bool], what: str) -> None:
    """Wait for something; until then the other must hold at every turn."""

    def turn() -> bool:
        assert holds()
        return check()

    waiting.until(turn, what, timeout_s=WITHIN_S, poll_s=0.05)


def is_decided(plane: ControlPlane) -> bool:
    return decision(create(plane, make_pod(namespace=STEERED), dry_run=True)) is not None


def is_steered(plane: ControlPlane) -> bool:
    return bool(terms(create(plane, make_pod(namespace=STEERED), dry_run=True)))


def bound(plane: ControlPlane, namespace: str, count: int) -> list[Json]:
    pods = balance.pods(plane, namespace)
    done = [pod for pod in pods if pod["spec"].get("nodeName")]
    return done if len(done) == count else []


def all_bound(plane: ControlPlane) -> int:
    pods = plane.request("GET", "/api/v1/pods")["items"]
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods)


def known_pods(trimtab: Trimtab) -> float:
    return trimtab.metrics()["trimtab_pods"]


def refusals(plane: ControlPlane, namespace: str) -> list[str]:
    """Return what the controllers say of Pods that they could not create."""
    events = plane.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
    sets = plane.request("GET", f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    return [event["message"] for event in events if event["reason"] == "FailedCreate"] + [
        condition["message"]
        for item in sets
        for condition in item["status"].get("conditions", [])
        if condition["type"] == "ReplicaFailure"
    ]


def rejections(plane: ControlPlane) -> float:
    """Count the requests that the API server refused because of the webhook."""
    return counted(plane, "apiserver_admission_webhook_rejection_count", f'name="{WEBHOOK}"')


def fail_opens(plane: ControlPlane) -> float:
    """Count the calls that failed, and were let through."""
    return counted(plane, "apiserver_admission_webhook_fail_open_count", f'name="{WEBHOOK}"')


def secret(plane: ControlPlane) -> dict[str, bytes]:
    data = plane.request("GET", SECRET).get("data") or {}
    return {key: base64.b64decode(value) for key, value in data.items()}


def write_secret(plane: ControlPlane, data: dict[str, bytes]) -> None:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    plane.request("PATCH", SECRET, {"data": encoded})


def is_sound(plane: ControlPlane) -> bool:
    """Tell whether the Secret holds a pair that serves our names under the authority beside it."""
    data = secret(plane)
    leaf = pki.Pair(cert_pem=data.get("tls.crt", b""), key_pem=data.get("tls.key", b""))
    ca_pem, now = data.get("ca.crt", b""), datetime.now(UTC)
    return pki.find_problem(leaf, ca_pem=ca_pem, dns_names=SERVICE_NAMES, now=now) is None


def is_served(plane: ControlPlane, trimtab: Trimtab) -> bool:
    """Tell whether the Secret is sound and its pair is what a new connection is shown."""
    return is_sound(plane) and is_serving(trimtab, secret(plane)["tls.crt"])


def is_serving(trimtab: Trimtab, certificate: bytes) -> bool:
    shown = ssl.get_server_certificate((parts.LOOPBACK, trimtab.replicas[0].port))
    return ssl.PEM_cert_to_DER_cert(shown) == ssl.PEM_cert_to_DER_cert(certificate.decode())
