"""Times without zones and years, and what collectors wrap around a line."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from monitor.engines.logs.stamps import Stamps
from monitor.engines.logs.wrapping import unwrap
from monitor.model import ConfigError

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 29, tzinfo=UTC).timestamp()


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc, arg-type]


def test_a_stamp_is_local_time_of_the_zone_told() -> None:
    assert Stamps(UTC, 2026, NOW).read("INFO 11-28 12:00:00 x") == utc(2026, 11, 28, 12)
    assert Stamps(BERLIN, 2026, NOW).read("INFO 11-28 12:00:00 x") == utc(2026, 11, 28, 11)
    assert Stamps(BERLIN, None, NOW).read("[2026-07-01 12:00:00.250 TP0] x") == (
        utc(2026, 7, 1, 10) + 0.25
    )


def test_without_a_year_nothing_is_guessed() -> None:
    with pytest.raises(ConfigError, match="--year"):
        Stamps(UTC, None, NOW).read("INFO 11-28 12:00:00 x")


def test_the_year_turns_at_new_year_and_turns_back_for_late_lines() -> None:
    stamps = Stamps(UTC, 2025, NOW)
    shown = ["12-31 23:59:58", "01-01 00:00:01", "12-31 23:59:59", "01-01 00:00:05"]
    times = [stamps.read(f"INFO {text} x") for text in shown]
    new_year = utc(2026, 1, 1)
    assert times == [new_year - 2, new_year + 1, new_year - 1, new_year + 5]


def test_the_hour_that_comes_twice_is_read_in_its_order() -> None:
    stamps = Stamps(BERLIN, 2026, NOW)
    shown = ["02:10:00", "02:50:00", "02:10:00", "02:50:00", "03:10:00"]
    times = [stamps.read(f"INFO 10-25 {text} x") for text in shown]
    first = utc(2026, 10, 25, 0, 10)
    assert times == [first, first + 2400, first + 3600, first + 6000, first + 7200]


@pytest.mark.parametrize("shown", ["03-29 02:30:00", "02-29 12:00:00", "13-01 00:00:00"])
def test_a_time_that_no_clock_showed_is_none(shown: str) -> None:
    assert Stamps(BERLIN, 2026, NOW).read(f"INFO {shown} x") is None


def test_a_time_in_the_future_stops_the_reading() -> None:
    with pytest.raises(ConfigError, match="future"):
        Stamps(UTC, 2026, NOW).read("INFO 12-25 12:00:00 x")


TEXT = "INFO 11-28 12:00:00 [metrics.py:120] SpecDecoding metrics: x"
AT = utc(2026, 11, 28, 12, 0, 1) + 0.5


@pytest.mark.parametrize(
    ("line", "at", "source"),
    [
        (TEXT, None, ""),
        ("\x1b[32mINFO\x1b[0m 11-28 12:00:00 [metrics.py:120] SpecDecoding metrics: x", None, ""),
        (f'{{"log":"{TEXT}\\n","stream":"stderr","time":"2026-11-28T12:00:01.5Z"}}', AT, ""),
        (f"2026-11-28T12:00:01.500000000Z {TEXT}", AT, ""),
        (f"2026-11-28T13:00:01.5+01:00 stderr F {TEXT}", AT, ""),
        (f"[pod/vllm-0/server] 2026-11-28T12:00:01.5Z {TEXT}", AT, "pod/vllm-0/server"),
        (f"vllm-1  | {TEXT}", None, "vllm-1"),
        (f"Nov 28 12:00:01 host vllm[77]: {TEXT}", None, "vllm"),
        (
            f'{{"MESSAGE":"{TEXT}","__REALTIME_TIMESTAMP":"{AT * 1e6:.0f}",'
            '"_SYSTEMD_UNIT":"vllm.service"}',
            AT,
            "vllm.service",
        ),
        (
            f'{{"labels":{{"pod":"vllm-0"}},"line":"{TEXT}","timestamp":"2026-11-28T12:00:01.5Z"}}',
            AT,
            "vllm-0",
        ),
        (f'2026-11-28T12:00:01.5Z {{pod="vllm-0"}} {TEXT}', AT, '{pod="vllm-0"}'),
    ],
    ids=["plain", "coloured", "docker", "kubectl", "cri", "prefixed", "compose", "journal",
         "journal json", "logcli json", "logcli"],
)  # fmt: skip
def test_wrappings_are_taken_off(line: str, at: float | None, source: str) -> None:
    found = unwrap(line)
    assert found.text == TEXT
    assert found.source == source
    assert found.at == (None if at is None else pytest.approx(at, abs=1e-3))


@pytest.mark.parametrize(
    "line", ["", "{", '{"log": 5}', "[]", '{"log": "x", "time": "soon"}', "{" * 9000]
)
def test_what_is_no_wrapping_is_left_alone(line: str) -> None:
    assert unwrap(line).at is None
