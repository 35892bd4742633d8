"""Embedded mode: entered it answers, left nothing of it stays."""

import asyncio
import ssl
from collections.abc import Iterable
from pathlib import Path

import aiohttp
import pytest

from tests.builders import decode_pod, make_cluster, make_node, make_pod, make_review, patch_in, to_bytes
from webhook import policy
from webhook.cluster import Cluster
from webhook.embedded import Embedded

PATIENCE_S = 20
JSON = {"Content-Type": "application/json"}


def embedded(
    directory: Path,
    *,
    cluster: Cluster | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    admin_port: int = 0,
) -> Embedded:
    return Embedded(
        uneven() if cluster is None else cluster,
        policy.default(),
        cert_dir=directory,
        host=host,
        port=port,
        admin_port=admin_port,
    )


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def uneven() -> Cluster:
    cluster = make_cluster(make_node("n1"), make_node("n2"))
    cluster.pin_usage("n1", 1000.0, 0.0)
    cluster.pin_usage("n2", 7000.0, 0.0)
    return cluster


def test_the_policy_says_what_pods_are_expected_to_use(tmp_path: Path) -> None:
    head = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\n"
    half = policy.load(head + "expectedUsage: {cpu: {requestShare: 0.5}}")
    server = Embedded(uneven(), half, cert_dir=tmp_path, host="127.0.0.1", port=0, admin_port=0)

    assert server.cluster.expected_load(decode_pod(make_pod(cpu="2"))).cpu_milli == 1000


async def named(server: Embedded, *, url: str | None = None) -> list[str]:
    """Send a Pod as the API server would; return the nodes that its terms name."""
    trust = ssl.create_default_context(cafile=str(server.ca_file))
    body = to_bytes(make_review(make_pod(cpu="1")))
    async with (
        aiohttp.ClientSession() as session,
        session.post(url or server.url, data=body, headers=JSON, ssl=trust) as reply,
    ):
        assert reply.status == 200
        return names(patch_in(await reply.read()))


def names(operations: Iterable[object]) -> list[str]:
    text = str(list(operations))
    return [name for name in ("n1", "n2", "n3") if f"'{name}'" in text]


async def answers(url: str) -> bool:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.get(url) as reply:
                return reply.status == 200
        except aiohttp.ClientConnectionError:
            return False


async def test_entered_it_answers(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), embedded(tmp_path) as server:
        assert await named(server) == ["n1"]
        assert server.ca_file == tmp_path / "ca.crt"


async def test_whoever_holds_the_cluster_may_change_it(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), embedded(tmp_path) as server:
        assert await named(server) == ["n1"]
        server.cluster.remove_node("n1")

        assert await named(server) == ["n2"]


async def test_left_nothing_listens(tmp_path: Path, unused_tcp_port: int) -> None:
    probes = f"http://127.0.0.1:{unused_tcp_port}/readyz"
    tasks = asyncio.all_tasks()
    async with asyncio.timeout(PATIENCE_S):
        async with embedded(tmp_path, admin_port=unused_tcp_port) as server:
            assert await answers(probes)
        assert not await answers(probes)
        with pytest.raises(aiohttp.ClientConnectionError):
            await named(server)
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == tasks


async def test_entered_again_it_keeps_its_certificates(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with embedded(tmp_path) as first:
            assert await named(first)
        before = files(tmp_path)
        async with embedded(tmp_path) as second:
            assert await named(second)

    assert before.keys() == {"ca.crt", "tls.crt", "tls.key"}
    assert files(tmp_path) == before


async def test_a_host_that_the_certificate_does_not_name_gets_a_new_one(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with embedded(tmp_path):
            before = (tmp_path / "tls.crt").read_bytes()
        async with embedded(tmp_path, host="127.0.0.2") as server:
            assert await named(server) == ["n1"]

    assert (tmp_path / "tls.crt").read_bytes() != before


async def test_all_addresses(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), embedded(tmp_path, host="0.0.0.0") as server:
        port = server.url.rpartition(":")[2]
        assert await named(server, url=f"https://127.0.0.1:{port}") == ["n1"]


async def test_two_servers_in_one_process(tmp_path: Path) -> None:
    other = make_cluster(make_node("n2"))
    other.pin_usage("n2", 1.0, 0.0)
    async with (
        asyncio.timeout(PATIENCE_S),
        embedded(tmp_path / "a") as first,
        embedded(tmp_path / "b", cluster=other) as second,
    ):
        assert (await named(first), await named(second)) == (["n1"], ["n2"])
        assert first.ca_file.read_bytes() != second.ca_file.read_bytes()


async def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), embedded(tmp_path) as first:
        port = int(first.url.rpartition(":")[2].removesuffix("/mutate"))
        with pytest.raises(OSError, match="address already in use"):
            await embedded(tmp_path, admin_port=port).__aenter__()


async def test_a_start_that_fails_half_way_leaves_nothing_behind(
    tmp_path: Path, unused_tcp_port: int
) -> None:
    async with asyncio.timeout(PATIENCE_S), embedded(tmp_path) as first:
        port = int(first.url.rpartition(":")[2].removesuffix("/mutate"))
        with pytest.raises(OSError, match="address already in use"):
            await embedded(tmp_path, port=port, admin_port=unused_tcp_port).__aenter__()
        assert not await answers(f"http://127.0.0.1:{unused_tcp_port}/livez")


async def test_ipv6(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async with embedded(tmp_path / "a", host="::1") as server:
            assert server.url.startswith("https://[::1]:")
            assert await named(server) == ["n1"]
        async with embedded(tmp_path / "b", host="::") as server:
            assert server.url.startswith("https://[::]:")
