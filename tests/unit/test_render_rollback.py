"""What ``monitor rollback list`` says to somebody who was called."""

from __future__ import annotations

import pytest

from monitor.cli.render_rollback import print_list


@pytest.mark.parametrize(
    ("state", "mode", "says"),
    [
        ("held", "act", "'monitor rollback abort chat' puts traffic back"),
        ("blocked", "act", "'monitor rollback run chat' has the baseline side looked at again"),
        ("proposed", "propose", "'monitor rollback approve chat' lets it go on"),
        ("proposed", "observe", None),
        ("idle", "act", None),
        ("holding", "act", None),
    ],
)
def test_the_list_says_what_to_type(
    capsys: pytest.CaptureFixture[str], state: str, mode: str, says: str | None
) -> None:
    service = {
        "service": "chat", "mode": mode, "state": state, "since": None, "baseline_share": 0.1,
        "why": "because",
    }  # fmt: skip
    print_list({"frozen": None, "services": [service], "plans": []}, 0.0)
    out = " ".join(capsys.readouterr().out.split())
    assert ("monitor rollback" in out) is (says is not None)
    assert says is None or says in out
