"""Kubeconfig files: one server, one user, one context."""

import base64
import json
from pathlib import Path
from typing import Any

from . import pki


def with_certificate(path: Path, *, server: str, authority: Path, user: pki.Pair) -> Path:
    """Write a kubeconfig that authenticates by a client certificate."""
    credentials = {
        "client-certificate-data": _encoded(user.certificate),
        "client-key-data": _encoded(user.key),
    }
    return _write(path, server, authority, credentials)


def with_token(path: Path, *, server: str, authority: Path, token: str) -> Path:
    """Write a kubeconfig that authenticates by a bearer token."""
    return _write(path, server, authority, {"token": token})


def _write(path: Path, server: str, authority: Path, credentials: dict[str, str]) -> Path:
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "trimtab",
        "clusters": [
            {
                "name": "trimtab",
                "cluster": {"server": server, "certificate-authority-data": _encoded(authority)},
            }
        ],
        "users": [{"name": "trimtab", "user": credentials}],
        "contexts": [{"name": "trimtab", "context": {"cluster": "trimtab", "user": "trimtab"}}],
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1))  # JSON is YAML
    return path


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
