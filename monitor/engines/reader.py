"""From the text of a page to a ``Sample``: the one entrance to the engines room."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from monitor.engines import exposition, sglang, vllm, vllm_v0
from monitor.engines.about import Told, read_about
from monitor.engines.dialect import Dialect, Figures
from monitor.engines.layout import Layout, doubled, lay_out
from monitor.engines.trail import Trail, blaze, follow
from monitor.model import Engine, Identity, PageError, Reading, Sample, Speculation

DIALECTS: dict[Engine, Dialect] = {
    dialect.engine: dialect
    for dialect in (vllm.VLLM, sglang.SGLANG, vllm.TENSORRT_LLM, vllm.LLAMA_CPP, vllm.LMDEPLOY)
}
_FIRST_LOOKS = 12
_LOOK_EVERY = 60
"""All lines are looked at on the first pages and then now and then: they only make notes."""
_CUT_SHORT = 0.25
"""Share of its figures that a page may lose before nothing of it is believed."""
_WAITING = (
    "output_tokens",
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "gauge_tokens",
    "decode_seconds",
    "decode_tokens",
    "decode_steps",
    "engine_steps",
    "batched_steps",
)
"""Counters that are held back together, so that none is taken for all there was."""


class Found(NamedTuple):
    """The figures of one page and where they stand."""

    layout: Layout
    figures: dict[str, Figures]
    notes: tuple[str, ...]
    waits: bool = False
    """True where speculation cannot be counted; then nothing is, until the next page."""


class PageReader:
    """Reads the pages of one target; remembers how they are laid out and what they lack."""

    def __init__(self, engine: Engine | None = None, draft_size: float | None = None) -> None:
        self._configured = engine
        self._dialect = DIALECTS[engine] if engine else None
        self._draft_size = draft_size
        self._layout: Layout | None = None
        self._trail: Trail | None = None
        """Where the lines of the layout stood on the last page, once that was known."""
        self._pages = 0
        self._malformed = False
        self._incomplete = False
        self._has_unknown_names = False
        self._birth_figure: str | None = None
        self._draft_sizes = sglang.DraftSizes()
        self._settlement = sglang.Settlement()
        self._v0_totals: dict[str, vllm_v0.RawTotals] = {}
        self._told: Told | None = None
        self._told_size: float | None = None
        self._seen = self._identity = Identity()

    def recall(self, identity: Identity, counters: Collection[str]) -> None:
        """Goes on from what an earlier process knew of the server and which counters it read."""
        self._identity = identity
        if identity.engine is Engine.SGLANG:
            self._settlement.recall(counters)

    def read(
        self, body: bytes, at: float, loads: bytes | None = None, about: bytes | None = None
    ) -> Sample:
        """One page, understood, with what the server tells about itself where it was asked.

        Raises ``PageError`` when the text as a whole is no usable metrics page. A page of an
        unknown engine is a sample without engine; whatever else is odd ends up in its notes.
        """
        if about is not None:
            # It is kept for the next usable page, should this one not be.
            self._told = read_about(about)
            self._told_size = self._told.parts.get("draft_size", self._told_size)
        page = exposition.normalise(body)
        found = self._known_figures(page) or self._figures(page)
        dialect = self._dialect
        if found is None or dialect is None:
            return Sample(at, Identity(), [])
        notes = list(found.notes)
        readings = self._readings(dialect, page, found, notes)
        if dialect.engine is Engine.SGLANG:
            problem = self._settlement.settle(readings, found.figures, loads)
            if problem:
                notes.append(problem)
        if found.waits:
            _hold_back(readings)
        if self._told is not None:
            notes += self._told.notes
        identity = self._identify(_identity(dialect, found.layout, readings))
        return Sample(at, identity, readings, tuple(notes))

    def _identify(self, seen: Identity) -> Identity:
        """What is known of the server: from this page, its own word, and the pages before.

        A part that is missing now stays as it was: figures are compared with those of servers
        of the same kind only, and a server is not another one because an endpoint was slow.
        """
        told, self._told = self._told, None
        if told is None and seen == self._seen:
            return self._identity
        self._seen = seen
        before = self._identity
        if None not in (before.model, seen.model) and before.model != seen.model:
            before = Identity()
        if before.engine is not seen.engine:
            before = Identity()
        parts = before._asdict() | (told.parts if told is not None else {})
        parts |= {name: part for name, part in seen._asdict().items() if part is not None}
        identity = Identity(**parts)
        if identity != self._identity:
            self._identity = identity
        return self._identity

    def _known_figures(self, page: bytes) -> Found | None:
        """The figures of a page with the same lines as the one before and nothing odd."""
        dialect, layout = self._dialect, self._layout
        if dialect is None or layout is None:
            return None
        texts = self._texts(page, dialect, layout)
        values = None if texts is None else exposition.numbers(texts)
        if values is None:
            return None
        self._incomplete = False
        return Found(layout, layout.figures(values), layout.notes)

    def _texts(self, page: bytes, dialect: Dialect, layout: Layout) -> Sequence[bytes] | None:
        """The values of the wanted lines, if they are those of the layout and no others."""
        self._pages += 1
        if self._malformed:
            return None
        if self._pages <= _FIRST_LOOKS or self._pages % _LOOK_EVERY == 0:
            self._has_unknown_names = bool(dialect.unknown_names(page))
            if exposition.malformed(page):
                return None
        elif self._trail is not None and (followed := follow(page, self._trail)) is not None:
            texts, self._trail = followed
            return texts
        lines = exposition.find(page, dialect.wanted)
        if lines.names != layout.names or lines.labels != layout.labels or any(lines.rests):
            return None
        self._trail = blaze(page, dialect.wanted)
        return lines.values

    def _figures(self, page: bytes) -> Found | None:
        """The figures of a page that differs from the one before; every line is looked at."""
        self._trail = None
        page = exposition.tidy(page)
        dialect = self._choose(page)
        if dialect is None:
            if not exposition.has_metrics(page):
                raise PageError("not a metrics page: no line of it is a metric")
            self._refuse_half_a_page(None)
            self._dialect = None
            return None
        if dialect is not self._dialect:
            self._dialect, self._layout = dialect, None
        self._has_unknown_names = bool(dialect.unknown_names(page))
        lines = exposition.find(page, dialect.wanted)
        found = exposition.check(lines)
        twice = doubled(found)
        malformed = exposition.malformed(page)
        self._malformed = bool(malformed)
        damaged = found.damaged | twice | exposition.torn(page, dialect.begun, lines)
        damaged = damaged.union(*map(dialect.named_by, malformed))
        layout = lay_out(dialect, found._replace(damaged=damaged), self._layout)
        self._refuse_half_a_page(layout)
        lost = _lost(dialect, damaged, layout, self._layout)
        waits = self._must_wait(dialect, layout, lost)
        if not damaged:
            self._layout = layout
        self._choose_birth(page, layout)
        notes = [*layout.notes, *_notes(found, twice, malformed, lost)]
        return Found(layout, layout.figures(found.values, lost), tuple(notes), waits)

    def _choose(self, page: bytes) -> Dialect | None:
        """The engine of the page before or the first that fits, unless one is configured."""
        if self._configured is not None:
            candidates = [DIALECTS[self._configured]]
        else:
            known = [self._dialect] if self._dialect else []
            candidates = [*known, *DIALECTS.values()]
        return next((d for d in candidates if d.mark.search(page)), None)

    def _readings(
        self, dialect: Dialect, page: bytes, found: Found, notes: list[str]
    ) -> list[Reading]:
        births = self._births(page, found.figures)
        size = self._draft_size or self._told_size
        readings = []
        for label in sorted(found.figures):
            figures = found.figures[label]
            reading = dialect.compose(label, figures, size)
            reading.birth = births.get(label)
            if vllm_v0.is_v0(figures):
                self._correct_v0(label, reading, figures, notes)
            if dialect.engine is Engine.SGLANG:
                self._draft_sizes.complete(reading, figures)
            if self._has_unknown_names and reading.speculation is Speculation.ABSENT:
                reading.speculation = Speculation.UNKNOWN_NAMES
            readings.append(reading)
        return readings

    def _births(self, page: bytes, engines: dict[str, Figures]) -> dict[str, float]:
        """When each engine began."""
        if self._birth_figure == "process_start":
            start = exposition.process_start(page)
            return {} if start is None else dict.fromkeys(engines, start)
        return {
            label: figures.values["created"]
            for label, figures in engines.items()
            if "created" in figures.values
        }

    def _must_wait(
        self, dialect: Dialect, layout: Layout, lost: dict[str, frozenset[str]]
    ) -> bool:
        """Whether nothing on this page is to be counted before the next one.

        Tokens without the drafts that gave them would look like a server that does not draft,
        one engine without the others like a change of all. All counters catch up with the
        next page; only what stays away for longer is given up.
        """
        before, was_incomplete = self._layout, self._incomplete
        vital = any(not figures.isdisjoint(dialect.vital) for figures in lost.values())
        missing = before is not None and not set(before.engines) <= set(layout.engines)
        self._incomplete = bool(layout.engines) and (vital or missing)
        return self._incomplete and not was_incomplete

    def _refuse_half_a_page(self, layout: Layout | None) -> None:
        """Raises ``PageError`` for a page that has lost most of what the one before showed.

        It was cut short at the end of a line, or the server has started anew; then it says so
        again on the next page. A page with nothing at all may also be a server that has not
        served anything since its start, unless its figures are there from the start.
        """
        before = self._layout
        if before is None:
            return
        if layout is not None and not layout.engines and self._birth_figure is None:
            return
        missing = before.missing_in(layout)
        if missing and missing >= _CUT_SHORT * before.size:
            self._layout = None
            raise PageError(
                f"the page is cut short: {missing} of {before.size} figures are missing"
            )

    def _choose_birth(self, page: bytes, layout: Layout) -> None:
        """Settles for good which line tells when the engine began: two lines differ by seconds."""
        if self._birth_figure is None:
            if layout.has("created"):
                self._birth_figure = "created"
            elif exposition.process_start(page) is not None:
                self._birth_figure = "process_start"

    def _correct_v0(
        self, label: str, reading: Reading, figures: Figures, notes: list[str]
    ) -> None:
        before = self._v0_totals.get(label)
        known = vllm_v0.correct(reading, figures, before)
        raw = vllm_v0.raw_totals(figures)
        if raw is not None:
            self._v0_totals[label] = raw
            if not known and raw != before:
                notes.append(
                    "vLLM's V0 engine adds up running totals: figures need looks 5 s apart,"
                    " so that exactly one update lies between two"
                )


def _hold_back(readings: list[Reading]) -> None:
    for reading in readings:
        reading.positions = ()
        for name in _WAITING:
            reading.counters.pop(name, None)


def _lost(
    dialect: Dialect, damaged: frozenset[bytes], layout: Layout, before: Layout | None
) -> dict[str, frozenset[str]]:
    """For each engine the figures that are not whole on this page."""
    figures = frozenset(figure for name in damaged for figure, _, _ in dialect.routes[name])
    gone = {} if before is None else layout.lost_since(before)
    lost = {label: figures | gone.get(label, frozenset()) for label in layout.engines}
    return {label: missing for label, missing in lost.items() if missing}


def _notes(
    found: exposition.Checked,
    twice: frozenset[bytes],
    malformed: list[bytes],
    lost: dict[str, frozenset[str]],
) -> list[str]:
    notes = list(found.notes)
    notes += [
        f"{name.decode()}: the same series stands twice on the page; not used"
        for name in sorted(twice)
    ]
    if malformed:
        lines = (
            "1 malformed line was"
            if len(malformed) == 1
            else f"{len(malformed)} malformed lines were"
        )
        notes.append(f"{lines} skipped")
    if lost:
        figures = ", ".join(sorted(frozenset[str]().union(*lost.values())))
        notes.append(f"not whole on this page, and not used: {figures}")
    return notes


def _identity(dialect: Dialect, layout: Layout, readings: list[Reading]) -> Identity:
    sizes = {reading.draft_size for reading in readings if reading.draft_size is not None}
    sizes |= {float(len(reading.positions)) for reading in readings if reading.positions}
    return Identity(
        engine=dialect.engine,
        model=layout.models[0] if layout.models else None,
        draft_size=int(max(sizes)) if sizes else None,
    )
