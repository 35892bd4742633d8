"""The section `usage.sources` of the policy: where readings come from, in order. No I/O here."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

TYPES = ("metrics.k8s.io", "prometheus", "annotations")

_LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=128)]
_NodeKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$", max_length=317)]
_SeriesName = Annotated[str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9]*$", max_length=63)]
_Query = Annotated[str, Field(min_length=1, max_length=4096)]
_Path = Annotated[str, Field(pattern=r"^/", max_length=4096)]
_URL = re.compile(r"https?://(?:\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::\d{1,5})?(?:/[^\s?#@]*)?", re.ASCII)
_Window = Annotated[float, Field(ge=1, le=86400)]

# Of every entry of a policy.
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class _Strict(BaseModel):
    model_config = STRICT


class MetricsApiEntry(_Strict):
    """The resource metrics API, as metrics-server serves it."""

    type: Literal["metrics.k8s.io"]


class NodeEntry(_Strict):
    """How a series is led to its node: by which of its labels, and what of a node that label's value is."""

    label: _LabelName = "instance"
    match: Literal["name", "internalIP", "label"] = "internalIP"
    nodeLabel: _NodeKey | None = None  # noqa: N815, Kubernetes field style

    @model_validator(mode="after")
    def _names_a_label(self) -> "NodeEntry":
        if (self.match == "label") != (self.nodeLabel is not None):
            raise ValueError("expected nodeLabel with match: label, and only there")
        return self


class QueriesEntry(_Strict):
    """PromQL, one series a node: cores, bytes, and seconds of the epoch at which the two were measured."""

    cpu: _Query | None = None
    memory: _Query | None = None
    timestamp: _Query | None = None


class PrometheusEntry(_Strict):
    """A server with Prometheus' HTTP API. `queries`, where given, replace all those of the preset."""

    type: Literal["prometheus"]
    url: Annotated[str, Field(max_length=2048)]
    preset: Literal["node-exporter", "cadvisor", "kubelet"] = "node-exporter"
    queries: QueriesEntry | None = None
    windowSeconds: _Window = 120.0  # noqa: N815, Kubernetes field style
    series: Annotated[dict[_SeriesName, _Query], Field(max_length=32)] = {}
    node: NodeEntry = NodeEntry()
    bearerTokenFile: _Path | None = None  # noqa: N815, Kubernetes field style
    caFile: _Path | None = None  # noqa: N815, Kubernetes field style
    timeoutSeconds: Annotated[float, Field(ge=0.1, le=60)] = 10.0  # noqa: N815, Kubernetes field style
    intervalSeconds: Annotated[float, Field(ge=1, le=600)] = 15.0  # noqa: N815, Kubernetes field style

    @field_validator("url")
    @classmethod
    def _is_plain(cls, url: str) -> str:
        if not _URL.fullmatch(url):
            raise ValueError("expected an http or https URL without user, query and fragment")
        return url.rstrip("/")

    @model_validator(mode="after")
    def _keeps_the_token(self) -> "PrometheusEntry":
        if self.bearerTokenFile and not self.url.startswith("https:"):
            raise ValueError("expected an https url with bearerTokenFile: a token is not sent in the clear")
        if self.caFile and not self.url.startswith("https:"):
            raise ValueError("expected an https url with caFile")
        return self

    def asked(self) -> QueriesEntry:
        """Return the queries for usage."""
        if self.queries is not None:
            return self.queries
        window = f"{round(self.windowSeconds * 1000)}ms"
        return QueriesEntry(**{key: text % {"w": window} for key, text in PRESETS[self.preset].items()})


class AnnotationsEntry(_Strict):
    """Node annotations "value,time", or only a value, as Crane and others write them."""

    type: Literal["annotations"]
    cpu: _NodeKey | None = None
    memory: _NodeKey | None = None
    format: Literal["fraction", "quantity"] = "fraction"
    windowSeconds: _Window = 300.0  # noqa: N815, Kubernetes field style

    @model_validator(mode="after")
    def _names_one(self) -> "AnnotationsEntry":
        if not self.cpu and not self.memory:
            raise ValueError("expected the key of an annotation under cpu, memory or both")
        return self


Source = Annotated[MetricsApiEntry | PrometheusEntry | AnnotationsEntry, Field(discriminator="type")]

# By what a node is scraped from. No query adds series of several jobs or clusters up: two that match one
# node are reported, and neither is used. `deriv` and not `rate`, which divides what it saw by the window
# even where the first sample lies in its middle: when it is new, or after a gap, a busy node would look
# idle. A counter that began anew has a negative slope, no use of a node, until the window has passed.
PRESETS: dict[str, dict[str, str]] = {
    "node-exporter": {
        "cpu": 'sum without (cpu, mode) (deriv(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[%(w)s]))',
        "memory": "node_memory_MemTotal_bytes - node_memory_MemAvailable_bytes",
        "timestamp": "timestamp(node_memory_MemAvailable_bytes)",
    },
    "cadvisor": {
        "cpu": 'deriv(container_cpu_usage_seconds_total{id="/"}[%(w)s])',
        "memory": 'container_memory_working_set_bytes{id="/"}',
        "timestamp": 'timestamp(container_memory_working_set_bytes{id="/"})',
    },
    "kubelet": {
        "cpu": "deriv(node_cpu_usage_seconds_total[%(w)s])",
        "memory": "node_memory_working_set_bytes",
        "timestamp": "timestamp(node_memory_working_set_bytes)",
    },
}

METRICS_API_ALONE: tuple[Source, ...] = (MetricsApiEntry(type="metrics.k8s.io"),)


def names(sources: Sequence[Source]) -> list[str]:
    """Return a name for each source: its type, and from the second of a type on its number among them."""
    types = [source.type for source in sources]
    return [
        kind if (number := types[:index].count(kind)) == 0 else f"{kind}-{number + 1}"
        for index, kind in enumerate(types)
    ]
