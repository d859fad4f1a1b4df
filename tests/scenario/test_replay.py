"""The stored past under the rules in force tells what was told, and under others what would be."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from replay_stage import RULES, Fleet
from traffic import START

from monitor.alerting.model import Notification
from monitor.cli import replay as replay_command
from monitor.cli.runner import run
from monitor.clock import FakeClock
from monitor.replay.outcome import Found, sentences
from monitor.replay.run import Replay
from monitor.replay.stage import Stage
from monitor.replay.variant import Variant
from monitor.rollback.settings import Policy, Voting
from monitor.store import schema
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.store.retention import announce
from monitor.store.rollup import RAW, roll_up

IN_FORCE = Variant("in force", RULES)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A database with the story of one target."""
    return new_repository(tmp_path_factory.mktemp("replay"))


@pytest.fixture(scope="module")
def fleet(repository: Repository) -> Fleet:
    """The target of that story, as it was watched."""
    return story(repository, "gpu1")


def repository_url(repository: Repository) -> str:
    return repository._engine.url.render_as_string(hide_password=False)


def new_repository(folder: Path) -> Repository:
    url = f"sqlite:///{folder / 'monitor.db'}"
    schema.upgrade(url)
    return Repository(open_store(url))


def played(
    repository: Repository, fleet: Fleet, variant: Variant = IN_FORCE, start: float = START
) -> Found:
    stage = Stage(repository, start, fleet.now, gpus=8.0)
    (players,) = stage.players([*fleet.servers], {}).values()
    told = repository.first_told("chat")
    return Replay("chat", players, variant, start).run(
        lambda at: min((when for when, end in told if end is None or end > at), default=None)
    )


def essence(told: list[Notification]) -> list[tuple[object, ...]]:
    return [(n.at, n.rule, n.target, n.reason, n.incident, n.severity) for n in told]


def story(repository: Repository, *names: str) -> Fleet:
    """Well, an outage of one, well, a drafter that fails, well again."""
    fleet = Fleet(repository, names)
    fleet.watch(90)
    fleet.watch(25, down=names[-1:])
    fleet.watch(45)
    for server in fleet.servers.values():
        server.q = 0.1
    fleet.watch(80)
    for server in fleet.servers.values():
        server.q = 0.8
    fleet.watch(90)
    return fleet


def test_the_rules_in_force_tell_again_what_was_told(repository: Repository, fleet: Fleet) -> None:
    found = played(repository, fleet)
    assert len(fleet.told) >= 4
    assert essence(found.told) == essence(fleet.told)
    assert len(found.fired) == len({told.incident for told in fleet.told})


def test_they_do_so_for_several_targets_of_a_service(tmp_path: Path) -> None:
    repository = new_repository(tmp_path)
    fleet = story(repository, "gpu1", "gpu2")
    assert essence(played(repository, fleet).told) == essence(fleet.told)


def test_a_rollback_would_have_come_before_it_ended(repository: Repository, fleet: Fleet) -> None:
    found = played(repository, fleet)
    (move,) = found.moves
    began = START + 160 * 60.0
    assert began < move.at < began + 20 * 60.0
    assert move.ended_at is not None
    assert move.gpu_hours is not None
    # Eight GPUs, for as long as it went on, lose the share that decoding takes longer.
    assert 0.0 < move.gpu_hours < 8.0 * (move.ended_at - move.at) / 3_600.0
    assert any("would have moved traffic once" in said for said in sentences(found))


def test_another_threshold_and_another_policy_decide_otherwise(
    repository: Repository, fleet: Fleet
) -> None:
    strict = replace(IN_FORCE, policies={"chat": Policy(voting=Voting(speedup_below=0.01))})
    assert not played(repository, fleet, strict).moves
    early = played(repository, fleet, replace(IN_FORCE, threshold=0.75))
    late = played(repository, fleet, replace(IN_FORCE, threshold=0.05))
    rules = [{incident.rule for incident in found.fired} for found in (early, late)]
    assert "acceptance_below_threshold" in rules[0] - rules[1]


def test_what_came_before_the_start_only_leads_up_to_it(
    repository: Repository, fleet: Fleet
) -> None:
    start = START + 200 * 60.0
    found = played(repository, fleet, start=start)
    assert essence(found.told) == essence([told for told in fleet.told if told.at > start])


def test_sums_of_a_minute_tell_much_the_same(
    repository: Repository, fleet: Fleet, tmp_path: Path
) -> None:
    source = repository_url(repository).removeprefix("sqlite:///")
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("VACUUM INTO ?", [str(copy)])
    engine = open_store(f"sqlite:///{copy}")
    while roll_up(engine, fleet.now + 120.0):
        pass
    announce(engine, RAW, fleet.now)
    found = played(Repository(engine), fleet)
    exact = played(repository, fleet)
    first, second = ({one.rule: one.at for one in each.fired} for each in (found, exact))
    for rule in ("target_down", "dropped", "harmful"):
        assert abs(first[rule] - second[rule]) <= 180.0
    (move,), (other,) = found.moves, exact.moves
    assert abs(move.at - other.at) <= 300.0


Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture
def invoke(
    repository: Repository,
    fleet: Fleet,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Invoke:
    monkeypatch.setenv("MONITOR_DATABASE", repository_url(repository))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(replay_command, "SystemClock", lambda: FakeClock(fleet.now))

    def invoke(*arguments: str) -> tuple[int, str, str]:
        code = run(["replay", "--start", "-6h", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return invoke


def test_the_command_says_what_would_have_happened(invoke: Invoke) -> None:
    code, out, _ = invoke("--gpus", "8")
    assert code == 0
    assert "rule target_down would have fired once (gpu1)" in out
    assert "rollback would have moved traffic once: on 21 September 2026 at" in out
    assert "it was noticed; saved" in out
    code, out, _ = invoke("--json", "--noticed", str(START + 200 * 60.0))
    document = json.loads(out)
    (service,) = document["services"]
    (variant,) = service["variants"]
    (move,) = variant["rollbacks"]
    assert document["schema"] == "monitor.replay/1"
    assert move["seconds_before_noticed"] > 600.0
    assert variant["gpu_hours_saved"] == pytest.approx(move["gpu_hours_saved"])


def test_two_policies_side_by_side(invoke: Invoke, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rollback: {votes: {needed: 5, of: 5}}\n")
    code, out, _ = invoke("--set", "needed=1", "--versus-policy", str(policy))
    assert code == 0
    assert out.count("rollback would have moved traffic once") == 2
    code, out, _ = invoke("--json", "--set", "of=1", "--set", "needed=1", "--versus", "needed=5")
    first, second = json.loads(out)["services"][0]["variants"]
    assert first["rollbacks"][0]["at"] < second["rollbacks"][0]["at"]


def test_a_sweep_is_a_table_and_a_plot(invoke: Invoke) -> None:
    code, out, _ = invoke("--sweep", "threshold=0.5:0.7:0.2")
    assert code == 0
    assert "threshold  alerts" in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("0.")] == [
        "0.5",
        "0.7",
    ]
    assert "●" in out


MISTAKES = {
    ("--sweep", "threshold=0.2"): "--sweep is not of the form NAME=LOW:HIGH:STEP",
    ("--sweep", "threshold=0.2:0.9:0.0001"): "in at most 100 steps",
    ("--sweep", "treshold=0.2:0.4:0.1"): "did you mean 'threshold'",
    ("--set", "threshold=2"): "threshold must be a number between 0 and 1",
    ("--set", "needed=none"): "needed Input should be a valid integer",
    ("--set", "needed"): "is not of the form NAME=VALUE",
    ("--set", "needed={"): "needed is no plain value",
    ("--set", "needed=9", "--set", "of=3"): "needed must not be more than of, which is 3",
    ("--set", "within=1m"): "within is too short for so many windows",
    ("--sweep", "needed=2:90:4"): "needed must not be more than of",
    ("--policy", "/nowhere.yaml"): "/nowhere.yaml: cannot be read",
    ("--rules", "/nowhere.yaml"): "/nowhere.yaml",
    ("--service", "kimi"): "there is no service 'kimi'",
    ("--end", "-7h"): "--start must lie before --end",
    ("--versus", "needed=2", "--sweep", "threshold=0.2:0.4:0.1"): "one of --sweep and --versus",
}


def test_mistakes_are_one_line(invoke: Invoke) -> None:
    for arguments, message in MISTAKES.items():
        code, out, err = invoke(*arguments)
        assert (code, out) == (2, "")
        assert message in err
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 50_000, "is nested too deeply"),
        ("!!python/object/apply:os.system [id]", "has a tag"),
        ("\x00", "holds a control character"),
        ("[1, 2]", "must be a mapping"),
        ("", "policy.yaml: "),
        ("votes: {needed: 9, of: 3}", "needed must not be more than of, which is 3"),
    ],
)
def test_a_policy_file_that_is_wrong_is_one_line(
    invoke: Invoke, tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(content)
    code, out, err = invoke("--policy", str(path))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_nothing_is_written(invoke: Invoke, repository: Repository) -> None:
    before = repository.space().rows
    assert invoke()[0] == 0
    assert repository.space().rows == before
