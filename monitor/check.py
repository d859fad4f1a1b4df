"""``monitor check``: a few looks at a target, or saved pages of one, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.pool import ThreadPool
from statistics import median
from typing import Protocol

from monitor.clock import Clock
from monitor.health.baseline import Baseline, QuickSpeeds
from monitor.model import Assessment, PageError, ScrapeError
from monitor.pipeline import Page, TargetPipeline
from monitor.settings import DEFAULT_INTERVAL, JudgeSettings, TargetSettings

DEFAULT_WINDOW = 600.0
_THREADS = 32


@dataclass(frozen=True, slots=True)
class Look:
    """One page of a series, or the reason why it could not be had."""

    at: float
    page: Page | None = None
    error: str = ""
    name: str = ""
    """What to call the page in notes."""


class Fetcher(Protocol):
    """What fetches the pages of one target, such as a ``Scraper``."""

    def fetch(self) -> Page:
        """The pages as they are now; ``ScrapeError`` where there are none."""
        ...

    def close(self) -> None:
        """Lets go of the connection."""
        ...


def judge_settings(
    window: float, threshold: float, baseline: Baseline | None, speeds: QuickSpeeds | None
) -> JudgeSettings:
    """One window that is both shown and judged."""
    return JudgeSettings(
        threshold=threshold, windows=(window,), judged=(window,), baseline=baseline, speeds=speeds
    )


def spacing(times: Sequence[float], default: float = DEFAULT_INTERVAL) -> float:
    """The interval that a series of ascending times was taken at."""
    gaps = [b - a for a, b in pairwise(times) if b > a]
    return median(gaps) if gaps else default


def widest(times: Sequence[float]) -> float | None:
    """The time between two pages that is no gap: whoever gives the pages means them."""
    gaps = [b - a for a, b in pairwise(times)]
    return max(gaps) if gaps else None


def judge_series(looks: Iterable[Look], settings: TargetSettings) -> Assessment:
    """The assessment after the last page of a series that ascends in time.

    A page that is no metrics page, and a look that failed beside one that did not, is skipped
    with a note.

    Raises:
        PageError: there were pages, but none of them is a metrics page.
    """
    pipeline = TargetPipeline(settings)
    answer: Assessment | None = None
    notes: list[str] = []
    failed: list[str] = []
    usable: list[float] = []
    for look in looks:
        if look.page is None:
            answer = answer or pipeline.tick_failed(look.error, look.at).assessment
            failed.append(f"a look failed: {look.error}")
            continue
        tick = pipeline.tick(look.page, look.at)
        if tick.problem is not None:
            notes.append(f"page {look.name} was skipped: {tick.problem}")
            continue
        answer = tick.assessment
        usable.append(look.at)
    if answer is None:
        reason = notes[0].partition(": ")[2] if notes else "there is no page"
        raise PageError(f"{settings.name}: {reason}")
    # Two looks are needed for what happened between them; one tells of the time before it.
    if usable == [answer.at]:
        answer = pipeline.lifetime(answer.at)
    # A target that is down says so itself.
    more = notes + failed if usable else notes
    return answer._replace(notes=(*answer.notes, *more))


def look_twice(
    targets: Sequence[TargetSettings],
    *,
    interval: float,
    clock: Clock,
    open_fetcher: Callable[[TargetSettings], Fetcher],
    waiting: Callable[[], None] = lambda: None,
) -> list[Assessment | PageError]:
    """Looks at all targets at once, and again ``interval`` seconds later.

    The answers come in the order of ``targets``; ``waiting`` is called between the looks.
    """
    fetchers = [open_fetcher(target) for target in targets]

    def look(fetcher: Fetcher) -> Look:
        try:
            page = fetcher.fetch()
        except ScrapeError as error:
            return Look(clock.utc(), error=str(error))
        return Look(clock.utc(), page, name="of the look")

    try:
        with ThreadPool(min(len(fetchers), _THREADS)) as pool:
            began = clock.monotonic()
            first = pool.map(look, fetchers, chunksize=1)
            waiting()
            # The main thread waits, so that an interrupt ends the wait at once.
            clock.sleep(max(0.0, interval - (clock.monotonic() - began)))
            second = pool.map(look, fetchers, chunksize=1)
    finally:
        for fetcher in fetchers:
            fetcher.close()
    return [_judge(looks, target) for target, *looks in zip(targets, first, second, strict=True)]


def unusable(target: TargetSettings, error: str, now: float) -> Assessment:
    """The assessment of a target that answers, but with no metrics page."""
    return TargetPipeline(target).tick_failed(error, now).assessment


def _judge(looks: Sequence[Look], target: TargetSettings) -> Assessment | PageError:
    try:
        return judge_series(looks, target)
    except PageError as error:
        return error
