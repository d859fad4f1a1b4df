"""Exit codes: what a script may conclude without reading the answer."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.model import Verdict

OK = 0
BAD = 1
USAGE = 2
NO_VERDICT = 3
INTERRUPTED = 130
BROKEN_PIPE = 141

_GOOD_VERDICTS = frozenset({Verdict.HEALTHY, Verdict.NEUTRAL, Verdict.UNPROVEN, Verdict.OFF})
_BAD_VERDICTS = frozenset(
    {Verdict.DEGRADED, Verdict.HARMFUL, Verdict.STALLED, Verdict.MISREPORTED}
)


def exit_code(verdict: Verdict | None, *, stale: bool = False) -> int:
    """The code for one verdict; None is a target that was never looked at."""
    if verdict in _GOOD_VERDICTS:
        # Good news that is old is no news.
        return NO_VERDICT if stale else OK
    return BAD if verdict in _BAD_VERDICTS else NO_VERDICT


def worst(codes: Iterable[int]) -> int:
    """The code for several targets: bad news beat no news, and no news good news."""
    given = set(codes)
    return next((code for code in (BAD, NO_VERDICT) if code in given), OK)
