"""HAProxy: weights of the servers of one backend, through the runtime API.

What is set is read back, and what is restored are the weights of HAProxy's own configuration,
which it remembers beside those of the moment. Sources: HAProxy's management guide, "show servers
state" (version 1 of its format) and "set weight".
"""

from __future__ import annotations

import io
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.clock import Clock, SystemClock
from monitor.config.values import parse_listen
from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.failing import Deadline, PeerError, failing
from monitor.rollback.actuators.shares import any_of, percent
from monitor.settings import Credentials
from monitor.sources import wire
from monitor.sources.address import Address
from monitor.sources.errors import FetchError, FetchKind

_MAX_ANSWER = 4 * 1024 * 1024
_MAX_WEIGHT = 256
_RUNNING = 2
"""SRV_ST_RUNNING; 0 is stopped, 1 starting, 3 stopping."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the backend as HAProxy sees it."""

    weight: int
    """The one in force."""
    initial: int
    """The one of HAProxy's configuration."""
    up: bool
    """Whether it gets traffic if its weight is not 0."""


class HaproxyActuator:
    """Moves traffic between two groups of servers of a backend."""

    def __init__(
        self,
        socket_name: str,
        backend: str,
        speculative: Sequence[str],
        baseline: Sequence[str],
        *,
        clock: Clock | None = None,
    ) -> None:
        self._socket = socket_name
        self._backend = backend
        self._speculative = tuple(speculative)
        self._baseline = tuple(baseline)
        self._clock = clock or SystemClock()
        self._peer = f"HAProxy at {socket_name}"

    def observe(self, timeout: float) -> Traffic:
        """The share that the weights of the servers that are up amount to."""
        with failing("observe", self._peer):
            servers = self._servers(Deadline(timeout, self._clock))
        # A sick server of the speculative side may be back at any moment, so that its side is not
        # said to be without its part; one of any other kind that is down gets nothing.
        weights = {
            name: server.weight if server.up or name in self._speculative else 0
            for name, server in servers.items()
        }
        baseline = sum(weights[name] for name in self._baseline)
        total = sum(weights.values())
        down = [name for name in (*self._speculative, *self._baseline) if not servers[name].up]
        shown = f"; not up: {', '.join(down)}" if down else ""
        if not total:
            return Traffic(None, f"no server of {self._backend} gets traffic{shown}")
        share = baseline / total
        return Traffic(share, f"weights give {percent(share)} to the baseline{shown}")

    def shift(self, share: float, act: Act) -> None:
        """Sets the weights."""
        deadline = Deadline(act.timeout, self._clock)
        with failing("shift", self._peer):
            servers = self._servers(deadline)
            self._set(self._weights(share, servers), deadline)

    def restore(self, act: Act) -> None:
        """Sets the weights that stand in HAProxy's configuration."""
        deadline = Deadline(act.timeout, self._clock)
        with failing("restore", self._peer):
            servers = self._servers(deadline)
            names = (*self._speculative, *self._baseline)
            self._set({name: servers[name].initial for name in names}, deadline)

    def would(self, share: float) -> str:
        """Which weights would be set."""
        return (
            f"would set the weights of {self._backend} in HAProxy: {percent(share)} to "
            f"{', '.join(self._baseline)}, the rest to {', '.join(self._speculative)}"
        )

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """Any: weights go up to 256."""
        return any_of(shares)

    def _weights(self, share: float, servers: dict[str, Server]) -> dict[str, int]:
        """Whole weights that split traffic as wanted, and each side as it is configured.

        The baseline's share is for those of its servers that are up.
        """
        up = [name for name in self._baseline if servers[name].up]
        if share and not up:
            raise PeerError(f"no server of the baseline side of {self._backend} is up")
        parts = {
            **_split(share, self._baseline, up, servers),
            **_split(1 - share, self._speculative, self._speculative, servers),
        }
        scale = _MAX_WEIGHT / max(parts.values())
        # A server that is to get something must not be rounded out of it.
        return {name: max(1, round(part * scale)) if part else 0 for name, part in parts.items()}

    def _set(self, weights: dict[str, int], deadline: Deadline) -> None:
        servers = self._servers(deadline)
        changes = {name: w for name, w in weights.items() if servers[name].weight != w}
        # Up before down, so that there is a server with a weight at any moment.
        for name in sorted(changes, key=lambda name: servers[name].weight - changes[name]):
            said = self._ask(f"set weight {self._backend}/{name} {changes[name]}", deadline)
            found = self._servers(deadline)[name].weight
            if found != changes[name]:
                reason = said.strip() or f"the weight of {name} stayed {found}"
                raise PeerError(reason, lasting=True)

    def _servers(self, deadline: Deadline) -> dict[str, Server]:
        text = self._ask(f"show servers state {self._backend}", deadline)
        servers = read_servers(text)
        missing = [n for n in (*self._speculative, *self._baseline) if n not in servers]
        if missing:
            raise PeerError(f"{self._backend} has no server {missing[0]}", lasting=True)
        return servers

    def _ask(self, command: str, deadline: Deadline) -> str:
        try:
            with self._connect(deadline) as sock:
                sock.settimeout(deadline.left())
                sock.sendall(command.encode() + b"\n")
                reader = wire.DeadlineReader(
                    sock, deadline.end, _MAX_ANSWER, self._clock.monotonic
                )
                return io.BufferedReader(reader).read().decode("utf-8", "replace")
        except TimeoutError:
            raise PeerError("no answer in time") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise FetchError(FetchKind.CONNECT, f"the connection failed: {reason}") from None

    def _connect(self, deadline: Deadline) -> socket.socket:
        if not self._socket.startswith("/"):
            host, port = parse_listen(self._socket)
            address = Address("http", host, port, "/", "")
            return wire.connect(address, Credentials(), deadline.end, self._clock.monotonic)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(deadline.left())
            sock.connect(self._socket)
        except BaseException:
            sock.close()
            raise
        return sock


def read_servers(text: str) -> dict[str, Server]:
    """The servers of an answer to ``show servers state``; ``PeerError`` where it is none."""
    version, _, rest = text.partition("\n")
    header, *rows = [line for line in rest.splitlines() if line.strip()] or [""]
    columns = header.removeprefix("# ").split()
    if version.strip() != "1" or not {"srv_name", "srv_uweight"} <= set(columns):
        said = " ".join(text.split())
        raise PeerError(said or "the answer is not understood", lasting=True)
    servers = {}
    for row in rows:
        cells = dict(zip(columns, row.split(), strict=False))
        try:
            servers[cells["srv_name"]] = Server(
                weight=int(cells["srv_uweight"]),
                initial=int(cells["srv_iweight"]),
                # Any bit of the administrative state means maintenance or drain.
                up=int(cells["srv_op_state"]) == _RUNNING and int(cells["srv_admin_state"]) == 0,
            )
        except (KeyError, ValueError):
            raise PeerError("the answer is not understood", lasting=True) from None
    return servers


def _split(
    share: float, names: Sequence[str], among: Sequence[str], servers: dict[str, Server]
) -> dict[str, float]:
    """A side's share by its servers, in proportion to their configured weights.

    It is what those in ``among`` get together; the others get as much, should they come up.
    """
    units = {name: servers[name].initial for name in names}
    if not all(units.values()):
        # A side that is configured to get nothing says nothing about how to split something.
        units = dict.fromkeys(names, 1)
    total = sum(units[name] for name in among)
    return {name: share * unit / total if share else 0.0 for name, unit in units.items()}
