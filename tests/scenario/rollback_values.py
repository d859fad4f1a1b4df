"""Looks, sides and events for tests of rollbacks."""

from __future__ import annotations

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
from monitor.rollback.ballots import Box
from monitor.rollback.evidence import Circumstances, Completion, Look, Pulse, Side, Sight
from monitor.rollback.machine import step
from monitor.rollback.model import Command, Order
from monitor.rollback.scene import Event, Looked, Transition
from monitor.rollback.settings import Mode, Policy, Precheck, Start, Voting
from monitor.rollback.state import State

NOON = 1_750_000_000.0
MODEL = "Qwen/Qwen3-8B"
SERVER = Identity(Engine.VLLM, "0.11.0", MODEL, "eagle3", 5, 1)
CLEAR = Circumstances()
LOSS, GAIN = Estimate(0.66, 0.60, 0.73), Estimate(1.5, 1.4, 1.6)
POLICY = Policy(mode=Mode.ACT, precheck=Precheck(max_running=64.0), start=Start(can_start=True))


def assessment(
    at: float = NOON,
    *,
    target: str = "chat-1",
    verdict: Verdict = Verdict.HARMFUL,
    cause: Cause | None = Cause.WEAK_DRAFTER,
    speedup: Estimate | None = LOSS,
    rate: Estimate | None = None,
    identity: Identity = SERVER,
    running: float = 8.0,
    seconds: float = 60.0,
) -> Assessment:
    return Assessment(
        target=target,
        at=at,
        verdict=verdict,
        cause=cause,
        action=Action.ROLL_BACK,
        sentence="speculation costs 34 % of decode speed",
        identity=identity,
        window=Window(at - seconds, at, Counts(seconds=seconds, drafts=1438.0, requests=12.0)),
        acceptance_rate=rate,
        speedup=speedup,
        load=Load(running=running),
    )


def bad(at: float = NOON, target: str = "chat-1", **changes: object) -> Look:
    return Look(assessment(at, target=target, **changes), fresh=True, votes=("harmful",))  # type: ignore[arg-type]


def good(at: float = NOON, target: str = "chat-1", identity: Identity = SERVER) -> Look:
    found = assessment(
        at, target=target, verdict=Verdict.HEALTHY, cause=None,
        speedup=GAIN, identity=identity,
    )  # fmt: skip
    return Look(found, fresh=True)


def nothing(
    at: float, verdict: Verdict = Verdict.IDLE, *, fresh: bool = True, target: str = "chat-1"
) -> Look:
    found = assessment(at, target=target, verdict=verdict)._replace(cause=None, speedup=None)
    return Look(found, fresh=fresh, votes=("harmful",))


def box(*looks: Look, voting: Voting = POLICY.voting) -> Box:
    filled = Box()
    for look in looks:
        filled.take(look, voting)
    return filled


def hurt(now: float = NOON) -> Box:
    """Enough votes, the newest at ``now``."""
    return box(*(bad(now - 60.0 * n) for n in range(3, -1, -1)))


def side(
    at: float,
    tokens: float | None,
    *,
    name: str = "plain-1",
    error: str | None = None,
    page: str | None = None,
    running: float = 2.0,
    waiting: float = 0.0,
    seconds: float = 0.4,
    tpot: float = 0.02,
    failures: float = 0.0,
    model: str = MODEL,
    birth: float | None = 1.0,
) -> Side:
    """One server of a side; ``error``: it does not answer, ``page``: its page cannot be read."""
    got = 0 if error else 8
    completion = Completion(name, at, seconds, got, None if error else model, error)
    if page is not None:
        return Side((completion,), (Pulse(name, at, error=page),))
    pulse = Pulse(
        name, at, running=running, waiting=waiting, output_tokens=tokens,
        decode_seconds=None if tokens is None else tokens * tpot, decode_tokens=tokens,
        requests=None if tokens is None else tokens / 100.0, failures=failures, model=model,
        birth=birth,
    )  # fmt: skip
    return Side((completion,), (pulse,))


def command(order: Order, at: float = NOON, **changes: object) -> Command:
    return Command("c1", "chat", order, "anna", at, **changes)  # type: ignore[arg-type]


def look(state: State, filled: Box, sight: Sight, policy: Policy = POLICY) -> Transition:
    return step(state, Looked(filled, sight), policy, CLEAR, sight.at)


def after(
    state: State, event: Event, now: float, policy: Policy = POLICY, around: Circumstances = CLEAR
) -> Transition:
    return step(state, event, policy, around, now)
