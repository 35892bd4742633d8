"""The listening TLS context, whose certificate can change under way.

Law: the context that listens never holds a pair. Loading a pair whose halves do not match raises
*and leaves the context it is loaded into without one*, so a live context must not be loaded into.
Each pair gets a context of its own, and a handshake is handed to the newest that loaded.
"""

import ssl
import tempfile

from certs.pki import Pair


class PairError(Exception):
    """A pair that cannot be served; the one before it goes on serving."""


class ServingContext:
    """Hands every handshake to the pair that was loaded last; open connections keep theirs."""

    def __init__(self) -> None:
        self._current: ssl.SSLContext | None = None
        self.context = _server_context()
        self.context.sni_callback = self._hand_over

    @property
    def loaded(self) -> bool:
        return self._current is not None

    def load(self, pair: Pair) -> None:
        """Serve the pair from the next handshake on, or raise PairError and change nothing."""
        fresh = _server_context()
        _load_into(fresh, pair)
        self._current = fresh

    def _hand_over(
        self, handshake: ssl.SSLObject | ssl.SSLSocket, name: str | None, asked: ssl.SSLContext
    ) -> None:
        del name, asked  # the callback comes in every handshake, also in one without a name
        if self._current is not None:
            handshake.context = self._current


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    # The API server speaks HTTP/1.1 to webhooks, and without HTTP/2 its rapid resets cannot happen.
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_into(context: ssl.SSLContext, pair: Pair) -> None:
    """Load through a file, because the ssl module takes a pair in no other way.

    The file is made with mode 0600 and is gone when this returns; where the temporary directory
    is in memory, as in the manifests, the key never meets a disk.
    """
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.cert_pem + b"\n" + pair.key_pem)
            file.flush()
            # With no password given, OpenSSL would ask the terminal for that of an encrypted key.
            context.load_cert_chain(file.name, password="")
    except (OSError, ValueError) as error:
        raise PairError(f"the certificate pair does not load: {error}") from error
