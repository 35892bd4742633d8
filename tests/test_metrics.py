"""What is counted, as Prometheus reads it: every outcome and reason, and nothing without bound."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.builders import make_cluster, make_node, make_uneven_cluster
from tests.test_cluster import pod
from webhook.admission import Answer
from webhook.cluster import Cluster
from webhook.metrics import Metrics
from webhook.reasons import Outcome, Reason
from webhook.usage.answer import Report

Labels = tuple[tuple[str, str], ...]


async def exposed(metrics: Metrics, cluster: Cluster) -> dict[tuple[str, Labels], float]:
    """Return every sample by its name and labels."""
    text = await metrics.render(cluster, cluster.nodes.states(1000.0, 60.0))
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def decisions(samples: dict[tuple[str, Labels], float]) -> dict[tuple[str, str, str], float]:
    return {
        (labels["outcome"], labels["reason"], labels["dry_run"]): value
        for (name, pairs), value in samples.items()
        if name == "trimtab_decisions_total" and (labels := dict(pairs))
    }


def answer(outcome: Outcome, reason: Reason | None, *, dry_run: bool = False) -> Answer:
    return Answer(b"", outcome, reason, uid="u", namespace="shop", name="web-1", dry_run=dry_run)


async def test_decisions_are_counted_by_outcome_and_reason() -> None:
    metrics = Metrics()

    for each in (
        answer(Outcome.STEERED, None),
        answer(Outcome.STEERED, None),
        answer(Outcome.STEERED, None, dry_run=True),
        answer(Outcome.SHADOW, Reason.SHADOW),
        answer(Outcome.SKIPPED, Reason.DEADLINE),
        answer(Outcome.FAILED, Reason.ERROR),
    ):
        metrics.observe(each, 0.003)

    assert decisions(await exposed(metrics, Cluster())) == {
        ("steered", "", "false"): 2,
        ("steered", "", "true"): 1,
        ("shadow", "shadow", "false"): 1,
        ("skipped", "deadline", "false"): 1,
        ("failed", "error", "false"): 1,
    }


@pytest.mark.parametrize("reason", Reason)
async def test_every_reason_is_a_label_that_prometheus_reads(reason: Reason) -> None:
    metrics = Metrics()

    metrics.observe(answer(Outcome.SKIPPED, reason), 0.0)

    assert decisions(await exposed(metrics, Cluster())) == {("skipped", reason.value, "false"): 1}


async def test_no_label_says_whose_pod_it_was() -> None:
    metrics = Metrics()
    metrics.observe(answer(Outcome.STEERED, None), 0.001)

    samples = await exposed(metrics, make_uneven_cluster(3))

    assert {label for _, pairs in samples for label, _ in pairs} <= {
        "outcome", "reason", "dry_run", "status", "kind", "usage", "state", "le", "source",
    }  # fmt: skip


async def test_the_time_of_every_answer_is_in_the_histogram() -> None:
    metrics = Metrics()

    for seconds in (0.0004, 0.0006, 0.3, 7.0):
        metrics.observe(answer(Outcome.STEERED, None), seconds)

    samples = await exposed(metrics, Cluster())
    name = "trimtab_admission_duration_seconds"
    assert samples[f"{name}_count", ()] == 4
    assert samples[f"{name}_sum", ()] == pytest.approx(7.301)
    buckets = {
        dict(pairs)["le"]: value for (found, pairs), value in samples.items() if found == f"{name}_bucket"
    }
    assert (buckets["0.0005"], buckets["0.001"], buckets["0.5"], buckets["2.0"], buckets["+Inf"]) == (
        1,
        2,
        3,
        3,
        4,
    )


async def test_the_cluster_as_it_is_now() -> None:
    metrics, cluster = Metrics(), make_cluster(make_node("n1"), make_node("n2"), used={"n1": 1.0})
    pod("a", on="n1")(cluster)
    pod("b", on="n2", phase="Running")(cluster)

    first = await exposed(metrics, cluster)
    cluster.remove_pod("a")
    cluster.remove_node("n2")
    cluster.synced = False
    second = await exposed(metrics, cluster)

    def found(samples: dict[tuple[str, Labels], float]) -> list[float]:
        return [
            samples["trimtab_nodes", (("usage", "fresh"),)],
            samples["trimtab_nodes", (("usage", "missing"),)],
            samples["trimtab_pods", ()],
            samples["trimtab_ledger_pods", (("state", "bound"),)],
            samples["trimtab_ledger_pods", (("state", "in-flight"),)],
            samples["trimtab_synced", ()],
        ]

    assert found(first) == [1, 1, 2, 2, 0, 1]
    assert found(second) == [1, 0, 1, 0, 0, 0]


async def test_what_has_never_happened_is_zero_and_not_absent() -> None:
    samples = await exposed(Metrics(), Cluster())

    for name in (
        "trimtab_pod_usage_poll_failures_total",
        "trimtab_certificate_reload_failures_total",
        "trimtab_learned_workloads",
    ):
        assert samples[name, ()] == 0


def test_two_servers_of_one_process_count_apart() -> None:
    first, second = Metrics(), Metrics()

    first.reload_failures.inc()

    assert second.registry.get_sample_value("trimtab_certificate_reload_failures_total") == 0


async def test_usage_sources_by_name() -> None:
    metrics, good, partly = Metrics(), Report(matched=3), Report(matched=1, errors=["memory: timeout"])
    for names in (good.silent, good.unmatched, good.unmatched):
        names.add("x")

    metrics.observe_usage("metrics.k8s.io", good)
    for report in (good, partly, None):
        metrics.observe_usage("prometheus", report)
    samples = await exposed(metrics, Cluster())

    def value(name: str, source: str, **labels: str) -> float:
        return samples[name, tuple(sorted({"source": source, **labels}.items()))]

    assert value("trimtab_usage_poll_failures_total", "metrics.k8s.io") == 0
    assert value("trimtab_usage_poll_failures_total", "prometheus") == 2
    assert value("trimtab_usage_source_up", "metrics.k8s.io") == 1
    assert value("trimtab_usage_source_up", "prometheus") == 0
    assert value("trimtab_usage_source_nodes", "metrics.k8s.io", state="matched") == 3
    assert value("trimtab_usage_source_nodes", "metrics.k8s.io", state="silent") == 1
    assert value("trimtab_usage_source_unused", "metrics.k8s.io", reason="unmatched") == 2
    assert value("trimtab_usage_source_nodes", "prometheus", state="matched") == 1

    metrics.forget_usage()
    gone = await exposed(metrics, Cluster())
    assert {name for name, _ in gone if "usage_source" in name} == set()


async def test_a_state_that_no_node_has_any_more_is_zero() -> None:
    metrics, cluster = Metrics(), make_cluster(make_node("n1", labels={"type": "virtual-kubelet"}))

    first = await exposed(metrics, cluster)
    cluster.remove_node("n1")
    second = await exposed(metrics, cluster)

    assert first["trimtab_nodes", (("usage", "virtual"),)] == 1
    assert second["trimtab_nodes", (("usage", "virtual"),)] == 0
