"""URLs of targets in one normal form, and the addresses that are never connected to."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from monitor.model import ConfigError
from monitor.settings import Credentials, TargetSettings
from monitor.sources.address import is_forbidden, parse_url
from monitor.sources.scrape import Scraper


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("host:8000", "http://host:8000/metrics"),
        ("host", "http://host/metrics"),
        ("http://host:8000", "http://host:8000/metrics"),
        ("http://host:8000/", "http://host:8000/metrics"),
        ("https://host", "https://host/metrics"),
        ("https://host:443/a/metrics", "https://host/a/metrics"),
        ("HTTP://Host:80/Metrics/", "http://host/Metrics/"),
        ("[::1]:8000", "http://[::1]:8000/metrics"),
        (" 10.0.0.1:30000 ", "http://10.0.0.1:30000/metrics"),
        ("http://user:pw@host:8000/metrics?token=x", "http://host:8000/metrics?token=x"),
        ("http://host/metrics?match[]=a b", "http://host/metrics?match[]=a%20b"),
        ("http://bücher.example/größe", "http://xn--bcher-kva.example/gr%C3%B6%C3%9Fe"),
        ("http://host/100%25", "http://host/100%25"),
    ],
)
def test_urls_come_in_one_normal_form(given: str, asked: str) -> None:
    for url in (given, asked):
        address = parse_url(url)
        assert f"{address.scheme}://{address.authority}{address.resource}" == asked


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "http:///metrics",
        "ftp://host/",
        "file:///etc/passwd",
        "host:port",
        "host:0",
        "host:99999",
        "http://[::1/",
        "http://ho st/",
        "http://host\\evil/",
        "http://" + "ü" * 70 + ".example/",
    ],
)
def test_a_wrong_url_is_one_clear_line(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^url '") as caught:
        parse_url(url)
    assert "\n" not in str(caught.value)


def test_a_wrong_url_is_shown_without_its_secrets() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_url("ftp://me:hunter2@host/metrics?token=hunter2#hunter2")
    assert str(caught.value) == "url 'ftp://host/metrics': the scheme must be http or https"


@pytest.mark.parametrize(
    "peer",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "100.100.100.200",
    ],
)
def test_metadata_addresses_are_forbidden_in_each_disguise(peer: str) -> None:
    assert is_forbidden(peer)


@pytest.mark.parametrize(
    "peer",
    ["127.0.0.1", "::1", "10.1.2.3", "192.168.1.1", "100.64.0.1", "fd00::1", "8.8.8.8"],
)
def test_loopback_and_private_addresses_are_allowed(peer: str) -> None:
    assert not is_forbidden(peer)


def test_a_token_that_would_break_the_header_is_refused() -> None:
    credentials = Credentials(bearer=SecretStr("hunter2\r\nX-Evil: 1"))
    with pytest.raises(ConfigError, match="line break") as caught:
        Scraper(TargetSettings("a", "chat", "host:8000", credentials=credentials))
    assert "hunter2" not in str(caught.value)
