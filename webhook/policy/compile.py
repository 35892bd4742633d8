"""From the text of a policy to the policy in force, with every problem at once; the defaults. No I/O here."""

import hashlib
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from webhook import kube, strictyaml
from webhook.expectation.estimate import Estimator, Shares
from webhook.planner import Profile, Weighted
from webhook.policy.problems import ConfigError, Problem, in_document
from webhook.policy.schema import Document, ExpectedUsageEntry, MetadataEntry
from webhook.policy.scorers import problems_in_scorers, scorer, unknown
from webhook.policy.sources import PrometheusEntry, Source
from webhook.scorers import SCORERS
from webhook.thresholds import Thresholds


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
        raise ConfigError(
            [in_document(item) for item in error.errors()] + problems_in_scorers(data)
        ) from None
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
            problems.append(unknown(name))
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
