"""SGLang from 0.4.3 to the newest: gauges of the last batches, few counters, better moments.

Facts: the releases 0.4.0–0.5.23 and captured pages (docs/metrics.md). The gauges keep their
last value for ever, so they count only while tokens flow (see ``health.window``); the rate is
always computed from length and draft size, because its gauge has meant three different things.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from monitor.engines.dialect import Dialect, Figure, Figures, Fold
from monitor.engines.exposition import LARGEST
from monitor.model import SHARED, Engine, Reading, Speculation

_NEAR = 0.02
"""How far from a whole number the derived draft size may lie and still be believed."""
_MOST_DRAFT_TOKENS = 4096.0
_SIZES = ("accept_length", "accept_rate", "spec_draft_tokens")
_VERIFICATION = ("verify_calls", "generation", "requests")
_DRAFTS = ("drafts", "verified_tokens", "gauge_tokens")
_FROM_MOMENTS = (
    *_DRAFTS,
    "decode_seconds",
    "decode_tokens",
    "decode_steps",
    "engine_steps",
    "batched_steps",
)
"""Counters that come from ``/v1/loads`` where it is offered, and else from the page."""
_PATIENCE = 2
"""Pages for which a source may be missing before another one takes its place."""


def compose(label: str, figures: Figures, draft_size: float | None) -> Reading:
    """A reading from SGLang's figures; see ``docs/metrics.md`` for what each one counts.

    ``inter_token_latency_seconds`` is weighted per token here. ``spec_verify_calls_total``
    and ``generation_tokens_total`` move when a request finishes, and each request's first
    token comes out of the prompt pass: what verification gave is generated − requests.
    """
    values = figures.values
    counters = {
        field: values[figure]
        for field, figure in (
            ("requests", "requests"),
            ("prompt_tokens", "prompt"),
            ("decode_seconds", "itl_sum"),
            ("decode_tokens", "itl_count"),
            ("first_token_seconds", "ttft_sum"),
            ("first_tokens", "ttft_count"),
        )
        if figure in values
    }
    counters |= _token_counters(figures)
    if all(figure in values for figure in _VERIFICATION):
        counters["drafts"] = values["verify_calls"]
        counters["verified_tokens"] = values["generation"] - values["requests"]
    length = values.get("accept_length")
    return Reading(
        label=label,
        counters=counters,
        running=values.get("running"),
        waiting=values.get("waiting"),
        accept_length=length
        if length is not None and 1.0 <= length <= _MOST_DRAFT_TOKENS
        else None,
        draft_size=_draft_size(values, draft_size),
        speculation=_speculation(figures),
    )


def _token_counters(figures: Figures) -> dict[str, float]:
    """Output tokens and the weight of the gauges, from one source or from the other.

    ``realtime_tokens_total`` moves with every step, ``generation_tokens_total`` waits for a
    request's end.
    """
    values = figures.values
    if figures.shows("decoded"):
        decoded = values.get("decoded")
        return {} if decoded is None else {"output_tokens": decoded, "gauge_tokens": decoded}
    counters = {}
    if "generation" in values:
        counters["output_tokens"] = values["generation"]
        if "requests" in values:
            counters["gauge_tokens"] = values["generation"] - values["requests"]
    return counters


def _speculation(figures: Figures) -> Speculation:
    """Whether speculation is on; a length of 0.0 means off or not measured yet, never dead."""
    values = figures.values
    length = values.get("accept_length")
    if not figures.shows("accept_length") and not figures.shows("verify_calls"):
        return Speculation.ABSENT
    if length == 0.0 and not values.get("verify_calls"):
        return Speculation.UNMEASURED
    if values.get("spec_steps") == 0.0 and length is not None and length >= 1.0:
        # The number of steps, too, is 0.0 until something was measured.
        return Speculation.DISABLED
    return Speculation.CONFIGURED


def _draft_size(values: dict[str, float], configured: float | None) -> float | None:
    """Draft tokens per draft from the page or from the user."""
    if 2.0 <= values.get("spec_draft_tokens", 0.0) <= _MOST_DRAFT_TOKENS:  # noqa: PLR2004
        return values["spec_draft_tokens"] - 1.0
    return configured


class DraftSizes:
    """The draft size of each rank where the page does not tell it plainly."""

    def __init__(self) -> None:
        self._definition = RateDefinition()
        self._known: dict[str, float] = {}

    def complete(self, reading: Reading, figures: Figures) -> None:
        """Fills in the size from length and rate, or as it was before while these are lost."""
        if reading.draft_size is None and not figures.lost.isdisjoint(_SIZES):
            reading.draft_size = self._known.get(reading.label)
        elif reading.draft_size is None:
            reading.draft_size = self._definition.draft_size(figures)
        if reading.draft_size is not None:
            self._known[reading.label] = reading.draft_size


class RateDefinition:
    """Finds the draft size from length and rate together, where nothing else tells it.

    The rate on the page was ``length / n`` (0.5.4–0.5.10) and is ``(length − 1) / (n − 1)``
    (0.5.11 and later) with n = ``num_draft_tokens``. The right formula gives a whole number
    on every page, the wrong one now and then by chance; so each page votes.
    """

    def __init__(self) -> None:
        self._votes = [0, 0]

    def draft_size(self, figures: Figures) -> float | None:
        """n − 1, or None while both formulas are as likely."""
        length = figures.values.get("accept_length", 0.0)
        rate = figures.values.get("accept_rate", 0.0)
        if length <= 1.0 or rate <= 0.0:
            return None
        sizes = (length / rate - 1.0, (length - 1.0) / rate)
        for index, size in enumerate(sizes):
            possible = 1.0 - _NEAR <= size <= _MOST_DRAFT_TOKENS
            self._votes[index] += possible and abs(size - round(size)) < _NEAR
        old, new = self._votes
        if old == new:
            return None
        return float(round(sizes[0] if old > new else sizes[1])) or None


class Settlement:
    """Decides between the sources of one figure, page by page, for one target."""

    def __init__(self) -> None:
        self._moments: bool | None = None
        self._pages_without = 0

    def recall(self, counters: Collection[str]) -> None:
        """Goes on from the counters that an earlier process read last.

        Only ``/v1/loads`` counts the steps of the engine, so they tell where the others are from.
        """
        if counters:
            self._moments = "engine_steps" in counters

    def settle(
        self, readings: list[Reading], figures: dict[str, Figures], loads: bytes | None
    ) -> str | None:
        """Leaves one source for each figure of ``readings``; returns a note about the others."""
        _share_out(readings)
        if any(map(_has_lost_drafts, figures.values())):
            # All catch up with the next page; until then, one would count for the other.
            _withhold(readings, _DRAFTS)
        problem = None if loads is None else apply_moments(readings, loads)
        if not self._may_use(moments=loads is not None and problem is None):
            _withhold(readings, _FROM_MOMENTS)
        return problem

    def _may_use(self, *, moments: bool) -> bool:
        """Whether figures may come from this source, after those of the page before.

        ``/v1/loads`` may fail for a while, and its counters must never be subtracted from
        those of the page. A counter that was missing twice is begun anew, so the source
        changes only after two pages without any.
        """
        if self._moments is None or moments == self._moments or self._pages_without >= _PATIENCE:
            self._moments, self._pages_without = moments, 0
            return True
        self._pages_without += 1
        return False


def _has_lost_drafts(figures: Figures) -> bool:
    needed = _VERIFICATION if figures.shows("verify_calls") else ()
    return not figures.lost.isdisjoint(("accept_length", "decoded", *needed))


def _withhold(readings: list[Reading], names: tuple[str, ...]) -> None:
    for reading in readings:
        for name in names:
            reading.counters.pop(name, None)


def _share_out(readings: list[Reading]) -> None:
    """Settles what is said both for all ranks together and for each of them.

    Tokens of the ranks win over the server's sum, which only moves when a request finishes.
    Ranks without a token counter of their own get an equal share of the sum as the weight of
    their gauges.
    """
    shared = next((reading for reading in readings if reading.label == SHARED), None)
    ranks = [reading for reading in readings if reading.label != SHARED]
    if shared is None or not ranks:
        return
    tokens = shared.counters.pop("gauge_tokens", None)
    if any("output_tokens" in rank.counters for rank in ranks):
        shared.counters.pop("output_tokens", None)
    elif tokens is not None:
        for rank in ranks:
            rank.counters["gauge_tokens"] = tokens / len(ranks)
    if shared.draft_size is None:
        shared.draft_size = ranks[0].draft_size


def apply_moments(readings: list[Reading], loads: bytes) -> str | None:
    """Replaces the speculative figures by those of ``/v1/loads``, the best source there is.

    ``decode_moments`` are cumulative per data-parallel rank: steps, ΣB, Σt (µs), ΣB², ΣB·t
    (µs) and generated tokens, with B the batch of a step and t its time. One request in one
    step is one draft, so the acceptance length is Δgenerated / ΔΣB. Returns a note when the
    body cannot be used.
    """
    try:
        ranks = json.loads(loads)["loads"]
        moments = {str(rank["dp_rank"]): _moments(rank["decode_moments"]) for rank in ranks}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "/v1/loads: no decode_moments that can be read"
    if len(moments) != len(ranks):
        return "/v1/loads: a rank stands there twice; not used"
    by_label = {reading.label: reading for reading in readings}
    if set(moments) != set(by_label) - {SHARED}:
        return "/v1/loads: its ranks are not those of the page; not used"
    for label, figures in moments.items():
        _take_moments(by_label[label], figures)
    if SHARED in by_label:
        for name in ("drafts", "verified_tokens", "decode_seconds", "decode_tokens"):
            by_label[SHARED].counters.pop(name, None)
    return None


def _moments(raw: Any) -> tuple[float, ...]:
    steps, batch, _, _, batch_time, generated = (float(value) for value in raw)
    possible = 0.0 <= steps <= batch <= generated < LARGEST and 0.0 <= batch_time < LARGEST
    if not possible:
        raise ValueError(raw)
    return steps, batch, batch_time, generated


def _take_moments(reading: Reading, figures: tuple[float, ...]) -> None:
    steps, batch, batch_time, generated = figures
    reading.counters.update(
        engine_steps=steps,
        batched_steps=batch,
        decode_steps=batch,
        decode_seconds=batch_time / 1e6,
        decode_tokens=generated,
    )
    if reading.speculation is Speculation.CONFIGURED:
        reading.counters.update(drafts=batch, verified_tokens=generated)
    else:
        reading.counters.pop("drafts", None)
        reading.counters.pop("verified_tokens", None)


SGLANG = Dialect(
    engine=Engine.SGLANG,
    prefix=rb"sglang[:_]",
    compose=compose,
    vital=frozenset({"accept_length", "decoded", *_VERIFICATION}),
    engine_label="dp_rank",
    # A tensor- or pipeline-parallel rank exports a copy of the same figures.
    rank_labels=("pp_rank", "tp_rank"),
    harmless=frozenset({"spec_cap_length", "spec_block_accept_length"}),
    figures={
        "generation": Figure(("generation_tokens_total",)),
        "decoded": Figure(("realtime_tokens_total",), where=("mode", "decode")),
        "prompt": Figure(("prompt_tokens_total",)),
        "requests": Figure(("num_requests_total",)),
        "verify_calls": Figure(("spec_verify_calls_total",)),
        "accept_length": Figure(("spec_accept_length",), fold=Fold.MEAN),
        "accept_rate": Figure(("spec_accept_rate",), fold=Fold.MEAN),
        "spec_steps": Figure(("spec_num_steps",), fold=Fold.MEAN),
        "spec_draft_tokens": Figure(("spec_num_draft_tokens",), fold=Fold.MEAN),
        "itl_sum": Figure(
            ("inter_token_latency_seconds_sum", "time_per_output_token_seconds_sum")
        ),
        "itl_count": Figure(
            ("inter_token_latency_seconds_count", "time_per_output_token_seconds_count")
        ),
        "ttft_sum": Figure(("time_to_first_token_seconds_sum",)),
        "ttft_count": Figure(("time_to_first_token_seconds_count",)),
        "running": Figure(("num_running_reqs",)),
        "waiting": Figure(("num_queue_reqs", "num_waiting_reqs")),
    },
)
