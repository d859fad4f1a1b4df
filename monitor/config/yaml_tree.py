"""YAML text into plain values, with the line on which each value stands.

PyYAML's own loaders forget lines, take the last of two equal keys silently, expand aliases
without limit and know tags that build Python objects. This reader walks the node tree itself:
the plain types only, every key once, and no more values than a person would write.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from monitor.config.problems import KeyPath, Problem

_TAG = "tag:yaml.org,2002:"
_MAX_NODES = 50_000
_MAX_DEPTH = 40
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_SCALARS: dict[str, Callable[[yaml.ScalarNode], Any]] = {
    "null": lambda _node: None,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}
# Text in quotes may be a secret that was pasted without quotes of its own; what PyYAML calls
# tokens, such as '<block end>' or a single character, is safe to show.
_QUOTED = re.compile(r" ?'(?!<)[^']{2,}'")


class YamlError(Exception):
    """The text cannot be read as one mapping; carries every mistake found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class YamlTree:
    """Plain values and where they stand."""

    data: dict[str, Any]
    lines: dict[KeyPath, int]


def parse_yaml(text: str) -> YamlTree:
    """Reads one document whose root is a mapping.

    Raises:
        YamlError: with one entry for each mistake of syntax.
    """
    node = _compose(text)
    reader = _Reader()
    data = reader.read(node, (), 0)
    if reader.problems:
        raise YamlError(reader.problems)
    if not isinstance(data, dict):
        raise _fail(reader.lines.get((), 1), "must be a mapping: lines of the form 'key: value'")
    return YamlTree(data, reader.lines)


def _fail(line: int | None, message: str) -> YamlError:
    return YamlError([Problem((), message, line)])


def _compose(text: str) -> yaml.Node:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _fail(line, "holds a control character; is it a text file?") from None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(text, error) from None
    except RecursionError:
        raise _fail(None, "is nested too deeply") from None
    if node is None:
        raise _fail(None, "is empty: 'monitor config init' writes an example to start from")
    return node


def _syntax_error(text: str, error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return _fail(None, "is not valid YAML")
    line = mark.line + 1
    lines = text.splitlines()
    indent = re.match(r"\s*", lines[mark.line])[0] if mark.line < len(lines) else ""  # type: ignore[index]
    if "\t" in indent:
        return _fail(line, "is indented with a tab: YAML takes only spaces")
    what = _QUOTED.sub("", error.problem or "cannot be read")
    if "undefined alias" in what:
        what = "found an undefined alias; text that begins with '*' must be quoted"
    elif "another document" in what:
        what = "a second document begins here: keep one, and remove the line '---'"
    return _fail(line, f"is not valid YAML: {what} (column {mark.column + 1})")


@dataclass(slots=True)
class _Reader:
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _count: int = 0
    _open: set[int] = field(default_factory=set)

    def read(self, node: yaml.Node, path: KeyPath, depth: int) -> Any:
        """The plain value of ``node``, which stands at ``path``."""
        line = _line(node)
        self.lines.setdefault(path, line)
        # Aliases are expanded here, so this counts what they multiply to.
        self._count += 1
        if self._count > _MAX_NODES:
            raise _fail(line, f"has more than {_MAX_NODES} values once its aliases are expanded")
        if id(node) in self._open:
            raise _fail(line, "has an alias that refers to itself")
        if depth > _MAX_DEPTH:
            raise _fail(line, "is nested too deeply")
        self._open.add(id(node))
        try:
            return self._read_kind(node, path, depth)
        finally:
            self._open.discard(id(node))

    def _read_kind(self, node: yaml.Node, path: KeyPath, depth: int) -> Any:
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [
                self.read(child, (*path, index), depth + 1)
                for index, child in enumerate(node.value)
            ]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._problem(node, path, "has a tag ('!…'), which is not accepted here")

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Any:
        kind = node.tag.removeprefix(_TAG)
        # Dates, and numbers to base 60 such as 5:30, are only ever names here.
        if kind in ("str", "timestamp", "value") or (
            kind in ("int", "float") and ":" in node.value
        ):
            return node.value
        read = _SCALARS.get(kind)
        if read is None:
            return self._problem(node, path, "has a tag ('!…'), which is not accepted here")
        try:
            return read(node)
        except (ValueError, KeyError):
            return self._problem(node, path, f"is not a value of the type {kind}")

    def _mapping(self, node: yaml.MappingNode, path: KeyPath, depth: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, child in node.value:
            if key.tag == f"{_TAG}merge":
                self._merge(merged, child, path, depth)
        for key, child in node.value:
            if key.tag != f"{_TAG}merge":
                self._entry(own, key, child, path, depth)
        return merged | own

    def _entry(
        self,
        into: dict[str, Any],
        key: yaml.Node,
        child: yaml.Node,
        path: KeyPath,
        depth: int,
    ) -> None:
        if not isinstance(key, yaml.ScalarNode):
            self._problem(key, path, "has a list or a mapping as a key")
            return
        name, line = key.value, _line(key)
        place = (*path, name)
        if name in into:
            self._problem(key, place, f"stands here twice (first on line {self.lines[place]})")
            return
        self.lines[place] = line
        into[name] = self.read(child, place, depth + 1)

    def _merge(self, into: dict[str, Any], node: yaml.Node, path: KeyPath, depth: int) -> None:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self._problem(source, path, "merges ('<<') something that is no mapping")
                continue
            # The first of several merged mappings wins, as YAML says.
            for name, value in self.read(source, path, depth + 1).items():
                into.setdefault(name, value)

    def _problem(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(path, message, _line(node)))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
