"""A simulated server with speculation, good enough for stories: what it counts is consistent."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from monitor.model import Engine, Identity, Reading, Sample, Speculation

START = 1_790_000_000.0
INTERVAL = 15.0


@dataclass
class Server:
    """Counters of one engine; change the attributes to change the server's fortune."""

    seed: int = 1
    q: float = 0.8
    """Chance that a draft token is accepted if the one before was."""
    k: int = 3
    running: float = 4.0
    step: float = 0.025
    """Seconds of a step with drafts."""
    request_drafts: float = 60.0
    """Drafts of a request."""
    birth: float = START - 3600.0
    version: str | None = None
    spread: float = 0.02
    """Standard deviation of q between pages."""
    counters: dict[str, float] = field(default_factory=dict)
    positions: list[float] = field(default_factory=list)
    now: float = START

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._zero()
        self._count(7200.0)

    def _zero(self) -> None:
        names = (
            "output_tokens requests prompt_tokens drafts draft_tokens accepted_tokens"
            " decode_seconds decode_tokens decode_steps engine_steps batched_steps"
        )
        self.counters = dict.fromkeys(names.split(), 0.0)
        self.positions = [0.0] * self.k

    def restart(self, at: float | None = None) -> None:
        """Begins anew with all counters at zero."""
        self.birth = self.now if at is None else at
        self._zero()

    def _count(self, seconds: float) -> None:
        if self.running <= 0.0:
            return
        q = min(max(self._random.gauss(self.q, self.spread), 0.0), 1.0)
        drafts = round(self.running * seconds / self.step)
        accepted = [round(drafts * q ** (i + 1)) for i in range(self.k)]
        tokens = drafts + sum(accepted)
        requests = round(drafts / self.request_drafts)
        grown = {
            "output_tokens": tokens + requests,
            "requests": requests,
            "prompt_tokens": 500.0 * requests,
            "drafts": drafts,
            "draft_tokens": drafts * self.k,
            "accepted_tokens": sum(accepted),
            "decode_seconds": self.running * seconds,
            "decode_tokens": tokens,
            "decode_steps": drafts,
            "engine_steps": drafts / self.running,
            "batched_steps": drafts,
        }
        for name, value in grown.items():
            self.counters[name] += value
        self.positions = [old + new for old, new in zip(self.positions, accepted, strict=True)]

    def look(self, after: float = INTERVAL) -> Sample:
        """Lets time pass and gives what the page then shows."""
        self.now += after
        self._count(after)
        reading = Reading(
            label="0",
            counters=dict(self.counters),
            positions=tuple(self.positions),
            birth=self.birth,
            running=self.running,
            waiting=0.0,
            speculation=Speculation.CONFIGURED,
        )
        identity = Identity(Engine.VLLM, self.version, "m", None, self.k)
        return Sample(self.now, identity, [reading])
