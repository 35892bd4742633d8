"""Clusters of any size for the benchmarks, filled through the same calls that the watches make."""

from webhook import kube
from webhook.cluster import Cluster

NAMESPACE = "team"
TEMPLATES = 200
# The monotonic clock at the last of the readings, which are enough for the statistics of the scorers.
READINGS, READ_AT = 10, 1000.0
GIB = 1024**3


def node(number: int) -> kube.Node:
    name = f"node-{number}"
    size = (8, 16, 32)[number % 3]
    return kube.Node(
        metadata=kube.Metadata(
            name=name,
            labels={
                kube.HOSTNAME: name,
                kube.ZONE: f"zone-{number % 3}",
                "topology.kubernetes.io/region": "region",
                "topology.example.com/rack": f"rack-{number // 40}",
                "node.kubernetes.io/instance-type": f"type-{size}",
            },
        ),
        status=kube.NodeStatus(
            allocatable={"cpu": str(size), "memory": f"{4 * size}Gi", "pods": "110"},
            conditions=[kube.Condition("Ready", "True")],
        ),
    )


def pod(number: int, node_name: str | None, *, phase: str = "Running") -> kube.Pod:
    """Return one of the Pods of `TEMPLATES` ReplicaSets."""
    template = number % TEMPLATES
    return kube.Pod(
        metadata=kube.Metadata(
            name=f"app-{template}-5d4f8c7b9-{number:06x}",
            namespace=NAMESPACE,
            uid=f"{number:08x}-0000-4000-8000-{template:012x}",
            labels={"app": f"app-{template}", "pod-template-hash": "5d4f8c7b9"},
            owner_references=[
                kube.OwnerReference(kind="ReplicaSet", name=f"app-{template}-5d4f8c7b9", controller=True)
            ],
        ),
        spec=kube.PodSpec(
            containers=[
                kube.Container(
                    resources=kube.Resources(requests={"cpu": f"{50 + template}m", "memory": "256Mi"})
                )
            ],
            node_name=node_name,
        ),
        status=kube.PodStatus(phase),
    )


def use(number: int) -> tuple[float, float]:
    """Return milli-CPU and bytes that a node uses: unlike on any two, and no pattern to it."""
    share = 0.1 + 0.6 * (number * 7919 % 1000) / 1000
    size = (8, 16, 32)[number % 3]
    return share * size * 1000, share * size * 4 * GIB


def cluster(nodes: int, pods: int) -> Cluster:
    """Return a synced cluster: the Pods bound over the nodes in turn, each node read `READINGS` times."""
    made = Cluster()
    for number in range(nodes):
        made.set_node(node(number))
    for number in range(pods):
        made.set_pod(pod(number, f"node-{number % nodes}"), None)
    for number in range(nodes):
        cpu, memory = use(number)
        for reading in range(READINGS):
            now, share = READ_AT + 60.0 * (reading + 1 - READINGS), 1.0 - 0.05 * (reading % 3)
            made.set_usage(
                f"node-{number}",
                share * cpu,
                share * memory,
                timestamp=now,
                window=15.0,
                now=now,
                wall=now,
            )
    made.synced = True
    return made
