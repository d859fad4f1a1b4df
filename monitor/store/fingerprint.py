"""What is known of the server behind a target, and when it became another one."""

from __future__ import annotations

from typing import Any

from monitor.model import Engine, Identity
from monitor.store.text import LABEL_LENGTH, clean_text

MAX_INTEGER = 2**31 - 1


def clean_identity(identity: Identity) -> Identity:
    """The identity as the database can hold it; an absurd number counts as unknown."""
    return identity._replace(
        engine_version=_clean_name(identity.engine_version),
        model=_clean_name(identity.model),
        method=_clean_name(identity.method),
        draft_size=_clean_number(identity.draft_size),
        tensor_parallel=_clean_number(identity.tensor_parallel),
    )


def read_identity(engine: str | None, *rest: Any) -> Identity:
    """The identity from its columns, in the order of its parts."""
    return Identity(Engine(engine) if engine else None, *rest)


def follow(before: Identity, now: Identity) -> Identity:
    """What is known of a server after a page said ``now``.

    A page that leaves a part out does not contradict what an earlier one said. One that does
    contradict it comes from another server, of which nothing else is known.
    """
    if differences(before, now):
        return now
    known = {name: part for name, part in now._asdict().items() if part is not None}
    return before._replace(**known)


def differences(before: Identity, after: Identity) -> str:
    """The parts that both know and that differ, in words; empty if there are none."""
    parts = zip(Identity._fields, before, after, strict=True)
    return ", ".join(
        f"{name} {old} → {new}"
        for name, old, new in parts
        if old is not None and new is not None and old != new
    )


def _clean_name(text: str | None) -> str | None:
    return None if text is None else clean_text(text, LABEL_LENGTH)


def _clean_number(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= MAX_INTEGER else None
