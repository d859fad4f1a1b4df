"""The past from a Prometheus-compatible API, a span at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median

from monitor.backfill.looks import Findings, Look
from monitor.backfill.series import Assembler, Catalogue, Point, load_names, wanted_names
from monitor.model import ConfigError
from monitor.settings import DEFAULT_INTERVAL
from monitor.sources.promql import Answer, PrometheusApi, TooMuchError

AIM_BYTES = 4 * 1024 * 1024
"""What one answer should have: some 150,000 samples, 60 MB of memory while they are read."""
FIRST_SPAN = 900.0
LEAST_SPAN = 30.0
MOST_POINTS = 10_000
"""Samples of one series in one answer; some gateways refuse more than 11,000."""
LOOK_AROUND = 900.0
"""Seconds of samples from which the interval of a target is told."""
LEAST_LOOKS = 3


class PrometheusSource:
    """Looks at all targets whose series a selector matches.

    Args:
        api: where they are.
        matchers: label matchers as they stand between braces, such as ``job="vllm"``; may be
            empty.
        start: of the span that is read.
        end: of the same.
        name_of: the name of a target from its labels; None for one that is not wanted.
    """

    def __init__(
        self,
        api: PrometheusApi,
        matchers: str,
        start: float,
        end: float,
        name_of: Callable[[Mapping[str, str]], str | None],
    ) -> None:
        self.findings = Findings(done=0.0)
        self._api = api
        self._selector = _braces(wanted_names(), matchers)
        self._probe = _braces(load_names(), matchers)
        self._start = start
        self._end = end
        self._catalogue = Catalogue(name_of)
        self._find_series()
        self._intervals = self._find_intervals()
        self._span = FIRST_SPAN

    @property
    def targets(self) -> Sequence[str]:
        """The names of all targets that have series in the span."""
        return self._catalogue.targets

    def interval(self, target: str) -> float | None:
        """The usual time between two scrapes."""
        return self._intervals.get(target)

    def looks(self, after: float) -> Iterator[Look]:
        """The scrapes later than ``after``, from a little before the start on."""
        assembler = Assembler(self._catalogue, self.findings, self._intervals)
        # A little earlier, because the first page may follow from those before it.
        yield from assembler.looks(self._points(max(after, self._start - LOOK_AROUND)))
        for warning in self._api.warnings:
            self.findings.note(f"the API said: {warning}")

    def _find_series(self) -> None:
        self._catalogue.settle(self._series_between(self._start, self._end))
        if not self._catalogue.streams:
            raise ConfigError(
                "there are no series of vLLM, SGLang or another engine in this span that match:"
                " look at --start, --end and --query-labels"
            )

    def _series_between(self, start: float, end: float) -> list[Mapping[str, str]]:
        """The labels of all series; asked for in halves where that is too much at once."""
        try:
            return self._api.series(self._selector, start, end)
        except TooMuchError:
            if end - start <= FIRST_SPAN:
                raise
        middle = (start + end) / 2.0
        return self._series_between(start, middle) + self._series_between(middle, end)

    def _find_intervals(self) -> dict[str, float]:
        """From a while at the beginning of the span, in the middle and at the end of it.

        The longest of them counts: by a shorter one, all the time in which the server was
        looked at less often would be gaps, of which hardly anything is known.
        """
        found: dict[str, float] = {}
        length = self._end - self._start
        for share in (0.0, 0.5, 1.0) if length > LOOK_AROUND else (0.0,):
            first = self._start + share * max(length - LOOK_AROUND, 0.0)
            for target, interval in self._intervals_between(
                first, min(first + LOOK_AROUND, self._end)
            ).items():
                found[target] = max(found.get(target, 0.0), interval)
        return found

    def _intervals_between(self, start: float, end: float) -> dict[str, float]:
        try:
            ranges = self._api.samples(self._probe, start, end).ranges
        except TooMuchError:
            if end - start <= LEAST_SPAN:
                raise
            return self._intervals_between(start, start + (end - start) / 2.0)
        times: dict[int, set[float]] = defaultdict(set)
        for labels, values in ranges:
            series = self._catalogue.find(labels)
            if series is not None:
                times[series.stream].update(at for at, _ in values)
        return {
            self._catalogue.streams[stream].target: median(b - a for a, b in pairwise(seen))
            for stream, some in times.items()
            if len(seen := sorted(some)) > LEAST_LOOKS
        }

    def _points(self, after: float) -> Iterator[Point]:
        """All later points, ascending in time; one answer at a time is in memory."""
        reached = after
        while reached < self._end:
            end = min(reached + self._span, self._end)
            try:
                answer = self._api.samples(self._selector, reached, end)
            except TooMuchError:
                if self._span <= LEAST_SPAN:
                    raise
                self._span = max(self._span / 2.0, LEAST_SPAN)
                continue
            yield from self._in_order(answer, reached, end)
            reached = end
            done = (reached - self._start) / (self._end - self._start)
            self.findings.done = max(done, 0.0)
            self._adapt(answer.size)

    def _in_order(self, answer: Answer, after: float, until: float) -> list[Point]:
        """The points later than ``after``, up to ``until``: what was asked for and no more."""
        points = []
        for labels, values in answer.ranges:
            series = self._catalogue.find(labels)
            if series is None:
                continue
            # Releases differ in whether a range includes its beginning. Of two values for
            # one time a server keeps the last, and so does this.
            kept = {at: text for at, text in values if after < at <= until}
            points += [Point(at, series, text.encode()) for at, text in kept.items()]
        points.sort(key=_time)
        return points

    def _adapt(self, size: int) -> None:
        """Asks for more or less next time, for answers of about the size that is aimed at."""
        factor = min(max(AIM_BYTES / max(size, 1), 0.25), 2.0)
        least = min(self._intervals.values(), default=DEFAULT_INTERVAL)
        self._span = min(max(self._span * factor, LEAST_SPAN), MOST_POINTS * least)


def _time(point: Point) -> float:
    return point.at


def _braces(names: str, matchers: str) -> str:
    inner = (f'__name__=~"{names}"', matchers.strip(" ,"))
    return f"{{{','.join(filter(None, inner))}}}"
