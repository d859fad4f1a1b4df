"""What is written for readers holds together: the index, the links, the commands, the example."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from cli_pages import invoke

from monitor.cli import app

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```|((?:^ {4}.*\n)+)", re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """The names by which GitHub knows the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_lists_each_page_once() -> None:
    index = README.read_text("utf-8").partition("## Pages")[2]
    listed = [target for target in LINK.findall(index) if target.endswith(".md")]
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text("utf-8")):
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text("utf-8")), link


def commands() -> Iterator[tuple[str, list[str]]]:
    """All commands of the pages, each with its page, without what a shell takes."""
    for page in PAGES:
        text = page.read_text("utf-8")
        for _, fenced, indented in BLOCK.findall(text):
            for line in (fenced or indented).replace("\\\n", " ").splitlines():
                found = re.search(r"^\s*(?:\$ |[^#|]*\| )?(?:\.venv/bin/)?monitor (\w.*)$", line)
                if found:
                    yield page.name, shlex.split(re.split(r" [#|>]| {3,}", found[1])[0])
        for inline in re.findall(r"`monitor (\w[^`]*)`", re.sub(BLOCK, "", text)):
            yield page.name, inline.replace("\n", " ").split()


def test_commands_and_their_options_exist() -> None:
    seen = 0
    for page, words in commands():
        command: Any = typer.main.get_command(app.app)
        while hasattr(command, "get_command") and words:
            command = command.get_command(None, words.pop(0))
            assert command is not None, (page, words)
        known = {option for parameter in command.params for option in parameter.opts}
        known |= {option for parameter in command.params for option in parameter.secondary_opts}
        used = {
            word.strip("[]").partition("=")[0] for word in words if re.match(r"\[?--?[a-z]", word)
        }
        assert used <= known, (page, command.name, used - known)
        seen += 1
    assert seen > 80


def test_the_example_of_the_readme_is_what_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LANG", "C.UTF-8")
    text = re.sub(r"^ {4}", "", README.read_text("utf-8"), flags=re.MULTILINE)
    page, command, shown = re.search(
        r"cat > two-lines\.prom <<'END'\n(.*?)END\n\$ monitor (.*?)\n(.*?)\n\n[A-Z]",
        text,
        re.DOTALL,
    ).groups()  # type: ignore[union-attr]
    Path("two-lines.prom").write_text(page, "utf-8")
    assert invoke(capsys, *shlex.split(command)).out.rstrip() == shown.rstrip()
