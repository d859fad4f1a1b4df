"""Mistakes in the configuration: where they are and what to do about them, one line each."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from monitor.model import ConfigError

KeyPath = tuple[str | int, ...]

# A key that does not look like one may be a secret that landed on the wrong side of a colon.
_SHOWABLE_KEY = re.compile(r"[A-Za-z_]{1,40}", re.ASCII)
_SHOWN_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake."""

    path: KeyPath
    message: str
    line: int | None = None
    depends: tuple[KeyPath, ...] = ()
    """Other keys the mistake follows from; it is not reported while one of them is wrong."""


@dataclass(frozen=True, slots=True)
class Source:
    """The text a configuration came from, so that mistakes can be shown in it."""

    name: str
    folder: Path = field(default_factory=Path)
    """Where relative paths start."""
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, path: KeyPath) -> int | None:
        """The line of the key, or of the section it is missing in."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def describe(self, problem: Problem) -> str:
        """``file:line: key.path: what is wrong and how to mend it``."""
        line = problem.line or (self.line(problem.path) if problem.path else None)
        place = f"{self.name}:{line}" if line else self.name
        key = format_path(problem.path)
        return f"{place}: {key}: {problem.message}" if key else f"{place}: {problem.message}"

    def error(self, problems: Iterable[Problem]) -> ConfigError:
        """All mistakes in the order of the file, one line each."""
        ordered = sorted(
            set(problems), key=lambda p: (p.line or self.line(p.path) or 0, format_path(p.path))
        )
        shown = [self.describe(problem) for problem in ordered[:_SHOWN_PROBLEMS]]
        if len(ordered) > _SHOWN_PROBLEMS:
            shown.append(f"{self.name}: and {len(ordered) - _SHOWN_PROBLEMS} mistakes more")
        return ConfigError("\n".join(shown))


def format_path(path: KeyPath) -> str:
    """``services[0].auth.bearer_file``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _SHOWABLE_KEY.fullmatch(part) else "(key not shown)"
            text += f".{key}" if text else key
    return text


def repeated_names(section: str, names: Iterable[str]) -> Iterator[Problem]:
    """A mistake for each entry of a list that has the name of an earlier one."""
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        first = seen.setdefault(name, index)
        if first != index:
            message = f"is the name of {section}[{first}] already: names must be unique"
            yield Problem((section, index, "name"), message)


def did_you_mean(word: str, known: Collection[str]) -> str:
    """``did you mean 'x'?``, or the list of what there is where nothing is close."""
    close = difflib.get_close_matches(word.lower(), sorted(known), n=1)
    return f"did you mean '{close[0]}'?" if close else f"known are {', '.join(sorted(known))}"
