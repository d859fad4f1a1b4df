"""The keys ``receivers`` and ``routes``: their shape, and the settings they lead to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Protocol, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from monitor.alerting.receivers import (
    AlertmanagerSettings,
    AppriseSettings,
    CommandSettings,
    Kind,
    ReceiverSettings,
    WebhookFormat,
    WebhookSettings,
)
from monitor.alerting.routes import Route, Routing, parse_matcher
from monitor.alerting.signing import decode_key
from monitor.config import values
from monitor.config.problems import KeyPath, Problem, did_you_mean, repeated_names
from monitor.config.section import Duration, EnvironmentName, FileName, Name, Section, check_choice

_KINDS = ("webhook", "alertmanager", "apprise", "command")


def _check_matcher(text: str) -> str:
    parse_matcher(text)
    return text


class SigningKey(Section):
    """Where a key is that signs webhooks."""

    key_file: FileName | None = Field(None, description="File with whsec_ and the key in base64.")
    key_env: EnvironmentName | None = Field(None, description="Variable that holds it.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        check_choice(self, "key_file", "key_env", required=True)
        return self


class _SecretUrl(Section):
    """A receiver whose URL is all that one needs to send under our name."""

    url_file: FileName | None = Field(None, description="File that holds the URL.")
    url_env: EnvironmentName | None = Field(None, description="Variable that holds it.")

    @model_validator(mode="before")
    @classmethod
    def _no_plain_url(cls, data: object) -> object:
        if isinstance(data, dict) and "url" in data:
            raise ValueError(
                "has url, which is a secret here: write the URL to a file and name that with "
                "url_file, or name an environment variable with url_env"
            )
        return data

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        check_choice(self, "url_file", "url_env", required=True)
        return self


class WebhookReceiver(_SecretUrl):
    """A URL that messages are posted to."""

    format: WebhookFormat = Field(
        WebhookFormat.MONITOR, description="Our JSON, or that of Alertmanager's webhooks."
    )
    signing_keys: Annotated[tuple[SigningKey, ...], Field(max_length=5)] = Field(
        (), description="Keys of the signature; several while they are exchanged."
    )
    bearer_file: FileName | None = Field(None, description="File that holds a bearer token.")
    bearer_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    ca_file: FileName | None = Field(None, description="Authorities to trust, PEM.")

    @model_validator(mode="after")
    def _one_bearer(self) -> Self:
        check_choice(self, "bearer_file", "bearer_env")
        return self


class AlertmanagerReceiver(Section):
    """An Alertmanager, told through its API."""

    url: Annotated[str, AfterValidator(values.parse_base_url)] | None = Field(
        None, description="Where it is, without /api/v2/alerts."
    )
    url_file: FileName | None = Field(None, description="File with the URL, if it is a secret.")
    url_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    bearer_file: FileName | None = Field(None, description="File that holds a bearer token.")
    bearer_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    ca_file: FileName | None = Field(None, description="Authorities to trust, PEM.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        check_choice(self, "url", "url_file", "url_env", required=True)
        check_choice(self, "bearer_file", "bearer_env")
        return self


class AppriseReceiver(_SecretUrl):
    """A service that Apprise knows: a chat, mail, a pager."""

    url_file: FileName | None = Field(None, description="File that holds Apprise's URL.")


class CommandReceiver(Section):
    """A program that takes our JSON on its standard input."""

    arguments: tuple[Annotated[str, Field(max_length=4096)], ...] = Field(
        min_length=1, max_length=100, description="The program and its arguments; no shell."
    )
    environment: tuple[EnvironmentName, ...] = Field(
        (), description="Variables it is given beside PATH and the locale."
    )


class Receiver(Section):
    """Somebody who is told, in one way."""

    name: Name = Field(description="Shown everywhere, and unique.")
    webhook: WebhookReceiver | None = None
    alertmanager: AlertmanagerReceiver | None = None
    apprise: AppriseReceiver | None = None
    command: CommandReceiver | None = None
    timeout: Annotated[Duration, Field(ge=0.1, le=300)] = Field(
        10.0, description="Deadline of one attempt."
    )
    give_up_after: Annotated[Duration, Field(ge=1, le=30 * 86400)] = Field(
        86400.0, description="How long a message is tried."
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in _KINDS) != 1:
            raise ValueError(f"must have one of {', '.join(_KINDS)}")
        return self


class RouteEntry(Section):
    """Where messages go that meet all conditions."""

    match: tuple[Annotated[str, AfterValidator(_check_matcher)], ...] = Field(
        (), description="Conditions such as severity=critical, service!=chat, target=gpu*."
    )
    receivers: tuple[Name, ...] = Field(description="Names; none to drop the message.")
    continues: bool = Field(default=False, description="Whether the routes below are asked, too.")


class _Config(Protocol):
    @property
    def receivers(self) -> tuple[Receiver, ...]: ...
    @property
    def routes(self) -> tuple[RouteEntry, ...]: ...


def misfits(config: _Config) -> list[Problem]:
    """What does not fit together."""
    names = [receiver.name for receiver in config.receivers]
    found, known = [*repeated_names("receivers", names)], set(names)

    def hint(name: str) -> str:
        return did_you_mean(name, known) if known else "none is configured"

    for index, route in enumerate(config.routes):
        found += [
            Problem(
                ("routes", index, "receivers", number),
                f"is not the name of a receiver; {hint(name)}",
                depends=(("receivers",),),
            )
            for number, name in enumerate(route.receivers)
            if name not in known
        ]
    if config.routes and config.routes[-1].match:
        message = (
            "is the last route and must have no match, so that nothing is lost unseen; "
            "add one with 'receivers: []' to drop the rest"
        )
        found.append(Problem(("routes", len(config.routes) - 1, "match"), message))
    return found


def build_routing(config: _Config) -> Routing:
    """The routes of a valid configuration."""
    return Routing(
        tuple(receiver.name for receiver in config.receivers),
        tuple(
            Route(route.receivers, tuple(map(parse_matcher, route.match)), route.continues)
            for route in config.routes
        ),
    )


Secret = Callable[[KeyPath, str | None, str | None], SecretStr | None]
Pem = Callable[[KeyPath, str | None], str | None]
Report = Callable[[KeyPath, str], None]


class ReceiverBuilder:
    """The receivers with their secrets, which others read and find missing."""

    def __init__(self, secret: Secret, pem: Pem, report: Report) -> None:
        self._secret = secret
        self._pem = pem
        self._report = report

    def build(self, receivers: Sequence[Receiver]) -> tuple[ReceiverSettings, ...]:
        """All of them that are whole; what is wrong with the others is reported."""
        built = []
        for index, receiver in enumerate(receivers):
            kind = self._kind(("receivers", index), receiver)
            if kind is not None:
                built.append(
                    ReceiverSettings(receiver.name, kind, receiver.timeout, receiver.give_up_after)
                )
        return tuple(built)

    def _kind(self, at: KeyPath, receiver: Receiver) -> Kind | None:
        if receiver.webhook is not None:
            return self._webhook((*at, "webhook"), receiver.webhook)
        if receiver.alertmanager is not None:
            return self._alertmanager((*at, "alertmanager"), receiver.alertmanager)
        if receiver.apprise is not None:
            apprise = receiver.apprise
            url = self._secret((*at, "apprise", "url"), apprise.url_file, apprise.url_env)
            return None if url is None else AppriseSettings(url)
        if receiver.command is not None:
            return CommandSettings(receiver.command.arguments, receiver.command.environment)
        return None

    def _webhook(self, at: KeyPath, section: WebhookReceiver) -> Kind | None:
        url = self._url(at, section.url_file, section.url_env)
        bearer = self._secret((*at, "bearer"), section.bearer_file, section.bearer_env)
        ca_file = self._pem((*at, "ca_file"), section.ca_file)
        keys = [
            self._key((*at, "signing_keys", number), key)
            for number, key in enumerate(section.signing_keys)
        ]
        if url is None:
            return None
        whole = tuple(key for key in keys if key is not None)
        return WebhookSettings(url, section.format, whole, bearer, ca_file)

    def _alertmanager(self, at: KeyPath, section: AlertmanagerReceiver) -> Kind | None:
        bearer = self._secret((*at, "bearer"), section.bearer_file, section.bearer_env)
        ca_file = self._pem((*at, "ca_file"), section.ca_file)
        url = SecretStr(section.url) if section.url is not None else None
        url = url or self._url(at, section.url_file, section.url_env)
        return None if url is None else AlertmanagerSettings(url, bearer, ca_file)

    def _url(self, at: KeyPath, file: str | None, env: str | None) -> SecretStr | None:
        url = self._secret((*at, "url"), file, env)
        if url is None:
            return None
        try:
            parts = urlsplit(url.get_secret_value().strip())
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            key = "url_env" if file is None else "url_file"
            self._report((*at, key), "leads to what is not an http:// or https:// URL")
            return None
        return SecretStr(url.get_secret_value().strip())

    def _key(self, at: KeyPath, section: SigningKey) -> SecretStr | None:
        key = self._secret((*at, "key"), section.key_file, section.key_env)
        if key is None:
            return None
        try:
            decode_key(key.get_secret_value())
        except ValueError as error:
            name = "key_env" if section.key_file is None else "key_file"
            self._report((*at, name), str(error))
            return None
        return key
