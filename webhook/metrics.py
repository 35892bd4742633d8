"""Prometheus metrics with bounded labels, rendered off the event loop."""

import asyncio
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from webhook.admission import Answer
from webhook.cluster import Cluster
from webhook.reasons import Outcome, Reason
from webhook.snapshot import State
from webhook.usage.answer import Report

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)


class Metrics:
    """What is counted; `render` gives the exposition text."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._decisions = Counter(
            "trimtab_decisions_total",
            "Admission reviews answered, by outcome and reason.",
            ["outcome", "reason", "dry_run"],
            registry=self.registry,
        )
        self.rejected = Counter(
            "trimtab_bad_requests_total",
            "Requests that were no AdmissionReview, by HTTP status.",
            ["status"],
            registry=self.registry,
        )
        # Looking a child up by its labels costs more than counting.
        self._counters: dict[tuple[Outcome, Reason | None, bool], Counter] = {}
        self._latency = Histogram(
            "trimtab_admission_duration_seconds",
            "Time from the request's head to the answer.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.relists = Counter(
            "trimtab_watch_restarts_total",
            "Watches that had to list again.",
            ["kind"],
            registry=self.registry,
        )
        self._usage_failures = Counter(
            "trimtab_usage_poll_failures_total",
            "Polls of a usage source that failed, wholly or in part.",
            ["source"],
            registry=self.registry,
        )
        self._usage_up = Gauge(
            "trimtab_usage_source_up",
            "Whether a usage source's last poll succeeded.",
            ["source"],
            registry=self.registry,
        )
        self._usage_nodes = Gauge(
            "trimtab_usage_source_nodes",
            "Nodes of which a usage source's last answer had a reading, or none.",
            ["source", "state"],
            registry=self.registry,
        )
        self._usage_unused = Gauge(
            "trimtab_usage_source_unused",
            "Series and values of a usage source's last answer that were not used, by why.",
            ["source", "reason"],
            registry=self.registry,
        )
        self.pod_usage_failures = Counter(
            "trimtab_pod_usage_poll_failures_total",
            "Questions for the use of a namespace's Pods that failed.",
            registry=self.registry,
        )
        self.reload_failures = Counter(
            "trimtab_certificate_reload_failures_total",
            "Serving certificates that were refused, while the one before stays in use.",
            registry=self.registry,
        )

        self._nodes = Gauge(
            "trimtab_nodes", "Nodes by the state of their reading.", ["usage"], registry=self.registry
        )
        self._pods = Gauge("trimtab_pods", "Bound Pods known.", registry=self.registry)
        self._ledger = Gauge(
            "trimtab_ledger_pods",
            "Pods whose load readings do not show yet.",
            ["state"],
            registry=self.registry,
        )
        self._workloads = Gauge(
            "trimtab_learned_workloads", "Workloads whose use is known.", registry=self.registry
        )
        self._synced = Gauge("trimtab_synced", "Whether every kind was listed once.", registry=self.registry)

    def observe(self, answer: Answer, seconds: float) -> None:
        """Count an answer and the time it took."""
        key = answer.outcome, answer.reason, answer.dry_run
        if key not in self._counters:
            labels = answer.outcome, answer.reason or "", str(answer.dry_run).lower()
            self._counters[key] = self._decisions.labels(*labels)
        self._counters[key].inc()
        self._latency.observe(seconds)

    def observe_usage(self, source: str, report: Report | None) -> None:
        """Note what became of one answer of a usage source; None where it gave none."""
        up = report is not None and not report.errors
        self._usage_failures.labels(source).inc(not up)
        self._usage_up.labels(source).set(up)
        if report is not None:
            self._usage_nodes.labels(source, "matched").set(report.matched)
            self._usage_nodes.labels(source, "silent").set(report.silent.count)
            self._usage_unused.labels(source, "unmatched").set(report.unmatched.count)
            self._usage_unused.labels(source, "ambiguous").set(report.ambiguous.count)
            self._usage_unused.labels(source, "invalid").set(report.invalid.count)

    def forget_usage(self) -> None:
        """Drop what was last seen of the usage sources: the policy names others."""
        for gauge in (self._usage_up, self._usage_nodes, self._usage_unused):
            gauge.clear()

    async def render(self, cluster: Cluster, states: Mapping[str, int]) -> bytes:
        """Return the exposition text, made in a thread so that no Pod waits for it."""
        for state in State:
            self._nodes.labels(state.name.lower()).set(states.get(state.name.lower(), 0))
        self._pods.set(cluster.pods)
        self._ledger.labels("in-flight").set(cluster.ledger.in_flight)
        self._ledger.labels("bound").set(cluster.ledger.unseen)
        self._workloads.set(cluster.learning.workloads)
        self._synced.set(cluster.synced)
        return await asyncio.to_thread(generate_latest, self.registry)
