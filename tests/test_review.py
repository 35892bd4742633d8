"""The AdmissionReview on the wire: what is one, what is none, and the answer."""

import base64
import json
from typing import Any

import pytest

from tests.builders import Json, make_pod, make_review, to_bytes
from webhook import review
from webhook.review import ReviewError


def changed(**fields: Any) -> Json:
    """Return a review with top-level fields changed; `...` leaves one out."""
    merged = {**make_review(make_pod()), **fields}
    return {key: value for key, value in merged.items() if value is not ...}


MALFORMED: dict[str, bytes] = {
    "no body": b"",
    "blanks": b" \n",
    "not JSON": b"apiVersion: admission.k8s.io/v1",
    "a byte order mark": b"\xef\xbb\xbf" + to_bytes(make_review(make_pod())),
    "not UTF-8": b'{"apiVersion": "\xff"}',
    "UTF-16": json.dumps(make_review(make_pod())).encode("utf-16"),
    "truncated": to_bytes(make_review(make_pod()))[:40],  # req-truncated-json
    "truncated by one byte": to_bytes(make_review(make_pod()))[:-1],
    "something behind it": to_bytes(make_review(make_pod())) + b"{}",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"AdmissionReview"',
    "a number": b"1",
    "an empty object": b"{}",
    "a Pod": to_bytes(make_pod()),
    "another kind": to_bytes(changed(kind="ConversionReview")),
    "no kind": to_bytes(changed(kind=...)),
    "kind null": to_bytes(changed(kind=None)),
    "an older version": to_bytes(changed(apiVersion="admission.k8s.io/v1beta1")),
    "a version of the future": to_bytes(changed(apiVersion="admission.k8s.io/v2")),  # req-unknown-version
    "no version": to_bytes(changed(apiVersion=...)),
    "no request": to_bytes(changed(request=...)),
    "request null": to_bytes(changed(request=None)),
    "request as a list": to_bytes(changed(request=[])),
    "no uid": to_bytes(make_review(make_pod(), uid=...)),  # req-no-uid
    "uid null": to_bytes(make_review(make_pod(), uid=None)),
    "uid empty": to_bytes(make_review(make_pod(), uid="")),
    "uid as a number": to_bytes(make_review(make_pod(), uid=7)),
    "uid with a lone surrogate": to_bytes(make_review(make_pod(), uid="\ud800")),
    "an object with a lone surrogate (req-lone-surrogate)": to_bytes(
        make_review(make_pod(labels={"app": "\ud800"}))
    ),
    "kind of the object as a text": to_bytes(make_review(make_pod(), kind="Pod")),
    "namespace as a list": to_bytes(make_review(make_pod(), namespace=["shop"])),
    "dryRun as a text": to_bytes(make_review(make_pod(), dryRun="false")),
    "100,000 lists deep": b"[" * 100_000,  # req-deep-nesting
    "100,000 lists deep, closed": b"[" * 100_000 + b"]" * 100_000,
    "an object 100,000 lists deep": to_bytes(make_review("@")).replace(
        b'"@"', b"[" * 100_000 + b"]" * 100_000
    ),
    "an object 100,000 mappings deep": to_bytes(make_review("@")).replace(
        b'"@"', b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    ),
    "an unknown field 100,000 lists deep": to_bytes(make_review(make_pod(), userInfo="@")).replace(
        b'"@"', b"[" * 100_000 + b"]" * 100_000
    ),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_body_that_is_no_review_is_an_error_of_one_short_line(body: bytes) -> None:
    with pytest.raises(ReviewError) as caught:
        review.decode(body)

    text = str(caught.value)
    assert text
    assert "\n" not in text
    assert len(text) < 300
    assert "Traceback" not in text


def test_what_is_read_of_a_request() -> None:
    request = review.decode(
        to_bytes(make_review({"a": [1]}, uid="u-1", name="web-1", namespace="shop", dryRun=True))
    )

    assert (request.uid, request.name, request.namespace) == ("u-1", "web-1", "shop")
    assert (request.kind.group, request.kind.version, request.kind.kind) == ("", "v1", "Pod")
    assert (request.operation, request.sub_resource, request.dry_run) == ("CREATE", None, True)
    assert json.loads(bytes(request.object)) == {"a": [1]}


LENIENT: dict[str, Json] = {
    "fields of the future": make_review(make_pod(), futureField={"a": 1}),
    "no name and no namespace": make_review(make_pod(), name=..., namespace=...),
    "null where a text could be": make_review(make_pod(), name=None, namespace=None, subResource=None),
    "dryRun null": make_review(make_pod(), dryRun=None),
    "dryRun absent": make_review(make_pod(), dryRun=...),
    "no object": make_review(make_pod(), object=...),
    "object null": make_review(None),
    "an object that is no Pod": make_review("text"),
    "a response beside the request": changed(response={"uid": "x", "allowed": False}),
}


@pytest.mark.parametrize("body", LENIENT.values(), ids=LENIENT.keys())
def test_a_review_that_says_less_or_more_is_read_all_the_same(body: Json) -> None:
    request = review.decode(to_bytes(body))

    assert request.uid == "review-1"
    assert not request.dry_run


def test_an_absent_object_is_null() -> None:
    assert bytes(review.decode(to_bytes(make_review(make_pod(), object=...))).object) == b"null"


def test_an_answer_without_operations_has_neither_patch_nor_type() -> None:
    assert json.loads(review.allow("u-1")) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u-1", "allowed": True},
    }


def test_an_answer_with_operations() -> None:
    body = review.allow("u-1", b'[{"op":"add","path":"/a/~1b","value":"\xc3\xb6"}]', {"outcome": "steered"})

    response = json.loads(body)["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"], validate=True)) == [
        {"op": "add", "path": "/a/~1b", "value": "ö"}
    ]
    assert response["auditAnnotations"] == {"outcome": "steered"}


UIDS = ["705ab4f5-6393-11e8-b7cc-42010a800002", "ö", '"', "\\", "\u0000", "x" * 10_000]


@pytest.mark.parametrize("uid", UIDS, ids=range(len(UIDS)))
def test_the_uid_comes_back_as_it_was(uid: str) -> None:
    request = review.decode(to_bytes(make_review(make_pod(), uid=uid)))

    assert json.loads(review.allow(request.uid))["response"]["uid"] == uid
