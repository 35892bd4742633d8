"""List and watch over HTTP: pages, versions, and every way in which either can fail.

The API server here is a script of answers. It stands in only for faults that a real API server cannot be made
to show on demand; the real one is followed in `tests/e2e`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from aiohttp import web
from msgspec import Raw

from tests.builders import Json, make_node
from webhook import api, kinds, kube, watch
from webhook.cluster import Cluster

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

PATIENCE_S = 20
LONG_S = 3600.0


def versioned(item: Json, version: int | str) -> Json:
    return item | {"metadata": item["metadata"] | {"resourceVersion": str(version)}}


def page(*names: str, version: int = 1, more: str = "", extra: Iterable[object] = ()) -> Answer:
    """Answer a list, or the part of one that `more` goes on from."""
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    items = [*(versioned(make_node(name), version) for name in names), *extra]

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "NodeList", "metadata": metadata, "items": items})

    return answer


def text(status: int, content: str) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=content, content_type="application/json")

    return answer


async def silence(_request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(LONG_S)
    return web.Response()


def stream(*chunks: bytes, then: Literal["end", "drop", "stay silent"] = "end") -> Answer:
    """Answer a watch with chunks that arrive one by one, then end it one way or another."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.005)  # so that two chunks do not arrive as one
        if then == "stay silent":
            await asyncio.sleep(LONG_S)
        if then == "drop" and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def event(kind: str, item: Json, version: int | str) -> bytes:
    return json.dumps({"type": kind, "object": versioned(item, version)}).encode() + b"\n"


def added(name: str, version: int) -> bytes:
    return event("ADDED", make_node(name), version)


def deleted(name: str, version: int) -> bytes:
    return event("DELETED", make_node(name), version)


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"kind": "Node", "metadata": {}}, version)


def error(code: int) -> bytes:
    status = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "message": "too old resource version: 1 (9)",
    }
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


@dataclass
class Script:
    """Answers in turn, and silence after the last; what was asked is kept."""

    answers: list[Answer]
    asked: list[dict[str, str]] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    pauses: list[tuple[float, float]] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        answer = self.answers.pop(0) if self.answers else silence
        return await answer(request)

    @property
    def requests(self) -> list[str]:
        """Say in a word what each request was: a list, its next page, or a watch from a version."""
        return [
            f"watch {query['resourceVersion']}"
            if "watch" in query
            else f"list {query.get('continue', '')}".strip()
            for query in self.asked
        ]

    @property
    def last(self) -> str:
        return self.requests[-1] if self.asked else ""

    def uniform(self, least: float, most: float) -> float:
        """Stand in for the jitter: note what was drawn from, and hardly wait."""
        self.pauses.append((least, most))
        return 0.001


@asynccontextmanager
async def serving(script: Script, port: int = 0) -> AsyncIterator[str]:
    """Serve the script, on a free port unless told; yield its address."""
    app = web.Application()
    app.router.add_get("/{path:.*}", script.serve)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(url: str, directory: Path) -> AsyncIterator[api.Api]:
    """Connect as the webhook does outside a cluster, by a kubeconfig file."""
    file = directory / "kubeconfig"
    entry = {"name": "x", "cluster": {"server": url}, "context": {"cluster": "x", "user": "x"}, "user": {}}
    lists = {"clusters": [entry], "contexts": [entry], "users": [entry], "current-context": "x"}
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **lists}))
    connection = await api.connect(file)
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def following(
    script: Script, cluster: Cluster, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[watch.Kind[Any]]:
    """Follow the Nodes of a scripted API server, without waiting between attempts."""
    monkeypatch.setattr(
        watch, "random", SimpleNamespace(uniform=script.uniform, randint=lambda least, _: least)
    )
    kind = kinds.kinds(cluster, lambda: 0.0, script.restarts.append)[0]
    async with serving(script) as url, connected(url, directory) as connection:
        task = asyncio.create_task(watch.follow(connection, kind))
        try:
            yield kind
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110, the conditions are of code that tells nobody
            await asyncio.sleep(0.005)


NAMELESS: Json = {"metadata": {"name": 7}}
BAD_LABEL: Json = {"metadata": {"name": "bad", "labels": {"a": ["no", "text"]}}}

# The answers, one after another; what was asked, the one that is left waiting included; the Nodes known then.
SCRIPTS: dict[str, tuple[list[Answer], list[str], list[str]]] = {
    "one page": ([page("a", "b", version=7)], ["list", "watch 7"], ["a", "b"]),
    "nothing to list": ([page(version=7)], ["list", "watch 7"], []),
    "a list without items": (
        [text(200, '{"metadata": {"resourceVersion": "7"}, "items": null}')],
        ["list", "watch 7"],
        [],
    ),
    "three pages": (
        [page("a", more="t1"), page("b", more="t2"), page("c", version=7)],
        ["list", "list t1", "list t2", "watch 7"],
        ["a", "b", "c"],
    ),
    "events": (
        [page("a", "b"), stream(added("c", 5), deleted("a", 6))],
        ["list", "watch 1", "watch 6"],
        ["b", "c"],
    ),
    "a watch that the server ends goes on from the last event": (
        [page("a"), stream(added("b", 5)), stream(added("c", 8))],
        ["list", "watch 1", "watch 5", "watch 8"],
        ["a", "b", "c"],
    ),
    "a bookmark moves the version and nothing else": (
        [page("a"), stream(bookmark(9))],
        ["list", "watch 1", "watch 9"],
        ["a"],
    ),
    "the last of events and bookmarks is where it goes on": (
        [page("a"), stream(bookmark(9), added("b", 12), bookmark(15))],
        ["list", "watch 1", "watch 15"],
        ["a", "b"],
    ),
    "versions are texts, not numbers": (
        [page("a"), stream(event("ADDED", make_node("b"), "0x-9f"))],
        ["list", "watch 1", "watch 0x-9f"],
        ["a", "b"],
    ),
    "a line over several chunks": (
        [page(), stream(added("a", 5)[:9], added("a", 5)[9:40], added("a", 5)[40:])],
        ["list", "watch 1", "watch 5"],
        ["a"],
    ),
    "several lines in one chunk": (
        [page(), stream(added("a", 5) + added("b", 6) + added("c", 7)[:30], added("c", 7)[30:])],
        ["list", "watch 1", "watch 7"],
        ["a", "b", "c"],
    ),
    "empty lines": (
        [page(), stream(b"\n", added("a", 5), b"\n\n")],
        ["list", "watch 1", "watch 5"],
        ["a"],
    ),
    "a last line that is not whole is none": (
        [page(), stream(added("a", 5), added("b", 6)[:-20])],
        ["list", "watch 1", "watch 5"],
        ["a"],
    ),
    "an object of a list that cannot be read is left out": (
        [page("a", "b", extra=[NAMELESS, BAD_LABEL, 3])],
        ["list", "watch 1"],
        ["a", "b"],
    ),
    "an object of an event that cannot be read is left out": (
        [page("a"), stream(event("ADDED", BAD_LABEL, 4), event("MODIFIED", NAMELESS, 5), added("b", 6))],
        ["list", "watch 1", "watch 6"],
        ["a", "b"],
    ),
    "gone: a new list, and what vanished in the gap is no ghost": (
        [page("a", "b"), stream(error(410)), page("b", "c", version=8)],
        ["list", "watch 1", "list", "watch 8"],
        ["b", "c"],
    ),
    "gone after events": (
        [page("a"), stream(added("b", 5), error(410)), page("c", version=8)],
        ["list", "watch 1", "list", "watch 8"],
        ["c"],
    ),
    "a watch that breaks off goes on from the last event": (
        [page("a"), stream(added("b", 5), then="drop"), stream(deleted("a", 6))],
        ["list", "watch 1", "watch 5", "watch 6"],
        ["b"],
    ),
    "a watch that breaks off in the middle of a line": (
        [page("a"), stream(bookmark(4), added("b", 5)[:40], then="drop"), stream(added("b", 5))],
        ["list", "watch 1", "watch 4", "watch 5"],
        ["a", "b"],
    ),
    "a watch that is refused goes on when it is not": (
        [page("a"), stream(added("b", 5)), text(503, "{}"), text(429, "{}"), stream(added("c", 6))],
        ["list", "watch 1", "watch 5", "watch 5", "watch 5", "watch 6"],
        ["a", "b", "c"],
    ),
    "a watch that is refused as gone": (
        [page("a"), text(410, "{}"), page("b", version=8)],
        ["list", "watch 1", "list", "watch 8"],
        ["b"],
    ),
    "a Node with a quantity that is none is left out": (
        [
            page("a", extra=[make_node("b", cpu="lots")]),
            stream(event("MODIFIED", make_node("a", cpu="lots"), 5), added("c", 6)),
        ],
        ["list", "watch 1", "watch 6"],
        ["a", "c"],
    ),
    "another error event": (
        [page("a"), stream(error(500)), page("b", version=8)],
        ["list", "watch 1", "list", "watch 8"],
        ["b"],
    ),
    "a line that is no JSON": (
        [page("a"), stream(added("b", 5), b"<html>\n"), page("c", version=8)],
        ["list", "watch 1", "list", "watch 8"],
        ["c"],
    ),
    "a list that is no JSON": (
        [text(200, "<html>"), page("a", version=8)],
        ["list", "list", "watch 8"],
        ["a"],
    ),
    "a list is refused": (
        [text(500, "{}"), text(403, "{}"), text(429, "{}"), page("a", version=8)],
        ["list", "list", "list", "list", "watch 8"],
        ["a"],
    ),
    "the rest of a list has expired: from the start": (
        [page("a", more="t1"), text(410, "{}"), page("b", version=8)],
        ["list", "list t1", "list", "watch 8"],
        ["b"],
    ),
}


@pytest.mark.parametrize(("answers", "requests", "want"), SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_following(
    answers: list[Answer],
    requests: list[str],
    want: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, cluster = Script(list(answers)), Cluster()

    async with following(script, cluster, tmp_path, monkeypatch):
        await until(lambda: len(script.asked) == len(requests))

        assert script.requests == requests
        assert sorted(cluster.nodes.node_names()) == want
        given_up = [first for first, second in pairwise(requests) if "watch" in first and second == "list"]
        assert script.restarts == ["nodes"] * len(given_up)


async def test_what_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script([page("a", version=7)])

    async with following(script, Cluster(), tmp_path, monkeypatch):
        await until(lambda: len(script.asked) == 2)

    listed, watched = script.asked
    assert listed == {"limit": "500"}
    assert watched == {
        "watch": "true",
        "resourceVersion": "7",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(watch.WATCH_S),
    }


async def test_every_request_carries_the_kinds_selector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script([page(more="t1"), page(version=7)])
    pods = kinds.kinds(Cluster(), lambda: 0.0, script.restarts.append)[1]

    async with serving(script) as url, connected(url, tmp_path) as connection:
        task = asyncio.create_task(watch.follow(connection, pods))
        await until(lambda: len(script.asked) == 3)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert {query.get("fieldSelector") for query in script.asked} == {
        "status.phase!=Succeeded,status.phase!=Failed"
    }


async def test_a_list_replaces_nothing_before_its_last_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, cluster = Script([page("a"), stream(error(410)), page("b", more="t1")]), Cluster()

    async with following(script, cluster, tmp_path, monkeypatch):
        await until(lambda: script.last == "list t1")

        assert cluster.nodes.node_names() == ["a"]


async def test_the_kind_is_synced_by_its_first_whole_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = asyncio.Event()

    async def held(request: web.Request) -> web.StreamResponse:
        await release.wait()
        return await page("b", version=7)(request)

    script = Script([text(500, "{}"), page("a", more="t1"), held])

    async with following(script, Cluster(), tmp_path, monkeypatch) as kind:
        await until(lambda: script.requests == ["list", "list", "list t1"])
        assert not kind.synced.is_set()

        release.set()
        await until(kind.synced.is_set)


async def test_an_event_of_five_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = make_node("large", labels={"last": "x"})
    large["metadata"]["annotations"] = {"blob": "x" * 5_000_000}
    whole = event("ADDED", large, 5)
    script, cluster = (
        Script([page(), stream(whole[:2_000_000], whole[2_000_000:] + added("b", 6))]),
        Cluster(),
    )

    async with following(script, cluster, tmp_path, monkeypatch):
        await until(lambda: script.last == "watch 6")

    assert sorted(cluster.nodes.node_names()) == ["b", "large"]


async def test_gone_is_followed_by_a_list_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script([page("a"), stream(error(410)), page("b", version=8)])

    async with following(script, Cluster(), tmp_path, monkeypatch):
        await until(lambda: script.last == "watch 8")

    assert script.pauses == []


# What follows the first list; what each pause is drawn from.
PAUSES: dict[str, tuple[list[Answer], list[tuple[float, float]]]] = {
    "another error event": ([stream(error(500))], [(0.25, 0.5)]),
    "a watch that ends without a word, again and again": (
        [*[stream()] * 3, stream(added("b", 5)), *[stream()] * 2, stream(error(410))],
        [(0.25, 0.5), (0.5, 1), (1, 2), (0.25, 0.5), (0.5, 1)],
    ),
    "a watch that told something goes on at once": (
        [stream(added("b", 5)), stream(bookmark(7)), stream(error(410))],
        [],
    ),
    "refused again and again: twice as long each time": (
        [stream(error(410)), *[text(503, "{}")] * 8],
        [(0.25, 0.5), (0.5, 1), (1, 2), (2, 4), (4, 8), (8, 16), (15, 30), (15, 30)],
    ),
    "a whole list starts anew": (
        [stream(error(410)), *[text(503, "{}")] * 2, page("a"), stream(error(410)), text(503, "{}")],
        [(0.25, 0.5), (0.5, 1), (0.25, 0.5)],
    ),
}


@pytest.mark.parametrize(("answers", "want"), PAUSES.values(), ids=PAUSES.keys())
async def test_pauses(
    answers: list[Answer],
    want: list[tuple[float, float]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script([page("a"), *answers, page("z", version=99)])

    async with following(script, Cluster(), tmp_path, monkeypatch):
        await until(lambda: script.last == "watch 99")

    assert script.pauses == want


# How a connection goes bad while the cache is full.
FAULTS: dict[str, list[Answer]] = {
    "the API server fails": [text(500, "{}")] * 3,
    "a watch is refused": [stream(error(500)), text(503, "{}")],
    "a list breaks off": [stream(error(410)), stream(b'{"items": [', then="drop")],
    "a watch breaks off": [stream(added("a", 5)[:20], then="drop"), text(500, "{}")],
    "nothing but garbage": [text(200, "x"), text(200, "[]"), text(200, "{}")],
}


@pytest.mark.parametrize("answers", FAULTS.values(), ids=FAULTS.keys())
async def test_a_fault_leaves_the_cache_as_it_was(
    answers: list[Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, cluster = Script([page("a", "b", version=7), *answers]), Cluster()

    async with following(script, cluster, tmp_path, monkeypatch) as kind:
        await until(lambda: len(script.asked) == len(answers) + 2)

        assert sorted(cluster.nodes.node_names()) == ["a", "b"]
        assert kind.synced.is_set()


async def test_an_api_server_that_is_away_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    before = Script([page("a", "b", version=7)])
    after, cluster = Script([stream(added("c", 9)), stream(error(410)), page("d", version=12)]), Cluster()
    monkeypatch.setattr(
        watch, "random", SimpleNamespace(uniform=before.uniform, randint=lambda least, _: least)
    )
    kind = kinds.kinds(cluster, lambda: 0.0, before.restarts.append)[0]
    async with connected(f"http://127.0.0.1:{unused_tcp_port}", tmp_path) as connection:
        task = asyncio.create_task(watch.follow(connection, kind))
        await until(lambda: len(before.pauses) >= 2)
        assert not kind.synced.is_set()

        async with serving(before, unused_tcp_port):
            await until(lambda: before.last == "watch 7")
            count = len(before.pauses)
        await until(lambda: len(before.pauses) >= count + 3)
        assert sorted(cluster.nodes.node_names()) == ["a", "b"]
        assert before.pauses[count : count + 3] == [(0.25, 0.5), (0.5, 1.0), (1.0, 2.0)]

        async with serving(after, unused_tcp_port):
            await until(lambda: after.last == "watch 12")
        assert after.requests == ["watch 7", "watch 9", "list", "watch 12"]
        assert cluster.nodes.node_names() == ["d"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_watch_that_falls_silent_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SILENCE_S", 0.05)
    script, cluster = Script([page("a"), stream(added("b", 5), then="stay silent")]), Cluster()

    async with following(script, cluster, tmp_path, monkeypatch):
        await until(lambda: len(script.asked) == 3)

        assert script.requests == ["list", "watch 1", "watch 5"]
        assert sorted(cluster.nodes.node_names()) == ["a", "b"]


async def test_what_cannot_be_read_is_logged_without_the_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret: Json = {"metadata": {"name": "bad", "labels": {"a": {"password": "hunter2"}}}}
    script = Script([page("a", extra=[secret], version=7)])

    async with following(script, Cluster(), tmp_path, monkeypatch):
        await until(lambda: script.last == "watch 7")

    assert [record.getMessage() for record in caplog.records if record.name == "webhook.watch"] == [
        "nodes: an object cannot be read: Expected `str`, got `object` - at `$.metadata.labels[...]`"
    ]


def test_an_object_without_the_fields_that_are_read_is_an_object() -> None:
    kind = kinds.kinds(Cluster(), lambda: 0.0, lambda _name: None)[0]

    assert kind.decode(Raw(b'{"metadata": {}, "spec": null}')) == kube.Node(kube.Metadata())
