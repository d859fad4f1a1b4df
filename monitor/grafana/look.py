"""How verdicts and limits look: one table of words and colours for all dashboards.

Limits come from the constants that the verdicts and the alert rules go by, so that a line on
a dashboard is where the alert is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from grafana_foundation_sdk.models import dashboard

from monitor.health.judging import JudgeSettings
from monitor.health.verdict import DEAD_LENGTH
from monitor.health.window import GAP_INTERVALS
from monitor.health.words import duration
from monitor.model import Action, Cause, Verdict
from monitor.rollback.model import Phase
from monitor.settings import DEFAULT_INTERVAL
from monitor.web.judged import SEVERITY_CODES
from monitor.web.status import STALE_SECONDS

_DEFAULTS = JudgeSettings()

LOSS = 1.0 - _DEFAULTS.dead_band
"""A speedup whose upper limit is below this is harmful."""
GAIN = 1.0 + _DEFAULTS.dead_band
"""A speedup whose lower limit is above this is healthy."""
LEAST_RATE = _DEFAULTS.threshold
"""Acceptance rate below which a target without a proven gain is degraded."""
DEAD = DEAD_LENGTH
"""Acceptance length below which the drafter is dead."""
LATE_SECONDS = GAP_INTERVALS * DEFAULT_INTERVAL
"""Without a page for so long a target is down."""
STALE = STALE_SECONDS
"""Without a page for so long nothing is known any more."""

OLD_BASELINE = 30 * 86_400.0
"""After so long a baseline should be measured again."""

GREEN, YELLOW, ORANGE, RED = "green", "yellow", "orange", "red"
BLUE, PURPLE, GREY = "blue", "purple", "#808080"
NOTHING = "transparent"

COLOURS: Mapping[Verdict, str] = {
    Verdict.HEALTHY: GREEN,
    Verdict.NEUTRAL: YELLOW,
    Verdict.DEGRADED: ORANGE,
    Verdict.HARMFUL: RED,
    Verdict.UNPROVEN: BLUE,
    Verdict.INSUFFICIENT: GREY,
    Verdict.IDLE: GREY,
    Verdict.NOT_DRAFTING: PURPLE,
    Verdict.OFF: GREY,
    Verdict.STALLED: "dark-red",
    Verdict.MISREPORTED: PURPLE,
    Verdict.UNRECOGNISED: PURPLE,
    Verdict.DOWN: "dark-red",
}


_PHASE_COLOURS = {
    Phase.ARMED: GREY,
    Phase.PROPOSED: YELLOW,
    Phase.BLOCKED: RED,
    Phase.DONE: PURPLE,
    Phase.FAILED: RED,
    Phase.ABORTED: ORANGE,
    Phase.HELD: RED,
}
"""Those in which something is under way are blue."""


def _mapping(rows: Iterable[tuple[str, str, str | None]]) -> dashboard.ValueMap:
    return dashboard.ValueMap(
        {
            key: dashboard.ValueMappingResult(text=text, color=colour, index=index)
            for index, (key, text, colour) in enumerate(rows)
        }
    )


def words(name: str) -> str:
    """A name of the vocabulary as people read it."""
    return name.replace("_", " ")


def verdict_codes() -> dashboard.ValueMap:
    """From the number of a verdict to its word and colour."""
    return _mapping(
        (f"{SEVERITY_CODES[verdict]:g}", words(verdict).upper(), COLOURS[verdict])
        for verdict in SEVERITY_CODES
    )


def verdict_words() -> dashboard.ValueMap:
    """From the name of a verdict to its words and colour."""
    return _mapping((verdict, words(verdict), COLOURS[verdict]) for verdict in Verdict)


def plain_words(names: type[StrEnum]) -> dashboard.ValueMap:
    """From names of causes or actions to their words."""
    return _mapping((name, words(name), None) for name in names)


EVIDENCE = _mapping((("0", "counters", GREEN), ("1", "gauges: weak", YELLOW)))
WINDOWS = _mapping((f"{span:g}s", duration(span), None) for span in _DEFAULTS.windows)
LEASE = _mapping((("0", "stands by", GREY), ("1", "leads", GREEN)))
FROZEN = _mapping((("0", "free", GREEN), ("1", "FROZEN", RED)))
ASKED = _mapping((("0", "no", GREY), ("1", "YES", RED)))
PHASES = _mapping((phase, words(phase), _PHASE_COLOURS.get(phase, BLUE)) for phase in Phase)
CAUSES, ACTIONS = plain_words(Cause), plain_words(Action)


def truth(yes: str, no: str) -> dashboard.ValueMap:
    """Words for 1, which is good, and 0, which is not."""
    return _mapping((("1", yes, GREEN), ("0", no, RED)))


def steps(base: str, *limits: tuple[float, str]) -> list[dashboard.Threshold]:
    """The colour up to the first limit, then from each limit on."""
    return [
        dashboard.Threshold(value=None, color=base),
        *(dashboard.Threshold(value=limit, color=colour) for limit, colour in limits),
    ]


SPEEDUP: Sequence[dashboard.Threshold] = steps(RED, (LOSS, YELLOW), (GAIN, GREEN))
AGE: Sequence[dashboard.Threshold] = steps(GREEN, (LATE_SECONDS, YELLOW), (STALE, RED))
NONE_IS_GOOD: Sequence[dashboard.Threshold] = steps(GREEN, (1.0, RED))
DEAD_LINE: Sequence[dashboard.Threshold] = steps(NOTHING, (DEAD, RED))
"""A line at which the drafter is dead."""
CALM: Sequence[dashboard.Threshold] = steps(BLUE)
