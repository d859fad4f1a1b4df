"""Reading the files that a configuration names: bounded, and with errors that name no content."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import SecretStr

_MAX_SECRET_BYTES = 64 * 1024


def read_limited(path: Path, limit: int) -> bytes:
    """The content of a file of at most ``limit`` bytes; ``ValueError`` says what is wrong."""
    try:
        # Devices and pipes have no size, so the limit is put on the reading itself.
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {os.strerror(error.errno or 0)}") from None
    except ValueError:
        raise ValueError("is not the name of a file") from None
    if len(content) > limit:
        raise ValueError(f"is larger than {limit} bytes")
    return content


def decode(content: bytes) -> str:
    """UTF-8 text, with or without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None


def read_secret(path: Path) -> SecretStr:
    """The secret in a file; line ends after it do not count."""
    return _secret(decode(read_limited(path, _MAX_SECRET_BYTES)).rstrip("\r\n"))


def secret_from(environ: Mapping[str, str], name: str) -> SecretStr:
    """The secret in an environment variable."""
    if name not in environ:
        raise ValueError("names an environment variable that is not set")
    return _secret(environ[name])


def _secret(text: str) -> SecretStr:
    if not text.strip():
        raise ValueError("leads to an empty secret")
    # Line ends would let a secret add headers to a request.
    if not text.isprintable():
        raise ValueError("leads to a secret of several lines or with control characters")
    return SecretStr(text)


def check_readable(path: Path) -> None:
    """Raises ``ValueError`` unless ``path`` is a file that may be read."""
    if not path.is_file():
        raise ValueError("is no file")
    if not os.access(path, os.R_OK):
        raise ValueError("cannot be read: Permission denied")
