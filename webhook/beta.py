"""The beta distribution over arrays, which numpy lacks. No I/O here."""

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_TINY = 1e-300
_CLOSE = 1e-8
_MAX_TERMS = 300


def max_variance(mean: FloatArray) -> FloatArray:
    """Return the variance that no distribution on 0 to 1 of that mean can exceed; 0 outside."""
    return np.where((mean > 0.0) & (mean < 1.0), mean * (1.0 - mean), 0.0)


def cdf(alpha: FloatArray, beta: FloatArray, x: FloatArray) -> FloatArray:
    """Return P(X <= x) of Beta(alpha, beta), the regularized incomplete beta function, to about 1e-8.

    NaN where alpha or beta is not above 0. By the continued fraction of the Digital Library of
    Mathematical Functions, 8.17.22, evaluated as Lentz does.
    """
    valid = (alpha > 0.0) & (beta > 0.0)
    a, b = np.where(valid, alpha, 1.0), np.where(valid, beta, 1.0)
    inner = np.clip(x, 0.0, 1.0)
    # The fraction converges fast below the mean; above it, that of the mirrored distribution does.
    mirrored = inner > (a + 1.0) / (a + b + 2.0)
    p, q = np.where(mirrored, b, a), np.where(mirrored, a, b)
    y = np.where(mirrored, 1.0 - inner, inner)
    with np.errstate(divide="ignore"):
        front = np.exp(p * np.log(y) + q * np.log1p(-y) + _log_gamma(a + b) - _log_gamma(a) - _log_gamma(b))
    tail = np.where(y > 0.0, front * _fraction(p, q, y) / p, 0.0)
    result = np.where(mirrored, 1.0 - tail, tail)
    return np.where(valid, np.clip(result, 0.0, 1.0), np.nan)


def _fraction(p: FloatArray, q: FloatArray, y: FloatArray) -> FloatArray:
    c = np.ones_like(y)
    d = 1.0 / _away(1.0 - (p + q) * y / (p + 1.0))
    result = d.copy()
    for m in range(1, _MAX_TERMS):
        even = m * (q - m) * y / ((p + 2 * m - 1.0) * (p + 2 * m))
        d, c = 1.0 / _away(1.0 + even * d), _away(1.0 + even / c)
        result *= d * c
        odd = -(p + m) * (p + q + m) * y / ((p + 2 * m) * (p + 2 * m + 1.0))
        d, c = 1.0 / _away(1.0 + odd * d), _away(1.0 + odd / c)
        step = d * c
        result *= step
        if np.all(np.abs(step - 1.0) < _CLOSE):
            break
    return result


def _away(values: FloatArray) -> FloatArray:
    """Keep a divisor away from 0."""
    return np.where(np.abs(values) < _TINY, _TINY, values)


def _log_gamma(x: FloatArray) -> FloatArray:
    """Return log Gamma of positive numbers: Stirling's series, eight steps up where it is exact enough."""
    product = np.ones_like(x)
    for step in range(8):
        product = product * (x + step)
    z = x + 8.0
    series = 1.0 / (12.0 * z) - 1.0 / (360.0 * z**3) + 1.0 / (1260.0 * z**5) - 1.0 / (1680.0 * z**7)
    return (z - 0.5) * np.log(z) - z + 0.5 * math.log(2.0 * math.pi) + series - np.log(product)
