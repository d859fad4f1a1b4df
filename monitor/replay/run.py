"""Puts the looks of the past through the turns of the present, under other settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge

from monitor.health.combine import combine
from monitor.model import Verdict
from monitor.pipeline import Counted, Tick
from monitor.replay.looks import PastLook
from monitor.replay.outcome import Found, Move
from monitor.replay.variant import Variant
from monitor.rollback.evidence import Look
from monitor.rollback.model import Kind, News
from monitor.rollback.replay import would_have
from monitor.settings import Role, TargetSettings
from monitor.turn.neighbours import Neighbours
from monitor.turn.turn import Turn

RUN_IN = 7_200.0
"""Seconds before the start for which alerts are stepped without being counted: one that fires
at the start must not be taken for a new one."""
WELL = frozenset({Verdict.HEALTHY, Verdict.NEUTRAL, Verdict.OFF})
"""Verdicts that end a loss."""
SICK = frozenset({Verdict.HARMFUL, Verdict.DEGRADED})
_HOUR = 3_600.0


@dataclass(frozen=True, slots=True)
class Player:
    """One target of the past."""

    settings: TargetSettings
    looks: Callable[[], Iterable[PastLook]]
    """Gives its looks from the beginning, ascending."""
    gpus: float
    """How many it runs on."""


@dataclass(slots=True)
class Ledger:
    """What was lost, as far as baselines tell: by time, over the targets of a service."""

    times: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    """GPU-seconds of decoding that the baseline would not have needed."""
    well: list[tuple[float, bool]] = field(default_factory=list)
    """When all targets came to be well, or one of them no longer was."""
    _sick: set[str] = field(default_factory=set)

    def take(self, player: Player, tick: Tick) -> None:
        """Takes in one look at one target."""
        assessment = tick.assessment
        if tick.increments:
            counts = combine({one.label: one.counts for one in tick.increments})
            if counts.compared_seconds > 0.0:
                share = 1.0 - counts.baseline_seconds / counts.compared_seconds
                self.times.append(assessment.at)
                self.lost.append(player.gpus * counts.seconds * share)
        before = bool(self._sick)
        if assessment.verdict in WELL:
            self._sick.discard(player.settings.name)
        elif assessment.verdict in SICK:
            self._sick.add(player.settings.name)
        if before != bool(self._sick):
            self.well.append((assessment.at, before))

    def ended_after(self, at: float) -> float | None:
        """When the loss of a moment ended."""
        return next((when for when, is_well in self.well if is_well and when > at), None)

    def hours_between(self, start: float, end: float | None) -> float | None:
        """GPU-hours that were lost in a span; None where nothing was compared."""
        within = [
            lost
            for at, lost in zip(self.times, self.lost, strict=True)
            if at > start and (end is None or at <= end)
        ]
        return sum(within) / _HOUR if within else None


@dataclass(slots=True)
class Replay:
    """One variant over the past of one service."""

    service: str
    players: Sequence[Player]
    variant: Variant
    start: float
    """What happened before only leads up to it."""
    found: Found = field(init=False)
    _ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.found = Found(self.service)

    def run(
        self,
        noticed: Callable[[float], float | None],
        on_look: Callable[[float], None] = lambda _at: None,
    ) -> Found:
        """What would have been done.

        Args:
            noticed: when somebody was told of what was the matter at a time, if ever.
            on_look: is told how far it has come.
        """
        policy = self.variant.policy_of(self.service)
        decided = list(would_have(self.service, self._looks(on_look), policy))
        for news in decided:
            if news.kind is Kind.PROPOSED:
                self.found.moves.append(self._move(news, noticed(news.at)))
        return self.found

    def _move(self, news: News, noticed_at: float | None) -> Move:
        ended = self._ledger.ended_after(news.at)
        return Move(
            at=news.at,
            cure="" if news.cure is None else news.cure.value,
            sentence=news.sentence,
            noticed_at=noticed_at,
            ended_at=ended,
            gpu_hours=self._ledger.hours_between(news.at, ended),
        )

    def _looks(self, on_look: Callable[[float], None]) -> Iterator[Look]:
        """The looks at the speculative side, as its rollbacks take them in."""
        turns = self._turns()
        for at, player, past in merge(*map(_named, self.players), key=lambda entry: entry[0]):
            turn = turns[player.settings.name]
            turn.pipeline.use_baseline(past.baseline)
            if at <= self.start - RUN_IN:
                if isinstance(past.seen, Counted) and past.seen.increments:
                    turn.pipeline.recall(past.seen, at, past.before)
                continue
            tick, row = turn.take(past.seen, at, keep=False)
            if at <= self.start:
                continue
            on_look(at)
            self.found.looks += 1
            self.found.tell(row.alerts.told)
            if player.settings.role is Role.SPECULATIVE:
                self._ledger.take(player, tick)
                alerts = turn.alerts
                yield Look(tick.assessment, tick.fresh, alerts.votes, alerts.is_flapping())

    def _turns(self) -> Mapping[str, Turn]:
        neighbours = Neighbours()
        return {
            player.settings.name: Turn(
                self.variant.settings(player.settings),
                rules=lambda: self.variant.rules,
                neighbours=neighbours,
            )
            for player in self.players
        }


def _named(player: Player) -> Iterator[tuple[float, Player, PastLook]]:
    return ((look.at, player, look) for look in player.looks())
