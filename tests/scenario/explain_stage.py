"""A simulated target under a monitor that stores what it sees, as the daemon does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from traffic import INTERVAL, Server

from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.judging import JudgeSettings
from monitor.health.orders import apply_order
from monitor.health.target import TargetState
from monitor.model import Assessment, Increment, Sample
from monitor.pipeline import state_text
from monitor.report import to_document
from monitor.settings import TargetSettings
from monitor.store.repository import Repository
from monitor.store.rows import Change, RoundRow, StoredOrder

PLAIN = Baseline("plain", tuple(BaselinePoint(n, 0.011 + 0.0005 * n) for n in (1.0, 8.0, 64.0)))


class Watched:
    """Looks at a server, judges, and stores each look."""

    def __init__(
        self,
        repository: Repository,
        server: Server,
        baseline: Baseline | None = None,
        name: str = "gpu1",
        engines: int = 1,
    ) -> None:
        self.server = server
        self.name = name
        self.sick: int | None = None
        """The engine that hardly accepts anything, where there are several."""
        self.said: list[Assessment] = []
        judge = JudgeSettings(baseline=baseline)
        self.state = TargetState(name, INTERVAL, judge)
        self._repository = repository
        self._engines = engines
        self._lost = 0.0
        settings = TargetSettings(name, "chat", "http://gpu1:8000", interval=INTERVAL, judge=judge)
        repository.register([settings], server.now)

    def watch(self, minutes: float) -> Assessment:
        """Some minutes of looks, one each interval."""
        self._write([self._look() for _ in range(round(minutes * 60.0 / INTERVAL))])
        return self.said[-1]

    def miss(self, minutes: float) -> Assessment:
        """Some minutes in which no page can be had."""
        rows = []
        for _ in range(round(minutes * 60.0 / INTERVAL)):
            self.server.now += INTERVAL
            missed = self.state.misses_pages(self.server.now)
            down = self.state.down("connection refused", self.server.now)
            standing = self.said[-1]._replace(at=self.server.now)
            rows.append(self._row((), down if missed else standing))
        self._write(rows)
        return self.said[-1]

    def _write(self, rows: list[RoundRow]) -> None:
        # Of the state and the assessment only the last ones stay, so only they are made.
        answer = self.said[-1]
        last = rows[-1]._replace(
            state=state_text(self.state),
            document=json.dumps(to_document(answer)),
        )
        self._repository.write_round([*rows[:-1], last])

    def obey(self, given: StoredOrder) -> None:
        """Carries an order out with the next look."""
        assert apply_order(self.state, given.order)
        self._write([self._look()._replace(obeyed=(given.id,))])

    def write(self, state: str) -> None:
        """Stores another memory with the latest look."""
        row = self._row((), self.said[-1])
        self._repository.write_round([row._replace(state=state)])

    def _look(self) -> RoundRow:
        increments = self.state.observe(self._page())
        return self._row(increments, self.state.assess(self.server.now))

    def _page(self) -> Sample:
        """The page of the server, as many times as it has engines."""
        sample = self.server.look()
        if self._engines == 1:
            return sample
        (one,) = sample.readings
        accepted = one.counters["accepted_tokens"]
        if self.sick is None:
            self._lost = accepted
        sick = one.counters | {"accepted_tokens": self._lost}
        readings = [
            replace(one, label=str(i), counters=dict(sick if i == self.sick else one.counters))
            for i in range(self._engines)
        ]
        # Only the totals tell of this sickness, which positions would contradict.
        sample.readings = [replace(reading, positions=()) for reading in readings]
        return sample

    def _row(self, increments: Sequence[Increment], answer: Assessment) -> RoundRow:
        key = (answer.verdict, answer.cause, answer.action)
        changed = key != self.state.memory.verdict
        self.state.memory.verdict = key
        self.said.append(answer)
        change = None
        if changed:
            change = Change(*key, answer.sentence, json.dumps(to_document(answer)))
        identity = answer.identity
        return RoundRow(
            self.name, self.server.now, increments, "{}", change=change, identity=identity
        )
