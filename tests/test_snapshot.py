"""The snapshot as an op table: start state, operations, end state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.builders import GIB, Json, decode_node, decode_pod, make_container, make_node, make_pod, make_taint
from webhook import kube
from webhook.pods import Bound, Shape, read_shape
from webhook.snapshot import CPU, EPHEMERAL, MAX_RESOURCES, MEMORY, PODS, Snapshot, State

Op = Callable[[Snapshot], object]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the columns say of one node that exists."""

    cpu: int = 8000
    requested_cpu: int = 0
    requested_pods: int = 0
    hostname: str | None = "n1"
    ready: bool = True
    unschedulable: bool = False


def shape(**pod: Any) -> Shape:
    return read_shape(decode_pod(make_pod(**pod)))


def node(name: str = "n1", **fields: Any) -> Op:
    return lambda nodes: nodes.set_node(decode_node(make_node(name, **fields)))


def gone(name: str = "n1") -> Op:
    return lambda nodes: nodes.remove_node(name)


def bind(name: str = "n1", cpu: str = "500m") -> Op:
    return lambda nodes: nodes.bind(name, shape(cpu=cpu))


def unbind(name: str = "n1", cpu: str = "500m") -> Op:
    def operation(nodes: Snapshot) -> None:
        row = nodes.row(name)
        assert row is not None
        nodes.unbind(Bound(row, shape(cpu=cpu)))

    return operation


def seen(nodes: Snapshot) -> dict[str, Seen]:
    found = {}
    for name in nodes.node_names():
        row = nodes.row(name)
        assert row is not None
        found[name] = Seen(
            cpu=int(nodes.allocatable[CPU, row]),
            requested_cpu=int(nodes.requested[CPU, row]),
            requested_pods=int(nodes.requested[PODS, row]),
            hostname=nodes.hostnames[row],
            ready=bool(nodes.ready[row]),
            unschedulable=bool(nodes.unschedulable[row]),
        )
    assert len(found) == nodes.count
    return found


TABLE: dict[str, tuple[list[Op], dict[str, Seen]]] = {
    "nothing": ([], {}),
    "a node": ([node()], {"n1": Seen()}),
    "its host name is the label, not the name": ([node(hostname="host-1")], {"n1": Seen(hostname="host-1")}),
    "a node without the label has no host name": ([node(hostname=None)], {"n1": Seen(hostname=None)}),
    "a node is replaced": (
        [node(), node(cpu="4", hostname="other", ready="False", unschedulable=True)],
        {"n1": Seen(cpu=4000, hostname="other", ready=False, unschedulable=True)},
    ),
    "what a node no longer offers is gone": ([node(), node(cpu="0")], {"n1": Seen(cpu=0)}),
    "a node is deleted": ([node(), gone()], {}),
    "deleting twice is deleting once": ([node(), gone(), gone()], {}),
    "deleting what was never there": ([gone("n9")], {}),
    "a node is re-created under its name": ([node(), gone(), node(cpu="4")], {"n1": Seen(cpu=4000)}),
    "a re-created node equal to the old one": ([node(), gone(), node()], {"n1": Seen()}),
    "a bound Pod counts": ([node(), bind()], {"n1": Seen(requested_cpu=500, requested_pods=1)}),
    "bound Pods add up": (
        [node(), bind(cpu="500m"), bind(cpu="250m")],
        {"n1": Seen(requested_cpu=750, requested_pods=2)},
    ),
    "a Pod before its node": ([bind(), node()], {"n1": Seen(requested_cpu=500, requested_pods=1)}),
    "a Pod outlives its node and is there when it returns": (
        [node(), bind(), gone(), node()],
        {"n1": Seen(requested_cpu=500, requested_pods=1)},
    ),
    "a Pod that ended while its node was away": ([node(), bind(), gone(), unbind(), node()], {"n1": Seen()}),
    "a Pod without a node makes none": ([bind("n9")], {}),
    "a row set free serves the next node, and says nothing of the last": (
        [node(unschedulable=True, ready="False"), bind(), unbind(), gone(), node("n2", hostname="n2")],
        {"n2": Seen(hostname="n2")},
    ),
    "a Pod on its way out keeps the row from the next node": (
        [node(), bind(), gone(), node("n2", hostname="n2")],
        {"n2": Seen(hostname="n2")},
    ),
}


@pytest.mark.parametrize("capacity", [1, 64])
@pytest.mark.parametrize(("operations", "want"), TABLE.values(), ids=TABLE.keys())
def test_operations(operations: list[Op], want: dict[str, Seen], capacity: int) -> None:
    nodes = Snapshot(capacity)

    for operation in operations:
        operation(nodes)

    assert seen(nodes) == want


def test_growth_past_the_initial_capacity_keeps_every_column() -> None:
    nodes = Snapshot(capacity=2)
    for number in range(9):
        node(f"n{number}", cpu=str(number), hostname=f"n{number}", allocatable={"a/b": number})(nodes)
        bind(f"n{number}", cpu=f"{number}m")(nodes)
        nodes.set_usage(number, number, number * GIB, changed_at=float(number))
        nodes.set_series("cost", number, number / 2, float(number))

    assert nodes.size == 9
    for number in range(9):
        assert nodes.row(f"n{number}") == number
        assert nodes.allocatable[CPU, number] == number * 1000
        assert nodes.allocatable[nodes.resources["a/b"], number] == number
        assert nodes.requested[CPU, number] == number
        assert nodes.used[CPU, number] == number
        assert nodes.changed_at[:, number].tolist() == [number, number]
    assert nodes.series_values("cost", 8.0, 8.0).tolist() == [number / 2 for number in range(9)]
    assert nodes.states(now=8.0, stale_after=3.0) == {"fresh": 4, "stale": 5, "missing": 0, "invalid": 0}


def test_rows_beyond_the_size_have_no_reading() -> None:
    nodes = Snapshot(capacity=1)
    node("n1")(nodes)
    node("n2", hostname="n2")(nodes)

    assert nodes.states(now=0.0, stale_after=1e9) == {"fresh": 0, "stale": 0, "missing": 2, "invalid": 0}


def test_requested_returns_exactly_to_zero() -> None:
    nodes = Snapshot()
    node()(nodes)
    every = [
        shape(
            containers=[
                make_container(
                    cpu=f"{number}m",
                    memory=f"{number}Ki",
                    requests={"ephemeral-storage": "3", f"example.com/r{number % 3}": number},
                )
            ]
        )
        for number in range(1, 50)
    ]
    for each in every:
        nodes.bind("n1", each)
    assert nodes.requested[:, 0].all()
    for each in reversed(every):
        nodes.unbind(Bound(0, each))

    assert not nodes.requested.any()
    assert not nodes.scored.any()


def test_absurd_requests_fill_a_node_and_leave_no_trace() -> None:
    # Such a Pod is accepted with a nodeName, and reaches every watcher before the kubelet refuses it.
    nodes = Snapshot()
    node()(nodes)
    absurd = shape(containers=[make_container(cpu="9E", memory="9E"), make_container(memory="9E")])

    nodes.bind("n1", absurd)
    nodes.bind("n1", absurd)
    assert nodes.requested[MEMORY, 0] > nodes.allocatable[MEMORY, 0]
    assert nodes.scored[MEMORY, 0] > nodes.allocatable[MEMORY, 0]

    nodes.unbind(Bound(0, absurd))
    nodes.unbind(Bound(0, absurd))
    assert not nodes.requested.any()
    assert not nodes.scored.any()


def test_scored_requests_carry_the_schedulers_defaults() -> None:
    nodes = Snapshot()
    node()(nodes)

    nodes.bind("n1", shape())

    assert nodes.requested[:2, 0].tolist() == [0, 0]
    assert nodes.scored[:, 0].tolist() == [100, 200 * 1024**2]


def test_every_resource_has_its_column_in_base_units() -> None:
    nodes = Snapshot()
    node(cpu="1500m", memory="1Ki", pods=7, allocatable={"ephemeral-storage": "2k", "example.com/gpu": "3"})(
        nodes
    )

    columns = [CPU, MEMORY, EPHEMERAL, PODS, nodes.resources["example.com/gpu"]]
    assert nodes.allocatable[columns, 0].tolist() == [1500, 1024, 2000, 7, 3]


def test_a_pod_may_bring_a_resource_before_any_node_has_it() -> None:
    nodes = Snapshot()
    nodes.bind("n1", shape(containers=[make_container(requests={"example.com/gpu": 2})]))
    node(allocatable={"example.com/gpu": 4})(nodes)

    column = nodes.resources["example.com/gpu"]
    assert (nodes.allocatable[column, 0], nodes.requested[column, 0]) == (4, 2)


def test_a_heartbeat_costs_a_comparison_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Snapshot()
    node()(nodes)
    monkeypatch.setattr(kube, "amount", lambda *_: pytest.fail("quantities are read again"))

    node(heartbeat="2026-01-01T00:00:10Z")(nodes)

    assert seen(nodes) == {"n1": Seen()}


def test_labels_are_indexed_again_only_when_they_change() -> None:
    nodes = Snapshot()
    node()(nodes)
    before = nodes.labels_generation

    node(cpu="4")(nodes)
    assert nodes.labels_generation == before

    node(cpu="4", labels={"disk": "ssd"})(nodes)
    assert nodes.labels_generation > before


CHANGES: dict[str, tuple[Json, Callable[[Snapshot], object], object]] = {
    "cordoned": (make_node(unschedulable=True), lambda nodes: bool(nodes.unschedulable[0]), True),
    "not ready": (make_node(ready="Unknown"), lambda nodes: bool(nodes.ready[0]), False),
    "tainted": (
        make_node(taints=[make_taint("a", "NoSchedule")]),
        lambda nodes: list(nodes.taint_sets)[nodes.taint_set[0]],
        {("a", "", "NoSchedule")},
    ),
    "grown": (make_node(cpu="16"), lambda nodes: int(nodes.allocatable[CPU, 0]), 16_000),
    "relabelled": (
        make_node(labels={"disk": "ssd"}),
        lambda nodes: nodes.label_index.get("disk"),
        {"ssd": {0}},
    ),
}


@pytest.mark.parametrize(("raw", "read", "want"), CHANGES.values(), ids=CHANGES.keys())
def test_each_change_of_a_node_is_seen_and_taken_back(
    raw: Json, read: Callable[[Snapshot], object], want: object
) -> None:
    nodes = Snapshot()
    node()(nodes)
    before = read(nodes)

    nodes.set_node(decode_node(raw))
    assert read(nodes) == want

    node()(nodes)
    assert read(nodes) == before != want


def test_the_label_index_forgets_values_and_keys_that_no_node_has() -> None:
    nodes = Snapshot()
    node("n1", labels={"disk": "ssd", "zone": "a"})(nodes)
    node("n2", labels={"disk": "ssd"}, hostname="n2")(nodes)
    node("n1", labels={"disk": "hdd"})(nodes)
    gone("n2")(nodes)

    assert nodes.label_index == {kube.HOSTNAME: {"n1": {0}}, "disk": {"hdd": {0}}}


def test_a_bad_quantity_in_a_node_changes_nothing() -> None:
    nodes = Snapshot()
    node()(nodes)

    with pytest.raises(ValueError, match="expected a quantity"):
        node("n1", cpu="4", memory="lots", labels={"disk": "ssd"})(nodes)

    assert seen(nodes) == {"n1": Seen()}
    assert nodes.label_index.keys() == {kube.HOSTNAME}


USAGE: dict[str, tuple[float, float, str]] = {
    "a use": (4000.0, 8.0 * GIB, "fresh"),
    "no use at all": (0.0, 0.0, "fresh"),
    "over-committed, yet plausible": (31_000.0, 100.0 * GIB, "fresh"),  # below 4 x 8 CPU, 4 x 32 GiB
    "a slip of units in CPU": (4_000_000.0, 8.0 * GIB, "invalid"),  # 500 x the node
    "a slip of units in memory": (4000.0, 8.0 * GIB * 1024, "invalid"),  # 256 x the node
    "as little as a node can use": (0.04, 256.0 * 1024, "fresh"),  # 2^-18 of it: 0.03 and 128 KiB
    "memory told in mebibytes": (4000.0, 8.0 * 1024, "invalid"),
    "memory told as a fraction": (4000.0, 0.25, "invalid"),
    "CPU told in thousands of cores": (0.004, 8.0 * GIB, "invalid"),
    "negative CPU": (-1.0, 0.0, "invalid"),
    "negative memory": (0.0, -1.0, "invalid"),
    "not a number": (float("nan"), 0.0, "invalid"),
    "infinite memory": (0.0, float("inf"), "invalid"),
}


@pytest.mark.parametrize(("cpu", "memory", "state"), USAGE.values(), ids=USAGE.keys())
def test_a_reading_is_fresh_or_invalid(cpu: float, memory: float, state: str) -> None:
    nodes = Snapshot()
    node()(nodes)

    assert nodes.set_usage(0, cpu, memory, changed_at=10.0) is (state == "fresh")

    assert nodes.states(now=10.0, stale_after=5.0)[state] == 1
    assert nodes.fresh(10.0, 5.0).all() == (state == "fresh")
    assert np.isfinite(nodes.used).all()


def test_an_invalid_reading_is_followed_by_a_valid_one() -> None:
    nodes = Snapshot()
    node()(nodes)
    nodes.set_usage(0, -1.0, 0.0, changed_at=10.0)

    nodes.set_usage(0, 1.0, 0.0, changed_at=11.0)

    assert nodes.states(now=11.0, stale_after=5.0)["fresh"] == 1


AGES = {
    "just changed": (10.0, "fresh"),
    "at the limit": (15.0, "fresh"),
    "past the limit": (15.1, "stale"),
}


@pytest.mark.parametrize(("now", "state"), AGES.values(), ids=AGES.keys())
def test_a_reading_ages(now: float, state: str) -> None:
    nodes = Snapshot()
    node()(nodes)
    nodes.set_usage(0, 1.0, GIB, changed_at=10.0)

    assert nodes.states(now, stale_after=5.0)[state] == 1


VIRTUAL: dict[str, tuple[dict[str, Any], bool]] = {
    "virtual-kubelet's label": ({"labels": {"type": "virtual-kubelet"}}, True),
    "virtual-kubelet's taint": (
        {"taints": [make_taint("virtual-kubelet.io/provider", "NoSchedule", "azure")]},
        True,
    ),
    "kwok's label": ({"labels": {"type": "kwok"}}, True),
    "another type": ({"labels": {"type": "gpu"}}, False),
    "the role that AKS gave to every node": ({"labels": {"kubernetes.io/role": "agent"}}, False),
    "Fargate, which has readings": ({"labels": {"eks.amazonaws.com/compute-type": "fargate"}}, False),
    "another taint": ({"taints": [make_taint("node.kubernetes.io/not-ready", "NoSchedule")]}, False),
}


@pytest.mark.parametrize(("fields", "virtual"), VIRTUAL.values(), ids=VIRTUAL.keys())
def test_virtual_nodes(fields: dict[str, Any], virtual: bool) -> None:  # noqa: FBT001
    nodes = Snapshot()
    node(**fields)(nodes)

    state = State.VIRTUAL if virtual else State.MISSING
    assert nodes.state(0, 10.0, 5.0) == (state, state)
    assert nodes.states(10.0, 5.0).get("virtual", 0) == virtual
    assert not nodes.fresh(10.0, 5.0).any()


def test_a_virtual_node_that_has_readings_all_the_same_is_fresh_and_then_stale() -> None:
    nodes = Snapshot()
    node(labels={"type": "virtual-kubelet"})(nodes)
    nodes.set_usage(0, 1000.0, GIB, changed_at=10.0)

    assert nodes.state(0, 10.0, 5.0) == (State.FRESH, State.FRESH)
    assert nodes.state(0, 20.0, 5.0) == (State.STALE, State.STALE)


def test_a_node_that_is_virtual_no_more() -> None:
    nodes = Snapshot()
    node(labels={"type": "virtual-kubelet"})(nodes)
    node()(nodes)

    assert nodes.states(10.0, 5.0) == {"fresh": 0, "stale": 0, "missing": 1, "invalid": 0}


# (CPU, changed at), (memory, changed at), None where never told; the states at 10 s with 5 s; how n1 counts.
MIXED: dict[str, tuple[tuple[float, float] | None, tuple[float, float] | None, tuple[State, State], str]] = {
    "both fresh": ((1000.0, 10.0), (GIB, 10.0), (State.FRESH, State.FRESH), "fresh"),
    "stale memory": ((1000.0, 10.0), (GIB, 1.0), (State.FRESH, State.STALE), "stale"),
    "stale CPU": ((1000.0, 1.0), (GIB, 10.0), (State.STALE, State.FRESH), "stale"),
    "invalid memory": ((1000.0, 10.0), (-1.0, 10.0), (State.FRESH, State.INVALID), "invalid"),
    "invalid and stale": ((-1.0, 10.0), (GIB, 1.0), (State.INVALID, State.STALE), "invalid"),
    "nobody tells memory": ((1000.0, 10.0), None, (State.FRESH, State.MISSING), "fresh"),
    "nobody tells CPU": (None, (GIB, 1.0), (State.MISSING, State.STALE), "stale"),
    "nobody tells anything": (None, None, (State.MISSING, State.MISSING), "missing"),
}


@pytest.mark.parametrize(("cpu", "memory", "want", "counted"), MIXED.values(), ids=MIXED.keys())
def test_states_per_resource(
    cpu: tuple[float, float] | None,
    memory: tuple[float, float] | None,
    want: tuple[State, State],
    counted: str,
) -> None:
    nodes = Snapshot()
    node()(nodes)
    for resource, told in ((CPU, cpu), (MEMORY, memory)):
        if told is not None:
            nodes.set_reading(0, resource, *told)

    assert nodes.state(0, 10.0, 5.0) == want
    assert nodes.fresh(10.0, 5.0)[:, 0].tolist() == [state is State.FRESH for state in want]
    assert {state for state, count in nodes.states(10.0, 5.0).items() if count} == {counted}


def test_a_resource_told_of_one_node_is_missing_of_the_other() -> None:
    nodes = Snapshot()
    node()(nodes)
    node("n2", hostname="n2")(nodes)
    nodes.set_usage(0, 1000.0, GIB, changed_at=10.0)
    nodes.set_reading(1, CPU, 1000.0, 10.0)

    assert nodes.states(10.0, 5.0) == {"fresh": 1, "stale": 0, "missing": 1, "invalid": 0}


def test_numbers_of_a_name_are_told_and_age_each_for_itself() -> None:
    nodes = Snapshot(capacity=1)
    for name in ("n1", "n2", "n3"):
        node(name, hostname=name)(nodes)
    nodes.set_series("cost", 0, 0.5, 10.0)
    nodes.set_series("cost", 1, -3.0, 1.0)
    nodes.set_series("cost", 2, float("nan"), 10.0)
    nodes.set_series("other", 2, 1.0, 10.0)

    values = nodes.series_values("cost", 10.0, 5.0)
    assert values[0] == 0.5
    assert np.isnan(values[1:]).all()
    assert np.isnan(nodes.series_values("unknown", 10.0, 5.0)).all()

    # Told again, though the same: still fresh. A node that returns has none from before.
    nodes.set_series("cost", 0, 0.5, 20.0)
    assert nodes.series_values("cost", 20.0, 5.0)[0] == 0.5
    gone("n1")(nodes)
    node("n1")(nodes)
    assert np.isnan(nodes.series_values("cost", 20.0, 5.0)).all()

    nodes.keep_series(["other"])
    assert set(nodes.series) == {"other"}


def test_what_is_read_from_the_node_itself_follows_it() -> None:
    nodes = Snapshot()
    node(annotations={"load": "1"})(nodes)
    generation = nodes.labels_generation

    node(annotations={"load": "2"})(nodes)

    kept = nodes.node(0)
    assert kept is not None
    assert kept.metadata.annotations == {"load": "2"}
    assert nodes.labels_generation == generation


def test_a_node_that_returns_has_no_reading_from_before() -> None:
    nodes = Snapshot()
    node()(nodes)
    nodes.set_usage(0, 1.0, GIB, changed_at=10.0)
    bind()(nodes)
    gone()(nodes)
    assert nodes.states(10.0, 5.0) == {"fresh": 0, "stale": 0, "missing": 0, "invalid": 0}

    node()(nodes)

    assert nodes.states(10.0, 5.0)["missing"] == 1


def test_the_domains_of_a_key_follow_the_labels_of_the_nodes() -> None:
    nodes = Snapshot(capacity=1)

    def domains(key: str = "zone") -> list[int]:
        found = nodes.domains(key)
        assert nodes.domains(key) is found or not found.count
        assert found.of.size == nodes.size
        return [int((found.of == number).sum()) for number in range(-1, found.count)]

    assert domains() == [0]
    node("n1", labels={"zone": "a"})(nodes)
    node("n2", labels={"zone": "a"})(nodes)
    node("n3", labels={"zone": "b"})(nodes)
    assert domains() == [0, 2, 1]
    bind("n4")(nodes)  # a row without a node
    assert domains() == [1, 2, 1]
    node("n2", labels={"zone": "b"})(nodes)
    node("n4")(nodes)
    assert domains() == [1, 1, 2]
    gone("n1")(nodes)
    assert domains() == [2, 2]
    assert domains("no-such-key") == [4]


def test_rows_that_share_a_domain() -> None:
    nodes = Snapshot()
    for name, labels in {"n1": {"zone": "a"}, "n2": {"zone": "a"}, "n3": {"zone": "b"}, "n4": {}}.items():
        node(name, labels=labels)(nodes)

    assert nodes.domains("zone").holding([1]).tolist() == [True, True, False, False]
    assert nodes.domains("zone").holding([3]).tolist() == [False] * 4  # it lacks the label, as n4 itself does
    assert nodes.domains("zone").holding([3, 2]).tolist() == [False, False, True, False]
    assert nodes.domains("zone").holding([]).tolist() == [False] * 4


def test_limits_are_added_up_and_taken_off_again() -> None:
    nodes = Snapshot()
    limited = shape(containers=[make_container(resources={"limits": {"cpu": "2", "memory": "1Gi"}})])
    nodes.bind("n1", limited)
    nodes.bind("n1", limited)
    nodes.bind("n1", shape(cpu="1"))
    assert nodes.limits[:, 0].tolist() == [5000, 2 * GIB]  # one without limits counts with its requests

    nodes.unbind(Bound(0, limited))

    assert nodes.limits[:, 0].tolist() == [3000, GIB]


def test_invented_resources_take_no_room_without_end() -> None:
    nodes = Snapshot()
    nodes.set_node(decode_node(make_node("n1")))

    for number in range(1000):
        asked = kube.Requests(0, 0, 0, ((f"example.com/invented-{number}", 1),), 0, 0)
        nodes.bind("n1", Shape("shop", (), asked))

    assert nodes.requested.shape[0] == MAX_RESOURCES
    assert nodes.requested[3, nodes.row("n1") or 0] == 1000
