"""What a server tells about itself beside its metrics: release, drafter and draft size.

vLLM has ``/version`` and, in its development mode, ``/server_info``; SGLang has
``/server_info``. What comes is the word of a server, so that nothing of it is taken as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

SEPARATOR = b"\x1e"
"""Stands between two bodies, as in RFC 7464: no JSON text holds this character as it is."""
LONGEST_NAME = 100
MOST_DRAFT_TOKENS = 1024
MOST_RANKS = 65_536

_VLLM_METHOD = re.compile(r"speculative_config=SpeculativeConfig\(method='([^']+)'")
_VLLM_SIZE = re.compile(r"num_spec(?:ulative)?_tokens=(\d{1,9})\b", re.ASCII)
_VLLM_RANKS = re.compile(r"\btensor_parallel_size=(\d{1,9})\b", re.ASCII)


class Told(NamedTuple):
    """The parts of an ``Identity`` that were told, by name; None says that there is none."""

    parts: dict[str, Any]
    notes: tuple[str, ...] = ()


def join(bodies: Sequence[bytes]) -> bytes | None:
    """The bodies of several endpoints as one, or None where there are none."""
    return SEPARATOR.join(bodies) if bodies else None


def read_about(about: bytes) -> Told:
    """What the bodies in ``about`` tell. Never raises: what is odd is left out, with a note."""
    told = Told({})
    for body in about.split(SEPARATOR):
        found = _read(body)
        told = Told(told.parts | found.parts, (*told.notes, *found.notes))
    return told


def _read(body: bytes) -> Told:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return Told({}, ("what the server tells about itself is no JSON; not used",))
    if not isinstance(document, dict):
        return Told({}, ("what the server tells about itself is no JSON object; not used",))
    parts, odd = {}, []
    for name, claim in _claims(document):
        part = None if claim is None else _CHECKS[name](claim)
        if part is None and claim is not None:
            odd.append(name)
        else:
            parts[name] = part
    notes = [f"the {name.replace('_', ' ')} the server tells is not usable" for name in odd]
    return Told(parts, tuple(notes))


def _claims(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The parts that a document speaks of and what it claims, unchecked."""
    if "version" in document:
        yield "engine_version", document["version"]
    if "vllm_config" in document:
        config = document["vllm_config"]
        yield from _vllm_claims(config) if isinstance(config, dict) else _vllm_text(str(config))
    elif "speculative_algorithm" in document:
        yield from _sglang_claims(document)


def _vllm_claims(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if "speculative_config" in config:
        speculative = config["speculative_config"]
        if not isinstance(speculative, dict):
            # None is a server without speculation; anything else is odd in both parts.
            speculative = {"method": speculative, "num_speculative_tokens": speculative}
        yield "method", speculative.get("method")
        yield "draft_size", speculative.get("num_speculative_tokens")
    parallel = config.get("parallel_config")
    if isinstance(parallel, dict):
        yield "tensor_parallel", parallel.get("tensor_parallel_size")


def _vllm_text(text: str) -> Iterator[tuple[str, Any]]:
    """The same from the text form, which is all that older releases have."""
    if "speculative_config=" in text:
        method, size = _VLLM_METHOD.search(text), _VLLM_SIZE.search(text)
        yield "method", method[1] if method else None
        yield "draft_size", int(size[1]) if method and size else None
    ranks = _VLLM_RANKS.search(text)
    if ranks:
        yield "tensor_parallel", int(ranks[1])


def _sglang_claims(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    algorithm = document["speculative_algorithm"]
    yield "method", algorithm
    size = document.get("speculative_num_draft_tokens")
    if algorithm is None:
        yield "draft_size", None
    elif size is not None:
        # The bonus token's place is counted among them.
        yield "draft_size", size - 1 if isinstance(size, int) else size
    if "tp_size" in document:
        yield "tensor_parallel", document["tp_size"]


def _name(claim: object) -> str | None:
    if not isinstance(claim, str):
        return None
    name = claim.strip()
    return name if 0 < len(name) <= LONGEST_NAME and name.isprintable() else None


def _number(claim: object, most: int) -> int | None:
    if not isinstance(claim, int) or isinstance(claim, bool):
        return None
    return claim if 0 < claim <= most else None


_CHECKS: Mapping[str, Callable[[object], str | int | None]] = {
    "engine_version": _name,
    "method": _name,
    "draft_size": lambda claim: _number(claim, MOST_DRAFT_TOKENS),
    "tensor_parallel": lambda claim: _number(claim, MOST_RANKS),
}
