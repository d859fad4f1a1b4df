"""vLLM's log, of the V0 engine (0.5.5–0.9.2) and of V1 (0.8.3 and later).

Each ten seconds (V0: five) an engine writes a line of throughputs and, where it speculates, one
of drafts right after it, without saying again which engine it is. The forms, by release::

    V0            Speculative metrics: …, Number of emitted tokens: 1961.   totals since the start
    V1 0.8.3      Speculative metrics: …, Number of draft tokens: 66,       one window
    V1 0.8.4      SpecDecoding metrics: …, Accepted: 66 tokens, Drafted: 66 tokens
    V1 0.8.5      … Mean acceptance length: 1.93 …       accepted / drafts, the 1 is missing
    V1 0.9.0–     … Mean acceptance length: 2.93 …, Per-position acceptance rate: 0.814, 0.717
    V1 later      … Drafted throughput: 236.82 tokens/s …   so that its length is known

A server that makes no draft in a window writes no line of drafts for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from monitor.engines.logs.drafts import count_drafts
from monitor.engines.logs.window import Event, LogStart, LogWindow
from monitor.model import SHARED, Engine, Identity, Speculation

MARKS = ("Avg prompt throughput", "SpecDecoding metrics", "Speculative metrics", "LLM engine (v")

_THROUGHPUT = re.compile(
    r"(?:Engine (?P<engine>\d+): |\d+ Engines Aggregated: )?"
    r"Avg prompt throughput: (?P<prompt>\d+\.\d) tokens/s, "
    r"Avg generation throughput: (?P<generation>\d+\.\d) tokens/s, "
    r"Running: (?P<running>\d+) reqs,.*? (?:Waiting|Pending): (?P<waiting>\d+) reqs"
)
_ACCEPTED = re.compile(r"(?:Accepted|Number of accepted tokens(?: tokens)?): (\d+)(?: tokens|,)")
_DRAFTED = re.compile(
    r"(?:Drafted|Number of draft tokens(?: tokens)?): (\d+)(?: tokens|, |,$|\.$)"
)
_EMITTED = re.compile(r"Number of emitted tokens(?: tokens)?: (\d+)\.")
_SIZE = re.compile(r"Number of speculative tokens: (\d+),")
_LENGTH = re.compile(r"Mean acceptance length: (\d+\.\d\d)\b")
_DRAFTED_RATE = re.compile(r"Drafted throughput: (\d+\.\d\d) tokens/s")
_RATES = re.compile(r"Per-position acceptance rate: (\d\.\d{3}(?:, \d\.\d{3})*)(?![\d.])")
_PROCESS = re.compile(r"\((\w+ pid=\d+)\)")

_VERSION = re.compile(r"LLM engine \(v([^)\s]+)\)")
_MODEL = re.compile(r"\bserved_model_name=\[?'?([^,'\])]+)")
_TENSOR = re.compile(r"\btensor_parallel_size=(\d+)")
_METHOD = re.compile(r"speculative_config=SpeculativeConfig\(method='?([\w-]+)")
_TOKENS = re.compile(r"num_spec(?:ulative)?_tokens=(\d+)")

_EVERY, _EVERY_V0 = 10.0, 5.0
"""Seconds between two lines of an engine, unless its operator changed that."""
_TOUCHING = 1.5
"""Seconds; windows as near as this follow each other, for stamps are cut to whole seconds."""
_PATIENCE = 2.5
_FIRST_ENGINE = "0"
_Growth = dict[str, float]


@dataclass(slots=True)
class _Open:
    """A line of throughputs whose line of drafts may still come."""

    label: str
    at: float
    prompt: float | None = None
    """Tokens per second, as are the generated ones."""
    generation: float | None = None
    running: float | None = None
    waiting: float | None = None


@dataclass(slots=True)
class _Drafts:
    """What a line of drafts says of one window."""

    counters: _Growth
    positions: tuple[float, ...] = ()
    seconds: float | None = None
    draft_size: float | None = None
    emitted: float | None = None


@dataclass(slots=True)
class VllmLog:
    """Understands the lines of one vLLM server; ``draft_size`` is what the user knows."""

    draft_size: float | None = None
    _speculates: bool = False
    _open: dict[str, _Open] = field(default_factory=dict)
    """By process: each writes its pairs of lines in order, but processes mix."""
    _labels: dict[str, set[str]] = field(default_factory=dict)
    """The engines of which each process has told."""
    _ends: dict[str, float] = field(default_factory=dict)
    _totals: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    _fresh: bool = False
    """True where the start of the server was seen, so that totals of V0 began at zero."""

    def take(self, text: str, at: float, source: str) -> Iterator[Event]:
        """What this line, and lines before it that are complete now, tell."""
        yield from self._expire(at - _TOUCHING)
        process = _PROCESS.search(text)
        key = f"{source} {process[1] if process else ''}"
        if "LLM engine (v" in text:
            yield from self._start(text, at)
        elif "Avg prompt throughput: " in text and (found := _THROUGHPUT.search(text)):
            yield from self._close(key)
            label = SHARED if found["engine"] is None else str(int(found["engine"]))
            self._labels.setdefault(key, set()).add(label)
            self._open[key] = _Open(
                label,
                at,
                float(found["prompt"]),
                float(found["generation"]),
                float(found["running"]),
                float(found["waiting"]),
            )
        elif "SpecDecoding metrics" in text or "Speculative metrics" in text:
            self._speculates = True
            alone = None if key in self._open else self._alone(key, text, at)
            if alone is not None:
                self._open[key] = alone
            yield from self._close(key, text)

    def finish(self) -> Iterator[Event]:
        """What the last lines told, when no more come."""
        yield from self._expire(float("inf"))

    def _alone(self, key: str, text: str, at: float) -> _Open | None:
        """Whose drafts these are when the line before them is missing, as in an excerpt.

        With several engines in one process that cannot be told.
        """
        labels = self._labels.get(key) or {SHARED if "emitted" in text else _FIRST_ENGINE}
        return _Open(min(labels), at) if len(labels) == 1 else None

    def _expire(self, before: float) -> Iterator[Event]:
        for key in [key for key, opened in self._open.items() if opened.at < before]:
            yield from self._close(key)

    def _start(self, text: str, at: float) -> Iterator[Event]:
        yield from self.finish()
        self._totals.clear()
        self._fresh = True
        version, model, tensor = (_first(p, text) for p in (_VERSION, _MODEL, _TENSOR))
        method, size = _first(_METHOD, text), _first(_TOKENS, text)
        self._speculates = method is not None
        if size is not None:
            self.draft_size = float(size)
        identity = Identity(
            Engine.VLLM,
            version,
            model,
            method,
            int(size) if size else None,
            int(tensor) if tensor else None,
        )
        yield LogStart(at, identity)

    def _close(self, key: str, text: str | None = None) -> Iterator[Event]:
        """Ends the window of a process; ``text`` is its line of drafts."""
        opened = self._open.pop(key, None)
        if opened is None:
            return
        drafts = self._drafts(opened.label, text) if text is not None else None
        if text is not None and drafts is None:
            return  # Half a line: what the window held is unknown, and so left out whole.
        yield self._window(opened, drafts or _Drafts({}))

    def _window(self, opened: _Open, drafts: _Drafts) -> LogWindow:
        every = _EVERY_V0 if drafts.emitted is not None else _EVERY
        last = self._ends.get(opened.label)
        seconds = drafts.seconds
        if seconds is None:
            since = opened.at - last if last is not None else 0.0
            seconds = since if 0.0 < since <= _PATIENCE * every else every
        start = opened.at - seconds
        if last is not None and (start < last or start - last <= _TOUCHING):
            start = min(last, opened.at)
        self._ends[opened.label] = opened.at
        counters = dict(drafts.counters)
        if opened.prompt is not None:
            counters["prompt_tokens"] = float(round(opened.prompt * seconds))
        if drafts.emitted is not None:
            counters["output_tokens"] = drafts.emitted
        elif opened.generation is not None:
            counters["output_tokens"] = float(round(opened.generation * seconds))
        return LogWindow(
            opened.label,
            start,
            opened.at,
            counters,
            drafts.positions,
            opened.running,
            opened.waiting,
            draft_size=drafts.draft_size or self.draft_size,
            speculation=Speculation.CONFIGURED if self._speculates else Speculation.ABSENT,
        )

    def _drafts(self, label: str, text: str) -> _Drafts | None:
        """The drafts of one window; None where the line is damaged."""
        accepted, drafted = _first(_ACCEPTED, text), _first(_DRAFTED, text)
        if accepted is None or drafted is None:
            return None
        if "emitted" in text:
            return self._since_total(label, text, float(drafted))
        rates = tuple(float(rate) for rate in (_first(_RATES, text) or "").split(", ") if rate)
        length, per_second = _first(_LENGTH, text), _first(_DRAFTED_RATE, text)
        counters: _Growth = {
            "accepted_tokens": float(accepted),
            "draft_tokens": float(drafted),
        }
        positions: tuple[float, ...] = ()
        if length is not None:
            drafts = count_drafts(int(accepted), int(drafted), float(length), rates)
            if drafts is None:
                return None
            counters["drafts"] = float(drafts)
            positions = _positions(rates, float(accepted))
        elif self.draft_size:
            counters["drafts"] = float(drafted) / self.draft_size
        seconds = float(drafted) / float(per_second) if per_second and float(per_second) else None
        return _Drafts(counters, positions, seconds)

    def _since_total(self, label: str, text: str, drafted: float) -> _Drafts | None:
        """V0's totals since the start of the server, less those of the line before.

        ``accepted`` counts tokens even behind a rejected one; what came out of a draft beyond
        its bonus token is emitted − drafts, with drafts = draft tokens / k.
        """
        emitted, size = _first(_EMITTED, text), _first(_SIZE, text)
        if emitted is None or size is None or not int(size):
            return None
        drafts = drafted / int(size)
        total = (drafts, drafted, float(emitted))
        before = self._totals.get(label, (0.0, 0.0, 0.0) if self._fresh else total)
        if any(new < old for new, old in zip(total, before, strict=True)):
            before = (0.0, 0.0, 0.0)
        self._totals[label] = total
        drafts, drafted, out = (new - old for new, old in zip(total, before, strict=True))
        counters = {
            "drafts": drafts,
            "draft_tokens": drafted,
            "accepted_tokens": max(out - drafts, 0.0),
        }
        return _Drafts(counters, draft_size=float(size), emitted=out)


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _positions(rates: tuple[float, ...], accepted: float) -> tuple[float, ...]:
    """Accepted tokens by position: the printed rates are rounded, their sum is known exactly."""
    total = sum(rates)
    return tuple(rate / total * accepted for rate in rates) if total else (0.0,) * len(rates)
