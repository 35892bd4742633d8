"""What the demo says: one JSON object, or tables, histograms and a decision in words."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from webhook import kube
from webhook.demo.replay import HOT, Moment, Run, efficiency
from webhook.demo.workload import GIB, Object, Workload
from webhook.snapshot import FloatArray

_BINS = 10
_BAR_WIDTH = 28
_TIERS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Result:
    """The three runs over one workload, and how long the steered one took."""

    seed: int
    workload: Workload
    stock: Run
    steered: Run
    ideal: Run
    seconds: float

    @property
    def efficiency(self) -> float | None:
        return efficiency(self.stock.balance, self.steered.balance, self.ideal.balance)


def as_json(result: Result) -> str:
    steering = result.efficiency
    return json.dumps(
        {
            "steering_efficiency": None if steering is None else round(steering, 6),
            "stock": result.stock.balance.as_json(),
            "steered": result.steered.balance.as_json(),
            "ideal": result.ideal.balance.as_json(),
            "seed": result.seed,
            "nodes": len(result.workload.names),
            "pods": len(result.workload.pods),
            "unschedulable": {
                "stock": result.stock.unschedulable,
                "steered": result.steered.unschedulable,
                "ideal": result.ideal.unschedulable,
            },
            "outcomes": result.steered.outcomes,
            "seconds": round(result.seconds, 2),
        },
        indent=2,
    )


def show(result: Result, console: Console) -> None:
    sigma = "\N{GREEK SMALL LETTER SIGMA}" if _unicode(console) else "sigma"
    workload, steering = result.workload, result.efficiency
    console.print(
        f"{len(workload.pods)} Pods placed on {len(workload.names)} unequal nodes (seed {result.seed}), "
        f"admitted over TLS in {result.seconds:.1f} s",
        highlight=False,
    )
    console.print()
    console.print(_comparison(result, sigma))
    efficiency_text = "nothing to gain here" if steering is None else f"{steering:.3f}"
    console.print(
        f"Steering efficiency E = ({sigma} stock - {sigma} steered) / ({sigma} stock - {sigma} ideal) = "
        f"[bold]{efficiency_text}[/bold]",
        highlight=False,
    )
    console.print()
    console.print(_histograms(result, "█" if _unicode(console) else "#"))
    if result.steered.moment is not None and result.stock.moment is not None:
        console.print()
        console.print(
            explain(result.steered.moment, result.stock.moment, workload), highlight=False, markup=False
        )


def _comparison(result: Result, sigma: str) -> RenderableType:
    runs = (result.stock, result.steered, result.ideal)
    balances = [run.balance for run in runs]
    table = Table(title="CPU utilization of the nodes", title_justify="left", title_style="bold")
    table.add_column("")
    for heading in ("stock", "steered", "ideal"):
        table.add_column(heading, justify="right", style="bold" if heading == "steered" else "")
    table.add_row(f"{sigma}, standard deviation", *(f"{balance.sigma:.3f}" for balance in balances))
    table.add_row("p95", *(f"{balance.p95:.1%}" for balance in balances))
    table.add_row("p99", *(f"{balance.p99:.1%}" for balance in balances))
    table.add_row(f"nodes above {HOT:.0%}", *(str(balance.hot_nodes) for balance in balances))
    table.add_row("Pods that fit nowhere", *(str(run.unschedulable) for run in runs))
    return table


def _histograms(result: Result, bar: str) -> RenderableType:
    before, after = (histogram(run.utilization) for run in (result.stock, result.steered))
    largest = max(*before, *after)
    table = Table(title="Nodes by utilization", title_justify="left", title_style="bold", box=None)
    table.add_column("", justify="right")
    table.add_column("before: stock", min_width=_BAR_WIDTH + 5)
    table.add_column("after: steered", min_width=_BAR_WIDTH + 5)
    for index, counts in enumerate(zip(before, after, strict=True)):
        label = f"{index * 10}-{index * 10 + 10} %" if index < _BINS else "over 100 %"
        style = "red" if index >= HOT * _BINS else "green"
        bars = [Text(bar * -(-count * _BAR_WIDTH // largest), style) + Text(f" {count}") for count in counts]
        table.add_row(label, *bars)
    return table


def histogram(utilization: FloatArray) -> list[int]:
    """Count the nodes in steps of 10 %; the last count is of those above 100 %."""
    bins = np.clip(np.ceil(utilization * _BINS - 1e-9).astype(np.int64) - 1, 0, _BINS)
    return [int(count) for count in np.bincount(bins, minlength=_BINS + 1)]


def explain(steered: Moment, stock: Moment, workload: Workload) -> str:
    """Say in words what was decided for one Pod, and what the scheduler made of it."""
    used = dict(zip(workload.names, steered.utilization.tolist(), strict=True))
    lines = [f"One decision: {_asks(steered.pod)}."]
    tiers = _tiers(steered.pod)
    if not tiers:
        lines.append(f"Trimtab named no node for it; the scheduler chose {steered.node or 'none'}.")
        return " ".join(lines)
    shown = "; ".join(_tier(weight, names, used) for weight, names in tiers[:_TIERS_SHOWN])
    more = "; and so on" if len(tiers) > _TIERS_SHOWN else ""
    named = sum(len(names) for _, names in tiers)
    lines += [
        f"Trimtab named the {named} of {len(used)} nodes that it expects to be",
        f"used least with the Pod on them, in {_tiers_of(len(tiers))} of falling weight: {shown}{more}.",
        f"All nodes were {np.mean(list(used.values())):.0%} used on average,",
        f"{max(used.values()):.0%} at most.",
    ]
    lines.append(_followed(steered, tiers, used))
    before = dict(zip(workload.names, stock.utilization.tolist(), strict=True))
    if stock.node is not None:
        lines.append(
            f"Without steering the same Pod went to {stock.node}, which was {before[stock.node]:.0%} used."
        )
    return " ".join(lines)


def _asks(pod: Object) -> str:
    metadata = pod["metadata"]
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    memory = kube.amount(kube.MEMORY, requests["memory"]) / GIB
    return f"{metadata['namespace']}/{metadata['name']} requests {requests['cpu']} CPU and {memory:.1f} GiB"


def _tier(weight: int, names: list[str], used: dict[str, float]) -> str:
    """Say a tier by its first name, its size and how much its nodes are used."""
    shares = [used.get(name, 0.0) for name in names]
    if len(names) == 1:
        return f"{names[0]} ({shares[0]:.0%} used, weight {weight})"
    return f"{names[0]} and {len(names) - 1} more (up to {max(shares):.0%} used, weight {weight})"


def _followed(steered: Moment, tiers: list[tuple[int, list[str]]], used: dict[str, float]) -> str:
    first = tiers[0][1][0]
    if steered.node is None:
        return "It fits nowhere and waits."
    if steered.node == first:
        return f"The scheduler chose the first name, {first}."
    why = "" if first in steered.scored else f", where {first} was not in its sample"
    chosen = next((number for number, (_, names) in enumerate(tiers, 1) if steered.node in names), None)
    where = f"from tier {chosen}" if chosen else "none of the names"
    return (
        f"The scheduler scored {len(steered.scored)} of the nodes{why}; it chose {steered.node}, {where}, "
        f"which was {used[steered.node]:.0%} used."
    )


def _tiers(pod: Object) -> list[tuple[int, list[str]]]:
    """Return the injected tiers as (weight, names), heaviest first."""
    affinity: dict[str, Any] = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", [])
    tiers = [(term["weight"], term["preference"]["matchExpressions"][0].get("values", [])) for term in terms]
    return sorted(((weight, names) for weight, names in tiers if names), reverse=True)


def _tiers_of(count: int) -> str:
    return "1 tier" if count == 1 else f"{count} tiers"


def _unicode(console: Console) -> bool:
    return console.encoding.lower().startswith("utf")
