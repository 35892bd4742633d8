"""The loop: every source asked at its own pace, and a line in the log for each change of state."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Protocol

from webhook.api import Api
from webhook.cluster import Cluster
from webhook.policy import Policy, sources
from webhook.policy.sources import AnnotationsEntry, MetricsApiEntry, PrometheusEntry, Source
from webhook.usage.annotations import Annotations
from webhook.usage.answer import Answer, Asked, Report, SourceError
from webhook.usage.metricsapi import MetricsApi
from webhook.usage.prometheus import Prometheus
from webhook.usage.turns import turns

LOG = logging.getLogger(__name__)

# How often it is looked whether readings have gone stale, and whether the policy names other sources.
TICK_S = 1.0


class Observer(Protocol):
    """Who is told how the sources do."""

    def observe_usage(self, source: str, report: Report | None) -> None:
        """Note what became of a source's answer; None where it gave none."""

    def forget_usage(self) -> None:
        """Drop what was noted: the sources are others now."""


def make(source: Source, api: Api) -> Asked:
    """Return a source as it is asked."""
    match source:
        case MetricsApiEntry():
            return MetricsApi(api)
        case PrometheusEntry():
            return Prometheus(source)
        case AnnotationsEntry():
            return Annotations(source)


class Poller:
    """Asks the sources of the policy in force; `asked` is set once each has answered, or failed, once."""

    def __init__(
        self,
        api: Api,
        cluster: Cluster,
        policy: Callable[[], Policy],
        now: Callable[[], float],
        observer: Observer,
    ) -> None:
        self.asked = asyncio.Event()
        self._api, self._cluster, self._policy, self._now = api, cluster, policy, now
        self._observer = observer
        self._waiting = 0
        self._any_fresh: bool | None = None

    async def run(self) -> None:
        """Ask until cancelled; other sources in the policy take the place of those before."""
        while True:
            current = self._policy().sources
            self._waiting = len(current)
            async with asyncio.TaskGroup() as tasks:
                asking = [
                    tasks.create_task(self._follow(name, rank, make(source, self._api)))
                    for rank, (name, source) in enumerate(zip(sources.names(current), current, strict=True))
                ]
                while self._policy().sources == current:
                    self._settle()
                    await asyncio.sleep(TICK_S)
                for task in asking:
                    task.cancel()
            LOG.info("usage: the policy names other sources")
            self._forget()

    def _forget(self) -> None:
        entries = self._policy().sources
        self._observer.forget_usage()
        self._cluster.forget_sources()
        self._cluster.nodes.keep_series(
            name for entry in entries if isinstance(entry, PrometheusEntry) for name in entry.series
        )

    async def _follow(self, name: str, rank: int, source: Asked) -> None:
        failing, first = False, True
        while True:
            try:
                answer = await source.ask(self._cluster.nodes)
                await self._take(answer, rank)
                self._observer.observe_usage(name, answer.report)
                problem = "; ".join(answer.report.errors[:3])
            except SourceError as error:
                self._observer.observe_usage(name, None)
                problem = str(error)
            if problem and not failing:
                LOG.warning("usage: %s fails, readings go stale: %s", name, problem)
            elif failing and not problem:
                LOG.info("usage: %s answers again", name)
            failing = bool(problem)
            if first:
                first = False
                self._waiting -= 1
                if self._waiting == 0:
                    self.asked.set()
            # Not all replicas at once.
            await asyncio.sleep(random.uniform(0.8, 1.2) * source.interval_s)  # noqa: S311

    async def _take(self, answer: Answer, rank: int) -> None:
        """Take in one answer, with a chance for other tasks to run between batches."""
        now, wall, stale_after = self._now(), time.time(), self._policy().stale_after_s
        async for reading in turns(answer.readings):
            self._cluster.set_usage(
                reading.node,
                reading.cpu_milli,
                reading.memory_bytes,
                timestamp=reading.timestamp,
                window=reading.window,
                now=now,
                wall=wall,
                source=rank,
                told=reading.told,
                stale_after=stale_after,
            )
        async for name, node, value in turns(answer.numbers):
            self._cluster.set_series(name, node, value, now)

    def _settle(self) -> None:
        """Let lower sources stand in for stale readings; say once when no node has a fresh one any more."""
        now, stale_after = self._now(), self._policy().stale_after_s
        self._cluster.settle_usage(now, stale_after)
        states = self._cluster.nodes.states(now, stale_after)
        if states["fresh"]:
            if self._any_fresh is False:
                LOG.info(
                    "usage: nodes have fresh readings again, %d of %d", states["fresh"], sum(states.values())
                )
            self._any_fresh = True
        elif self._any_fresh and self._cluster.nodes.count:
            LOG.warning("usage: no node has a fresh reading any more, all are scored by requests")
            self._any_fresh = False
