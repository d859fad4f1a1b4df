"""Log files as they lie about: compressed, rotated, piped, torn, huge and not there."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest
import zstandard

from monitor.backfill.looks import Findings, Look
from monitor.model import ConfigError, Sample
from monitor.sources.logs import LogFiles, LogSettings, in_order, wanted_lines

LOG = (Path(__file__).parents[1] / "data" / "logs" / "vllm-restart.log").read_bytes()
SETTINGS = LogSettings("t", None, UTC, 2026, now=2e9)


def looks(*paths: Path, after: float = 0.0) -> list[Look]:
    return list(LogFiles(paths, SETTINGS).looks(after))


def last(found: list[Look]) -> dict[str, float]:
    assert isinstance(found[-1].seen, Sample)
    return found[-1].seen.readings[0].counters


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_bytes(LOG)
    return path


@pytest.mark.parametrize(
    "compress",
    [gzip.compress, bz2.compress, lzma.compress, zstandard.ZstdCompressor().compress],
    ids=["gz", "bz2", "xz", "zst"],
)
def test_compressed_files_are_known_by_their_beginning(
    plain: Path, tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    packed = tmp_path / "no-ending"
    packed.write_bytes(compress(LOG))
    assert looks(packed) == looks(plain)


def test_two_frames_and_two_members_in_one_file_are_read_on(plain: Path, tmp_path: Path) -> None:
    half = LOG.index(b"\n", len(LOG) // 2) + 1
    for compress in (gzip.compress, zstandard.ZstdCompressor().compress):
        packed = tmp_path / "joined"
        packed.write_bytes(compress(LOG[:half]) + compress(LOG[half:]))
        assert looks(packed) == looks(plain)


def test_rotated_files_are_one_log_the_oldest_first(plain: Path, tmp_path: Path) -> None:
    folder = tmp_path / "rotated"
    folder.mkdir()
    cuts = [0, LOG.index(b"\n", 4000) + 1, LOG.index(b"\n", 9000) + 1, len(LOG)]
    (folder / "s.log.2.gz").write_bytes(gzip.compress(LOG[cuts[0] : cuts[1]]))
    (folder / "s.log.1").write_bytes(LOG[cuts[1] : cuts[2]])
    (folder / "s.log").write_bytes(LOG[cuts[2] :])
    assert looks(*in_order([folder])) == looks(plain)
    assert [p.name for p in in_order([folder])] == ["s.log.2.gz", "s.log.1", "s.log"]


@pytest.mark.parametrize(
    "names",
    [
        ("s.log-20231114.gz", "s.log-20231115", "s.log"),
        ("s.log.2023-11-14", "s.log.2023-11-15", "s.log"),
        ("s.log-20231114", "s.log-20231114-1200.zst", "s.log"),
        ("s.log.20231114", "s.log.20231115", "s.log"),
        ("s.log.20260101", "s.log.1", "s.log"),
    ],
)
def test_files_that_were_rotated_by_date_are_read_by_date(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"")
    assert tuple(path.name for path in in_order([tmp_path])) == names


def test_a_damaged_file_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(LOG)[:-600])
    files = LogFiles([cut], SETTINGS)
    assert list(files.looks(0.0))
    assert "cut.gz: damaged" in files.findings.notes[0]


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.log: No such file"):
        looks(tmp_path / "gone.log")


def test_standard_input_is_read_once() -> None:
    reader, writer = os.pipe()
    os.write(writer, LOG)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        files = LogFiles([Path("-")], SETTINGS, pipe=pipe)
        assert last(list(files.looks(0.0)))["drafts"] > 1000
        with pytest.raises(ConfigError, match="only once"):
            list(files.looks(0.0))


def test_reading_on_from_a_time_shows_the_same_counters(plain: Path) -> None:
    everything = looks(plain)
    middle = everything[7].at
    assert looks(plain, after=middle) == everything[8:]


def test_progress_grows_to_the_whole(plain: Path) -> None:
    files = LogFiles([plain, plain], SETTINGS)
    done = [files.findings.done or 0.0 for _ in files.looks(0.0)]
    assert done == sorted(done)
    assert done[-1] == pytest.approx(1.0)


def test_a_line_without_an_end_is_left_for_the_next_time(plain: Path) -> None:
    torn = LOG[: LOG.rindex(b"Drafted: ") + 11]
    plain.write_bytes(torn)
    files = LogFiles([plain], SETTINGS)
    list(files.looks(0.0))
    assert files.findings.skipped["last line without an end"] == 1


class Endless:
    """A stream of as many bytes as wanted, made when they are read."""

    def __init__(self, pattern: bytes, size: int) -> None:
        self._pattern, self._left = pattern, size

    def read1(self, size: int, /) -> bytes:
        size = min(size, self._left)
        self._left -= size
        return (self._pattern * (size // len(self._pattern) + 1))[:size]


@pytest.mark.parametrize(
    "pattern",
    [
        b'INFO:     1.2.3.4:5 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n',
        b"\0",
        b"Decode batch",
    ],
    ids=["access lines", "no line ends", "one endless mark"],
)
def test_memory_stays_flat_whatever_comes(pattern: bytes) -> None:
    findings = Findings()
    tracemalloc.start()
    try:
        for _ in wanted_lines(Endless(pattern, 40 << 20), findings):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 << 20
    assert sum(findings.skipped.values()) <= 1


def test_after_an_endless_line_reading_goes_on(plain: Path) -> None:
    plain.write_bytes(b"x" * (3 << 20) + b"\n" + LOG)
    files = LogFiles([plain], SETTINGS)
    found = list(files.looks(0.0))
    assert files.findings.skipped == {"line longer than 1 MB": 1}
    plain.write_bytes(LOG)
    assert found == looks(plain)
