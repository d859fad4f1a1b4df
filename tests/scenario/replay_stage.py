"""Targets that are watched and stored by the turns of the daemon, under simulated traffic."""

from __future__ import annotations

from collections.abc import Sequence

from explain_stage import PLAIN
from traffic import INTERVAL, Server

from monitor.alerting.model import Notification
from monitor.alerting.ruleset import load_rules
from monitor.health.judging import JudgeSettings
from monitor.pipeline import NoPage
from monitor.settings import TargetSettings
from monitor.store.repository import Repository
from monitor.turn.neighbours import Neighbours
from monitor.turn.turn import Turn

RULES = load_rules((), defaults=True).rules


class Fleet:
    """Some targets of one service, looked at at the same times."""

    def __init__(self, repository: Repository, names: Sequence[str] = ("gpu1",)) -> None:
        self.told: list[Notification] = []
        self.servers = {name: Server(seed=number) for number, name in enumerate(names)}
        judge = JudgeSettings(baseline=PLAIN)
        settings = [TargetSettings(name, "chat", f"http://{name}", judge=judge) for name in names]
        neighbours = Neighbours()
        self._turns = {
            one.name: Turn(one, rules=lambda: RULES, neighbours=neighbours) for one in settings
        }
        self._repository = repository
        repository.register(settings, self.now)

    @property
    def now(self) -> float:
        """The time of the last look."""
        return max(server.now for server in self.servers.values())

    def watch(self, minutes: float, *, down: Sequence[str] = ()) -> None:
        """Some minutes of looks, one each interval; no page comes of those that are down."""
        rows = []
        for _ in range(round(minutes * 60.0 / INTERVAL)):
            for name, server in self.servers.items():
                sample = server.look()
                seen = NoPage("connection refused") if name in down else sample
                _, row = self._turns[name].take(seen, server.now)
                self.told += row.alerts.told
                rows.append(row)
        self._repository.write_round(rows)
