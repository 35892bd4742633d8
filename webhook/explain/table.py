"""An explanation as tables for people: the best nodes, what keeps others out, the plan, the patch."""

from collections import Counter
from collections.abc import Sequence

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from webhook import quantity
from webhook.explain.explanation import Explanation, Node, Plan, Usage

_ROWS = 20
# The columns that are always there, with the gaps between them.
_OTHER_COLUMNS = 50
_REFUSED = 8
_NAMES = 6


def show(explained: Explanation, console: Console) -> None:
    """Print the explanation at the console's width; what there is too much of is counted."""
    feasible = [node for node in explained.nodes if node.feasible]
    refused = [node for node in explained.nodes if not node.feasible]
    if feasible:
        _show_nodes(feasible, explained.plan, console)
    if refused:
        _heading(f"Not feasible: {len(refused)} of {_count(len(explained.nodes), 'node')}", console)
        _show_refused(refused, console)
    reason = f": {explained.reason}" if explained.reason else ""
    _heading(f"Outcome: {explained.outcome}{reason}", console)
    if explained.plan.terms:
        _show_terms(explained.plan, console)
    if explained.patch:
        _heading("Patch", console)
        for operation in explained.patch:
            _line(_said(operation), console)


def _show_nodes(nodes: Sequence[Node], plan: Plan, console: Console) -> None:
    weights: Counter[str] = Counter()
    for term in plan.terms:
        weights.update(dict.fromkeys(term.nodes, term.weight))
    rows = nodes[:_ROWS]
    scorers = [name for name in rows[0].scores if any(node.scores[name] is not None for node in nodes)]
    longest = max(len(node.name) for node in rows)
    shown = _fitting(scorers, console.width - longest)
    reserves = any(_reserved(node) for node in rows)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("node", overflow="fold", min_width=min(longest, 20))
    headings = ["weight", "score", *map(_broken, shown), "CPU\nused", "memory\nused"]
    for heading in headings + ["reserved"] * reserves:
        table.add_column(heading, justify="right")
    for node in rows:
        cells = [
            str(weights[node.name] or ""),
            _score(node.score),
            *(_score(node.scores[name]) for name in shown),
            _usage(node.usage["cpu"]),
            _usage(node.usage["memory"]),
        ]
        table.add_row(Text(node.name), *cells, *[_reserved(node)] * reserves)
    console.print(table)
    if len(nodes) > _ROWS:
        _line(f"... and {_count(len(nodes) - _ROWS, 'more feasible node')}", console)
    if len(scorers) > len(shown):
        _line(f"Scorers without room here: {', '.join(scorers[len(shown) :])}", console)
    if neutral := [name for name in rows[0].scores if name not in scorers]:
        _line(f"Scorers with nothing to say: {', '.join(neutral)}", console)


def _fitting(scorers: Sequence[str], width: int) -> Sequence[str]:
    """Return as many scorers as there is room for beside the other columns, and at least two."""
    width -= _OTHER_COLUMNS
    for count, name in enumerate(scorers):
        width -= max(map(len, _broken(name).split("\n"))) + 2
        if width < 0 and count >= 2:
            return scorers[:count]
    return scorers


def _broken(name: str) -> str:
    return name.replace("-", "-\n")


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.1f}"


def _usage(usage: Usage) -> str:
    return usage.state if usage.value is None else f"{usage.value:.0%}"


def _reserved(node: Node) -> str:
    cpu, memory = node.reserved.cpu, node.reserved.memory
    return f"{cpu:.2f} {quantity.bytes_text(memory)}" if cpu or memory else ""


def _show_refused(nodes: Sequence[Node], console: Console) -> None:
    """Print each node with its reasons; of many, how many each plugin refuses."""
    if len(nodes) <= _REFUSED:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 0, 0, 2))
        table.add_column(overflow="fold")
        table.add_column()
        for node in nodes:
            table.add_row(Text(node.name), Text("\n".join(node.reasons)))
        console.print(table)
        return
    by_plugin = Counter(plugin for node in nodes for plugin in {_plugin(reason) for reason in node.reasons})
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 0, 0, 2))
    table.add_column(justify="right")
    table.add_column()
    for plugin, count in sorted(by_plugin.items(), key=lambda item: (-item[1], item[0])):
        reasons = Counter(reason for node in nodes for reason in node.reasons if _plugin(reason) == plugin)
        example = reasons.most_common(1)[0][0]
        text = example if len(reasons) == 1 else f"{plugin}, such as{example.removeprefix(f'{plugin}:')}"
        table.add_row(str(count), Text(text))
    console.print(table)


def _plugin(reason: str) -> str:
    return reason.partition(":")[0]


def _show_terms(plan: Plan, console: Console) -> None:
    _heading("Preferred, by weight", console)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 0, 0, 2))
    table.add_column(justify="right")
    table.add_column()
    for term in plan.terms:
        more = len(term.nodes) - _NAMES
        rest = f" and {more} more" if more > 0 else ""
        table.add_row(str(term.weight), Text(", ".join(term.nodes[:_NAMES]) + rest))
    console.print(table)


def _said(operation: dict[str, object]) -> str:
    size = f" ({len(msgspec.json.encode(operation['value']))} bytes)" if "value" in operation else ""
    return f"{operation['op']} {operation['path']}{size}"


def _heading(text: str, console: Console) -> None:
    console.print()
    console.print(text, style="bold", markup=False, highlight=False)


def _line(text: str, console: Console) -> None:
    console.print(text, markup=False, highlight=False)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
