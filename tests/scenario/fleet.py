"""Forty minutes of a small fleet as Prometheus sees it: the servers' own pages, and the monitor's.

The servers are simulated, and what they count is consistent. The monitor's page comes from its
real workers, alert rules and renderer, which watch the very same servers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.core import Sample
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from traffic import Server
from vllm_page import vllm_page

from monitor.alerting.ruleset import load_rules
from monitor.clock import FakeClock
from monitor.daemon.timeline import Timeline
from monitor.daemon.worker import Worker
from monitor.health.baseline import Baseline, BaselinePoint
from monitor.health.judging import JudgeSettings
from monitor.model import Verdict
from monitor.pipeline import Page
from monitor.rollback.model import Phase
from monitor.rollback.settings import Mode
from monitor.settings import Role, TargetSettings
from monitor.sources.errors import FetchError, FetchKind
from monitor.store.rows import RoundRow
from monitor.store.space import Space
from monitor.web.metrics import MetricsPage
from monitor.web.view import Health, ReceiverView, RollbackView, TargetView

INTERVAL = 15.0
START = 1_790_000_000.0 - 1_790_000_000.0 % 3600.0
MINUTES = 40
END = START + MINUTES * 60.0
MEASURED = START - 9 * 86_400.0
PLAIN = Baseline(
    "plain",
    tuple(BaselinePoint(n, 0.011 + 0.0005 * n) for n in (1.0, 8.0, 64.0)),
    measured_at=MEASURED,
)
BOUNDS = (0.005, 0.01, 0.02, 0.04, 0.08)
"""Upper bounds of the histogram of the time per output token of requests."""

Story = Callable[["Member", float], None]


@dataclass
class Member:
    """One server of the fleet: engines behind one page, and what happens to them by minute."""

    name: str
    model: str
    engines: list[Server]
    service: str | None = None
    """None: only Prometheus scrapes it, not the monitor."""
    role: Role = Role.SPECULATIVE
    baseline: Baseline | None = PLAIN
    story: Story | None = None
    rename: tuple[str, str] = ("", "")
    speculates: bool = True
    up: bool = True
    preemptions: float = 0.0
    buckets: list[float] = field(default_factory=lambda: [0.0] * (len(BOUNDS) + 1))

    def advance(self, minute: float) -> None:
        """Lets an interval pass."""
        if self.story is not None:
            self.story(self, minute)
        before = sum(engine.counters["requests"] for engine in self.engines)
        for engine in self.engines:
            engine.look(INTERVAL)
        requests = max(sum(engine.counters["requests"] for engine in self.engines) - before, 0.0)
        for index, bound in enumerate((*BOUNDS, float("inf"))):
            self.buckets[index] += requests if bound >= self.tpot else 0.0
        self.preemptions += 1.0 if self.engines[0].running > 6.0 else 0.0

    @property
    def tpot(self) -> float:
        """Seconds per output token of the first engine."""
        engine = self.engines[0]
        return engine.step / (1.0 + sum(engine.q ** (i + 1) for i in range(engine.k)))

    def page(self) -> str:
        """What ``/metrics`` shows."""
        parts = [self._engine(number, engine) for number, engine in enumerate(self.engines)]
        labels = f'engine="0",model_name="{self.model}"'
        parts += [
            f'vllm:request_time_per_output_token_seconds_bucket{{{labels},le="{bound:g}"}} {count}'
            for bound, count in zip((*BOUNDS, float("inf")), self.buckets, strict=True)
        ]
        parts.append(f"vllm:kv_cache_usage_perc{{{labels}}} {self.engines[0].running / 16.0}")
        parts.append(f"vllm:num_preemptions_total{{{labels}}} {self.preemptions}")
        text = "\n".join((*parts, "")).replace('le="inf"', 'le="+Inf"')
        if not self.speculates:
            text = "".join(line + "\n" for line in text.splitlines() if "spec_decode" not in line)
        return text.replace(*self.rename) if self.rename[0] else text

    def _engine(self, number: int, engine: Server) -> str:
        page = vllm_page(engine).decode().replace('model_name="m"', f'model_name="{self.model}"')
        lines = page.replace('engine="0"', f'engine="{number}"').splitlines()
        return "\n".join(lines if number == 0 else lines[1:])


def _collapse(member: Member, minute: float) -> None:
    if minute >= 28.0:
        member.engines[0].q = 0.10


def _restart(member: Member, minute: float) -> None:
    engine = member.engines[0]
    if minute >= 20.0 and engine.birth < START:
        engine.restart()


def _rank_fails(member: Member, minute: float) -> None:
    if minute >= 28.0:
        member.engines[1].q = 0.02


def _fall_asleep(member: Member, minute: float) -> None:
    if minute >= 15.0:
        member.engines[0].running = 0.0


def _go_down(member: Member, minute: float) -> None:
    member.up = minute < 20.0


def _fill_up(member: Member, minute: float) -> None:
    member.engines[0].running = 2.0 + minute / 6.0
    member.engines[0].step = 0.020 + 0.00012 * minute


def make_fleet() -> list[Member]:
    """All servers, each with its fortune."""

    def server(seed: int, q: float, k: int, **more: Any) -> Server:
        return Server(seed=seed, q=q, k=k, now=START, birth=START - 3600.0, **more)

    return [
        Member("chat-1", "llama", [server(1, 0.8, 3)], "chat", story=_fill_up),
        Member("chat-2", "llama", [server(2, 0.8, 3)], "chat", story=_collapse),
        Member(
            "chat-plain",
            "llama",
            [server(3, 0.0, 1, step=0.013)],
            "chat",
            role=Role.BASELINE,
            baseline=None,
            speculates=False,
        ),
        Member("code-1", "qwen", [server(4, 0.75, 5)], "code", story=_restart),
        Member(
            "code-2", "qwen", [server(5, 0.75, 5), server(6, 0.75, 5)], "code", story=_rank_fails
        ),
        Member("night-1", "tiny", [server(7, 0.7, 2)], "night", story=_fall_asleep),
        Member("rag-1", "mistral", [server(8, 0.7, 4)], "rag", baseline=None),
        Member("gone-1", "phi", [server(9, 0.7, 4)], "gone", story=_go_down),
        Member(
            "renamed-1", "future", [server(10, 0.7, 4)], rename=("spec_decode", "spec_decoding_v2")
        ),
    ]


# -- the monitor that watches them -------------------------------------------------------------


class _Fetcher:
    def __init__(self, member: Member) -> None:
        self._member = member

    def fetch(self) -> Page:
        if not self._member.up:
            raise FetchError(FetchKind.CONNECT, "connection refused")
        return Page(self._member.page().encode())

    def ask_again(self) -> None:
        return

    def abort(self) -> None:
        return

    def close(self) -> None:
        return


class Watch:
    """The monitor's workers, without its threads and its database."""

    def __init__(self, members: list[Member]) -> None:
        self.rows: list[RoundRow] = []
        self.clock = FakeClock(START)
        timeline = Timeline(self.clock)
        rules = load_rules([]).rules
        self.workers = [
            Worker(
                TargetSettings(
                    member.name,
                    member.service,
                    f"{member.name}:8000",
                    member.role,
                    judge=JudgeSettings(baseline=member.baseline),
                ),
                clock=self.clock,
                timeline=timeline,
                sink=self.rows.append,
                fetcher=_Fetcher(member),
                rules=lambda: rules,
            )
            for member in members
            if member.service is not None
        ]
        self._page = MetricsPage(self)

    def round(self) -> None:
        """Looks at all targets."""
        self.clock.advance(INTERVAL)
        for worker in self.workers:
            assert worker.claim()
            worker.fetch()()

    def samples(self) -> Iterator[Sample]:
        """What ``/metrics`` shows."""
        page, _ = self._page.render("")
        for family in text_string_to_metric_families(page.decode()):
            yield from family.samples

    def targets(self) -> list[TargetView]:
        return [worker.view() for worker in self.workers]

    def rollbacks(self) -> tuple[RollbackView, ...]:
        """One is proposed while its service is harmed; one is done, as its service is down."""
        verdicts = {
            worker.name: worker.latest and worker.latest.verdict for worker in self.workers
        }
        sick = verdicts["chat-2"] is Verdict.HARMFUL
        down = verdicts["gone-1"] is Verdict.DOWN
        phases = (Phase.PROPOSED if sick else Phase.ARMED, Phase.DONE if down else Phase.ARMED)
        return (
            RollbackView("chat", Mode.PROPOSE, phases[0], None, 0.0, None, None, is_hurt=sick),
            RollbackView("gone", Mode.ACT, phases[1], None, float(down), None, None),
        )

    def health(self) -> Health:
        rounds = sum(worker.rounds for worker in self.workers)
        return Health(
            1.0,
            37.5,
            None,
            rows_written=rounds,
            rows_queued=3,
            write_age=0.8,
            reload_at=START,
            config_hash="5f1c",
            fence=7,
            rollbacks=self.rollbacks(),
            receivers=(
                ReceiverView("oncall", rounds // 100, retried=2, dead=1, waiting=4, oldest=20.0),
            ),
            space=Space(8_000_000, 6_000_000, {"samples": rounds}, START, None),
        )

    def status(self) -> dict[str, Any]:
        return {}

    def reload(self) -> None:
        return


# -- what Prometheus scrapes ---------------------------------------------------------------------


def _sglang(seconds: float) -> Iterator[str]:
    """Two data-parallel ranks, each repeated by two tensor-parallel ones; and an idle server."""
    for dp, (length, throughput) in enumerate(((2.5, 300.0), (1.5, 100.0))):
        for tp in (0, 1):
            labels = f'model_name="glm",engine_type="unified",dp_rank="{dp}",tp_rank="{tp}"'
            yield f'sglang:spec_accept_length{{{labels},instance="sg-1:30000"}} {length}'
            yield f'sglang:gen_throughput{{{labels},instance="sg-1:30000"}} {throughput}'
            yield f'sglang:num_running_reqs{{{labels},instance="sg-1:30000"}} {4 + dp}'
            yield f'sglang:num_queue_reqs{{{labels},instance="sg-1:30000"}} {dp}'
    labels = 'model_name="glm",engine_type="unified",instance="sg-1:30000"'
    yield f"sglang:generation_tokens_total{{{labels}}} {400.0 * seconds}"
    yield f"sglang:num_requests_total{{{labels}}} {2.0 * seconds}"
    yield f"sglang:spec_verify_calls_total{{{labels}}} {199.0 * seconds}"
    yield f"sglang:inter_token_latency_seconds_sum{{{labels}}} {4.0 * seconds}"
    yield f"sglang:inter_token_latency_seconds_count{{{labels}}} {400.0 * seconds}"
    idle = 'model_name="glm",engine_type="unified",instance="sg-2:30000"'
    yield f"sglang:spec_accept_length{{{idle}}} 3.1"
    yield f"sglang:gen_throughput{{{idle}}} 250.0"
    yield f"sglang:num_running_reqs{{{idle}}} 0"
    yield f"sglang:generation_tokens_total{{{idle}}} 777777"


def _v0(seconds: float) -> Iterator[str]:
    """A vLLM V0, which adds up its running totals: its counters grow quadratically."""
    labels = 'model_name="ancient",instance="v0-1:8000"'
    for name, rate in (("accepted", 3.0), ("draft", 5.0)):
        yield f"vllm:spec_decode_num_{name}_tokens_total{{{labels}}} {rate * seconds**2}"
    yield f"vllm:num_requests_running{{{labels}}} 2"


_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)\{(.*)\} (\S+)$")


def _scraped(page: str, labels: str) -> Iterator[str]:
    for line in page.splitlines():
        if found := _LINE.match(line):
            name, own, value = found.groups()
            yield f"{name}{{{own},{labels}}} {value}"


def _line(sample: Sample) -> str:
    own = {"job": "monitor", "instance": "monitor:9465", **sample.labels}
    labels = ",".join(f'{name}="{value}"' for name, value in own.items())
    return f"{sample.name}{{{labels}}} {sample.value!r}"


@dataclass
class Past:
    """What happened: the text for promtool, and the truth to compare answers with."""

    text: str
    members: Mapping[str, Member]
    watch: Watch
    past: Mapping[str, list[list[dict[str, float]]]]
    """By member: the counters of each engine at each look, the last one at ``END``."""


def play(minutes: int = MINUTES) -> Past:
    """Lets the time pass; with more minutes the same happens at a slower pace."""
    with capture_logs():
        return _play(minutes)


def _play(minutes: int) -> Past:
    members = make_fleet()
    watch = Watch(members)
    past: dict[str, list[list[dict[str, float]]]] = {member.name: [] for member in members}
    lines: list[str] = []
    for tick in range(1, int(minutes * 60 / INTERVAL) + 1):
        at = START + tick * INTERVAL
        for member in members:
            member.advance((at - START) / 60.0 * MINUTES / minutes)
            past[member.name].append([dict(engine.counters) for engine in member.engines])
        watch.round()
        shown = [line for member in members if member.up for line in _member_lines(member)]
        shown += [_line(sample) for sample in watch.samples()]
        shown += [line.replace("{", '{job="sglang",', 1) for line in _sglang(tick * INTERVAL)]
        shown += [line.replace("{", '{job="vllm",', 1) for line in _v0(tick * INTERVAL)]
        lines += [f"{line} {at:.3f}" for line in shown]
    text = "\n".join((*lines, "# EOF", ""))
    return Past(text, {member.name: member for member in members}, watch, past)


def _member_lines(member: Member) -> Iterator[str]:
    return _scraped(member.page(), f'job="vllm",instance="{member.name}:8000"')
