"""Alert rules from YAML: the shape of the files, their mistakes by line, and how files add up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, model_validator

from monitor.alerting.model import Severity
from monitor.alerting.rules import (
    EVERYTHING,
    BaselineState,
    By,
    Condition,
    Figure,
    Limit,
    Matcher,
    Repeat,
    Rule,
)
from monitor.alerting.wording import FIELDS, TITLE_LIMIT
from monitor.config import files, values
from monitor.config.problems import KeyPath, Problem, Source, did_you_mean
from monitor.config.schema import Duration, Section
from monitor.config.validate import validate_as
from monitor.config.yaml_tree import YamlError, parse_yaml
from monitor.model import Action, Alarm, Cause, Verdict
from monitor.resources import data_dir
from monitor.settings import Role

MAX_BYTES = 1_000_000
DEFAULT_FILE = "default.yaml"
_OWN_THRESHOLD = "threshold"
_LARGEST = {
    Figure.ACCEPTANCE_RATE: 1.0,
    Figure.ACCEPTANCE_LENGTH: 129.0,
    Figure.SPEEDUP: 100.0,
    Figure.RUNNING: 1e6,
}

E = TypeVar("E", bound=StrEnum)


def _word(kind: type[E]) -> BeforeValidator:
    """Reads a word of ``kind``; a mistyped one is told which it is close to."""

    def parse(value: object) -> E:
        known = [member.value for member in kind]
        if not isinstance(value, str):
            raise ValueError(f"must be one of {', '.join(known)}")
        if value not in known:
            raise ValueError(f"is not one of the known words; {did_you_mean(value, known)}")
        return kind(value)

    return BeforeValidator(parse)


def _parse_bound(value: object) -> float | str:
    if value == _OWN_THRESHOLD:
        return _OWN_THRESHOLD
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124
        raise ValueError("must be a number, or 'threshold' for the service's own")
    return float(min(value, 1e30))


def _from_duration(value: object) -> object:
    return value if isinstance(value, dict) else {"duration": value}


def _from_every(value: object) -> object:
    if value == "never":
        return {"every": "1s", "never": True}
    return value if isinstance(value, dict) else {"every": value}


def _check_summary(text: str) -> str:
    template = Template(text)
    if not template.is_valid():
        raise ValueError("has a '$' that begins no field: write $$ for the sign itself")
    for name in template.get_identifiers():
        if name not in FIELDS:
            raise ValueError(f"has an unknown field; {did_you_mean(name, FIELDS)}")
    return text


def _check_id(text: str) -> str:
    if text == "rollback":
        raise ValueError("is the name under which rollbacks tell of themselves: take another")
    return text


def _check_line(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError("must be one line of printable text")
    return text


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Bound = Annotated[Any, PlainValidator(_parse_bound)]
VerdictWord = Annotated[Verdict, _word(Verdict)]
CauseWord = Annotated[Cause, _word(Cause)]
ActionWord = Annotated[Action, _word(Action)]
SeverityWord = Annotated[Severity, _word(Severity)]
ByWord = Annotated[By, _word(By)]
AlarmWord = Annotated[Alarm, _word(Alarm)]
BaselineWord = Annotated[BaselineState, _word(BaselineState)]
RoleWord = Annotated[Role, _word(Role)]
Span = Annotated[
    float,
    BeforeValidator(values.parse_duration, json_schema_input_type=str | float),
    Field(ge=0, le=366 * 86400.0),
]
"""A time that may be none."""
RuleId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$"), AfterValidator(_check_id)]
Text = Annotated[str, Field(max_length=TITLE_LIMIT), AfterValidator(_check_line)]
Pattern = Annotated[str, Field(min_length=1, max_length=200)]
Label = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,99}$")]
Count = Annotated[float, Field(ge=0, le=1e9)]


class LimitEntry(Section):
    """A bound on a figure."""

    below: Bound | None = None
    above: Bound | None = None
    by: ByWord | None = Field(
        None, description="Limit of the interval that must cross. Default: the cautious one."
    )
    margin: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="after")
    def _one_side(self) -> Self:
        if (self.below is None) == (self.above is None):
            raise ValueError("must have one of below and above")
        if self.margin and _OWN_THRESHOLD not in (self.below, self.above):
            raise ValueError("has a margin, which goes with 'threshold' only: change the number")
        return self

    def limit(self, figure: Figure) -> Limit:
        """The same as the machine reads it."""
        bound = self.above if self.below is None else self.below
        cautious = By.LOW if self.below is None else By.HIGH
        by = By.VALUE if figure is Figure.RUNNING else self.by or cautious
        own = bound == _OWN_THRESHOLD
        return Limit(figure, self.below is not None, None if own else bound, by, self.margin)


class When(Section):
    """A condition: all parts must hold."""

    verdicts: tuple[VerdictWord, ...] = ()
    causes: tuple[CauseWord, ...] = ()
    except_causes: tuple[CauseWord, ...] = ()
    actions: tuple[ActionWord, ...] = ()
    acceptance_rate: LimitEntry | None = None
    acceptance_length: LimitEntry | None = None
    speedup: LimitEntry | None = None
    running: LimitEntry | None = None
    alarm: AlarmWord | None = None
    baseline: BaselineWord | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set - {"except_causes"}:
            raise ValueError(
                "must have at least one condition: verdicts, causes, actions, alarm, baseline "
                "or a limit such as acceptance_rate: {below: 0.4}"
            )
        return self

    def limits(self) -> tuple[Limit, ...]:
        """The limits in the order of the figures."""
        given = ((figure, getattr(self, figure.value)) for figure in Figure)
        return tuple(entry.limit(figure) for figure, entry in given if entry is not None)

    def condition(self) -> Condition:
        """The same as the machine reads it."""
        return Condition(
            verdicts=self.verdicts,
            causes=self.causes,
            except_causes=self.except_causes,
            actions=self.actions,
            limits=self.limits(),
            alarm=self.alarm,
            baseline=self.baseline,
        )


class Hold(Section):
    """How long a condition must hold before the alert fires: both must be reached."""

    duration: Span = 0.0
    windows: Annotated[int, Field(ge=1, le=10_000)] = 1


class RepeatEntry(Section):
    """Reminders."""

    every: Annotated[Duration, Field(ge=1)]
    at_most: Duration | None = None
    never: bool = False


class EvidenceEntry(Section):
    """Fewer drafts or requests in the window say nothing to the rule."""

    drafts: Count = 0.0
    requests: Count = 0.0


class Only(Section):
    """Which targets a rule is about."""

    services: tuple[Pattern, ...] = ()
    targets: tuple[Pattern, ...] = ()
    roles: tuple[RoleWord, ...] = (Role.SPECULATIVE,)
    labels: dict[Label, Pattern] = Field(default_factory=dict)

    def matcher(self) -> Matcher:
        """The same as the machine reads it."""
        roles = tuple(role.value for role in self.roles)
        return Matcher(self.services, self.targets, roles, tuple(sorted(self.labels.items())))


class RuleEntry(Section):
    """One rule of a file; keys that are not given stay as an earlier file has them."""

    id: RuleId
    enabled: bool = True
    when: When | None = None
    leave: When | None = None
    severity: SeverityWord | None = None
    summary: Annotated[Text, AfterValidator(_check_summary)] | None = None
    hold: Annotated[Hold, BeforeValidator(_from_duration)] = Field(Hold(), alias="for")
    keep_firing_for: Span = 0.0
    no_data_after: Duration = 1800.0
    evidence: EvidenceEntry = EvidenceEntry()
    labels: dict[Label, Text] = Field(default_factory=dict)
    runbook: Text | None = None
    votes_for_rollback: bool = False
    repeat: Annotated[RepeatEntry, BeforeValidator(_from_every)] = RepeatEntry(
        every=4 * 3600.0, at_most=86400.0
    )
    only: Only = Only()
    mutes: Annotated[tuple[str, ...], BeforeValidator(_as_list)] = ()

    def rule(self) -> Rule:
        """The finished rule; ``when``, ``severity`` and ``summary`` are there."""
        assert self.when is not None  # noqa: S101 - checked by _lacking
        assert self.severity is not None  # noqa: S101
        repeat, most = self.repeat, self.repeat.at_most
        return Rule(
            id=self.id,
            when=self.when.condition(),
            severity=self.severity,
            summary=self.summary or "",
            leave=None if self.leave is None else self.leave.condition(),
            hold_seconds=self.hold.duration,
            hold_windows=self.hold.windows,
            keep_firing=self.keep_firing_for,
            no_data_after=self.no_data_after,
            least_drafts=self.evidence.drafts,
            least_requests=self.evidence.requests,
            labels=tuple(sorted(self.labels.items())),
            runbook=self.runbook,
            votes_for_rollback=self.votes_for_rollback,
            repeat=None if repeat.never else Repeat(repeat.every, most or repeat.every),
            only=self.only.matcher(),
            mutes=self.mutes,
        )


class RuleFile(Section):
    """A whole file."""

    rules: tuple[RuleEntry, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Ruleset:
    """The rules in force and those that were switched off."""

    rules: tuple[Rule, ...] = ()
    off: tuple[str, ...] = ()


def default_rules_file() -> Path:
    """The shipped rules."""
    return data_dir("alerts") / DEFAULT_FILE


def load_rules(paths: Sequence[Path], *, defaults: bool = True) -> Ruleset:
    """The rules of all files, later ones changing earlier ones by id.

    Raises:
        ConfigError: with one line for each mistake: file, line, key and fix.
    """
    entries: dict[str, RuleEntry] = {}
    for path in [default_rules_file(), *paths] if defaults else paths:
        entries = _read(path, entries)
    rules = tuple(entry.rule() for entry in entries.values() if entry.enabled)
    return Ruleset(rules, tuple(name for name, entry in entries.items() if not entry.enabled))


def read_document(path: Path) -> tuple[Source, dict[str, Any]]:
    """The plain values of a YAML file, and where they stand in it."""
    source = Source(str(path), path.absolute().parent)
    try:
        text = files.decode(files.read_limited(path, MAX_BYTES))
    except ValueError as error:
        raise source.error([Problem((), str(error))]) from None
    try:
        tree = parse_yaml(text)
    except YamlError as error:
        raise source.error(error.problems) from None
    return Source(source.name, source.folder, tree.lines), tree.data


def _read(path: Path, earlier: Mapping[str, RuleEntry]) -> dict[str, RuleEntry]:
    source, data = read_document(path)
    file, problems = validate_as(RuleFile, data, lambda file: _misfits(file, earlier))
    if file is None:
        raise source.error(problems)
    merged = dict(earlier)
    for entry in file.rules:
        merged[entry.id] = _merge(earlier.get(entry.id), entry)
    return merged


def _merge(before: RuleEntry | None, entry: RuleEntry) -> RuleEntry:
    if before is None:
        return entry
    given = {name: getattr(entry, name) for name in entry.model_fields_set}
    if "when" in given:
        # The old way out belongs to the old condition.
        given.setdefault("leave", None)
    return before.model_copy(update=given)


def _misfits(file: RuleFile, earlier: Mapping[str, RuleEntry]) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    known = {*earlier, *(entry.id for entry in file.rules)}
    merged = {**earlier, **{e.id: _merge(earlier.get(e.id), e) for e in file.rules}}
    for index, entry in enumerate(file.rules):
        place: KeyPath = ("rules", index)
        first = seen.setdefault(entry.id, index)
        if first != index:
            yield Problem((*place, "id"), f"is the id of rules[{first}] already")
            continue
        whole = merged[entry.id]
        yield from _lacking(place, whole)
        yield from _wrong_limits(place, whole)
        yield from _wrong_mutes(place, entry, merged, known)
        repeat = entry.repeat
        if repeat.at_most is not None and repeat.at_most < repeat.every:
            yield Problem((*place, "repeat", "at_most"), "must not be shorter than every")


def _lacking(place: KeyPath, whole: RuleEntry) -> Iterator[Problem]:
    for key in ("when", "severity", "summary"):
        if getattr(whole, key) is None:
            yield Problem((*place, key), "is missing: no earlier rule has this id")


def _wrong_limits(place: KeyPath, whole: RuleEntry) -> Iterator[Problem]:
    """Bounds that no figure can have, and ends that come before the beginning."""
    enter: dict[Figure, Limit] = {}
    for key, when in (("when", whole.when), ("leave", whole.leave)):
        for limit in when.limits() if when is not None else ():
            figure, bound = limit.figure, limit.bound
            at = (*place, key, figure.value, "below" if limit.is_below else "above")
            if bound is None and figure is not Figure.ACCEPTANCE_RATE:
                yield Problem(at, "must be a number: only acceptance_rate has a threshold")
            elif bound is not None and not 0.0 <= bound <= _LARGEST[figure]:
                yield Problem(at, f"must lie between 0 and {_LARGEST[figure]:g}")
            if key == "when":
                enter[figure] = limit
            elif figure in enter:
                yield from _wrong_end(at, enter[figure], limit)


def _wrong_end(at: KeyPath, enter: Limit, leave: Limit) -> Iterator[Problem]:
    if enter.is_below == leave.is_below:
        side = "above" if enter.is_below else "below"
        yield Problem(at, f"must be on the other side than in when: write {side}")
        return
    if enter.bound is None or leave.bound is None:
        return
    if (leave.bound < enter.bound) if enter.is_below else (leave.bound > enter.bound):
        relation = "below" if enter.is_below else "above"
        yield Problem(
            at,
            f"is {relation} the bound in when, so the alert would end while its condition holds",
        )


def _wrong_mutes(
    place: KeyPath, entry: RuleEntry, merged: Mapping[str, RuleEntry], known: Iterable[str]
) -> Iterator[Problem]:
    known = {*known, EVERYTHING}
    for number, name in enumerate(entry.mutes):
        at = (*place, "mutes", number)
        if name not in known:
            yield Problem(at, f"is not the id of a rule; {did_you_mean(name, known)}")
        elif name == entry.id:
            yield Problem(at, "is the rule itself: take it out")
    for other in merged.values():
        if other.id != entry.id and _mutes(entry, other.id) and _mutes(other, entry.id):
            message = f"mutes '{other.id}', which mutes it back: neither would be told"
            yield Problem((*place, "mutes"), message)


def _mutes(entry: RuleEntry, name: str) -> bool:
    return entry.enabled and (name in entry.mutes or EVERYTHING in entry.mutes)
