"""Label selectors in their text form, as `kubectl -l` takes them. No I/O here."""

import re

from webhook.kube import Requirement

MAX_LENGTH = 1024

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?"
_KEY = rf"{_NAME}(?:/{_NAME})?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
_PART = re.compile(
    rf"(?:(?P<key>{_KEY})\s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<set>{_KEY})\s+(?P<word>in|notin)\s*\(\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)"
    rf"|(?P<no>!)?\s*(?P<exists>{_KEY}))\s*"
)
_COMMA = re.compile(r",\s*")
_SIGNS = {"=": "In", "==": "In", "!=": "NotIn", "in": "In", "notin": "NotIn"}


def parse(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a selector such as `app=db,tier in (a,b),!old`; raise ValueError."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"expected a label selector of at most {MAX_LENGTH} characters")
    text = text.strip()
    found: list[Requirement] = []
    at = 0
    while True:
        part = _PART.match(text, at)
        if part is None:
            raise ValueError(f"expected a label selector such as app=db, found {text!r}")
        found.append(_requirement(part))
        at = part.end()
        if at == len(text):
            return tuple(found)
        comma = _COMMA.match(text, at)
        if comma is None:
            raise ValueError(f"expected a label selector such as app=db, found {text!r}")
        at = comma.end()


def _requirement(part: re.Match[str]) -> Requirement:
    if part["key"] is not None:
        return Requirement(part["key"], _SIGNS[part["sign"]], [part["value"]])
    if part["set"] is not None:
        values = [value.strip() for value in part["values"].split(",")]
        return Requirement(part["set"], _SIGNS[part["word"]], values)
    return Requirement(part["exists"], "DoesNotExist" if part["no"] else "Exists")
