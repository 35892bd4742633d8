"""The scorers, one a file, and their registry: a new one is its file, one line here, one test table."""

from collections.abc import Mapping

from webhook.scorers.balance import Balance
from webhook.scorers.base import MAX_SCORE, Scorer
from webhook.scorers.least_requested import LeastRequested
from webhook.scorers.utilization import Utilization

SCORERS: Mapping[str, type[Scorer]] = {
    "balance": Balance,
    "least-requested": LeastRequested,
    "utilization": Utilization,
}

__all__ = ["MAX_SCORE", "SCORERS", "Scorer"]
