"""What people are told of a rollback, as they read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.alerting import text
from monitor.alerting.model import Reason, Severity, State
from monitor.alerting.payload import alert_labels, payload
from monitor.rollback.messages import Told, incident_of, message
from monitor.rollback.model import Kind, News, Phase
from monitor.rollback.settings import Cure, Mode

PROPOSED = News(
    "chat",
    1_800_000_000.0,
    Kind.PROPOSED,
    Mode.PROPOSE,
    Phase.PROPOSED,
    "Rollback of 100 % of the traffic waits for 'monitor rollback approve chat'",
    plan="chat-18",
    cure=Cure.ROLL_BACK,
    pages=True,
)


def test_a_proposal_says_what_to_type() -> None:
    told = message(PROPOSED, None)
    assert told is not None
    assert (told.reason, told.state, told.severity) == (
        Reason.FIRST,
        State.FIRING,
        Severity.CRITICAL,
    )
    document = payload(told)
    assert document["commands"] == [
        f"monitor alerts show {told.incident}",
        "monitor rollback show chat-18",
    ]
    assert (document["rule"], document["action"]) == ("rollback", "roll_back")
    assert alert_labels(told)["alertname"] == "rollback"
    assert "Service chat, rule rollback" in text.body(told)
    assert "target" not in text.body(told)


def test_a_plan_begun_anew_after_its_end_is_told_as_a_beginning() -> None:
    incident = incident_of("chat", "chat-18")
    over = Told(incident, 4, 1_799_999_000.0, Severity.INFO, "chat: over", is_over=True)
    told = message(PROPOSED, over)
    assert told is not None
    assert (told.sequence, told.reason, told.started_at) == (5, Reason.FIRST, over.started_at)


@pytest.mark.parametrize(
    ("kind", "phase", "words"),
    [
        (
            Kind.BLOCKED,
            Phase.BLOCKED,
            ("monitor rollback run chat", "monitor rollback abort chat"),
        ),
        (
            Kind.HELD,
            Phase.HELD,
            (
                "monitor rollback run chat",
                "monitor rollback abort chat",
                "monitor rollback rearm chat",
            ),
        ),
        (
            Kind.FAILED,
            Phase.FAILED,
            ("monitor rollback show chat", "monitor rollback rearm chat"),
        ),
    ],
)
def test_whoever_is_called_reads_what_to_type(
    kind: Kind, phase: Phase, words: tuple[str, ...]
) -> None:
    told = message(replace(PROPOSED, kind=kind, phase=phase, sentence="No."), None)
    assert told is not None
    assert told.sentence.startswith("No.; 'monitor rollback ")
    for word in words:
        assert f"'{word}'" in told.sentence


def test_a_freeze_names_no_service_that_is_none() -> None:
    frozen = replace(PROPOSED, service="*", kind=Kind.FROZEN, phase=Phase.HELD, sentence="Frozen")
    told = message(frozen, None)
    assert told is not None
    assert told.sentence == "Frozen"
