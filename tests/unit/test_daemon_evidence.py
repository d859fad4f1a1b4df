"""What is kept of the pages that a vote rests on."""

from __future__ import annotations

from rollback_values import NOON, bad, good

from monitor.daemon.evidence import FRESH_SECONDS, Evidence
from monitor.settings import TargetSettings

TARGET = TargetSettings("chat-1", "chat", "http://chat-1:8000")


def page(drafts: int) -> bytes:
    return b"# HELP x y\nvllm:spec_decode_num_drafts_total %d\nother 1\n" % drafts


def test_a_page_with_a_vote_is_kept_and_renewed_once_a_minute() -> None:
    evidence = Evidence(lambda _target: None)
    evidence.take(TARGET, good(NOON), page(1))
    assert evidence.annex(["chat-1"])["pages"] == {}
    looks = ((0.0, 2, 2), (15.0, 3, 2), (FRESH_SECONDS, 4, 4), (-7200.0, 5, 5))
    for seconds, drafts, kept in looks:
        evidence.take(TARGET, bad(NOON + seconds), page(drafts))
        lines = [f"vllm:spec_decode_num_drafts_total {kept}"]
        assert evidence.annex(["chat-1", "unknown"])["pages"] == {"chat-1": lines}
    evidence.take(TARGET, bad(NOON + 7200.0), None)
    evidence.forget("chat-1")
    assert evidence.annex(["chat-1"])["pages"] == {}
