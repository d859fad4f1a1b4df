"""Plays the recorded incident to the real daemon and tells what it decides, as it does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from monitor.daemon import Daemon
from monitor.demo.servers import ScaledClock, Stage
from monitor.demo.tape import Story, load_story
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.model import Assessment, Verdict
from monitor.settings import DaemonSettings, JudgeSettings, Role, TargetSettings

RATE = 20.0
"""Seconds of the story per real second."""
INTERVAL = 5.0
_POLL = 0.05
_LONGEST_WAIT = 60.0
"""Real seconds after the last page until the expected verdicts must be there."""

PLAIN = Baseline(
    "plain server of the recording",
    tuple(
        BaselinePoint(running, tpot, 15.0)
        for running, tpot in ((1.0, 0.007842), (4.0, 0.011756), (16.0, 0.023352))
    ),
)
"""Time per output token without speculation, measured at 1, 4 and 16 streams."""

EXPECTED = {
    "code-spec": (Verdict.HEALTHY, Verdict.HARMFUL),
    "chat-spec": (Verdict.DEGRADED,),
    "code-plain": (Verdict.OFF,),
}
"""The verdicts that must come, in this order, for the demo to count as passed."""

NARRATION = (
    (0.0, "three servers start: two with speculation, one plain; scraped each 5 s"),
    (103.0, "chat: the drafter of data-parallel rank 1 collapses"),
    (118.0, "code: the server restarts with a drafter that does not fit its model"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """Something to tell: a decision of the daemon, or a turn of the story."""

    at: float
    """Seconds since the Unix epoch, in the story."""
    text: str
    target: str | None = None
    verdict: Verdict | None = None


Tell = Callable[[Line], None]


class Demo:
    """One run of the incident against a database; listens on ``port`` (0: any)."""

    def __init__(self, database: str, tell: Tell, *, port: int = 0, rate: float = RATE) -> None:
        self._story: Story = load_story()
        self._clock = ScaledClock(self._story.start, rate)
        self._database = database
        self._port = port
        self._tell = tell
        self._seen: dict[str, list[Verdict]] = {name: [] for name in EXPECTED}
        self._last: dict[str, tuple[Verdict, object]] = {}

    @property
    def span(self) -> tuple[float, float]:
        """Beginning and end of the story, in seconds since the Unix epoch."""
        return self._story.start, self._story.start + self._story.end

    @contextmanager
    def playing(self) -> Iterator[str]:
        """Runs servers and daemon; gives the daemon's address."""
        with Stage(self._story, self._clock) as stage:
            settings = self._settings(stage.urls)
            self._daemon = Daemon(settings, load=lambda: settings, clock=self._clock)
            failures: list[BaseException] = []
            thread = threading.Thread(target=self._run, args=(failures,))
            thread.start()
            try:
                while not self._daemon.started.wait(_POLL):
                    if not thread.is_alive():
                        raise failures[0]
                yield f"http://127.0.0.1:{self._daemon.port}"
            finally:
                self._daemon.stop()
                thread.join()

    def _run(self, failures: list[BaseException]) -> None:
        try:
            self._daemon.run()
        except BaseException as error:  # The main thread raises it again.
            failures.append(error)

    def _settings(self, urls: dict[str, str]) -> DaemonSettings:
        targets = tuple(
            TargetSettings(
                name=name,
                service=name.split("-")[0],
                url=url,
                role=Role.BASELINE if name.endswith("plain") else Role.SPECULATIVE,
                interval=INTERVAL,
                timeout=INTERVAL * 0.8,
                judge=JudgeSettings(baseline=PLAIN if name == "code-spec" else None),
            )
            for name, url in urls.items()
        )
        return DaemonSettings(database=self._database, targets=targets, port=self._port)

    def tell_until_end(self) -> bool:
        """Tells the story to its end; True when all expected verdicts came in order."""
        narration = list(NARRATION)
        end = self._story.end + 3.0 * INTERVAL
        while self._clock.monotonic() < end or not self._passed():
            while narration and self._clock.monotonic() >= narration[0][0]:
                offset, text = narration.pop(0)
                self._tell(Line(self._story.start + offset, text))
            self._tell_decisions()
            if self._clock.monotonic() > end + _LONGEST_WAIT * self._clock.rate:
                break
            self._clock.sleep(_POLL * self._clock.rate)
        return self._passed()

    def tell_forever(self) -> None:
        """Goes on telling decisions until interrupted."""
        while True:
            self._tell_decisions()
            self._clock.sleep(_POLL * self._clock.rate)

    def _tell_decisions(self) -> None:
        for view in self._daemon.targets():
            assessment = view.assessment
            if assessment is not None and self._is_news(assessment):
                self._tell(
                    Line(assessment.at, assessment.sentence, assessment.target, assessment.verdict)
                )

    def _is_news(self, assessment: Assessment) -> bool:
        if assessment.window is None and assessment.verdict is Verdict.INSUFFICIENT:
            return False  # Everybody's first look says nothing.
        key = (assessment.verdict, assessment.cause)
        if self._last.get(assessment.target) == key:
            return False
        self._last[assessment.target] = key
        self._seen[assessment.target].append(assessment.verdict)
        return True

    def _passed(self) -> bool:
        return all(
            _in_order(expected, self._seen[target]) for target, expected in EXPECTED.items()
        )


def _in_order(expected: tuple[Verdict, ...], seen: list[Verdict]) -> bool:
    """Whether the expected verdicts were seen in their order, whatever came in between."""
    verdicts = iter(seen)
    return all(wanted in verdicts for wanted in expected)


def clock_text(at: float) -> str:
    """The time of day in the story."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
