"""The shape of ``actuator`` and ``starter`` in the configuration: one key for each kind.

Nothing secret is part of these models: a secret is given as the name of a file or of an
environment variable.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from monitor.config import values
from monitor.config.receivers import SigningKey
from monitor.config.section import EnvironmentName, FileName, Name, Section, check_choice

BaseUrl = Annotated[str, AfterValidator(values.parse_base_url)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Arguments = Annotated[tuple[Text, ...], Field(min_length=1, max_length=100)]
Names = Annotated[tuple[Name, ...], Field(min_length=1, max_length=1000)]
Urls = Annotated[tuple[BaseUrl, ...], Field(min_length=1, max_length=1000)]
Labels = Annotated[dict[Text, Text], Field(min_length=1, max_length=50)]


def _check_socket(text: str) -> str:
    if text.startswith("/"):
        return text
    try:
        values.parse_listen(text)
    except ValueError:
        raise ValueError(
            "is neither the path of a socket, such as /run/haproxy/admin.sock, nor HOST:PORT"
        ) from None
    return text


def _check_one(section: Section) -> None:
    kinds = tuple(type(section).model_fields)
    if sum(getattr(section, kind) is not None for kind in kinds) != 1:
        raise ValueError(f"must have one of {', '.join(kinds)}")


class _Bearer(Section):
    """A peer that is reached over HTTP."""

    bearer_file: FileName | None = Field(None, description="File that holds a bearer token.")
    bearer_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    ca_file: FileName | None = Field(None, description="Authorities to trust, PEM.")

    @model_validator(mode="after")
    def _one_bearer(self) -> Self:
        check_choice(self, "bearer_file", "bearer_env")
        return self


class _Normal(Section):
    """A peer that cannot tell how traffic was before the first shift."""

    normal_share: Share = Field(
        0.0, description="Share of the baseline side while nothing is wrong."
    )


class Hook(_Bearer):
    """A URL that orders are posted to, signed."""

    url: BaseUrl | None = Field(None, description="Where orders are posted to.")
    url_file: FileName | None = Field(None, description="File with the URL, if it is a secret.")
    url_env: EnvironmentName | None = Field(None, description="Variable that holds it.")
    signing_keys: Annotated[tuple[SigningKey, ...], Field(max_length=5)] = Field(
        (), description="Keys of the signature; several while they are exchanged."
    )

    @model_validator(mode="after")
    def _one_url(self) -> Self:
        check_choice(self, "url", "url_file", "url_env", required=True)
        return self


class HookActuator(Hook, _Normal):
    """A URL that moves traffic: told by POST, asked by GET."""


class _Command(Section):
    """Programs of the user."""

    environment: tuple[EnvironmentName, ...] = Field(
        (), description="Variables they are given beside PATH and the locale."
    )


class CommandActuator(_Command, _Normal):
    """Programs that move traffic and say where it goes."""

    shift: Arguments = Field(
        description="Program and arguments; {share}, {percent}, {id} and {fence} are filled in."
    )
    restore: Arguments | None = Field(
        None, description="The same for restoring. Default: shift, with the normal share."
    )
    observe: Arguments | None = Field(
        None, description="Prints the share of the baseline side, 0 to 1, or unknown."
    )

    @model_validator(mode="after")
    def _says_how_much(self) -> Self:
        for argument in self.shift:
            if "{share}" in argument or "{percent}" in argument:
                return self
        if self.observe is None:
            raise ValueError(
                "must have {share} or {percent} in shift, or observe, so that a program that "
                "reads MONITOR_SHARE can be checked"
            )
        return self


class HaproxyActuator(Section):
    """Weights of the servers of a backend, through HAProxy's runtime API."""

    socket: Annotated[str, AfterValidator(_check_socket)] = Field(
        description="Path of the UNIX socket, or HOST:PORT; it needs level admin."
    )
    backend: Name = Field(description="Name of the backend.")
    speculative: Names = Field(description="Names of the servers that speculate.")
    baseline: Names = Field(description="Names of the plain servers.")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        _check_apart(self.speculative, self.baseline)
        return self


class RouterActuator(_Bearer):
    """Workers of a router that has no weights."""

    url: BaseUrl = Field(description="Where the router is.")
    speculative: Urls = Field(description="Workers that speculate, as the router lists them.")
    baseline: Urls = Field(description="Plain workers, as the router lists them.")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        _check_apart(self.speculative, self.baseline)
        return self


class SglangRouterActuator(RouterActuator):
    """Workers of an sglang-router."""

    worker_key_file: FileName | None = Field(
        None, description="File with the API key that the workers want of the router."
    )
    worker_key_env: EnvironmentName | None = Field(None, description="Variable that holds it.")

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        check_choice(self, "worker_key_file", "worker_key_env")
        return self


class Kubernetes(Section):
    """A namespace of a cluster, through the official client."""

    namespace: Name = Field(description="Namespace of the objects.")
    kubeconfig: FileName | None = Field(
        None, description="File. Default: the service account of the pod that we run in."
    )
    context: Name | None = Field(None, description="Context in it. Default: the current one.")

    @model_validator(mode="after")
    def _context_of_something(self) -> Self:
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("has context without kubeconfig: name the file, too")
        return self


class ServiceActuator(Kubernetes):
    """The selector of a Service: all traffic or none."""

    name: Name = Field(description="Name of the Service.")
    speculative: Labels = Field(description="Selector of the side that speculates.")
    baseline: Labels = Field(description="Selector of the plain side.")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.speculative == self.baseline:
            raise ValueError("has the same selector for both sides")
        return self


class RouteActuator(Kubernetes, _Normal):
    """The weights of an HTTPRoute's backends."""

    name: Name = Field(description="Name of the HTTPRoute.")
    rule: Annotated[int, Field(ge=0, le=15)] = Field(0, description="Which of its rules, from 0.")
    speculative: Names = Field(description="Names of the backends that speculate.")
    baseline: Names = Field(description="Names of the plain backends.")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        _check_apart(self.speculative, self.baseline)
        return self


class LitellmActuator(_Bearer, _Normal):
    """The weights of deployments in a LiteLLM proxy."""

    url: BaseUrl = Field(description="Where the proxy is.")
    speculative: Names = Field(description="Ids of the deployments that speculate.")
    baseline: Names = Field(description="Ids of the plain deployments.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        _check_apart(self.speculative, self.baseline)
        check_choice(self, "bearer_file", "bearer_env", required=True)
        return self


class Several(Section):
    """Some actuators that are used one after the other."""

    actuators: Annotated[tuple[Actuator, ...], Field(min_length=1, max_length=20)] = Field(
        description="In the order in which they are used."
    )


class Actuator(Section):
    """What moves traffic, of one kind."""

    http: HookActuator | None = None
    command: CommandActuator | None = None
    haproxy: HaproxyActuator | None = None
    sglang_router: SglangRouterActuator | None = None
    vllm_router: RouterActuator | None = None
    litellm: LitellmActuator | None = None
    kubernetes_service: ServiceActuator | None = None
    kubernetes_route: RouteActuator | None = None
    several: Several | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        _check_one(self)
        return self


class CommandStarter(_Command):
    """Programs that start and restart servers."""

    start: Arguments | None = Field(None, description="Starts the baseline side.")
    restart: Arguments | None = Field(None, description="Restarts the speculative side.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.start is None and self.restart is None:
            raise ValueError("must have start, restart or both")
        return self


class SystemdStarter(Section):
    """Units of systemd on this machine."""

    start: tuple[Name, ...] = Field((), description="Units of the baseline side.")
    restart: tuple[Name, ...] = Field((), description="Units of the speculative side.")
    systemctl: Arguments = Field(
        ("systemctl",), description="How it is called, such as [sudo, -n, systemctl]."
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.start and not self.restart:
            raise ValueError("must have start, restart or both")
        if any(unit.startswith("-") for unit in (*self.start, *self.restart)):
            raise ValueError("has a unit that begins with -, which systemctl takes as an option")
        return self


class DeploymentStarter(Kubernetes):
    """Deployments that are scaled up or restarted."""

    start: dict[Name, Annotated[int, Field(ge=1, le=1000)]] = Field(
        default_factory=dict, description="Replicas of the baseline side's, by their names."
    )
    restart: tuple[Name, ...] = Field((), description="Names of those of the speculative side.")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.start and not self.restart:
            raise ValueError("must have start, restart or both")
        return self


class Starter(Section):
    """What starts the baseline side or restarts the speculative one, of one kind."""

    http: Hook | None = None
    command: CommandStarter | None = None
    systemd: SystemdStarter | None = None
    kubernetes_deployment: DeploymentStarter | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        _check_one(self)
        return self


def _check_apart(speculative: tuple[str, ...], baseline: tuple[str, ...]) -> None:
    both = sorted(set(speculative) & set(baseline))
    if both:
        raise ValueError(f"has {both[0]} on both sides: each server belongs to one")
    for side, names in (("speculative", speculative), ("baseline", baseline)):
        if len(set(names)) < len(names):
            raise ValueError(f"names a server of the {side} side twice")
