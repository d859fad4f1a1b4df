"""What is still known of a page when only its increments are stored."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model import Identity, Increment, Reading, Sample, Speculation, Verdict

_SPECULATION = {
    Verdict.OFF: Speculation.ABSENT,
    Verdict.UNRECOGNISED: Speculation.UNKNOWN_NAMES,
}
"""What pages said about speculation is not stored, but these verdicts follow from it alone."""


def stored_sample(
    at: float, identity: Identity, increments: Sequence[Increment], verdict: Verdict | None
) -> Sample:
    """The page behind increments, as far as it is known; ``verdict`` is what was said of it."""
    speculation = Speculation.CONFIGURED
    if verdict is not None:
        speculation = _SPECULATION.get(verdict, speculation)
    readings = [
        Reading(
            label=i.label,
            # The gauge was integrated over the interval, so that it can be had back.
            running=_mean(i.counts.running_seconds, i.counts.seconds),
            waiting=_mean(i.counts.waiting_seconds, i.counts.seconds),
            speculation=speculation,
        )
        for i in increments
    ]
    return Sample(at, identity, readings or [Reading(label="", speculation=speculation)])


def _mean(integral: float, seconds: float) -> float | None:
    return integral / seconds if seconds > 0.0 else None
