"""Intervals that know that the unit of information is the request, not the token.

Tokens of one request succeed or fail together, so a plain binomial interval over tokens
covers 5–18 % of cases instead of 95 % (docs/statistics.md). The number of draft tokens is
therefore divided by a design effect before Wilson's formula is applied.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from statistics import NormalDist

from monitor.model import Estimate

CONFIDENCE = 0.95
STORED_BLOCKS = 20
"""Weight of a stored design effect, in blocks; the degrees of freedom where it stands alone."""
DEFAULT_DESIGN_EFFECT = 100.0
"""Design effect before any history exists, for requests of about 600 draft tokens."""
_NO_SAMPLES = 1e-6
_DRAFT_TOKENS_PER_SAMPLE = 6.0
"""Draft tokens of one request per independent sample, where requests have another length."""


@lru_cache(maxsize=256)
def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t, by the Cornish-Fisher expansion of the normal one.

    Exact for 1 and 2 degrees of freedom; below 3e-3 off at 3 degrees and 1e-5 at 10
    (Abramowitz & Stegun 26.7.5).
    """
    p = 0.5 + confidence / 2.0
    if degrees == 1:
        from math import pi, tan  # noqa: PLC0415

        return tan(pi * (p - 0.5))
    if degrees == 2:  # noqa: PLR2004
        return (2.0 * p - 1.0) * sqrt(2.0 / (4.0 * p * (1.0 - p)))
    z, n = NormalDist().inv_cdf(p), float(degrees)
    z2 = z * z
    return z * (
        1.0
        + (z2 + 1.0) / (4.0 * n)
        + ((5.0 * z2 + 16.0) * z2 + 3.0) / (96.0 * n**2)
        + (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / (384.0 * n**3)
        + ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) / (92160.0 * n**4)
    )


def wilson(rate: float, samples: float, quantile: float) -> tuple[float, float]:
    """Wilson's score interval for a proportion of ``samples`` independent trials."""
    if samples < _NO_SAMPLES:
        return 0.0, 1.0
    z2 = quantile * quantile
    centre = (rate + z2 / (2.0 * samples)) / (1.0 + z2 / samples)
    half = (
        quantile
        * sqrt(max(rate * (1.0 - rate), 0.0) / samples + z2 / (4.0 * samples**2))
        / (1.0 + z2 / samples)
    )
    return max(centre - half, 0.0), min(centre + half, 1.0)


def accepted_variance(drafts: float, positions: tuple[float, ...]) -> float | None:
    """Variance of the accepted tokens of one draft, exact, from the position counters.

    Var(L) = Σ (2i − 1)·p_i − (Σ p_i)² with p_i the share of drafts whose position i was
    accepted; None without positions.
    """
    if drafts <= 0.0 or not positions:
        return None
    first = second = 0.0
    for position, accepted in enumerate(positions):
        share = accepted / drafts
        first += share
        second += (2 * position + 1) * share
    return max(second - first * first, 0.0)


def default_design_effect(draft_tokens: float, requests: float) -> float:
    """The design effect to assume before history exists.

    One request is worth a few independent tokens however long it is, so the effect grows
    with the draft tokens per request; where requests are not known, 100 is assumed.
    """
    if requests <= 0.0:
        return DEFAULT_DESIGN_EFFECT
    return max(draft_tokens / requests / _DRAFT_TOKENS_PER_SAMPLE, 1.0)


def combined_design_effect(
    stored: float, window: float | None, blocks: int, floor: float = 1.0
) -> float:
    """Stored design effect shrunk with the window's own (``blocks`` of them not empty)."""
    if window is None or blocks <= 1:
        return max(stored, floor, 1.0)
    weight = float(blocks - 1)
    mean = (STORED_BLOCKS * stored + weight * window) / (STORED_BLOCKS + weight)
    return max(mean, floor, 1.0)


def acceptance_interval(
    accepted: float, draft_tokens: float, design_effect: float, blocks: int = 1
) -> Estimate:
    """Acceptance rate with Wilson limits at ``draft_tokens / design_effect`` samples."""
    rate = min(accepted / draft_tokens, 1.0)
    quantile = t_quantile(STORED_BLOCKS + blocks - 1)
    low, high = wilson(rate, draft_tokens / design_effect, quantile)
    return Estimate(rate, min(low, rate), max(high, rate))
