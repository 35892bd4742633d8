"""The section `usage.sources`: what each field comes to, and every mistake by the path of its field."""

import pytest

from webhook import policy
from webhook.policy import ConfigError, sources
from webhook.policy.sources import AnnotationsEntry, MetricsApiEntry, PrometheusEntry, QueriesEntry

HEAD = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\nusage: {sources: "
URL = "type: prometheus, url: 'http://prometheus:9090'"
PATH = "usage.sources.0"

FULL = """
apiVersion: trimtab.dev/v1alpha1
kind: ScoringPolicy
usage:
  sources:
  - type: prometheus
    url: https://prometheus.monitoring:9090/thanos/
    preset: cadvisor
    windowSeconds: 300
    series: {cpuDeviation: 'stddev_over_time(x[10m])'}
    node: {label: node, match: label, nodeLabel: example.com/alias}
    bearerTokenFile: /var/run/token
    caFile: /etc/ca.crt
    timeoutSeconds: 5
    intervalSeconds: 30
  - {type: annotations, cpu: cpu_usage_avg_5m, memory: example.com/mem, format: quantity, windowSeconds: 60}
  - {type: metrics.k8s.io}
"""


def test_every_field() -> None:
    prometheus, annotations, metrics_api = policy.load(FULL).sources

    assert isinstance(prometheus, PrometheusEntry)
    assert prometheus.url == "https://prometheus.monitoring:9090/thanos"
    assert prometheus.series == {"cpuDeviation": "stddev_over_time(x[10m])"}
    assert prometheus.node == sources.NodeEntry(label="node", match="label", nodeLabel="example.com/alias")
    assert (prometheus.bearerTokenFile, prometheus.caFile) == ("/var/run/token", "/etc/ca.crt")
    assert (prometheus.timeoutSeconds, prometheus.intervalSeconds) == (5, 30)
    assert annotations == AnnotationsEntry(
        type="annotations",
        cpu="cpu_usage_avg_5m",
        memory="example.com/mem",
        format="quantity",
        windowSeconds=60,
    )
    assert metrics_api == MetricsApiEntry(type="metrics.k8s.io")


def test_the_resource_metrics_api_is_the_default() -> None:
    assert policy.default().sources == (MetricsApiEntry(type="metrics.k8s.io"),)


def test_a_preset_has_the_window_in_its_query() -> None:
    entry = PrometheusEntry(type="prometheus", url="http://p", preset="kubelet", windowSeconds=90)

    assert entry.asked() == QueriesEntry(
        cpu="deriv(node_cpu_usage_seconds_total[90000ms])",
        memory="node_memory_working_set_bytes",
        timestamp="timestamp(node_memory_working_set_bytes)",
    )


def test_queries_of_the_users_own_are_all_that_is_asked() -> None:
    own = QueriesEntry(cpu="my:cpu:cores")

    assert PrometheusEntry(type="prometheus", url="http://p", queries=own).asked() == own


def test_names_tell_sources_of_one_type_apart() -> None:
    text = f"{HEAD}[{{{URL}}}, {{type: metrics.k8s.io}}, {{{URL}}}, {{type: annotations, cpu: a}}]}}"

    assert sources.names(policy.load(text).sources) == [
        "prometheus",
        "metrics.k8s.io",
        "prometheus-2",
        "annotations",
    ]


NO_URL = "expected an http or https URL without user, query and fragment"
MISTAKES: dict[str, tuple[str, str]] = {
    "none at all": (
        "[]",
        "usage.sources: expected at least 1 item, found []",
    ),
    "no type": (
        "[{}]",
        f"{PATH}.type: expected one of metrics.k8s.io, prometheus, annotations, found None",
    ),
    "another type": (
        "[{type: influx}]",
        f"{PATH}.type: expected one of metrics.k8s.io, prometheus, annotations, found 'influx'",
    ),
    "an unknown key": ("[{type: metrics.k8s.io, url: x}]", f"{PATH}.url: unknown key"),
    "TLS that trusts anybody": (f"[{{{URL}, insecure: true}}]", f"{PATH}.insecure: unknown key"),
    "no URL": ("[{type: prometheus}]", f"{PATH}.url: missing; expected a value"),
    "no host": ("[{type: prometheus, url: 'http://'}]", f"{PATH}.url: {NO_URL}"),
    "no scheme": ("[{type: prometheus, url: 'prometheus:9090'}]", f"{PATH}.url: {NO_URL}"),
    "a bad port": ("[{type: prometheus, url: 'http://p:http'}]", f"{PATH}.url: {NO_URL}"),
    "a password in the URL": ("[{type: prometheus, url: 'http://u:secret@p'}]", f"{PATH}.url: {NO_URL}"),
    "a query in the URL": ("[{type: prometheus, url: 'http://p/?a=b'}]", f"{PATH}.url: {NO_URL}"),
    "a token in the clear": (
        f"[{{{URL}, bearerTokenFile: /token}}]",
        f"{PATH}: expected an https url with bearerTokenFile: a token is not sent in the clear",
    ),
    "a CA without TLS": (f"[{{{URL}, caFile: /ca.crt}}]", f"{PATH}: expected an https url with caFile"),
    "a relative path": (
        "[{type: prometheus, url: 'https://p', caFile: ca.crt}]",
        f"{PATH}.caFile: expected a text that matches '^/', found 'ca.crt'",
    ),
    "an unknown preset": (
        f"[{{{URL}, preset: telegraf}}]",
        f"{PATH}.preset: expected 'node-exporter', 'cadvisor' or 'kubelet', found 'telegraf'",
    ),
    "an empty query": (
        f"[{{{URL}, queries: {{cpu: ''}}}}]",
        f"{PATH}.queries.cpu: expected at least 1 character, found ''",
    ),
    "a match by no label": (
        f"[{{{URL}, node: {{match: label}}}}]",
        f"{PATH}.node: expected nodeLabel with match: label, and only there",
    ),
    "a label that is not matched": (
        f"[{{{URL}, node: {{nodeLabel: a}}}}]",
        f"{PATH}.node: expected nodeLabel with match: label, and only there",
    ),
    "an annotation of nothing": (
        "[{type: annotations}]",
        f"{PATH}: expected the key of an annotation under cpu, memory or both",
    ),
    "a name of two sources": (
        f"[{{{URL}, series: {{a: x}}}}, {{{URL}, series: {{a: y}}}}]",
        "usage.sources.1.series.a: expected a name that no other source has",
    ),
}


@pytest.mark.parametrize(("text", "problem"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        policy.load(f"{HEAD}{text}}}")

    assert [str(each) for each in caught.value.problems] == [problem]
