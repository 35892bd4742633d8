"""The scorers that a policy names, made from their arguments. No I/O here."""

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from webhook.policy.problems import ConfigError, Problem, message
from webhook.scorers import SCORERS, Scorer


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
    return Problem(path, message(error))


def _expected_args(scorer: str) -> str:
    known = [to_camel(each.name) for each in fields(SCORERS[scorer]) if each.init]  # type: ignore[arg-type]
    return f"expected one of {', '.join(known)}" if known else "expected no arguments"


def problems_in_scorers(data: dict[str, Any]) -> list[Problem]:
    """Find what the schema does not know of: beside its problems, these are told in the same go."""
    profile = data.get("profile")
    scorers = profile.get("scorers") if isinstance(profile, dict) else None
    if not isinstance(scorers, dict):
        return []
    problems: list[Problem] = []
    for name, entry in scorers.items():
        args = entry.get("args") if isinstance(entry, dict) else None
        if name not in SCORERS:
            problems.append(unknown(name))
        elif isinstance(args, dict):
            try:
                scorer(name, args)
            except ConfigError as error:
                problems += error.problems
    return problems


def unknown(name: str) -> Problem:
    """Return what to say of a name that no scorer has."""
    near = get_close_matches(name, SCORERS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(SCORERS)}"
    return Problem(f"profile.scorers.{name}", f"unknown scorer; {hint}")
