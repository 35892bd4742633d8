"""Every case about a Pod that the first version covers, against the running server in embedded mode."""

import contextlib
import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from .cases import reviews
from .serving import Reply, Serving

Pod = dict[str, Any]
CASES = {case["id"]: case for case in reviews.load()}
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OWN = "trimtab.dev/"
AUDIT_KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

Servers = Callable[[reviews.Case], Serving]


@pytest.fixture(name="servers", scope="module")
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """One server for every different cluster, started when first asked for."""
    running: dict[str, Serving] = {}

    def server(case: reviews.Case) -> Serving:
        cluster = reviews.cluster_file(case)
        key = json.dumps(cluster, sort_keys=True)
        if key not in running:
            running[key] = Serving(cluster, tmp_path_factory.mktemp("cluster")).__enter__()
        return running[key]

    yield server
    for serving in running.values():
        serving.__exit__(None, None, None)


def send(server: Serving, case: reviews.Case) -> Reply:
    transport = case.get("transport", {})
    return server.post(reviews.body(case), content_type=transport.get("content_type", "application/json"))


def placement(patch: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [operation for operation in patch if not operation["path"].startswith("/metadata/annotations")]


def without_ours(pod: Pod, original: Pod) -> Pod:
    """Return a patched Pod less what we may touch, to hold against the original less the same."""
    rest = copy.deepcopy(pod)
    annotations = rest["metadata"].get("annotations") or {}
    rest["metadata"]["annotations"] = {
        key: text for key, text in annotations.items() if not key.startswith(OWN)
    }
    node_affinity = ((rest["spec"].get("affinity") or {}).get("nodeAffinity")) or {}
    had = ((original["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED) or []
    terms = node_affinity.get(PREFERRED) or []
    assert terms[: len(had)] == had, "the user's terms stay first, unchanged and in order"
    node_affinity.pop(PREFERRED, None)
    if not node_affinity and rest["spec"].get("affinity"):
        rest["spec"]["affinity"].pop("nodeAffinity", None)
    if not rest["spec"].get("affinity"):
        rest["spec"].pop("affinity", None)
    return rest


def injected(pod: Pod) -> list[dict[str, Any]]:
    terms = pod["spec"]["affinity"]["nodeAffinity"][PREFERRED]
    return [term for term in terms if "kubernetes.io/hostname" in json.dumps(term)]


def names(pod: Pod) -> set[str]:
    return {
        name
        for term in injected(pod)
        for expression in term["preference"]["matchExpressions"]
        for name in expression.get("values", ())
    }


def check(reply: Reply, case: reviews.Case) -> Pod | None:
    """Hold an answer to the case's outcome; return the patched Pod where there is one."""
    outcome, pod = case["outcome"], reviews.inflated(case)
    if outcome.startswith("http_"):
        assert reply.status == int(outcome.removeprefix("http_"))
        assert b"Traceback" not in reply.body
        return None
    if outcome == "no_patch_or_400" and reply.status == 400:
        return None
    assert reply.status == 200
    assert reply.response["allowed"] is True
    assert reply.response["uid"] == reviews.UID
    if outcome in ("no_patch", "not_called", "no_patch_or_400"):
        assert reply.patch == []
        return None
    patched: Pod = jsonpatch.apply_patch(pod, reply.patch)
    assert without_ours(patched, pod) == without_ours(pod, pod)
    if outcome == "skip":
        assert placement(reply.patch) == []
    if outcome == "patch":
        assert placement(reply.patch), "the Pod is steered"
        weights = [term["weight"] for term in injected(patched)]
        assert all(type(weight) is int and 1 <= weight <= 100 for weight in weights)
    return patched


SERVER_CASES = sorted(CASES.keys() - {"load-burst-500"})


@pytest.mark.parametrize("name", SERVER_CASES)
def test_the_case_holds_against_the_running_server(name: str, servers: Servers) -> None:
    case = CASES[name]
    server = servers(case)

    reply = send(server, case)
    patched = check(reply, case)

    if name in EXPECTED:
        EXPECTED[name](case, reply, patched or {})
    assert '"outcome": "failed"' not in server.log


def decision(pod: Pod) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(pod["metadata"]["annotations"]["trimtab.dev/decision"])
    return value


def reason(expected: str) -> Callable[[reviews.Case, Reply, Pod], None]:
    """The reason is on the Pod, where the Pod is ours; nothing at all where it is not."""

    def look(_case: reviews.Case, reply: Reply, pod: Pod) -> None:
        if reply.patch:
            assert decision(pod)["reason"] == expected

    return look


def paths(*expected: str) -> Callable[[reviews.Case, Reply, Pod], None]:
    def look(_case: reviews.Case, reply: Reply, _pod: Pod) -> None:
        found = [operation["path"] for operation in placement(reply.patch)]
        assert found in ([path] * len(found) for path in expected)

    return look


def _only_ssd(_case: reviews.Case, reply: Reply, pod: Pod) -> None:
    assert "requiredDuring" not in json.dumps(reply.patch)
    assert names(pod) == {"n1"}


def _no_tainted(_case: reviews.Case, _reply: Reply, pod: Pod) -> None:
    assert "n2" not in names(pod)


def _no_annotation(_case: reviews.Case, reply: Reply, _pod: Pod) -> None:
    assert all(not operation["path"].startswith("/metadata/annotations") for operation in reply.patch)


def _audit_keys(_case: reviews.Case, reply: Reply, _pod: Pod) -> None:
    audit = reply.response["auditAnnotations"]
    assert audit
    assert all(AUDIT_KEY.fullmatch(key) and isinstance(value, str) for key, value in audit.items())


def _keeps(*path: str | int) -> Callable[[reviews.Case, Reply, Pod], None]:
    def look(case: reviews.Case, _reply: Reply, pod: Pod) -> None:
        before: Any = case["pod"]
        after: Any = pod
        for part in path:
            before, after = before[part], after[part]
        assert after == before

    return look


def _no_ops_on_spread(_case: reviews.Case, reply: Reply, _pod: Pod) -> None:
    assert "topologySpread" not in json.dumps(reply.patch)


def _untouched(_case: reviews.Case, reply: Reply, _pod: Pod) -> None:
    assert reply.patch == []


EXPECTED: dict[str, Callable[[reviews.Case, Reply, Pod], None]] = {
    "shape-affinity-empty": paths("/spec/affinity/nodeAffinity"),
    "shape-affinity-null": paths("/spec/affinity"),
    "shape-nodeaffinity-empty": paths(f"/spec/affinity/nodeAffinity/{PREFERRED}"),
    "shape-preferred-empty-list": paths(f"/spec/affinity/nodeAffinity/{PREFERRED}/-"),
    "shape-preferred-null": paths(f"/spec/affinity/nodeAffinity/{PREFERRED}"),
    "shape-only-antiaffinity": paths("/spec/affinity/nodeAffinity"),
    "aff-user-preferred-strong": paths(f"/spec/affinity/nodeAffinity/{PREFERRED}/-"),
    "aff-user-required-one-term": _only_ssd,
    "aff-hostname-pinned": _untouched,
    "aff-tainted-node": _no_tainted,
    "skip-matchfields-no-owner": _untouched,
    "skip-mirror": _untouched,
    "skip-other-scheduler": _untouched,
    "skip-opt-out": _untouched,
    "gate-plain": _untouched,
    "gate-kueue": _untouched,
    "gate-and-nodename": _untouched,
    "ns-unlabelled": _untouched,
    "ns-own": _untouched,
    "state-no-nodes": reason("no-candidates"),
    # The case's Pod is what a second round sees; its spread constraints are all that it is about.
    "state-other-webhook-labels": _no_ops_on_spread,
    "audit-near-cap": _no_annotation,
    "audit-over-cap-already": _no_annotation,
    "audit-response-keys": _audit_keys,
    "keep-unknown-field": _keeps("spec", "futureKnob"),
    "keep-native-sidecar": _keeps("spec", "initContainers"),
    "keep-image-volume": _keeps("spec", "volumes"),
    "res-pod-level": _keeps("spec", "resources"),
}


def test_a_dry_run_gets_the_same_patch_and_leaves_no_reservation(servers: Servers) -> None:
    case = CASES["op-dry-run"]
    wet = copy.deepcopy(case) | {"request": {"dryRun": False}}
    server = servers(case)

    first, second = send(server, case), send(server, case)
    real = send(server, wet)

    assert placement(first.patch) == placement(second.patch) == placement(real.patch)


def test_the_body_of_the_largest_legal_review_leaves_nothing_behind(servers: Servers) -> None:
    case = CASES["req-6_5mib"]
    server = servers(case)
    status = Path(f"/proc/{server.process.pid}/status")

    def resident() -> int:
        return int(re.findall(r"VmRSS:\s+(\d+)", status.read_text())[0])

    for _ in range(20):
        send(server, case)
    before = resident()
    for _ in range(100):
        assert send(server, case).status == 200

    # Kept, they would come to 650 MB; what the allocator holds back varies by a few dozen.
    assert resident() < 2 * before


def test_a_body_over_the_cap_is_refused_before_it_is_sent(servers: Servers) -> None:
    server = servers(CASES["req-8mib"])
    connection = server.connect()
    try:
        connection.putrequest("POST", "/mutate")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(8 * 1024 * 1024))
        connection.endheaders()
        assert connection.getresponse().status == 413
    finally:
        connection.close()


def test_a_chunked_body_over_the_cap_is_refused(servers: Servers) -> None:
    server = servers(CASES["req-8mib"])
    connection = server.connect()
    try:
        chunks = (b"x" * 65536 for _ in range(8 * 16))
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.request("POST", "/mutate", chunks, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    finally:
        connection.close()


def test_a_burst_of_one_deployment_is_spread_over_the_names(servers: Servers) -> None:
    """No node is the first name more than twice as often as its fair share of 500 Pods.

    Its fair share is what it gets where each Pod goes to the node that is used least: a cold node is due
    more of them than a hot one.
    """
    case = CASES["load-burst-500"]
    server = servers(case)
    count = case["cluster"]["node_count"]
    used = {f"n{number + 1}": 500.0 + 6500 * (number % 7) // 7 for number in range(count)}
    fair = dict.fromkeys(used, 0)
    first = dict.fromkeys(used, 0)
    for number in range(case["transport"]["repeat"]):
        reply = server.post(reviews.body(case, uid=f"burst-{number}"))
        first[decision(jsonpatch.apply_patch(reviews.inflated(case), reply.patch))["names"][0][0]] += 1
        coolest = min(used, key=lambda name: used[name])
        used[coolest] += 250  # what a Pod that requests nothing is expected to use
        fair[coolest] += 1

    assert sum(first.values()) == 500
    assert all(first[name] <= max(1, 2 * fair[name]) for name in first)
