"""One decision's CPU time beside a bare numpy pass over the same columns, by the size of the cluster.

A decision is all that `admission.respond` does for a Pod, from the bytes of the review to those of the
answer: for `first`, a Pod that is planned alone, every node is filtered and scored; for `later`, one of a
ReplicaSet whose deal was made, the next dealt place is taken. The reviews are dry-run, so that a round
leaves nothing behind; what real ones book is not in the figures.

The pass is six multiply-adds and one argpartition over as many float64 as there are nodes, written plainly:
about the least that six scorers and the choice of the best nodes can cost. `in_place` is the same without
temporary arrays. All are timed in turn, round by round, in CPU time of this one thread; the ratios to the
plain pass are the figures to trust.
"""

import gc
import itertools
import json
import math
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import msgspec
import numpy as np

from webhook import policy
from webhook.admission import Clock, respond
from webhook.cluster import Cluster
from webhook.reasons import Outcome

from . import synthetic

SIZES = (100, 1_000, 5_000, 15_000, 65_000)
PODS_A_NODE, MOST_PODS = 20, 300_000
ROUNDS, DECISIONS = 15, 40

SIX_SCORERS = """
apiVersion: trimtab.dev/v1alpha1
kind: ScoringPolicy
profile:
  scorers:
    utilization: {weight: 10}
    risk: {weight: 1}
    target-load: {weight: 1}
    hot-node: {weight: 1}
    balance: {weight: 1}
    least-requested: {weight: 0.1}
"""


OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "new-5d4f8c7b9",
    "uid": "00000000-0000-4000-8000-000000000001",
    "controller": True,
}


def review(number: int, milli: int, owners: list[dict[str, Any]]) -> bytes:
    """Return the dry-run review of a Pod that requests so many milli-CPU."""
    return msgspec.json.encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": f"{number:08x}-1111-4000-8000-000000000000",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "operation": "CREATE",
                "namespace": synthetic.NAMESPACE,
                "dryRun": True,
                "object": _created(milli, owners),
            },
        }
    )


def _created(milli: int, owners: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "new-", "labels": {"app": "new"}, "ownerReferences": owners},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/app:1",
                    "resources": {"requests": {"cpu": f"{milli}m", "memory": "256Mi"}},
                }
            ],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            ],
        },
    }


Columns = np.ndarray[Any, np.dtype[np.float64]]
WEIGHTS = (1.0, 0.5, 0.25, 2.0, 3.0, 0.1)


def bare_pass(columns: Columns) -> Callable[[], object]:
    best = min(121, columns.shape[1] // 2)

    def once() -> object:
        total = np.zeros(columns.shape[1])
        for weight, column in zip(WEIGHTS, columns, strict=True):
            total += weight * column
        return np.argpartition(total, -best)[-best:]

    return once


def bare_pass_in_place(columns: Columns) -> Callable[[], object]:
    total, scratch = np.zeros((2, columns.shape[1]))
    best = min(121, columns.shape[1] // 2)

    def once() -> object:
        total[:] = 0.0
        for weight, column in zip(WEIGHTS, columns, strict=True):
            np.multiply(column, weight, out=scratch)
            np.add(total, scratch, out=total)
        return np.argpartition(total, -best)[-best:]

    return once


def timed(call: Callable[[], object], times: int) -> float:
    """Return the CPU seconds of one call, the mean of `times`."""
    before = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - before) / times


def deciding(cluster: Cluster, current: policy.Policy, bodies: list[bytes]) -> Callable[[], None]:
    """Return what decides for the Pods of `bodies` in turn, a millisecond apart."""
    turns = enumerate(itertools.cycle(bodies))

    def decide() -> None:
        count, body = next(turns)
        answer = respond(
            body, cluster, current, Clock(synthetic.READ_AT + count / 1000, "2026-01-01T00:00:00Z")
        )
        assert answer.outcome is Outcome.STEERED, (answer.outcome, answer.reason, answer.detail)

    return decide


def one_size(nodes: int, current: policy.Policy) -> dict[str, float]:
    pods = min(PODS_A_NODE * nodes, MOST_PODS)
    cluster = synthetic.cluster(nodes, pods)
    columns = np.random.default_rng(1).random((6, nodes))
    first = [review(number, 100 + number % 7, []) for number in range(64)]
    later = [review(number, 100, [OWNER]) for number in range(64)]
    calls = {
        "first": deciding(cluster, current, first),
        "later": deciding(cluster, current, later),
        "bare": bare_pass(columns),
        "in_place": bare_pass_in_place(columns),
    }
    times = max(20, 200_000 // nodes)
    gc.collect()
    gc.freeze()
    # The first round warms up: the deal is made in it.
    rounds = [
        {
            name: timed(call, times if name in ("bare", "in_place") else DECISIONS)
            for name, call in calls.items()
        }
        for _ in range(ROUNDS + 1)
    ][1:]
    gc.unfreeze()
    found: dict[str, float] = {"pods": pods}
    for name in calls:
        found[f"{name}_us"] = round(median(each[name] for each in rounds) * 1e6, 1)
    for name in ("first", "later"):
        found[f"{name}_ratio"] = round(median(each[name] / each["bare"] for each in rounds), 2)
    return found


def measured() -> dict[str, Any]:
    current = policy.load(SIX_SCORERS)
    sizes = {str(nodes): one_size(nodes, current) for nodes in SIZES}
    first, last = sizes[str(SIZES[1])], sizes[str(SIZES[-1])]
    return {
        "scorers": sorted(entry.name for entry in current.profile.scorers),
        "nodes": sizes,
        "growth_exponent": round(
            math.log(last["first_us"] / first["first_us"]) / math.log(SIZES[-1] / SIZES[1]), 2
        ),
    }


if __name__ == "__main__":
    print(json.dumps(measured(), indent=2))
