"""The commands around ``check``: configuration, settings from flags, and the outer border."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_pages import invoke

from monitor import __version__
from monitor.cli import app, exits, runner
from monitor.cli.options import CONFIG_VARIABLE
from monitor.cli.output import as_ascii, clean
from monitor.cli.run import read_settings
from monitor.cli.times import parse_point, parse_time
from monitor.config.schema import Config
from monitor.model import ConfigError, StoreError, Verdict
from monitor.settings import Role

Capture = pytest.CaptureFixture[str]
DOCS = Path(__file__).parents[2] / "docs"
CONFIG = """\
database: sqlite:///from-file.db
services:
  - name: a
    speculative: {targets: [http://gpu1:8000, {url: http://gpu2, name: two}]}
    baseline: {targets: [http://plain:8000]}
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    monkeypatch.delenv("MONITOR_DATABASE", raising=False)


def test_version_and_help(capsys: Capture) -> None:
    assert invoke(capsys, "--version").out == f"monitor {__version__}\n"
    for arguments in (
        [],
        ["--help"],
        ["check", "--help"],
        ["run", "--help"],
        ["config"],
    ):
        result = invoke(capsys, *arguments)
        assert "Usage: monitor" in result.out
        assert result.err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["check"],
        ["alerts"],
        ["alerts", "check"],
        ["baseline", "bench"],
        ["backfill", "logs"],
        ["grafana", "apply"],
    ],
)
def test_help_is_whole_at_80_columns(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = invoke(capsys, *arguments, "--help").out
    assert "…" not in shown, "no name of an option is cut off"
    assert not re.search(r"\w\.\.\.", shown), "no sentence is cut off"
    assert not re.search(r"<(bool|str|int|float|path|list)", shown), "no types of the code"
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["chek"],
            "monitor: no such command 'chek'; did you mean 'check'? (see 'monitor --help')",
        ),
        (["xyz"], "monitor: no such command 'xyz' (see 'monitor --help')"),
        (["--nope"], "monitor: no such option: --nope (see 'monitor --help')"),
        (["history"], "monitor: missing option '--target' (see 'monitor history --help')"),
        (["run"], "monitor: nothing to watch: give --target URL or -c FILE "),
        (["status"], "monitor: database monitor.db: no such file; "),
        (["status", "-c", "none.yaml"], "monitor: none.yaml: cannot be read: No such file"),
        (["status", "--database", "mysql://u:canary@h/d"], "monitor: --database must begin with"),
        (["config", "show"], "monitor: there is no monitor.yaml here: 'monitor config init' "),
        (["history", "--target", "x", "--json", "--csv"], "monitor: give one of --json and --csv"),
        (["history", "--target", "x", "--start", "soon"], "monitor: --start is not a time: "),
        (["history", "--target", "x", "--start", "now"], "monitor: --start must lie before --end"),
        (["history", "--target", "x", "--step", "1 m"], "monitor: --step is not a duration: "),
        (["history", "--target", "x", "--step", "0"], "monitor: --step must be at least 1s"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], line: str, capsys: Capture
) -> None:
    result = invoke(capsys, *arguments)
    assert (result.code, result.out) == (2, "")
    (shown,) = result.err.splitlines()
    assert shown.startswith(line)
    assert "canary" not in shown


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (StoreError("no database"), 2, "monitor: no database\n"),
        (ConfigError("a\nb"), 2, "monitor: a\nmonitor: b\n"),
        (KeyboardInterrupt(), 130, ""),
        (ValueError("oh\nno"), 2, "monitor: internal error: ValueError: oh no "),
        (RecursionError(), 2, "monitor: internal error: RecursionError: "),
    ],
)
def test_no_error_gets_past_the_border(
    error: BaseException, code: int, line: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def main(self, *_arguments: Any, **_options: Any) -> None:
            raise error

    monkeypatch.setattr(runner, "command", Broken)
    result = invoke(capsys)
    assert result.code == code
    assert result.err.startswith(line)
    assert len(result.err.splitlines()) == len(line.splitlines())


def test_a_command_without_its_module_is_left_out(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(app._COMMANDS, "later", "monitor.cli.not_there_yet")
    assert "later" not in invoke(capsys, "--help").out
    assert invoke(capsys, "later").code == 2


def test_init_writes_a_valid_file_once(capsys: Capture) -> None:
    assert invoke(capsys, "config", "init").code == 0
    written = Path("monitor.yaml").read_text()
    again = invoke(capsys, "config", "init")
    assert again.code == 2
    assert again.err == "monitor: monitor.yaml: exists already and stays as it is\n"
    assert Path("monitor.yaml").read_text() == written
    assert invoke(capsys, "config", "check").out.startswith("monitor.yaml is fine\n")


def test_check_says_what_would_be_watched(capsys: Capture) -> None:
    Path("m.yaml").write_text(CONFIG)
    result = invoke(capsys, "config", "check", "m.yaml")
    assert result.out == (
        "m.yaml is fine\n  a: gpu1:8000, two (speculative); plain:8000 (baseline)\n"
    )
    document = json.loads(invoke(capsys, "config", "check", "m.yaml", "--json").out)
    assert document["schema"] == "monitor.config/1"
    assert [t["target"] for t in document["targets"]] == ["gpu1:8000", "two", "plain:8000"]


def test_check_lists_all_mistakes(capsys: Capture) -> None:
    Path("m.yaml").write_text("listn: x\nthreshold: 4\n")
    result = invoke(capsys, "config", "check", "m.yaml")
    assert (result.code, result.out) == (2, "")
    assert [line.split(": ")[:3] for line in result.err.splitlines()] == [
        ["monitor", "m.yaml:1", "listn"],
        ["monitor", "m.yaml:1", "services"],
        ["monitor", "m.yaml:2", "threshold"],
    ]


def test_show_prints_what_is_in_effect(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m.yaml").write_text(CONFIG)
    monkeypatch.setenv(CONFIG_VARIABLE, "m.yaml")
    shown = yaml.safe_load(invoke(capsys, "config", "show").out)
    assert shown["scrape"] == {"interval": "15s", "max_page_size": "64MiB"}
    assert shown["database"] == "sqlite:///from-file.db"
    assert json.loads(invoke(capsys, "config", "show", "--json").out) == shown


def keys_of(schema: dict[str, Any]) -> set[str]:
    found = set(schema.get("properties", {}))
    for part in schema.get("$defs", {}).values():
        found |= keys_of(part)
    return found


def test_the_schema_is_printed_and_allows_short_targets(capsys: Capture) -> None:
    schema = json.loads(invoke(capsys, "config", "schema").out)
    assert schema == Config.model_json_schema()
    targets = schema["$defs"]["SpeculativeSide"]["properties"]["targets"]
    assert {"type": "string"} in targets["items"]["anyOf"]


def test_the_page_of_the_configuration_names_every_key() -> None:
    page, examples = (DOCS / "configuration.md").read_text(), (DOCS / "actuators.md").read_text()
    missing = {key for key in keys_of(Config.model_json_schema()) if f"`{key}`" not in page}
    assert not {key for key in missing if not re.search(rf"\b{key}(:|`)", examples)}


def test_the_page_of_the_command_line_names_every_option(capsys: Capture) -> None:
    page = (DOCS / "command-line.md").read_text()
    import typer.main  # noqa: PLC0415

    root = typer.main.get_command(app.app)
    for name in ("check", "run", "status", "history"):
        command = root.get_command(None, name)  # type: ignore[attr-defined]
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in page, option


def test_targets_from_flags_are_grouped_by_host() -> None:
    urls = ["http://gpu1:8000", "gpu1:8001", "http://gpu2:8000", "http://gpu1:8000"]
    settings = read_settings(None, urls)
    assert [(t.service, t.name) for t in settings.targets] == [
        ("gpu1", "gpu1:8000"),
        ("gpu1", "gpu1:8001"),
        ("gpu2", "gpu2:8000"),
    ]
    assert {t.role for t in settings.targets} == {Role.SPECULATIVE}
    assert settings.database == "sqlite:///monitor.db"


def test_flags_win_over_the_file_and_add_to_it() -> None:
    Path("m.yaml").write_text(CONFIG)
    url = "postgresql://u:pa55word@h/d"
    settings = read_settings(Path("m.yaml"), ["http://new"], database=url, listen="[::1]:0")
    assert [t.name for t in settings.targets] == ["gpu1:8000", "two", "plain:8000", "new"]
    assert (settings.database, settings.host, settings.port) == (url, "::1", 0)
    assert (
        settings.config_hash
        == (
            read_settings(Path("m.yaml"), ["http://new"], database="sqlite:///x", listen="[::1]:0")
        ).config_hash
    )


def test_the_file_in_the_folder_is_used_only_without_targets() -> None:
    Path("monitor.yaml").write_text(CONFIG)
    assert len(read_settings(None, []).targets) == 3
    assert [t.name for t in read_settings(None, ["http://new"]).targets] == ["new"]


@pytest.mark.parametrize(
    ("urls", "listen", "message"),
    [
        (["http://u:canary@h"], None, "--target holds a user name or password"),
        (["http://gpu1:8000"], None, "has the name of another target"),
        (["http://new"], "9465", "--listen is not an address"),
        (["http://new"], "0.0.0.0:1", "needs token_file or token_env"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    urls: list[str], listen: str | None, message: str
) -> None:
    Path("m.yaml").write_text(CONFIG)
    with pytest.raises(ConfigError, match=message) as caught:
        read_settings(Path("m.yaml"), urls, listen=listen)
    assert "canary" not in str(caught.value)


def test_exit_codes_are_those_of_the_contract() -> None:
    codes = {verdict: exits.exit_code(verdict) for verdict in Verdict}
    assert [v for v, code in codes.items() if code == 0] == [
        "healthy",
        "neutral",
        "unproven",
        "off",
    ]
    assert {v.value for v, code in codes.items() if code == 1} == {
        "degraded",
        "harmful",
        "stalled",
        "misreported",
    }
    assert exits.exit_code(None) == 3
    assert exits.worst([0, 3, 1, 0]) == 1
    assert exits.worst([0, 3]) == 3
    assert exits.worst([0, 0]) == 0


def test_times_may_be_relative() -> None:
    assert parse_time("2026-11-29T14:00:00+01:00") == parse_time("2026-11-29T13:00:00Z")
    assert parse_point("-2h", 10_000) == 2800
    assert parse_point("now", 7) == 7
    assert parse_point("1700000000", 7) == 1.7e9
    with pytest.raises(ValueError, match="no time zone"):
        parse_point("2026-11-29T14:00:00", 7)
    with pytest.raises(ValueError, match=r"write 2026-11-29T14:00:00Z, now, -2h or seconds"):
        parse_point("yesterday", 7)


def test_text_of_others_is_made_harmless() -> None:
    assert clean("a\nb\x1b[0m\u202e\u200b") == "a\\x0ab\\x1b[0m\\x202e\\x200b"
    assert clean("x" * 1000, 10) == "xxxxxxxxx…"
    assert as_ascii("1 ± 5 % τ é 中") == "1 +/- 5 % tau \\xe9 \\u4e2d"
