"""The loop over the sources: failures and recoveries, a line each, and a policy that changes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.builders import GIB, NOW, make_cluster, make_node
from webhook import policy
from webhook.api import Api
from webhook.policy import Policy
from webhook.policy.sources import AnnotationsEntry, MetricsApiEntry, PrometheusEntry, Source
from webhook.snapshot import Snapshot
from webhook.usage import poll
from webhook.usage.answer import Answer, Reading, Report, SourceError

PATIENCE_S = 20

METRICS = MetricsApiEntry(type="metrics.k8s.io")
PROMETHEUS = PrometheusEntry(type="prometheus", url="http://p", series={"cost": "x"})
ANNOTATIONS = AnnotationsEntry(type="annotations", cpu="a")


def good(cores: float = 2.0, **fields: object) -> Answer:
    reading = Reading("n1", cores * 1000, 4.0 * GIB, window=10.0)
    return Answer([reading], Report(matched=1, **fields))  # type: ignore[arg-type]


class Scripted:
    """Answers in turn, each an answer or what is raised; the last one again and again."""

    interval_s = 0.0

    def __init__(self, *answers: Answer | SourceError) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def ask(self, _nodes: Snapshot) -> Answer:
        await asyncio.sleep(0)
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        if isinstance(answer, SourceError):
            raise answer
        return answer


class World:
    """The poller over sources that a test scripts, by their type, and what it says of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **scripts: Scripted) -> None:
        self.scripts = scripts
        self.cluster = make_cluster(make_node("n1"))
        self.policy: Policy = replace(policy.default(), sources=self.sources(*scripts))
        self.now = NOW
        self.observed: list[tuple[str, bool]] = []
        self.forgotten = 0
        monkeypatch.setattr(poll, "TICK_S", 0.0)
        monkeypatch.setattr(poll, "make", lambda source, _api: self.scripts[source.type.partition(".")[0]])
        self.poller = poll.Poller(Api(None), self.cluster, lambda: self.policy, lambda: self.now, self)

    @staticmethod
    def sources(*names: str) -> tuple[Source, ...]:
        entries: dict[str, Source] = {
            "metrics": METRICS,
            "prometheus": PROMETHEUS,
            "annotations": ANNOTATIONS,
        }
        return tuple(entries[name] for name in names)

    def observe_usage(self, source: str, report: Report | None) -> None:
        self.observed.append((source, report is not None and not report.errors))

    def forget_usage(self) -> None:
        self.forgotten += 1

    @asynccontextmanager
    async def polling(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.poller.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def turns(self, count: int = 50) -> None:
        for _ in range(count):
            await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110, the conditions are of code that tells nobody
        await asyncio.sleep(0)


DOWN = SourceError("status 503")
PARTLY = good(errors=["memory: timeout"])
FAILS = "usage: metrics.k8s.io fails, readings go stale: status 503"
ANSWERS = "usage: metrics.k8s.io answers again"

# Answers in turn, the last for ever; failures counted by the end of them, and the lines logged.
POLLS: dict[str, tuple[list[Answer | SourceError], int, list[str]]] = {
    "it answers": ([good(), good(), good()], 0, []),
    "it fails once": ([DOWN, good()], 1, [FAILS, ANSWERS]),
    "it fails for long: one line": ([good(), DOWN, DOWN, DOWN, good(), good()], 3, [FAILS, ANSWERS]),
    "it fails twice: a line each time": ([DOWN, good(), DOWN, good()], 2, [FAILS, ANSWERS, FAILS, ANSWERS]),
    "it fails in part": (
        [good(), PARTLY, PARTLY, good()],
        2,
        ["usage: metrics.k8s.io fails, readings go stale: memory: timeout", ANSWERS],
    ),
}


@pytest.mark.parametrize(("answers", "failed", "lines"), POLLS.values(), ids=POLLS.keys())
async def test_polling(
    answers: list[Answer | SourceError],
    failed: int,
    lines: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "webhook.usage")
    source = Scripted(*answers)
    world = World(monkeypatch, metrics=source)

    async with world.polling():
        await until(lambda: source.asked > len(answers))

    assert world.observed[: len(answers)].count(("metrics.k8s.io", False)) == failed
    assert [record.getMessage() for record in caplog.records] == lines


@pytest.mark.parametrize("first", [good(), DOWN], ids=["answer", "failure"])
async def test_the_first_answer_of_each_is_all_there_is_to_wait_for(
    first: Answer | SourceError, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Scripted(good())
    world = World(monkeypatch, metrics=Scripted(first), prometheus=slow)
    released = asyncio.Event()
    ask = slow.ask

    async def wait(nodes: Snapshot) -> Answer:
        await released.wait()
        return await ask(nodes)

    monkeypatch.setattr(slow, "ask", wait)
    async with world.polling():
        await world.turns()
        assert not world.poller.asked.is_set()
        released.set()
        await world.poller.asked.wait()


async def test_a_source_that_fails_leaves_the_readings_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Scripted(good(), DOWN)
    world = World(monkeypatch, metrics=source)

    async with world.polling():
        await until(lambda: source.asked == 3)

    assert world.cluster.nodes.used[:, 0].tolist() == [2000, 4 * GIB]
    assert world.cluster.nodes.states(NOW, 60.0)["fresh"] == 1


async def test_a_lower_source_stands_in_until_the_first_is_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webhook.usage")
    first, second = Scripted(good(2.0), DOWN), Scripted(good(5.0))
    world = World(monkeypatch, metrics=first, annotations=second)
    used = world.cluster.nodes.used

    async with world.polling():
        await until(lambda: second.asked > 3 and first.asked > 3)
        assert used[0, 0] == 2000  # fresh still, whatever the lower one says

        world.now, asked = NOW + 100.0, second.asked
        second.answers = [good(6.0)]
        await until(lambda: second.asked > asked + 3)
        assert used[0, 0] == 2000
        world.now = NOW + 200.0  # with no news of the lower one since
        await until(lambda: used[0, 0] == 6000)

        first.answers = [good(3.0)]
        await until(lambda: used[0, 0] == 3000)
        second.answers = [good(7.0)]
        asked = second.asked
        await until(lambda: second.asked > asked + 3)
        assert used[0, 0] == 3000

    assert [record.getMessage() for record in caplog.records] == [
        FAILS,
        "usage: metrics.k8s.io answers again",
    ]


async def test_all_nodes_go_stale_and_come_back_with_one_line_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webhook.usage")
    source = Scripted(good(2.0))
    world = World(monkeypatch, metrics=source)

    async with world.polling():
        await until(lambda: world.cluster.nodes.states(world.now, 180.0)["fresh"])
        await world.turns()
        world.now = NOW + 181.0  # the source goes on, repeating itself
        await world.turns()
        source.answers = [good(3.0)]
        await until(lambda: world.cluster.nodes.states(world.now, 180.0)["fresh"])
        await world.turns()

    assert [record.getMessage() for record in caplog.records] == [
        "usage: no node has a fresh reading any more, all are scored by requests",
        "usage: nodes have fresh readings again, 1 of 1",
    ]


async def test_a_cluster_without_readings_from_the_start_says_nothing_every_tick(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webhook.usage")
    world = World(monkeypatch, metrics=Scripted(DOWN))

    async with world.polling():
        await world.turns()

    assert [record.getMessage() for record in caplog.records] == [FAILS]


async def test_other_sources_in_the_policy_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = Scripted(good(2.0)), Scripted(good(5.0))
    world = World(monkeypatch, prometheus=before, annotations=after)
    world.policy = replace(world.policy, sources=world.sources("prometheus"))
    world.cluster.set_series("cost", "n1", 1.0, NOW)
    world.cluster.set_series("left over", "n1", 1.0, NOW)

    async with world.polling():
        await until(lambda: before.asked > 2)
        assert after.asked == 0
        world.policy = replace(world.policy, sources=world.sources("annotations", "prometheus"))
        await until(lambda: world.cluster.nodes.used[0, 0] == 5000)
        assert set(world.cluster.nodes.series) == {"cost"}

        world.policy = replace(world.policy, sources=world.sources("annotations"))
        await until(lambda: world.forgotten == 2)
        await world.turns()
        asked = before.asked
        await world.turns()

    assert before.asked == asked
    assert world.cluster.nodes.series == {}


async def test_another_policy_with_the_same_sources_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, metrics=Scripted(good()))

    async with world.polling():
        await world.turns()
        world.policy = replace(world.policy, sources=world.sources("metrics"), stale_after_s=10.0)
        await world.turns()

    assert world.forgotten == 0


def test_every_type_of_source_can_be_made() -> None:
    made = [poll.make(source, Api(None)) for source in (METRICS, PROMETHEUS, ANNOTATIONS)]

    assert [type(source).__name__ for source in made] == ["MetricsApi", "Prometheus", "Annotations"]
    assert [source.interval_s for source in made] == [5.0, 15.0, 5.0]
