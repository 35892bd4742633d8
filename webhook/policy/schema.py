"""The schema of a ScoringPolicy: its entries, and their defaults. No I/O here."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from webhook import kube
from webhook.expectation.estimate import DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES
from webhook.policy.sources import METRICS_API_ALONE, STRICT, Source
from webhook.quantity import QuantityError
from webhook.thresholds import OFF, Thresholds

API_VERSION = "trimtab.dev/v1alpha1"
KIND = "ScoringPolicy"


class _Strict(BaseModel):
    model_config = STRICT


def _quantity(resource: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        try:
            bad = kube.amount(resource, text) < 0
        except QuantityError:
            bad = True
        if bad:
            raise PydanticCustomError("quantity", "expected a quantity of zero or more")
        return text

    return check


Number = Annotated[float, Field(ge=0, le=100)]


class ScorerEntry(_Strict):
    """A scorer's place in the mean: its weight, and its own arguments."""

    weight: Number = 1.0
    enabled: bool = True
    args: dict[str, Any] = {}


class ProfileEntry(_Strict):
    """A named way to score and to encode."""

    scorers: dict[str, ScorerEntry] = {
        "utilization": ScorerEntry(weight=10.0),
        "least-requested": ScorerEntry(weight=0.1),
        "balance": ScorerEntry(weight=1.0),
    }
    thresholds: Thresholds = OFF
    strength: Annotated[float, Field(ge=0.05, le=1)] = 1.0


class UsageEntry(_Strict):
    """Readings: how long one counts after it last changed, in seconds, and where they come from, in order."""

    staleAfterSeconds: Annotated[float, Field(ge=1, le=3600)] = 180.0  # noqa: N815, Kubernetes field style
    sources: Annotated[list[Source], Field(min_length=1, max_length=8)] = [*METRICS_API_ALONE]


Share = Annotated[float, Field(ge=0, le=10)]


class _SharesEntry(_Strict):
    requestShare: Share = 1.0  # noqa: N815, Kubernetes field style
    burstShare: Share = 0.0  # noqa: N815, Kubernetes field style


class CpuSharesEntry(_SharesEntry):
    """How much of a request, and of the room up to the limit, a Pod of a new workload uses."""

    default: Annotated[str, AfterValidator(_quantity(kube.CPU))] = f"{DEFAULT_CPU_MILLI}m"


class MemorySharesEntry(_SharesEntry):
    default: Annotated[str, AfterValidator(_quantity(kube.MEMORY))] = f"{DEFAULT_MEMORY_BYTES // 2**20}Mi"


class ExpectedUsageEntry(_Strict):
    """What a Pod is expected to use: as its workload was seen to, or by shares of what it declares."""

    learn: bool = True
    cpu: CpuSharesEntry = CpuSharesEntry()
    memory: MemorySharesEntry = MemorySharesEntry()


class SchedulerEntry(_Strict):
    """What is assumed of the kube-scheduler: the names that count as it, and its sample (0: default)."""

    names: Annotated[list[str], Field(min_length=1)] = ["default-scheduler"]
    percentageOfNodesToScore: Annotated[int, Field(ge=0, le=100)] = 0  # noqa: N815, Kubernetes field style


class AuditEntry(_Strict):
    """How much the decision annotation says; `full` adds scores, which tell one tenant of another's load."""

    verbosity: Literal["standard", "full"] = "standard"


class MetadataEntry(_Strict):
    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]


class Document(_Strict):
    """The whole of `policy.yaml`."""

    apiVersion: Literal["trimtab.dev/v1alpha1"]  # noqa: N815, Kubernetes field style
    kind: Literal["ScoringPolicy"]
    metadata: MetadataEntry = MetadataEntry(name="policy")
    profile: ProfileEntry = ProfileEntry()
    usage: UsageEntry = UsageEntry()
    expectedUsage: ExpectedUsageEntry = ExpectedUsageEntry()  # noqa: N815, Kubernetes field style
    scheduler: SchedulerEntry = SchedulerEntry()
    audit: AuditEntry = AuditEntry()
