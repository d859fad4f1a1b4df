"""The speedup computed from pages alone, against what clients of the same servers measured.

The curve is fitted to the pages of the plain run; each speculative run at 1, 4 and 16 streams is
then compared with it. The clients' figure is the ratio of mean time per output token of the two
runs, each client mean over requests. At one stream the plain run's clients and pages disagree by
14 % already (6.89 ms against 7.84 ms a token, over 21 requests of which the first ones were
cold), so there the comparison inherits that much.
"""

from __future__ import annotations

import pytest
from engine_pages import ALL, page

from monitor.health.baseline import Baseline
from monitor.health.curve import fit
from monitor.model import Counts, Estimate
from monitor.pipeline import Page, TargetPipeline
from monitor.settings import JudgeSettings, TargetSettings

LEVELS = {1: ("c01-0start", "c01-2end"), 4: ("c01-2end", "c04-2end"), 16: ("c04-2end", "c16-2end")}
CLIENTS = {
    ("03-draftgood", 1): 1.72,
    ("03-draftgood", 4): 1.41,
    ("03-draftgood", 16): 1.75,
    ("04-draftbad", 1): 0.43,
    ("04-draftbad", 4): 0.47,
    ("04-draftbad", 16): 0.66,
    ("14-ngram-1thr", 1): 1.39,
    ("14-ngram-1thr", 4): 1.69,
    ("14-ngram-1thr", 16): 1.82,
}
"""Client-side TPOT of the plain run over that of the speculative one, at equal concurrency."""


def interval(run: str, level: int, settings: JudgeSettings) -> tuple[Counts, Estimate | None]:
    """What one level of a run counted, and its speedup."""
    target = TargetSettings("t", "s", "http://t", interval=20.0, judge=settings)
    pipeline = TargetPipeline(target)
    for number, name in enumerate(LEVELS[level]):
        tick = pipeline.tick(Page(page(f"vllm/{run}-{name}.prom")), 2e9 + 20.0 * number)
    (increment,) = tick.increments
    return increment.counts, pipeline.windows()[ALL].speedup


@pytest.fixture(scope="module")
def plain() -> Baseline:
    counts = [interval("01-baseline", level, JudgeSettings())[0] for level in LEVELS]
    # A level lasted 16 s, half of what a point of a curve asks for; so each is taken twice.
    return Baseline("plain", fit([*counts, *counts]))


def test_the_curve_lies_at_the_loads_that_were_sent(plain: Baseline) -> None:
    assert [p.running for p in plain.points] == pytest.approx([1.0, 3.92, 15.62], abs=0.01)
    assert [p.tpot for p in plain.points] == pytest.approx(
        [0.007842, 0.011756, 0.023352], abs=1e-6
    )


@pytest.mark.parametrize(("run", "level"), CLIENTS)
def test_speedup_from_pages_agrees_with_the_clients(run: str, level: int, plain: Baseline) -> None:
    judge = JudgeSettings(baseline=plain, windows=(ALL,), judged=(ALL,))
    _, speedup = interval(run, level, judge)
    clients = CLIENTS[run, level]
    assert speedup is not None
    assert speedup.low is not None
    assert speedup.high is not None
    assert speedup.low <= clients <= speedup.high
    assert speedup.value == pytest.approx(clients, rel=0.10 if level > 1 else 0.15)
