"""What is wrong in a file, in words: where, what was found, what is expected. No I/O here."""

import re
import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from webhook.policy.schema import API_VERSION, KIND
from webhook.policy.sources import TYPES


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


def in_document(error: Any) -> Problem:
    """Return what a pydantic error of the document says to the policy's author."""
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
    return Problem(path, message(error))


def message(error: Any) -> str:
    """Return a pydantic error in the words of every other problem."""
    if error["type"] == "unexpected_keyword_argument":
        return "unknown key"
    if error["type"] == "missing":
        return "missing; expected a value"
    message = error["msg"]
    for theirs, ours in _WORDS:
        message = theirs.sub(ours, message)
    return f"{message}, found {reprlib.repr(error['input'])}"


_WORDS = tuple(
    (re.compile(theirs), ours)
    for theirs, ours in (
        ("^Input should be", "expected"),
        (r"^\w+ should have", "expected"),
        (r"a valid dictionary( or (instance of \w+|object to extract fields from))?", "a mapping"),
        (r"a dictionary or an instance of \w+", "a mapping"),
        ("^String should match pattern", "expected a text that matches"),
        ("a valid (tuple|list)", "a list"),
        (" after validation, not .*", ""),
    )
)
_SOURCES = ("usage", "sources")
_EXPECTED = {"apiVersion": f"expected {API_VERSION}", "kind": f"expected {KIND}"}
