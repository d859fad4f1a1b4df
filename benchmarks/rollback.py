"""From a verdict to moved traffic, through the real executor, journal, probe and hook.

    python -m benchmarks.rollback [--rate 30]

Two servers, a router and four clients run in a process of their own, ``rate`` times as fast as
real ones. The daemon's part is played here: a harmful verdict every 15 s. What is printed are the
times of the story, which the waits of the default policy make up almost all of, and what the
machinery itself took: CPU of this process, and real time of each call to the router.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from monitor.demo.router import SHARE_PATH
from monitor.demo.servers import ScaledClock
from monitor.logs import configure
from monitor.model import (
    Action,
    Assessment,
    Cause,
    Counts,
    Engine,
    Estimate,
    Identity,
    Load,
    Verdict,
    Window,
)
from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.hook import HookAccess, HookActuator
from monitor.rollback.evidence import Look
from monitor.rollback.executor import Executor
from monitor.rollback.hands import Gear
from monitor.rollback.model import Phase
from monitor.rollback.probe import ServiceProbe
from monitor.rollback.settings import Mode, Policy, Precheck
from monitor.settings import TargetSettings
from monitor.store import schema
from monitor.store.connect import open_store
from monitor.store.holder import this_process
from monitor.store.lease import DAEMON, Leases
from monitor.store.rollbacks import Rollbacks

POLICY = Policy(mode=Mode.ACT, precheck=Precheck(max_running=64.0))
SCRAPE = 15.0
MOST_SECONDS = 3600.0


class Timed(HookActuator):
    """The hook, and how long each call of it took, in seconds."""

    def __init__(self, access: HookAccess) -> None:
        super().__init__(access)
        self.took: dict[str, list[float]] = {}

    def observe(self, timeout: float) -> Traffic:
        """As it is, timed."""
        with self._timed("observe"):
            return super().observe(timeout)

    def shift(self, share: float, act: Act) -> None:
        """As it is, timed."""
        with self._timed("shift"):
            super().shift(share, act)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.took.setdefault(what, []).append(time.perf_counter() - began)


class Held:
    """A lease that nobody contends for."""

    def __init__(self, fence: int) -> None:
        self._fence = fence

    def fence(self) -> int:
        """Its number."""
        return self._fence

    def remaining(self) -> float:
        """For ever, as far as a run is concerned."""
        return 3600.0


def harmful(now: float) -> Look:
    """What the daemon takes in while speculation costs a third of the speed."""
    assessment = Assessment(
        target="code-spec",
        at=now,
        verdict=Verdict.HARMFUL,
        cause=Cause.WEAK_DRAFTER,
        action=Action.ROLL_BACK,
        sentence="speculation costs 32 % of decode speed",
        identity=Identity(Engine.VLLM, "0.32.0", "tiny-py-llama", "draft_model", 4, 1),
        window=Window(now - 60.0, now, Counts(seconds=60.0, drafts=1438.0, requests=12.0)),
        speedup=Estimate(0.68, 0.63, 0.73),
        load=Load(running=4.0),
    )
    return Look(assessment, fresh=True, votes=("harmful",))


@contextmanager
def stage(rate: float, key: str) -> Iterator[tuple[dict[str, str], list[str]]]:
    """The addresses of the other process, and what it says at the end."""
    said: list[str] = []
    arguments = [sys.executable, "-m", "benchmarks.rollback_stage", str(rate), key]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield json.loads(process.stdout.readline()), said
        process.stdin.close()
        said.append(process.stdout.readline())


def run(rate: float, database: str) -> None:
    """One rollback from the first bad verdict to its end."""
    schema.upgrade(database)
    engine = open_store(database)
    key = secrets.token_bytes(32)
    clock = ScaledClock(time.time(), rate)
    fence = Leases(engine).take(DAEMON, this_process(), 3600.0).fence
    with stage(rate, key.hex()) as (urls, said):
        hook = HookAccess(SecretStr(urls["router"] + SHARE_PATH), keys=(key,))
        actuator = Timed(hook)
        spec, plain = (
            TargetSettings(f"code-{side}", "code", urls[side] + "/metrics")
            for side in ("spec", "plain")
        )
        executor = Executor(
            "code",
            Gear(POLICY, ServiceProbe([plain], [spec], clock=clock), actuator),
            journal=Rollbacks(engine),
            lease=Held(fence),
            clock=clock,
            now=clock.utc,
        )
        rows = follow(executor, clock)
    engine.dispose()
    report(rows, actuator, json.loads(said[0]))


@dataclass(frozen=True)
class Row:
    """A moment of the run."""

    seconds: float
    """Of the story, since the first bad verdict."""
    cpu: float
    what: str


def follow(executor: Executor, clock: ScaledClock) -> list[Row]:
    """Turns until the rollback is done; each change of phase or share is a row."""
    start, cpu = clock.monotonic(), time.process_time()
    rows: list[Row] = []
    fed, seen = start - SCRAPE, ""
    while clock.monotonic() - start < MOST_SECONDS:
        if clock.monotonic() - fed >= SCRAPE:
            fed = clock.monotonic()
            executor.take(harmful(clock.utc()))
        wait = executor.turn()
        state = executor.state
        shown = f"{state.phase.value} {100 * state.share:.0f} %"
        if shown != seen:
            seen = shown
            rows.append(Row(clock.monotonic() - start, time.process_time() - cpu, shown))
        if state.phase in {Phase.DONE, Phase.HELD, Phase.FAILED}:
            break
        clock.sleep(min(wait, max(fed + SCRAPE - clock.monotonic(), 0.0)))
    return rows


def report(rows: Sequence[Row], actuator: Timed, felt: dict[str, float]) -> None:
    """What was measured."""
    print("story s   CPU s   phase, share of the baseline")
    for row in rows:
        print(f"{row.seconds:7.1f} {row.cpu:7.2f}   {row.what}")
    for what, seconds in sorted(actuator.took.items()):
        mean, most = 1000 * sum(seconds) / len(seconds), 1000 * max(seconds)
        print(f"{what}: {len(seconds)} calls, {mean:.1f} ms on average, at most {most:.1f} ms")
    print(f"requests answered {felt['answers']}, failed {felt['failures']}")


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=30.0, help="seconds of story a second")
    arguments = parser.parse_args()
    configure(level="error")
    with tempfile.TemporaryDirectory() as folder:
        run(arguments.rate, f"sqlite:///{Path(folder) / 'rollback.db'}")


if __name__ == "__main__":
    main()
