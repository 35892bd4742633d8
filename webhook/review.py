"""The AdmissionReview on the wire: decode a request, encode an answer. No I/O here."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class ReviewError(ValueError):
    """A body that is not an AdmissionReview: the one case that is answered with a 4xx."""


class GroupVersionKind(Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class Request(Struct, frozen=True, rename="camel"):
    """The part of an AdmissionRequest that is read; `object` stays raw until the guard has passed."""

    uid: str
    kind: GroupVersionKind = GroupVersionKind()
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    operation: str = ""
    dry_run: bool | None = None
    object: Raw = Raw(b"null")


class _Review(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: Request


_DECODER = msgspec.json.Decoder(_Review)
_ENCODER = msgspec.json.Encoder()


def decode(body: bytes) -> Request:
    """Return the request in `body`; raise ReviewError with one sentence where there is none."""
    try:
        review = _DECODER.decode(body)
    except RecursionError:
        raise ReviewError("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewError(f"the body is not an AdmissionReview: {error}") from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise ReviewError(f"expected apiVersion {API_VERSION} and kind {KIND}")
    if not review.request.uid:
        raise ReviewError("request.uid: expected a text that is not empty")
    return review.request


def allow(uid: str, operations: bytes | None = None, audit: Mapping[str, str] | None = None) -> bytes:
    """Encode the answer: allowed, with the JSON Patch in `operations` where there is one."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(operations).decode("ascii")
    if audit:
        response["auditAnnotations"] = audit
    return _ENCODER.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})
