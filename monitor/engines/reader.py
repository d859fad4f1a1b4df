"""From the text of a page to a ``Sample``: the one entrance to the engines room."""

from __future__ import annotations

from monitor.engines import exposition, sglang, vllm, vllm_v0
from monitor.engines.dialect import Collected, Dialect, Figures, collect
from monitor.model import SHARED, Engine, Identity, PageError, Reading, Sample, Speculation

DIALECTS: dict[Engine, Dialect] = {
    dialect.engine: dialect
    for dialect in (vllm.VLLM, sglang.SGLANG, vllm.TENSORRT_LLM, vllm.LLAMA_CPP, vllm.LMDEPLOY)
}
_MOST_ENGINES = 64
"""A page with more engines than this is not read: no server has so many ranks."""


class PageReader:
    """Reads the pages of one target; remembers its engine and vLLM V0's last counters."""

    def __init__(self, engine: Engine | None = None, draft_size: float | None = None) -> None:
        self._configured = engine
        self._dialect = DIALECTS[engine] if engine else None
        self._draft_size = draft_size
        self._rate_definition = sglang.RateDefinition()
        self._v0_totals: dict[str, vllm_v0.RawTotals] = {}

    def read(self, body: bytes, at: float, loads: bytes | None = None) -> Sample:
        """One page, understood.

        Raises ``PageError`` when the text as a whole is no usable metrics page. A page of an
        unknown engine is a sample without engine; whatever else is odd ends up in its notes.
        """
        page = exposition.normalise(body)
        dialect = self._choose(page)
        if dialect is None:
            if not exposition.has_metrics(page):
                raise PageError("not a metrics page: no line of it is a metric")
            return Sample(at, Identity(), [])
        self._dialect = dialect
        found = exposition.scan(page, dialect.wanted)
        collected = collect(dialect, found)
        if len(collected.engines) > _MOST_ENGINES:
            raise PageError(f"the page shows {len(collected.engines)} engines; that cannot be")
        readings = self._readings(dialect, collected, exposition.process_start(page))
        self._look_for_new_names(dialect, page, readings)
        notes = collected.notes
        if len(collected.models) > 1:
            notes.append(f"the page serves {len(collected.models)} models; they are added up")
        if dialect.engine is Engine.SGLANG:
            sglang.share_out(readings)
        if loads is not None and dialect.engine is Engine.SGLANG:
            problem = sglang.apply_moments(readings, loads)
            if problem:
                notes.append(problem)
        return Sample(at, self._identity(dialect, collected, readings), readings, tuple(notes))

    def _choose(self, page: bytes) -> Dialect | None:
        """The configured engine, the one of the page before, or the first that fits."""
        if self._configured is not None:
            return DIALECTS[self._configured]
        known = [self._dialect] if self._dialect else []
        for dialect in [*known, *DIALECTS.values()]:
            if any(mark in page for mark in dialect.marks):
                return dialect
        return None

    def _readings(
        self, dialect: Dialect, collected: Collected, start: float | None
    ) -> list[Reading]:
        engines = _name(_merge_shared(collected.engines))
        readings = []
        for label in sorted(engines):
            figures = engines[label]
            if start is not None:
                figures.values["process_start"] = start
            reading = dialect.compose(label, figures, self._draft_size)
            if "emitted" in figures.values or "v0_efficiency" in figures.values:
                self._correct_v0(label, reading, figures, collected.notes)
            if reading.draft_size is None and dialect.engine is Engine.SGLANG:
                reading.draft_size = self._rate_definition.draft_size(figures)
            readings.append(reading)
        return readings

    def _correct_v0(
        self, label: str, reading: Reading, figures: Figures, notes: list[str]
    ) -> None:
        before = self._v0_totals.get(label)
        known = vllm_v0.correct(reading, figures.values, before)
        raw = vllm_v0.raw_totals(figures.values)
        if raw is not None:
            self._v0_totals[label] = raw
            if not known and raw != before:
                notes.append(
                    "vLLM's V0 engine adds up running totals: figures need looks 5 s apart,"
                    " so that exactly one update lies between two"
                )

    def _look_for_new_names(
        self, dialect: Dialect, page: bytes, readings: list[Reading]
    ) -> None:
        if any(reading.speculation is not Speculation.ABSENT for reading in readings):
            return
        if dialect.unknown_names(page):
            for reading in readings:
                reading.speculation = Speculation.UNKNOWN_NAMES

    def _identity(
        self, dialect: Dialect, collected: Collected, readings: list[Reading]
    ) -> Identity:
        sizes = {reading.draft_size for reading in readings if reading.draft_size is not None}
        sizes |= {float(len(reading.positions)) for reading in readings if reading.positions}
        return Identity(
            engine=dialect.engine,
            model=collected.models[0] if collected.models else None,
            draft_size=int(max(sizes)) if sizes else None,
        )


def _merge_shared(engines: dict[str, Figures]) -> dict[str, Figures]:
    """Puts what a server says for all its ranks under ``SHARED``, or into its only rank."""
    ranks = [label for label in engines if not _is_shared(label, engines)]
    shared = [label for label in engines if _is_shared(label, engines)]
    if not shared:
        return engines
    target = ranks[0] if len(ranks) == 1 else SHARED
    merged = {label: engines[label] for label in ranks}
    into = merged.setdefault(target, Figures())
    for label in shared:
        for figure, value in engines[label].values.items():
            into.values[figure] = into.values.get(figure, 0.0) + value
    return merged


def _is_shared(label: str, engines: dict[str, Figures]) -> bool:
    if label == SHARED:
        return len(engines) > 1
    return any(other.startswith(label + "/") for other in engines)


def _name(engines: dict[str, Figures]) -> dict[str, Figures]:
    """Calls the only engine of a page without rank labels "0"."""
    return {"0": engines[SHARED]} if list(engines) == [SHARED] else engines
