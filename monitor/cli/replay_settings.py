"""From the options of ``monitor replay`` to what is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from monitor.alerting.rules import Rule
from monitor.alerting.ruleset import load_rules
from monitor.config.files import decode, read_limited
from monitor.config.problems import did_you_mean
from monitor.config.rollback import Rollback, Votes
from monitor.config.yaml_tree import YamlError, parse_yaml
from monitor.model import ConfigError
from monitor.replay.variant import Variant
from monitor.rollback.settings import Policy

_JUDGED = ("threshold", "dead_band")
_LIMITS = ("cooldown", "per_day", "approval")
_VOTES = tuple(name for name in Votes.model_fields if name not in ("rules", "cures"))
NAMES = (*_JUDGED, *_VOTES, *_LIMITS)
"""What can be set and swept."""
MOST_STEPS = 100
_LARGEST = 1024 * 1024


@dataclass(frozen=True, slots=True)
class InForce:
    """What is configured."""

    rules: Sequence[Rule]
    policies: Mapping[str, Policy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sweep:
    """One setting, and the values it is tried with."""

    name: str
    values: tuple[float, ...]


def build_variant(
    in_force: InForce,
    *,
    rules: Path | None,
    policy: Path | None,
    given: Sequence[str],
) -> Variant:
    """What is in force, changed by files and by settings of the form NAME=VALUE."""
    changes = [*(path.name for path in (rules, policy) if path is not None), *given]
    name = ", ".join(changes) or "in force"
    found = in_force.rules if rules is None else load_rules([rules], defaults=True).rules
    variant = Variant(name, found, in_force.policies)
    if policy is not None:
        variant = Variant(name, found, policy=_read_policy(policy))
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"{text!r} is not of the form NAME=VALUE, such as threshold=0.3")
        variant = _with(variant, key.strip(), value)
    return _checked(variant)


def with_setting(variant: Variant, name: str, value: object) -> Variant:
    """The same with one setting changed; it applies to all services."""
    return _checked(_with(variant, name, value))


def _with(variant: Variant, name: str, value: object) -> Variant:
    name = name.removeprefix("votes.")
    if name not in NAMES:
        raise ConfigError(f"there is no setting {name[:40]!r}; {did_you_mean(name, NAMES)}")
    read = _scalar(name, value) if isinstance(value, str) else value
    if name in _JUDGED:
        if isinstance(read, bool) or not isinstance(read, int | float) or not 0.0 < read < 1.0:
            raise ConfigError(f"{name} must be a number between 0 and 1")
        judged: dict[str, Any] = {name: float(read)}
        return replace(variant, **judged)
    return variant.with_policies(_change(name, read))


def _scalar(name: str, text: str) -> object:
    try:
        return parse_yaml(f"value: {text}").data["value"]
    except (YamlError, KeyError):
        raise ConfigError(f"{name} is no plain value") from None


def _change(name: str, value: object) -> Callable[[Policy], Policy]:
    try:
        if name in _VOTES:
            voted = {name: getattr(Votes.model_validate({name: value}), name)}
            return lambda policy: replace(policy, voting=replace(policy.voting, **voted))
        limited = {name: getattr(Rollback.model_validate({name: value}), name)}
        return lambda policy: replace(policy, limits=replace(policy.limits, **limited))
    except ValidationError as error:
        raise ConfigError(f"{name} {_why(error)}") from None


def _read_policy(path: Path) -> Policy:
    try:
        document = parse_yaml(decode(read_limited(path, _LARGEST))).data
        return Rollback.model_validate(document.get("rollback", document)).policy()
    except YamlError as error:
        raise ConfigError(f"{path}: {error.problems[0].message}") from None
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise ConfigError(f"{path}: {key} {_why(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None


def _checked(variant: Variant) -> Variant:
    """Refuses votes that can never be enough: they would look like a quiet past."""
    for policy in (variant.policy, *variant.policies.values()):
        votes = policy.voting
        if votes.needed > votes.of:
            raise ConfigError(f"needed must not be more than of, which is {votes.of}")
        if (votes.needed - 1) * votes.spacing >= votes.within:
            raise ConfigError(
                "within is too short for so many windows with that spacing: nothing would vote"
            )
    return variant


def _why(error: ValidationError) -> str:
    return str(error.errors()[0]["msg"]).removeprefix("Value error, ")


def parse_sweep(text: str) -> Sweep:
    """``NAME=LOW:HIGH:STEP``, both ends included."""
    name, _, span = text.partition("=")
    try:
        low, high, step = map(float, span.split(":"))
    except ValueError:
        raise ValueError("is not of the form NAME=LOW:HIGH:STEP: threshold=0.2:0.6:0.05") from None
    if not (0.0 < low <= high and step > 0.0 and (high - low) / step < MOST_STEPS):
        raise ValueError(
            f"must go from a number above 0 to a larger one in at most {MOST_STEPS} steps"
        )
    count = int((high - low) / step + 1e-9) + 1
    return Sweep(name, tuple(round(low + number * step, 9) for number in range(count)))
