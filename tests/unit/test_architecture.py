"""The rooms keep their direction: the core is pure and nothing imports the edges."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import monitor

PACKAGE = Path(monitor.__file__).parent
PURE_ALERTING = {f"monitor.alerting.{name}" for name in ("model", "rules", "machine", "wording")}
ROLLBACK_EDGES = {"executor", "hands", "runner", "probe", "server_probe", "messages"}
PURE_ROLLBACK = {
    f"monitor.rollback.{path.stem}"
    for path in (PACKAGE / "rollback").glob("*.py")
    if path.stem not in ROLLBACK_EDGES | {"__init__"}
}
PURE_ALLOWED = {"monitor.model", "monitor.health"}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def allowed_in(path: Path) -> set[str]:
    if path.parent.name == "alerting":
        return {"monitor.model", *PURE_ALERTING}
    if path.parent.name == "rollback":
        return {*PURE_ALLOWED, "monitor.weekly", *PURE_ROLLBACK}
    return PURE_ALLOWED


def pure_modules() -> list[Path]:
    return [
        path
        for name, path in modules()
        if name.startswith("monitor.health") or name in PURE_ALERTING | PURE_ROLLBACK
    ]


@pytest.mark.parametrize("path", pure_modules(), ids=lambda path: path.stem)
def test_core_imports_only_the_model_and_the_standard_library(path: Path) -> None:
    for name in imports(path):
        if name.split(".")[0] == "monitor":
            # 'from monitor.alerting import wording' names the package first.
            if name != f"monitor.{path.parent.name}":
                assert any(name.startswith(prefix) for prefix in allowed_in(path)), name
        else:
            assert name.split(".")[0] in sys.stdlib_module_names, name


@pytest.mark.parametrize("path", pure_modules(), ids=lambda path: path.stem)
def test_core_reads_no_clock_and_does_no_io(path: Path) -> None:
    for name in imports(path):
        assert name.split(".")[0] not in {"time", "datetime", "logging", "os", "socket", "pathlib"}
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}


def test_explanations_are_built_from_what_is_handed_to_them() -> None:
    allowed = ("model", "health", "report", "settings", "store.rows", "explain")
    for name, path in modules():
        if name.startswith("monitor.explain"):
            for imported in imports(path):
                if imported.startswith("monitor."):
                    assert imported.startswith(tuple(f"monitor.{room}" for room in allowed))
                else:
                    assert imported.split(".")[0] in sys.stdlib_module_names - {"time", "os"}


def test_nothing_but_the_command_line_imports_the_edges() -> None:
    for name, path in modules():
        if name.startswith(("monitor.cli", "monitor.__main__")):
            continue
        edges = {"monitor.cli"}
        if not name.startswith(("monitor.daemon", "monitor.demo")):
            edges.add("monitor.daemon")
        for imported in imports(path):
            assert not any(
                imported == edge or imported.startswith(edge + ".") for edge in edges
            ), f"{name} imports {imported}"


def test_the_engines_do_not_know_the_store_or_the_sources() -> None:
    for name, path in modules():
        if name.startswith("monitor.engines"):
            for imported in imports(path):
                assert not imported.startswith(("monitor.store", "monitor.sources", "monitor.web"))


def test_what_builds_the_dashboards_is_not_needed_to_run() -> None:
    found = {name: set(imports(path)) for name, path in modules()}
    builders = {
        name
        for name, imported in found.items()
        if any(module.split(".")[0] == "grafana_foundation_sdk" for module in imported)
    } | {"monitor.grafana.build", "monitor.grafana.boards"}
    assert all(name.startswith("monitor.grafana.") for name in builders)
    for name, imported in found.items():
        if name not in builders:
            assert not imported & builders, name
