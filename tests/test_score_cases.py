"""Scores that peers' tests, texts and logs show: which of them hold for us, and which for the peer alone.

`cases/score_cases.jsonl` has the facts, each with its source. Every case holds for the model of the peer in
`lab/peers.py`. A case about good data under sane parameters holds for our scorers, thresholds, freshness and
estimator too, within half a point where the peer rounds; the rest are named with the reason.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builders import GIB, decode_node, make_node
from tests.lab import peers
from tests.views import NOW, Given
from webhook import beta, load
from webhook.expectation.estimate import Shares
from webhook.ledger import Ledger, Load
from webhook.load import View
from webhook.scorers.energy import energy_score
from webhook.scorers.overcommit_risk import limit_risk, load_risk
from webhook.scorers.risk import Risk
from webhook.scorers.target_load import TargetLoad
from webhook.scorers.utilization import Utilization
from webhook.snapshot import Snapshot
from webhook.thresholds import Thresholds

Case = dict[str, Any]
NAN = float("nan")
FILE = Path(__file__).parent / "cases" / "score_cases.jsonl"
CASES: dict[str, Case] = {
    case["id"]: case for case in map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
}

# Held by the peer's model alone.
PEER_ONLY: dict[str, str] = {
    "tlp-04": "no metric is the worst score; ours is neutral, and the node scored by its requests",
    "lvrb-02": "a node without the resource is the worst; ours says nothing, as no share of nothing is known",
    "lvrb-03": "a negative use is an idle node; ours is an invalid reading, no number",
    "lvrb-05": "a negative deviation is a steady node; ours cannot be computed",
    "lvrb-07": "a negative margin is taken as 0; our policy refuses it",
    "lvrb-08": "a negative sensitivity is left out; our policy refuses it",
    "lvrb-11": "no deviation is taken as 0; ours says nothing",
    "musigma-06": "a negative use is an idle node",
    "lroc-05": "a best-effort Pod scores 0 everywhere; ours is neutral",
    "beta-04": "a distribution that is none gives 0; ours is not a number",
    "peaks-02": "costs of 0 score 0, as the worst; ours are equal, and all 100 (peaks-03)",
    "peaks-04": "no metric is the cheapest node",
    "peaks-05": "no metric is the cheapest node",
    "peaks-06": "a node that the Pod overfills is the cheapest; ours is 0",
    "koord-score-01": "an expired metric is the worst score; ours is stale, and requests count",
    "koord-score-03": "no metric is the worst score",
    "volcano-score-04": "an expired metric is the worst score",
    "crane-01": "missing metrics lower the score",
    "crane-02": "missing metrics lower the score",
    "crane-03": "missing metrics lower the score",
    "crane-04": "an expired metric made a score negative",
}


def measured(
    cpu: float,
    memory: float,
    used: tuple[float, float],
    *,
    pod: tuple[float, float] = (0.0, 0.0),
    unseen: tuple[float, float] = (0.0, 0.0),
    age: float = 0.0,
    statistics: Mapping[str, tuple[float, float]] | None = None,
    series: Mapping[str, float] | None = None,
) -> View:
    """Return our view of one node: allocatable, use, the Pod's and unseen Pods' expected use in one unit.

    Statistics and numbers of the user's own are fractions of allocatable.
    """
    nodes = Snapshot()
    nodes.set_node(decode_node(make_node("n1", cpu=f"{cpu:.0f}m", memory=f"{memory:.0f}")))
    if not np.isnan(used).any():
        nodes.set_usage(0, *used, NOW - age)
    Ledger(nodes).assume("unseen", 0, Load(*unseen), NOW)
    for name, value in (series or {}).items():
        nodes.set_series(name, 0, value, NOW)
    view = load.view(nodes, Load(*pod), NOW, 180.0)
    given = {kind: np.reshape(values, (2, 1)) for kind, values in (statistics or {}).items()}
    return Given(**{each.name: getattr(view, each.name) for each in fields(View)}, statistics=given)


# Trimaran


def tlp(case: Case) -> tuple[float, float, float]:
    given, config = case["inputs"], case["config"]
    percent = given["node_cpu_util_percent"]
    size, target = given["node_cpu_capacity_milli"], config["target_utilization_percent"]
    pod, missing = given["incoming_pod_cpu_predicted_milli"], given["missing_pods_cpu_predicted_milli"]
    theirs = peers.target_load_packing([NAN if percent is None else percent], [size], pod, missing, target)
    view = measured(size, 1.0, (size * (percent or 0) / 100, 0.0), pod=(pod, 0.0), unseen=(missing, 0.0))
    ours = TargetLoad(target=target).score(view)
    return float(theirs[0]), float(ours[0]), case["expected"]["score"]


def lvrb(case: Case) -> tuple[float, float, float]:
    given, config = case["inputs"], case["config"]
    margin, sensitivity = config["safe_variance_margin"], config["safe_variance_sensitivity"]
    size, pod = given["capacity"], given["incoming_pod_request"]
    mean, spread = given["used_avg"], given["used_stdev"]
    theirs = peers.load_variation(
        peers.variation_of_one([size], pod, [mean], [spread], margin, sensitivity), np.array([NAN])
    )
    of = size or 1
    view = measured(
        size,
        1.0,
        (mean, 0.0),
        pod=(pod, 0.0),
        statistics={"mean": (mean / of, NAN)},
        series={"spread": spread / of},
    )
    ours = Risk(margin=margin, sensitivity=sensitivity, cpu_deviation_series="spread").score(view)
    return float(theirs[0]), float(ours[0]), case["expected"]["score_rounded"]


def lvrb_of_a_node(case: Case) -> tuple[float, float, float]:
    given = {key: NAN if value is None else value for key, value in case["inputs"].items()}
    cpu, memory = given["node_cpu_allocatable_milli"], given["node_memory_allocatable_mib"]
    pod = given["incoming_pod_cpu_request_milli"], given["incoming_pod_memory_request_mib"]
    mean = given["cpu_avg_percent"] / 100, given["memory_avg_percent"] / 100
    spread = given["cpu_std_percent"] / 100, given["memory_std_percent"] / 100
    theirs = peers.load_variation(
        *(
            peers.variation_of_one([size], of, [share * size], [np.nan_to_num(deviation) * size])
            for size, of, share, deviation in zip((cpu, memory), pod, mean, spread, strict=True)
        )
    )
    view = measured(
        cpu,
        memory,
        (mean[0] * cpu, mean[1] * memory),
        pod=pod,
        statistics={"mean": mean, "deviation": spread},
    )
    return float(theirs[0]), float(Risk().score(view)[0]), case["expected"]["score"]


def musigma(case: Case) -> tuple[Any, Any, Any]:
    given = case["inputs"]
    size, pod, mean, spread = (
        given[key] for key in ("capacity", "incoming_pod_request", "used_avg", "used_stdev")
    )
    mu, sigma = peers.mu_sigma([size], pod, [mean], [spread])
    view = measured(
        size,
        1.0,
        (mean, 0.0),
        pod=(pod, 0.0),
        statistics={"mean": (mean / size, NAN), "deviation": (spread / size, NAN)},
    )
    # Read back from the scores with and without the deviation: 100 x (1 - (mu + sigma) / 2).
    calm, risk = Risk(margin=0.0).score(view)[0], Risk().score(view)[0]
    ours = [2 * (1 - calm / 100), 2 * (calm - risk) / 100]
    return [mu[0], sigma[0]], ours, [case["expected"]["mu"], case["expected"]["sigma"]]


def lroc(case: Case) -> tuple[Any, Any, Any]:
    given, config = case["inputs"], case["config"]
    size = given.get("node_allocatable", given.get("node_cpu_allocatable_milli"))
    request, limit = given["node_request_incl_pod"], given["node_limit_incl_pod"]
    before = given.get("node_request_minus_pod", request - given.get("incoming_pod_cpu_request_milli", 0))
    limit_before = given.get("node_limit_minus_pod", limit)
    used, spread = given["used_avg_percent"], given["used_std_percent"]
    window, weight = config["smoothing_window_size"], config["risk_limit_weight"]
    if case["kind"] == "kep_worked_example":
        window = 1  # its author left the smoothing out: with it the load risk would be 0.335
    total, by_limit, by_load = peers.overcommitment_risk(
        [request], [limit], [before], [limit_before], [size], [used], [spread], window, weight
    )
    ours_limit = limit_risk(*(np.array([float(value)]) for value in (request, limit, size)))
    ours_load = load_risk(
        *(
            np.array([value])
            for value in (used / 100, spread / 100 * window**0.5, before / size, limit_before / size)
        )
    )
    ours = weight * ours_limit[0] + (1 - weight) * ours_load[0]
    want = case["expected"]["total_risk"]
    parts = given if "risk_limit" in given else case["expected"]
    for name, found in (("limit", by_limit), ("load", by_load), ("limit", ours_limit), ("load", ours_load)):
        component = parts.get(f"risk_{name}", parts.get(f"risk_{name}_component"))
        # The worked example rounds to three places.
        assert found[0] == pytest.approx(component, abs=0.001)
    if "score" in case["expected"]:
        assert peers.low_risk_overcommitment(total, 0.0)[0] == case["expected"]["score"]
        assert 100 * (1 - ours) == pytest.approx(case["expected"]["score"], abs=0.5)
    return 100 * total[0], 100 * ours, 100 * want


def lroc_best_effort(case: Case) -> tuple[float, float, float]:
    return (
        float(peers.low_risk_overcommitment([0.2], [0.2], best_effort=True)[0]),
        NAN,
        case["expected"]["score"],
    )


def beta_cdf(case: Case) -> tuple[float, float, float]:
    given = [np.array([float(case["inputs"][key])]) for key in ("alpha", "beta", "x")]
    return float(peers.beta_distribution(*given)[0]), float(beta.cdf(*given)[0]), case["expected"]["cdf"]


def beta_variance(case: Case) -> tuple[float, float, float]:
    found = float(beta.max_variance(np.array([float(case["inputs"]["mean"])]))[0])
    return found, found, case["expected"]["max_variance"]


def peaks(case: Case) -> tuple[Any, Any, Any]:
    costs = np.array(case["inputs"]["raw_cost_per_node"], np.float64)
    every = np.ones(costs.size, np.bool_)
    ours = energy_score(costs, every, every).tolist()
    return peers.peaks(costs).tolist(), ours, case["expected"]["normalized_score_per_node"]


def peaks_cost(case: Case) -> tuple[float, float, float]:
    given, model = case["inputs"], case["config"]["power_model"]
    percent, pod = given.get("node_cpu_util_percent", NAN), given.get("incoming_pod_cpu_limit_milli", 0)
    cost = peers.peaks_cost([percent], [1000.0], pod, model["k1"], model["k2"])
    return float(cost[0]), NAN, case["expected"]["raw_cost"]


# Koordinator


def estimate(pod: Any) -> tuple[float, float]:
    """Return what Koordinator expects of a Pod in these cases, in milli-CPU and bytes."""
    asked = pod if isinstance(pod, dict) else {}
    declared = {
        resource: max(
            [value for key, value in asked.items() if resource in key and isinstance(value, int | float)],
            default=0,
        )
        for resource in ("cpu", "memory")
    }
    return declared["cpu"] * 0.85, declared["memory"] * 0.7 * GIB


def koord_node(given: Case) -> tuple[float, float, tuple[float, float]]:
    """Return allocatable CPU and memory, and use in milli-CPU and bytes, the p95 where there is one."""
    cpu, memory = (
        next((float(given[key]) for key in (f"p95_5m_{name}", f"node_usage_{name}") if key in given), NAN)
        for name in ("cpu_milli", "memory_gib")
    )
    return (
        given["node_cpu_allocatable_milli"],
        given["node_memory_allocatable_gib"] * GIB,
        (cpu, memory * GIB),
    )


def koord_score(case: Case) -> tuple[float, float, float]:
    given = case["inputs"]
    cpu, memory, used = koord_node(given)
    pod = estimate(given["incoming_pod"])
    assigned = [estimate(each) for each in given.get("assigned_pods", ())]
    unseen = sum(each[0] for each in assigned), sum(each[1] for each in assigned)
    theirs = peers.koordinator(
        [used[0] + pod[0] + unseen[0]],
        [used[1] + pod[1] + unseen[1]],
        [cpu],
        [memory],
        age=given.get("node_metric_age_s", 0),
    )
    percentile = "p95_5m_cpu_milli" in given
    view = measured(
        cpu,
        memory,
        (0.0, 0.0) if percentile else used,
        pod=pod,
        unseen=unseen,
        statistics={"percentile": (used[0] / cpu, used[1] / memory)} if percentile else {},
    )
    # The peer's arithmetic is whole: ours of each resource and their mean, rounded down as the peer does.
    args: dict[str, Any] = {"statistic": "p95"} if percentile else {}
    one, other = Utilization(cpu=1, **args).score(view), Utilization(cpu=0, memory=1, **args).score(view)
    whole = float((np.floor(one + 1e-9) + np.floor(other + 1e-9))[0] // 2)
    exact = float(Utilization(cpu=1, memory=1, **args).score(view)[0])
    assert np.isnan(used).any() or 0 <= exact - whole < 1.5
    return float(theirs[0]), whole, case["expected"]["score"]


def koord_filter(case: Case) -> tuple[str, str, str]:
    given, config = case["inputs"], case["config"]
    cpu, memory, used = koord_node(given)
    pod = estimate(given["incoming_pod"])
    aggregated = config.get("aggregated", {})
    prod = "prod_pods_usage_cpu_milli" in given
    thresholds = config["prod_usage_thresholds_percent"] if prod else config.get("usage_thresholds_percent")
    bounds = aggregated.get("usage_thresholds_percent") or thresholds
    assigned = [estimate(each) for key, pods in given.items() if key.startswith("assigned") for each in pods]
    unseen = sum(each[0] for each in assigned), sum(each[1] for each in assigned)
    series: dict[str, float] = {}
    args: dict[str, Any] = {"statistic": "p95"} if aggregated else {}
    if prod:
        # The sum over prod Pods is a number of the user's own to us.
        used = sum(given["prod_pods_usage_cpu_milli"]), sum(given["prod_pods_usage_memory_gib"]) * GIB
        series = {"prod-cpu": used[0] / cpu, "prod-memory": used[1] / memory}
        args = {"cpu_series": "prod-cpu", "memory_series": "prod-memory"}
    theirs, ours = "pass", "pass"
    for resource, size, amount, own, more in zip(
        ("cpu", "memory"), (cpu, memory), used, pod, unseen, strict=True
    ):
        bound = bounds.get(resource, 0)
        if theirs == "pass" and not peers.koordinator_passes([amount + own + more], [size], bound)[0]:
            theirs = f"reject:{resource}"
        view = measured(
            cpu,
            memory,
            (given.get("node_usage_cpu_milli", NAN), given.get("node_usage_memory_gib", NAN) * GIB),
            pod=pod,
            unseen=unseen,
            statistics={"percentile": (used[0] / cpu, used[1] / memory)} if aggregated else {},
            series=series,
        )
        if ours == "pass" and Thresholds(**args, **{resource: bound}).over(view)[0]:
            ours = f"reject:{resource}"
    return theirs, ours, case["expected"]["filter"]


def koord_fresh(case: Case) -> tuple[str, str, str]:
    age, config = case["inputs"]["node_metric_age_s"], case["config"]
    lenient = config["enable_schedule_when_node_metrics_expired"]
    passes = peers.koordinator_fresh([NAN if age is None else age], schedules=lenient)[0]
    # Ours is stale right after its last second, the peer's in it. And a stale reading keeps no node out.
    used = (NAN, NAN) if age is None else (900.0, 900.0)
    view = measured(1000.0, 1000.0, used, age=age + 1e-6 if age else 0.0)
    fresh = bool(view.fresh.all())
    named = not Thresholds(cpu=80, memory=80).over(view)[0]
    ours = "pass" if (named if lenient else fresh) else "reject:expired"
    return "pass" if passes else "reject:expired", ours, case["expected"]["filter"]


def koord_estimate(case: Case) -> tuple[Any, Any, Any]:
    given, config, want = case["inputs"], case["config"], case["expected"]
    cpu = peers.koordinator_estimate(
        given["cpu_request_milli"] or 0,
        given["cpu_limit_milli"] or 0,
        config["scaling_factor_cpu_percent"],
        config["default_cpu_milli"],
    )
    memory = peers.koordinator_estimate(
        (given["memory_request_gib"] or 0) * GIB,
        (given["memory_limit_gib"] or 0) * GIB,
        config["scaling_factor_memory_percent"],
        config["default_memory_bytes"],
    )
    ours = [
        Shares(config[default], factor / 100, factor / 100).of(request or 0, limit) or config[default]
        for default, factor, request, limit in (
            (
                "default_cpu_milli",
                config["scaling_factor_cpu_percent"],
                given["cpu_request_milli"],
                given["cpu_limit_milli"],
            ),
            (
                "default_memory_bytes",
                config["scaling_factor_memory_percent"],
                (given["memory_request_gib"] or 0) * GIB,
                None if given["memory_limit_gib"] is None else given["memory_limit_gib"] * GIB,
            ),
        )
    ]
    return (
        [cpu, memory],
        [round(amount) for amount in ours],
        [want["estimated_cpu_milli"], want["estimated_memory_bytes"]],
    )


# Volcano and Crane


def volcano_score(case: Case) -> tuple[float, float, float]:
    given, config = case["inputs"], case["config"]
    weights = config["cpu_weight"], config["memory_weight"]
    cpu, memory = given["cpu_avg_10m_percent"], given["memory_avg_10m_percent"]
    theirs = peers.volcano(
        peers.volcano_composite([cpu], [given["shadow_cpu_milli"]], [1000.0]),
        peers.volcano_composite([memory], [given["shadow_memory_bytes"]], [1000.0]),
        [given["metric_age_s"]],
        weights,
        config["usage_weight"],
    )
    ours = Utilization(cpu=weights[0], memory=weights[1]).score(
        measured(1000.0, 1000.0, (10.0 * cpu, 10.0 * memory), age=given["metric_age_s"])
    )
    # The peer multiplies by its plugin weight.
    return float(theirs[0]), float(ours[0]) * config["usage_weight"], case["expected"]["score"]


def volcano_estimate(case: Case) -> tuple[Any, Any, Any]:
    given, config = case["inputs"], case["config"]
    found = peers.volcano_estimate(
        given["request"],
        given["limit"],
        config["request_ratio"],
        config["burst_ratio"],
        config["applied_risk_factor"],
    )
    risk = config["applied_risk_factor"]
    shares = Shares(0.0, config["request_ratio"] * risk, config["burst_ratio"] * risk)
    return found, shares.of(given["request"], given["limit"] or None), case["expected"]["estimate"]


def volcano_composite(case: Case) -> tuple[float, float, float]:
    given = case["inputs"]
    percent, shadow, size = given["real_load_percent"], given["shadow_estimate_abs"], given["capacity"]
    theirs = peers.volcano_composite([percent], [shadow], [size])
    view = measured(size, 1.0, (size * percent / 100, 0.0), unseen=(shadow, 0.0))
    # No score falls below 0, so ours clamps there.
    ours = 1.0 - Utilization().score(view)[0] / 100.0
    return float(theirs[0]), float(ours), case["expected"]["composite_utilization"]


def crane(case: Case) -> tuple[Any, Any, Any]:
    given, want = case["inputs"], case["expected"]
    total, weights = (
        given["sum_of_(1-usage)*weight*100_over_available_metrics"],
        given["weight_sum_incl_missing_metrics"],
    )
    found = [
        float(peers.crane(total, weights=weights)),
        float(peers.crane(total, given["hot_value"], weights)),
    ]
    return found, None, [want["score_before_hot_value"], want["final_score"]]


def crane_clamp(case: Case) -> tuple[Any, Any, Any]:
    base = case["expected"]["score_before_fix"] + 10.0  # one hot value costs 10
    return float(peers.crane(2.0 * base, 1.0)), None, case["expected"]["score_after_fix"]


Check = Callable[[Case], tuple[Any, Any, Any]]
CHECKS: dict[str, Check] = {
    "tlp-": tlp,
    "lvrb-1": lvrb_of_a_node,
    "lvrb-0": lvrb,
    "musigma-": musigma,
    "lroc-05": lroc_best_effort,
    "lroc-": lroc,
    "beta-02": beta_cdf,
    "beta-04": beta_cdf,
    "beta-": beta_variance,
    "peaks-02": peaks,
    "peaks-03": peaks,
    "peaks-": peaks_cost,
    "koord-est-": koord_estimate,
    "koord-score-": koord_score,
    "koord-filter-": koord_filter,
    "koord-fresh-": koord_fresh,
    "volcano-score-": volcano_score,
    "volcano-est-": volcano_estimate,
    "volcano-comp-": volcano_composite,
    "crane-04": crane_clamp,
    "crane-": crane,
}


def check(name: str) -> tuple[Any, Any, Any]:
    return next(function for start, function in CHECKS.items() if name.startswith(start))(CASES[name])


def close(found: Any, want: Any, tolerance: float) -> bool:
    if isinstance(want, str):
        return bool(found == want)
    return bool(found == pytest.approx(want, abs=tolerance, rel=1e-6))


@pytest.mark.parametrize("name", CASES)
def test_the_peers_model_holds_its_case(name: str) -> None:
    theirs, _, want = check(name)

    assert close(theirs, want, 0.05 if name == "lroc-06" else 1e-6)


@pytest.mark.parametrize("name", sorted(CASES.keys() - PEER_ONLY.keys()))
def test_ours_hold_a_case_about_good_data(name: str) -> None:
    _, ours, want = check(name)

    # Scores within half a point, where a peer rounds to whole ones; fractions exactly.
    assert close(
        ours, want, 0.5 if isinstance(want, int) and want > 1 else 1e-6 if name != "lroc-06" else 0.05
    )


@pytest.mark.parametrize("name", PEER_ONLY)
def test_ours_do_not_follow_a_peer_on_bad_data(name: str) -> None:
    """Where ours can be asked at all: a number that is worse than none must not come out."""
    _, ours, want = check(name)

    assert ours is None or not close(ours, want, 1e-6)


def test_no_case_is_left_out() -> None:
    assert len(CASES) == 79
    assert CASES.keys() >= PEER_ONLY.keys()
