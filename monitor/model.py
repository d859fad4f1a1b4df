"""The value types, enumerations and errors that every other room shares.

The errors form one tree::

    MonitorError
    ├── ConfigError            a mistake of the user: file, key and fix in one line
    ├── PageError              a text that is no metrics page (HTML, empty, cut short)
    ├── ScrapeError            a page could not be fetched (``retryable``)
    ├── StoreError             the database is missing, locked, ahead or behind
    │   └── LeaseError         another process has been given the lease since
    ├── DeliveryError          a receiver refused a notification (``permanent``, ``retry_after``)
    ├── GrafanaError           Grafana refused, failed or cannot be reached (``status``)
    └── ActuatorError          traffic was not moved as asked (``stage``, ``safe_to_retry``)

Times are seconds since the Unix epoch (UTC) as ``float``; durations are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

SHARED = ""
"""Label of the figures that a server gives for all its ranks together."""


class MonitorError(Exception):
    """Base of all errors that carry one clear sentence for the user."""


class ConfigError(MonitorError):
    """The configuration or the command line is wrong; the text names place and fix."""


class PageError(MonitorError):
    """The text is not a usable metrics page as a whole."""


class ScrapeError(MonitorError):
    """A page could not be fetched."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.retryable = retryable


class StoreError(MonitorError):
    """The database cannot be used as it is."""


class LeaseError(StoreError):
    """What was to be stored came from a process that no longer holds the lease."""


class DeliveryError(MonitorError):
    """A receiver did not accept a notification."""

    def __init__(
        self, message: str, *, permanent: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.retry_after = retry_after


class GrafanaError(MonitorError):
    """Grafana refused what it was asked, failed, or cannot be reached."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """Of the answer; None where there was none that makes sense."""


class ActuatorError(MonitorError):
    """Traffic was not moved as asked, or a server not started, or the state not to be seen."""

    def __init__(self, message: str, *, stage: str, safe_to_retry: bool = True) -> None:
        super().__init__(message)
        self.stage = stage
        """The act that failed: observe, shift, restore, start or restart."""
        self.safe_to_retry = safe_to_retry
        """False where another try cannot help: something must be put right by a person first."""


class Engine(StrEnum):
    """The model servers whose pages are understood."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TENSORRT_LLM = "tensorrt_llm"
    LLAMA_CPP = "llama_cpp"
    LMDEPLOY = "lmdeploy"


class Verdict(StrEnum):
    """What is decided about a target or a service; docs/verdicts.md explains each word."""

    HEALTHY = "healthy"
    NEUTRAL = "neutral"
    DEGRADED = "degraded"
    HARMFUL = "harmful"
    UNPROVEN = "unproven"
    INSUFFICIENT = "insufficient"
    IDLE = "idle"
    NOT_DRAFTING = "not_drafting"
    OFF = "off"
    STALLED = "stalled"
    MISREPORTED = "misreported"
    UNRECOGNISED = "unrecognised"
    DOWN = "down"


class Cause(StrEnum):
    """Why the verdict is what it is, as far as the page tells."""

    DRAFTER_DEAD = "drafter_dead"
    INTEGRATION_SUSPECT = "integration_suspect"
    WEAK_DRAFTER = "weak_drafter"
    DOMAIN_SHIFT = "domain_shift"
    UPTIME_DECAY = "uptime_decay"
    VERSION_CHANGE = "version_change"
    SPECULATOR_CHANGED = "speculator_changed"
    LOAD_CROSSOVER = "load_crossover"
    DEAD_TAIL = "dead_tail"
    STEP_COST = "step_cost"
    ENGINE_OUTLIER = "engine_outlier"
    REPLICA_OUTLIER = "replica_outlier"
    ENGINE_BYPASS = "engine_bypass"
    SUSPICIOUS_OUTPUT = "suspicious_output"
    CONTRADICTION = "contradiction"
    MIXED_WORKERS = "mixed_workers"
    NAMES_CHANGED = "names_changed"
    WARMING_UP = "warming_up"


class Alarm(StrEnum):
    """What the detector of changes has found, and still stands by."""

    DROP = "drop"
    """Acceptance has fallen."""
    RISE = "rise"
    """Acceptance is suddenly too good."""
    SLOWDOWN = "slowdown"
    """The speedup has fallen at the same load."""


class Action(StrEnum):
    """The one thing to do about a verdict."""

    NONE = "none"
    ROLL_BACK = "roll_back"
    RESTART = "restart"
    LOWER_K = "lower_k"
    CHECK_OUTPUT = "check_output"
    CHECK_LOAD = "check_load"
    CHECK_CONFIG = "check_config"
    FIX_MONITORING = "fix_monitoring"


class Evidence(StrEnum):
    """How strong the figures are: sums of counters, or gauges of the last batches."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Speculation(StrEnum):
    """What a page says about speculation being configured at all."""

    CONFIGURED = "configured"
    DISABLED = "disabled"
    """Configured, and switched down to no draft at all by the engine itself."""
    UNMEASURED = "unmeasured"
    """Off or not measured yet; the page cannot tell the two apart."""
    ABSENT = "absent"
    UNKNOWN_NAMES = "unknown_names"


class Counts(NamedTuple):
    """Additive figures of one engine over some time; sums over time and engines stay exact.

    Every ratio the monitor shows is a quotient of two of these sums. Fields of one group
    (see ``health.counters.GROUPS``) only grow together, so that a quotient never mixes
    figures from different pages.
    """

    seconds: float = 0.0
    """Wall time that was observed."""
    output_tokens: float = 0.0
    requests: float = 0.0
    """Requests that finished."""
    prompt_tokens: float = 0.0
    drafts: float = 0.0
    """Verification steps (one request in one engine step) that carried a proposal."""
    draft_tokens: float = 0.0
    accepted_tokens: float = 0.0
    """Draft tokens accepted; the bonus token is not among them."""
    unsized_drafts: float = 0.0
    """Drafts whose number of draft tokens is unknown; with any, there is no acceptance rate."""
    uncounted_draft_tokens: float = 0.0
    """Draft tokens whose number of drafts is unknown; with any, there is no acceptance length."""
    gauge_drafts: float = 0.0
    """Those of ``drafts`` that were derived from a gauge instead of counters."""
    position_drafts: float = 0.0
    """Drafts for which accepted tokens per position are known."""
    decode_seconds: float = 0.0
    """Time spent decoding, summed over requests."""
    decode_tokens: float = 0.0
    """Tokens that came out of decode steps (the first token of a request is not one)."""
    decode_steps: float = 0.0
    """Decode steps, summed over requests."""
    engine_steps: float = 0.0
    """Steps of the engine, each for a whole batch."""
    batched_steps: float = 0.0
    """``decode_steps`` of the pages that also count ``engine_steps``."""
    prefix_queries: float = 0.0
    prefix_hits: float = 0.0
    first_token_seconds: float = 0.0
    first_tokens: float = 0.0
    running_seconds: float = 0.0
    """Running requests integrated over time, from the gauge."""
    waiting_seconds: float = 0.0
    saturated_seconds: float = 0.0
    """Time during which at least one request waited."""
    baseline_seconds: float = 0.0
    """Decode time the stored baseline would have needed for the compared tokens."""
    compared_seconds: float = 0.0
    """``decode_seconds`` of the intervals whose load lies inside the baseline's range."""
    uncompared_seconds: float = 0.0
    """``decode_seconds`` at a load the baseline does not cover."""
    resets: float = 0.0
    positions: tuple[float, ...] = ()
    """Accepted tokens at draft position 0, 1, …"""


@dataclass(slots=True)
class Reading:
    """What one page says about one engine: cumulative counters and momentary gauges."""

    label: str
    """``engine`` or ``dp_rank``; empty for figures that a server gives for all ranks together."""
    counters: dict[str, float] = field(default_factory=dict)
    """Cumulative values by the name of the ``Counts`` field.

    Two names beside those: ``verified_tokens``, tokens that came out of verification (accepted
    ones and one bonus token a draft), where accepted tokens are not counted by themselves; and
    ``gauge_tokens``, the tokens by which a gauge of the acceptance length is weighted.
    """
    positions: tuple[float, ...] = ()
    birth: float | None = None
    """When the counters began, if the page says so: the surest sign of a restart."""
    running: float | None = None
    waiting: float | None = None
    accept_length: float | None = None
    """Acceptance length of the last batches (a gauge), bonus token included."""
    draft_size: float | None = None
    """Draft tokens per draft, where the page or the user tells."""
    speculation: Speculation = Speculation.ABSENT


class Identity(NamedTuple):
    """What a page or an endpoint tells about the server: the fingerprint of its figures."""

    engine: Engine | None = None
    engine_version: str | None = None
    model: str | None = None
    method: str | None = None
    draft_size: int | None = None
    tensor_parallel: int | None = None

    def contradicts(self, other: Identity) -> bool:
        """Whether these are servers of different kinds, as far as is known of both."""
        pairs = zip(self, other, strict=True)
        return any(a is not None and b is not None and a != b for a, b in pairs)


@dataclass(slots=True)
class Sample:
    """One page, understood."""

    at: float
    identity: Identity
    readings: list[Reading]
    notes: tuple[str, ...] = ()


class Estimate(NamedTuple):
    """A figure with the limits of its interval; unknown parts are None."""

    value: float
    low: float | None = None
    high: float | None = None


class Position(NamedTuple):
    """Acceptance at one draft position."""

    position: int
    rate: float
    """Share of all drafts in which this position was accepted."""
    conditional: float | None
    """The same among drafts whose previous position was accepted; None where none was."""


class Window(NamedTuple):
    """The sums of a span of time and the quotients that follow from them."""

    start: float
    end: float
    counts: Counts
    lifetime: bool = False
    """True for figures since the server started, when there was only one page."""
    running_now: float = 0.0
    """Running requests on the last page."""
    stalled_seconds: float = 0.0
    """How long requests have been running without one output token, up to the last page."""
    warming_up: bool = False
    """True where the window holds nothing but the first minute after a start."""
    drafts_pending: bool = False
    """True where the last page did not tell its drafts; the next one will, for both."""
    alternating: bool = False
    """True where several workers with counters of their own answer in turns."""


class EngineVerdict(NamedTuple):
    """The verdict on one of several engines behind a target."""

    label: str
    verdict: Verdict
    cause: Cause | None
    acceptance_rate: Estimate | None
    acceptance_length: Estimate | None


class Load(NamedTuple):
    """How busy the server was; None is unknown."""

    running: float | None = None
    waiting: float | None = None
    tpot: float | None = None
    """Seconds per output token, as a client sees it after the first token."""
    step: float | None = None
    """Seconds per decode step, as one request sees it."""
    tokens_per_step: float | None = None
    coverage: float | None = None
    """Drafts per decode step; below 1 where some steps carry no proposal."""


class BreakEven(NamedTuple):
    """The acceptance from which speculation begins to pay at this load."""

    acceptance_length: float
    acceptance_rate: float | None


class WhatIf(NamedTuple):
    """What another draft size would give at this load."""

    best_k: int | None
    """The fastest draft size; 0 is plain decoding, None is undecided."""
    speedup: float | None
    """Speedup at ``best_k``."""
    note: str
    wasted: float
    """Share of the draft tokens that was rejected."""


class BaselineMatch(NamedTuple):
    """The baseline a window was compared with."""

    name: str
    matches: bool
    running_range: tuple[float, float]
    measured_at: float | None = None
    """When it was measured, where that is known."""


class Assessment(NamedTuple):
    """The answer for one target: verdict, reason, advice, one sentence and the figures."""

    target: str
    at: float
    verdict: Verdict
    cause: Cause | None
    action: Action
    sentence: str
    identity: Identity = Identity()
    window: Window | None = None
    acceptance_rate: Estimate | None = None
    acceptance_length: Estimate | None = None
    positions: tuple[Position, ...] = ()
    speedup: Estimate | None = None
    break_even: BreakEven | None = None
    what_if: WhatIf | None = None
    load: Load = Load()
    evidence: Evidence | None = None
    baseline: BaselineMatch | None = None
    engines: tuple[EngineVerdict, ...] = ()
    notes: tuple[str, ...] = ()


class Figures(NamedTuple):
    """The figures of one window without a verdict on them; None where one is not known."""

    acceptance_rate: Estimate | None = None
    acceptance_length: Estimate | None = None
    speedup: Estimate | None = None


class Increment(NamedTuple):
    """What one engine of a target did between two looks: one row of the store."""

    label: str
    start: float
    end: float
    counts: Counts
    warmup: bool
