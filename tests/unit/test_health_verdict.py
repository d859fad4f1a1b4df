"""Every verdict and the figures that lead to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from monitor.health.baseline import Baseline, BaselinePoint, QuickSpeeds
from monitor.health.judging import JudgeSettings
from monitor.health.ledger import Block
from monitor.health.verdict import Facts, Finding, decide, gather, inconclusive, with_engines
from monitor.model import (
    Action,
    Cause,
    Counts,
    EngineVerdict,
    Estimate,
    Speculation,
    Verdict,
    Window,
)

PLAIN = Baseline("plain", (BaselinePoint(1.0, 0.010), BaselinePoint(8.0, 0.020)))
BUSY = Counts(
    seconds=600.0,
    output_tokens=60_000.0,
    requests=200.0,
    drafts=20_000.0,
    draft_tokens=60_000.0,
    accepted_tokens=36_000.0,
    decode_seconds=2400.0,
    decode_tokens=59_800.0,
    decode_steps=21_000.0,
)


def facts(
    counts: Counts = BUSY,
    *,
    speculation: Speculation = Speculation.CONFIGURED,
    settings: JudgeSettings | None = None,
    blocks: list[Block] | None = None,
    matches: bool = True,
    **window: Any,
) -> Facts:
    return gather(
        Window(0.0, 600.0, counts, **window),
        blocks or [],
        speculation,
        settings or JudgeSettings(),
        baseline_matches=matches,
    )


def gained(ratio: float, wobble: float = 0.01) -> tuple[Counts, list[Block]]:
    """A window whose speedup is ``ratio``."""
    blocks = [Block(ratio * 240.0 * (1.0 + s * wobble), 240.0) for s in (-1.0, 1.0) * 5]
    counts = BUSY._replace(
        baseline_seconds=sum(b.baseline_seconds for b in blocks), compared_seconds=2400.0
    )
    return counts, blocks


def judged(ratio: float, wobble: float = 0.01, **counts: Any) -> Finding:
    total, blocks = gained(ratio, wobble)
    return decide(
        facts(total._replace(**counts), blocks=blocks, settings=JudgeSettings(baseline=PLAIN))
    )


CASES: list[tuple[str, Facts, Verdict, Cause | None, Action]] = [
    ("no baseline", facts(), Verdict.UNPROVEN, None, Action.NONE),
    (
        "low acceptance",
        facts(BUSY._replace(accepted_tokens=12_000.0)),
        Verdict.DEGRADED,
        Cause.WEAK_DRAFTER,
        Action.CHECK_CONFIG,
    ),
    (
        "dead drafter",
        facts(BUSY._replace(accepted_tokens=900.0)),
        Verdict.HARMFUL,
        Cause.DRAFTER_DEAD,
        Action.ROLL_BACK,
    ),
    (
        "dead tail",
        facts(
            BUSY._replace(
                draft_tokens=160_000.0,
                accepted_tokens=24_000.0,
                position_drafts=20_000.0,
                positions=(14_000.0, 9_000.0, 600.0, 400.0, 0.0, 0.0, 0.0, 0.0),
            )
        ),
        Verdict.DEGRADED,
        Cause.DEAD_TAIL,
        Action.LOWER_K,
    ),
    (
        "few requests",
        facts(BUSY._replace(requests=3.0)),
        Verdict.INSUFFICIENT,
        None,
        Action.NONE,
    ),
    (
        "few samples",
        facts(
            Counts(
                seconds=600.0,
                output_tokens=90.0,
                drafts=30.0,
                draft_tokens=90.0,
                accepted_tokens=60.0,
                decode_steps=30.0,
            )
        ),
        Verdict.INSUFFICIENT,
        None,
        Action.NONE,
    ),
    ("idle", facts(Counts(seconds=600.0)), Verdict.IDLE, None, Action.NONE),
    (
        "running without a token for a moment",
        facts(Counts(seconds=60.0), running_now=2.0, stalled_seconds=60.0),
        Verdict.INSUFFICIENT,
        None,
        Action.NONE,
    ),
    (
        "stalled",
        facts(Counts(seconds=600.0), running_now=2.0, stalled_seconds=600.0),
        Verdict.STALLED,
        None,
        Action.RESTART,
    ),
    (
        "off",
        facts(
            BUSY._replace(drafts=0.0, draft_tokens=0.0, accepted_tokens=0.0),
            speculation=Speculation.ABSENT,
        ),
        Verdict.OFF,
        None,
        Action.NONE,
    ),
    (
        "configured and never drafting",
        facts(BUSY._replace(drafts=0.0, draft_tokens=0.0, accepted_tokens=0.0)),
        Verdict.NOT_DRAFTING,
        Cause.ENGINE_BYPASS,
        Action.CHECK_CONFIG,
    ),
    (
        "stray drafts under load",
        facts(BUSY._replace(drafts=18.0, draft_tokens=72.0, accepted_tokens=36.0)),
        Verdict.NOT_DRAFTING,
        Cause.ENGINE_BYPASS,
        Action.CHECK_CONFIG,
    ),
    (
        "switched down by the engine",
        facts(speculation=Speculation.DISABLED),
        Verdict.NOT_DRAFTING,
        Cause.ENGINE_BYPASS,
        Action.CHECK_CONFIG,
    ),
    (
        "new names",
        facts(BUSY._replace(drafts=0.0), speculation=Speculation.UNKNOWN_NAMES),
        Verdict.UNRECOGNISED,
        Cause.NAMES_CHANGED,
        Action.FIX_MONITORING,
    ),
    (
        "more accepted than drafted",
        facts(BUSY._replace(accepted_tokens=68_000.0)),
        Verdict.MISREPORTED,
        Cause.CONTRADICTION,
        Action.FIX_MONITORING,
    ),
    (
        "more drafts than decode steps",
        facts(BUSY._replace(decode_steps=9_000.0)),
        Verdict.MISREPORTED,
        Cause.CONTRADICTION,
        Action.FIX_MONITORING,
    ),
    (
        "positions of a few of the drafts only, which are no sample of all",
        facts(BUSY._replace(position_drafts=2_000.0, positions=(900.0, 600.0, 300.0))),
        Verdict.UNPROVEN,
        None,
        Action.NONE,
    ),
    (
        "positions that do not add up",
        facts(BUSY._replace(position_drafts=20_000.0, positions=(9_000.0, 6_000.0, 3_000.0))),
        Verdict.MISREPORTED,
        Cause.CONTRADICTION,
        Action.FIX_MONITORING,
    ),
    (
        "workers in turns",
        facts(alternating=True),
        Verdict.MISREPORTED,
        Cause.MIXED_WORKERS,
        Action.FIX_MONITORING,
    ),
    (
        "warming up",
        facts(BUSY._replace(accepted_tokens=900.0), warming_up=True),
        Verdict.INSUFFICIENT,
        Cause.WARMING_UP,
        Action.NONE,
    ),
    (
        "almost everything accepted",
        facts(BUSY._replace(accepted_tokens=59_000.0)),
        Verdict.UNPROVEN,
        Cause.SUSPICIOUS_OUTPUT,
        Action.CHECK_OUTPUT,
    ),
    (
        "two stopwatch figures",
        facts(settings=JudgeSettings(speeds=QuickSpeeds(54.6, 82.5))),
        Verdict.HARMFUL,
        Cause.STEP_COST,
        Action.ROLL_BACK,
    ),
    (
        "baseline of another server",
        facts(settings=JudgeSettings(baseline=PLAIN), matches=False),
        Verdict.UNPROVEN,
        None,
        Action.NONE,
    ),
]


@pytest.mark.parametrize(
    ("given", "verdict", "cause", "action"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_verdict(given: Facts, verdict: Verdict, cause: Cause | None, action: Action) -> None:
    finding = decide(given)
    assert (finding.verdict, finding.cause, finding.action) == (verdict, cause, action)
    assert finding.sentence.strip()
    assert "nan" not in finding.sentence.lower()


def test_sentence_of_the_classic_loss_names_both_numbers() -> None:
    counts = Counts(drafts=1438.0, draft_tokens=7190.0, accepted_tokens=1119.0)
    given = facts(counts, settings=JudgeSettings(speeds=QuickSpeeds(54.6, 82.5)), lifetime=True)
    finding = decide(given)
    assert finding.verdict is Verdict.HARMFUL
    assert finding.sentence == (
        "speculation costs 34 % of decode speed: 0.66x (0.61–0.72) of plain decoding;"
        " 16 % of draft tokens accepted, it pays from 34 %;"
        " check that drafter and model belong together"
    )


@pytest.mark.parametrize(
    ("ratio", "wobble", "verdict"),
    [
        (1.43, 0.01, Verdict.HEALTHY),
        (0.66, 0.01, Verdict.HARMFUL),
        (1.10, 0.01, Verdict.UNPROVEN),
        (0.92, 0.01, Verdict.UNPROVEN),
        (1.20, 0.30, Verdict.UNPROVEN),
        (0.80, 0.40, Verdict.UNPROVEN),
    ],
)
def test_speedup_decides_only_when_its_whole_interval_does(
    ratio: float, wobble: float, verdict: Verdict
) -> None:
    assert judged(ratio, wobble).verdict is verdict


@pytest.mark.parametrize(
    ("ratio", "previous", "verdict"),
    [
        (1.08, Verdict.HEALTHY, Verdict.HEALTHY),
        (1.08, Verdict.UNPROVEN, Verdict.UNPROVEN),
        (1.02, Verdict.HEALTHY, Verdict.UNPROVEN),
        (0.92, Verdict.HARMFUL, Verdict.HARMFUL),
        (0.92, Verdict.HEALTHY, Verdict.UNPROVEN),
        (0.60, Verdict.HEALTHY, Verdict.HARMFUL),
    ],
)
def test_a_proven_verdict_stands_while_the_figures_point_its_way(
    ratio: float, previous: Verdict, verdict: Verdict
) -> None:
    counts, blocks = gained(ratio)
    settings = JudgeSettings(baseline=PLAIN)
    said = (previous, None, Action.NONE)
    window = Window(0.0, 600.0, counts)
    given = gather(window, blocks, Speculation.CONFIGURED, settings, previous=said)
    assert decide(given).verdict is verdict


def test_neutral_needs_an_interval_inside_the_dead_band() -> None:
    total, blocks = gained(1.0)
    wide = JudgeSettings(baseline=PLAIN, dead_band=0.10)
    assert decide(facts(total, blocks=blocks, settings=wide)).verdict is Verdict.NEUTRAL


def test_a_proven_gain_beats_a_low_acceptance_rate() -> None:
    assert judged(1.6, accepted_tokens=12_000.0).verdict is Verdict.HEALTHY


def test_low_acceptance_explains_a_loss() -> None:
    assert judged(0.6, accepted_tokens=12_000.0).cause is Cause.WEAK_DRAFTER
    assert judged(0.6).cause is Cause.STEP_COST


def test_a_dead_drafter_needs_requests_as_well_as_drafts() -> None:
    dead = BUSY._replace(accepted_tokens=100.0)
    assert decide(facts(dead._replace(requests=4.0))).verdict is Verdict.INSUFFICIENT
    assert decide(facts(dead._replace(requests=0.0))).verdict is Verdict.HARMFUL


def test_a_dead_drafter_is_alive_only_when_it_clearly_is() -> None:
    nearly = BUSY._replace(accepted_tokens=1_200.0)
    dead = (Verdict.HARMFUL, Cause.DRAFTER_DEAD, Action.ROLL_BACK)

    def again(counts: Counts) -> Finding:
        settings = JudgeSettings()
        window = Window(0.0, 600.0, counts)
        return decide(gather(window, [], Speculation.CONFIGURED, settings, previous=dead))

    assert decide(facts(nearly)).cause is not Cause.DRAFTER_DEAD
    assert again(nearly).cause is Cause.DRAFTER_DEAD
    assert again(BUSY._replace(accepted_tokens=3_000.0)).cause is not Cause.DRAFTER_DEAD


def test_a_longer_window_is_asked_only_where_it_can_tell_more() -> None:
    def asks(given: Facts) -> bool:
        return inconclusive(decide(given), given)

    assert asks(facts(Counts(seconds=60.0)))
    assert asks(facts(BUSY._replace(requests=2.0)))
    assert not asks(facts())
    assert not asks(facts(BUSY._replace(accepted_tokens=900.0)))
    near = Counts(
        seconds=60.0,
        output_tokens=3000.0,
        requests=20.0,
        drafts=700.0,
        draft_tokens=2100.0,
        accepted_tokens=850.0,
        decode_steps=700.0,
    )
    assert asks(facts(near))


def engine(label: str, verdict: Verdict, length: float) -> EngineVerdict:
    return EngineVerdict(label, verdict, None, None, Estimate(length))


def test_one_sick_engine_decides_and_is_named() -> None:
    healthy = Finding(Verdict.UNPROVEN, None, Action.NONE, "fine")
    engines = (engine("0", Verdict.UNPROVEN, 2.87), engine("1", Verdict.DEGRADED, 1.24))
    finding = with_engines(healthy, engines)
    assert (finding.verdict, finding.cause) == (Verdict.DEGRADED, Cause.ENGINE_OUTLIER)
    assert finding.sentence == (
        "engine 1, one of 2, is sick: 1.24 tokens per draft, the others 2.87"
    )


def test_all_engines_sick_is_no_outlier() -> None:
    finding = Finding(Verdict.HARMFUL, Cause.DRAFTER_DEAD, Action.ROLL_BACK, "dead")
    engines = (engine("0", Verdict.HARMFUL, 1.0), engine("1", Verdict.HARMFUL, 1.0))
    assert with_engines(finding, engines) is finding


def test_threshold_is_per_service() -> None:
    counts = BUSY._replace(accepted_tokens=30_000.0)
    strict = replace(JudgeSettings(), threshold=0.6)
    assert decide(facts(counts)).verdict is Verdict.UNPROVEN
    assert decide(facts(counts, settings=strict)).verdict is Verdict.DEGRADED
