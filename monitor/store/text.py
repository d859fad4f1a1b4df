"""Makes text from scraped pages fit for both databases.

PostgreSQL takes no NUL characters, neither database takes lone surrogates, and a page may
call its model anything, of any length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

LABEL_LENGTH = 200
TEXT_LENGTH = 2_000
DOCUMENT_LENGTH = 256 * 1024
"""Longer documents are rewritten with each of their strings cut."""


def clean_text(text: str, length: int = TEXT_LENGTH) -> str:
    """``text`` without what a database refuses, cut to ``length`` characters."""
    if len(text) > length:
        text = text[: length - 1] + "…"
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    # Text that holds nothing but ASCII says so at once, and most of it does.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def clean_optional(text: str | None) -> str | None:
    """The same for text that may be missing."""
    return None if text is None else clean_text(text)


def clean_label(label: str) -> str:
    """A label that stays different from others when it is cut or cleaned."""
    cleaned = clean_text(label, LABEL_LENGTH)
    if cleaned == label:
        return label
    digest = sha256(label.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{cleaned[: LABEL_LENGTH - 13]}~{digest[:12]}"


def clean_document(text: str) -> str:
    """JSON text that a database takes; it stays JSON when it has to be cut."""
    if len(text) <= DOCUMENT_LENGTH and "\0" not in text and _is_encodable(text):
        return text
    return to_json(json.loads(text))


def to_json(value: object) -> str:
    """Plain values as JSON text in which every string is short and clean."""
    return json.dumps(_clean_value(value), allow_nan=False, separators=(",", ":"))


def public_url(url: str) -> str:
    """``url`` without the user and with the values of its query hidden.

    Which parameter is a secret cannot be known, so none is shown.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    names = [(name, "***") for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return urlunsplit((parts.scheme, host, parts.path, urlencode(names, safe="*"), ""))


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _clean_value(value: object) -> object:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _clean_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_value(item) for item in value]
    return value
