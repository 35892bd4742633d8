"""What a scorer is, and the arguments that several of them take. No I/O here."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from webhook.history import Kind, Statistic
from webhook.load import View
from webhook.snapshot import FloatArray

MAX_SCORE = 100.0

Number = Annotated[float, Field(strict=True)]
Weight = Annotated[float, Field(strict=True, ge=0, le=100)]
Window = Annotated[float, Field(strict=True, ge=60, le=86400)]
Label = Annotated[str, Field(max_length=317)]
Series = Annotated[str, Field(max_length=253)]


class Arguments:
    """Makes a dataclass's fields a scorer's arguments, in Kubernetes' spelling: `window_s` as `windowS`.

    The policy checks them against the annotations, and reports ValueError from `__post_init__`.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", allow_inf_nan=False, alias_generator=to_camel, arbitrary_types_allowed=True
    )


class Scorer(Protocol):
    """A way to value nodes, each with the Pod placed on it: a frozen dataclass of its arguments."""

    def score(self, nodes: View) -> FloatArray:
        """Return 0 to 100 for every row; NaN where there is nothing to say, which leaves the mean alone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Arguments):
    """Arguments of what looks at expected use: which use of the readings stands for what runs already.

    By default it is the last reading; `statistic` over `windowSeconds` takes its place (`View.level`).
    The user's own numbers, fractions of allocatable, replace the readings of a resource altogether:
    where such a series has none, its use is not known.
    """

    statistic: Literal["last", "mean", "max", "ewma", "p50", "p75", "p90", "p95", "p99"] = "last"
    window_seconds: Window = 300.0
    cpu_series: Series = ""
    memory_series: Series = ""

    def used(self, nodes: View) -> FloatArray:
        """Return the expected use, shape (2, size), as fractions of allocatable; NaN if not known."""
        used = nodes.level(self._statistic())
        if not self.cpu_series and not self.memory_series:
            return used
        return np.stack(
            [
                nodes.shares(name) + nodes.unseen[resource] if name else used[resource]
                for resource, name in enumerate((self.cpu_series, self.memory_series))
            ]
        )

    def _statistic(self) -> Statistic | None:
        if self.statistic == "last":
            return None
        if self.statistic.startswith("p"):
            return Statistic("percentile", self.window_seconds, percent=float(self.statistic[1:]))
        kinds: dict[str, Kind] = {"mean": "mean", "max": "max", "ewma": "ewma"}
        return Statistic(kinds[self.statistic], self.window_seconds)


def share(wanted: FloatArray, known: FloatArray) -> FloatArray:
    """Return wanted / known, 0 where `known` is 0."""
    result: FloatArray = np.divide(wanted, known, out=np.zeros_like(wanted, np.float64), where=known > 0)
    return result
