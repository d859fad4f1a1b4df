"""A target's memory as JSON, so that the next process goes on where this one stopped."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from monitor.health.detect import Cusum, Freshness
from monitor.health.intake import Memory
from monitor.health.pace import Block as PaceBlock
from monitor.health.pace import Pace, Pending
from monitor.health.pace import Run as PaceRun
from monitor.health.past import Changes
from monitor.health.reference import Block, Reference
from monitor.health.shape import Change, Kind
from monitor.health.target import TargetState
from monitor.health.turns import Turns
from monitor.health.watch import Run, Watch
from monitor.health.whatif import StepCost
from monitor.health.window import Track
from monitor.model import Action, Cause, Counts, Engine, Identity, Increment, StoreError, Verdict

_FORMAT = 2


def to_document(
    state: TargetState,
    encode: Callable[[object], bytes],
    embed: Callable[[bytes], object],
) -> dict[str, object]:
    """Everything that the increments in the store do not tell, as values and records for JSON.

    References are large and seldom change, so that the JSON text that ``encode`` makes of one
    is kept; ``embed`` makes of it what the encoder puts in as it is. The encoder must know
    dataclasses.
    """
    memory = state.memory
    references = memory.watch.references.items()
    return {
        "format": _FORMAT,
        "last_at": memory.last_at,
        "restarted_at": memory.restarted_at,
        "running_since": memory.running_since,
        "active_at": memory.active_at,
        "stalled_seconds": memory.stalled_seconds,
        "alternations": list(memory.alternations),
        "verdict": memory.verdict,
        "step_costs": {
            size: [cost.k, cost.step, cost.plain, load]
            for size, (cost, load) in memory.step_costs.items()
        },
        "identity": list(state.identity),
        "version": memory.version,
        "sought_at": memory.sought_at,
        "changes": _changes_to_json(memory.changes),
        "watch": _watch_to_json(memory.watch),
        "tracks": {label: _track_to_json(track) for label, track in memory.tracks.items()},
        "references": {key: embed(reference.to_text(encode)) for key, reference in references},
    }


_CHANGED = ("rate", "step", "load")
_PACE = ("expected", "loads", "squares", "number", "run_squares", "run_number")


# The records are written out field by field: with each page all of them are, and to ask a
# record for its fields takes four times as long.


def _changes_to_json(changes: Changes) -> dict[str, Any]:
    return {
        "rate": changes.rate,
        "step": changes.step,
        "load": changes.load,
        "rates_before": changes.rates_before,
        "speedup_before": changes.speedup_before,
    }


def _changes(document: dict[str, Any]) -> Changes:
    found = {name: _change(document[name]) for name in _CHANGED}
    return Changes(
        **found,
        rates_before=tuple(document["rates_before"]),
        speedup_before=document["speedup_before"],
    )


def _change(document: dict[str, Any] | None) -> Change | None:
    return Change(**(document | {"kind": Kind(document["kind"])})) if document else None


def _watch_to_json(watch: Watch) -> dict[str, Any]:
    return {
        "drop": _cusum_to_json(watch.drop),
        "rise": _cusum_to_json(watch.rise),
        "run": _run_to_json(watch.run),
        "freshness": _freshness_to_json(watch.freshness),
        "k": watch.k,
        "pace": _pace_to_json(watch.pace),
    }


def _cusum_to_json(cusum: Cusum) -> dict[str, Any]:
    return {
        "evidence": cusum.evidence,
        "rising_since": cusum.rising_since,
        "zero_since": cusum.zero_since,
        "alarm_at": cusum.alarm_at,
        "changed_at": cusum.changed_at,
    }


def _run_to_json(run: Run) -> dict[str, Any]:
    return {
        "start": run.start,
        "total": run.total,
        "number": run.number,
        "decode_seconds": run.decode_seconds,
        "requests": run.requests,
        "total_before": run.total_before,
        "number_before": run.number_before,
    }


def _freshness_to_json(freshness: Freshness) -> dict[str, Any]:
    return {"end": freshness.end, "running": freshness.running, "share": freshness.share}


def _pace_to_json(pace: Pace) -> dict[str, Any]:
    # What still waits to be learnt is not worth keeping.
    return {
        "expected": pace.expected,
        "loads": pace.loads,
        "squares": pace.squares,
        "number": pace.number,
        "run_squares": pace.run_squares,
        "run_number": pace.run_number,
        "fall": _cusum_to_json(pace.fall),
        "run": _pace_run_to_json(pace.run),
        "pending": _pending_to_json(pace.pending),
    }


def _pace_run_to_json(run: PaceRun) -> dict[str, Any]:
    return {
        "start": run.start,
        "total": run.total,
        "number": run.number,
        "total_before": run.total_before,
        "number_before": run.number_before,
    }


def _pending_to_json(pending: Pending) -> dict[str, Any]:
    return {
        "start": pending.start,
        "baseline": pending.baseline,
        "compared": pending.compared,
        "tokens": pending.tokens,
        "load": pending.load,
    }


def _pace(document: dict[str, Any] | None) -> Pace:
    """The pace that was stored; a release before it was watched stored none."""
    if document is None:
        return Pace()
    return Pace(
        **{name: document[name] for name in _PACE},
        fall=Cusum(**document["fall"]),
        run=PaceRun(**document["run"]),
        pending=Pending(**document["pending"]),
    )


def _watch(document: dict[str, Any], references: dict[str, Any]) -> Watch:
    return Watch(
        references={key: Reference.from_json(ref) for key, ref in references.items()},
        drop=Cusum(**document["drop"]),
        rise=Cusum(**document["rise"]),
        run=Run(**document["run"]),
        freshness=Freshness(**document.get("freshness", {})),
        k=document["k"],
        pace=_pace(document.get("pace")),
    )


def _track_to_json(track: Track) -> dict[str, Any]:
    return {
        "values": track.values,
        "waiting": sorted(track.waiting),
        "positions": track.positions,
        "positions_drafts": track.positions_drafts,
        "births": track.births,
        "turns": _turns_to_json(track.turns),
        "vanished": track.vanished,
        "last_at": track.last_at,
    }


def _turns_to_json(turns: Turns) -> dict[str, Any]:
    return {
        "places": turns.places,
        "rates": turns.rates,
        "met": turns.met,
        "is_high": turns.is_high,
        "is_whole": turns.is_whole,
        "looks": turns.looks,
    }


def _fields(block: PaceBlock) -> dict[str, Any]:
    return {name: getattr(block, name) for name in block.__slots__}


def waiting(state: TargetState) -> dict[str, Any]:
    """What each reference has yet to learn, for JSON; ``to_text`` leaves it out.

    It is an hour of figures, too much to write with each page, and an interruption of the
    daemon costs no more. Who has to go on exactly where it stopped needs it.
    """
    watch = state.memory.watch
    return {
        "references": {
            key: [[block.start, block.end, *block.counts] for block in reference.waiting]
            for key, reference in watch.references.items()
            if reference.waiting
        },
        "pace": [_fields(block) for block in watch.pace.waiting],
    }


def restore_waiting(state: TargetState, document: dict[str, Any]) -> None:
    """Adds what ``waiting`` gave to a state that was restored."""
    watch = state.memory.watch
    for key, blocks in document["references"].items():
        for start, end, *scalars, positions in blocks:
            counts = Counts._make((*scalars, tuple(positions)))
            watch.references[key].waiting.append(Block(start, end, counts))
    watch.pace.waiting.extend(PaceBlock(**block) for block in document["pace"])


def restore(state: TargetState, text: str, history: Iterable[Increment]) -> None:
    """Fills ``state`` from the text of an earlier process and its stored increments.

    Raises ``StoreError`` when the text is not of this version of the monitor.
    """
    try:
        document = json.loads(text)
        if document["format"] != _FORMAT:
            raise ValueError(document["format"])
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
        running_since=document["running_since"],
        active_at=document["active_at"],
        stalled_seconds=document["stalled_seconds"],
        version=document["version"],
        sought_at=document["sought_at"],
        changes=_changes(document["changes"]),
        watch=_watch(document["watch"], document["references"]),
        step_costs={
            size: (StepCost(*cost), load) for size, (*cost, load) in document["step_costs"].items()
        },
        alternations=deque(document["alternations"], maxlen=16),
        verdict=(
            (Verdict(verdict[0]), Cause(verdict[1]) if verdict[1] else None, Action(verdict[2]))
            if verdict
            else None
        ),
    )


def _track(document: dict[str, Any]) -> Track:
    # A release that knew other fields has told what it knew of these.
    known = {name: document[name] for name in Track.__slots__ if name in document}
    known["waiting"], known["positions"] = set(document["waiting"]), tuple(document["positions"])
    known["turns"] = Turns(**document.get("turns", {}))
    return Track(**known)
