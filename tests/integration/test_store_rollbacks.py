"""Rollbacks in real databases: stored whole under the right number, told once, kept for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import Engine
from store_rows import NOON

from monitor.alerting.model import Reason, Severity, State
from monitor.alerting.routes import Routing
from monitor.model import LeaseError, StoreError
from monitor.rollback.model import Kind, News, Order, Phase
from monitor.rollback.ports import Record, StepRow
from monitor.rollback.settings import Cure, Mode
from monitor.store.alerts import IncidentFilter
from monitor.store.connect import writing
from monitor.store.holder import this_process
from monitor.store.lease import DAEMON
from monitor.store.repository import Adoption, Repository
from monitor.store.rollbacks import configure, find_plan

PLAN = "chat-7"
PROPOSED = News(
    "chat",
    NOON,
    Kind.PROPOSED,
    Mode.PROPOSE,
    Phase.PROPOSED,
    "speculation costs 34 % of decode speed",
    plan=PLAN,
    cure=Cure.ROLL_BACK,
    pages=True,
    evidence={"windows": [{"speedup": [0.6, 0.7]}], "config": "a1b2"},
)


def record(*news: News, at: float = NOON, **changes: object) -> Record:
    given = {
        "service": "chat",
        "state": f'{{"format":1,"service":"chat","at":{at}}}',
        "phase": news[-1].phase.value if news else Phase.ARMED.value,
        "plan": news[-1].plan if news else None,
        "news": news,
        **changes,
    }
    return Record(**given)  # type: ignore[arg-type]


def then(kind: Kind, phase: Phase, minutes: float, **changes: object) -> News:
    at = NOON + 60.0 * minutes
    plain = replace(PROPOSED, at=at, kind=kind, phase=phase, pages=False, sentence=kind.value)
    return replace(plain, **changes)  # type: ignore[arg-type]


@pytest.fixture
def store(repository: Repository) -> Repository:
    repository.leases.take(DAEMON, this_process(), 600.0)
    repository.adopt(Adoption((), routing=Routing(("pager",))), NOON)
    return repository


def messages(store: Repository) -> list[tuple[Reason, State, Severity]]:
    """What the receiver is sent, in order."""
    told, outbox = [], store.alerts.outbox
    while (claimed := outbox.claim("pager", "me", NOON + 9e5, 60.0)) is not None:
        n = claimed.notification
        assert (n.rule, n.service) == ("rollback", "chat")
        told.append((n.reason, n.state, n.severity))
        outbox.sent(claimed, NOON)
    return told


def test_a_turn_is_stored_as_a_whole(store: Repository) -> None:
    step = StepRow("chat-7-1", PLAN, "shift", 0.1, NOON, "intended", 1)
    store.rollbacks.save(record(PROPOSED, steps=(step,)), fence=1)
    assert store.rollbacks.load("chat") == record(PROPOSED).state
    assert store.rollbacks.load("code") is None
    assert store.rollbacks.steps(PLAN) == [step]
    (decision,) = store.rollbacks.decisions(plan=PLAN)
    assert (decision.kind, decision.mode, decision.cure) == ("proposed", "propose", "roll_back")
    assert decision.evidence == PROPOSED.evidence
    done = replace(step, status="done", attempts=2, detail="seen at 10 %", at=NOON + 5)
    store.rollbacks.save(record(then(Kind.STEP, Phase.HOLDING, 1), steps=(done,)), fence=1)
    assert store.rollbacks.steps(PLAN) == [replace(done, at=NOON)]
    assert store.rollbacks.states()["chat"].version == 2


def test_what_a_former_holder_saves_is_refused_as_a_whole(store: Repository) -> None:
    store.leases.release(DAEMON, 1)
    store.leases.take(DAEMON, this_process(), 600.0)
    with pytest.raises(LeaseError):
        store.rollbacks.save(record(PROPOSED), fence=1)
    assert store.rollbacks.load("chat") is None
    assert not store.rollbacks.decisions()
    assert not messages(store)


def test_saved_again_a_turn_is_no_news(store: Repository) -> None:
    for _ in range(2):
        store.rollbacks.save(record(PROPOSED), fence=1)
    assert len(store.rollbacks.decisions()) == 1
    assert messages(store) == [(Reason.FIRST, State.FIRING, Severity.CRITICAL)]


def test_a_plan_is_one_incident_from_proposal_to_the_end(store: Repository) -> None:
    for news in (
        PROPOSED,
        then(Kind.APPROVED, Phase.CHECKING, 1, who="ann@desk"),
        then(Kind.STEP, Phase.HOLDING, 2),
        then(Kind.DONE, Phase.DONE, 3),
        then(Kind.RESTORED, Phase.ARMED, 4),
    ):
        store.rollbacks.save(record(news), fence=1)
    assert messages(store) == [
        (Reason.FIRST, State.FIRING, Severity.CRITICAL),
        (Reason.SEVERITY, State.FIRING, Severity.WARNING),
        (Reason.SEVERITY, State.FIRING, Severity.INFO),
        (Reason.RESOLVED, State.RESOLVED, Severity.INFO),
    ]
    (incident,) = store.alerts.incidents(IncidentFilter.ALL)
    assert incident.ended_at == NOON + 240.0


def test_a_failure_stays_open_until_the_service_is_armed_again(store: Repository) -> None:
    store.rollbacks.save(record(PROPOSED), fence=1)
    failed = then(Kind.FAILED, Phase.FAILED, 1, pages=True)
    store.rollbacks.save(record(failed, plan=None), fence=1)
    assert len(store.alerts.incidents()) == 1
    store.rollbacks.save(record(at=NOON + 120.0), fence=1)
    assert not store.alerts.incidents()
    assert [reason for reason, *_ in messages(store)] == [
        Reason.FIRST,
        Reason.SEVERITY,
        Reason.RESOLVED,
    ]


def test_another_plan_ends_what_the_last_one_left_open(store: Repository) -> None:
    store.rollbacks.save(record(PROPOSED), fence=1)
    store.rollbacks.save(record(then(Kind.FAILED, Phase.FAILED, 1), plan=None), fence=1)
    second = then(Kind.STARTED, Phase.CHECKING, 2, plan="chat-8")
    store.rollbacks.save(record(second), fence=1)
    (incident,) = store.alerts.incidents()
    assert incident.title == "chat: a rollback begins"


@pytest.mark.parametrize(
    "news",
    [
        replace(PROPOSED, mode=Mode.OBSERVE),
        then(Kind.REFUSED, Phase.ARMED, 1),
        then(Kind.STEP, Phase.HOLDING, 1),
        then(Kind.ABORTED, Phase.ARMED, 1),
        replace(PROPOSED, plan=None),
    ],
    ids=["mode observe", "refused", "a step", "never began", "no plan"],
)
def test_some_decisions_are_for_the_audit_alone(store: Repository, news: News) -> None:
    store.rollbacks.save(record(news), fence=1)
    assert len(store.rollbacks.decisions()) == 1
    assert not messages(store)


def test_orders_wait_until_a_turn_has_answered_them(store: Repository) -> None:
    given = store.rollbacks.order("chat", Order.APPROVE, at=NOON, who="ann@desk", plan=PLAN)
    other = store.rollbacks.order("code", Order.REARM, at=NOON, who="bob@desk", force=True)
    assert store.rollbacks.commands("chat") == [given]
    assert store.rollbacks.waiting() == [given, other]
    assert not store.rollbacks.is_taken(given)
    store.rollbacks.save(record(PROPOSED, taken=(given.id,)), fence=1)
    assert store.rollbacks.is_taken(given)
    assert store.rollbacks.commands("chat") == []
    assert store.rollbacks.commands("code") == [other]


def test_plans_are_listed_newest_first_and_found_by_id_or_service(store: Repository) -> None:
    store.rollbacks.save(record(PROPOSED), fence=1)
    store.rollbacks.save(record(then(Kind.DONE, Phase.DONE, 5, share=1.0)), fence=1)
    newer = then(Kind.STARTED, Phase.CHECKING, 9, plan="code-9", service="code")
    store.rollbacks.save(replace(record(newer), service="code"), fence=1)
    plans = store.rollbacks.plans()
    assert [plan.plan for plan in plans] == ["code-9", PLAN]
    assert (plans[1].began_at, plans[1].at, plans[1].kind) == (NOON, NOON + 300.0, "done")
    assert find_plan(plans, "chat") == find_plan(plans, PLAN) == plans[1]
    assert store.rollbacks.plans("chat") == [plans[1]]
    with pytest.raises(StoreError, match="there is no rollback 'x'"):
        find_plan(plans, "x")


def test_the_mode_is_known_before_anything_happened(store: Repository, engine: Engine) -> None:
    for mode in (Mode.OBSERVE, Mode.ACT):
        with writing(engine) as connection:
            configure(connection, {"chat": mode}, NOON)
    stored = store.rollbacks.states()["chat"]
    assert (stored.mode, stored.phase, stored.version) == ("act", "armed", 0)
    assert store.rollbacks.load("chat") is None
    store.rollbacks.save(record(PROPOSED), fence=1)
    assert store.rollbacks.states()["chat"].mode == "act"
