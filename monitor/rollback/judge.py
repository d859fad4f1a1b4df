"""Whether a side can take traffic, and whether what was moved has arrived and is served well.

Nothing here trusts a health page: servers have answered 200 for hours with a dead engine. What
counts are tokens that were asked for and came, counters that moved, and room for the load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from monitor.health import words
from monitor.rollback.evidence import Completion, Finding, Pulse, Side
from monitor.rollback.settings import Precheck, Verify

FULL = 0.995
"""From this share on a side has all the traffic."""
LEAST_OF_STEP = 0.5
"""A step has arrived when the measured share is at least this part of the one set."""
LEAST_OF_ALL = 0.8
"""The same where all traffic was moved: streams that began before still end on the old side."""
LEAST_FAILURES = 2.0
"""One failed request is no rate."""


# -- before any traffic comes ----------------------------------------------------------------


def check(
    first: Side, second: Side, need: float | None, model: str | None, precheck: Precheck
) -> Finding:
    """Judges two looks at a side that is to get traffic.

    Args:
        first: completions, and the pages read after them.
        second: the same, later.
        need: running requests that it will get; None where that is not known.
        model: the model that must answer; None: any.
        precheck: the bounds.
    """
    if not second.completions:
        return Finding(ok=False, sentence="no server of the side is known", absent=True)
    if not any(c.error is None for c in second.completions):
        return Finding(
            ok=False,
            sentence=f"no server answers: {second.completions[0].error}",
            absent=all(p.error is not None for p in second.pulses),
        )
    early, late = _completions(first), _completions(second)
    if any(late[name].at - early[name].at < precheck.pause for name in late.keys() & early.keys()):
        return Finding(ok=None, sentence="the second completion is still to come")
    faults = {name: _fault(name, first, second, model, precheck) for name in late}
    healthy = [name for name, fault in faults.items() if not fault]
    said = "; ".join(f"{name} {fault}" for name, fault in faults.items() if fault)
    if not healthy or len(healthy) < precheck.healthy * len(faults):
        return Finding(ok=False, sentence=said)
    room = _room(healthy, second, need, precheck)
    if room.ok is not True:
        return room
    return Finding(
        ok=True,
        sentence=f"{words.number(len(healthy), 'server')} answered twice with tokens,"
        f" {precheck.pause:.0f} s apart; {room.sentence}",
    )


def _fault(name: str, first: Side, second: Side, model: str | None, precheck: Precheck) -> str:
    """What is wrong with one server, or nothing."""
    asked = (_completions(first).get(name), _completions(second)[name])
    read = (_pulses(first).get(name), _pulses(second).get(name))
    return next(_answers(asked, model, precheck), "") or next(_counters(read, model), "")


def _answers(
    asked: Iterable[Completion | None], model: str | None, precheck: Precheck
) -> Iterator[str]:
    for completion in asked:
        if completion is None:
            yield "was not asked twice"
        elif fault := failure(completion, precheck.slowest):
            yield fault
        elif model is not None and completion.model not in {None, model}:
            yield f"serves {completion.model} instead of {model}"


def _counters(read: tuple[Pulse | None, Pulse | None], model: str | None) -> Iterator[str]:
    before, after = read
    if before is None or after is None or before.error or after.error:
        why = next((p.error for p in (after, before) if p is not None and p.error), "none read")
        yield f"answers, but has no metrics page: {why}"
    elif model is not None and after.model not in {None, model}:
        yield f"counts for {after.model} instead of {model}"
    elif before.output_tokens is None or after.output_tokens is None:
        yield "answers, but its page counts no tokens"
    elif before.birth != after.birth or after.output_tokens < before.output_tokens:
        yield "has restarted between the two completions"
    elif after.output_tokens == before.output_tokens:
        yield "answers, but its counters do not move: something else answers for it"


def failure(completion: Completion, slowest: float) -> str:
    """Why a completion is no proof of life, or nothing."""
    if completion.error is not None:
        return f"does not answer: {completion.error}"
    if completion.tokens < 1:
        return "answers without a token"
    if completion.seconds > slowest:
        return f"took {completion.seconds:.0f} s for {completion.tokens} tokens"
    return ""


def _room(names: list[str], side: Side, need: float | None, precheck: Precheck) -> Finding:
    pulses = [_pulses(side)[name] for name in names]
    waiting, running = _sum(p.waiting for p in pulses), _sum(p.running for p in pulses)
    if waiting is not None and waiting >= 1.0:
        return Finding(ok=False, sentence=f"{waiting:.0f} requests already wait there")
    if precheck.max_running is None:
        return Finding(ok=True, sentence="no request waits there; its capacity is not known")
    return _capacity(precheck.max_running * len(names), running, need, precheck.margin)


def room_left(side: Side, need: float | None, precheck: Precheck) -> Finding:
    """Whether a side that serves has room for more; others may share it, and load grows.

    Args:
        side: the newest look at it.
        need: running requests that it will get on top; None where that is not known.
        precheck: the bounds.
    """
    if precheck.max_running is None:
        return Finding(ok=True, sentence="its capacity is not known")
    capacity = precheck.max_running * len(side.pulses)
    return _capacity(capacity, _sum(p.running for p in side.pulses), need, precheck.margin)


def _capacity(
    capacity: float, running: float | None, need: float | None, margin: float
) -> Finding:
    if running is None or need is None:
        unknown = "the load to come" if need is None else "its load"
        return Finding(ok=False, sentence=f"{unknown} is not known, so its room cannot be told")
    room, wanted = capacity - running, margin * need
    said = f"room for {max(room, 0.0):.0f} running requests where {wanted:.0f} are needed"
    return Finding(ok=room >= wanted, sentence=said if room >= wanted else f"too small: {said}")


def is_up(side: Side, slowest: float) -> bool:
    """Whether each server of a side answers with tokens."""
    found = side.completions
    return bool(found) and not any(failure(completion, slowest) for completion in found)


def has_restarted(before: Side, now: Side) -> bool:
    """Whether each server of a side is another process than before."""
    was = _pulses(before)
    return bool(now.pulses) and all(
        pulse.error is None and _is_newer(was.get(pulse.target), pulse) for pulse in now.pulses
    )


def _is_newer(before: Pulse | None, now: Pulse) -> bool:
    if before is None or before.error is not None:
        return True
    fewer = (now.output_tokens or 0.0) < (before.output_tokens or 0.0)
    return now.birth != before.birth or fewer


# -- while traffic is on it ------------------------------------------------------------------


def strike(first: Side, now: Side, speed: float | None, precheck: Precheck, verify: Verify) -> str:
    """What is wrong with a side that serves, or nothing. Silence of a page is nothing.

    Args:
        first: the first look since the last step.
        now: the look to judge.
        speed: TPOT of the other side before the first step, in seconds.
        precheck: when a completion counts.
        verify: the bounds.
    """
    failed = [(c.target, f) for c in now.completions if (f := failure(c, precheck.slowest))]
    if failed and len(now.completions) - len(failed) < precheck.healthy * len(now.completions):
        return f"{failed[0][0]} {failed[0][1]}"
    errors = error_share(first, now)
    if errors is not None and errors > verify.max_errors:
        return f"{words.percent(errors)} of its requests fail"
    took = tpot(first, now, verify.least_tokens)
    bound = verify.max_tpot
    if bound is None and speed is not None:
        bound = verify.max_slower * speed
    if took is not None and bound is not None and took > bound:
        return f"a token takes {1000.0 * took:.1f} ms, the bound is {1000.0 * bound:.1f}"
    waiting = _sum(p.waiting for p in now.pulses)
    running = _sum(p.running for p in now.pulses)
    if waiting is not None and waiting > max(verify.max_waiting * (running or 0.0), 1.0):
        return f"{waiting:.0f} requests wait beside {running or 0.0:.0f} running"
    return ""


def arrived(
    baseline: tuple[Side, Side],
    speculative: tuple[Side, Side],
    share: float,
    probed: tuple[float, float],
    verify: Verify,
) -> Finding:
    """Whether the baseline side's tokens rise as they should, and the other's fall.

    Args:
        baseline: the first look since the step, and the newest.
        speculative: the same of the other side.
        share: the share of the baseline side that was set.
        probed: tokens that the monitor itself has asked for on either side since.
        verify: the bounds.
    """
    there = _less(grown(baseline, "output_tokens"), probed[0])
    here = _less(grown(speculative, "output_tokens"), probed[1])
    if there is None or here is None:
        blind = "baseline" if there is None else "speculative"
        return Finding(ok=None, sentence=f"the {blind} side's metrics cannot be read")
    if there + here < verify.least_tokens:
        return Finding(ok=None, sentence="no traffic flows", idle=True)
    measured = there / (there + here)
    said = (
        f"{words.percent(measured)} of {words.count(there + here)} tokens came from the baseline"
        f" side, {words.percent(share)} was set"
    )
    least = (LEAST_OF_ALL if share >= FULL else LEAST_OF_STEP) * share
    return Finding(ok=True if measured >= least else None, sentence=said)


def serves(baseline: tuple[Side, Side], probed: float, verify: Verify) -> Finding:
    """Whether the baseline side serves where the other one is dead, and so cannot be compared."""
    there = _less(grown(baseline, "output_tokens"), probed)
    if there is None:
        return Finding(ok=None, sentence="the baseline side's metrics cannot be read")
    if there < verify.least_tokens:
        return Finding(ok=None, sentence="no traffic flows", idle=True)
    said = f"{words.count(there)} tokens came from the baseline side, the speculative one is dead"
    return Finding(ok=True, sentence=said)


def error_share(first: Side, now: Side) -> float | None:
    """Share of the requests between two looks that failed."""
    failures, requests = grown((first, now), "failures"), grown((first, now), "requests")
    if failures is None or not requests:
        return None
    return failures / requests if failures >= LEAST_FAILURES else 0.0


def tpot(first: Side, now: Side, least_tokens: float) -> float | None:
    """Seconds per output token between two looks."""
    seconds, tokens = grown((first, now), "decode_seconds"), grown((first, now), "decode_tokens")
    return None if seconds is None or not tokens or tokens < least_tokens else seconds / tokens


def load(side: Side) -> float | None:
    """Requests that a side has, running or waiting."""
    running = _sum(p.running for p in side.pulses)
    return None if running is None else running + (_sum(p.waiting for p in side.pulses) or 0.0)


def grown(looks: tuple[Side, Side], name: str) -> float | None:
    """By how much a counter of a side grew; None where any server does not tell.

    A server that has restarted in between counts from its start.
    """
    before, after = _pulses(looks[0]), _pulses(looks[1])
    total = 0.0
    for target, pulse in after.items():
        then = before.get(target)
        new: float | None = getattr(pulse, name)
        old: float | None = None if then is None else getattr(then, name)
        if new is None or old is None:
            return None
        restarted = then is not None and (pulse.birth != then.birth or new < old)
        total += new if restarted else new - old
    return total if after else None


def _less(grown_by: float | None, probed: float) -> float | None:
    return None if grown_by is None else max(grown_by - probed, 0.0)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _completions(side: Side) -> Mapping[str, Completion]:
    return {completion.target: completion for completion in side.completions}


def _pulses(side: Side) -> Mapping[str, Pulse]:
    return {pulse.target: pulse for pulse in side.pulses}
