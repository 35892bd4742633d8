"""One decision's CPU time beside a bare numpy pass over the same columns, by the size of the cluster.

The pass is six multiply-adds and one argpartition over as many float64 as there are nodes: about the
least that six scorers and the choice of the best nodes can cost. Both are timed in turn, round by round,
in CPU time of this one thread; the ratio is the figure to trust.
"""

import gc
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
from webhook.reasons import Outcome

from . import synthetic

SIZES = (100, 1_000, 5_000, 15_000, 65_000)
PODS_A_NODE, MOST_PODS = 20, 300_000
ROUNDS = 15

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


def review(number: int) -> bytes:
    """Return the review of a Pod of a Deployment; dry-run, so that a round leaves nothing behind."""
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
                "object": _created(number),
            },
        }
    )


def _created(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "new-", "labels": {"app": "new"}},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "name": "main",
                    "image": "example.com/app:1",
                    "resources": {"requests": {"cpu": f"{100 + number % 7}m", "memory": "256Mi"}},
                }
            ],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            ],
        },
    }


def bare_pass(columns: np.ndarray[Any, Any], weights: list[float]) -> Callable[[], object]:
    total = np.zeros(columns.shape[1])
    scratch = np.zeros(columns.shape[1])
    best = min(121, columns.shape[1] // 2)

    def once() -> object:
        total[:] = 0.0
        for column, weight in zip(columns, weights, strict=True):
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


def one_size(nodes: int, current: policy.Policy) -> dict[str, float]:
    pods = min(PODS_A_NODE * nodes, MOST_PODS)
    cluster = synthetic.cluster(nodes, pods)
    bodies = [review(number) for number in range(64)]
    count = 0

    def decide() -> None:
        nonlocal count
        count += 1
        answer = respond(
            bodies[count % len(bodies)],
            cluster,
            current,
            Clock(synthetic.READ_AT + count / 1000, "2026-01-01T00:00:00Z"),
        )
        assert answer.outcome is Outcome.STEERED, (answer.outcome, answer.reason, answer.detail)

    generator = np.random.default_rng(1)
    bare = bare_pass(generator.random((6, nodes)), [1.0, 0.5, 0.25, 2.0, 3.0, 0.1])
    times = max(20, 200_000 // nodes)
    gc.collect()
    gc.freeze()
    ours, theirs = [], []
    for number in range(ROUNDS + 1):
        pair = timed(decide, max(10, times // 10)), timed(bare, times)
        if number:
            ours.append(pair[0])
            theirs.append(pair[1])
    gc.unfreeze()
    return {
        "pods": pods,
        "decision_us": round(median(ours) * 1e6, 1),
        "bare_pass_us": round(median(theirs) * 1e6, 1),
        "ratio": round(median(one / other for one, other in zip(ours, theirs, strict=True)), 2),
    }


def measured() -> dict[str, Any]:
    current = policy.load(SIX_SCORERS)
    sizes = {str(nodes): one_size(nodes, current) for nodes in SIZES}
    first, last = sizes[str(SIZES[1])], sizes[str(SIZES[-1])]
    return {
        "scorers": sorted(entry.name for entry in current.profile.scorers),
        "nodes": sizes,
        "growth_exponent": round(
            math.log(last["decision_us"] / first["decision_us"]) / math.log(SIZES[-1] / SIZES[1]), 2
        ),
    }


if __name__ == "__main__":
    print(json.dumps(measured(), indent=2))
