"""The Kubernetes API as raw JSON bytes. The only importer of the kubernetes client, which is slow to load.

The client gives credentials, TLS and connections; its models are not used (they take a hundred times
longer to decode than the few fields that are read here).
"""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import yaml

CONNECT_S = 5.0
REQUEST_S = 30.0

Query = Mapping[str, str | int]


class ApiError(Exception):
    """The API server cannot be reached, or answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class Api:
    """A connection to one API server; make it with `connect`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def close(self) -> None:
        await self._client.close()

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send one request; return the status and the body. Raise ApiError where nothing answers."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S)
        response = await self._send(method, path, {}, timeout, body, content_type)
        try:
            return response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(0, f"{method} {path}: {_text(error)}") from error

    async def get(self, path: str, query: Query | None = None) -> bytes:
        """Return the body of a GET; raise ApiError for any status but 200."""
        timeout = aiohttp.ClientTimeout(total=REQUEST_S, sock_connect=CONNECT_S)
        response = await self._send("GET", path, query or {}, timeout)
        try:
            body: bytes = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(0, f"GET {path}: {_text(error)}") from error
        if response.status != 200:
            raise ApiError(response.status, f"GET {path}: status {response.status}")
        return body

    async def lines(self, path: str, query: Query, *, silence_s: float) -> AsyncIterator[bytes]:
        """Yield the lines of a streamed GET, of any length, until it ends or is silent for too long."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        response = await self._send("GET", path, query, timeout)
        try:
            if response.status != 200:
                raise ApiError(response.status, f"GET {path}: status {response.status}")
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ApiError(0, f"GET {path}: {_text(error)}") from error
        finally:
            response.close()

    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        limits: aiohttp.ClientTimeout,
        body: bytes | None = None,
        content_type: str | None = None,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json"}
        if content_type and body is not None:
            headers["Content-Type"] = content_type
        try:
            arguments = await self._client.param_serialize(
                method,
                path,
                query_params=list(query.items()),
                header_params=headers,
                body=None if body is None else json.loads(body),
                auth_settings=["BearerToken"],
            )
            answer = await self._client.call_api(*arguments, _request_timeout=limits)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(0, f"{method} {path}: {_text(error)}") from error
        response: aiohttp.ClientResponse = answer.response
        return response


async def connect(kubeconfig: Path | None) -> Api:
    """Connect with a kubeconfig file, or from inside a Pod; raise ApiError where neither is there."""
    from kubernetes.aio import config  # noqa: PLC0415, a second of import that the embedded mode saves
    from kubernetes.aio.client import ApiClient, Configuration  # noqa: PLC0415

    configuration = Configuration()
    try:
        if kubeconfig is None:
            config.load_incluster_config(  # type: ignore[no-untyped-call]
                client_configuration=configuration
            )
        else:
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=str(kubeconfig), client_configuration=configuration
            )
    except (config.ConfigException, yaml.YAMLError, OSError) as error:
        hint = "give --kubeconfig FILE, or --cluster FILE to run without one"
        raise ApiError(0, f"no access to a cluster ({hint}): {_text(error)}") from error
    client = ApiClient(configuration)
    client.user_agent = "trimtab"
    return Api(client)


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
