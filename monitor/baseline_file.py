"""Reads a baseline curve from its JSON file; docs/configuration.md describes the format."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

from monitor.config import files
from monitor.config.problems import did_you_mean
from monitor.health.baseline import (
    FASTEST_TPOT,
    SLOWEST_TPOT,
    Baseline,
    BaselinePoint,
)
from monitor.model import ConfigError, Engine, Identity

_MAX_BYTES = 1_000_000
_MAX_POINTS = 10_000
_KEYS = ("name", "points", "fingerprint")
_POINT_KEYS = ("running", "tpot", "seconds")
_FINGERPRINT_KEYS = ("engine", "engine_version", "model", "tensor_parallel")


def load_baseline(path: Path) -> Baseline:
    """The curve in ``path``, its points in ascending order of load.

    Raises:
        ConfigError: with one line for each mistake.
    """
    reader = _Reader()
    try:
        document = _parse(path)
    except ValueError as error:
        raise ConfigError(f"baseline {path}: {error}") from None
    baseline = reader.baseline(document, path.stem)
    if baseline is None:
        raise ConfigError("\n".join(f"baseline {path}: {text}" for text in reader.mistakes))
    return baseline


def _parse(path: Path) -> dict[str, Any]:
    try:
        text = files.decode(files.read_limited(path, _MAX_BYTES))
        document = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} (line {error.lineno})") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError('must be an object: {"name": "…", "points": […]}')
    return document


def _no_constant(_name: str) -> NoReturn:
    raise ValueError("holds NaN or Infinity, which are no numbers in JSON")


class _Reader:
    """Collects mistakes, so that all of them are shown at once."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []

    def baseline(self, document: dict[str, Any], default_name: str) -> Baseline | None:
        self._check_keys(document, _KEYS, "")
        name = document.get("name") or default_name
        if not isinstance(name, str) or not name.isprintable():
            self.mistakes.append("name: must be printable text")
        points = self._points(document.get("points"))
        identity = self._identity(document.get("fingerprint"))
        return None if self.mistakes else Baseline(name, points, identity)

    def _points(self, entries: object) -> tuple[BaselinePoint, ...]:
        if not isinstance(entries, list) or not 1 <= len(entries) <= _MAX_POINTS:
            self.mistakes.append(
                'points: must be a list of at least one {"running": 1, "tpot": 0.012}'
            )
            return ()
        read = [self._point(f"points[{i}]", entry) for i, entry in enumerate(entries)]
        points = sorted((p for p in read if p is not None), key=lambda p: p.running)
        for one, next_one in pairwise(points):
            if one.running == next_one.running:
                self.mistakes.append(f"points: two have running {one.running:g}; keep one")
        return tuple(points)

    def _point(self, place: str, entry: object) -> BaselinePoint | None:
        if not isinstance(entry, dict):
            self.mistakes.append(f'{place}: must be an object {{"running": 1, "tpot": 0.012}}')
            return None
        self._check_keys(entry, _POINT_KEYS, f"{place}.")
        running = self._positive(f"{place}.running", entry.get("running"))
        tpot = self._positive(f"{place}.tpot", entry.get("tpot"))
        seconds = entry.get("seconds") or 0.0
        if seconds:
            seconds = self._positive(f"{place}.seconds", seconds)
        if tpot is not None and not FASTEST_TPOT <= tpot <= SLOWEST_TPOT:
            self.mistakes.append(
                f"{place}.tpot: {tpot:g} seconds per token cannot be (10 µs to 10 s can); "
                "was it given in milliseconds?"
            )
        if running is None or tpot is None or seconds is None:
            return None
        return BaselinePoint(running, tpot, float(seconds))

    def _positive(self, place: str, value: object) -> float | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if 0 < number < math.inf:
                return number
        self.mistakes.append(
            f"{place}: {'is missing' if value is None else 'must be a positive number'}"
        )
        return None

    def _identity(self, entry: object) -> Identity:
        if entry is None:
            return Identity()
        if not isinstance(entry, dict):
            self.mistakes.append("fingerprint: must be an object")
            return Identity()
        self._check_keys(entry, _FINGERPRINT_KEYS, "fingerprint.")
        parallel = entry.get("tensor_parallel")
        if parallel is not None and (type(parallel) is not int or parallel < 1):
            self.mistakes.append("fingerprint.tensor_parallel: must be a whole number from 1 on")
        return Identity(
            engine=self._engine(entry.get("engine")),
            engine_version=self._text("engine_version", entry.get("engine_version")),
            model=self._text("model", entry.get("model")),
            tensor_parallel=parallel,
        )

    def _engine(self, value: object) -> Engine | None:
        if value is None:
            return None
        known = [engine.value for engine in Engine]
        if value not in known:
            self.mistakes.append(f"fingerprint.engine: {did_you_mean(str(value), known)}")
            return None
        return Engine(str(value))

    def _text(self, key: str, value: object) -> str | None:
        if value is None or isinstance(value, str):
            return value
        self.mistakes.append(f"fingerprint.{key}: must be text or null")
        return None

    def _check_keys(self, entry: dict[str, Any], known: tuple[str, ...], prefix: str) -> None:
        for key in entry:
            if key not in known:
                shown = key if key.isidentifier() else "a key"
                self.mistakes.append(
                    f"{prefix}{shown[:40]}: is not known here; {did_you_mean(key, known)}"
                )
