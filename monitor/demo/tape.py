"""The recorded incident: real pages of real servers and when each was taken.

The vLLM pages are untouched answers of vLLM 0.32 with a draft model that fits, then of the
same server with one that does not, and of the plain server beside it. The SGLang pages come
from SGLang 0.5.23's own metrics collector under simulated traffic on two data-parallel ranks,
of which one collapses. Pages are played at the distances at which they were taken.
"""

from __future__ import annotations

import json
import lzma
import tarfile
from bisect import bisect_right
from dataclasses import dataclass
from importlib import resources
from io import BytesIO


@dataclass(frozen=True, slots=True)
class Tape:
    """The pages of one server in the order of time; None while it does not answer."""

    offsets: tuple[float, ...]
    """Seconds after the beginning of the story, ascending from 0."""
    pages: tuple[bytes | None, ...]

    def page(self, seconds: float) -> bytes | None:
        """What the server answers ``seconds`` after the beginning."""
        return self.pages[max(bisect_right(self.offsets, seconds) - 1, 0)]

    @property
    def end(self) -> float:
        """When the last page begins."""
        return self.offsets[-1]


@dataclass(frozen=True, slots=True)
class Story:
    """All tapes of the incident."""

    start: float
    """When it began, in seconds since the Unix epoch: pages carry such times."""
    tapes: dict[str, Tape]

    @property
    def end(self) -> float:
        """Seconds until the last page of all."""
        return max(tape.end for tape in self.tapes.values())


def load_story() -> Story:
    """Unpacks the incident that is part of the package."""
    packed = resources.files(__package__).joinpath("pages.tar.xz").read_bytes()
    files = {}
    with tarfile.open(fileobj=BytesIO(lzma.decompress(packed))) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is not None:
                files[member.name] = stream.read()
    index = json.loads(files["story.json"])
    return Story(
        start=index["start"],
        tapes={name: _tape(entries, files) for name, entries in index["targets"].items()},
    )


def _tape(entries: list[tuple[float, str | None]], files: dict[str, bytes]) -> Tape:
    return Tape(
        offsets=tuple(offset for offset, _ in entries),
        pages=tuple(None if name is None else files[name] for _, name in entries),
    )
