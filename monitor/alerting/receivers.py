"""What is configured of receivers, secrets read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from monitor.alerting.signing import KEY_PREFIX

DEFAULT_TIMEOUT = 10.0
DEFAULT_GIVE_UP = 86400.0
_MIN_PART = 12
"""Parts of a URL that are shorter are words, such as names of paths."""


class WebhookFormat(StrEnum):
    """What a webhook sends."""

    MONITOR = "monitor"
    ALERTMANAGER = "alertmanager"


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """POST to a URL."""

    url: SecretStr
    format: WebhookFormat = WebhookFormat.MONITOR
    keys: tuple[SecretStr, ...] = ()
    """Each signs, so that a receiver may know the old or the new one."""
    bearer: SecretStr | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class AlertmanagerSettings:
    """The API of an Alertmanager."""

    url: SecretStr
    bearer: SecretStr | None = None
    ca_file: str | None = None


@dataclass(frozen=True, slots=True)
class AppriseSettings:
    """One of the services that Apprise knows, named by a URL."""

    url: SecretStr


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """A program that takes the message on its standard input."""

    arguments: tuple[str, ...]
    environment: tuple[str, ...] = ()
    """Variables that it is given, beside PATH and the locale."""


Kind = WebhookSettings | AlertmanagerSettings | AppriseSettings | CommandSettings


@dataclass(frozen=True, slots=True)
class ReceiverSettings:
    """Somebody who is told."""

    name: str
    kind: Kind
    timeout: float = DEFAULT_TIMEOUT
    """For one attempt, from the connection to the answer."""
    give_up_after: float = DEFAULT_GIVE_UP
    """How long a message is tried."""


def secrets_of(settings: ReceiverSettings) -> Iterator[str]:
    """All that must never be shown of a receiver."""
    kind = settings.kind
    if isinstance(kind, CommandSettings):
        return
    yield from url_secrets(kind.url.get_secret_value())
    if isinstance(kind, AppriseSettings):
        return
    if kind.bearer is not None:
        yield kind.bearer.get_secret_value()
    if isinstance(kind, WebhookSettings):
        for key in kind.keys:
            yield key.get_secret_value()
            yield key.get_secret_value().removeprefix(KEY_PREFIX)


def url_secrets(url: str) -> Iterator[str]:
    """The URL, and the parts of it that may be its secret."""
    yield url
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if len(parts.path) >= _MIN_PART:
        yield parts.path
    found = [*parts.path.split("/"), *(value for _, value in parse_qsl(parts.query))]
    if parts.scheme not in ("http", "https"):
        # Many services of Apprise carry their token where others have a host.
        found += parts.netloc.rpartition("@")[2].split("/")
    found = [part for part in found if len(part) >= _MIN_PART]
    found += [part for part in (parts.username, parts.password) if part]
    for part in found:
        yield part
        yield unquote(part)
