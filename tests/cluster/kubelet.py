"""One TLS server that answers for every simulated node's kubelet: `python -m tests.cluster.kubelet`.

It lists and watches Nodes and Pods as admin, and serves per node `/<node>/metrics/resource` as a kubelet
would; `/usage` tells the true use of every node at once, for tests to compare with.
"""

import argparse
import asyncio
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
from aiohttp import web

from .usage import SILENT, Node, Pod, Simulation

T = TypeVar("T", Node, Pod)

RETRY_S = 0.5
TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=330)


class _List(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: dict[str, Any]


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


async def follow(
    session: aiohttp.ClientSession,
    path: str,
    kind: type[T],
    replace: Callable[[list[T]], None],
    apply: Callable[[str, T], None],
) -> None:
    """Keep the simulation in step with one resource for as long as the process runs."""
    while True:
        try:
            async with session.get(path) as answer:
                answer.raise_for_status()
                listed = msgspec.json.decode(await answer.read(), type=_List)
            replace([msgspec.json.decode(item, type=kind) for item in listed.items])
            await _watch(
                session, f"{path}?watch=1&resourceVersion={listed.metadata['resourceVersion']}", kind, apply
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            print(f"{path}: {error!r}, listing again", flush=True)
        await asyncio.sleep(RETRY_S)


async def _watch(
    session: aiohttp.ClientSession, url: str, kind: type[T], apply: Callable[[str, T], None]
) -> None:
    rest = b""
    async with session.get(url) as answer:
        answer.raise_for_status()
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = msgspec.json.decode(line, type=_Event)
                if event.type == "ERROR":
                    return  # the version is too old: list again
                apply(event.type, msgspec.json.decode(event.object, type=kind))


class Nodes:
    """Feeds the simulation with Nodes."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def replace(self, nodes: list[Node]) -> None:
        for name in set(self._simulation.kubelets) - {node.metadata.name for node in nodes}:
            del self._simulation.kubelets[name]
        for node in nodes:
            self._simulation.put_node(node, time.time())

    def apply(self, event: str, node: Node) -> None:
        if event == "DELETED":
            self._simulation.remove_node(node)
        else:
            self._simulation.put_node(node, time.time())


class Pods:
    """Feeds the simulation with Pods."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def replace(self, pods: list[Pod]) -> None:
        for uid in self._simulation.pods() - {pod.metadata.uid for pod in pods}:
            self._simulation.remove_pod(uid, time.time())
        for pod in pods:
            self._simulation.put_pod(pod, time.time())

    def apply(self, event: str, pod: Pod) -> None:
        if event == "DELETED":
            self._simulation.remove_pod(pod.metadata.uid, time.time())
        else:
            self._simulation.put_pod(pod, time.time())


def application(simulation: Simulation) -> web.Application:
    """The kubelets' pages."""

    async def page(request: web.Request) -> web.Response:
        kubelet = simulation.kubelets.get(request.match_info["node"])
        if kubelet is None:
            raise web.HTTPNotFound
        if kubelet.readings == SILENT:
            raise web.HTTPServiceUnavailable
        return web.Response(text=kubelet.page(time.time()))

    async def usage(_: web.Request) -> web.Response:
        return web.json_response(simulation.true_usage())

    app = web.Application()
    app.add_routes([web.get("/{node}/metrics/resource", page), web.get("/usage", usage)])
    return app


async def serve(server: str, client: ssl.SSLContext, own: ssl.SSLContext, port: int) -> None:
    """Follow the API server and answer for the kubelets until cancelled."""
    simulation = Simulation()
    nodes, pods = Nodes(simulation), Pods(simulation)
    runner = web.AppRunner(application(simulation), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=own).start()
    connector = aiohttp.TCPConnector(ssl=client)
    async with aiohttp.ClientSession(server, connector=connector, timeout=TIMEOUT) as session:
        await asyncio.gather(
            follow(session, "/api/v1/nodes", Node, nodes.replace, nodes.apply),
            follow(session, "/api/v1/pods", Pod, pods.replace, pods.apply),
        )


def main() -> None:
    """Run with a JSON file of settings, which the simulation's owner wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", type=Path)
    settings = json.loads(parser.parse_args().settings.read_text())
    client = ssl.create_default_context(cafile=settings["authority"])
    client.load_cert_chain(*settings["user"])
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(*settings["certificate"])
    asyncio.run(serve(settings["server"], client, own, settings["port"]))


if __name__ == "__main__":
    main()
