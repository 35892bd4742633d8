"""The tables of an explanation: what is shown, what is counted, and that it fits."""

import io
from collections.abc import Mapping

import pytest
from rich.console import Console

from webhook.explain import table
from webhook.explain.explanation import Explanation, Node, Plan, Reserved, Term, Usage
from webhook.reasons import Outcome

FRESH = Usage("fresh", 0.25)
CORDONED, TAINTED = (
    "NodeUnschedulable: node is cordoned",
    "TaintToleration: taint {}:NoSchedule is not tolerated",
)


def make_row(
    name: str,
    *reasons: str,
    scores: Mapping[str, float | None] | None = None,
    cpu: Usage = FRESH,
    reserved: tuple[float, float] = (0, 0),
) -> Node:
    return Node(
        name=name,
        feasible=not reasons,
        reasons=list(reasons),
        scores=dict({"utilization": 70.25} if scores is None else scores),
        score=71.04,
        usage={"cpu": cpu, "memory": Usage("fresh", 0.5)},
        reserved=Reserved(*reserved),
    )


def shown(
    *nodes: Node,
    terms: Mapping[int, list[str]] | None = None,
    outcome: Outcome = Outcome.STEERED,
    reason: str | None = None,
    patch: list[dict[str, object]] | None = None,
    width: int = 100,
) -> list[str]:
    """Return the lines, without what pads them; none may be wider than the console."""
    plan = Plan([Term(weight, names) for weight, names in (terms or {}).items()])
    text = io.StringIO()
    console = Console(file=text, width=width)
    table.show(Explanation(list(nodes), outcome, reason, plan, patch or []), console)
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    assert max(map(len, lines)) <= width
    return lines


def test_the_whole_of_it() -> None:
    lines = shown(
        make_row("n1", reserved=(1.5, 512 * 1024**2)),
        make_row("n2", scores={"utilization": None}, cpu=Usage("stale", None)),
        make_row("n3", CORDONED, TAINTED.format("a")),
        terms={100: ["n1"], 60: [f"m{number}" for number in range(8)]},
        patch=[
            {"op": "add", "path": "/spec/affinity", "value": {"a": 1}},
            {"op": "remove", "path": "/metadata/annotations/a"},
        ],
    )

    assert lines == [
        "                                    CPU  memory",
        "node  weight  score  utilization   used    used    reserved",
        "───────────────────────────────────────────────────────────",
        "n1       100   71.0         70.2    25%     50%  1.50 512Mi",
        "n2             71.0            -  stale     50%",
        "",
        "Not feasible: 1 of 3 nodes",
        "n3  NodeUnschedulable: node is cordoned",
        "    TaintToleration: taint a:NoSchedule is not tolerated",
        "",
        "Outcome: steered",
        "",
        "Preferred, by weight",
        "100  n1",
        " 60  m0, m1, m2, m3, m4, m5 and 2 more",
        "",
        "Patch",
        "add /spec/affinity (7 bytes)",
        "remove /metadata/annotations/a",
    ]


def test_a_reason_and_no_nodes() -> None:
    lines = shown(outcome=Outcome.SKIPPED, reason="bad-quantity")

    assert lines == ["", "Outcome: skipped: bad-quantity"]


def test_what_a_baseline_adds_counts() -> None:
    lines = shown(make_row("n1"), make_row("n2"), terms={50: ["n1"], 40: ["n1", "n2"]})

    assert [line.split()[:2] for line in lines[3:5]] == [["n1", "90"], ["n2", "40"]]


def test_many_nodes_are_counted() -> None:
    lines = shown(
        *(make_row(f"n{number}") for number in range(25)),
        *(make_row(f"c{number}", CORDONED, TAINTED.format("a")) for number in range(9)),
        make_row("t", TAINTED.format("b")),
    )

    assert "n19" in "".join(lines)
    assert "n20" not in "".join(lines)
    assert lines[lines.index("Not feasible: 10 of 35 nodes") - 2 :][:5] == [
        "... and 5 more feasible nodes",
        "",
        "Not feasible: 10 of 35 nodes",
        "10  TaintToleration, such as taint a:NoSchedule is not tolerated",
        " 9  NodeUnschedulable: node is cordoned",
    ]


@pytest.mark.parametrize(("width", "left_out"), [(120, 6), (100, 8), (80, 10), (60, 11)])
def test_scorers_without_room_are_named(width: int, left_out: int) -> None:
    names = [f"scorer-{letter}" for letter in "abcdefghijklm"]
    lines = shown(
        make_row("n1", scores=dict.fromkeys(names, 50.0) | {"topology": None}, reserved=(100, 2**40)),
        width=width,
    )

    text = " ".join(lines)
    assert f"Scorers without room here: {', '.join(names[-left_out:])}" in text
    assert "Scorers with nothing to say: topology" in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_long_names_are_whole(width: int) -> None:
    name = "ip-10-0-131-22.eu-west-1.compute.internal"
    lines = shown(make_row(name), make_row("[red]", *[CORDONED] * 2), width=width)

    folded = "".join(line[: line.find(" ")] if " " in line else line for line in lines)
    assert name in folded
    assert any(line.startswith("[red]") for line in lines)
