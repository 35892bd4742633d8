"""The demo: its measures, its words, its replay, and the whole of it with the real server."""

import io
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from tests.builders import decode_pod, patch_in
from webhook import admission, clusterfile, policy
from webhook.demo import command, replay, report, server, workload
from webhook.demo.replay import IN_FLIGHT, Balance, Moment, Run
from webhook.demo.report import Result
from webhook.demo.workload import Workload

Object = dict[str, Any]


class InProcess:
    """The webhook without a server: the same decisions, and the events applied at once."""

    def __init__(self, generated: Workload, directory: Path) -> None:
        path = directory / "cluster.json"
        path.write_text(json.dumps(generated.cluster()))
        self.cluster = clusterfile.load(path)
        self.events: list[tuple[str, str, str | None]] = []

    def admit(self, review: Object) -> list[Object]:
        clock = admission.Clock(0.0, "2026-01-01T00:00:00Z")
        answer = admission.respond(json.dumps(review).encode(), self.cluster, policy.default(), clock)
        return patch_in(answer.body)

    def watch_event(self, kind: str, item: Object) -> None:
        self.events.append((kind, item["metadata"]["uid"], item["spec"].get("nodeName")))
        self.cluster.set_pod(decode_pod(item), 0.0)


def nothing() -> None:
    return None


def replayed(nodes: int, pods: int, seed: int, directory: Path) -> tuple[Result, InProcess]:
    generated = workload.generate(nodes, pods, seed)
    steering = InProcess(generated, directory)
    result = Result(
        seed,
        generated,
        replay.scheduled(generated, seed, nothing, shown=pods // 2),
        replay.scheduled(generated, seed, nothing, shown=pods // 2, steering=steering),
        replay.ideal(generated, nothing),
        seconds=1.0,
    )
    return result, steering


def test_the_balance_of_known_utilizations() -> None:
    """Mean 0.5; deviations 0.4, 0.1, 0.1, 0.4: variance 0.34 / 4; above 80 % is one."""
    balance = Balance.of(np.array([0.1, 0.4, 0.6, 0.9]))
    assert balance.sigma == pytest.approx((0.34 / 4) ** 0.5)
    # Linear between the third, 0.6, and the fourth, 0.9: at 0.95 x 3 = 2.85 and at 0.99 x 3 = 2.97.
    assert balance.p95 == pytest.approx(0.855)
    assert balance.p99 == pytest.approx(0.891)
    assert balance.hot_nodes == 1
    assert Balance.of(np.array([0.8, 0.80001])).hot_nodes == 1


@pytest.mark.parametrize(
    ("stock", "steered", "ideal", "expected"),
    [(0.25, 0.25, 0.05, 0.0), (0.25, 0.15, 0.05, 0.5), (0.25, 0.05, 0.05, 1.0), (0.25, 0.35, 0.05, -0.5)],
)
def test_efficiency(stock: float, steered: float, ideal: float, expected: float) -> None:
    runs = [Balance(sigma, 0.0, 0.0, 0) for sigma in (stock, steered, ideal)]
    assert replay.efficiency(*runs) == pytest.approx(expected)


def test_there_is_no_efficiency_where_nothing_can_be_gained() -> None:
    even = Balance(0.1, 0.0, 0.0, 0)
    assert replay.efficiency(even, even, even) is None


def test_the_histogram_counts_every_node_once() -> None:
    used = np.array([0.0, 0.05, 0.1, 0.100001, 0.3, 0.95, 1.0, 1.2])
    assert report.histogram(used) == [3, 1, 1, 0, 0, 0, 0, 0, 0, 2, 1]


def test_steering_reaches_nearly_the_ideal(tmp_path: Path) -> None:
    reached = []
    for seed in (1, 2, 3):
        result, _ = replayed(100, 600, seed, tmp_path)
        assert result.steered.outcomes == {"steered": 600}
        assert result.efficiency is not None
        reached.append(result.efficiency)
    assert median(reached) >= 0.95


def test_the_server_hears_of_a_binding_a_few_pods_late(tmp_path: Path) -> None:
    _, steering = replayed(10, 20, 1, tmp_path)
    kinds = [(kind, uid) for kind, uid, _ in steering.events]
    for number in range(20):
        pending = kinds.index(("ADDED", f"pod-{number:06d}"))
        assert steering.events[pending][2] is None
        if number + IN_FLIGHT < 20:
            bound = kinds.index(("MODIFIED", f"pod-{number:06d}"))
            assert steering.events[bound][2] is not None
            assert kinds[bound - 1] == ("ADDED", f"pod-{number + IN_FLIGHT:06d}")
    assert steering.cluster.ledger.in_flight == IN_FLIGHT


def test_pods_that_fit_nowhere_are_counted_and_never_bound(tmp_path: Path) -> None:
    result, steering = replayed(2, 200, 1, tmp_path)
    bound = [uid for kind, uid, _ in steering.events if kind == "MODIFIED"]
    assert result.steered.unschedulable > 0
    assert result.stock.unschedulable > 0
    assert result.ideal.unschedulable > 0
    assert 200 - result.steered.unschedulable - IN_FLIGHT <= len(bound) <= 200 - result.steered.unschedulable


def moment(node: str | None, tiers: list[tuple[int, list[str]]], scored: set[str]) -> Moment:
    generated = workload.generate(4, 1, 1)
    pod = json.loads(json.dumps(generated.pods[0]))
    pod["metadata"]["name"] = "app-1"
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "500m", "memory": "1048576Ki"}
    if tiers:
        terms = [
            {
                "weight": weight,
                "preference": {
                    "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": names}]
                },
            }
            for weight, names in tiers
        ]
        pod["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return Moment(pod, node, np.array([0.10, 0.20, 0.30, 0.60]), frozenset(scored))


TIERS = [(100, ["node-0"]), (70, ["node-1", "node-2"])]
# name: (where the scheduler put it, the tiers, what it scored, what is said of it)
SAID: dict[str, tuple[str | None, list[tuple[int, list[str]]], set[str], list[str]]] = {
    "the first name": (
        "node-0",
        TIERS,
        {"node-0", "node-1"},
        [
            "shop/app-1 requests 500m CPU and 1.0 GiB.",
            "node-0 (10% used, weight 100); node-1 and 1 more (up to 30% used, weight 70).",
            "All nodes were 30% used on average, 60% at most.",
            "The scheduler chose the first name, node-0.",
            "Without steering the same Pod went to node-3, which was 60% used.",
        ],
    ),
    "another name, as the first was not scored": (
        "node-2",
        TIERS,
        {"node-2", "node-3"},
        [
            "scored 2 of the nodes, where node-0 was not in its sample",
            "it chose node-2, from tier 2, which was 30% used.",
        ],
    ),
    "outvoted": (
        "node-3",
        TIERS,
        {"node-0", "node-3"},
        ["scored 2 of the nodes; it chose node-3, none of the names, which was 60% used."],
    ),
    "fits nowhere": (None, TIERS, set(), ["It fits nowhere and waits."]),
    "no names": ("node-3", [], set(), ["Trimtab named no node for it; the scheduler chose node-3."]),
}


@pytest.mark.parametrize("name", SAID)
def test_a_decision_in_words(name: str) -> None:
    node, tiers, scored, expected = SAID[name]
    text = report.explain(
        moment(node, tiers, scored), moment("node-3", [], set()), workload.generate(4, 1, 1)
    )
    for part in expected:
        assert part in text


def test_the_report_needs_no_unicode(tmp_path: Path) -> None:
    result, _ = replayed(10, 20, 1, tmp_path)
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", write_through=True), width=100)
    report.show(result, console)
    text = raw.getvalue().decode("ascii")
    assert "sigma, standard deviation" in text
    assert "#" in text


def test_a_report_without_anything_to_gain() -> None:
    run = Run(np.array([0.5, 0.5]), 0)
    result = Result(1, workload.generate(2, 1, 1), run, run, run, 1.0)
    assert json.loads(report.as_json(result))["steering_efficiency"] is None
    console = Console(file=io.StringIO(), width=100)
    report.show(result, console)
    assert "nothing to gain" in console.file.getvalue()  # type: ignore[attr-defined]


def test_the_whole_demo_over_tls(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(nodes=100, pods=300, seed=1, output="json") == 0
    captured = capsys.readouterr()
    shown = json.loads(captured.out)
    assert captured.err == ""
    assert shown["outcomes"] == {"steered": 300}
    assert shown["steering_efficiency"] > 0.8
    for run in ("stock", "steered", "ideal"):
        assert set(shown[run]) == {"sigma", "p95", "p99", "hot_nodes"}
    assert (shown["seed"], shown["nodes"], shown["pods"]) == (1, 100, 300)


def test_the_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.run(nodes=10, pods=30, seed=1, output="table") == 0
    text = capsys.readouterr().out
    for part in ("steered", "p95", "Steering efficiency", "before: stock", "One decision"):
        assert part in text


# name: (what stands in for the server, what is said)
FAILURES = {
    "ends at once": ("import sys; sys.exit('no free port')", "ended before it was ready\nno free port"),
    "says something else": (
        "print('hello', flush=True); import time; time.sleep(60)",
        "said 'hello', not where",
    ),
    "is not ready in time": ("import time; time.sleep(60)", "was not ready within 2 s"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_server_that_does_not_start(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, expected = FAILURES[name]
    monkeypatch.setattr(server, "SERVE", (sys.executable, "-c", program))
    monkeypatch.setattr(server, "READY_WITHIN_S", 2.0)
    assert command.run(nodes=4, pods=4, seed=1, output="json") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: the server ")
    assert expected in captured.err


def test_a_server_that_dies_in_the_middle(tmp_path: Path) -> None:
    generated = workload.generate(4, 4, 1)
    with server.Webhook(generated.cluster(), tmp_path) as steering:
        assert steering.admit(replay.review(generated.pods[0], 0))
        steering.process.kill()
        steering.process.wait()
        with pytest.raises(server.ServerError, match="does not answer"):
            steering.admit(replay.review(generated.pods[1], 1))
        with pytest.raises(server.ServerError, match="takes no more events"):
            steering.watch_event("ADDED", generated.pods[0])
