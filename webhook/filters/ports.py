"""Host ports that a Pod wants and others have (nodeports/node_ports.go). No I/O here."""

from webhook.filters.demand import Demand
from webhook.filters.nodes import mask_of
from webhook.snapshot import Mask, Snapshot


def node_ports(demand: Demand, nodes: Snapshot) -> Mask | None:
    """Nodes where no bound Pod has one of the ports at the same address, or at every address."""
    if not demand.ports:
        return None
    groups = (group for port in demand.ports for group in nodes.pods.with_port(port))
    taken = {row for group in groups for row in group.rows}
    return ~mask_of(nodes, taken) if taken else None
