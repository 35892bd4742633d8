"""accelerator: the right model, the fullest node, and no plain Pods."""

from typing import Any

import pytest

from tests.builders import decode_node, decode_pod, make_container, make_node, make_pod
from tests.views import make_view
from webhook import kube, wishes
from webhook.pods import read_shape
from webhook.scorers.accelerator import Accelerator
from webhook.snapshot import Snapshot

NAN = float("nan")
GPU = "nvidia.com/gpu"
SHARE = "example.com/gpu-memory"

# Nodes as (accelerators, of them requested, model).
Node = tuple[int, int, str]


def cluster(*nodes: Node, resource: str = GPU) -> Snapshot:
    snapshot = Snapshot(capacity=2)
    for number, (count, taken, model) in enumerate(nodes):
        labels = {"nvidia.com/gpu.product": model} if model else {}
        allocatable = {resource: str(count)} if count else {}
        snapshot.set_node(decode_node(make_node(f"n{number}", labels=labels, allocatable=allocatable)))
        if taken:
            pod = make_pod(containers=[make_container(requests={resource: str(taken)})])
            snapshot.bind(f"n{number}", read_shape(decode_pod(pod)))
    return snapshot


EIGHT: tuple[Node, ...] = ((8, 0, "a100"), (8, 4, "h100"), (8, 7, "a100"), (4, 0, "a100"), (0, 0, ""))

# Nodes, asked for, model, arguments, scores.
SCORES: dict[str, tuple[tuple[Node, ...], int, str | None, dict[str, Any], list[float]]] = {
    # 1/8, 5/8, 8/8, 1/4, none.
    "the fullest that fits": (EIGHT, 1, None, {}, [12.5, 62.5, 100.0, 25.0, 0.0]),
    # 4/8, 8/8, 11 of 8 does not fit, 4/4, none: the whole small node before half of a large one.
    "four of them": (EIGHT, 4, None, {}, [50.0, 100.0, 0.0, 100.0, 0.0]),
    # With the model: (12.5 + 100) / 2, (62.5 + 0) / 2, (100 + 100) / 2, (25 + 100) / 2, 0.
    "the model": (EIGHT, 1, "a100", {}, [56.25, 31.25, 100.0, 62.5, 0.0]),
    "the model alone": (EIGHT, 1, "h100", {"packing": 0}, [0.0, 100.0, 0.0, 0.0, 0.0]),
    "the model alone, of none in particular": (EIGHT, 1, None, {"packing": 0}, [NAN] * 5),
    "a model that no node has": (EIGHT, 1, "tpu", {"packing": 0}, [0.0] * 5),
    "packing alone": (EIGHT, 1, "h100", {"model": 0}, [12.5, 62.5, 100.0, 25.0, 0.0]),
    "a plain Pod": (EIGHT, 0, None, {}, [0.0, 0.0, 0.0, 0.0, 100.0]),
    "a plain Pod where there are none": (((0, 0, ""), (0, 0, "")), 0, None, {}, [NAN, NAN]),
    "where no node has any": (((0, 0, ""), (0, 0, "")), 1, None, {}, [0.0, 0.0]),
}


@pytest.mark.parametrize(("nodes", "asked", "model", "arguments", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(
    nodes: tuple[Node, ...], asked: int, model: str | None, arguments: dict[str, Any], want: list[float]
) -> None:
    view = make_view(
        nodes=cluster(*nodes),
        requests=kube.Requests(0, 0, 0, ((GPU, asked),) if asked else (), 0, 0),
        wishes=wishes.read({wishes.ACCELERATOR: model} if model else {}),
    )

    assert Accelerator(**arguments).score(view).tolist() == pytest.approx(want, nan_ok=True)


def test_shares_of_a_device_are_packed_alike() -> None:
    """80 units of memory: 10 more on the node with 60 taken leave the other whole."""
    view = make_view(
        nodes=cluster((80, 0, ""), (80, 60, ""), resource=SHARE),
        requests=kube.Requests(0, 0, 0, ((SHARE, 10),), 0, 0),
    )

    assert Accelerator(resources=(SHARE,)).score(view).tolist() == pytest.approx([12.5, 87.5])


def test_a_resource_that_it_is_not_told_of_is_no_accelerator() -> None:
    view = make_view(
        nodes=cluster((8, 0, ""), (0, 0, "")), requests=kube.Requests(0, 0, 0, ((SHARE, 1),), 0, 0)
    )

    assert Accelerator().score(view).tolist() == [0.0, 100.0]
