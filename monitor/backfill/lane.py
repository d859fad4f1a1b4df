"""One target on its way through the past: which looks are taken in, and from what memory."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from monitor.backfill.looks import Look
from monitor.model import Increment
from monitor.settings import TargetSettings
from monitor.store.backfill import Filled
from monitor.store.cover import Cover, Stretch
from monitor.store.rows import RoundRow, StoredState
from monitor.turn.turn import Outcome, Turn

PRIMERS = 20
"""Looks before the first one that is taken in, from which its page may follow."""
REMEMBERED = 90_000.0
"""Seconds of samples from which windows of a day are built again, and a little more."""
LIVE = "the monitor watched at that time"
KNOWN = "backfilled before"
EARLIER = "before the start"
AGAIN = "of the same time as the one before"


class Past(Protocol):
    """What a lane asks the store."""

    def live_state(self, target: str) -> StoredState | None:
        """Where the daemon stopped."""
        ...

    def history(self, target: str, start: float, end: float) -> Sequence[Increment]:
        """The samples that end in (``start``, ``end``], ascending."""
        ...

    def begin_at(self, target: str, at: float) -> None:
        """Lets the next rows follow on what was known before ``at``."""
        ...


@dataclass(slots=True)
class Lane:
    """Takes the looks at one target.

    A look at a moment of which something is stored is passed over: what the daemon saw wins,
    and what was filled in before stays. Between such stretches the memory goes on from the
    end of the one before, so that a run in pieces comes to the same as one in one go.
    """

    settings: TargetSettings
    cover: Cover
    past: Past
    make_turn: Callable[[TargetSettings, float], Turn]
    """Makes a turn that begins at some time."""
    flush: Callable[[], None]
    """Writes what was taken in so far, before it is read again."""
    source: str
    start: float
    """Looks before this are not taken in."""
    _turn: Turn | None = None
    _begin: float = 0.0
    _end: float = 0.0
    _latest: RoundRow | None = None
    _document: tuple[str, float] | None = None
    _unsaved: bool = False
    _primers: deque[Look] = field(default_factory=lambda: deque(maxlen=PRIMERS))

    @property
    def name(self) -> str:
        """The name of the target."""
        return self.settings.name

    @property
    def resumes_at(self) -> float:
        """Before this, there is nothing to be done."""
        return self.cover.free_from(self.start)

    def control_at(self, at: float) -> Mapping[str, Any] | None:
        """What was remembered by ``at`` of the control of a plain server."""
        before = self.cover.before(at)
        if before is None or before.memory is None or before.end > at:
            return None
        control: Mapping[str, Any] | None = json.loads(before.memory)["control"]
        return control

    def take(self, look: Look) -> Outcome | str:
        """Takes one look in, or says why not."""
        if self._turn is not None and look.at <= self._end:
            return AGAIN
        reason = self._pass_over(look.at)
        if reason is not None:
            self._primers.append(look)
            return reason
        turn = self._turn or self._enter(look.at)
        # Where alerts stand is kept with the rest of the memory; the daemon's own stay its own.
        outcome = turn.take(look.seen, look.at, keep=False)
        row = outcome.row
        self._latest, self._end, self._unsaved = row, look.at, True
        if row.document is not None:
            self._document = row.document, look.at
        return outcome

    def filled(self) -> Filled | None:
        """How far this lane has come since the last ``saved``; None where it has not moved."""
        if not self._unsaved or self._turn is None or self._latest is None:
            return None
        document, assessed_at = self._document or (None, None)
        memory = self._turn.remember() | {
            "problem": self._latest.problem,
            "assessment": document,
            "assessed_at": assessed_at,
        }
        text = json.dumps(memory, separators=(",", ":"))
        return Filled(self.name, self._begin, self._end, self.source, text)

    def saved(self) -> None:
        """Notes that everything so far is stored."""
        self._unsaved = False

    def _pass_over(self, at: float) -> str | None:
        stretch = self.cover.at(at)
        # What led up to the first look of a stretch is not in it: it came without a past.
        reaches = self._turn is not None and stretch is not None and at == stretch.start
        if stretch is None or reaches:
            return EARLIER if at < self.start else None
        if self._turn is not None:
            self.flush()
            self._turn = None
        return LIVE if stretch.live else KNOWN

    def _enter(self, at: float) -> Turn:
        """Begins to take in, from the memory of what comes before."""
        self.flush()
        before = self.cover.before(at)
        turn = self.make_turn(self.settings, at)
        self._begin, self._document = at, None
        if before is not None and before.memory is not None:
            self._resume(turn, before, json.loads(before.memory))
        elif before is not None:
            self._follow(turn, before)
        for look in self._primers:
            turn.pipeline.prime(look.seen, look.at)
        self._primers.clear()
        self.past.begin_at(self.name, at)
        self._turn = turn
        return turn

    def _resume(self, turn: Turn, before: Stretch, memory: Mapping[str, Any]) -> None:
        turn.resume(memory, self._history(before.end))
        self._begin = before.start
        if memory["assessment"] is not None:
            self._document = memory["assessment"], memory["assessed_at"]

    def _follow(self, turn: Turn, before: Stretch) -> None:
        """Goes on where the daemon stopped, unless it has gone on itself since."""
        state = self.past.live_state(self.name)
        if state is None or state.at > before.end:
            return
        turn.restore(state.state, self._history(state.at), None, None)
        self._begin = state.at

    def _history(self, until: float) -> Sequence[Increment]:
        return self.past.history(self.name, until - REMEMBERED, until)
