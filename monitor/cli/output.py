"""Everything the command line prints: JSON, plain lines, and text of others made harmless."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Mapping

_SHOWN = 300
_PLAIN = str.maketrans(
    {
        "\u2013": "-",
        "\u2014": "-",
        "\u2212": "-",
        "\u00d7": "x",
        "\u00b1": "+/-",
        "\u2026": "...",
        "\u00b7": "-",
        "\u2265": ">=",
        "\u2264": "<=",
        "\u2248": "~",
        "\u2192": "->",
        "\u03c4": "tau",
        "\u201c": '"',
        "\u201d": '"',
        "\u2019": "'",
        "\u00a0": " ",
        "\u202f": " ",
        "\u03a3": "sum",
    }
)


def clean(text: str, limit: int = _SHOWN) -> str:
    """Text from a page, for a terminal: one line, no control characters, capped."""
    shown = "".join(c if _is_harmless(c) else f"\\x{ord(c):02x}" for c in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _is_harmless(char: str) -> bool:
    # Format characters (Cf) include those that reverse the direction of what follows.
    return char == " " or (char.isprintable() and unicodedata.category(char) != "Cf")


def is_plain_terminal(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether only ASCII can be shown, by the locale or by the encoding of the output."""
    if not (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf"):
        return True
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    return locale in ("C", "POSIX")


def as_ascii(text: str) -> str:
    """The nearest that ASCII can do, one line for one line."""
    return text.translate(_PLAIN).encode("ascii", "backslashreplace").decode("ascii")


def print_json(document: Mapping[str, object]) -> None:
    """One JSON document on standard output; NaN would not be JSON and is an error."""
    sys.stdout.write(json.dumps(document, allow_nan=False, indent=2) + "\n")


def print_text(text: str) -> None:
    """Text on standard output, in ASCII where the terminal knows nothing else."""
    sys.stdout.write(as_ascii(text) if is_plain_terminal() else text)
    if not text.endswith("\n"):
        sys.stdout.write("\n")


def print_error(text: str) -> None:
    """Each line of a message on standard error, with the name of the program before it."""
    for line in text.splitlines() or [""]:
        shown = f"monitor: {clean(line, 2000)}"
        sys.stderr.write((as_ascii(shown) if is_plain_terminal() else shown) + "\n")
