"""Two drafters, two spans of time or two targets side by side.

Whether two acceptance rates are *the same* is not answered by a difference that happens to be
insignificant, but by an equivalence test: two one-sided tests against ± a margin (TOST).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from monitor.model import Estimate

MARGIN = 0.03
"""Rates that differ by less are the same drafter for all that matters."""
LEVEL = 0.05
LEAST_REQUESTS = 300
"""Requests on each side from which the equivalence test can succeed at all."""
_EQUALLY_BAD = 0.25
"""Acceptance below which two different drafters are hardly bad by chance alike."""
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison."""

    accepted: float
    draft_tokens: float
    design_effect: float = 1.0

    @property
    def rate(self) -> float:
        """Acceptance rate."""
        return self.accepted / self.draft_tokens

    @property
    def variance(self) -> float:
        """Variance of the rate, with the design effect."""
        return self.design_effect * self.rate * (1.0 - self.rate) / self.draft_tokens


@dataclass(frozen=True, slots=True)
class Difference:
    """Acceptance rate of the second side less that of the first."""

    estimate: Estimate
    """With its 90 % interval, which is the one the equivalence test looks at."""
    p_equivalent: float
    """Chance of such figures if the rates differed by the margin; small: they are the same."""
    equivalent: bool
    p_different: float
    different: bool


def difference(first: Side, second: Side, margin: float = MARGIN) -> Difference:
    """Tests both whether the rates differ and whether they are the same within ``margin``."""
    delta = second.rate - first.rate
    error = max(sqrt(first.variance + second.variance), 1e-12)
    p_above = 1.0 - _NORMAL.cdf((delta + margin) / error)
    p_below = _NORMAL.cdf((delta - margin) / error)
    p_equivalent = max(p_above, p_below)
    p_different = 2.0 * (1.0 - _NORMAL.cdf(abs(delta) / error))
    half = _NORMAL.inv_cdf(1.0 - LEVEL) * error
    return Difference(
        Estimate(delta, delta - half, delta + half),
        p_equivalent,
        p_equivalent < LEVEL,
        p_different,
        p_different < LEVEL,
    )


def suspects_integration(first: Side, second: Side, found: Difference) -> bool:
    """Whether two different drafters are equally bad, so that the engine is to blame.

    The story behind it: a self-trained and the published drafter both accepted 15 %, because
    the server fed them the wrong hidden states.
    """
    return found.equivalent and max(first.rate, second.rate) < _EQUALLY_BAD
