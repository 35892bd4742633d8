"""What a scorer is. No I/O here."""

from typing import Protocol

from webhook.load import View
from webhook.snapshot import FloatArray

MAX_SCORE = 100.0


class Scorer(Protocol):
    """A way to value nodes, each with the Pod placed on it.

    Its dataclass fields are its arguments in the policy; a bad one raises ValueError from the
    constructor, as `field: what is expected`.
    """

    def score(self, nodes: View) -> FloatArray:
        """Return 0 to 100 for every row; NaN where there is nothing to say, which leaves the mean alone."""
        ...
