"""An API server in memory: get, put and JSON Patch of single objects, with resourceVersions.

A PUT under an old resourceVersion is answered 409 and a JSON Patch whose `test` fails 422, which is
what the real one answers.
"""

import base64
import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import jsonpatch

SECRET = "/api/v1/namespaces/trimtab-system/secrets/trimtab-tls"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/trimtab"


class FakeApi:
    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes: list[tuple[str, str, Any]] = []
        self.before_writing: list[Callable[[], None]] = []
        """What other writers do, one after another, each just before one of our writes arrives."""
        self.answer: tuple[int, bytes] | None = None
        """What everything is answered with, in place of an answer from the objects."""
        self._version = 100

    def put(self, path: str, content: dict[str, Any]) -> None:
        """Write as another client would."""
        self._version += 1
        stored = deepcopy(content)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.objects[path] = stored

    def edit(self, path: str, change: Callable[[dict[str, Any]], None]) -> None:
        content = deepcopy(self.objects[path])
        change(content)
        self.put(path, content)

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        if method != "GET" and self.before_writing:
            self.before_writing.pop(0)()
        if self.answer is not None:
            return self.answer
        if method == "GET":
            return self._get(path)
        assert body is not None
        content = json.loads(body)
        self.writes.append((method, path, content))
        if method == "PUT":
            assert content_type == "application/json"
            return self._put(path, content)
        assert (method, content_type) == ("PATCH", "application/json-patch+json")
        return self._patch(path, content)

    def _get(self, path: str) -> tuple[int, bytes]:
        if path not in self.objects:
            return _status(404, "not found")
        return 200, json.dumps(self.objects[path]).encode()

    def _put(self, path: str, content: dict[str, Any]) -> tuple[int, bytes]:
        if path not in self.objects:
            return _status(404, "not found")
        if content["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
            return _status(409, "the object has been modified")
        self.put(path, content)
        return self._get(path)

    def _patch(self, path: str, operations: list[dict[str, Any]]) -> tuple[int, bytes]:
        try:
            patched = jsonpatch.apply_patch(self.objects[path], operations)
        except jsonpatch.JsonPatchTestFailed:
            return _status(422, "the server rejected our request due to an error in our request")
        self.put(path, patched)
        return self._get(path)


def secret(data: dict[str, bytes] | None = None) -> dict[str, Any]:
    """Make a Secret as the API server shows it: one without data has no such key."""
    made: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "trimtab-tls", "namespace": "trimtab-system", "labels": {"team": "platform"}},
        "type": "Opaque",
    }
    if data is not None:
        made["data"] = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return made


def secret_data(api: FakeApi) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in api.objects[SECRET]["data"].items()}


def configuration(*bundles: bytes | None) -> dict[str, Any]:
    """Make a MutatingWebhookConfiguration with one webhook for each bundle; None is a webhook without one."""
    webhooks = []
    for index, bundle in enumerate(bundles):
        client_config: dict[str, Any] = {
            "service": {"namespace": "trimtab-system", "name": "trimtab", "path": "/mutate", "port": 443}
        }
        if bundle is not None:
            client_config["caBundle"] = base64.b64encode(bundle).decode()
        webhooks.append({"name": f"w{index}.trimtab.dev", "clientConfig": client_config, "timeoutSeconds": 2})
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "trimtab", "labels": {"team": "platform"}},
        "webhooks": webhooks,
    }


def bundles(api: FakeApi) -> dict[str, bytes | None]:
    """Read the caBundle of each webhook, by name."""
    found: dict[str, bytes | None] = {}
    for webhook in api.objects[CONFIGURATION]["webhooks"]:
        bundle = webhook["clientConfig"].get("caBundle")
        found[webhook["name"]] = None if bundle is None else base64.b64decode(bundle)
    return found


def _status(code: int, message: str) -> tuple[int, bytes]:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return code, json.dumps(body).encode()
