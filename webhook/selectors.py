"""Label selectors, as k8s.io/apimachinery reads them (meta/v1: LabelSelectorAsSelector). No I/O here."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from webhook import kube


class SelectorError(ValueError):
    """A selector that the API server refuses."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label has to be: `values` is empty for `Exists` and `DoesNotExist`."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


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
    found = {Requirement(key, "In", frozenset((value,))) for key, value in equal}
    for expression in selector.match_expressions or ():
        found.add(_requirement(expression))
    for keys, operator in ((same, "In"), (other, "NotIn")):
        found |= {Requirement(key, operator, frozenset((known[key],))) for key in keys if key in known}
    return Selector(tuple(sorted(found, key=_order)))


def _order(requirement: Requirement) -> tuple[bool, str, str, list[str]]:
    """Put first what tells most apart, and equal selectors in one order."""
    return requirement.operator != "In", requirement.key, requirement.operator, sorted(requirement.values)


def _requirement(expression: kube.Requirement) -> Requirement:
    values = frozenset(expression.values or ())
    valued = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}.get(expression.operator)
    if valued is None:
        wanted = "In, NotIn, Exists or DoesNotExist"
        raise SelectorError(f"operator: expected {wanted}, found {expression.operator!r}")
    if bool(values) is not valued:
        wanted = "one value or more" if valued else "no values"
        raise SelectorError(f"values: expected {wanted} for {expression.operator}, found {len(values)}")
    return Requirement(expression.key, expression.operator, values)
