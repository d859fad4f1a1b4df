"""Looks at a service and carries out one act: all that an executor does outside the process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act, Actuator, Starter
from monitor.rollback.asks import asks
from monitor.rollback.evidence import Circumstances, Progress, Side, Sight
from monitor.rollback.model import Do, Phase, Step
from monitor.rollback.ports import Probe
from monitor.rollback.scene import Acted
from monitor.rollback.settings import Policy
from monitor.rollback.state import State

PAGE_TIMEOUT = 10.0
"""Seconds for a metrics page, and for a look at a router."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Gear:
    """What the executor of one service works with; replaced whole with the configuration."""

    policy: Policy
    """With shares that the actuator can set (``asks.attainable``)."""
    probe: Probe
    actuator: Actuator
    starter: Starter | None = None
    around: Callable[[], Circumstances] = Circumstances
    """What else holds now: silences, and what the audit is to keep."""


def look(gear: Gear, state: State, now: Callable[[], float]) -> Sight:
    """Looks at whatever the phase asks for."""
    wants, probe, slowest = asks(state), gear.probe, gear.policy.precheck.slowest
    baseline = speculative = Side()
    # The pages come after the completions: they must have counted them.
    if wants.baseline:
        baseline = Side(probe.complete_baseline(slowest), probe.pulse_baseline(PAGE_TIMEOUT))
    if wants.speculative:
        speculative = Side(
            probe.complete_speculative(slowest), probe.pulse_speculative(PAGE_TIMEOUT)
        )
    progress = _progress(probe, state.phase) if wants.progress else None
    share, detail = observe(gear) if wants.traffic else (None, "")
    return Sight(now(), baseline, speculative, progress, share, detail)


def _progress(probe: Probe, phase: Phase) -> Progress:
    if phase is Phase.RESTARTING:
        return probe.progress_speculative(PAGE_TIMEOUT)
    return probe.progress_baseline(PAGE_TIMEOUT)


def observe(gear: Gear) -> tuple[float | None, str]:
    """Where traffic goes, and what to say of it."""
    try:
        traffic = gear.actuator.observe(PAGE_TIMEOUT)
    except ActuatorError as error:
        return None, str(error)
    return traffic.share, traffic.detail


def carry_out(gear: Gear, step: Step, permit: Callable[[], Act | None]) -> Acted | None:
    """Observes, acts if that is still needed, and observes again.

    Args:
        gear: what to act with.
        step: the act that was intended before.
        permit: asked right before the act; None where the lease does not allow it now.

    Returns:
        What became of it; None where it was not permitted.
    """
    try:
        if step.do is not Do.SHIFT or not _is_there(gear, step, observe(gear)[0]):
            act = permit()
            if act is None:
                return None
            _act(gear, step, act)
    except ActuatorError as error:
        share, _ = observe(gear) if step.do in {Do.SHIFT, Do.RESTORE} else (None, "")
        return _failed(step, str(error), share, may_retry=error.safe_to_retry)
    except Exception as error:
        # A mistake of ours in an actuator is a failed try, and no reason to try for ever.
        _log.exception("an actuator failed in an unforeseen way", step=step.id)
        return _failed(step, f"unforeseen: {type(error).__name__}", None)
    if step.do in {Do.START, Do.RESTART}:
        return Acted(step.id, ok=True)
    share, detail = observe(gear)
    if step.do is Do.SHIFT and share is not None and not _is_there(gear, step, share):
        # Some peers say that all is well whatever they did.
        return _failed(step, f"the router took the order and has {detail}", share)
    return Acted(step.id, ok=True, detail=detail, share=share)


def _failed(step: Step, why: str, share: float | None, *, may_retry: bool = True) -> Acted:
    return Acted(step.id, ok=False, detail=why, may_retry=may_retry, share=share)


def _is_there(gear: Gear, step: Step, share: float | None) -> bool:
    wanted = step.share
    if share is None or wanted is None:
        return False
    return abs(share - wanted) <= gear.policy.shift.tolerance


def _act(gear: Gear, step: Step, act: Act) -> None:
    if step.do is Do.SHIFT and step.share is not None:
        gear.actuator.shift(step.share, act)
    elif step.do is Do.RESTORE:
        gear.actuator.restore(act)
    elif gear.starter is None:
        raise ActuatorError("nothing is configured to do it", stage=step.do, safe_to_retry=False)
    elif step.do is Do.START:
        gear.starter.start(act)
    else:
        gear.starter.restart(act)
