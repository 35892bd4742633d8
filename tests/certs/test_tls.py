"""The context context over real sockets: pairs that change, pairs that do not load."""

import asyncio
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from certs import pki, tls
from certs.pki import Pair

NOW = datetime.now(UTC)  # OpenSSL checks certificates against the clock
CA = pki.make_ca(now=NOW)
FIRST = pki.make_leaf(CA, dns_names=["localhost"], now=NOW)
SECOND = pki.make_leaf(CA, dns_names=["localhost"], now=NOW)


def serial(pair: Pair) -> int:
    return x509.load_pem_x509_certificate(pair.cert_pem).serial_number


def encrypted_key(pair: Pair) -> bytes:
    key = serialization.load_pem_private_key(pair.key_pem, password=None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


def client_context(change: Callable[[ssl.SSLContext], None] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=CA.cert_pem.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    if change is not None:
        change(context)
    return context


def without_server_name(context: ssl.SSLContext) -> None:
    context.check_hostname = False


class Connection:
    """A client's open connection; the server sends back every line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        tls_object: ssl.SSLObject = writer.get_extra_info("ssl_object")
        self.version = tls_object.version()
        self.protocol = tls_object.selected_alpn_protocol()
        peer = tls_object.getpeercert(binary_form=True)
        assert peer is not None
        self.serial = x509.load_der_x509_certificate(peer).serial_number

    async def echo(self, line: bytes) -> bytes:
        self._writer.write(line + b"\n")
        return (await self._reader.readline()).rstrip()


class Server:
    def __init__(self, port: int) -> None:
        self._port = port

    @asynccontextmanager
    async def connect(
        self,
        change: Callable[[ssl.SSLContext], None] | None = None,
        *,
        server_name: str = "localhost",
    ) -> AsyncIterator[Connection]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=client_context(change), server_hostname=server_name
        )
        try:
            yield Connection(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    async def serial(self) -> int:
        async with self.connect() as connection:
            return connection.serial


@asynccontextmanager
async def serving(context: ssl.SSLContext) -> AsyncIterator[Server]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
    async with server:
        yield Server(server.sockets[0].getsockname()[1])


async def test_pair_changes_without_a_restart() -> None:
    endpoint = tls.ServingContext()
    endpoint.load(FIRST)
    async with serving(endpoint.context) as server:
        before = await server.serial()
        endpoint.load(SECOND)
        after = await server.serial()

    assert (before, after) == (serial(FIRST), serial(SECOND))


async def test_open_connection_outlives_the_change() -> None:
    endpoint = tls.ServingContext()
    endpoint.load(FIRST)
    async with serving(endpoint.context) as server, server.connect() as connection:
        assert await connection.echo(b"before") == b"before"
        endpoint.load(SECOND)
        assert await server.serial() == serial(SECOND)
        assert await connection.echo(b"after") == b"after"


BAD_PAIRS = {
    "halves of two pairs": Pair(SECOND.cert_pem, FIRST.key_pem),
    "certificate is garbage": Pair(b"garbage", FIRST.key_pem),
    "key is garbage": Pair(SECOND.cert_pem, b"garbage"),
    "certificate is cut off": Pair(SECOND.cert_pem[:200], SECOND.key_pem),
    "empty": Pair(b"", b""),
    "key is encrypted": Pair(SECOND.cert_pem, encrypted_key(SECOND)),
}


@pytest.mark.parametrize("bad", BAD_PAIRS.values(), ids=BAD_PAIRS.keys())
async def test_pair_that_does_not_load_leaves_the_old_one_serving(bad: Pair) -> None:
    endpoint = tls.ServingContext()
    endpoint.load(FIRST)
    async with serving(endpoint.context) as server:
        with pytest.raises(tls.PairError, match="the certificate pair does not load: "):
            endpoint.load(bad)
        during = await server.serial()
        endpoint.load(SECOND)
        after = await server.serial()

    assert (during, after) == (serial(FIRST), serial(SECOND))


async def test_client_without_a_server_name_is_served() -> None:
    endpoint = tls.ServingContext()
    endpoint.load(FIRST)
    async with (
        serving(endpoint.context) as server,
        server.connect(without_server_name, server_name="") as connection,
    ):
        assert connection.serial == serial(FIRST)


async def test_handshake_before_the_first_pair_fails_and_the_next_may_succeed() -> None:
    endpoint = tls.ServingContext()
    loop = asyncio.get_running_loop()
    reported: list[object] = []
    loop.set_exception_handler(lambda _, details: reported.append(details))
    async with serving(endpoint.context) as server:
        assert not endpoint.loaded
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await server.serial()
        endpoint.load(FIRST)
        assert endpoint.loaded
        assert await server.serial() == serial(FIRST)


def test_pair_that_does_not_load_at_first_is_not_loaded() -> None:
    endpoint = tls.ServingContext()

    with pytest.raises(tls.PairError):
        endpoint.load(BAD_PAIRS["halves of two pairs"])
    assert not endpoint.loaded


def offer_http2(context: ssl.SSLContext) -> None:
    context.set_alpn_protocols(["h2", "http/1.1"])


def speak_tls12_at_most(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("change", "version", "protocol"),
    [
        pytest.param(None, "TLSv1.3", None, id="newest of both by default"),
        pytest.param(speak_tls12_at_most, "TLSv1.2", None, id="TLS 1.2 is enough"),
        pytest.param(offer_http2, "TLSv1.3", "http/1.1", id="HTTP/2 is not taken"),
    ],
)
async def test_versions_agreed_on(
    change: Callable[[ssl.SSLContext], None] | None, version: str, protocol: str | None
) -> None:
    endpoint = tls.ServingContext()
    endpoint.load(FIRST)
    async with serving(endpoint.context) as server, server.connect(change) as connection:
        assert (connection.version, connection.protocol) == (version, protocol)


def test_older_tls_is_not_spoken() -> None:
    assert tls.ServingContext().context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_password_of_an_encrypted_key_is_not_asked_for_at_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passwords: list[str | None] = []

    def watched(context: ssl.SSLContext, certfile: str, *, password: str | None = None) -> None:
        passwords.append(password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    tls.ServingContext().load(FIRST)

    assert passwords == [""], "with None, OpenSSL would prompt and wait"


def test_key_is_private_while_it_is_in_a_file_and_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    modes: list[int] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, certfile: str, *, password: str) -> None:
        modes.append(Path(certfile).stat().st_mode & 0o777)
        load(context, certfile, password=password)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    tls.ServingContext().load(FIRST)

    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []
