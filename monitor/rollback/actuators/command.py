"""Programs of the user that move traffic or start servers; no shell, and a bare environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor import child
from monitor.clock import Clock, SystemClock
from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.failing import Deadline, PeerError, failing
from monitor.rollback.actuators.shares import any_of, is_close, percent, read_share

_PEER = "the command"
_UNKNOWN = "unknown"
_SHOWN = 160
_LONGEST_NUMBER = 40


@dataclass(frozen=True, slots=True)
class Commands:
    """What is called: argument lists in which some words in braces are filled in."""

    shift: tuple[str, ...]
    restore: tuple[str, ...] | None = None
    observe: tuple[str, ...] | None = None
    environment: tuple[str, ...] = ()
    """Names of the variables that programs are given beside PATH and the locale."""


class CommandActuator:
    """Moves traffic by calling programs: exit code 0 says that it was done."""

    def __init__(
        self, commands: Commands, *, normal_share: float = 0.0, clock: Clock | None = None
    ) -> None:
        self._commands = commands
        self._normal = normal_share
        self._clock = clock or SystemClock()

    def observe(self, timeout: float) -> Traffic:
        """What the observing program prints."""
        with failing("observe", _PEER):
            share = self._share(timeout)
        if self._commands.observe is None:
            return Traffic(None, "no command that observes is configured")
        said = _UNKNOWN if share is None else percent(share)
        return Traffic(share, f"the command that observes says {said}")

    def shift(self, share: float, act: Act) -> None:
        """Calls the program, and believes it once the observing one agrees."""
        self._set("shift", self._commands.shift, share, act)

    def restore(self, act: Act) -> None:
        """Calls the program that restores, or shifts back to the normal share."""
        self._set("restore", self._commands.restore or self._commands.shift, self._normal, act)

    def would(self, share: float) -> str:
        """The program with its arguments."""
        arguments = _filled(self._commands.shift, share=share, act=Act("ID", 0, 0.0))
        return f"would run {arguments}"

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """Any, as far as we can know."""
        return any_of(shares)

    def _set(self, action: str, arguments: tuple[str, ...], share: float, act: Act) -> None:
        deadline = Deadline(act.timeout, self._clock)
        with failing(action, _PEER):
            call(
                _filled(arguments, share, act),
                deadline.left(),
                self._commands.environment,
                {**_about(action, act), "MONITOR_SHARE": f"{share:g}"},
            )
            deadline.until(lambda: self._missing(share, deadline.left()))

    def _missing(self, wanted: float, timeout: float) -> str | None:
        share = self._share(timeout)
        if share is None or is_close(share, wanted):
            return None
        return f"ended well, but the share is {percent(share)} instead of {percent(wanted)}"

    def _share(self, timeout: float) -> float | None:
        if self._commands.observe is None:
            return None
        environ = {"MONITOR_ACTION": "observe"}
        text = call(self._commands.observe, timeout, self._commands.environment, environ).strip()
        if text == _UNKNOWN:
            return None
        try:
            number = float(text[:_LONGEST_NUMBER])
        except ValueError:
            raise PeerError(f"it printed no number but {text[:_LONGEST_NUMBER]!r}") from None
        return read_share(number)


class CommandStarter:
    """Starts and restarts servers by calling programs."""

    def __init__(
        self,
        start: tuple[str, ...] | None,
        restart: tuple[str, ...] | None,
        environment: tuple[str, ...] = (),
    ) -> None:
        self._start = start
        self._restart = restart
        self._environment = environment

    def start(self, act: Act) -> None:
        """Calls the program that starts the baseline side."""
        self._call("start", self._start, act)

    def restart(self, act: Act) -> None:
        """Calls the program that restarts the speculative side."""
        self._call("restart", self._restart, act)

    def would_start(self) -> str:
        """The program with its arguments."""
        return _would(self._start)

    def would_restart(self) -> str:
        """The program with its arguments."""
        return _would(self._restart)

    def _call(self, action: str, arguments: tuple[str, ...] | None, act: Act) -> None:
        if arguments is None:
            message = f"no command is configured to {action} servers"
            raise ActuatorError(message, stage=action, safe_to_retry=False)
        with failing(action, _PEER):
            call(_named(arguments, act), act.timeout, self._environment, _about(action, act))


def call(
    arguments: Sequence[str], timeout: float, names: Sequence[str], about: dict[str, str]
) -> str:
    """Runs a program, and gives the beginning of what it wrote.

    Raises:
        ChildError: it cannot be started, or was killed at the deadline with all it started.
        PeerError: it failed.
    """
    done = child.run(arguments, b"", timeout, {**child.environment(names), **about})
    if done.code != 0:
        said = done.output.strip()[:_SHOWN]
        raise PeerError(f"it failed: {done.how}{f': {said}' if said else ''}")
    return done.output


def _about(action: str, act: Act) -> dict[str, str]:
    return {
        "MONITOR_ACTION": action,
        "MONITOR_ACT_ID": act.id,
        "MONITOR_FENCE": str(act.fence),
    }


def _filled(arguments: Sequence[str], share: float, act: Act) -> list[str]:
    known = {"{share}": f"{share:g}", "{percent}": f"{share * 100:.0f}"}
    return [_replaced(argument, known) for argument in _named(arguments, act)]


def _named(arguments: Sequence[str], act: Act) -> list[str]:
    known = {"{id}": act.id, "{fence}": str(act.fence)}
    return [_replaced(argument, known) for argument in arguments]


def _replaced(argument: str, known: dict[str, str]) -> str:
    for name, text in known.items():
        argument = argument.replace(name, text)
    return argument


def _would(arguments: tuple[str, ...] | None) -> str:
    return "could not: no command is configured" if arguments is None else f"would run {arguments}"
