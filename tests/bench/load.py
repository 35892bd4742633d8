"""A client that admits Pods as fast as it can over a few kept connections, and notes how long each took."""

import asyncio
import itertools
import json
import ssl
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp


@dataclass(frozen=True, slots=True)
class Sample:
    """One round: admissions a second, and the latencies in milliseconds."""

    per_second: float
    p50_ms: float
    p99_ms: float
    patched: int


def pod_body() -> tuple[bytes, bytes]:
    """Return a typical review in two halves, around the uid.

    The Pod asks for so little that a whole round of them does not fill the nodes, for then nothing would
    be planned any more.
    """
    containers = [
        {
            "name": name,
            "image": f"registry.example/{name}:1",
            "env": [{"name": f"SETTING_{number}", "value": "value" * 6} for number in range(30)],
            "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}, "limits": {"memory": "64Mi"}},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
        }
        for name in ("app", "proxy")
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "web-5d9-",
            "namespace": "team",
            "labels": {"app": "web", "pod-template-hash": "5d9"},
        },
        "spec": {
            "containers": containers,
            "volumes": [
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
            ],
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
        },
    }
    request = {
        "uid": "@",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "dryRun": False,
    }
    whole = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    head, tail = whole.split("@", 1)
    return head.encode(), tail.encode()


async def admit(url: str, ca_file: Path, *, connections: int, seconds: float) -> Sample:
    """Admit Pods for `seconds` over `connections`, each sending the next review when the last is answered."""
    head, tail = pod_body()
    numbers = itertools.count()
    latencies: list[float] = []
    patched = 0
    context = ssl.create_default_context(cafile=str(ca_file))
    connector = aiohttp.TCPConnector(ssl=context, limit=connections)
    async with aiohttp.ClientSession(connector=connector) as session:
        ends = time.perf_counter() + seconds

        async def one_after_another() -> None:
            nonlocal patched
            while (began := time.perf_counter()) < ends:
                body = b"%buid-%d-%d%b" % (head, time.time_ns(), next(numbers), tail)
                async with session.post(
                    f"{url}?timeout=2s", data=body, headers={"Content-Type": "application/json"}
                ) as answer:
                    patched += b'"patch"' in await answer.read()
                    assert answer.status == 200
                latencies.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*(one_after_another() for _ in range(connections)))
        took = time.perf_counter() - began
    latencies.sort()
    return Sample(
        per_second=len(latencies) / took,
        p50_ms=1000 * latencies[len(latencies) // 2],
        p99_ms=1000 * latencies[int(len(latencies) * 0.99)],
        patched=patched,
    )
