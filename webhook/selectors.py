"""Label selectors, as k8s.io/apimachinery reads them (meta/v1: LabelSelectorAsSelector). No I/O here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from webhook import kube


class Labelled(Protocol):
    """Anything with labels."""

    @property
    def labels(self) -> Mapping[str, str]: ...


T = TypeVar("T", bound=Labelled)


class SelectorError(ValueError):
    """A selector that the API server refuses."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """That a label is one of some values, or is there at all; or, where not `positive`, that it is not."""

    key: str
    values: frozenset[str] = frozenset()
    positive: bool = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key) in self.values if self.values else self.key in labels
        return found is self.positive

    def among(self, items: Iterable[T]) -> list[T]:
        """Return those whose labels match: `matches` without a call for each, for there may be many."""
        key, values, positive = self.key, self.values, self.positive
        if values:
            return [item for item in items if (item.labels.get(key) in values) is positive]
        return [item for item in items if (key in item.labels) is positive]


@dataclass(frozen=True, slots=True)
class Selector:
    """All of the requirements; one without any matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.matches(labels) for requirement in self.requirements)


def read(
    selector: kube.LabelSelector | None,
    labels: Mapping[str, str] | None = None,
    same: Iterable[str] = (),
    other: Iterable[str] = (),
) -> Selector | None:
    """Return the selector; None for an absent one, which matches nothing.

    `same` and `other` are a Pod's matchLabelKeys and mismatchLabelKeys and `labels` its labels: what they
    stand for the API server merges in only after admission (registry/core/pod/strategy.go:
    applyMatchLabelKeysAndMismatchLabelKeys), and merging twice changes nothing. Raise SelectorError
    where an operator is unknown or has not the values that it needs.
    """
    if selector is None:
        return None
    known = labels or {}
    equal = (selector.match_labels or {}).items()
    found = {Requirement(key, frozenset((value,))) for key, value in equal}
    for expression in selector.match_expressions or ():
        found.add(_requirement(expression))
    for keys, positive in ((same, True), (other, False)):
        found |= {Requirement(key, frozenset((known[key],)), positive) for key in keys if key in known}
    return Selector(tuple(sorted(found, key=_order)))


def _order(requirement: Requirement) -> tuple[bool, bool, str, list[str]]:
    """Put first what tells most apart, and equal selectors in one order."""
    return not requirement.positive, not requirement.values, requirement.key, sorted(requirement.values)


def _requirement(expression: kube.Requirement) -> Requirement:
    values = frozenset(expression.values or ())
    valued = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}.get(expression.operator)
    if valued is None:
        wanted = "In, NotIn, Exists or DoesNotExist"
        raise SelectorError(f"operator: expected {wanted}, found {expression.operator!r}")
    if bool(values) is not valued:
        wanted = "one value or more" if valued else "no values"
        raise SelectorError(f"values: expected {wanted} for {expression.operator}, found {len(values)}")
    return Requirement(expression.key, values, expression.operator in ("In", "Exists"))
