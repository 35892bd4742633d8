"""Readings and named numbers from Prometheus' HTTP API, or one that speaks it.

An instant query stamps its result with the time of the evaluation, not of the sample, so that stamp says
nothing. A third query, `timestamp`, tells when each node was measured; a node that it does not name has
no reading, which is how one whose exporter died ends, although rates of it go on for a window. Where a
policy's own queries have no such third one, a reading is a new one when CPU or memory differs from the
last: one exporter tells both, so one that stays the same on a busy node does no harm.
"""

import asyncio
import math
import ssl
from collections.abc import Iterable
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Raw, Struct

from webhook.policy.sources import PrometheusEntry
from webhook.snapshot import Snapshot
from webhook.usage.answer import Answer, Reading, Report, SourceError, account
from webhook.usage.mapping import AmbiguousError, NodeIndex
from webhook.usage.turns import turns

# 65,000 series of 300 bytes, and room.
MAX_ANSWER = 32 * 1024 * 1024
_SMALL = 64 * 1024
_WARNINGS = 10
_QUERY = "/api/v1/query"


class _Sample(Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(Struct, rename="camel"):
    result_type: str
    result: Raw


class _Response(Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None


class Prometheus:
    """One server; every ask opens connections of its own, so that a rotated token or CA is used at once."""

    def __init__(self, entry: PrometheusEntry) -> None:
        self.interval_s = entry.intervalSeconds
        self._entry = entry
        self._queries = entry.asked()

    async def ask(self, nodes: Snapshot) -> Answer:
        """Run every query; what fails of them is in the report. Raise SourceError where all do."""
        queries = {
            key: text
            for key in ("cpu", "memory", "timestamp")
            if (text := getattr(self._queries, key)) is not None
        }
        series = {f"series.{name}": text for name, text in self._entry.series.items()}
        report = Report()
        found = await self._query_all({**queries, **series}, report)
        index = await NodeIndex.of(nodes, self._entry.node)
        values = {key: await _by_node(samples, index, report) for key, samples in found.items()}
        numbers = [
            (name, node, value)
            for name in self._entry.series
            for node, value in values.get(f"series.{name}", {}).items()
        ]
        return Answer(await account(self._readings(values, queries), nodes, report), report, numbers)

    def _readings(self, values: dict[str, dict[str, float]], queries: dict[str, str]) -> Iterable[Reading]:
        """Join the answers by node."""
        cpu, memory, times = (values.get(key, {}) for key in ("cpu", "memory", "timestamp"))
        for node in dict.fromkeys((*cpu, *memory)):
            time = times.get(node)
            if "timestamp" in queries and (time is None or not math.isfinite(time)):
                continue
            cores = cpu.get(node)
            milli = None if cores is None else 1000.0 * cores
            yield Reading(node, milli, memory.get(node), self._entry.windowSeconds, time)

    async def _query_all(self, queries: dict[str, str], report: Report) -> dict[str, list[_Sample]]:
        timeout = aiohttp.ClientTimeout(total=self._entry.timeoutSeconds)
        try:
            headers, context = await asyncio.to_thread(_credentials, self._entry)
        except (OSError, ValueError) as error:
            raise SourceError(f"credentials: {error}") from error
        connector = aiohttp.TCPConnector(ssl=context, limit=4)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, headers=headers) as session:
            asked = [self._query(session, text, report) for text in queries.values()]
            answers = await asyncio.gather(*asked, return_exceptions=True)
        found: dict[str, list[_Sample]] = {}
        for key, answer in zip(queries, answers, strict=True):
            if isinstance(answer, SourceError):
                report.errors.append(f"{key}: {answer}")
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[key] = answer
        if queries and not found:
            raise SourceError(report.errors[0])
        return found

    async def _query(self, session: aiohttp.ClientSession, text: str, report: Report) -> list[_Sample]:
        parameters = {"query": text, "timeout": f"{self._entry.timeoutSeconds:g}s"}
        try:
            # A redirect would take the token elsewhere.
            async with session.get(
                self._entry.url + _QUERY, params=parameters, allow_redirects=False
            ) as answer:
                body = await _read(answer)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise SourceError(" ".join(str(error).split()) or type(error).__name__) from error
        if len(body) < _SMALL:
            samples, warnings = decode(body, answer.status)
        else:
            samples, warnings = await asyncio.to_thread(decode, body, answer.status)
        report.warnings += warnings[: max(0, _WARNINGS - len(report.warnings))]
        return samples


def _credentials(entry: PrometheusEntry) -> tuple[dict[str, str], ssl.SSLContext | bool]:
    """Read the token and the CA as they are now; raise OSError or ValueError where that fails."""
    headers = {"Accept": "application/json"}
    if entry.bearerTokenFile:
        token = Path(entry.bearerTokenFile).read_text(encoding="ascii").strip()
        if not token.isprintable() or not token:
            raise ValueError(f"{entry.bearerTokenFile}: expected one line with a token")
        headers["Authorization"] = f"Bearer {token}"
    return headers, ssl.create_default_context(cafile=entry.caFile) if entry.caFile else True


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(1 << 16):
        body += chunk
        if len(body) > MAX_ANSWER:
            raise ValueError(f"the answer is longer than {MAX_ANSWER} bytes")
    return bytes(body)


def decode(body: bytes, status: int = 200) -> tuple[list[_Sample], list[str]]:
    """Return the samples and warnings of an instant query's answer; raise SourceError where it has none."""
    try:
        response = msgspec.json.decode(body, type=_Response)
    except msgspec.DecodeError as error:
        raise SourceError(f"status {status}" if status != 200 else str(error)) from error
    if status != 200 or response.status != "success" or response.data is None:
        said = f"{response.error_type}: {response.error}" if response.error else f"status {status}"
        raise SourceError(" ".join(said.split())[:300])
    if response.data.result_type != "vector":
        raise SourceError(f"expected an instant vector, found a {response.data.result_type[:30]}")
    try:
        return msgspec.json.decode(response.data.result, type=list[_Sample]), response.warnings or []
    except msgspec.DecodeError as error:
        raise SourceError(str(error)) from error


async def _by_node(samples: Iterable[_Sample], index: NodeIndex, report: Report) -> dict[str, float]:
    """Return each node's value; one that several series claim has none."""
    values: dict[str, float] = {}
    twice: set[str] = set()
    async for sample in turns(samples):
        try:
            node = index.find(sample.metric)
        except AmbiguousError:
            report.ambiguous.add(_shown(sample))
            continue
        if node is None:
            report.unmatched.add(_shown(sample))
        elif node in values or node in twice:
            report.ambiguous.add(_shown(sample))
            values.pop(node, None)
            twice.add(node)
        else:
            values[node] = _number(sample.value[1])
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _shown(sample: _Sample) -> str:
    labels = dict(sample.metric)
    name = labels.pop("__name__", "")
    pairs = ", ".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    return f"{name}{{{pairs}}}"[:300]
