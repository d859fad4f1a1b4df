"""The HTTP interface on a real port: what is shown, and who may do what."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from monitor import __version__
from monitor.clock import FakeClock
from monitor.model import (
    Action,
    Alarm,
    Assessment,
    BreakEven,
    ConfigError,
    Counts,
    Estimate,
    Figures,
    Load,
    StoreError,
    Verdict,
    Window,
)
from monitor.sources.address import is_loopback
from monitor.store.space import Space
from monitor.web import connection
from monitor.web.app import create_app
from monitor.web.guard import check_exposure
from monitor.web.server import WebServer, listen
from monitor.web.view import Health, TargetView

TOKEN = SecretStr("s3cret-token")

HARMFUL = Assessment(
    target="a",
    at=1_800_000_000.0,
    verdict=Verdict.HARMFUL,
    cause=None,
    action=Action.ROLL_BACK,
    sentence="speculation costs 34 % of decode speed",
    window=Window(1_800_000_000.0 - 600, 1_800_000_000.0, Counts(drafts=1438.0, requests=12.0)),
    acceptance_rate=Estimate(0.1556, 0.0988, 0.2366),
    acceptance_length=Estimate(1.778, 1.49, None),
    speedup=Estimate(0.662, float("nan"), 0.73),
    break_even=BreakEven(2.687, 0.3374),
    load=Load(running=1.0, tpot=0.0183),
)
DOWN = Assessment("b", 1_800_000_000.0, Verdict.DOWN, None, Action.FIX_MONITORING, "no page")


def view(service: str, assessment: Assessment | None, target: str) -> TargetView:
    rate = assessment.acceptance_rate if assessment else None
    windows = {60.0: Figures(rate), 3600.0: Figures()} if assessment else {}
    return TargetView(
        service=service,
        target=target,
        role="speculative",
        assessment=assessment,
        windows=lambda: windows,
        page_age=1.5 if assessment else None,
        scrape_seconds=0.01,
        rounds=7,
        late=2,
        tick_errors=0,
        errors={"timeout": 3},
        alarms=(Alarm.DROP,),
        threshold=0.3,
        threshold_is_set=True,
    )


class FakeDaemon:
    """Shows what a test says."""

    def __init__(self) -> None:
        self.seen = [view("chat", HARMFUL, "a"), view('quo"te', None, "new\nline")]
        self.now = Health(
            loop_age=1.0,
            loop_limit=37.5,
            waiting_for=None,
            config_hash="abc",
            space=Space(2_000, 1_500, {"samples": 7}, 1_800_000_000.0, None),
        )
        self.reloads = 0
        self.problem: Exception | None = None

    def targets(self) -> Sequence[TargetView]:
        return self.seen

    def health(self) -> Health:
        return self.now

    def status(self) -> dict[str, Any]:
        if self.problem is not None:
            raise self.problem
        return {"schema": "monitor.status/1", "services": []}

    def reload(self) -> None:
        if self.problem is not None:
            raise self.problem
        self.reloads += 1


class Client:
    """Asks the server under test."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, path, headers=dict(headers or {}))
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def own(self) -> str:
        return f"127.0.0.1:{self._port}"


@contextmanager
def serving(
    daemon: FakeDaemon, *, token: SecretStr | None = None, host: str = "127.0.0.1"
) -> Iterator[Client]:
    # Tests listen on loopback only; what the application believes is told to it by ``host``.
    app = create_app(daemon, host=host, token=lambda: token, clock=FakeClock(1_800_000_000.0))
    server = WebServer(app, listen("127.0.0.1", 0))
    port = server.port
    server.start()
    try:
        yield Client(port)
    finally:
        assert server.stop(30)


@pytest.fixture
def daemon() -> FakeDaemon:
    return FakeDaemon()


@pytest.fixture
def client(daemon: FakeDaemon) -> Iterator[Client]:
    with serving(daemon) as client:
        yield client


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_status_page_loads_nothing_but_its_own_style(client: Client) -> None:
    with closing(http.client.HTTPConnection(*client.address, timeout=30)) as connection:
        connection.request("GET", "/")
        response = connection.getresponse()
        text = response.read().decode()
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "Nothing is watched yet." in text
    assert "as of 2027-01-15 08:00:00 UTC" in text
    status, style = client.ask("/status.css")
    assert status == 200
    assert style.startswith(":root {")


@pytest.mark.parametrize("path", ["/", "/api/v1/status"])
def test_a_database_that_is_away_is_said_in_one_line(
    daemon: FakeDaemon, client: Client, path: str
) -> None:
    daemon.problem = StoreError("database monitor.db: disk I/O error")
    status, text = client.ask(path)
    assert status == 503
    assert json.loads(text) == {"error": "database monitor.db: disk I/O error"}


def test_the_status_page_needs_the_token_where_others_can_ask(daemon: FakeDaemon) -> None:
    with serving(daemon, token=TOKEN, host="0.0.0.0") as client:
        assert client.ask("/")[0] == 401
        assert client.ask("/", headers={"Authorization": "Bearer s3cret-token"})[0] == 200


def test_metrics_show_what_is_known_and_nothing_else(client: Client) -> None:
    status, text = client.ask("/metrics")
    assert status == 200
    found = samples(text)
    a = frozenset({("service", "chat"), ("target", "a")})

    def of_a(name: str, *more: tuple[str, str]) -> float | None:
        return found.get((f"monitor_{name}", a | set(more)))

    assert of_a("verdict", ("verdict", "harmful")) == 1.0
    assert of_a("verdict", ("verdict", "healthy")) == 0.0
    assert of_a("target_info", ("role", "speculative")) == 1.0
    decided = (("verdict", "harmful"), ("cause", ""), ("action", "roll_back"))
    assert of_a("decision_info", *decided) == 1.0
    assert of_a("alarm", ("alarm", "drop")) == 1.0
    assert of_a("alarm", ("alarm", "rise")) == 0.0
    assert of_a("acceptance_threshold") == 0.3
    assert of_a("acceptance_threshold_own") == 1.0
    assert of_a("acceptance_rate") == 0.1556
    assert of_a("acceptance_rate_low") == 0.0988
    assert of_a("acceptance_length_high") is None
    assert of_a("speedup") == 0.662
    assert of_a("speedup_low") is None
    assert of_a("break_even_acceptance_length") == 2.687
    assert of_a("evidence_drafts") == 1438.0
    assert of_a("evidence_seconds") == 600.0
    assert of_a("running_requests") == 1.0
    assert of_a("waiting_requests") is None
    assert of_a("tpot_seconds") == 0.0183
    assert of_a("scrape_age_seconds") == 1.5
    assert of_a("scrape_errors_total", ("kind", "timeout")) == 3.0
    assert of_a("rounds_late_total") == 2.0
    assert of_a("window_acceptance_rate", ("window", "60s")) == 0.1556
    assert of_a("window_acceptance_rate", ("window", "3600s")) is None
    assert found[("monitor_build_info", frozenset({("version", __version__)}))] == 1.0
    assert found[("monitor_config_info", frozenset({("hash", "abc")}))] == 1.0
    assert found[("monitor_loop_age_seconds", frozenset())] == 1.0
    database = {
        name: {tuple(labels): value}
        for (name, labels), value in found.items()
        if name.startswith("monitor_database") and ("kind", "used") not in labels
    }
    assert database == {
        "monitor_database_bytes": {(("kind", "total"),): 2_000.0},
        "monitor_database_rows": {(("table", "samples"),): 7.0},
        "monitor_database_oldest_sample_timestamp_seconds": {(): 1_800_000_000.0},
    }
    # Of a target that was not looked at yet there is how it was configured and scraped, and
    # sums that begin at zero.
    new = {name for (name, labels), v in found.items() if v and ("target", "new\nline") in labels}
    assert new == {
        "monitor_target_info",
        "monitor_acceptance_threshold",
        "monitor_acceptance_threshold_own",
        "monitor_scrape_duration_seconds",
        "monitor_rounds_total",
        "monitor_rounds_late_total",
        "monitor_scrape_errors_total",
    }
    assert not [key for key, value in found.items() if value != value]  # noqa: PLR0124 - NaN


def test_a_target_that_was_removed_is_gone_from_the_metrics(
    client: Client, daemon: FakeDaemon
) -> None:
    daemon.seen = []
    assert 'target="a"' not in client.ask("/metrics")[1]


def test_metrics_come_as_openmetrics_on_request(client: Client) -> None:
    _, text = client.ask("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert text.endswith("# EOF\n")
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in openmetrics(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
    assert found == samples(client.ask("/metrics")[1])


def test_probes_tell_the_state(client: Client, daemon: FakeDaemon) -> None:
    assert client.ask("/livez")[0] == 200
    assert client.ask("/readyz") == (200, '{"ready":true,"waiting_for":null}')
    daemon.now = Health(loop_age=40.0, loop_limit=37.5, waiting_for="the first look at 1 of 2")
    assert client.ask("/livez")[0] == 503
    status, text = client.ask("/readyz")
    assert (status, json.loads(text)["waiting_for"]) == (503, "the first look at 1 of 2")


def test_the_status_is_the_document_of_the_daemon(client: Client) -> None:
    status, text = client.ask("/api/v1/status")
    assert (status, json.loads(text)) == (200, {"schema": "monitor.status/1", "services": []})


def test_the_interface_describes_itself_without_pages_from_elsewhere(client: Client) -> None:
    paths = json.loads(client.ask("/api/v1/openapi.json")[1])["paths"]
    assert set(paths) == {"/metrics", "/livez", "/readyz", "/api/v1/status", "/-/reload"}
    assert [client.ask(path)[0] for path in ("/docs", "/redoc", "/nothing")] == [404] * 3


def test_a_reload_from_this_machine_needs_no_token_unless_there_is_one(
    client: Client, daemon: FakeDaemon
) -> None:
    assert client.ask("/-/reload", "POST") == (200, '{"reloaded":true,"error":null}')
    assert client.ask("/-/reload")[0] == 405
    assert daemon.reloads == 1


def test_a_reload_that_fails_says_why(client: Client, daemon: FakeDaemon) -> None:
    daemon.problem = StoreError("database x: away")
    status, text = client.ask("/-/reload", "POST")
    assert (status, json.loads(text)["error"]) == (422, "database x: away")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_without_a_token_no_browser_may_change_anything(
    client: Client, daemon: FakeDaemon, headers: dict[str, str]
) -> None:
    assert client.ask("/-/reload", "POST", headers)[0] == 403
    assert client.ask("/-/reload", "POST", {"Origin": f"http://{client.own()}"})[0] == 403
    assert daemon.reloads == 0


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9465", "127.0.0.1.evil.example"])
def test_another_name_that_leads_here_is_not_served(client: Client, host: str) -> None:
    assert client.ask("/api/v1/status", headers={"Host": host})[0] == 421


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9465", "LOCALHOST"])
def test_own_names_are_served(client: Client, host: str) -> None:
    assert client.ask("/livez", headers={"Host": host})[0] == 200


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_with_a_token_on_loopback_changes_need_it_and_reading_does_not(
    daemon: FakeDaemon,
) -> None:
    with serving(daemon, token=TOKEN) as client:
        assert client.ask("/metrics")[0] == 200
        for headers in ({}, bearer("wrong"), bearer(""), {"Authorization": "Basic s3cret-token"}):
            assert client.ask("/-/reload", "POST", headers)[0] == 401
        assert daemon.reloads == 0
        assert client.ask("/-/reload", "POST", bearer("s3cret-token"))[0] == 200
        own = {"Origin": f"http://{client.own()}", "Sec-Fetch-Site": "same-origin"}
        assert client.ask("/-/reload", "POST", {**bearer("s3cret-token"), **own})[0] == 200
        cross = {"Origin": "https://evil.example"}
        assert client.ask("/-/reload", "POST", {**bearer("s3cret-token"), **cross})[0] == 403


def test_elsewhere_all_but_the_probes_need_the_token(daemon: FakeDaemon) -> None:
    with serving(daemon, token=TOKEN, host="0.0.0.0") as client:
        assert [client.ask(path)[0] for path in ("/livez", "/readyz")] == [200, 200]
        for path in ("/metrics", "/api/v1/status", "/api/v1/openapi.json", "/nothing"):
            assert client.ask(path)[0] == 401
            assert client.ask(path, headers=bearer("s3cret-token"))[0] in {200, 404}
        assert client.ask("/metrics", headers={"Host": "monitor.example"})[0] == 401


def test_listening_elsewhere_without_a_token_is_refused() -> None:
    for host in ("0.0.0.0", "::", "10.0.0.1", "monitor.example", ""):
        with pytest.raises(ConfigError, match="needs a token"):
            check_exposure(host, None)
        check_exposure(host, TOKEN)
    for host in ("127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3"):
        assert is_loopback(host)
        check_exposure(host, None)


# -- connections that say nothing ----------------------------------------------------------------


def is_closed_by_the_server(sock: socket.socket) -> bool:
    """Waits for the end; fails by the timeout of the socket if it never comes."""
    try:
        return sock.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "said", [b"", b"GET /livez HTTP/1.1\r\nHost: ", b"POST /-/reload HTTP/1.1\r\n"]
)
def test_a_connection_that_never_finishes_a_request_is_closed(
    daemon: FakeDaemon, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.05)
    with serving(daemon) as client, socket.create_connection(client.address, 30) as sock:
        sock.sendall(said)
        assert is_closed_by_the_server(sock)
        assert client.ask("/livez")[0] == 200


def test_a_body_that_never_ends_is_given_up(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.05)
    with serving(daemon) as client, socket.create_connection(client.address, 30) as sock:
        head = f"POST /nowhere HTTP/1.1\r\nHost: {client.own()}\r\nContent-Length: 9\r\n\r\n"
        sock.sendall(head.encode() + b"x")
        while not is_closed_by_the_server(sock):
            pass


def test_connections_beyond_the_limit_are_closed_and_the_others_stay(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MOST_CONNECTIONS", 2)
    with serving(daemon) as client, ExitStack() as stack:
        first, _, third = (
            stack.enter_context(socket.create_connection(client.address, 30)) for _ in range(3)
        )
        assert is_closed_by_the_server(third)
        first.sendall(f"GET /livez HTTP/1.1\r\nHost: {client.own()}\r\n\r\n".encode())
        assert first.recv(64).startswith(b"HTTP/1.1 200")
