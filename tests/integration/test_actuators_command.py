"""Programs of the user: what they are given, and what becomes of those that misbehave."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from live_load import wait_until

from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.command import CommandActuator, Commands, CommandStarter
from monitor.rollback.actuators.systemd import SystemdStarter

ACT = Act("chat-7-2", fence=5, timeout=20.0)


def python(code: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-c", code, *arguments)


def moving(shift: tuple[str, ...], **rest: Any) -> CommandActuator:
    return CommandActuator(Commands(shift, **rest))


def failure(actuator: CommandActuator, act: Act = ACT) -> ActuatorError:
    with pytest.raises(ActuatorError) as caught:
        actuator.shift(0.5, act)
    assert caught.value.stage == "shift"
    return caught.value


SET = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(' '.join(sys.argv[2:]))"
ASK = "import sys, pathlib; print(pathlib.Path(sys.argv[1]).read_text().split()[0])"


def test_programs_move_traffic_and_say_so(tmp_path: Path) -> None:
    file = tmp_path / "share"
    file.write_text("0")
    actuator = moving(
        python(SET, str(file), "{share}", "{percent}%", "{id}", "{fence}"),
        observe=python(ASK, str(file)),
    )
    assert actuator.observe(20.0).share == 0
    actuator.shift(0.25, ACT)
    assert file.read_text() == "0.25 25% chat-7-2 5"
    assert actuator.observe(20.0).detail == "the command that observes says 25 %"
    actuator.restore(ACT)
    assert file.read_text() == "0 0% chat-7-2 5"


def test_programs_get_what_is_asked_and_next_to_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONITOR_CANARY", "secret")
    monkeypatch.setenv("KUBECONFIG", "/etc/kube")
    code = "import os, sys; open(sys.argv[1], 'w').write(repr(dict(os.environ)))"
    file = tmp_path / "seen"
    moving(python(code, str(file), "{share}"), environment=("KUBECONFIG",)).shift(0.5, ACT)
    seen: dict[str, str] = eval(file.read_text())
    assert seen.keys() - {"PATH", "LANG", "LC_ALL", "TZ", "LC_CTYPE"} == {
        *("KUBECONFIG", "MONITOR_ACTION", "MONITOR_ACT_ID", "MONITOR_FENCE", "MONITOR_SHARE")
    }
    assert (seen["MONITOR_ACTION"], seen["MONITOR_SHARE"]) == ("shift", "0.5")


def test_arguments_are_no_shell(tmp_path: Path) -> None:
    file = tmp_path / "share"
    moving(python(SET, str(file), "; rm -rf $HOME `id`", "{share}")).shift(0.5, ACT)
    assert file.read_text() == "; rm -rf $HOME `id` 0.5"


def test_a_program_that_hangs_is_killed_with_all_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-I', '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1] + '.new', 'w').write(str(child.pid))\n"
        "import os; os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "time.sleep(600)"
    )
    error = failure(moving(python(code, str(file), "{share}")), Act("a", 1, timeout=3.0))
    assert str(error) == "the command: the command did not end within 3 s"
    assert error.safe_to_retry
    grandchild = int(file.read_text())
    try:
        wait_until(lambda: is_gone(grandchild), "the end of what the program started")
    finally:
        with suppress(ProcessLookupError):
            os.kill(grandchild, signal.SIGKILL)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_a_program_that_fails_is_told_with_what_it_wrote() -> None:
    error = failure(moving(python("import sys; sys.exit('no \\x1b[31mroute')", "{share}")))
    assert str(error) == "the command: it failed: exit code 1: no [31mroute"
    assert error.safe_to_retry


def test_a_program_that_is_not_there_is_told() -> None:
    error = failure(moving(("/nowhere/move", "{share}")))
    assert str(error) == "the command: the command cannot be started: No such file or directory"


def test_a_program_that_only_says_so_is_not_believed() -> None:
    actuator = moving(python("pass", "{share}"), observe=python("print(0.1)"))
    error = failure(actuator, Act("a", 1, timeout=6.0))
    assert "ended well, but the share is 10 % instead of 50 %" in str(error)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('much')", "it printed no number but 'much'"),
        ("pass", "it printed no number but ''"),
        ("print('nan')", "the share it gives is not between 0 and 1"),
        ("print(-1)", "the share it gives is not between 0 and 1"),
        ("print('9' * 5_000_000)", "the share it gives is not between 0 and 1"),
        ("import sys; sys.exit(3)", "it failed: exit code 3"),
    ],
)
def test_shares_that_are_none_are_not_believed(code: str, words: str) -> None:
    actuator = moving(("true", "{share}"), observe=python(code))
    with pytest.raises(ActuatorError) as caught:
        actuator.observe(20.0)
    assert str(caught.value) == f"the command: {words}"


def test_a_program_may_say_that_it_cannot_tell() -> None:
    actuator = moving(("true", "{share}"), observe=("echo", "unknown"))
    assert actuator.observe(20.0).share is None
    actuator.shift(0.5, ACT)
    assert moving(("true", "{share}")).observe(20.0).share is None


def test_restoring_can_have_a_program_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "done"
    actuator = moving(("false", "{share}"), restore=("touch", str(file)))
    actuator.restore(ACT)
    assert file.exists()


def test_servers_are_started_by_programs(tmp_path: Path) -> None:
    starter = CommandStarter(("touch", f"{tmp_path}/{{id}}"), None)
    starter.start(ACT)
    assert (tmp_path / "chat-7-2").exists()
    with pytest.raises(ActuatorError, match="no command is configured to restart") as caught:
        starter.restart(ACT)
    assert (caught.value.stage, caught.value.safe_to_retry) == ("restart", False)
    assert starter.would_restart() == "could not: no command is configured"


def test_units_are_started_without_waiting_for_them(tmp_path: Path) -> None:
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    systemctl.chmod(0o755)
    starter = SystemdStarter(["vllm-plain@0", "vllm-plain@1"], ["vllm-spec"], [str(systemctl)])
    starter.start(ACT)
    starter.restart(ACT)
    assert (tmp_path / "calls").read_text().splitlines() == [
        "start --no-block -- vllm-plain@0 vllm-plain@1",
        "restart --no-block -- vllm-spec",
    ]
    assert starter.would_restart().endswith("systemctl restart --no-block -- vllm-spec")


def test_units_that_cannot_be_started_are_told() -> None:
    starter = SystemdStarter(["vllm-plain"], [], ["sh", "-c", "echo Unit not found >&2; exit 5"])
    with pytest.raises(ActuatorError) as caught:
        starter.start(ACT)
    assert str(caught.value) == "systemctl: it failed: exit code 5: Unit not found"
