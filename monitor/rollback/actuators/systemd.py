"""Units of systemd on this machine, through ``systemctl``."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.command import call
from monitor.rollback.actuators.failing import failing

_USER_BUS = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""What ``systemctl --user`` needs."""


class SystemdStarter:
    """Starts units of the baseline side, and restarts those of the speculative one."""

    def __init__(
        self,
        start: Sequence[str],
        restart: Sequence[str],
        systemctl: Sequence[str] = ("systemctl",),
    ) -> None:
        self._start = tuple(start)
        self._restart = tuple(restart)
        self._systemctl = tuple(systemctl)

    def start(self, act: Act) -> None:
        """Starts the units; those that run stay as they are."""
        self._call("start", self._start, act)

    def restart(self, act: Act) -> None:
        """Restarts the units."""
        self._call("restart", self._restart, act)

    def would_start(self) -> str:
        """The call of systemctl."""
        return self._would("start", self._start)

    def would_restart(self) -> str:
        """The call of systemctl."""
        return self._would("restart", self._restart)

    def _call(self, verb: str, units: tuple[str, ...], act: Act) -> None:
        if not units:
            message = f"no units are configured to {verb}"
            raise ActuatorError(message, stage=verb, safe_to_retry=False)
        with failing(verb, "systemctl"):
            call(self._arguments(verb, units), act.timeout, _USER_BUS, {})

    def _arguments(self, verb: str, units: tuple[str, ...]) -> list[str]:
        # A unit that says when it is ready may take half an hour to load a model; that is
        # waited for elsewhere, by looking at the server.
        return [*self._systemctl, verb, "--no-block", "--", *units]

    def _would(self, verb: str, units: tuple[str, ...]) -> str:
        if not units:
            return "could not: no units are configured"
        return f"would run {' '.join(self._arguments(verb, units))}"
