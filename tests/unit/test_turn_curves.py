"""Which curve a target is compared with, and the live control as one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import pytest
from structlog.testing import capture_logs

from monitor.health.baseline import Baseline, BaselinePoint
from monitor.model import (
    Action,
    Assessment,
    Counts,
    Engine,
    Estimate,
    Identity,
    Increment,
    StoreError,
    Verdict,
)
from monitor.pipeline import Tick
from monitor.settings import JudgeSettings, Role, TargetSettings
from monitor.store.alerts import Incident, IncidentFilter
from monitor.store.baseline_rows import Origin, Provenance, StoredBaseline
from monitor.store.rows import TargetFacts
from monitor.turn.control import NOTHING, Choice, Control
from monitor.turn.curves import Curves

START = 1_790_000_000.0
POINTS = (BaselinePoint(1.0, 0.01), BaselinePoint(64.0, 0.02))
PLAIN = TargetSettings("plain", "chat", "p:1", role=Role.BASELINE)
OTHER = TargetSettings("plain2", "chat", "p:2", role=Role.BASELINE)
SPECULATIVE = TargetSettings("spec", "chat", "s:1")
CONFIGURED = replace(
    SPECULATIVE, judge=JudgeSettings(baseline=Baseline("from the configuration", POINTS))
)
IDENTITY = Identity(Engine.VLLM, "0.32.0", "m")


def stored(name: str = "measured", points: tuple[BaselinePoint, ...] = POINTS) -> StoredBaseline:
    return StoredBaseline(
        id=1,
        service="chat",
        name=name,
        version=1,
        created_at=START,
        points=points,
        identity=IDENTITY,
        provenance=Provenance(Origin.BENCH, "test"),
        reason=None,
        deleted_at=None,
        active=True,
    )


class FakeStore:
    """What a test says is in the database."""

    def __init__(self) -> None:
        self.active: dict[str, StoredBaseline] = {}
        self.history: dict[str, list[Increment]] = {}
        self.happened: list[Incident] = []
        self.error: StoreError | None = None

    @property
    def baselines(self) -> FakeStore:
        return self

    @property
    def alerts(self) -> FakeStore:
        return self

    def incidents(self, _: IncidentFilter, limit: int, service: str | None) -> list[Incident]:
        assert service == "chat"
        return self.happened[:limit]

    def active_of_all(self) -> Mapping[str, StoredBaseline]:
        if self.error is not None:
            raise self.error
        return dict(self.active)

    def samples(self, target: str, start: float, end: float) -> Sequence[Increment]:
        if self.error is not None:
            raise self.error
        return [i for i in self.history.get(target, []) if start < i.end <= end]

    def facts(self, target: str) -> TargetFacts:
        return TargetFacts(target, "chat", "baseline", 15.0, IDENTITY)


def interval(
    number: int,
    *,
    load: float = 4.0,
    tpot: float = 0.01,
    drafts: float = 0.0,
    resets: float = 0.0,
    warmup: bool = False,
    seconds: float = 15.0,
) -> Increment:
    """The ``number``-th of equal intervals; each covers a load by itself."""
    counts = Counts(
        seconds=seconds,
        decode_seconds=load * seconds,
        decode_tokens=load * seconds / tpot,
        drafts=drafts,
        draft_tokens=3.0 * drafts,
        resets=resets,
    )
    end = START + 15.0 * number
    return Increment("0", end - seconds, end, counts, warmup)


def tick(increment: Increment, length: float | None = None) -> Tick:
    answer = Assessment(
        "plain",
        increment.end,
        Verdict.OFF,
        None,
        Action.NONE,
        "",
        IDENTITY,
        acceptance_length=None if length is None else Estimate(length),
    )
    return Tick((increment,), answer, changed=False)


def curves_of(store: FakeStore, *targets: TargetSettings) -> Curves:
    curves = Curves(store)
    curves.refresh()
    curves.configure(targets, START)
    return curves


def control(*targets: TargetSettings) -> Control:
    return Control("chat", targets or (PLAIN,))


def feed(
    live: Control, increments: Iterable[Increment], name: str = "plain", reason: str | None = None
) -> None:
    for increment in increments:
        live.take(name, (increment,), IDENTITY, reason)


def tpot(choice: Choice, load: float = 4.0) -> float:
    assert choice.baseline is not None
    found = choice.baseline.tpot(load)
    assert found is not None
    return found


# -- which one ---------------------------------------------------------------------------------


def test_the_configuration_comes_before_the_store_and_the_store_before_the_control() -> None:
    store = FakeStore()
    store.active["chat"] = stored()
    curves = curves_of(store, PLAIN, SPECULATIVE)
    curves.take(PLAIN, tick(interval(0)))

    def name(target: TargetSettings) -> str:
        baseline = curves.choose(target).baseline
        assert baseline is not None
        return baseline.name

    assert name(CONFIGURED) == "from the configuration"
    assert name(SPECULATIVE) == "measured"
    store.active.clear()
    curves.refresh()
    assert name(SPECULATIVE) == "control of chat"
    assert curves.choose(replace(SPECULATIVE, service="other")) == NOTHING
    assert curves.choose(PLAIN) == NOTHING


def test_a_stored_curve_that_is_the_same_stays_the_same_object() -> None:
    store = FakeStore()
    store.active["chat"] = stored()
    curves = curves_of(store, SPECULATIVE)
    before = curves.choose(SPECULATIVE).baseline
    store.active["chat"] = stored()
    curves.refresh()
    assert curves.choose(SPECULATIVE).baseline is before
    store.active["chat"] = stored("another")
    curves.refresh()
    now = curves.choose(SPECULATIVE).baseline
    assert now is not None
    assert now.name == "another"


def test_while_the_database_is_away_the_known_curves_stay_and_the_log_says_so_once() -> None:
    store = FakeStore()
    store.active["chat"] = stored()
    curves = curves_of(store, SPECULATIVE)
    store.error = StoreError("the database is away")
    with capture_logs() as logs:
        for _ in range(3):
            curves.refresh()
    assert len(logs) == 1
    assert curves.choose(SPECULATIVE).baseline is not None


def test_figures_of_speculative_targets_are_no_control() -> None:
    curves = curves_of(FakeStore(), PLAIN, SPECULATIVE)
    curves.take(SPECULATIVE, tick(interval(0)))
    assert curves.choose(SPECULATIVE).baseline is None


# -- the control -------------------------------------------------------------------------------


def test_it_is_used_as_soon_as_one_load_was_seen_for_long_enough() -> None:
    live = control()
    assert live.choice == NOTHING
    live.take("plain", (interval(0, load=1.0, seconds=15.0),), IDENTITY, None)
    assert live.choice.baseline is None
    assert live.choice.why_not is not None
    assert "long enough" in live.choice.why_not
    live.take("plain", (interval(1, load=1.0, seconds=15.0),), IDENTITY, None)
    assert tpot(live.choice, 1.0) == pytest.approx(0.01)
    assert live.choice.baseline is not None
    assert live.choice.baseline.name == "control of chat"
    assert live.choice.baseline.identity == IDENTITY


def test_it_is_fitted_again_once_a_minute() -> None:
    live = control()
    seen = []
    for number in range(13):
        feed(live, [interval(number)])
        seen.append(live.choice.baseline)
    assert [len([*same]) for _, same in groupby(seen, key=id)] == [4, 4, 4, 1]


def test_it_follows_by_forgetting_a_tenth_an_hour() -> None:
    live = control()
    feed(live, (interval(n, tpot=0.010) for n in range(2400)))
    feed(live, (interval(n, tpot=0.020) for n in range(2400, 4800)))
    # Ten hours each, the older ones ten hours longer ago.
    share = 1.0 / (1.0 + 0.9**10)
    # The curve is a quotient of sums, of time over tokens.
    expected = 1.0 / (share / 0.020 + (1.0 - share) / 0.010)
    assert tpot(live.choice) == pytest.approx(expected, rel=0.01)


def test_warm_up_and_gaps_are_left_out() -> None:
    live = control()
    feed(live, (interval(n, warmup=True) for n in range(10)))
    feed(live, (interval(10 * n, seconds=150.0) for n in range(2, 5)))
    assert live.choice.baseline is None
    feed(live, [interval(60)])
    assert live.choice.baseline is not None


def test_several_plain_servers_make_one_curve() -> None:
    live = control(PLAIN, OTHER)
    feed(live, [interval(0, load=2.0)], "plain")
    feed(live, [interval(9, load=32.0, tpot=0.03)], "plain2")
    assert live.choice.baseline is not None
    assert live.choice.baseline.running_range == (2.0, 32.0)


def test_a_server_of_another_kind_does_not_take_part() -> None:
    live = control(PLAIN, OTHER)
    feed(live, [interval(0)], "plain")
    another = IDENTITY._replace(model="other")
    live.take("plain2", (interval(9, load=32.0),), another, None)
    assert live.choice.baseline is not None
    assert live.choice.baseline.running_range == (4.0, 4.0)
    assert live.choice.baseline.identity.model == "m"


def test_a_plain_server_that_becomes_another_one_begins_anew() -> None:
    live = control()
    feed(live, (interval(n, tpot=0.01) for n in range(100)))
    newer = IDENTITY._replace(engine_version="0.33.0")
    for number in range(100, 110):
        live.take("plain", (interval(number, tpot=0.02),), newer, None)
    assert tpot(live.choice) == pytest.approx(0.02)
    assert live.choice.baseline is not None
    assert live.choice.baseline.identity.engine_version == "0.33.0"


def test_that_more_becomes_known_of_it_changes_nothing() -> None:
    live = control()
    live.take("plain", (interval(0, tpot=0.01),), Identity(Engine.VLLM, None, "m"), None)
    feed(live, (interval(n, tpot=0.02) for n in range(4, 8)))
    assert 0.01 < tpot(live.choice) < 0.02


def test_one_that_drafts_is_refused_with_a_reason_and_what_it_showed_is_forgotten() -> None:
    curves = curves_of(FakeStore(), PLAIN, SPECULATIVE)
    for number in range(8):
        curves.take(PLAIN, tick(interval(number)))
    assert curves.choose(SPECULATIVE).baseline is not None
    with capture_logs() as logs:
        for number in range(8, 12):
            curves.take(PLAIN, tick(interval(number, drafts=50.0), length=1.01))
    assert [(log["target"], log["log_level"]) for log in logs] == [("plain", "warning")]
    baseline, why_not = curves.choose(SPECULATIVE)
    assert baseline is None
    assert why_not is not None
    assert why_not.startswith("no baseline from the plain servers: plain: its drafter is dead")
    note = curves.choose(PLAIN).why_not
    assert note is not None
    assert note.startswith("not used as a baseline: its drafter is dead")
    # That it does not draft just now does not make it plain.
    curves.take(PLAIN, tick(interval(12)))
    assert curves.choose(SPECULATIVE).baseline is None
    curves.take(PLAIN, tick(interval(13, resets=1.0)))
    assert curves.choose(SPECULATIVE).baseline is not None
    assert curves.choose(PLAIN) == NOTHING


def test_one_that_drafts_does_not_spoil_the_others() -> None:
    live = control(PLAIN, OTHER)
    feed(live, [interval(0, load=2.0)], "plain")
    feed(live, [interval(0, load=32.0)], "plain2", "it speculates")
    assert live.choice.baseline is not None
    assert live.choice.baseline.running_range == (2.0, 2.0)


def test_figures_of_a_server_that_is_no_control_any_more_are_passed_over() -> None:
    live = control()
    feed(live, [interval(0)], "gone")
    assert live.choice.baseline is None


# -- over a restart ----------------------------------------------------------------------------


def test_it_is_rebuilt_from_the_store_as_it_was() -> None:
    store = FakeStore()
    history = [interval(-n, tpot=0.01 if n > 1000 else 0.02) for n in range(4000, 0, -1)]
    store.history["plain"] = history
    rebuilt = curves_of(store, PLAIN, SPECULATIVE).choose(SPECULATIVE)
    live = control()
    feed(live, history)
    assert tpot(rebuilt) == pytest.approx(tpot(live.choice), rel=1e-3)
    assert rebuilt.baseline is not None
    assert rebuilt.baseline.identity == IDENTITY


def test_a_refusal_outlives_a_restart_and_ends_with_one_of_the_server() -> None:
    store = FakeStore()
    store.history["plain"] = [
        *(interval(-n) for n in range(200, 100, -1)),
        *(interval(-n, drafts=50.0) for n in range(100, 50, -1)),
        *(interval(-n) for n in range(50, 0, -1)),
    ]
    refused = curves_of(store, PLAIN, SPECULATIVE).choose(SPECULATIVE)
    assert (refused.baseline, refused.why_not) == (
        None,
        "no baseline from the plain servers: plain: it speculated",
    )
    store.history["plain"][150] = interval(-50, resets=1.0, warmup=True)
    assert curves_of(store, PLAIN, SPECULATIVE).choose(SPECULATIVE).baseline is not None


def test_without_its_past_it_begins_anew() -> None:
    store = FakeStore()
    store.error = StoreError("the database is away")
    with capture_logs() as logs:
        curves = curves_of(store, PLAIN, SPECULATIVE)
    assert len(logs) == 2
    assert curves.choose(SPECULATIVE) == NOTHING
    curves.take(PLAIN, tick(interval(0)))
    assert curves.choose(SPECULATIVE).baseline is not None


def test_a_reload_keeps_the_control_unless_its_servers_change() -> None:
    curves = curves_of(FakeStore(), PLAIN, SPECULATIVE)
    curves.take(PLAIN, tick(interval(0)))
    curves.configure([SPECULATIVE, PLAIN], START)
    assert curves.choose(SPECULATIVE).baseline is not None
    curves.configure([SPECULATIVE], START)
    assert curves.choose(SPECULATIVE) == NOTHING


# -- while an alert is open --------------------------------------------------------------------


def test_a_known_control_stays_as_it_is_while_an_alert_about_its_service_is_open() -> None:
    curves = curves_of(FakeStore(), PLAIN, SPECULATIVE)
    for number in range(8):
        curves.take(PLAIN, tick(interval(number, tpot=0.01)))
    before = curves.choose(SPECULATIVE).baseline
    curves.take(SPECULATIVE, tick(interval(8)), alerted=True)
    for number in range(8, 40):
        curves.take(PLAIN, tick(interval(number, tpot=0.02)))
    assert curves.choose(SPECULATIVE).baseline is before
    curves.take(SPECULATIVE, tick(interval(40)), alerted=False)
    for number in range(40, 80):
        curves.take(PLAIN, tick(interval(number, tpot=0.02)))
    assert tpot(curves.choose(SPECULATIVE)) > 0.015


def test_a_first_control_is_begun_while_an_alert_is_open() -> None:
    """Without one, nothing could show that speculation pays and the alert is wrong."""
    curves = curves_of(FakeStore(), PLAIN, SPECULATIVE)
    curves.take(SPECULATIVE, tick(interval(0)), alerted=True)
    for number in range(8):
        curves.take(PLAIN, tick(interval(number)))
    assert curves.choose(SPECULATIVE).baseline is not None


def test_an_alert_about_a_target_that_is_gone_holds_nothing() -> None:
    curves = curves_of(FakeStore(), PLAIN, SPECULATIVE)
    for number in range(8):
        curves.take(PLAIN, tick(interval(number, tpot=0.01)))
    curves.take(SPECULATIVE, tick(interval(8)), alerted=True)
    curves.configure([PLAIN], START)
    for number in range(8, 40):
        curves.take(PLAIN, tick(interval(number, tpot=0.02)))
    assert tpot(curves.choose(SPECULATIVE)) > 0.015


@pytest.mark.parametrize(("rule", "expected"), [("harmful", 0.01), ("baseline_missing", 0.015)])
def test_a_control_is_rebuilt_without_the_times_of_alerts(rule: str, expected: float) -> None:
    store = FakeStore()
    store.history["plain"] = [interval(n - 100, tpot=0.01 if n < 50 else 0.03) for n in range(100)]
    begun = interval(-50).start
    store.happened = [
        Incident("i", rule, "chat", "spec", "critical", "firing", begun, None, begun, 1, "", "")
    ]
    assert tpot(curves_of(store, PLAIN).choose(SPECULATIVE)) == pytest.approx(expected, rel=0.02)
