"""The true totals behind the counters of vLLM's V0 engine (0.5.5–0.9.2).

V0 adds its *cumulative* totals to the Prometheus counters at every update (about each 5 s
under load), so the counters grow quadratically: log totals 2, 1864, 3487 appear as 2, 1866,
5353. Over exactly one update the difference of two pages is the true total at that moment.
Two signs prove that it was exactly one: the gauge ``draft_acceptance_rate`` is accepted /
draft tokens of that total, and ``generation_tokens_total``, which counts verification steps
here, is not below the drafts. (The gauge alone proves nothing where the rate never changes,
as with a dead drafter.)
"""

from __future__ import annotations

from typing import NamedTuple

from monitor.engines.dialect import Figures
from monitor.model import Reading, Speculation

_SAME = 1e-9
"""How exactly the ratio of two counter differences must meet the gauge."""
_UNTRUE = (
    "output_tokens",
    "decode_tokens",
    "draft_tokens",
    "accepted_tokens",
)
"""Counters that V0 gets wrong while it speculates."""
_TIED = ("decode_seconds", "decode_steps")
"""Counters that mean nothing without those above."""


class RawTotals(NamedTuple):
    """The three quadratic counters of one page."""

    accepted: float
    draft_tokens: float
    emitted: float


def is_v0(figures: Figures) -> bool:
    """Whether these figures come from a V0 engine that speculates."""
    return figures.shows("emitted") or figures.shows("v0_efficiency")


def raw_totals(figures: Figures) -> RawTotals | None:
    """The counters of a V0 page, or None where one of them is missing."""
    values = figures.values
    if "emitted" not in values or "draft_tokens" not in values or "accepted" not in values:
        return None
    return RawTotals(values["accepted"], values["draft_tokens"], values["emitted"])


def correct(reading: Reading, figures: Figures, before: RawTotals | None) -> bool:
    """Puts true totals into ``reading``, or takes the speculative figures out of it.

    V0 accepts per token, not per prefix, so its own accepted count can exceed what was
    emitted. Emitted tokens include the bonus token: accepted = emitted − drafts. The number
    of drafts follows from efficiency = emitted / (drafts · (k + 1)). Generated tokens are
    counted once per step here and are dropped too. Returns whether the totals are known.
    """
    for name in _UNTRUE:
        reading.counters.pop(name, None)
    reading.speculation = Speculation.CONFIGURED
    total = _true_total(figures, before)
    if total is not None:
        size, total_drafts = total
        reading.draft_size = size
        reading.counters.update(total_drafts)
        return True
    for name in _TIED:
        reading.counters.pop(name, None)
    return False


def _true_total(
    figures: Figures, before: RawTotals | None
) -> tuple[float, dict[str, float]] | None:
    """Draft size and true counters, where exactly one update lies between the pages."""
    values, now = figures.values, raw_totals(figures)
    if now is None or "v0_rate" not in values:
        return None
    if before is None or now.draft_tokens < before.draft_tokens:
        before = RawTotals(0.0, 0.0, 0.0)
    total = RawTotals(*(a - b for a, b in zip(now, before, strict=True)))
    size = _draft_size(total, values.get("v0_efficiency", 0.0))
    if size is None or abs(total.accepted / total.draft_tokens - values["v0_rate"]) > _SAME:
        return None
    drafts = total.draft_tokens / size
    if drafts > values.get("generation", drafts):
        return None
    return size, {
        "output_tokens": total.emitted,
        "decode_tokens": total.emitted,
        "drafts": drafts,
        "draft_tokens": total.draft_tokens,
        "accepted_tokens": total.emitted - drafts,
    }


def _draft_size(total: RawTotals, efficiency: float) -> float | None:
    """k from k/(k + 1) = draft tokens · efficiency / emitted tokens, if that is a whole k."""
    if total.draft_tokens <= 0.0 or total.emitted <= 0.0:
        return None
    share = total.draft_tokens * efficiency / total.emitted
    if not 0.0 < share < 1.0:
        return None
    size = share / (1.0 - share)
    whole = float(round(size))
    return whole if whole >= 1.0 and abs(size - whole) < 0.05 * whole else None
