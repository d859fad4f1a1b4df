"""The files outside the package are found in a checkout and in an installed wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.resources import data_dir


def test_migrations_are_found_in_a_checkout() -> None:
    assert (data_dir("migrations") / "env.py").is_file()


def test_files_of_an_installed_wheel_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitor.resources.files", lambda _: tmp_path)
    (tmp_path / "_data" / "alerts").mkdir(parents=True)
    assert data_dir("alerts") == tmp_path / "_data" / "alerts"
