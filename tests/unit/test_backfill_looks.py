"""A log tells the pipeline what a page would have told it."""

from __future__ import annotations

from traffic import START, Server
from vllm_page import vllm_page

from monitor.pipeline import NoPage, Page, TargetPipeline
from monitor.settings import TargetSettings

TARGET = TargetSettings("t", "s", "http://t:1")


def test_sample_is_judged_as_the_page_that_says_the_same() -> None:
    server, by_page, by_sample = Server(), TargetPipeline(TARGET), TargetPipeline(TARGET)
    for _ in range(40):
        sample = server.look()
        page = by_page.tick(Page(vllm_page(server)), server.now)
        told = by_sample.tick(sample, server.now)
        assert told.assessment.verdict is page.assessment.verdict
        assert told.assessment.acceptance_rate == page.assessment.acceptance_rate
    assert server.now > START
    assert page.increments[0].counts.drafts == told.increments[0].counts.drafts > 0


def test_look_without_a_page_is_a_failed_scrape() -> None:
    pipeline = TargetPipeline(TARGET)
    tick = pipeline.tick(NoPage("connection refused"), START)
    assert tick == TargetPipeline(TARGET).tick_failed("connection refused", START)


def test_primed_page_leaves_no_increment_behind() -> None:
    server, pipeline = Server(), TargetPipeline(TARGET)
    server.look()
    pipeline.prime(Page(vllm_page(server)), server.now)
    server.look()
    assert pipeline.tick(Page(vllm_page(server)), server.now).increments == ()
