"""A target's memory as JSON, so that the next process goes on where this one stopped."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from monitor.health.target import Memory, TargetState
from monitor.health.window import GROUPS, Track, Group
from monitor.model import Action, Cause, Engine, Identity, Increment, StoreError, Verdict

_VERSION = 1


def to_json(state: TargetState) -> dict[str, Any]:
    """A JSON object with everything that the increments in the store do not tell."""
    memory = state.memory
    return {
        "version": _VERSION,
        "last_at": memory.last_at,
        "restarted_at": memory.restarted_at,
        "stalled_seconds": memory.stalled_seconds,
        "alternations": list(memory.alternations),
        "verdict": memory.verdict,
        "identity": list(state.identity),
        "tracks": {label: _track_to_json(track) for label, track in memory.tracks.items()},
    }


def _track_to_json(track: Track) -> dict[str, Any]:
    return {
        "groups": [None if g is None else [g.at, list(g.values)] for g in track.groups],
        "positions": track.positions,
        "positions_drafts": track.positions_drafts,
        "births": track.births,
        "peak": track.peak,
        "looks_since_fall": track.looks_since_fall,
        "vanished": track.vanished,
        "last_at": track.last_at,
    }


def restore(state: TargetState, text: str, history: Iterable[Increment]) -> None:
    """Fills ``state`` from the text of an earlier process and its stored increments.

    Raises ``StoreError`` when the text is not of this version of the monitor.
    """
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise ValueError(document["version"])
        engine, *rest = document["identity"]
        identity = Identity(Engine(engine) if engine else None, *rest)
        memory = _memory(document)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{state.name}: the stored state cannot be read: {error}") from error
    state.restore(memory, identity, history)


def _memory(document: dict[str, Any]) -> Memory:
    verdict = document["verdict"]
    return Memory(
        tracks={label: _track(track) for label, track in document["tracks"].items()},
        last_at=document["last_at"],
        restarted_at=document["restarted_at"],
        stalled_seconds=document["stalled_seconds"],
        alternations=deque(document["alternations"], maxlen=16),
        verdict=(
            (Verdict(verdict[0]), Cause(verdict[1]) if verdict[1] else None, Action(verdict[2]))
            if verdict
            else None
        ),
    )


def _track(document: dict[str, Any]) -> Track:
    groups = [None if g is None else Group(g[0], tuple(g[1])) for g in document["groups"]]
    if len(groups) != len(GROUPS):
        raise ValueError("another number of counter groups")
    return Track(
        groups=groups,
        positions=tuple(document["positions"]),
        positions_drafts=document["positions_drafts"],
        births=document["births"],
        peak=document["peak"],
        looks_since_fall=document["looks_since_fall"],
        vanished=document["vanished"],
        last_at=document["last_at"],
    )
