"""The ScoringPolicy: its schema, strict loading with every problem at once, the defaults. No I/O here."""

import hashlib
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from webhook import kube, strictyaml
from webhook.estimate import DEFAULT_CPU_MILLI, DEFAULT_MEMORY_BYTES, Estimator, Shares
from webhook.planner import Profile, Weighted
from webhook.quantity import QuantityError
from webhook.scorers import SCORERS, Scorer
from webhook.sources import METRICS_API_ALONE, TYPES, PrometheusEntry, Source
from webhook.thresholds import OFF, Thresholds

API_VERSION = "trimtab.dev/v1alpha1"
KIND = "ScoringPolicy"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in a file: where, what was found, what is expected."""

    path: str
    message: str

    def __str__(self) -> str:
        # One problem is one line, whatever a key in the file holds.
        return " ".join(f"{self.path}: {self.message}".split())


class ConfigError(ValueError):
    """A policy or cluster file that cannot be used, with every problem found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


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


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy in force: what decisions read, and the name and hash that they record."""

    name: str
    hash: str
    profile: Profile
    stale_after_s: float
    sources: tuple[Source, ...]
    estimator: Estimator
    scheduler_names: frozenset[str]
    full_audit: bool


def load(text: str) -> Policy:
    """Return the policy in a YAML text; raise ConfigError with every problem in it."""
    try:
        data = strictyaml.load(text)
    except strictyaml.YamlError as error:
        raise ConfigError([Problem("policy.yaml", str(error))]) from None
    if not isinstance(data, dict):
        raise ConfigError([Problem("policy.yaml", f"expected a mapping, found {reprlib.repr(data)}")])
    try:
        document = Document.model_validate(data)
    except ValidationError as error:
        raise ConfigError([_problem(item) for item in error.errors()] + _problems_in_scorers(data)) from None
    return _compile(document, hashlib.sha256(text.encode()).hexdigest()[:12])


def default() -> Policy:
    """Return the policy that holds where no ConfigMap says otherwise."""
    document = Document(apiVersion="trimtab.dev/v1alpha1", kind="ScoringPolicy")
    return _compile(document.model_copy(update={"metadata": MetadataEntry(name="built-in")}), "built-in")


def _compile(document: Document, digest: str) -> Policy:
    problems: list[Problem] = []
    scorers: list[Weighted] = []
    for name, entry in document.profile.scorers.items():
        if name not in SCORERS:
            problems.append(_unknown(name))
            continue
        try:
            made = scorer(name, entry.args)
        except ConfigError as error:
            problems += error.problems
            continue
        if entry.enabled and entry.weight > 0:
            scorers.append(Weighted(name, made, entry.weight))
    if not scorers and not problems:
        problems.append(
            Problem("profile.scorers", "expected at least one scorer that is enabled with a weight above 0")
        )
    problems += _problems_in_series(document.usage.sources)
    problems += _unknown_series(document.usage.sources, scorers, document.profile.thresholds)
    if problems:
        raise ConfigError(problems)
    return Policy(
        name=document.metadata.name,
        hash=digest,
        profile=Profile(
            tuple(scorers),
            document.profile.strength,
            document.scheduler.percentageOfNodesToScore,
            document.profile.thresholds,
        ),
        stale_after_s=document.usage.staleAfterSeconds,
        sources=tuple(document.usage.sources),
        estimator=_estimator(document.expectedUsage),
        scheduler_names=frozenset(document.scheduler.names),
        full_audit=document.audit.verbosity == "full",
    )


def _estimator(entry: ExpectedUsageEntry) -> Estimator:
    cpu, memory = (
        Shares(float(kube.amount(resource, shares.default)), shares.requestShare, shares.burstShare)
        for resource, shares in ((kube.CPU, entry.cpu), (kube.MEMORY, entry.memory))
    )
    return Estimator(cpu, memory, entry.learn)


def _problems_in_series(entries: Iterable[Source]) -> list[Problem]:
    """Find names that two sources would both give numbers to."""
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        named = set(entry.series) if isinstance(entry, PrometheusEntry) else set[str]()
        problems += [
            Problem(f"usage.sources.{index}.series.{name}", "expected a name that no other source has")
            for name in sorted(named & seen)
        ]
        seen |= named
    return problems


def _unknown_series(
    sources: Iterable[Source], scorers: Iterable[Weighted], thresholds: Thresholds
) -> list[Problem]:
    """Find series that are asked for and no source has: they would never say anything."""
    known = {name for entry in sources if isinstance(entry, PrometheusEntry) for name in entry.series}
    asking: list[tuple[str, Any]] = [(f"profile.scorers.{each.name}.args", each.scorer) for each in scorers]
    asking.append(("profile.thresholds", thresholds))
    return [
        Problem(f"{path}.{to_camel(each.name)}", f"expected a name in usage.sources.*.series, found {name!r}")
        for path, holder in asking
        for each in fields(holder)
        if each.name.endswith("series") and (name := getattr(holder, each.name)) and name not in known
    ]


def scorer(name: str, args: Mapping[str, Any]) -> Scorer:
    """Return a scorer with its arguments; raise ConfigError with every problem in them."""
    kind = SCORERS[name]
    try:
        made: Scorer = TypeAdapter(kind).validate_python(dict(args))
    except ValidationError as error:
        raise ConfigError([_problem_in_args(name, item) for item in error.errors()]) from None
    return made


def _problem_in_args(scorer: str, error: Any) -> Problem:
    path = ".".join(["profile.scorers", scorer, "args", *map(str, error["loc"])])
    if error["type"] == "value_error":
        return Problem(path, str(error["ctx"]["error"]))
    if error["type"] == "unexpected_keyword_argument" and len(error["loc"]) == 1:
        return Problem(path, f"unknown argument; {_expected_args(scorer)}")
    return Problem(path, _message(error))


def _expected_args(scorer: str) -> str:
    known = [to_camel(each.name) for each in fields(SCORERS[scorer]) if each.init]  # type: ignore[arg-type]
    return f"expected one of {', '.join(known)}" if known else "expected no arguments"


def _problems_in_scorers(data: dict[str, Any]) -> list[Problem]:
    """Find what the schema does not know of: beside its problems, these are told in the same go."""
    profile = data.get("profile")
    scorers = profile.get("scorers") if isinstance(profile, dict) else None
    if not isinstance(scorers, dict):
        return []
    problems: list[Problem] = []
    for name, entry in scorers.items():
        args = entry.get("args") if isinstance(entry, dict) else None
        if name not in SCORERS:
            problems.append(_unknown(name))
        elif isinstance(args, dict):
            try:
                scorer(name, args)
            except ConfigError as error:
                problems += error.problems
    return problems


def _unknown(name: str) -> Problem:
    near = get_close_matches(name, SCORERS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(SCORERS)}"
    return Problem(f"profile.scorers.{name}", f"unknown scorer; {hint}")


def _problem(error: Any) -> Problem:
    # A source's place in the document is followed by its type, which is no key.
    places = [place for index, place in enumerate(error["loc"]) if error["loc"][:2] != _SOURCES or index != 3]
    path = ".".join(map(str, places)) or "policy.yaml"
    if error["type"] == "extra_forbidden":
        return Problem(path, "unknown key")
    if error["type"] == "missing":
        return Problem(path, f"missing; {_EXPECTED.get(path, 'expected a value')}")
    if error["type"] in ("union_tag_not_found", "union_tag_invalid"):
        found = error["input"].get("type") if isinstance(error["input"], dict) else None
        return Problem(f"{path}.type", f"expected one of {', '.join(TYPES)}, found {reprlib.repr(found)}")
    if error["type"] == "value_error":
        return Problem(path, str(error["ctx"]["error"]))
    return Problem(path, _message(error))


def _message(error: Any) -> str:
    if error["type"] == "unexpected_keyword_argument":
        return "unknown key"
    message = error["msg"]
    for theirs, ours in _WORDS:
        message = theirs.sub(ours, message)
    return f"{message}, found {reprlib.repr(error['input'])}"


_WORDS = tuple(
    (re.compile(theirs), ours)
    for theirs, ours in (
        ("^Input should be", "expected"),
        (r"^\w+ should have", "expected"),
        ("a valid dictionary|a dictionary or an instance of \\w+", "a mapping"),
        ("a valid (tuple|list)", "a list"),
        (" after validation, not .*", ""),
    )
)
_SOURCES = ("usage", "sources")
_EXPECTED = {"apiVersion": f"expected {API_VERSION}", "kind": f"expected {KIND}"}
