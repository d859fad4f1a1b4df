"""What ``monitor db size`` and ``monitor db prune`` print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.cli.output import print_text
from monitor.cli.render import headed_table, print_rich, text
from monitor.report import iso
from monitor.store.rollup import RAW
from monitor.store.space import Space
from monitor.store.upkeep import Tally

_KEYS = {RAW: "samples", 60: "one_minute", 600: "ten_minutes"}
"""The levels as the configuration calls them."""
_NEXT_UNIT = 1000.0
_UNITS = ("B", "kB", "MB", "GB")


def space_document(space: Space) -> Mapping[str, Any]:
    """The size as plain values; bytes and rows."""
    return {
        "bytes": {"total": space.total, "used": space.used},
        "rows": dict(space.rows),
        "oldest_sample": _time(space.oldest_sample),
        "pruned_at": _time(space.pruned_at),
    }


def tally_document(tally: Tally) -> Mapping[str, Any]:
    """What was done, or would be, as plain values; rows."""
    deleted = {name: tally.deleted[step] for step, name in _KEYS.items()}
    return {"rolled_up": tally.rolled_up, "deleted": deleted}


def tally_text(tally: Tally, *, dry_run: bool) -> str:
    """The same in a sentence."""
    deleted = (f"{tally.deleted[step]:,} of {name}" for step, name in _KEYS.items())
    verb = "would roll up" if dry_run else "rolled up"
    also = "delete" if dry_run else "deleted"
    return f"{verb} {tally.rolled_up:,} samples and {also} rows: {', '.join(deleted)}"


def print_space(space: Space) -> None:
    """The size as text and a table."""
    print_text(
        f"the database takes up {_bytes(space.total)}, of which {_bytes(space.used)} in use"
    )
    print_text(f"oldest sample: {_time(space.oldest_sample) or 'none'}")
    print_text(f"last prune:    {_time(space.pruned_at) or 'never'}")
    table = headed_table("table", "rows", left=1)
    for name, number in sorted(space.rows.items()):
        table.add_row(text(name), text(f"{number:,}"))
    print_rich(table)


def _time(at: float | None) -> str | None:
    return None if at is None else iso(at)


def _bytes(size: int) -> str:
    amount = float(size)
    for unit in _UNITS[:-1]:
        if amount < _NEXT_UNIT:
            return f"{amount:.3g} {unit}"
        amount /= _NEXT_UNIT
    return f"{amount:.4g} {_UNITS[-1]}"
