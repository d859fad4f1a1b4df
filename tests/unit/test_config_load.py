"""Good configurations lead to the settings they describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from monitor.config.example import EXAMPLE
from monitor.config.load import load, loads, redacted, to_yaml
from monitor.config.problems import Source
from monitor.config.schema import Config
from monitor.config.values import format_duration, format_size, parse_duration, parse_size
from monitor.model import ConfigError, Engine
from monitor.settings import DaemonSettings, Role

SOURCE = Source("m.yaml")
SERVICE = "services: [{name: a, speculative: {targets: [http://gpu1:8000]}}]\n"
FULL = """\
database: sqlite:///monitor.db
listen: 127.0.0.1:9465
token_file: token
scrape: {interval: 15s, timeout: 10s, max_page_size: 64MB}
windows: [1m, 5m, 15m, 1h, 6h, 24h]
judged_windows: [1m, 5m]
threshold: 0.40
dead_band: 0.05
services:
  - name: kimi
    threshold: 0.35
    auth: {username: me, password_env: KIMI_PASSWORD}
    tls: {ca_file: ca.pem, verify: true}
    speculative:
      targets:
        - http://gpu1:8000
        - url: https://gpu2/llm/metrics
          labels: {zone: a}
          engine: sglang
          num_speculative_tokens: 3
          interval: 5s
    baseline:
      curve: curves/kimi.json
      targets: [http://plain:8000]
"""
CURVE = {"points": [{"running": 8, "tpot": 0.02}, {"running": 1, "tpot": 0.012}]}


@pytest.fixture
def full(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("t0ken-canary\n")
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "curves").mkdir()
    (tmp_path / "curves" / "kimi.json").write_text(json.dumps(CURVE))
    path = tmp_path / "monitor.yaml"
    path.write_text(FULL)
    return path


def settings_of(text: str, environ: dict[str, str] | None = None) -> DaemonSettings:
    return loads(text, SOURCE).settings(environ or {})


def test_every_key_reaches_the_settings(full: Path) -> None:
    settings = load(full).settings({"KIMI_PASSWORD": "pa55word"})

    assert settings.database == "sqlite:///monitor.db"
    assert (settings.host, settings.port) == ("127.0.0.1", 9465)
    assert settings.token is not None
    assert settings.token.get_secret_value() == "t0ken-canary"
    gpu1, gpu2, plain = settings.targets
    assert [t.name for t in settings.targets] == ["gpu1:8000", "gpu2/llm", "plain:8000"]
    assert [t.role for t in settings.targets] == [
        Role.SPECULATIVE,
        Role.SPECULATIVE,
        Role.BASELINE,
    ]
    assert {t.service for t in settings.targets} == {"kimi"}
    assert (gpu1.interval, gpu1.timeout, gpu1.max_bytes) == (15.0, 10.0, 64_000_000)
    assert gpu1.engine is None
    assert (gpu2.engine, gpu2.draft_size, gpu2.labels) == (Engine.SGLANG, 3, {"zone": "a"})
    # The general timeout is longer than the interval of this target, and bends to it.
    assert gpu2.interval == 5.0
    assert gpu2.timeout == pytest.approx(10 / 3)
    assert gpu1.judge.threshold == 0.35
    assert gpu1.judge.dead_band == 0.05
    assert gpu1.judge.windows == (60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0)
    assert gpu1.judge.judged == (60.0, 300.0)
    assert gpu1.judge.baseline is not None
    assert gpu1.judge.baseline.name == "kimi"
    assert gpu1.judge.baseline.running_range == (1.0, 8.0)
    assert plain.credentials.username == "me"
    assert plain.credentials.password is not None
    assert plain.credentials.password.get_secret_value() == "pa55word"
    assert plain.credentials.ca_file == str(full.parent / "ca.pem")


def test_the_example_is_valid_and_says_the_defaults() -> None:
    example = loads(EXAMPLE, SOURCE).config
    plain = Config.model_validate(yaml.safe_load(SERVICE)).model_dump(exclude={"services"})
    written = example.model_dump(exclude={"services"})
    for key, value in plain.items():
        if key not in ("database", "judged_windows", "scrape"):
            assert written[key] == value, key
    assert settings_of(EXAMPLE).targets[0].name == "localhost:8000"


def test_only_targets_are_required() -> None:
    settings = settings_of(SERVICE)
    assert settings.database == "sqlite:///monitor.db"
    assert settings.targets[0].interval == 15.0
    assert settings.targets[0].timeout == 10.0
    assert settings.targets[0].judge.judged == (60.0, 300.0, 900.0)


def test_sections_whose_lines_are_commented_out_mean_the_default() -> None:
    text = f"scrape:\n  # interval: 5s\nwindows:\nthreshold:\n{SERVICE}"
    assert settings_of(text) == settings_of(SERVICE)


def test_windows_without_a_short_one_judge_the_shortest() -> None:
    assert settings_of(f"windows: [30m, 1h]\n{SERVICE}").targets[0].judge.judged == (1800.0,)


def test_anchors_and_merge_keys_work() -> None:
    text = """\
services:
  - &first
    name: a
    threshold: 0.3
    speculative: {targets: [http://a]}
  - <<: *first
    name: b
    speculative: {targets: [http://b]}
"""
    a, b = loads(text, SOURCE).config.services
    assert (a.name, b.name) == ("a", "b")
    assert b.threshold == 0.3
    assert b.speculative.targets[0].url == "http://b"


def test_what_yaml_would_take_for_dates_or_times_stays_text() -> None:
    text = "services: [{name: 2026-11-29, speculative: {targets: [http://a]}}]\n"
    assert loads(text, SOURCE).config.services[0].name == "2026-11-29"


def test_another_address_needs_a_token(full: Path) -> None:
    text = f"listen: 0.0.0.0:9465\n{SERVICE}"
    with pytest.raises(ConfigError, match=r"m\.yaml:1: listen: is reachable from other machines"):
        settings_of(text)
    assert settings_of(f"token_env: T\n{text}", {"T": "secret"}).host == "0.0.0.0"
    assert settings_of(f"listen: '[::1]:0'\n{SERVICE}").host == "::1"


def test_the_database_url_may_come_from_a_variable_or_a_file(tmp_path: Path) -> None:
    url = "postgresql://u:pa55word@h/d"
    loaded = loads(f"database_env: DB\n{SERVICE}", SOURCE)
    assert loaded.settings({"DB": url}).database == url
    assert loaded.database({"DB": url}) == url
    (tmp_path / "db").write_text(f"{url}\n")
    (tmp_path / "m.yaml").write_text(f"database_file: db\n{SERVICE}")
    assert load(tmp_path / "m.yaml").settings({}).database == url


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            f"database_env: DB\ntoken_env: T\n{SERVICE}",
            [
                "m.yaml:1: database_env: names an environment variable that is not set",
                "m.yaml:2: token_env: names an environment variable that is not set",
            ],
        ),
        (
            f"token_file: /nowhere/t0ken\n{SERVICE}",
            ["m.yaml:1: token_file: cannot be read: No such file or directory"],
        ),
        (
            "services:\n  - name: a\n    tls: {ca_file: /nowhere/x}\n"
            "    auth: {bearer_env: EMPTY}\n    speculative: {targets: [http://a]}\n",
            [
                "m.yaml:3: services[0].tls.ca_file: is no file",
                "m.yaml:4: services[0].auth.bearer_env: leads to an empty secret",
            ],
        ),
        (
            f"token_env: LINES\n{SERVICE}",
            ["m.yaml:1: token_env: leads to a secret of several lines or with control characters"],
        ),
        (
            f"database_env: LINES\n{SERVICE}",
            [
                "m.yaml:1: database_env: leads to a secret of several lines "
                "or with control characters"
            ],
        ),
        (
            f"database_env: URL\n{SERVICE}",
            [
                "m.yaml:1: database_env: leads to a URL that must begin with sqlite:/// or "
                "postgresql://, such as sqlite:///monitor.db"
            ],
        ),
    ],
)
def test_secrets_that_are_not_there_are_listed_with_their_lines(
    text: str, lines: list[str]
) -> None:
    environ = {"EMPTY": "", "LINES": "a\nb: c", "URL": "canary"}
    with pytest.raises(ConfigError) as caught:
        settings_of(text, environ)
    assert str(caught.value).splitlines() == lines


def test_mistakes_in_a_curve_are_listed_at_its_key(full: Path) -> None:
    (full.parent / "curves" / "kimi.json").write_text('{"points": [{"running": 0}]}')
    with pytest.raises(ConfigError) as caught:
        load(full).settings({"KIMI_PASSWORD": "x"})
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert all(": services[0].baseline.curve: baseline " in line for line in lines)


def test_no_secret_is_shown_or_hashed(full: Path) -> None:
    environ = {"KIMI_PASSWORD": "pa55word"}
    loaded = load(full)
    settings = loaded.settings(environ)
    shown = f"{to_yaml(loaded.config)}{redacted(loaded.config)}{settings!r}{loaded!r}"
    assert "canary" not in shown
    assert "pa55word" not in shown
    assert settings.config_hash == loaded.settings({"KIMI_PASSWORD": "other"}).config_hash


def test_the_hash_follows_the_values_and_the_curve_only(full: Path) -> None:
    environ = {"KIMI_PASSWORD": "x"}
    before = load(full).settings(environ).config_hash
    full.write_text(f"# a comment\n{FULL}")
    assert load(full).settings(environ).config_hash == before
    (full.parent / "curves" / "kimi.json").write_text(
        '{"points": [{"running": 1, "tpot": 0.013}]}'
    )
    changed = load(full).settings(environ).config_hash
    assert changed != before
    full.write_text(FULL.replace("0.35", "0.36"))
    assert load(full).settings(environ).config_hash not in (before, changed)


SHARES = st.floats(0.001, 0.999)
DURATIONS = st.floats(0.1, 300) | st.integers(1, 300)
NAMES = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="\u0085"), min_size=1
).filter(str.isprintable)
TARGETS = st.fixed_dictionaries(
    {"name": NAMES, "url": st.integers(1, 65535).map(lambda port: f"http://gpu:{port}")},
    optional={
        "labels": st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), NAMES),
        "engine": st.sampled_from(["auto", "vllm", "sglang"]),
        "num_speculative_tokens": st.integers(1, 128),
        "interval": DURATIONS,
    },
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    targets = draw(st.lists(TARGETS, min_size=1, max_size=4, unique_by=lambda t: t["name"]))
    service = {"name": draw(NAMES), "speculative": {"targets": targets}}
    windows = draw(st.lists(st.floats(1, 1e6), min_size=1, max_size=12, unique=True))
    return {
        "threshold": draw(SHARES),
        "dead_band": draw(SHARES),
        "windows": sorted(windows),
        "scrape": {"interval": draw(DURATIONS), "max_page_size": draw(st.integers(1000, 10**9))},
        "services": [service],
    }


@given(documents())
def test_what_is_shown_loads_to_the_same_configuration(document: dict[str, Any]) -> None:
    config = loads(yaml.safe_dump(document), SOURCE).config
    for ascii_only in (False, True):
        shown = to_yaml(config, ascii_only=ascii_only)
        again = loads(shown, SOURCE).config
        assert again == config
        assert to_yaml(again, ascii_only=ascii_only) == shown


@given(st.floats(0.001, 1e8))
def test_durations_keep_their_value(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(0, 2**40))
def test_sizes_keep_their_value(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1h30m", 5400),
        ("0.5s", 0.5),
        ("250ms", 0.25),
        ("2d", 172800),
        ("7", 7),
        (3, 3),
    ],
)
def test_durations_are_read(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "15 s", "-1s", "1e3", "15sec", True, None, [], "\uff11s"]
)
def test_other_durations_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MB", 64_000_000), ("64MiB", 67_108_864), ("1.5 kb", 1500), ("9", 9), (5, 5)],
)
def test_sizes_are_read(text: object, size: int) -> None:
    assert parse_size(text) == size
