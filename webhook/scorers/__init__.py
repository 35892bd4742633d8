"""The scorers, one a file, and their registry: a new one is its file, one line here, one test table."""

from collections.abc import Mapping

from webhook.scorers.accelerator import Accelerator
from webhook.scorers.balance import Balance
from webhook.scorers.base import MAX_SCORE, Scorer
from webhook.scorers.custom import Custom
from webhook.scorers.energy import Energy
from webhook.scorers.hot_node import HotNode
from webhook.scorers.least_requested import LeastRequested
from webhook.scorers.most_requested import MostRequested
from webhook.scorers.overcommit_risk import OvercommitRisk
from webhook.scorers.risk import Risk
from webhook.scorers.target_load import TargetLoad
from webhook.scorers.topology import Topology
from webhook.scorers.trend import Trend
from webhook.scorers.utilization import Utilization

SCORERS: Mapping[str, type[Scorer]] = {
    "accelerator": Accelerator,
    "balance": Balance,
    "custom": Custom,
    "energy": Energy,
    "hot-node": HotNode,
    "least-requested": LeastRequested,
    "most-requested": MostRequested,
    "overcommit-risk": OvercommitRisk,
    "risk": Risk,
    "target-load": TargetLoad,
    "topology": Topology,
    "trend": Trend,
    "utilization": Utilization,
}

__all__ = ["MAX_SCORE", "SCORERS", "Scorer"]
