"""Keep material in a directory, for a server that has no cluster to keep it in.

The CA's key is not kept: what is unsound is made anew, CA included.
"""

import os
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from certs import pki
from certs.pki import Material, Pair

_CA_CERT, _LEAF_CERT, _LEAF_KEY = "ca.crt", "tls.crt", "tls.key"


def ensure_files(
    directory: Path, *, dns_names: Sequence[str], ip_addresses: Sequence[str] = (), now: datetime
) -> Material:
    """Return the directory's material, after making it anew unless it can serve every name now."""
    found = _read(directory)
    problem = pki.find_problem(
        found.leaf, ca_pem=found.ca_pem, dns_names=dns_names, ip_addresses=ip_addresses, now=now
    )
    if problem is None:
        return found
    ca = pki.make_ca(now=now)
    leaf = pki.make_leaf(ca, dns_names=dns_names, ip_addresses=ip_addresses, now=now)
    made = Material(ca_pem=ca.cert_pem, leaf=leaf)
    _write(directory, made)
    return made


def _read(directory: Path) -> Material:
    leaf = Pair(cert_pem=_content(directory / _LEAF_CERT), key_pem=_content(directory / _LEAF_KEY))
    return Material(ca_pem=_content(directory / _CA_CERT), leaf=leaf)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _write(directory: Path, material: Material) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / _LEAF_KEY, material.leaf.key_pem, mode=0o600)
    _replace(directory / _LEAF_CERT, material.leaf.cert_pem, mode=0o644)
    _replace(directory / _CA_CERT, material.ca_pem, mode=0o644)


def _replace(path: Path, content: bytes, *, mode: int) -> None:
    """Put the whole file in place at once: a client may be reading the one before."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
    Path(file.name).replace(path)
