"""SGLang's log, from 0.4.0 on: a line about each 40 decode iterations of a rank.

The line shows the acceptance length of those iterations and the tokens per second since the
line before, idle time included; so the tokens of a line are known, and with the length its
drafts. Stamps are cut to whole seconds. Lines of a few seconds are summed to one window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from monitor.engines.logs.draft_size import DraftSize
from monitor.engines.logs.window import Event, LogStart, LogWindow
from monitor.model import Engine, Identity, Speculation

MARKS = ("Decode batch", "server_args=ServerArgs(")

_RANKS = re.compile(r"\[[^\]]*?\d\d:\d\d:\d\d[^\]]*?\]")
_RANK = re.compile(r"\b(DP|TP|PP)(\d+)\b")
_RUNNING = re.compile(r"#running-req: (\d+),")
_WAITING = re.compile(r"#queue-req: (\d+)")
_LENGTH = re.compile(r"accept len: (\d+\.\d\d)\b")
_RATE = re.compile(r"accept rate: (\d+\.\d\d)\b")
_THROUGHPUT = re.compile(r"gen throughput \(token/s\): (\d+\.\d\d)\b")

_SERVED = re.compile(r"served_model_name='([^']+)'")
_PATH = re.compile(r"model_path='([^']+)'")
_TENSOR = re.compile(r"\btp_size=(\d+)")
_METHOD = re.compile(r"speculative_algorithm='?(\w+)")
_DRAFT_TOKENS = re.compile(r"speculative_num_draft_tokens=(\d+)")
_VERSION = re.compile(r"sglang[_ ]version[=: ]'?([\w.+]+)", re.IGNORECASE)

WINDOW_SECONDS = 10.0
_PHANTOM = 0.5
"""Tokens per second below which a line is about a batch that did not run."""
_STEPS = 40.0
"""Decode iterations from one line to the next, unless its operator changed that."""
_UNDECIDED_LINES = 64
"""Lines that wait until it is clear what their acceptance rate means."""
_IDLE = 3.0
"""Windows without a line after which the server was idle in between."""


@dataclass(slots=True)
class _Line:
    """One line about a decode batch."""

    running: float
    waiting: float
    per_second: float
    length: float | None
    rate: float | None


@dataclass(slots=True)
class _Rank:
    """What is summed of one rank since its last window."""

    copy: tuple[int, int]
    """Pipeline and tensor rank; of several that write the same the lowest counts."""
    second: float
    """The stamp of the lines that wait for the next stamp."""
    lines: list[_Line] = field(default_factory=list)
    last: float | None = None
    """When the line before those was written."""
    steps: float = _STEPS
    """Decode iterations that a line is about."""
    start: float | None = None
    tokens: float = 0.0
    weighed: float = 0.0
    drafts: float = 0.0
    sized: float = 0.0
    draft_tokens: float = 0.0
    running: float = 0.0
    waiting: float = 0.0


@dataclass(slots=True)
class SglangLog:
    """Understands the lines of one SGLang server; ``draft_size`` is what the user knows."""

    draft_size: float | None = None
    _ranks: dict[str, _Rank] = field(default_factory=dict)
    _size: DraftSize = field(default_factory=DraftSize)
    _speculates: bool = False
    _undecided: list[tuple[float, str, tuple[int, int], _Line]] = field(default_factory=list)

    def take(self, text: str, at: float, source: str) -> Iterator[Event]:  # noqa: ARG002
        """What this line, and lines before it that are complete now, tell."""
        if "server_args=" in text:
            yield from self._start(text, at)
        elif line := _read(text):
            yield from self._decide(at, *_rank(text), line)

    def _decide(
        self, at: float, label: str, copy: tuple[int, int], line: _Line
    ) -> Iterator[Event]:
        """Holds lines back while their draft size is not clear yet."""
        if line.length is not None and line.rate is not None:
            self._size.vote(line.length, line.rate)
            decided = self._size.known or self.draft_size is not None
            if not decided and len(self._undecided) < _UNDECIDED_LINES:
                self._undecided.append((at, label, copy, line))
                return
        yield from self._release()
        yield from self._line(at, label, copy, line)

    def _release(self) -> Iterator[Event]:
        undecided, self._undecided = self._undecided, []
        for held in undecided:
            yield from self._line(*held)

    def _line(self, at: float, label: str, copy: tuple[int, int], line: _Line) -> Iterator[Event]:
        rank = self._ranks.get(label)
        if rank is None or copy < rank.copy:
            self._ranks[label] = rank = _Rank(copy, at)
        if copy != rank.copy:
            return
        if at > rank.second:
            yield from self._settle(label, rank, at)
            rank.second = at
        if at == rank.second:
            rank.lines.append(line)

    def finish(self) -> Iterator[Event]:
        """What the last lines told, when no more come."""
        yield from self._release()
        for label, rank in tuple(self._ranks.items()):
            yield from self._settle(label, rank, rank.second + 1.0)
            yield from self._close(label, rank)

    def _start(self, text: str, at: float) -> Iterator[Event]:
        yield from self.finish()
        self._ranks.clear()
        self._size = DraftSize()
        size, tensor = _number(_DRAFT_TOKENS, text), _number(_TENSOR, text)
        method = _word(_METHOD, text)
        method = None if method == "None" else method
        self._speculates = method is not None
        if size is not None and size > 1.0:
            self.draft_size = size - 1.0
        model = _word(_SERVED, text) or _word(_PATH, text)
        yield LogStart(
            at,
            Identity(
                Engine.SGLANG,
                _word(_VERSION, text),
                model,
                method,
                int(self.draft_size) if self.draft_size and method else None,
                int(tensor) if tensor else None,
            ),
        )

    def _settle(self, label: str, rank: _Rank, until: float) -> Iterator[Event]:
        """Shares the second of the waiting lines out among them, and adds them up."""
        width = min(1.0, until - rank.second)
        for place, line in enumerate(rank.lines):
            yield from self._add(
                label, rank, line, rank.second + width * (place + 1) / len(rank.lines)
            )
        rank.lines.clear()

    def _add(self, label: str, rank: _Rank, line: _Line, at: float) -> Iterator[Event]:
        last, rank.last = rank.last, at
        if last is None:
            rank.start = at  # It is not known since when its tokens were counted.
            return
        tokens = line.per_second * (at - last)
        in_steps = line.running * (line.length or 1.0)
        if at - last > _IDLE * WINDOW_SECONDS:
            if rank.tokens:
                yield self._window(label, rank, last)
            rank.start = at - WINDOW_SECONDS
            # The server may have been another one in between, and counted from its start.
            tokens = min(tokens, rank.steps * in_steps)
        elif in_steps:
            rank.steps = max(_STEPS, tokens / in_steps)
        self._speculates = self._speculates or line.length is not None
        rank.tokens += tokens
        rank.running += line.running * tokens
        rank.waiting += line.waiting * tokens
        if line.length is not None:
            drafts = tokens / line.length
            size = self._size.of(line.length, line.rate) or self.draft_size
            rank.weighed += tokens
            rank.drafts += drafts
            rank.sized += drafts if size else 0.0
            rank.draft_tokens += drafts * size if size else 0.0
        if rank.start is not None and at - rank.start >= WINDOW_SECONDS:
            yield self._window(label, rank, at)

    def _close(self, label: str, rank: _Rank) -> Iterator[Event]:
        if rank.tokens and rank.last is not None:
            yield self._window(label, rank, rank.last)

    def _window(self, label: str, rank: _Rank, end: float) -> LogWindow:
        sized = rank.drafts and rank.sized == rank.drafts
        window = LogWindow(
            label,
            rank.start if rank.start is not None else end - WINDOW_SECONDS,
            end,
            {"output_tokens": rank.tokens, "gauge_tokens": rank.weighed},
            running=rank.running / rank.tokens if rank.tokens else 0.0,
            waiting=rank.waiting / rank.tokens if rank.tokens else 0.0,
            accept_length=rank.weighed / rank.drafts if rank.drafts else None,
            draft_size=rank.draft_tokens / rank.drafts if sized else self.draft_size,
            speculation=Speculation.CONFIGURED if self._speculates else Speculation.ABSENT,
        )
        rank.start = end
        rank.tokens = rank.weighed = rank.drafts = rank.sized = rank.draft_tokens = 0.0
        rank.running = rank.waiting = 0.0
        return window


def _read(text: str) -> _Line | None:
    """A line about a decode batch; None where it is damaged or about no batch at all."""
    running, per_second = _number(_RUNNING, text), _number(_THROUGHPUT, text)
    if running is None or per_second is None or per_second < _PHANTOM:
        return None
    length = _number(_LENGTH, text)
    if length is not None and length < 1.0:
        length = None
    return _Line(running, _number(_WAITING, text) or 0.0, per_second, length, _number(_RATE, text))


def _rank(text: str) -> tuple[str, tuple[int, int]]:
    """The label of the rank, and which of several copies of its lines this is."""
    stamp = _RANKS.match(text)
    ranks = {kind: int(number) for kind, number in _RANK.findall(stamp[0])} if stamp else {}
    label = str(ranks["DP"]) if "DP" in ranks else ""
    return label, (ranks.get("PP", 0), ranks.get("TP", 0))


def _word(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    word = _word(pattern, text)
    return None if word is None else float(word)
