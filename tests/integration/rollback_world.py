"""A service with a side that speculates badly and a plain one, between which a hook moves traffic.

The counters of each server grow with the time of the story, as much as its share of the traffic
is; and with each completion that it is asked for, as those of a real server do.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

import hook_server
from hook_server import Hook
from openai_server import OpenAI, openai_server
from pydantic import SecretStr

from monitor.alerting.ruleset import load_rules
from monitor.demo.servers import ScaledClock
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.judging import JudgeSettings
from monitor.rollback.actuators.hook import HookAccess, HookActuator
from monitor.rollback.server_probe import TOKENS
from monitor.rollback.settings import (
    Limits,
    Mode,
    Policy,
    Precheck,
    Shift,
    Trial,
    Verify,
    Voting,
)
from monitor.settings import DaemonSettings, Role, RollbackSettings, TargetSettings

RATE = 60.0
START = 1_800_000_000.0
INTERVAL = 10.0
LOAD = 8.0
STEP_SECONDS = 0.02
"""A decode step of the plain server; speculation takes three times that for 1.5 tokens."""

CURVE = Baseline("plain", (BaselinePoint(1.0, STEP_SECONDS), BaselinePoint(64.0, STEP_SECONDS)))
# A second of a busy machine is a minute of the story: no deadline here may be about that.
POLICY = Policy(
    mode=Mode.ACT,
    voting=Voting(needed=2, of=3, spacing=10.0),
    limits=Limits(cooldown=3600.0),
    precheck=Precheck(pause=5.0, model="demo", deadline=36_000.0, slowest=1200.0),
    shift=Shift(steps=(0.5, 1.0), hold=20.0, retry=5.0, blind=36_000.0),
    verify=Verify(seconds=20.0),
    trial=Trial(share=0.5, hold=30.0, good_windows=1),
)
# The shipped rule but for its patience, which is told as stories under a clock by hand.
RULES = tuple(
    replace(rule, hold_seconds=0.0, hold_windows=1)
    for rule in load_rules([]).rules
    if rule.id == "harmful"
)


class Side:
    """One model server, whose page is that of a busy one."""

    def __init__(self, world: World, server: OpenAI, *, speculates: bool) -> None:
        self.server = server
        self._world = world
        self._speculates = speculates
        self._lock = threading.Lock()
        self._at = time.monotonic()
        self._steps = 0.0
        server.page = self.page

    @property
    def traffic(self) -> float:
        """Its share of the traffic."""
        share = float(self._world.hook.share)
        return 1.0 - share if self._speculates else share

    def page(self) -> bytes:
        """The page of now."""
        with self._lock:
            now = time.monotonic()
            running, self._at = LOAD * self.traffic, (passed := now - self._at, now)[1]
            per_second = RATE / (self.step * 1.0)
            self._steps += passed * per_second * running
            return self._page(running, self._steps)

    @property
    def step(self) -> float:
        """Seconds of a decode step."""
        return self._world.step if self._speculates else STEP_SECONDS

    def _page(self, running: float, steps: float) -> bytes:
        probed = float(TOKENS * len(self.server.bodies))
        accepted = 0.5 if self._speculates else 0.0
        requests = steps / 200.0
        tokens = steps * (1.0 + accepted) + requests + probed
        figures = {
            "num_requests_running": running,
            "num_requests_waiting": 0.0,
            "generation_tokens_total": tokens,
            "request_success_total": requests,
            "time_to_first_token_seconds_sum": requests * 0.1,
            "time_to_first_token_seconds_count": requests,
            "inter_token_latency_seconds_sum": steps * self.step,
            "inter_token_latency_seconds_count": steps,
            "iteration_tokens_total_count": steps / max(running, 1.0),
        }
        if self._speculates:
            figures |= {
                "spec_decode_num_drafts_total": steps,
                "spec_decode_num_draft_tokens_total": steps * 3,
                "spec_decode_num_accepted_tokens_total": steps * accepted,
            }
        lines = (
            f'vllm:{name}{{engine="0",model_name="demo"}} {value}'
            for name, value in figures.items()
        )
        return "\n".join(("# TYPE vllm:num_requests_running gauge", *lines, "")).encode()


@dataclass
class World:
    """Both sides and the hook between them."""

    hook: Hook
    step: float = 3 * STEP_SECONDS
    """Seconds of a decode step with speculation."""

    def open(self, stack: ExitStack) -> None:
        """Starts the servers."""
        self.spec, self.plain = (
            Side(self, stack.enter_context(openai_server()), speculates=speculates)
            for speculates in (True, False)
        )

    def settings(self, database: str, policy: Policy = POLICY) -> DaemonSettings:
        """What a daemon that watches over it is told."""
        return settings(
            database, self.spec.server.url, self.plain.server.url, self.hook.url, policy
        )


def settings(
    database: str, spec: str, plain: str, hook: str, policy: Policy = POLICY
) -> DaemonSettings:
    """The settings of a daemon that watches over such a service."""
    gap = 600.0
    return DaemonSettings(
        database=database,
        targets=(
            TargetSettings(
                "spec",
                "chat",
                f"{spec}/metrics",
                interval=INTERVAL,
                gap=gap,
                judge=JudgeSettings(baseline=CURVE),
            ),
            TargetSettings(
                "plain", "chat", f"{plain}/metrics", Role.BASELINE, interval=INTERVAL, gap=gap
            ),
        ),
        port=0,
        shutdown_seconds=20.0,
        config_hash="one",
        rules=RULES,
        rollbacks={
            "chat": RollbackSettings(policy, HookActuator(HookAccess(SecretStr(hook)))),
        },
    )


def clock(began: float) -> ScaledClock:
    """The clock of the story, which began at that time of the machine."""
    return ScaledClock(START + RATE * (time.time() - began), RATE)


@contextmanager
def world() -> Iterator[World]:
    """A world that exists until the block is left."""
    with ExitStack() as stack:
        made = World(stack.enter_context(hook_server.hook()))
        made.open(stack)
        yield made


def told(orders: list[dict[str, object]]) -> list[str]:
    """The orders of a hook, in a line each."""
    return [json.dumps([order["id"], order["action"], order.get("share")]) for order in orders]
