"""Routes, waits, weekly hours and the shape of the keys for them, without any I/O."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.receivers import AlertmanagerSettings, WebhookSettings, secrets_of
from monitor.alerting.retry import LONGEST_BACKOFF, Again, GiveUp, after_failure, backoff
from monitor.alerting.routes import Route, Routing, parse_matcher
from monitor.config.load import loads, to_yaml
from monitor.config.problems import Source
from monitor.model import ConfigError, DeliveryError
from monitor.weekly import parse_weekly

SERVICE = "services: [{name: a, speculative: {targets: [http://gpu1:8000]}}]\n"
CANARY = "hunter2-canary-hunter2"


@pytest.mark.parametrize(
    ("text", "value", "matches"),
    [
        ("a=x", "x", True),
        ("a=x", "xy", False),
        ('a = "x"', "x", True),
        ("a!=x", "x", False),
        ("a!=x", "", True),
        ("a=", "", True),
        ("a=gpu*", "gpu17", True),
        ("a=gpu*", "cpu", False),
        ("a=*", "", True),
        ("a=*b*d*", "abcd", True),
        ("a=*b*d*", "adcb", False),
        ("a=ab*ba", "aba", False),
        ("a!=gpu*", "gpu17", False),
        ("a=[x]", "x", False),
    ],
)
def test_conditions_take_values_and_stars(text: str, value: str, matches: bool) -> None:
    matcher = parse_matcher(text)
    assert matcher.matches({"a": value}) is matches
    assert parse_matcher(str(matcher)) == matcher


@pytest.mark.parametrize("text", ["", "a", "=x", "a=~x.*", "9=x", "a=\n", "a=" + "x" * 201])
def test_other_conditions_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is|longer"):
        parse_matcher(text)


@given(st.text("ab*", max_size=12), st.text("ab", max_size=12))
def test_stars_match_as_in_the_slow_way(pattern: str, text: str) -> None:
    def slow(p: str, t: str) -> bool:
        if not p:
            return not t
        if p[0] == "*":
            return slow(p[1:], t) or (bool(t) and slow(p, t[1:]))
        return bool(t) and p[0] == t[0] and slow(p[1:], t[1:])

    assert parse_matcher(f'a="{pattern}"').matches({"a": text}) is slow(pattern, text)


def test_the_first_route_wins_unless_it_goes_on() -> None:
    critical = (parse_matcher("severity=critical"),)
    routing = Routing(
        ("pager", "chat", "log"),
        (
            Route(("log",), (), goes_on=True),
            Route(("pager",), critical),
            Route(("chat", "log")),
        ),
    )
    assert routing.choose({"severity": "critical"}) == ("log", "pager")
    assert routing.choose({"severity": "info"}) == ("log", "chat")
    assert Routing(("pager", "chat")).choose({}) == ("pager", "chat")


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_waits_grow_to_a_limit(attempts: int, random: float) -> None:
    wait = backoff(attempts, lambda: random)
    assert 2.5 <= wait <= LONGEST_BACKOFF
    assert backoff(attempts + 1, lambda: random) >= wait


@pytest.mark.parametrize(
    ("error", "age", "decision"),
    [
        (DeliveryError("no"), 0.0, Again(5.0)),
        (DeliveryError("no", retry_after=1.0), 0.0, Again(5.0)),
        (DeliveryError("no", retry_after=60.0), 0.0, Again(60.0)),
        (DeliveryError("no", retry_after=1e9), 0.0, Again(3600.0)),
        (DeliveryError("no", permanent=True), 0.0, GiveUp("no")),
        (DeliveryError("no"), 86399.0, GiveUp("no (given up after 1 attempts)")),
    ],
)
def test_what_follows_from_a_failure(
    error: DeliveryError, age: float, decision: Again | GiveUp
) -> None:
    found = after_failure(error, attempts=1, age=age, give_up_after=86400.0, jitter=lambda: 1.0)
    assert found == decision


@pytest.mark.parametrize(
    "text",
    [
        "",
        "mon 1-2",
        "mon-fri 22:00-06:00",
        "mun 10:00-11:00 UTC",
        "mon 10:00-25:00 UTC",
        "mon 10:00-11:00 Nowhere/City",
        "mon 10:00-11:00 ../../etc/passwd",
    ],
)
def test_other_weekly_windows_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|has no|has an|names an"):
        parse_weekly(text)


@pytest.mark.parametrize(
    ("window", "moment", "inside"),
    [
        ("sat,sun 10:00-12:00 UTC", "2026-11-28T10:00:00+00:00", True),
        ("sat,sun 10:00-12:00 UTC", "2026-11-28T12:00:00+00:00", False),
        ("sat,sun 10:00-12:00 UTC", "2026-11-27T11:00:00+00:00", False),
        ("fri 22:00-06:00 UTC", "2026-11-28T05:59:00+00:00", True),
        ("fri 22:00-06:00 UTC", "2026-11-27T05:59:00+00:00", False),
        ("fri-mon 00:00-00:00 UTC", "2026-11-30T23:59:59+00:00", True),
        # Summer and winter: 09:00 in Berlin is 07:00 and 08:00 in UTC.
        ("mon-fri 09:00-10:00 Europe/Berlin", "2026-07-01T07:30:00+00:00", True),
        ("mon-fri 09:00-10:00 Europe/Berlin", "2026-12-01T07:30:00+00:00", False),
        ("mon-fri 09:00-10:00 Europe/Berlin", "2026-12-01T08:30:00+00:00", True),
        # 2026-03-29 has no 02:15 to 02:45 in Berlin: it is read on the clock before.
        ("sun 02:15-02:45 Europe/Berlin", "2026-03-29T01:30:00+00:00", True),
        ("sun 02:15-02:45 Europe/Berlin", "2026-03-29T00:59:00+00:00", False),
        ("sun 02:15-02:45 Europe/Berlin", "2026-03-29T01:46:00+00:00", False),
        # A night across it is an hour shorter, and ends on the new clock.
        ("sat 22:00-06:00 Europe/Berlin", "2026-03-29T03:59:00+00:00", True),
        ("sat 22:00-06:00 Europe/Berlin", "2026-03-29T04:01:00+00:00", False),
        # 2026-10-25 has 02:00 to 03:00 twice: both belong to the window.
        ("sun 02:15-02:45 Europe/Berlin", "2026-10-25T00:15:00+00:00", True),
        ("sun 02:15-02:45 Europe/Berlin", "2026-10-25T01:44:00+00:00", True),
        ("sun 02:15-02:45 Europe/Berlin", "2026-10-25T01:46:00+00:00", False),
        ("sun 02:15-02:45 Europe/Berlin", "2026-10-25T00:14:00+00:00", False),
    ],
)
def test_weekly_windows_go_by_the_clock_of_their_place(
    window: str, moment: str, inside: bool
) -> None:
    at = datetime.fromisoformat(moment).astimezone(UTC).timestamp()
    assert parse_weekly(window).covers(at) is inside
    assert parse_weekly(str(parse_weekly(window))).covers(at) is inside


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loads(SERVICE + text, Source("m.yaml")).settings({"U": "ftp://x", "K": "a b"})
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"receivers: [{{name: r, webhook: {{url: http://x/{CANARY}}}}}]\n",
            "m.yaml:2: receivers[0].webhook: has url, which is a secret here: write the URL to a "
            "file and name that with url_file, or name an environment variable with url_env",
        ),
        (
            "receivers: [{name: r}]\n",
            "m.yaml:2: receivers[0]: must have one of webhook, alertmanager, apprise, command",
        ),
        (
            "receivers: [{name: r, webhook: {url_env: U}}]\n",
            "m.yaml:2: receivers[0].webhook.url_env: leads to what is not an http:// or https:// "
            "URL",
        ),
        (
            "receivers: [{name: r, webhook: {url_env: NONE}}]\n",
            "m.yaml:2: receivers[0].webhook.url_env: names an environment variable that is not "
            "set",
        ),
        (
            "receivers: [{name: r, command: {arguments: []}}]\n",
            "m.yaml:2: receivers[0].command.arguments: must have at least one entry",
        ),
        (
            "receivers: [{name: r, command: {arguments: [x]}}]\nroutes: [{receivers: [s]}]\n",
            "m.yaml:3: routes[0].receivers[0]: is not the name of a receiver; known are r",
        ),
        (
            "receivers: [{name: r, command: {arguments: [x]}}]\n"
            "routes: [{match: [severity=critical], receivers: [r]}]\n",
            "m.yaml:3: routes[0].match: is the last route and must have no match, so that nothing "
            "is lost unseen; add one with 'receivers: []' to drop the rest",
        ),
        (
            "receivers: [{name: r, alertmanager: {url: http://169.254.169.254}}]\n",
            "m.yaml:2: receivers[0].alertmanager.url: is the address of a metadata service, which "
            "is never scraped",
        ),
    ],
)
def test_mistakes_about_receivers_are_one_line(text: str, line: str) -> None:
    found = mistakes(text)
    assert found == [line]
    assert CANARY not in found[0]


def test_receivers_and_routes_are_read(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"https://hooks.example/{CANARY}\n")
    key = "whsec_" + "QUJD" * 10
    text = SERVICE + (
        "receivers:\n"
        "  - {name: pager, webhook: {url_file: url, signing_keys: [{key_env: K}]}}\n"
        "  - {name: am, alertmanager: {url: am:9093}, timeout: 5s}\n"
        "routes:\n"
        "  - {match: [severity=critical], receivers: [pager], continues: true}\n"
        "  - {receivers: [am]}\n"
    )
    loaded = loads(text, Source("m.yaml", tmp_path))
    settings = loaded.settings({"K": key})
    pager, am = settings.receivers
    assert isinstance(pager.kind, WebhookSettings)
    assert pager.kind.url.get_secret_value() == f"https://hooks.example/{CANARY}"
    assert {f"/{CANARY}", CANARY, key} < set(secrets_of(pager))
    assert isinstance(am.kind, AlertmanagerSettings)
    assert (am.kind.url.get_secret_value(), am.timeout) == ("http://am:9093", 5.0)
    assert settings.routing.choose({"severity": "critical"}) == ("pager", "am")
    assert settings.routing.choose({"severity": "info"}) == ("am",)
    shown = to_yaml(loaded.config)
    assert CANARY not in shown + repr(settings)
    assert loads(shown, Source("m.yaml", tmp_path)).config == loaded.config
