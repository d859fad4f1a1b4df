"""What the user reads when the database cannot be opened."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from monitor.model import StoreError
from monitor.store.connect import open_store, parse_url, shown


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "cannot be read"),
        ("monitor.db", "cannot be read"),
        ("postgresql://u:geheim@h:port/d", "cannot be read"),
        ("mysql://u:geheim@h/d", "mysql are not supported"),
        ("postgresql+asyncpg://u:geheim@h/d", "not supported"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///file:x.db", "names no file"),
        ("sqlite:///x.db?mode=ro", "no parameters"),
        ("sqlite:////no/such/folder/x.db", "folder /no/such/folder does not exist"),
        ("sqlite:////proc/x.db", "unable to open"),
        ("sqlite:////", "this is a folder"),
        ("postgresql://u:geheim@127.0.0.1:1/d", "127.0.0.1/d: connection failed"),
        ("postgresql://u@127.0.0.1:1/d?password=geheim", "connection failed"),
        ("postgresql://u:geheim@127.0.0.1:1/d?geheim=1", "option"),
    ],
)
def test_a_bad_database_gives_one_line_without_a_password(url: str, text: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    message = str(caught.value)
    assert text in message
    assert "\n" not in message
    assert "u:geheim" not in message
    assert caught.value.__cause__ is None


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no database, but long enough to be taken for one " * 10)
    with pytest.raises(StoreError, match=r"notes\.txt: file is not a database"):
        open_store(f"sqlite:///{path}")


def test_a_missing_file_is_refused_where_it_must_exist(tmp_path: Path) -> None:
    path = tmp_path / "monitor.db"
    with pytest.raises(StoreError, match="monitor db upgrade"):
        open_store(f"sqlite:///{path}", must_exist=True)
    assert not path.exists()


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match="driver psycopg is not installed"):
        open_store("postgresql://127.0.0.1:1/d")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_all_names_of_postgresql_are_taken(scheme: str) -> None:
    url = parse_url(f"{scheme}://u:geheim@h:5432/d?sslpassword=geheim")
    assert url.drivername == "postgresql+psycopg"
    assert shown(url) == "h/d"
