"""A simulated target under a monitor that stores what it sees, as the daemon does."""

from __future__ import annotations

import json

from traffic import INTERVAL, Server

from monitor.health import memory
from monitor.health.baseline import Baseline
from monitor.health.judging import JudgeSettings
from monitor.health.target import TargetState
from monitor.model import Assessment
from monitor.report import to_document
from monitor.settings import TargetSettings
from monitor.store.repository import Repository
from monitor.store.rows import Change, RoundRow


class Watched:
    """Looks at a server, judges, and stores each look."""

    def __init__(
        self,
        repository: Repository,
        server: Server,
        baseline: Baseline | None = None,
        name: str = "gpu1",
    ) -> None:
        self.server = server
        self.name = name
        judge = JudgeSettings(baseline=baseline)
        self.state = TargetState(name, INTERVAL, judge)
        self.said: list[Assessment] = []
        self._repository = repository
        settings = TargetSettings(name, "chat", "http://gpu1:8000", judge=judge)
        settings = TargetSettings(name, "chat", "http://gpu1:8000", interval=INTERVAL, judge=judge)
        repository.register([settings], server.now)

    def watch(self, minutes: float) -> Assessment:
        """Some minutes of looks, one each interval."""
        rows = [self._look() for _ in range(round(minutes * 60.0 / INTERVAL))]
        self._repository.write_round(rows)
        return self.said[-1]

    def miss(self, minutes: float) -> Assessment:
        """Some minutes in which no page can be had."""
        rows = []
        for _ in range(round(minutes * 60.0 / INTERVAL)):
            self.server.now += INTERVAL
            missed = self.state.misses_pages(self.server.now)
            down = self.state.down("connection refused", self.server.now)
            rows.append(self._row((), down if missed else self.said[-1]))
        self._repository.write_round(rows)
        return self.said[-1]

    def _look(self) -> RoundRow:
        increments = self.state.observe(self.server.look())
        return self._row(increments, self.state.assess(self.server.now))

    def _row(self, increments: object, answer: Assessment) -> RoundRow:
        key = (answer.verdict, answer.cause, answer.action)
        changed = key != self.state.memory.verdict
        self.state.memory.verdict = key
        self.said.append(answer)
        document = json.dumps(to_document(answer))
        change = Change(*key, answer.sentence, document) if changed else None
        return RoundRow(
            self.name,
            self.server.now,
            increments,  # type: ignore[arg-type]
            memory.to_text(self.state),
            document,
            change,
            answer.identity,
        )
