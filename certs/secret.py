"""Keep the material in a Secret, and put its CA into the webhook configuration.

Both functions read before they write and write only what differs, so each may be called as often
as the caller likes, by as many replicas as there are. The API server's answers are the only state.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from certs import pki
from certs.pki import Material, Pair

_CA_CERT, _CA_KEY, _LEAF_CERT, _LEAF_KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"

# Each turn is lost to a writer that has finished, and the replicas that write here are few.
_ATTEMPTS = 5

# 409: the resourceVersion sent is no longer the newest; 422: a `test` operation found another value.
_OUTDATED = (409, 422)


class Api(Protocol):
    """One request to the API server: status and body of whatever it answers."""

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]: ...


class ApiError(Exception):
    """The API server did not do what keeping the certificates needs."""


async def ensure(api: Api, *, namespace: str, name: str, dns_names: Sequence[str], now: datetime) -> Material:
    """Return the Secret's material, after replacing whatever part of it cannot serve the names now.

    Of several writers the first wins, and the others take what it wrote.
    """
    path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
    outdated: ApiError | None = None
    for _ in range(_ATTEMPTS):
        secret = await _get(api, path, hint="the manifests create it, empty")
        data = _decoded(secret.get("data") or {})
        material = _material(data)
        if _is_sound(material, dns_names=dns_names, now=now):
            return material
        ca, leaf = _make(data, dns_names=dns_names, now=now)
        # The object goes back as it was read, resourceVersion and all, so that a write in between
        # is a conflict, and what others keep in it stays.
        secret["data"] = (secret.get("data") or {}) | _encoded(ca, leaf)
        outdated = await _write(api, "PUT", path, secret)
        if outdated is None:
            return Material(ca_pem=ca.cert_pem, leaf=leaf)
    raise ApiError(f"gave up after {_ATTEMPTS} attempts: {outdated}")


async def publish(api: Api, *, configuration: str, ca_pem: bytes) -> bool:
    """Make each webhook of our MutatingWebhookConfiguration trust the CA; say if that took a write."""
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{configuration}"
    outdated: ApiError | None = None
    for _ in range(_ATTEMPTS):
        operations = _operations(await _get(api, path, hint="the manifests create it"), ca_pem)
        if not operations:
            return False
        outdated = await _write(api, "PATCH", path, operations, content_type="application/json-patch+json")
        if outdated is None:
            return True
    raise ApiError(f"gave up after {_ATTEMPTS} attempts: {outdated}")


def _operations(configuration: Mapping[str, Any], ca_pem: bytes) -> list[dict[str, Any]]:
    """Replace the caBundle of each webhook that has another, and no other field.

    A path names a webhook by its index only, so the tests refuse the whole patch if the list that
    it was computed from is not the list that it meets.
    """
    bundle = base64.b64encode(ca_pem).decode()
    operations: list[dict[str, Any]] = []
    for index, webhook in enumerate(configuration.get("webhooks") or []):
        if webhook["clientConfig"].get("caBundle") != bundle:
            here = f"/webhooks/{index}"
            operations.append({"op": "test", "path": f"{here}/name", "value": webhook["name"]})
            operations.append({"op": "add", "path": f"{here}/clientConfig/caBundle", "value": bundle})
    if not operations:
        return []
    version = configuration["metadata"]["resourceVersion"]
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *operations]


def _make(data: Mapping[str, bytes], *, dns_names: Sequence[str], now: datetime) -> tuple[Pair, Pair]:
    """Make a leaf, under the CA that is there if it works: what trusts that CA trusts the leaf at once."""
    ca = Pair(cert_pem=data.get(_CA_CERT, b""), key_pem=data.get(_CA_KEY, b""))
    if pki.find_ca_problem(ca, now=now) is None:
        leaf = pki.make_leaf(ca, dns_names=dns_names, now=now)
        if _is_sound(Material(ca_pem=ca.cert_pem, leaf=leaf), dns_names=dns_names, now=now):
            return ca, leaf
    ca = pki.make_ca(now=now)
    return ca, pki.make_leaf(ca, dns_names=dns_names, now=now)


def _material(data: Mapping[str, bytes]) -> Material:
    leaf = Pair(cert_pem=data.get(_LEAF_CERT, b""), key_pem=data.get(_LEAF_KEY, b""))
    return Material(ca_pem=data.get(_CA_CERT, b""), leaf=leaf)


def _is_sound(material: Material, *, dns_names: Sequence[str], now: datetime) -> bool:
    return pki.find_problem(material.leaf, ca_pem=material.ca_pem, dns_names=dns_names, now=now) is None


def _decoded(data: Mapping[str, str | None]) -> dict[str, bytes]:
    """Decode the values; an empty one may come as null."""
    return {key: base64.b64decode(value or "") for key, value in data.items()}


def _encoded(ca: Pair, leaf: Pair) -> dict[str, str]:
    values = {
        _CA_CERT: ca.cert_pem,
        _CA_KEY: ca.key_pem,
        _LEAF_CERT: leaf.cert_pem,
        _LEAF_KEY: leaf.key_pem,
    }
    return {key: base64.b64encode(value).decode() for key, value in values.items()}


async def _get(api: Api, path: str, *, hint: str) -> dict[str, Any]:
    status, body = await api.request("GET", path)
    if status == 404:
        raise ApiError(f"{path} does not exist: {hint}")
    if status != 200:
        raise _refusal("GET", path, status, body)
    try:
        found: dict[str, Any] = json.loads(body)
    except ValueError as error:
        raise ApiError(f"GET {path} answered no JSON: {error}") from error
    return found


async def _write(
    api: Api, method: str, path: str, content: object, *, content_type: str = "application/json"
) -> ApiError | None:
    """Write what was computed from a read; give the refusal back if the read was outdated by then."""
    body = json.dumps(content).encode()
    status, answer = await api.request(method, path, body=body, content_type=content_type)
    if status < 300:
        return None
    refusal = _refusal(method, path, status, answer)
    if status not in _OUTDATED:
        raise refusal
    return refusal


def _refusal(method: str, path: str, status: int, body: bytes) -> ApiError:
    """Say what was refused, with the Status message that the API server gives for it."""
    try:
        message = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        message = body[:200].decode(errors="replace")
    return ApiError(f"{method} {path} answered {status}: {message}")
