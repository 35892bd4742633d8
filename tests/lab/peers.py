"""The score models of peers, over columns of nodes, with their defects: baselines, never our own scores.

Use is in percent or as a fraction as each peer has it, NaN where there is no metric; rounding is theirs.
Formulas from the sources that `tests/cases/score_cases.jsonl` names.
"""

import numpy as np
import numpy.typing as npt

from webhook import beta

FloatArray = npt.NDArray[np.float64]
Column = npt.ArrayLike


def _column(values: Column) -> FloatArray:
    return np.asarray(values, np.float64)


def _round(values: FloatArray) -> FloatArray:
    """Round as Go's math.Round does: half away from zero."""
    return np.copysign(np.floor(np.abs(values) + 0.5), values)


# Trimaran, of kubernetes-sigs/scheduler-plugins


def target_load_packing(
    percent: Column, capacity: Column, pod: float, missing: Column = 0.0, target: float = 40.0
) -> FloatArray:
    """TargetLoadPacking on CPU; 0, the worst, without a metric. `missing`: Pods of the last 60 s."""
    used, size = _column(percent), _column(capacity)
    u = 100.0 * (used / 100.0 * size + pod + _column(missing)) / size
    below = (100.0 - target) * u / target + target
    above = target * (100.0 - u) / (100.0 - target)
    scores = np.where(u <= target, _round(below), np.where(u <= 100.0, _round(above), 0.0))
    return np.where(np.isnan(used), 0.0, scores)


def mu_sigma(capacity: Column, pod: float, mean: Column, deviation: Column) -> tuple[FloatArray, FloatArray]:
    """GetMuSigma: fractions within 0 and 1; both 0 without capacity."""
    size = _column(capacity)
    divisor = np.where(size > 0.0, size, 1.0)
    mu = np.clip((_column(mean) + pod) / divisor, 0.0, 1.0)
    sigma = np.clip(_column(deviation) / divisor, 0.0, 1.0)
    return np.where(size > 0.0, mu, 0.0), np.where(size > 0.0, sigma, 0.0)


def variation_of_one(
    capacity: Column,
    pod: float,
    mean: Column,
    deviation: Column,
    margin: float = 1.0,
    sensitivity: float = 1.0,
) -> FloatArray:
    """LoadVariationRiskBalancing's score of one resource; 0 without capacity.

    Bad numbers are clamped into range: a negative use is an idle node.
    """
    size = _column(capacity)
    mean, deviation = np.clip(_column(mean), 0.0, size), np.clip(_column(deviation), 0.0, size)
    mu, sigma = mu_sigma(size, max(pod, 0.0), mean, deviation)
    if sensitivity > 0.0:
        sigma = sigma ** (1.0 / sensitivity)
    elif sensitivity == 0.0:
        sigma = np.where(sigma >= 1.0, 1.0, 0.0)
    sigma = np.clip(margin * sigma, 0.0, 1.0)
    return np.where(size > 0.0, 100.0 * (1.0 - (mu + sigma) / 2.0), 0.0)


def load_variation(cpu: FloatArray, memory: FloatArray) -> FloatArray:
    """LoadVariationRiskBalancing of both: the lower, the known one, 0 where none is (NaN)."""
    return np.nan_to_num(_round(np.fmin(cpu, memory)), nan=0.0)


def beta_distribution(alpha: Column, shape: Column, x: Column) -> FloatArray:
    """P(X <= x); shape parameters out of bounds give 0."""
    return np.nan_to_num(beta.cdf(_column(alpha), _column(shape), _column(x)), nan=0.0)


def overcommitment_risk(
    request: Column,
    limit: Column,
    request_without_pod: Column,
    limit_without_pod: Column,
    capacity: Column,
    percent: Column,
    deviation_percent: Column,
    window: float = 5.0,
    weight: float = 0.5,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """LowRiskOverCommitment's risk of one resource: in total, of the limits, of the load.

    A resource without a metric has no load risk: half of the score is then as of an idle node.
    """
    request, limit, size = _column(request), _column(limit), _column(capacity)
    over = limit > size
    by_limit = np.where(over, (limit - size) / np.where(over, limit - request, 1.0), 0.0)
    mu, sigma = np.clip(_column(percent) / 100.0, 0.0, 1.0), _column(deviation_percent) / 100.0
    most = 0.99 * beta.max_variance(mu)
    sigma = np.minimum(np.clip(sigma, 0.0, 1.0) * np.sqrt(window), np.sqrt(most))
    fits = sigma > 0.0
    spread = np.where(fits, mu * (1.0 - mu) / np.where(fits, sigma, 1.0) ** 2 - 1.0, 1.0)
    allotted = np.clip(_column(request_without_pod) / size, 0.0, 1.0)
    chance = np.where(
        fits,
        beta_distribution(mu * spread, (1.0 - mu) * spread, allotted),
        np.where((mu == 0.0) | (mu <= allotted), 1.0, 0.0),
    )
    bound = _column(limit_without_pod) / size
    bounded = (bound < 1.0) & (_column(request_without_pod) <= _column(limit_without_pod))
    reached = beta_distribution(mu * spread, (1.0 - mu) * spread, np.clip(bound, 0.0, 1.0))
    usable = bounded & fits & (reached > 0.0)
    chance = np.where(usable, np.clip(chance / np.where(usable, reached, 1.0), 0.0, 1.0), chance)
    chance = np.where(bounded & (bound == 0.0), 1.0, chance)
    by_load = np.where(np.isnan(mu), 0.0, 1.0 - chance)
    return np.clip(weight * by_limit + (1.0 - weight) * by_load, 0.0, 1.0), by_limit, by_load


def low_risk_overcommitment(
    cpu_risk: Column, memory_risk: Column, *, best_effort: bool = False, measured: Column = True
) -> FloatArray:
    """LowRiskOverCommitment's score; 0 without any metric, and on every node for a best-effort Pod."""
    risk = np.maximum(_column(cpu_risk), _column(memory_risk))
    known = np.asarray(measured, np.bool_) & (not best_effort)
    return np.where(known, _round(100.0 * (1.0 - risk)), 0.0)


def peaks_cost(
    percent: Column, capacity: Column, pod: float, k1: Column, k2: Column, scale: float = 1e15
) -> FloatArray:
    """Peaks' raw cost; 0, the cheapest, without a metric and on a node that the Pod overfills."""
    used = _column(percent)
    predicted = used + 100.0 * pod / _column(capacity)
    cost = np.trunc(_column(k1) * (np.exp(_column(k2) * predicted) - np.exp(_column(k2) * used)) * scale)
    return np.where(np.isnan(used) | (predicted > 100.0), 0.0, cost)


def peaks(cost: Column) -> FloatArray:
    """Peaks' normalized score: the cheapest 100, the dearest 0; all 0 where nothing costs anything."""
    raw = _column(cost)
    low, high = raw.min(), raw.max()
    if low == 0.0 and high == 0.0:
        return np.zeros_like(raw)
    score: FloatArray = 100.0 - np.trunc(100.0 * (raw - low) / (high - low) if high != low else raw - low)
    return score


# Crane Dynamic (gocrane/crane-scheduler)

CRANE_WEIGHTS = {
    "cpu_usage_avg_5m": 0.2, "cpu_usage_max_avg_1h": 0.3, "cpu_usage_max_avg_1d": 0.5,
    "mem_usage_avg_5m": 0.2, "mem_usage_max_avg_1h": 0.3, "mem_usage_max_avg_1d": 0.5,
}  # fmt: skip
CRANE_LIMITS = {
    "cpu_usage_avg_5m": 0.65, "cpu_usage_max_avg_1h": 0.75,
    "mem_usage_avg_5m": 0.65, "mem_usage_max_avg_1h": 0.75,
}  # fmt: skip
CRANE_HOT = ((300.0, 5), (60.0, 2))


def crane_sum(usage: dict[str, Column]) -> FloatArray:
    """The weighted sum of (1 - usage) x 100; a missing metric adds nothing."""
    parts = [
        weight * (1.0 - _column(usage[name])) * 100.0
        for name, weight in CRANE_WEIGHTS.items()
        if name in usage
    ]
    total: FloatArray = np.nansum(np.stack(np.broadcast_arrays(*parts)), axis=0)
    return total


def crane(total: Column, hot: Column = 0.0, weights: float = sum(CRANE_WEIGHTS.values())) -> FloatArray:
    """Crane's score of a weighted sum: the weight of missing metrics stays in the divisor."""
    score: FloatArray = np.trunc(_column(total) / weights) - np.trunc(10.0 * _column(hot))
    return np.clip(score, 0.0, 100.0)


def crane_hot(bindings: dict[float, Column]) -> FloatArray:
    """Return the hot value from the bindings within 300 and 60 seconds."""
    total: FloatArray = np.sum([np.floor(_column(bindings[s]) / count) for s, count in CRANE_HOT], axis=0)
    return total


def crane_passes(usage: dict[str, Column]) -> npt.NDArray[np.bool_]:
    """Crane's filter: no usage over its limit; a missing one passes."""
    over = [_column(usage[name]) > limit for name, limit in CRANE_LIMITS.items() if name in usage]
    passes: npt.NDArray[np.bool_] = ~np.any(np.stack(np.broadcast_arrays(*over)), axis=0)
    return passes


# Koordinator LoadAwareScheduling


def koordinator_estimate(request: float, limit: float, factor: float, default: float) -> float:
    """What a Pod is expected to use of a resource: the larger of request and limit, scaled."""
    declared = max(request, limit)
    if declared == 0.0:
        return default
    estimate = float(np.floor(declared * factor / 100.0 + 0.5))
    return min(estimate, limit) if limit else estimate


def koordinator(
    cpu: Column,
    memory: Column,
    cpu_allocatable: Column,
    memory_allocatable: Column,
    weights: tuple[float, float] = (1.0, 1.0),
    dominant: float = 0.0,
    age: Column = 0.0,
    expiration: float = 180.0,
) -> FloatArray:
    """Koordinator's score from use with the Pod, integers all along; 0 without a metric or an expired one."""
    parts = []
    for used, allocatable in ((cpu, cpu_allocatable), (memory, memory_allocatable)):
        size, amount = _column(allocatable), _column(used)
        free = np.floor((size - amount) * 100.0 / np.where(size > 0.0, size, 1.0))
        parts.append(np.where((amount > size) | (size == 0.0), 0.0, free))
    total = weights[0] * parts[0] + weights[1] * parts[1] + dominant * np.minimum(parts[0], parts[1])
    scores = np.floor(total / (sum(weights) + dominant))
    age = _column(age)
    return np.where(np.isnan(scores) | np.isnan(age) | (age >= expiration), 0.0, scores)


def koordinator_passes(used: Column, allocatable: Column, threshold: float) -> npt.NDArray[np.bool_]:
    """Koordinator's filter on one resource: use with the Pod in whole percent; 0 is off, no metric passes."""
    percent = _round(100.0 * _column(used) / _column(allocatable))
    return np.isnan(percent) | (threshold == 0.0) | (percent <= threshold)


def koordinator_fresh(
    age: Column, expiration: float = 180.0, *, filters: bool = True, schedules: bool = False
) -> npt.NDArray[np.bool_]:
    """Koordinator's filter on the age of the metric; NaN for one that was never reported."""
    age = _column(age)
    expired = np.isnan(age) | (age >= expiration)
    return ~expired | (not filters) | schedules


# Volcano usage


def volcano_composite(percent: Column, shadow: Column, capacity: Column) -> FloatArray:
    """The measured use with that of Pods it cannot show yet, as a fraction within 0 and 1."""
    return np.clip(_column(percent) / 100.0 + _column(shadow) / _column(capacity), 0.0, 1.0)


def volcano(
    cpu: Column, memory: Column, age: Column, weights: tuple[float, float] = (1.0, 1.0), weight: float = 5.0
) -> FloatArray:
    """Volcano's score from composite use, without the Pod's own; 0 where the metric is over 5 minutes old.

    A failed query leaves zeros stamped now, so an unreachable Prometheus makes every node idle.
    """
    mean = ((1.0 - _column(cpu)) * weights[0] + (1.0 - _column(memory)) * weights[1]) / sum(weights)
    age = _column(age)
    return np.where(np.isnan(age) | (age > 300.0), 0.0, mean * 100.0 * weight)


def volcano_estimate(
    request: float, limit: float, request_ratio: float = 0.7, burst_ratio: float = 0.0, risk: float = 1.0
) -> float:
    """What a Pod that the metrics do not show is expected to use of a resource."""
    most = max(request, limit)
    return min((request * request_ratio + (most - request) * burst_ratio) * risk, most)
