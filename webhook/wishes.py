"""What a Pod's author may ask of the scorers, in annotations: believed of this Pod alone. No I/O here.

A wish that cannot be read is none: it must not keep the Pod from being placed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from webhook import selectors
from webhook.kube import Requirement

NEAR = "trimtab.dev/near"
FAR = "trimtab.dev/far"
ACCELERATOR = "trimtab.dev/accelerator"

_MAX_MODEL = 63


@dataclass(frozen=True, slots=True)
class Wishes:
    """Pods of the same namespace to be near to or far from, by their labels, and an accelerator's model."""

    near: tuple[Requirement, ...] | None = None
    far: tuple[Requirement, ...] | None = None
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


def _selector(text: str | None) -> tuple[Requirement, ...] | None:
    try:
        return None if text is None else selectors.parse(text)
    except ValueError:
        return None
