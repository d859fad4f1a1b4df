"""Tests of alert rules in YAML: a series of verdicts in, which alerts are told when.

A line of a series is ``DURATION VERDICT[/CAUSE[/ACTION]] [name=value …]``; docs/alerts.md
explains it. Time starts at 0, and there is a look every ``interval``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, PlainValidator

from monitor.alerting.machine import AlertState, applying, step
from monitor.alerting.model import Reason, State
from monitor.alerting.rules import SPECULATIVE, BaselineState, Facts, Rule
from monitor.alerting.ruleset import Label, RoleWord, Text, load_rules, read_document
from monitor.config import values
from monitor.config.problems import Problem, did_you_mean
from monitor.config.schema import Duration, FileName, Section
from monitor.config.validate import validate_as
from monitor.model import (
    Action,
    Alarm,
    Assessment,
    BaselineMatch,
    Cause,
    Counts,
    Estimate,
    Load,
    Verdict,
    Window,
)

SUFFIX = ".test.yaml"
START = 1_790_000_000.0
MAX_LOOKS = 200_000
_ABSENT, _MISSED = "absent", "missed"
_HALF_WIDTH = 0.02
_EPSILON = 1e-6
_ESTIMATES = ("acceptance_rate", "acceptance_length", "speedup")
_NUMBERS = ("drafts", "requests", "running", "threshold")
_KEYS = (*_ESTIMATES, *_NUMBERS, "alarm", "baseline")

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which every look finds the same; None is a daemon that does not run."""

    seconds: float
    facts: Facts | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A test and what is wrong with it, one line each."""

    file: str
    name: str
    failures: tuple[str, ...]


def _word(kind: type[E], text: str) -> E:
    known = [member.value for member in kind]
    if text not in known:
        raise ValueError(f"'{text[:40]}' is not known; {did_you_mean(text, known)}")
    return kind(text)


def parse_stretch(text: object) -> Stretch:
    """One line of a series."""
    words = text.split() if isinstance(text, str) else []
    if len(words) < 2:  # noqa: PLR2004 - a duration and a verdict
        raise ValueError("must read 'DURATION VERDICT[/CAUSE[/ACTION]] [name=value …]'")
    seconds = values.parse_duration(words[0])
    if words[1] == _ABSENT:
        return Stretch(seconds, None)
    missed = words[1] == _MISSED
    verdict, _, rest = ("unproven" if missed else words[1]).partition("/")
    cause, _, action = rest.partition("/")
    assessment = Assessment(
        target="t",
        at=0.0,
        verdict=_word(Verdict, verdict),
        cause=_word(Cause, cause) if cause else None,
        action=_word(Action, action) if action else Action.NONE,
        sentence=f"the verdict is {verdict}",
        baseline=BaselineMatch("plain", matches=True, running_range=(1.0, 64.0)),
    )
    facts = _with_figures(Facts(assessment, "s", fresh=not missed), _pairs(words[2:]))
    return Stretch(seconds, facts)


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _KEYS or not equals:
            raise ValueError(f"'{word[:40]}' is not name=value; {did_you_mean(name, _KEYS)}")
        pairs[name] = value
    return pairs


def _with_figures(facts: Facts, pairs: Mapping[str, str]) -> Facts:
    numbers = {name: _number(pairs[name]) for name in _NUMBERS if name in pairs}
    counts = Counts(drafts=numbers.get("drafts", 1000.0), requests=numbers.get("requests", 50.0))
    estimates: dict[str, Any] = {n: _estimate(pairs[n]) for n in _ESTIMATES if n in pairs}
    load = Load(running=numbers.get("running"))
    window = Window(0.0, 60.0, counts)
    a = facts.assessment._replace(window=window, load=load, **estimates)
    if "baseline" in pairs:
        state = _word(BaselineState, pairs["baseline"])
        other = BaselineMatch("other", matches=False, running_range=(1.0, 64.0))
        a = a._replace(baseline=None if state is BaselineState.MISSING else other)
    alarms = (_word(Alarm, pairs["alarm"]),) if "alarm" in pairs else ()
    set_to = numbers.get("threshold")
    facts = facts._replace(assessment=a, alarms=alarms)
    return facts if set_to is None else facts._replace(threshold=set_to, threshold_is_set=True)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text[:40]}' is not a number") from None


def _estimate(text: str) -> Estimate:
    """``0.35``, which is known to ± 0.02, or an interval as ``0.30..0.40``."""
    low, dots, high = text.partition("..")
    if dots:
        ends = _number(low), _number(high)
        return Estimate(sum(ends) / 2.0, *ends)
    value = _number(text)
    return Estimate(value, value - _HALF_WIDTH, value + _HALF_WIDTH)


@dataclass(frozen=True, slots=True)
class Notice:
    """A message that a test expects: ``4m15s harmful first``."""

    at: float
    rule: str
    reason: Reason

    def __str__(self) -> str:
        return f"{_clock(self.at)} {self.rule} {self.reason.value}"


def parse_notice(text: object) -> Notice:
    """One expected message."""
    words = text.split() if isinstance(text, str) else []
    if len(words) != 3:  # noqa: PLR2004 - a time, a rule and a reason
        raise ValueError("must read 'TIME RULE REASON', such as '4m15s harmful first'")
    return Notice(values.parse_duration(words[0]), words[1], _word(Reason, words[2]))


def _parse_time(text: object) -> str:
    values.parse_duration(text)
    return str(text)


Line = Annotated[Any, PlainValidator(parse_stretch)]


class Loop(Section):
    """Lines that are repeated."""

    times: Annotated[int, Field(ge=1, le=10_000)]
    series: Annotated[tuple[Line, ...], Field(min_length=1)]


def _parse_item(value: object) -> object:
    return value if isinstance(value, dict) else {"times": 1, "series": [value]}


Item = Annotated[Loop, BeforeValidator(_parse_item)]
ExpectedNotice = Annotated[Any, PlainValidator(parse_notice)]
Time = Annotated[str, BeforeValidator(_parse_time)]


class RuleTest(Section):
    """One story and what is expected of it."""

    name: Text
    rules: tuple[str, ...] = Field((), description="Only these rules; default: all.")
    interval: Annotated[Duration, Field(ge=1)] = 15.0
    role: RoleWord | None = None
    service: Text = "s"
    target: Text = "t"
    labels: dict[Label, Text] = Field(default_factory=dict)
    series: Annotated[tuple[Item, ...], Field(min_length=1)]
    firing: dict[Time, tuple[str, ...]] = Field(
        default_factory=dict, description="All alerts that fire at a time."
    )
    notices: tuple[ExpectedNotice, ...] | None = Field(
        None, description="All messages of the whole series, in order."
    )

    def stretches(self) -> Iterator[Stretch]:
        """The series, repetitions written out."""
        for item in self.series:
            for _ in range(item.times):
                yield from item.series


class TestFile(Section):
    """A whole file of tests."""

    __test__ = False

    rule_files: tuple[FileName, ...] = Field(
        (), description="Files beside this one, on top of the shipped rules."
    )
    default_rules: bool = True
    tests: tuple[RuleTest, ...] = Field(min_length=1)


def run_file(path: Path) -> list[Outcome]:
    """Runs all tests of one file.

    Raises:
        ConfigError: the tests or their rules are wrong, with one line for each mistake.
    """
    source, data = read_document(path)
    file, problems = validate_as(TestFile, data, _misfits)
    if file is None:
        raise source.error(problems)
    paths = [source.folder / name for name in file.rule_files]
    rules = load_rules(paths, defaults=file.default_rules).rules
    known = {rule.id for rule in rules}
    unknown = [
        Problem(
            ("tests", index), f"names a rule that is not in force; {did_you_mean(name, known)}"
        )
        for index, test in enumerate(file.tests)
        for name in sorted(_named(test) - known)
    ]
    if unknown:
        raise source.error(unknown)
    return [Outcome(str(path), test.name, tuple(run_test(rules, test))) for test in file.tests]


def _named(test: RuleTest) -> set[str]:
    firing = (name for names in test.firing.values() for name in names)
    return {*test.rules, *firing, *(notice.rule for notice in test.notices or ())}


def _misfits(file: TestFile) -> Iterator[Problem]:
    for index, test in enumerate(file.tests):
        looks = sum(stretch.seconds for stretch in test.stretches()) / test.interval
        if looks > MAX_LOOKS:
            yield Problem(("tests", index, "series"), f"has more than {MAX_LOOKS} looks")
        if not test.firing and test.notices is None:
            yield Problem(("tests", index), "expects nothing: give firing, notices or both")


def run_test(rules: Sequence[Rule], test: RuleTest) -> Iterator[str]:
    """Plays one test; yields a line for whatever comes out otherwise than expected."""
    chosen = [rule for rule in rules if not test.rules or rule.id in test.rules]
    states: dict[str, AlertState] = {}
    told: list[Notice] = []
    # Firing alerts after each look, so that any time can be asked about.
    stood: list[tuple[float, tuple[str, ...]]] = []
    for at, facts in _looks(test):
        states, messages = step(applying(chosen, facts), states, facts, START + at, test.interval)
        told += [Notice(at, message.rule, message.reason) for message in messages]
        firing = sorted(n for n, state in states.items() if state.state is State.FIRING)
        stood.append((at, tuple(firing)))
    for text, expected in test.firing.items():
        at = values.parse_duration(text)
        found = next((names for when, names in reversed(stood) if when <= at + _EPSILON), ())
        if tuple(sorted(expected)) != found:
            yield f"at {text}: firing {_names(found)}, expected {_names(sorted(expected))}"
    yield from _compare(told, test.notices)


def _compare(told: Sequence[Notice], expected: Sequence[Notice] | None) -> Iterator[str]:
    if expected is None or [str(n) for n in told] == [str(n) for n in expected]:
        return
    yield f"told: {_names([str(n) for n in told])}"
    yield f"expected: {_names([str(n) for n in expected])}"


def _looks(test: RuleTest) -> Iterator[tuple[float, Facts]]:
    began, last = 0.0, None
    for stretch in test.stretches():
        end, at = began + stretch.seconds, began
        while stretch.facts is not None and at < end - _EPSILON:
            facts = last if not stretch.facts.fresh and last is not None else stretch.facts
            facts = _placed(facts, test, at, fresh=stretch.facts.fresh)
            last = facts
            yield at, facts
            at += test.interval
        began = end


def _placed(facts: Facts, test: RuleTest, at: float, *, fresh: bool) -> Facts:
    return facts._replace(
        assessment=facts.assessment._replace(target=test.target, at=START + at),
        service=test.service,
        role=SPECULATIVE if test.role is None else test.role.value,
        labels=test.labels,
        fresh=fresh,
    )


def _clock(seconds: float) -> str:
    parts = []
    for unit, size in (("h", 3600.0), ("m", 60.0)):
        if seconds >= size:
            parts.append(f"{int(seconds // size)}{unit}")
            seconds %= size
    if seconds or not parts:
        parts.append(f"{seconds:g}s")
    return "".join(parts)


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
