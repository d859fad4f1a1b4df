"""Plain values into a ``Config``, with every mistake found in one pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from monitor.config.problems import KeyPath, Problem, did_you_mean, repeated_names
from monitor.config.receivers import misfits as receiver_misfits
from monitor.config.rollback import misfits as rollback_misfits
from monitor.config.schema import Config, Service, Target
from monitor.config.values import default_target_name

M = TypeVar("M", bound=BaseModel)

_ROUNDS = 10
# Keys under which people put a secret itself, and the keys that name where it is.
_PLAIN_SECRETS = {
    "bearer": "bearer",
    "bearer_token": "bearer",
    "token": "bearer",
    "api_key": "bearer",
    "authorization": "bearer",
    "password": "password",
}
_TYPES = {
    "missing": "is missing",
    "string_type": "must be text; put it in quotes",
    "model_type": "must be a mapping: lines of the form 'key: value'",
    "model_attributes_type": "must be a mapping: lines of the form 'key: value'",
    "dict_type": "must be a mapping: lines of the form 'key: value'",
    "tuple_type": "must be a list: [a, b] or lines that begin with '- '",
    "too_short": "must have at least one entry",
}


def validate(
    data: dict[str, Any], named_by: Callable[[Config], Iterable[Problem]] | None = None
) -> tuple[Config | None, list[Problem]]:
    """The configuration, or None, and what is wrong with it.

    ``named_by`` finds what is wrong with the files and variables that a configuration names. It
    is asked where something else is wrong, so that all mistakes are shown at once; a
    configuration that is fine in itself is not read further here.
    """
    return validate_as(Config, data, _misfits, named_by)


def validate_as(
    model: type[M],
    data: dict[str, Any],
    misfits_of: Callable[[M], Iterable[Problem]],
    named_by: Callable[[M], Iterable[Problem]] | None = None,
) -> tuple[M | None, list[Problem]]:
    """The same for any file; ``misfits_of`` finds what does not fit together in a model."""
    problems: list[Problem] = []
    wrong: list[KeyPath] = []
    rest = _Rest(deepcopy(data))
    # What is wrong in itself is cut out, so that the rest can be checked for what does not fit
    # together: a user should not have to mend one mistake to be told of the next.
    for _ in range(_ROUNDS):
        try:
            config = model.model_validate(rest.data)
        except ValidationError as error:
            details = _own_mistakes(error)
            found = [_problem(model, detail, rest.original(_path(detail))) for detail in details]
            problems += [problem for problem in found if not _follows_from(problem, wrong)]
            wrong += [problem.path for problem in found]
            rest.cut([_path(detail) for detail in details])
        else:
            found = _mistakes(misfits_of(config), rest, wrong)
            problems += found
            if problems and named_by is not None:
                wrong += [problem.path for problem in found]
                problems += _mistakes(named_by(config), rest, wrong)
            return (None if problems else config), problems
    return None, problems


def _mistakes(found: Iterable[Problem], rest: _Rest, wrong: list[KeyPath]) -> list[Problem]:
    """Mistakes at their places in the file, less those that follow from others."""
    placed = (replace(problem, path=rest.original(problem.path)) for problem in found)
    return [problem for problem in placed if not _follows_from(problem, wrong)]


class _Rest:
    """Values of which the wrong ones are cut out, that remembers the places they had."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self._numbers: dict[int, list[int]] = {}

    def cut(self, paths: list[KeyPath]) -> None:
        """Removes the values at ``paths``, or the section around where a key is missing."""
        places = dict.fromkeys(self._existing(path) for path in paths)
        outermost = [p for p in places if not any(p[:n] in places for n in range(len(p)))]
        # From the end, so that the numbers of list entries stay true meanwhile.
        for place in reversed(outermost):
            if place:
                self._remove(place)

    def _existing(self, path: KeyPath) -> KeyPath:
        value: Any = self.data
        for depth, part in enumerate(path):
            if not _has(value, part):
                return path[:depth]
            value = value[part]
        return path

    def _remove(self, place: KeyPath) -> None:
        container: Any = self.data
        for part in place[:-1]:
            container = container[part]
        if isinstance(container, list):
            del self._numbers_of(container)[int(place[-1])]
        del container[place[-1]]

    def original(self, path: KeyPath) -> KeyPath:
        """The place in the file of what is now at ``path``."""
        value: Any = self.data
        place: list[str | int] = []
        for part in path:
            numbered = isinstance(value, list) and isinstance(part, int) and _has(value, part)
            place.append(self._numbers_of(value)[int(part)] if numbered else part)
            value = value[part] if _has(value, part) else None
        return tuple(place)

    def _numbers_of(self, entries: list[Any]) -> list[int]:
        return self._numbers.setdefault(id(entries), list(range(len(entries))))


def _has(value: Any, part: str | int) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def _own_mistakes(error: ValidationError) -> list[ErrorDetails]:
    """What is wrong, less the lists that are only too short without their wrong entries."""
    details = error.errors(include_url=False, include_context=False)
    places = {detail["loc"][:length] for detail in details for length in range(len(detail["loc"]))}
    return [d for d in details if d["type"] != "too_short" or d["loc"] not in places]


def _path(detail: ErrorDetails) -> KeyPath:
    # Keys of a mapping are reported with a marker behind them.
    return tuple(part for part in detail["loc"] if part != "[key]")


def _problem(root: type[BaseModel], detail: ErrorDetails, path: KeyPath) -> Problem:
    if detail["type"] == "extra_forbidden":
        return Problem(path, _unknown_key(root, path))
    if detail["loc"][-1:] == ("[key]",):
        return Problem(path, "is not a label name: letters, digits and _, not a digit first")
    message = _TYPES.get(detail["type"])
    if message is None:
        message = detail["msg"].removeprefix("Value error, ")
        message = re.sub(r"^Input should ", "must ", message)
    return Problem(path, message[:1].lower() + message[1:])


def _unknown_key(root: type[BaseModel], path: KeyPath) -> str:
    key = str(path[-1])
    known = set(_fields(_model_at(root, path[:-1])))
    stem = _PLAIN_SECRETS.get(key.lower())
    if stem is not None:
        stem = stem if f"{stem}_file" in known else "token" if "token_file" in known else stem
        where = "" if f"{stem}_file" in known else " in the service's auth"
        return (
            f"no secrets in this file: write it to a file and name that with {stem}_file, or "
            f"name an environment variable with {stem}_env{where}"
        )
    return f"is not a known key; {did_you_mean(key, known)}"


def _model_at(root: type[BaseModel], path: KeyPath) -> type[BaseModel]:
    model = root
    for part in path:
        field = _fields(model).get(part) if isinstance(part, str) else None
        if field is not None:
            model = _model_in(field.annotation) or model
    return model


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields by the names they have in the file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for arg in get_args(annotation) if (m := _model_in(arg))), None)


def _follows_from(problem: Problem, wrong: list[KeyPath]) -> bool:
    depends = (problem.path, *problem.depends)
    return any(a[: len(b)] == b or b[: len(a)] == a for a in depends for b in wrong)


def _misfits(config: Config) -> Iterator[Problem]:
    for names in (("database", "database_env", "database_file"), ("token_file", "token_env")):
        given = [name for name in names if getattr(config, name) is not None]
        if len(given) > 1:
            yield Problem((given[-1],), f"stands beside {given[0]}: keep one of them")
    judged = config.judged_windows or ()
    if not set(judged) <= set(config.windows):
        yield Problem(("judged_windows",), "must be among the windows", depends=(("windows",),))
    yield from _timeouts(config)
    yield from repeated_names("services", (service.name for service in config.services))
    yield from _repeated_targets(config)
    yield from receiver_misfits(config)
    yield from rollback_misfits(config.services, config.lease)
    for index, service in enumerate(config.services):
        baseline = service.baseline
        if baseline is not None and baseline.curve is None and not baseline.targets:
            yield Problem(("services", index, "baseline"), "must have curve, targets or both")


def _timeouts(config: Config) -> Iterator[Problem]:
    scrape = config.scrape
    if scrape.timeout is not None and scrape.timeout >= scrape.interval:
        yield Problem(
            ("scrape", "timeout"),
            "must be shorter than the interval",
            depends=(("scrape", "interval"),),
        )
    for path, _service, target in targets_of(config):
        interval = target.interval or scrape.interval
        if target.timeout is not None and target.timeout >= interval:
            depends = (("scrape", "interval"), (*path, "interval"))
            yield Problem((*path, "timeout"), "must be shorter than the interval", depends=depends)


def _repeated_targets(config: Config) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for path, service, target in targets_of(config):
        name = target_name(target)
        if name in seen:
            yield Problem(
                path if target.name is None else (*path, "name"),
                f"has the name of another target, of the service '{seen[name]}': "
                "give it a 'name' of its own",
            )
        seen.setdefault(name, service.name)


def targets_of(config: Config) -> Iterator[tuple[KeyPath, Service, Target]]:
    """Every target with its key path and its service."""
    for index, service in enumerate(config.services):
        sides = (("speculative", service.speculative), ("baseline", service.baseline))
        for side, section in sides:
            for number, target in enumerate(section.targets if section else ()):
                yield ("services", index, side, "targets", number), service, target


def target_name(target: Target) -> str:
    """The name of a target, given or made from its URL."""
    return target.name or default_target_name(target.url)
