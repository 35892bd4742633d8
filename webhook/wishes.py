"""What a Pod's author may ask of the scorers, in annotations: believed of this Pod alone. No I/O here.

A wish that cannot be read is none: it must not keep the Pod from being placed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from webhook.selectors import Requirement, Selector

NEAR = "trimtab.dev/near"
FAR = "trimtab.dev/far"
ACCELERATOR = "trimtab.dev/accelerator"

_MAX_MODEL = 63


@dataclass(frozen=True, slots=True)
class Wishes:
    """Pods of the same namespace to be near to or far from, by their labels, and an accelerator's model."""

    near: Selector | None = None
    far: Selector | None = None
    accelerator: str | None = None


NONE = Wishes()


def read(annotations: Mapping[str, str] | None) -> Wishes:
    if not annotations:
        return NONE
    model = annotations.get(ACCELERATOR, "")
    return Wishes(
        _selector(annotations.get(NEAR)),
        _selector(annotations.get(FAR)),
        model if 0 < len(model) <= _MAX_MODEL else None,
    )


def _selector(text: str | None) -> Selector | None:
    try:
        return None if text is None else parse(text)
    except ValueError:
        return None


# Every requirement is held against every shape of Pods, while all other reviews wait.
_MAX_REQUIREMENTS = 16
_MAX_LENGTH = 1024

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?"
_KEY = rf"{_NAME}(?:/{_NAME})?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_PART = re.compile(
    rf"(?:(?P<key>{_KEY})\s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<set>{_KEY})\s+(?P<word>in|notin)\s*\(\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)"
    rf"|(?P<no>!)?\s*(?P<exists>{_KEY}))\s*"
)
_COMMA = re.compile(r",\s*")
_NEGATIVE = ("!=", "notin")


def parse(text: str) -> Selector:
    """Return a selector written as for `kubectl -l`: `app=db,tier in (a,b),!old`; raise ValueError."""
    text = text.strip()
    found: list[Requirement] = []
    at = 0
    while len(text) <= _MAX_LENGTH and (part := _PART.match(text, at)) is not None:
        found.append(_requirement(part))
        if len(found) > _MAX_REQUIREMENTS:
            break
        if part.end() == len(text):
            return Selector(tuple(found))
        comma = _COMMA.match(text, part.end())
        if comma is None:
            break
        at = comma.end()
    raise ValueError(f"expected a label selector such as app=db, found {text[:_MAX_LENGTH]!r}")


def _requirement(part: re.Match[str]) -> Requirement:
    if part["key"] is not None:
        return Requirement(part["key"], frozenset((part["value"],)), part["sign"] not in _NEGATIVE)
    if part["set"] is not None:
        values = frozenset(value.strip() for value in part["values"].split(","))
        return Requirement(part["set"], values, part["word"] not in _NEGATIVE)
    return Requirement(part["exists"], positive=part["no"] is None)
