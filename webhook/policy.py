"""The ScoringPolicy: its schema, strict loading with every problem at once, the defaults. No I/O here."""

import hashlib
import math
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from webhook import strictyaml
from webhook.planner import Profile, Weighted
from webhook.scorers import SCORERS
from webhook.sources import METRICS_API_ALONE, TYPES, PrometheusEntry, Source

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
    strength: Annotated[float, Field(ge=0.05, le=1)] = 1.0


class UsageEntry(_Strict):
    """Readings: how long one counts after it last changed, in seconds, and where they come from, in order."""

    staleAfterSeconds: Annotated[float, Field(ge=1, le=3600)] = 180.0  # noqa: N815, Kubernetes field style
    sources: Annotated[list[Source], Field(min_length=1, max_length=8)] = [*METRICS_API_ALONE]


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
        path = f"profile.scorers.{name}"
        if name not in SCORERS:
            problems.append(_unknown(name))
            continue
        bad = _problems_in_args(name, entry.args)
        problems += bad
        if bad:
            continue
        try:
            scorer = SCORERS[name](**entry.args)
        except ValueError as error:
            problems.append(Problem(f"{path}.args", str(error)))
            continue
        if entry.enabled and entry.weight > 0:
            scorers.append(Weighted(name, scorer, entry.weight))
    if not scorers and not problems:
        problems.append(
            Problem("profile.scorers", "expected at least one scorer that is enabled with a weight above 0")
        )
    problems += _problems_in_series(document.usage.sources)
    if problems:
        raise ConfigError(problems)
    return Policy(
        name=document.metadata.name,
        hash=digest,
        profile=Profile(
            tuple(scorers), document.profile.strength, document.scheduler.percentageOfNodesToScore
        ),
        stale_after_s=document.usage.staleAfterSeconds,
        sources=tuple(document.usage.sources),
        scheduler_names=frozenset(document.scheduler.names),
        full_audit=document.audit.verbosity == "full",
    )


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


def _problems_in_args(scorer: str, args: dict[str, Any]) -> list[Problem]:
    known = [field.name for field in fields(SCORERS[scorer])]  # type: ignore[arg-type]
    expected = f"expected one of {', '.join(known)}" if known else "expected no arguments"
    problems: list[Problem] = []
    for key, value in args.items():
        path = f"profile.scorers.{scorer}.args.{key}"
        if key not in known:
            problems.append(Problem(path, f"unknown argument; {expected}"))
        elif not _is_number(value):
            problems.append(Problem(path, f"expected a number, found {reprlib.repr(value)}"))
    return problems


def _is_number(value: object) -> bool:
    try:
        return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


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
            problems += _problems_in_args(name, args)
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
    message = error["msg"].replace("Input should be", "expected").replace("a valid dictionary", "a mapping")
    return Problem(path, f"{message}, found {reprlib.repr(error['input'])}")


_SOURCES = ("usage", "sources")
_EXPECTED = {"apiVersion": f"expected {API_VERSION}", "kind": f"expected {KIND}"}
