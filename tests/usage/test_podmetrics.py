"""Readings of Pods: what is made of each, which namespaces are asked for, and a source that fails."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.builders import GIB, NAMESPACE, NOW, Json, decode_pod, make_owner, make_pod
from webhook import kube
from webhook.api import Api, ApiError, Query
from webhook.cluster import SHADOW, Cluster
from webhook.expectation.estimate import Estimator
from webhook.expectation.owners import JOB
from webhook.usage import podmetrics
from webhook.usage.podmetrics import Reading

PATIENCE_S = 20
METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods"
AT = 1767225600.0  # 2026-01-01T00:00:00Z


def item(*uses: object, name: str = "a", timestamp: str | None = "2026-01-01T00:00:00Z") -> Json:
    containers = [{"name": f"c{number}", "usage": use} for number, use in enumerate(uses)]
    return {"metadata": {"name": name}, "timestamp": timestamp, "window": "15s", "containers": containers}


WHOLE = {"cpu": "1500m", "memory": "1Gi"}

READINGS: dict[str, tuple[Json, Reading]] = {
    "one container": (item(WHOLE), Reading("a", 1500.0, GIB, AT)),
    "the sum of its containers": (item(WHOLE, {"cpu": "1n", "memory": "1"}), Reading("a", 1501, GIB + 1, AT)),
    "a container does not say its CPU": (item(WHOLE, {"memory": "1Gi"}), Reading("a", None, 2 * GIB, AT)),
    "no quantity": (item({"cpu": "lots", "memory": "1Gi"}), Reading("a", None, GIB, AT)),
    "use is null": (item(None), Reading("a", None, None, AT)),
    "no containers": (item(), Reading("a", None, None, AT)),
    "no timestamp": (item(WHOLE, timestamp=None), Reading("a", 1500, GIB, None)),
}


@pytest.mark.parametrize(("raw", "want"), READINGS.values(), ids=READINGS)
def test_readings(raw: Json, want: Reading) -> None:
    assert podmetrics.reading(msgspec.convert(raw, kube.PodMetrics)) == want


class Source(Api):
    """Answers by path: a value, or what is raised; those of a list in turn, the last for ever."""

    def __init__(self, **answers: object) -> None:
        super().__init__(None)
        self.answers = answers
        self.asked: list[str] = []
        self.queries: list[Query] = []

    async def get(self, path: str, query: Query | None = None) -> bytes:
        kind, namespace = ("metrics" if "metrics" in path else "pods"), path.split("/")[-2]
        assert path in (METRICS.format(namespace), f"/api/v1/namespaces/{namespace}/pods")
        self.asked.append(f"{kind} {namespace}")
        self.queries.append(query or {})
        answer = self.answers.get(f"{kind}_{namespace}", {"items": []})
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


def named(name: str, value: str | None) -> kube.Named:
    labels = {"trimtab.dev/steering": value} if value else {}
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, kube.Named)


def job_pod(name: str, namespace: str = NAMESPACE, **fields: object) -> Json:
    owner = {"ownerReferences": [make_owner(JOB, "sum")]}
    return make_pod(uid=f"{namespace}-{name}", name=name, namespace=namespace, node="n1", metadata=owner)


def make_cluster(**namespaces: str | None) -> Cluster:
    """Return a cluster with two running Pods, a and b, in each of the namespaces."""
    cluster = Cluster(unknown=SHADOW)
    cluster.replace_namespaces([named(name, value) for name, value in namespaces.items()])
    for namespace in namespaces:
        for name in ("a", "b"):
            cluster.set_pod(decode_pod(job_pod(name, namespace)), None)
    return cluster


@asynccontextmanager
async def polling(
    source: Source, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[None]]:
    """Poll without pauses; yield what counts the failures."""
    monkeypatch.setattr(podmetrics, "ROUND_S", 0.0)
    monkeypatch.setattr(podmetrics, "LEAST_PAUSE_S", 0.0)
    failures: list[None] = []
    task = asyncio.create_task(
        podmetrics.poll(source, cluster, lambda: NOW, failed=lambda: failures.append(None))
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield failures
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110, the conditions are of code that tells nobody
        await asyncio.sleep(0)


def source_of(cluster: Cluster, namespace: str = NAMESPACE) -> str:
    return cluster.expected(decode_pod(job_pod("c", namespace))).sources[0]


BOTH = {"items": [item(WHOLE), item(WHOLE, name="b"), 3, {"metadata": None}]}


async def test_only_steered_namespaces_are_asked_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_cluster(on="enabled", dark="shadow", off=None)
    cluster.set_pod(decode_pod(job_pod("a", "unseen")), None)
    source = Source(metrics_on=BOTH, metrics_dark=BOTH, metrics_off=BOTH)

    async with polling(source, cluster, monkeypatch):
        await until(lambda: len(source.asked) >= 4)

    assert source.asked[:4] == ["metrics dark", "metrics on"] * 2
    assert [source_of(cluster, name) for name in ("on", "dark", "off")] == ["learned", "learned", "default"]


async def test_a_namespace_without_pods_or_switched_off_is_not_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = make_cluster(on="enabled", empty="enabled", leaves="enabled")
    for name in ("a", "b"):
        cluster.remove_pod(f"empty-{name}")
    source = Source(metrics_on=BOTH)

    async with polling(source, cluster, monkeypatch):
        await until(lambda: "metrics leaves" in source.asked)
        cluster.set_namespace(named("leaves", None))
        source.asked.clear()
        await until(lambda: len(source.asked) >= 4)

    # One question may have been on its way.
    assert set(source.asked[1:]) == {"metrics on"}


async def test_nothing_is_asked_for_where_nothing_is_to_be_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, source = make_cluster(on="enabled"), Source()
    cluster.expectation.estimator = Estimator(learn=False)

    async with polling(source, cluster, monkeypatch):
        for _ in range(100):
            await asyncio.sleep(0)

    assert source.asked == []


async def test_a_namespace_that_is_switched_on_has_its_pods_listed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = make_cluster(late=None)
    cluster.set_namespace(named("late", "enabled"))
    first = {"items": [job_pod("a", "late"), 3], "metadata": {"continue": "more"}}
    source = Source(pods_late=[first, {"items": [job_pod("b", "late")]}], metrics_late=BOTH)

    async with polling(source, cluster, monkeypatch):
        await until(lambda: len(source.asked) >= 5)

    assert source.asked[:5] == ["pods late", "pods late", *["metrics late"] * 3]
    assert source.queries[1]["continue"] == "more"
    assert source_of(cluster, "late") == "learned"


DOWN = ApiError(503, "no answer")
FAILS = "pod usage: metrics.k8s.io fails, nothing more is learned: no answer"
ANSWERS = "pod usage: metrics.k8s.io answers again"

# Answers in turn for the namespace `on`, the last for ever; failures, and the lines logged.
POLLS: dict[str, tuple[list[object], int, list[str]]] = {
    "it answers": ([BOTH, BOTH], 0, []),
    "it has nothing to say": ([{"items": None}, {}], 0, []),
    "it fails once": ([DOWN, BOTH], 1, [FAILS, ANSWERS]),
    "it fails for long: one line": ([BOTH, DOWN, DOWN, DOWN, BOTH, BOTH], 3, [FAILS, ANSWERS]),
    "it fails twice": ([DOWN, BOTH, DOWN, BOTH], 2, [FAILS, ANSWERS, FAILS, ANSWERS]),
}


@pytest.mark.parametrize(("answers", "failed", "lines"), POLLS.values(), ids=POLLS)
async def test_polling(
    answers: list[object],
    failed: int,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "webhook.usage.podmetrics")
    rounds = len(answers) + 1
    source = Source(metrics_on=list(answers))

    async with polling(source, make_cluster(on="enabled", other="enabled"), monkeypatch) as failures:
        await until(lambda: source.asked.count("metrics on") > rounds)

    assert len(failures) == failed
    assert [record.getMessage() for record in caplog.records] == lines


async def test_one_namespace_that_fails_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_cluster(a="enabled", b="enabled")
    source = Source(metrics_a=[ApiError(403, "forbidden")], metrics_b=BOTH)

    async with polling(source, cluster, monkeypatch):
        await until(lambda: source_of(cluster, "b") == "learned")

    assert source_of(cluster, "a") == "default"
