"""What a Pod declares, and what a new workload is expected to use of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import GIB, MIB, Json, decode_pod, make_container, make_pod
from webhook import kube, policy
from webhook.expectation.estimate import Estimator, Shares
from webhook.quantity import QuantityError

# Koordinator and Volcano, by the ids of the cases that their own tests became. Request and limit are in
# milli-CPU or bytes; Koordinator's factor is both shares, Volcano's risk factor multiplies both.
# github.com/koordinator-sh/koordinator@a7a1b76b, pkg/scheduler/plugins/loadaware/estimator/
#   default_estimator_test.go, TestDefaultEstimatorEstimatePod
# github.com/volcano-sh/volcano@ed72c7c8, pkg/scheduler/plugins/usage/estimator_test.go,
#   TestEstimatePodResource
PEERS: dict[str, tuple[float, float, int, int | None, float | None]] = {
    "koord-est-01 cpu: nothing is declared": (0.85, 0.85, 0, None, None),
    "koord-est-01 memory": (0.70, 0.70, 0, None, None),
    "koord-est-02 cpu": (0.85, 0.85, 4000, 4000, 3400),
    "koord-est-02 memory": (0.70, 0.70, 8 * GIB, 8 * GIB, 6012954214),
    "koord-est-03 cpu: 4000 x 0.85 + 4000 x 0.85": (0.85, 0.85, 4000, 8000, 6800),
    "koord-est-04 cpu: 4400, capped": (1.10, 1.10, 4000, 4000, 4000),
    "koord-est-05 memory: capped": (1.10, 1.10, 8 * GIB, 8 * GIB, 8589934592),
    "koord-est-07 cpu: a request alone": (0.80, 0.80, 4000, None, 3200),
    "koord-est-07 memory": (0.80, 0.80, 8 * GIB, None, 6871947674),
    "volcano-est-02": (0.0, 0.0, 500, 2000, 0),
    "volcano-est-03: 500 + 1500": (1.0, 1.0, 500, 2000, 2000),
    "volcano-est-05: 500 x 1.2 is the limit": (1.2, 0.0, 500, 600, 600),
    "volcano-est-06: no limit, so no more than the request": (1.2, 1.2, 500, None, 500),
    "ours: the request": (1.0, 0.0, 500, 2000, 500),
    "ours: half of the room above it": (1.0, 0.5, 500, 2000, 1250),
}


@pytest.mark.parametrize(
    ("request_share", "burst_share", "request_", "limit", "want"), PEERS.values(), ids=PEERS
)
def test_shares(
    request_share: float, burst_share: float, request_: int, limit: int | None, want: float | None
) -> None:
    found = Shares(250.0, request_share, burst_share).of(request_, limit)

    assert found == want if found is None else round(found) == want


def test_a_batch_pod_by_koordinators_resources() -> None:
    """koord-est-06: requests and limits of 4000 batch-cpu, in milli-CPU, and 8 GiB of batch-memory."""
    amounts = {"kubernetes.io/batch-cpu": "4000", "kubernetes.io/batch-memory": "8Gi"}
    resources = {"requests": amounts, "limits": amounts}
    pod = decode_pod(make_pod(containers=[make_container(resources=resources)]))
    estimator = Estimator(Shares(250.0, 0.85, 0.85), Shares(200.0 * MIB, 0.7, 0.7))

    cpu, memory = estimator.estimate(pod.spec)

    assert (cpu, memory and round(memory)) == (3400, 6012954214)


def one(requests: Json | None = None, limits: Json | None = None, **fields: Any) -> Json:
    resources = {"requests": requests, "limits": limits}
    return make_container(resources={k: v for k, v in resources.items() if v is not None}, **fields)


def spec(*containers: Json, **fields: Any) -> Json:
    return make_pod(containers=list(containers), **fields)


# A Pod; request and limit in milli-CPU.
DECLARED: dict[str, tuple[Json, tuple[int, int | None]]] = {
    "nothing": (spec(one()), (0, None)),
    "a request": (spec(one({"cpu": "500m"})), (500, None)),
    "a limit stands for the request": (spec(one(None, {"cpu": 2})), (2000, 2000)),
    "Koordinator's batch resources, in milli-CPU": (
        spec(one({"kubernetes.io/batch-cpu": "2k"}, {"kubernetes.io/batch-cpu": "4k"})),
        (2000, 4000),
    ),
    "two containers": (
        spec(one({"cpu": "500m"}, {"cpu": "1"}), one({"cpu": "1"}, {"cpu": "3"})),
        (1500, 4000),
    ),
    "one of them without a limit": (spec(one({"cpu": "1"}, {"cpu": "2"}), one({"cpu": "1"})), (2000, None)),
    "a sidecar runs along, an init container does not": (
        spec(
            one({"cpu": "1"}, {"cpu": "1"}),
            initContainers=[
                one({"cpu": "8"}),
                one({"cpu": "100m"}, {"cpu": "200m"}, restartPolicy="Always"),
            ],
        ),
        (1100, 1200),
    ),
    "overhead comes on top": (
        spec(one({"cpu": "1"}, {"cpu": "2"}), overhead={"cpu": "250m"}),
        (1250, 2250),
    ),
    "the Pod's own requests and limits": (
        spec(one({"cpu": "1"}), resources={"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}),
        (2000, 4000),
    ),
    "the Pod's own limit over its containers' requests": (
        spec(one({"cpu": "1"}), resources={"limits": {"cpu": "4"}}),
        (1000, 4000),
    ),
    "the Pod's own limit alone": (spec(one(), resources={"limits": {"cpu": "4"}}), (4000, 4000)),
    "no containers at all": (spec(), (0, None)),
}


@pytest.mark.parametrize(("pod", "want"), DECLARED.values(), ids=DECLARED)
def test_what_is_declared(pod: Json, want: tuple[int, int | None]) -> None:
    assert kube.read_declared(decode_pod(pod).spec, kube.CPU) == want


@pytest.mark.parametrize("amounts", [{"cpu": "much"}, {"cpu": "-1"}])
def test_a_bad_limit_is_an_error(amounts: Json) -> None:
    with pytest.raises(QuantityError):
        kube.read_declared(decode_pod(spec(one(None, amounts))).spec, kube.CPU)


AMOUNT = st.integers(0, 2**50)


@given(request=AMOUNT, limit=st.none() | AMOUNT, share=st.floats(0, 10), burst=st.floats(0, 10))
def test_an_estimate_is_within_what_is_declared(
    request: int, limit: int | None, share: float, burst: float
) -> None:
    found = Shares(250.0, share, burst).of(request, limit)

    assert found is None or 0 <= found <= max(request, limit or 0)


HEAD = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\nexpectedUsage: "


def test_the_policy_says_the_shares() -> None:
    said = {
        "learn": False,
        "cpu": {"requestShare": 0.85, "burstShare": 0.5, "default": "100m"},
        "memory": {"default": "64Mi"},
    }

    found = policy.load(HEAD + json.dumps(said)).estimator

    assert found == Estimator(Shares(100.0, 0.85, 0.5), Shares(64.0 * MIB), learn=False)
    assert policy.default().estimator == Estimator()


BAD_POLICIES = {
    '{"cpu": {"requestShare": -1}}': (
        "expectedUsage.cpu.requestShare: expected greater than or equal to 0, found -1"
    ),
    '{"cpu": {"requestShare": .nan}}': "expectedUsage.cpu.requestShare: expected a finite number, found nan",
    '{"memory": {"default": "lots"}}': (
        "expectedUsage.memory.default: expected a quantity of zero or more, found 'lots'"
    ),
    '{"cpu": {"default": "-1"}}': (
        "expectedUsage.cpu.default: expected a quantity of zero or more, found '-1'"
    ),
    '{"gpu": {}}': "expectedUsage.gpu: unknown key",
}


@pytest.mark.parametrize(("text", "want"), BAD_POLICIES.items(), ids=BAD_POLICIES)
def test_a_bad_policy_names_the_field(text: str, want: str) -> None:
    with pytest.raises(policy.ConfigError) as caught:
        policy.load(HEAD + text)

    assert [str(problem) for problem in caught.value.problems] == [want]
