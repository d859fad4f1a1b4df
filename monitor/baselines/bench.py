"""A small load run: a ladder of concurrencies, each a closed loop of streamed requests.

At each level so many threads as the level's concurrency send one request after the other. The
first request of each thread warms up and does not count. From the end of the level's time on,
no new request counts, but uncounted ones keep up the load until the last counted one is done:
else the last requests of a level would run at a lower load than it claims.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count

from monitor.baselines.prompts import prompt_for
from monitor.baselines.runs import Run
from monitor.baselines.stream import Reply, Request, RequestError, StoppedError, Transport, ask
from monitor.clock import Clock
from monitor.health.baseline import FASTEST_TPOT
from monitor.model import MonitorError

MOST_ERRORS = 0.05
"""Share of failed requests above which a run is given up."""
_EARLY_ERRORS = 5
"""So many errors are enough to give up before the level is over."""
_ABSENT = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})


class BenchError(MonitorError):
    """The load run had to be given up; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Ladder:
    """What a load run does."""

    levels: tuple[int, ...]
    seconds: float
    """Time in which requests of a level count."""
    requests: int | None = None
    """Counted requests of a level, instead of its time."""
    timeout: float = 120.0
    """Seconds that one request may take."""
    prompts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelResult:
    """What one level gave; times in seconds."""

    concurrency: int
    requests: int
    errors: int
    tokens: int
    tpot: float
    ttft: float
    spread: float | None
    context: float | None
    seconds: float
    tokens_per_chunk: float

    @property
    def run(self) -> Run:
        """The level as a run of a load tool."""
        return Run(
            float(self.concurrency),
            self.tpot,
            self.seconds,
            float(self.requests),
            self.spread,
            self.context,
        )


@dataclass(slots=True)
class _Level:
    """The shared state of the threads of one level."""

    concurrency: int
    ladder: Ladder
    clock: Clock
    lock: threading.Lock = field(default_factory=threading.Lock)
    replies: list[Reply] = field(default_factory=list)
    errors: list[RequestError] = field(default_factory=list)
    started: int = 0
    running: int = 0
    rounds: dict[int, int] = field(default_factory=dict)
    """Requests each thread has begun to be counted, its warm-up being number 0."""
    began: float | None = None
    deadline: float = 0.0
    over: bool = False
    broken: BaseException | None = None

    def begin(self, worker: int) -> bool | None:
        """Whether a thread's next request counts; None if there is to be none."""
        with self.lock:
            if self.over:
                return None
            done = self.rounds.get(worker)
            if done is None:
                self.rounds[worker] = 0
                return False
            if self._may_count(done):
                self._count(worker)
                return True
            if self.running == 0 and self._all_counted():
                self.over = True
                return None
            return False

    def _count(self, worker: int) -> None:
        now = self.clock.monotonic()
        if self.began is None:
            self.began = now
            self.deadline = now + self.ladder.seconds
        self.rounds[worker] += 1
        self.started += 1
        self.running += 1

    def _may_count(self, done: int) -> bool:
        if self.ladder.requests is not None:
            return self.started < self.ladder.requests
        # However slow the server is, each thread brings at least one figure.
        return self.began is None or done == 0 or self.clock.monotonic() < self.deadline

    def _all_counted(self) -> bool:
        if self.ladder.requests is not None:
            return self.started >= self.ladder.requests
        return len(self.rounds) == self.concurrency and all(self.rounds.values())

    def end(self, outcome: Reply | RequestError | None, *, counts: bool) -> None:
        """Takes in how a request ended; errors count even where answers would not."""
        with self.lock:
            if counts:
                self.running -= 1
            if isinstance(outcome, RequestError):
                self.errors.append(outcome)
                self.over = self.over or self._has_failed(_EARLY_ERRORS)
            elif counts and outcome is not None:
                self.replies.append(outcome)

    def _has_failed(self, least: int) -> bool:
        total = len(self.errors) + len(self.replies)
        return len(self.errors) >= least and len(self.errors) > MOST_ERRORS * total

    def stop(self, error: BaseException | None = None) -> None:
        """Ends the level at once."""
        with self.lock:
            self.over = True
            self.broken = self.broken or error

    def result(self) -> LevelResult:
        """The sums of the level, or a ``BenchError`` that says why there are none."""
        if self.broken is not None:
            raise self.broken
        if self._has_failed(1):
            failed, total = len(self.errors), len(self.errors) + len(self.replies)
            raise BenchError(
                f"given up at concurrency {self.concurrency}: {failed} of {total} requests failed"
                f" ({self.errors[-1]})"
            )
        return _summed(self)


def run_ladder(
    transport: Transport,
    request: Request,
    ladder: Ladder,
    *,
    clock: Clock,
    before: Callable[[int], None] = lambda _: None,
    after: Callable[[LevelResult], None] = lambda _: None,
) -> list[LevelResult]:
    """Runs the levels one after the other; ``before`` and ``after`` are told of each.

    Raises:
        BenchError: too many requests failed, or the answers do not tell a time per token.
    """
    numbers = count()
    results = []
    for concurrency in ladder.levels:
        before(concurrency)
        result = _run_level(_Level(concurrency, ladder, clock), transport, request, numbers)
        after(result)
        results.append(result)
    return results


def choose_path(
    transport: Transport, model: str, output_tokens: int, timeout: float, clock: Clock
) -> Request:
    """A request of the plain kind, or of a chat where the server has no other.

    One request is sent to find out; it also warms the server up.
    """
    request = Request(model, output_tokens)
    try:
        ask(transport, request, prompt_for(0), clock=clock, timeout=timeout)
    except RequestError as error:
        if error.status not in _ABSENT:
            raise BenchError(f"the first request failed: {error}") from None
        return Request(model, output_tokens, chat=True)
    return request


def _run_level(
    level: _Level, transport: Transport, request: Request, numbers: count[int]
) -> LevelResult:
    def work(worker: int) -> None:
        try:
            _work(level, worker, transport, request, numbers)
        except BaseException as error:
            level.stop(error)
        finally:
            transport.close()

    threads = [
        threading.Thread(target=work, args=(number,), daemon=True)
        for number in range(level.concurrency)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException:
        # An interrupt must not wait for answers that nobody wants any more.
        level.stop()
        raise
    return level.result()


def _work(
    level: _Level, worker: int, transport: Transport, request: Request, numbers: count[int]
) -> None:
    ladder = level.ladder
    while (counts := level.begin(worker)) is not None:
        prompt = prompt_for(next(numbers), ladder.prompts)
        outcome: Reply | RequestError | None = None
        try:
            outcome = ask(
                transport,
                request,
                prompt,
                clock=level.clock,
                timeout=ladder.timeout,
                stopped=lambda: level.over,
            )
        except StoppedError:
            outcome = None
        except RequestError as error:
            outcome = error
        finally:
            level.end(outcome, counts=counts)


def _summed(level: _Level) -> LevelResult:
    replies = [reply for reply in level.replies if reply.tokens > 1]
    if not replies:
        raise BenchError("no answer had two tokens: give a larger --output-tokens")
    decode = sum(reply.decode_seconds for reply in replies)
    gaps = sum(reply.tokens - 1 for reply in replies)
    tpot = decode / gaps
    if tpot < FASTEST_TPOT:
        raise BenchError(
            "whole answers came at once, so there is no time per token: does a proxy hold the"
            " stream back?"
        )
    prompts = [reply.prompt_tokens for reply in replies if reply.prompt_tokens is not None]
    last = max(reply.last_at for reply in replies)
    return LevelResult(
        concurrency=level.concurrency,
        requests=len(replies),
        errors=len(level.errors),
        tokens=sum(reply.tokens for reply in replies),
        tpot=tpot,
        ttft=sum(reply.first_at - reply.sent_at for reply in replies) / len(replies),
        spread=_spread(replies, tpot),
        context=sum(prompts) / len(prompts) if prompts else None,
        seconds=last - (level.began or last),
        tokens_per_chunk=sum(r.tokens for r in replies) / sum(r.chunks for r in replies),
    )


def _spread(replies: Sequence[Reply], tpot: float) -> float:
    """Relative standard deviation of the time per token between requests, by tokens."""
    weights = [reply.tokens - 1 for reply in replies]
    squares = sum(
        weight * (reply.decode_seconds / weight - tpot) ** 2
        for reply, weight in zip(replies, weights, strict=True)
    )
    return math.sqrt(squares / sum(weights)) / tpot
