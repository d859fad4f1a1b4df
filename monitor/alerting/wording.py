"""Text about alerts: titles from a rule's summary, sentences of notifications, rules in English.

There is no template engine: text that comes from a scraped page is put into fixed places,
capped, and freed of control characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from string import Template

from monitor.alerting.rules import EVERYTHING, Condition, Facts, Limit, Rule
from monitor.model import Estimate

TITLE_LIMIT = 200
FIELD_LIMIT = 80
SENTENCE_LIMIT = 500
FIELDS = frozenset(
    {
        "service",
        "target",
        "rule",
        "severity",
        "verdict",
        "cause",
        "action",
        "acceptance_rate",
        "acceptance_length",
        "speedup",
        "running",
        "threshold",
        "engine",
        "engine_version",
        "model",
        "baseline",
    }
)
"""What ``$name`` may stand for in a summary."""
_UNKNOWN = "unknown"


def plain(text: str, limit: int) -> str:
    """One line without control characters, of at most ``limit`` characters."""
    # Format characters (Cf) include those that reverse the direction of what follows.
    kept = (c if c.isprintable() and unicodedata.category(c) != "Cf" else " " for c in text)
    line = " ".join("".join(kept).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3 h 20 min``, ``2 d 4 h``."""
    whole = max(0, round(seconds))
    if whole < 120:  # noqa: PLR2004 - minutes say too little below two
        return f"{whole} s"
    minutes = round(whole / 60.0)
    if minutes < 120:  # noqa: PLR2004
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:  # noqa: PLR2004
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def title(rule: Rule, facts: Facts) -> str:
    """The summary of ``rule`` with its fields filled in."""
    return plain(Template(rule.summary).safe_substitute(_fields(rule, facts)), TITLE_LIMIT)


def sentence(facts: Facts) -> str:
    """The sentence of the assessment, harmless."""
    return plain(facts.assessment.sentence, SENTENCE_LIMIT)


def _fields(rule: Rule, facts: Facts) -> Mapping[str, str]:
    a = facts.assessment
    given = {
        "service": facts.service,
        "target": a.target,
        "rule": rule.id,
        "severity": rule.severity.value,
        "verdict": a.verdict.value,
        "cause": a.cause.value if a.cause is not None else _UNKNOWN,
        "action": a.action.value,
        "acceptance_rate": _percent(a.acceptance_rate),
        "acceptance_length": _number(a.acceptance_length, ""),
        "speedup": _number(a.speedup, "×"),
        "running": _UNKNOWN if a.load.running is None else f"{a.load.running:.4g}",
        "threshold": f"{100.0 * facts.threshold:.3g} %",
        "engine": a.identity.engine.value if a.identity.engine is not None else _UNKNOWN,
        "engine_version": a.identity.engine_version or _UNKNOWN,
        "model": a.identity.model or _UNKNOWN,
        "baseline": a.baseline.name if a.baseline is not None else "none",
    }
    return {name: plain(text, FIELD_LIMIT) for name, text in given.items()}


def _percent(estimate: Estimate | None) -> str:
    return _UNKNOWN if estimate is None else f"{100.0 * estimate.value:.1f} %"


def _number(estimate: Estimate | None, unit: str) -> str:
    return _UNKNOWN if estimate is None else f"{estimate.value:.2f}{unit}"


def explain(rule: Rule) -> str:
    """A rule in one English sentence."""
    parts = [f"{rule.id} ({rule.severity.value}): fires when {_condition(rule.when)}"]
    if rule.hold_seconds > 0.0:
        parts[0] += f" for {duration(rule.hold_seconds)}"
    if rule.hold_windows > 1:
        joint = " and " if rule.hold_seconds > 0.0 else " "
        parts[0] += f"{joint}over {rule.hold_windows} fresh windows"
    least = [
        f"{number:.0f} {what}"
        for number, what in ((rule.least_drafts, "drafts"), (rule.least_requests, "requests"))
        if number > 0.0
    ]
    if least:
        parts.append(f"given at least {' and '.join(least)}")
    ends = (
        f"ends when {_condition(rule.leave)}"
        if rule.leave is not None
        else "ends when that is known to be over"
    )
    kept = f" for {duration(rule.keep_firing)}" if rule.keep_firing > 0.0 else ""
    parts.append(ends + kept)
    if rule.repeat is None:
        parts.append("is told once")
    else:
        first, most = duration(rule.repeat.every), duration(rule.repeat.at_most)
        ever = (
            f"after {first}" if first == most else f"after {first}, then ever later up to {most}"
        )
        parts.append(f"reminds {ever}")
    parts += _extras(rule)
    return "; ".join(parts) + "."


def _extras(rule: Rule) -> list[str]:
    extras = []
    if rule.mutes:
        muted = "all other alerts" if EVERYTHING in rule.mutes else _list(rule.mutes, "and")
        extras.append(f"mutes {muted} of the same target meanwhile")
    if rule.votes_for_rollback:
        extras.append("votes for rollback")
    only = rule.only
    about = [_list(p, "or") for p in (only.services, only.targets) if p]
    about += [f"{name}={pattern}" for name, pattern in only.labels]
    if about:
        extras.append(f"is only about {', '.join(about)}")
    return extras


def _condition(condition: Condition) -> str:
    said = []
    if condition.verdicts:
        said.append(f"the verdict is {_list(condition.verdicts, 'or')}")
    if condition.causes:
        said.append(f"the cause is {_list(condition.causes, 'or')}")
    if condition.except_causes:
        said.append(f"the cause is not {_list(condition.except_causes, 'or')}")
    if condition.actions:
        said.append(f"the advice is {_list(condition.actions, 'or')}")
    if condition.alarm is not None:
        said.append(f"the detector has found a {condition.alarm.value}")
    if condition.baseline is not None:
        said.append(f"the baseline is {condition.baseline.value}")
    said += [_limit(limit) for limit in condition.limits]
    return " and ".join(said)


def _limit(limit: Limit) -> str:
    figure = limit.figure.value.replace("_", " ")
    part = "" if limit.by.value == "value" else f" ({limit.by.value} limit)"
    side = "below" if limit.is_below else "above"
    bound = f"{limit.bound:g}" if limit.bound is not None else "the service's threshold"
    sign = "−" if limit.is_below else "+"
    margin = f" {sign} {limit.margin:g}" if limit.margin else ""
    return f"the {figure}{part} is {side} {bound}{margin}"


def _list(words: Sequence[str], joint: str) -> str:
    names = [str(word) for word in words]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {joint} {names[-1]}"
