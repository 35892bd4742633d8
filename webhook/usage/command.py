"""`trimtab usage`: ask every source of a policy once, and show what of its answer finds its node."""

import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from webhook import api, inputs, kube, policy
from webhook.admission import OWN_NAMESPACE
from webhook.api import Api
from webhook.cluster import Cluster
from webhook.kinds import POLICY, is_sound
from webhook.policy import Policy, sources
from webhook.policyholder import POLICY_KEY
from webhook.snapshot import Snapshot
from webhook.usage import poll
from webhook.usage.answer import Names, Report, SourceError

_SHOWN = 10
_NODES = "/api/v1/nodes"
_PAGE = 500


class _Meta(msgspec.Struct, rename="camel"):
    continue_: str | None = msgspec.field(default=None, name="continue")


class _Nodes(msgspec.Struct):
    items: list[kube.Node] | None = None
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _ConfigMaps(msgspec.Struct):
    items: list[kube.ConfigMap] | None = None


Found = dict[str, Report | str]


async def check(kubeconfig: Path | None, policy_file: Path | None) -> Found:
    """Ask each source once; return by its name the report, or why there is no answer.

    Raise ApiError without access to the cluster, and ConfigError for a policy that cannot be used.
    """
    connection = await api.connect(kubeconfig)
    try:
        current = inputs.load_policy(policy_file) if policy_file else await _policy_of(connection)
        nodes = await _nodes_of(connection)
        asked = [_ask(source, connection, nodes) for source in current.sources]
        return dict(zip(sources.names(current.sources), await asyncio.gather(*asked), strict=True))
    finally:
        await connection.close()


async def _policy_of(connection: Api) -> Policy:
    # A list, because that is the right that the manifests give, limited to the name.
    path = f"/api/v1/namespaces/{OWN_NAMESPACE}/configmaps"
    body = await connection.get(path, {"fieldSelector": f"metadata.name={POLICY}"})
    for config_map in msgspec.json.decode(body, type=_ConfigMaps).items or ():
        if text := (config_map.data or {}).get(POLICY_KEY):
            return policy.load(text)
    return policy.default()


async def _nodes_of(connection: Api) -> Snapshot:
    cluster, more = Cluster(), ""
    while True:
        query: dict[str, str | int] = {"limit": _PAGE, **({"continue": more} if more else {})}
        page = msgspec.json.decode(await connection.get(_NODES, query), type=_Nodes)
        for node in filter(is_sound, page.items or ()):
            cluster.set_node(node)
        more = page.metadata.continue_ or ""
        if not more:
            return cluster.nodes


async def _ask(source: sources.Source, connection: Api, nodes: Snapshot) -> Report | str:
    try:
        return (await poll.make(source, connection).ask(nodes)).report
    except SourceError as error:
        return str(error)


def is_clean(found: Found) -> bool:
    """Tell whether every source answered in full."""
    return all(isinstance(report, Report) and not report.errors for report in found.values())


def as_json(found: Found) -> str:
    """Return one object a source, in the order of the policy."""
    listed = [
        {"source": name, "error": report}
        if isinstance(report, str)
        else {"source": name, "error": None, **asdict(report)}
        for name, report in found.items()
    ]
    return msgspec.json.format(msgspec.json.encode({"sources": listed}), indent=2).decode()


def show(found: Found, console: Console) -> None:
    """Print a table of counts, then the first names of each kind."""
    table = Table("source", "nodes matched", "silent", "unmatched", "ambiguous", "invalid", "error")
    for name, report in found.items():
        table.add_row(name, *_cells(report))
    console.print(table)
    for name, report in found.items():
        if isinstance(report, Report):
            for line in _lines(report):
                console.print(f"{name}: {line}", markup=False, highlight=False, soft_wrap=True)


def _cells(report: Report | str) -> list[str]:
    if isinstance(report, str):
        return ["", "", "", "", "", report]
    counts = (report.silent, report.unmatched, report.ambiguous, report.invalid)
    return [str(report.matched), *(str(names.count) for names in counts), "; ".join(report.errors)]


def _lines(report: Report) -> Iterator[str]:
    kinds: list[tuple[str, Names]] = [
        ("node without a reading", report.silent),
        ("matches no node", report.unmatched),
        ("ambiguous, not used", report.ambiguous),
        ("no use that a node can have", report.invalid),
    ]
    for label, names in kinds:
        yield from (f"{label}: {name}" for name in names.first[:_SHOWN])
        if names.count > _SHOWN:
            yield f"{label}: and {names.count - _SHOWN} more (the first {len(names.first)} with -o json)"
    yield from (f"warning: {warning}" for warning in report.warnings)


def run(kubeconfig: Path | None, policy_file: Path | None, output: str) -> int:
    """Check and print; return the exit code, 1 where a source did not answer in full."""
    found = asyncio.run(check(kubeconfig, policy_file))
    console = Console()
    if output == "json":
        console.print(as_json(found), markup=False, highlight=False, soft_wrap=True)
    else:
        show(found, console)
    return 0 if is_clean(found) else 1
