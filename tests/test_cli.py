"""The command line as processes: what it prints where, and what it exits with."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import webhook
from tests.builders import Json, make_node, make_pod, make_review, to_bytes
from tests.serving import Serving
from webhook.scorers import SCORERS

PATIENCE_S = 60
CLUSTER: Json = {"kind": "List", "items": [make_node("n1"), make_node("n2")]}
BAD_CLUSTER: Json = {"kind": "List", "items": [make_node("n1", cpu="eight"), {"kind": "Secret"}]}
BAD_POLICY = """\
apiVersion: trimtab.dev/v1alpha1
kind: ScoringPolicy
profile: {strength: 7}
usage: {staleAfter: 1}
"""


def trimtab(
    *arguments: str | Path, stdin: str = "", directory: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run to the end, in `directory` so that files are said by the relative paths that are given."""
    return subprocess.run(
        [sys.executable, "-m", "webhook.cli", *map(str, arguments)],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(Path(webhook.__file__).parents[1])},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def write(directory: Path, files: Mapping[str, str | bytes | Json]) -> None:
    for name, content in files.items():
        text = json.dumps(content) if isinstance(content, dict) else content
        (directory / name).write_bytes(text.encode() if isinstance(text, str) else text)


@contextmanager
def started(
    directory: Path, *arguments: str, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """Start `trimtab serve` over two nodes, ready; kill it at the end if it still runs."""
    write(directory, {"cluster.json": CLUSTER})
    command = [
        sys.executable,
        "-m",
        "webhook.cli",
        "serve",
        "--cluster",
        str(directory / "cluster.json"),
        *arguments,
    ]
    with subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def admin_port(process: subprocess.Popen[str]) -> int:
    """Return the port of the probes, which the log tells."""
    assert process.stderr is not None
    for line in process.stderr:
        if match := re.search(r"probes and metrics on http://127\.0\.0\.1:(\d+)$", line.rstrip()):
            return int(match[1])
    raise AssertionError("no line tells the port of the probes")


def ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    finally:
        connection.close()


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(option: str) -> None:
    whole, serve = trimtab(option), trimtab("serve", option)

    assert (whole.returncode, whole.stderr, serve.returncode, serve.stderr) == (0, "", 0, "")
    assert {"demo", "explain", "serve"} <= set(re.findall(r"^  (\w+) ", whole.stdout, re.MULTILINE))
    for name in (
        "--cluster",
        "--policy",
        "--host",
        "--port",
        "--admin-port",
        "--cert-dir",
        "--kubeconfig",
        "--follow",
    ):
        assert name in serve.stdout


def test_version() -> None:
    result = trimtab("--version")

    assert (result.returncode, result.stdout) == (0, f"trimtab, version {webhook.__version__}\n")


# Arguments that cannot be; the exit code and the last line.
USAGE: dict[str, tuple[list[str], str]] = {
    "an unknown command": (["server"], "Error: No such command 'server'."),
    "an unknown option": (["serve", "--clusters", "x"], "Error: No such option '--clusters'."),
    "a port that is no number": (
        ["serve", "--port", "https"],
        "Error: Invalid value for '--port': 'https' is not a valid integer.",
    ),
    "a port beyond the last": (
        ["serve", "--port", "65536"],
        "Error: Invalid value for '--port': 65536 is not in the range 0<=x<=65535.",
    ),
    "a port before the first": (
        ["serve", "--admin-port", "-1"],
        "Error: Invalid value for '--admin-port': -1 is not in the range 0<=x<=65535.",
    ),
    "a level that does not exist": (
        ["serve", "--log-level", "loud"],
        "Error: Invalid value for '--log-level': ",
    ),
}


@pytest.mark.parametrize(("arguments", "error"), USAGE.values(), ids=USAGE.keys())
def test_arguments_that_cannot_be(arguments: list[str], error: str) -> None:
    result = trimtab(*arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith(error[:40])


HEAD = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\n"

# Files and options; every line on stderr.
BAD: dict[str, tuple[dict[str, str | bytes | Json], Sequence[str], list[str]]] = {
    "both files are bad in several places": (
        {"c": BAD_CLUSTER, "p": BAD_POLICY},
        ["--cluster", "c", "--policy", "p"],
        [
            (
                "error: items[0].status.allocatable.cpu: expected a quantity such as 250m, 2 or 1.5Gi, "
                "found 'eight'"
            ),
            (
                "error: items[1].kind: expected one of Node, Pod, Namespace, PriorityClass, "
                "PersistentVolume, PersistentVolumeClaim, NodeMetrics, PodMetrics, ReplicaSet, StatefulSet, "
                "Job, found 'Secret'"
            ),
            "error: profile.strength: expected less than or equal to 1, found 7",
            "error: usage.staleAfter: unknown key",
        ],
    ),
    "only the policy is bad": (
        {"c": CLUSTER, "p": HEAD + "profile: {scorers: {utilisation: {}}}"},
        ["--cluster", "c", "--policy", "p"],
        ["error: profile.scorers.utilisation: unknown scorer; did you mean utilization?"],
    ),
    "only the cluster is bad": (
        {"c": "", "p": HEAD},
        ["--cluster", "c", "--policy", "p"],
        ["error: c: expected a List of Kubernetes objects: expected object, found null"],
    ),
    "keys that would forge a line": (
        {"c": CLUSTER, "p": HEAD + '"a\\nerror: b": 1\nprofile: {scorers: {"c\\nd": {}}}'},
        ["--cluster", "c", "--policy", "p"],
        [
            "error: a error: b: unknown key",
            f"error: profile.scorers.c d: unknown scorer; expected one of {', '.join(SCORERS)}",
        ],
    ),
    "neither is there": (
        {},
        ["--cluster", "c", "--policy", "p"],
        [
            "error: c: cannot be read: No such file or directory",
            "error: p: cannot be read: [Errno 2] No such file or directory: 'p'",
        ],
    ),
    "a bad policy and no cluster file": (
        {"p": "{"},
        ["--policy", "p"],
        ["error: policy.yaml: line 1: expected the node content, but found '<stream end>'"],
    ),
}


@pytest.mark.parametrize(("files", "options", "lines"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_said_at_once_one_line_a_problem(
    files: dict[str, str | bytes | Json],
    options: Sequence[str],
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path, files)

    result = trimtab("serve", *options, "--port", "0", directory=tmp_path)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == lines


@pytest.mark.parametrize("option", ["--port", "--admin-port"])
def test_a_port_in_use(option: str, tmp_path: Path) -> None:
    write(tmp_path, {"c": CLUSTER})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = trimtab(
            "serve", "--log-level", "warning", "--cluster", tmp_path / "c", "--port", "0", option, port
        )

    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: cannot listen on 127.0.0.1:")
    assert f"('127.0.0.1', {port})" in line


def test_no_cluster_at_all(tmp_path: Path) -> None:
    result = trimtab("serve", "--port", "0", "--admin-port", "0")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].startswith("error: no access to a cluster (give --kubeconfig FILE")
    assert "Traceback" not in result.stderr


# name: (arguments, what the error names)
MISUSED = {
    "a kubeconfig that is not there": (["--kubeconfig", "none"], "'none' does not exist"),
    "a file and a cluster": (["--cluster", "c.json", "--kubeconfig", __file__], "leave out --kubeconfig"),
    "events for a cluster": (["--follow"], "--follow and --cert-dir go with --cluster"),
    "a directory for a cluster": (["--cert-dir", "d"], "--follow and --cert-dir go with --cluster"),
    "a port out of range": (["--port", "65536"], "0<=x<=65535"),
}


@pytest.mark.parametrize(("arguments", "want"), MISUSED.values(), ids=MISUSED.keys())
def test_options_that_do_not_go_together(arguments: list[str], want: str) -> None:
    result = trimtab("serve", *arguments)

    assert (result.returncode, result.stdout) == (2, "")
    assert want in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_one_line_is_all_that_it_printed(number: signal.Signals, tmp_path: Path) -> None:
    with started(tmp_path, "--port", "0", "--cert-dir", str(tmp_path / "certs")) as process:
        line = first_line(process)
        assert ready(admin_port(process))
        process.send_signal(number)
        rest, log = process.communicate(timeout=PATIENCE_S)

    assert re.fullmatch(r"listening on https://127\.0\.0\.1:\d+/mutate\n", line)
    assert (process.returncode, rest) == (0, "")
    assert "Traceback" not in log


def test_a_signal_that_comes_with_the_announcement(tmp_path: Path) -> None:
    with started(tmp_path, "--port", "0") as process:
        first_line(process)
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 0


def test_a_kubeconfig_that_is_no_yaml(tmp_path: Path) -> None:
    write(tmp_path, {"kubeconfig": "clusters: ["})

    result = trimtab("serve", "--port", "0", "--admin-port", "0", "--kubeconfig", tmp_path / "kubeconfig")

    assert (result.returncode, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: no access to a cluster (")


def test_it_ends_though_clients_hold_connections(tmp_path: Path) -> None:
    with Serving(CLUSTER, tmp_path) as serving:
        idle, half = serving.connect(), serving.connect()
        try:
            idle.request("GET", "/mutate")
            assert idle.getresponse().read()
            half.connect()
            half.sock.sendall(b"POST /mutate HTTP/1.1\r\nHost:")
            serving.process.terminate()
            assert serving.process.wait(timeout=PATIENCE_S) == 0
        finally:
            idle.close()
            half.close()


def test_ports_that_are_asked_for(tmp_path: Path, unused_tcp_port_factory: Callable[[], int]) -> None:
    port, admin = unused_tcp_port_factory(), unused_tcp_port_factory()
    with started(tmp_path, "--port", str(port), "--admin-port", str(admin)) as process:
        assert first_line(process) == f"listening on https://127.0.0.1:{port}/mutate\n"
        assert admin_port(process) == admin
        assert ready(admin)


def test_a_certificate_directory_is_used_again(tmp_path: Path) -> None:
    body = to_bytes(make_review(make_pod(cpu="1")))
    with Serving(CLUSTER, tmp_path) as first:
        kept = (tmp_path / "certs" / "tls.crt").read_bytes()
        trust = first.context
        assert first.post(body).status == 200

    with Serving(CLUSTER, tmp_path) as second:
        second.context = trust
        assert second.post(body).status == 200
    assert (tmp_path / "certs" / "tls.crt").read_bytes() == kept


def test_a_certificate_directory_that_is_none(tmp_path: Path) -> None:
    write(tmp_path, {"c": CLUSTER, "certs": ""})

    result = trimtab("serve", "--cluster", tmp_path / "c", "--port", "0", "--cert-dir", tmp_path / "certs")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1].startswith("error: [Errno 20] Not a directory: ")
    assert "Traceback" not in result.stderr


def test_explain_prints_one_object(tmp_path: Path) -> None:
    write(tmp_path, {"c": CLUSTER, "p": make_pod(cpu="1", nodeSelector={"disk": "ssd"})})

    result = trimtab("explain", "--cluster", tmp_path / "c", "-f", tmp_path / "p", "-o", "json")

    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert [(node["name"], node["feasible"]) for node in found["nodes"]] == [("n1", False), ("n2", False)]
    assert (found["outcome"], found["reason"]) == ("skipped", "no-candidates")


def test_explain_prints_a_table_under_a_policy_from_standard_input(tmp_path: Path) -> None:
    policy = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\nprofile: {scorers: {utilization: {}}}\n"
    write(tmp_path, {"c": CLUSTER, "policy": policy})
    pod = json.dumps({"kind": "Pod", "spec": {}})

    result = trimtab(
        "explain", "--cluster", tmp_path / "c", "-f", "-", "--policy", tmp_path / "policy", stdin=pod
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert re.search(r"^node +weight +score +utilization +used +used *$", result.stdout, re.MULTILINE)
    assert "Outcome: skipped: equal-scores" in result.stdout


# Files and further options; the exit code, what is on stdout, and what is on stderr.
EXPLAINED: dict[str, tuple[dict[str, str | bytes | Json], list[str], int, str, list[str]]] = {
    "both files of the cluster are bad": (
        {"c": BAD_CLUSTER, "policy": HEAD + "usage: {staleAfter: 1}", "p": make_pod()},
        ["--policy", "policy"],
        2,
        "",
        ["error: items[0].status.allocatable.cpu: ", "error: items[1].kind: ", "error: usage.staleAfter: "],
    ),
    "the Pod is bad": (
        {"c": CLUSTER, "p": "kind: Job\nspec: {template: {spec: {containers: web}}}"},
        [],
        2,
        "",
        ["error: p: spec.template.spec.containers: expected array | null, found str"],
    ),
    "another namespace": (
        {"c": CLUSTER, "p": make_pod()},
        ["-n", "other"],
        2,
        "",
        ["error: p: metadata.namespace: expected other, as -n says, found shop"],
    ),
    "a quantity that is none": (
        {"c": CLUSTER, "p": make_pod(cpu="lots")},
        [],
        0,
        "\nOutcome: skipped: bad-quantity\n",
        ["warning: p: spec.containers[0].resources.requests.cpu: expected a quantity such as "],
    ),
}


@pytest.mark.parametrize(
    ("files", "options", "code", "stdout", "stderr"), EXPLAINED.values(), ids=EXPLAINED.keys()
)
def test_explain_says_what_is_wrong(
    files: dict[str, str | bytes | Json],
    options: list[str],
    code: int,
    stdout: str,
    stderr: list[str],
    tmp_path: Path,
) -> None:
    write(tmp_path, files)

    result = trimtab("explain", "--cluster", "c", "-f", "p", *options, directory=tmp_path)

    assert (result.returncode, result.stdout) == (code, stdout)
    lines = result.stderr.splitlines()
    assert len(lines) == len(stderr)
    assert all(line.startswith(start) for line, start in zip(lines, stderr, strict=True))


def metric(port: int, name: str) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")))


def bound(uid: str) -> str:
    return json.dumps({"type": "ADDED", "object": make_pod(uid=uid, node="n1", cpu="1")})


def until_pods(port: int, count: int, process: subprocess.Popen[str]) -> None:
    while metric(port, "trimtab_pods") != count:
        assert process.poll() is None


def test_events_on_standard_input_count_as_they_come(tmp_path: Path) -> None:
    with started(tmp_path, "--port", "0", "--follow", stdin=subprocess.PIPE) as process:
        assert first_line(process).startswith("listening on ")
        port = admin_port(process)
        assert process.stdin is not None
        for text, count in ((f"{bound('a')}\nno event\n", 1), (f"{bound('b')}\n{bound('c')[:30]}", 2)):
            process.stdin.write(text)
            process.stdin.flush()
            until_pods(port, count, process)
        process.stdin.write(bound("c")[30:])
        process.stdin.close()  # the last line has no end
        process.stdin = None
        until_pods(port, 3, process)
        assert ready(port)

        process.terminate()
        rest, log = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, rest) == (0, "")
    assert log.count("follow: a line is no watch event of a Pod or Node: ") == 1


def test_events_from_a_file(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.write_text(f"{bound('a')}\n{bound('b')}\n")

    with events.open() as file, started(tmp_path, "--port", "0", "--follow", stdin=file.fileno()) as process:
        assert first_line(process).startswith("listening on ")
        port = admin_port(process)
        until_pods(port, 2, process)
        process.terminate()
        _, log = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0
    assert "Traceback" not in log


def test_it_ends_though_standard_input_stays_open(tmp_path: Path) -> None:
    with started(tmp_path, "--port", "0", "--follow", stdin=subprocess.PIPE) as process:
        first_line(process)
        assert ready(admin_port(process))
        process.terminate()
        assert process.wait(timeout=PATIENCE_S) == 0
