"""A Grafana, or a proxy before it, that misbehaves: one clear line each, nothing half done."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_grafana import EDITOR, TOKEN, VIEWER, State, fake_grafana
from pydantic import SecretStr

from monitor.alerting.ruleset import load_rules
from monitor.clock import FakeClock
from monitor.grafana import marks, provision
from monitor.grafana.client import Grafana
from monitor.grafana.items.base import Act
from monitor.grafana.marks import Mark
from monitor.grafana.provision import Step
from monitor.grafana.verify import verify
from monitor.grafana.wanted import Wanted, shipped_dashboards, wanted
from monitor.model import GrafanaError
from monitor.settings import GrafanaSettings

BOARDS = dict(sorted(shipped_dashboards().items())[:1])
WANTED = wanted(load_rules([]).rules, prometheus="http://prom:9090", dashboards=BOARDS)
WRITES = [
    ("POST", "/api/folders$"),
    ("POST", "/api/datasources$"),
    ("POST", "/api/dashboards/db$"),
    ("PUT", "/rule-groups/"),
]
READS = [
    ("GET", "/api/folders/"),
    ("GET", "/api/datasources/uid/"),
    ("GET", "/api/dashboards/uid/[^/]+$"),
    ("GET", "/versions$"),
    ("GET", "/rule-groups/"),
]


@pytest.fixture
def state() -> Iterator[State]:
    with fake_grafana() as state:
        yield state


def connect(state: State, token: str = TOKEN, timeout: float = 30.0) -> Grafana:
    return Grafana(GrafanaSettings(state.url, SecretStr(token), timeout=timeout), FakeClock())


def apply(grafana: Grafana, things: Wanted = WANTED, *, force: bool = False) -> list[Step]:
    steps = provision.plan(grafana, provision.items(things), force=force)
    return list(provision.apply(grafana, steps))


def kept(state: State) -> Any:
    """What a Grafana holds, without what only tells how often it was written."""
    found = [state.folders, state.datasources, state.groups.values()]
    boards = {uid: len(versions) for uid, versions in state.dashboards.items()}
    return json.loads(json.dumps([*(list(f) for f in found), boards], default=str))


@pytest.mark.parametrize("kind", ["html", "reset", "lost", "cut", '429 {"message": "x"}'])
def test_a_fault_that_passes_is_not_even_seen(kind: str, state: State) -> None:
    with fake_grafana() as clean:
        apply(connect(clean))
    # Each kind of request fails once: the writing ones at first, all the reading ones later.
    for paths in (WRITES, READS):
        for method, path in paths:
            state.fail(method, path, kind, count=1)
        done = apply(connect(state))
        assert [step.problem for step in done if step.open] == []
        assert not any(fault.count for fault in state.faults)
    assert kept(state) == kept(clean)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("html", "HTTP 502"),
        ("reset", "the connection failed"),
        ("lost", "the connection failed"),
        ("login", "HTTP 200 with something else than JSON; is this the address of a Grafana"),
        ("redirect", "HTTP 302: a redirect, which is not followed"),
        ('500 {"message": "database is locked"}', "HTTP 500 (database is locked)"),
        ('400 {"message": 5}', "HTTP 400"),
        ("400 [1, 2]", "HTTP 400"),
        ("500 " + "[" * 100_000, "HTTP 500 with something else than JSON"),
        ('403 {"message": "no"}', "the token may not do this (no): give the service account"),
        ('401 {"message": "Invalid API key"}', "the token is not accepted (Invalid API key)"),
    ],
)
@pytest.mark.parametrize(("method", "path"), [WRITES[0], WRITES[-1]])
def test_a_fault_that_stays_is_one_line_and_a_second_run_mends_it(
    method: str, path: str, kind: str, said: str, state: State
) -> None:
    check_mended(method, path, kind, said, state)


@pytest.mark.parametrize(("method", "path"), WRITES[1:-1])
@pytest.mark.parametrize(
    ("kind", "said"),
    [("html", "HTTP 502"), ("lost", ""), ('500 {"message": "no"}', "HTTP 500 (no)")],
)
def test_wherever_it_stays(method: str, path: str, kind: str, said: str, state: State) -> None:
    check_mended(method, path, kind, said, state)


def check_mended(method: str, path: str, kind: str, said: str, state: State) -> None:
    state.fail(method, path, kind, count=99)
    steps = apply(connect(state))
    problems = [step.problem for step in steps if step.problem is not None]
    # Where only the answer was lost, what was asked for is there, and there is no problem.
    if kind != "lost" or method == "PUT":
        assert problems
        assert said in problems[0]
        assert all("\n" not in problem and len(problem) < 400 for problem in problems)
    state.faults.clear()
    mended = apply(connect(state))
    assert [step.problem for step in mended if step.open] == []
    assert {step.change.act for step in apply(connect(state))} == {Act.UNCHANGED}


def test_without_its_folder_the_rest_is_left_out(state: State) -> None:
    state.fail("POST", "/api/folders$", '500 {"message": "no"}', count=99)
    steps = apply(connect(state))
    assert [step.problem for step in steps][:2] == [
        "folder specdec: HTTP 500 (no)",
        "left out, as its folder could not be made",
    ]
    assert [path for _, path in state.writes] == ["/api/folders"]


@pytest.mark.parametrize("answer", ["200 []", "200 5", '200 {"dashboard": 1, "meta": []}'])
def test_answers_of_the_wrong_kind_are_one_line(answer: str, state: State) -> None:
    apply(connect(state))
    uid = next(iter(BOARDS))
    state.edit(uid, title="edited")
    for method, path in READS:
        state.fail(method, path, answer, count=99)
        steps = apply(connect(state))
        problems = [step.problem for step in steps if step.problem is not None]
        assert all("\n" not in problem for problem in problems)
        # On the word of an answer that makes no sense, nothing of anybody is written over.
        assert all(step.change.name != uid or not step.done for step in steps)
        assert state.dashboards[uid][-1]["dashboard"]["title"] == "edited"
        state.faults.clear()


def test_no_answer_in_time_is_one_line(state: State) -> None:
    state.fail("GET", "/api/folders/", "slow", count=99)
    with pytest.raises(GrafanaError, match=r"folder specdec: http://[0-9.:]+: no answer within"):
        apply(connect(state, timeout=0.2))


def test_an_answer_of_many_megabytes_is_read_and_a_larger_one_refused(state: State) -> None:
    apply(connect(state))
    uid = next(iter(BOARDS))
    big = json.dumps({"dashboard": {"uid": uid, "text": "x" * 10_000_000}, "meta": {}})
    state.fail("GET", f"/api/dashboards/uid/{uid}$", f"200 {big}")
    (step,) = [s for s in apply(connect(state)) if s.change.name == uid]
    assert (step.change.act, step.problem) == (Act.UNCHANGED, None)
    huge = json.dumps({"dashboard": {}, "meta": {"text": "x" * 17_000_000}})
    state.fail("GET", f"/api/dashboards/uid/{uid}$", f"200 {huge}", count=9)
    with pytest.raises(GrafanaError, match="the answer is larger than 16777216 bytes"):
        apply(connect(state))


def test_a_token_without_rights_changes_nothing(state: State) -> None:
    steps = apply(connect(state, VIEWER))
    assert all(step.open for step in steps)
    assert steps[0].problem is not None
    assert "folder specdec: the token may not do this" in steps[0].problem
    assert (state.folders, state.dashboards, state.groups) == ({}, {}, {})


def test_an_editor_brings_all_but_data_sources(state: State) -> None:
    steps = apply(connect(state, EDITOR))
    assert [step.change.kind for step in steps if step.open] == ["data source"]
    assert list(state.dashboards) == list(BOARDS)
    assert apply(connect(state))[1].done


@pytest.mark.parametrize("token", ["wrong", "no"])
def test_a_wrong_token_is_one_line_without_the_token(token: str, state: State) -> None:
    with pytest.raises(GrafanaError) as caught:
        apply(connect(state, token))
    assert str(caught.value) == (
        "folder specdec: the token is not accepted (Invalid API key): use one of a service "
        "account of this Grafana"
    )


def test_what_grafana_says_is_shown_without_control_characters(state: State) -> None:
    said = json.dumps({"message": "a\x1b[31mb\n" + "c" * 5000})
    state.fail("GET", "/api/folders/", f"400 {said}", count=9)
    text = apply(connect(state))[0].problem
    assert text is not None
    assert text.isprintable()
    assert len(text) < 300


def test_nobody_there_is_one_line_at_once() -> None:
    clock = FakeClock()
    grafana = Grafana(GrafanaSettings("http://127.0.0.1:9", SecretStr("x")), clock)
    with pytest.raises(GrafanaError, match="the connection failed: Connection refused"):
        apply(grafana)
    # Two waits between three tries, not the four minutes of the library.
    assert clock.monotonic() == 1.5


def test_verify_cleans_up_after_a_failure(state: State) -> None:
    state.fail("PUT", "/rule-groups/", '400 {"message": "no"}')
    checks = list(verify(connect(state), WANTED, 1e9))
    assert [check.name for check in checks if not check.passed] == ["alert rules"]
    assert (state.folders, state.dashboards, state.groups, state.annotations) == ({}, {}, {}, {})
    state.fail("DELETE", "/api/dashboards/uid/", '500 {"message": "no"}', count=1)
    (failed,) = [check for check in verify(connect(state), WANTED, 1e9) if not check.passed]
    assert failed.name == "clean up"
    # A second run takes along what the first has left.
    assert all(check.passed for check in verify(connect(state), WANTED, 1e9))
    assert (state.folders, state.dashboards) == ({}, {})


def test_a_rollback_is_marked_as_a_region(state: State) -> None:
    grafana = connect(state)
    mark = Mark(marks.ROLLBACK, "rolled back: drafter\ndead", 1000.5, service="chat", target="a")
    number = marks.begin(grafana, mark)
    assert state.annotations[number] == {
        "time": 1000500,
        "tags": ["spec-decode", "rollback", "service:chat", "target:a"],
        "text": "rolled back: drafter dead",
    }
    marks.end(grafana, number, 1300.0, "over")
    marks.end(grafana, number, 1300.0, "over")
    assert state.annotations[number]["timeEnd"] == 1300000
    assert state.annotations[number]["text"] == "over"


def test_a_mark_whose_answer_was_lost_is_not_made_twice(state: State) -> None:
    state.fail("POST", "/api/annotations", "lost")
    with pytest.raises(GrafanaError):
        marks.begin(connect(state), Mark(marks.ALERT, "x", 1.0))
    assert len(state.annotations) == 1


@pytest.mark.parametrize("answer", ["200 {}", '200 {"id": true}', "200 []", '200 {"id": "7"}'])
def test_a_mark_without_a_number_is_an_error(answer: str, state: State) -> None:
    state.fail("POST", "/api/annotations", answer)
    with pytest.raises(GrafanaError, match="annotation: the answer has no id"):
        marks.begin(connect(state), Mark(marks.ALERT, "x", 1.0))


def test_the_library_never_logs_by_itself(
    state: State, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    state.fail("GET", "/api/folders/", '401 {"message": "Invalid API key"}')
    with pytest.raises(GrafanaError):
        apply(connect(state))
    assert caplog.records == []
