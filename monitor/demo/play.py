"""Plays the recorded incident to the real daemon and tells what it decides, as it does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import SecretStr

from monitor.alerting.receivers import ReceiverSettings, WebhookSettings
from monitor.alerting.routes import Routing
from monitor.alerting.ruleset import load_rules
from monitor.daemon import Daemon
from monitor.demo.recovery import Recovery
from monitor.demo.servers import ScaledClock
from monitor.demo.stage import LIVE_FROM, Stage
from monitor.demo.tape import Story, load_story
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.model import Assessment, Verdict
from monitor.rollback.actuators.hook import HookAccess, HookActuator
from monitor.rollback.actuators.shares import percent
from monitor.rollback.messages import RULE as ROLLBACK
from monitor.rollback.settings import Mode, Policy, Precheck, Shift, Verify, Voting
from monitor.settings import (
    DaemonSettings,
    JudgeSettings,
    Role,
    RollbackSettings,
    TargetSettings,
)

RATE = 20.0
"""Seconds of the story per real second."""
INTERVAL = 5.0
PATIENCE = 300.0
"""Seconds of the story for what takes real time: a busy machine is no sick server."""
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

POLICY = Policy(
    mode=Mode.ACT,
    voting=Voting(needed=3, of=4, spacing=INTERVAL),
    precheck=Precheck(pause=INTERVAL, slowest=PATIENCE),
    shift=Shift(steps=(0.25, 1.0), hold=20.0, act_timeout=PATIENCE),
    verify=Verify(seconds=20.0),
)
"""As by default, but for waits that nobody would sit through."""

NARRATION = (
    (0.0, "three servers start: two with speculation, one plain; scraped each 5 s"),
    (103.0, "chat: the drafter of data-parallel rank 1 collapses"),
    (118.0, "code: the server restarts with a drafter that does not fit its model"),
    (LIVE_FROM, "code: from here on, four clients ask through a router that a hook can move"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """Something to tell: a decision of the daemon, or a turn of the story."""

    at: float
    """Seconds since the Unix epoch, in the story."""
    text: str
    target: str | None = None
    """The target of a verdict, or the service of a message."""
    verdict: Verdict | None = None
    message: str | None = None
    """What kind of message came over the pager."""


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
        self._share = 0.0

    @property
    def span(self) -> tuple[float, float]:
        """Beginning and end of the story, in seconds since the Unix epoch."""
        return self._story.start, self._story.start + self._story.end

    @contextmanager
    def playing(self) -> Iterator[str]:
        """Runs servers and daemon; gives the daemon's address."""
        with Stage(self._story, self._clock) as stage:
            settings = self._settings(stage)
            self._stage, self._recovery = stage, Recovery()
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

    def _settings(self, stage: Stage) -> DaemonSettings:
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
            for name, url in stage.urls.items()
        )
        hook = HookAccess(SecretStr(stage.hook), keys=(stage.key,))
        pager = ReceiverSettings("pager", WebhookSettings(SecretStr(stage.pager)))
        return DaemonSettings(
            database=self._database,
            targets=targets,
            port=self._port,
            lease_seconds=PATIENCE,
            rules=load_rules([]).rules,
            receivers=(pager,),
            routing=Routing((pager.name,)),
            rollbacks={"code": RollbackSettings(POLICY, HookActuator(hook, clock=self._clock))},
        )

    def tell_until_end(self) -> bool:
        """Tells the story to its end; True when all expected verdicts came in order."""
        narration = list(NARRATION)
        end = self._story.end + 3.0 * INTERVAL
        while self._clock.monotonic() < end or not self._passed():
            while narration and self._clock.monotonic() >= narration[0][0]:
                offset, text = narration.pop(0)
                self._tell(Line(self._story.start + offset, text))
            self._tell_news()
            if self._clock.monotonic() > end + _LONGEST_WAIT * self._clock.rate:
                break
            self._clock.sleep(_POLL * self._clock.rate)
        return self._passed()

    def tell_forever(self) -> None:
        """Goes on telling decisions until interrupted."""
        while True:
            self._tell_news()
            self._clock.sleep(_POLL * self._clock.rate)

    def _tell_news(self) -> None:
        for view in self._daemon.targets():
            assessment = view.assessment
            if assessment is not None and self._is_news(assessment):
                self._tell(
                    Line(assessment.at, assessment.sentence, assessment.target, assessment.verdict)
                )
        for message in self._stage.paged():
            self._recovery.take(message, self._stage.felt())
            self._tell(self._message(message))
        if self._stage.share != self._share:
            self._share = self._stage.share
            text = f"code: the router gives {percent(self._share)} of the requests to plain"
            self._tell(Line(self._clock.utc(), text))
        sentence = self._recovery.news(self._stage.felt())
        if sentence is not None:
            self._tell(Line(self._clock.utc(), sentence))

    def _message(self, message: Mapping[str, object]) -> Line:
        """What came over the pager; why an alert fires has been told with the verdict."""
        service, text = str(message["service"]), str(message["title"])
        is_alert = message["rule"] != ROLLBACK
        if not is_alert or message["reason"] != "first":
            text += f": {message['sentence']}"
        kind = str(message["state"]).upper() if is_alert else "ROLLBACK"
        return Line(self._clock.utc(), text, service, message=kind)

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
        return self._recovery.is_told and all(
            _in_order(expected, self._seen[target]) for target, expected in EXPECTED.items()
        )


def _in_order(expected: tuple[Verdict, ...], seen: list[Verdict]) -> bool:
    """Whether the expected verdicts were seen in their order, whatever came in between."""
    verdicts = iter(seen)
    return all(wanted in verdicts for wanted in expected)


def clock_text(at: float) -> str:
    """The time of day in the story."""
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
