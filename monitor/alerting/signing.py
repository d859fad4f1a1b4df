"""Signatures of webhooks, as Standard Webhooks describes them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

KEY_PREFIX = "whsec_"
"""Stands before the base64 of a key."""


def decode_key(text: str) -> bytes:
    """The bytes of a signing key, written ``whsec_`` and base64; ``ValueError`` if it is none."""
    encoded = text.removeprefix(KEY_PREFIX)
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("leads to a key that is not base64, with or without whsec_") from None
    if len(key) < 16:  # noqa: PLR2004 - 128 bits
        raise ValueError("leads to a key of less than 16 bytes: use 32 random ones in base64")
    return key


def sign(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: one signature for each key."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
