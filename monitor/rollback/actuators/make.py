"""Actuators and starters out of their settings, with the secrets read."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import SecretStr

from monitor.alerting.receivers import url_secrets
from monitor.alerting.signing import KEY_PREFIX, decode_key
from monitor.config.problems import KeyPath
from monitor.config.receivers import Pem, Report, Secret, SigningKey
from monitor.logs import REDACTOR
from monitor.rollback.actuators import base, settings
from monitor.rollback.actuators.cluster import MISSING, Access, Cluster, is_installed
from monitor.rollback.actuators.command import CommandActuator, Commands, CommandStarter
from monitor.rollback.actuators.haproxy import HaproxyActuator
from monitor.rollback.actuators.hook import HookAccess, HookActuator, HookStarter
from monitor.rollback.actuators.json_api import JsonApi
from monitor.rollback.actuators.kubernetes_route import RouteActuator
from monitor.rollback.actuators.kubernetes_service import ServiceActuator
from monitor.rollback.actuators.kubernetes_starter import DeploymentStarter
from monitor.rollback.actuators.litellm import LitellmActuator
from monitor.rollback.actuators.routers import Dialect, RouterActuator, SglangRouter, VllmRouter
from monitor.rollback.actuators.several import SeveralActuator
from monitor.rollback.actuators.systemd import SystemdStarter


class ActuatorBuilder:
    """Builds what moves traffic; secrets are read by others, who report those that are missing.

    What is built connects to nobody before it is used.
    """

    def __init__(self, secret: Secret, pem: Pem, report: Report) -> None:
        self._secret = secret
        self._pem = pem
        self._report = report

    def actuator(self, at: KeyPath, section: settings.Actuator) -> base.Actuator | None:
        """The actuator of the section at ``at``, or None with what is wrong reported."""
        built: base.Actuator | None = None
        if section.http is not None:
            built = self._hook((*at, "http"), section.http)
        elif section.command is not None:
            built = _command(section.command)
        elif section.haproxy is not None:
            built = _haproxy(section.haproxy)
        elif section.sglang_router is not None:
            built = self._sglang_router((*at, "sglang_router"), section.sglang_router)
        elif section.vllm_router is not None:
            built = self._router((*at, "vllm_router"), section.vllm_router, VllmRouter())
        elif section.litellm is not None:
            built = self._litellm((*at, "litellm"), section.litellm)
        elif section.kubernetes_service is not None:
            built = self._service((*at, "kubernetes_service"), section.kubernetes_service)
        elif section.kubernetes_route is not None:
            built = self._route((*at, "kubernetes_route"), section.kubernetes_route)
        elif section.several is not None:
            built = self._several((*at, "several", "actuators"), section.several.actuators)
        return built

    def starter(self, at: KeyPath, section: settings.Starter) -> base.Starter | None:
        """The starter of the section at ``at``, or None with what is wrong reported."""
        if section.http is not None:
            access = self._access((*at, "http"), section.http)
            return None if access is None else HookStarter(access)
        if section.command is not None:
            command = section.command
            return CommandStarter(command.start, command.restart, command.environment)
        if section.systemd is not None:
            units = section.systemd
            return SystemdStarter(units.start, units.restart, units.systemctl)
        if section.kubernetes_deployment is not None:
            return self._deployment((*at, "kubernetes_deployment"), section.kubernetes_deployment)
        return None

    def _several(
        self, at: KeyPath, sections: Sequence[settings.Actuator]
    ) -> SeveralActuator | None:
        parts = [self.actuator((*at, number), part) for number, part in enumerate(sections)]
        whole = [part for part in parts if part is not None]
        return SeveralActuator(whole) if len(whole) == len(parts) else None

    def _hook(self, at: KeyPath, section: settings.HookActuator) -> HookActuator | None:
        access = self._access(at, section)
        if access is None:
            return None
        return HookActuator(access, normal_share=section.normal_share)

    def _access(self, at: KeyPath, section: settings.Hook) -> HookAccess | None:
        keys = [
            self._key((*at, "signing_keys", number), key)
            for number, key in enumerate(section.signing_keys)
        ]
        bearer = self._known((*at, "bearer"), section.bearer_file, section.bearer_env)
        ca_file = self._pem((*at, "ca_file"), section.ca_file)
        url = SecretStr(section.url) if section.url is not None else self._url(at, section)
        if url is None:
            return None
        return HookAccess(url, tuple(key for key in keys if key is not None), bearer, ca_file)

    def _url(self, at: KeyPath, section: settings.Hook) -> SecretStr | None:
        url = self._secret((*at, "url"), section.url_file, section.url_env)
        if url is None:
            return None
        text = url.get_secret_value().strip()
        if not text.startswith(("http://", "https://")):
            key = "url_env" if section.url_file is None else "url_file"
            self._report((*at, key), "leads to what is not an http:// or https:// URL")
            return None
        REDACTOR.learn(url_secrets(text))
        return SecretStr(text)

    def _key(self, at: KeyPath, section: SigningKey) -> bytes | None:
        key = self._known((*at, "key"), section.key_file, section.key_env)
        if key is None:
            return None
        REDACTOR.learn([key.get_secret_value().removeprefix(KEY_PREFIX)])
        try:
            return decode_key(key.get_secret_value())
        except ValueError as error:
            name = "key_env" if section.key_file is None else "key_file"
            self._report((*at, name), str(error))
            return None

    def _sglang_router(
        self, at: KeyPath, section: settings.SglangRouterActuator
    ) -> RouterActuator:
        key = self._known((*at, "worker_key"), section.worker_key_file, section.worker_key_env)
        return self._router(at, section, SglangRouter(key))

    def _router(
        self, at: KeyPath, section: settings.RouterActuator, dialect: Dialect
    ) -> RouterActuator:
        return RouterActuator(
            dialect,
            section.url,
            section.speculative,
            section.baseline,
            bearer=self._known((*at, "bearer"), section.bearer_file, section.bearer_env),
            ca_file=self._pem((*at, "ca_file"), section.ca_file),
        )

    def _litellm(self, at: KeyPath, section: settings.LitellmActuator) -> LitellmActuator | None:
        bearer = self._known((*at, "bearer"), section.bearer_file, section.bearer_env)
        ca_file = self._pem((*at, "ca_file"), section.ca_file)
        if bearer is None:
            return None
        return LitellmActuator(
            JsonApi(section.url, bearer=bearer, ca_file=ca_file),
            section.speculative,
            section.baseline,
            normal_share=section.normal_share,
        )

    def _service(self, at: KeyPath, section: settings.ServiceActuator) -> ServiceActuator | None:
        cluster = self._cluster(at, section)
        if cluster is None:
            return None
        return ServiceActuator(cluster, section.name, section.speculative, section.baseline)

    def _route(self, at: KeyPath, section: settings.RouteActuator) -> RouteActuator | None:
        cluster = self._cluster(at, section)
        if cluster is None:
            return None
        return RouteActuator(
            cluster,
            section.name,
            section.speculative,
            section.baseline,
            rule=section.rule,
            normal_share=section.normal_share,
        )

    def _deployment(
        self, at: KeyPath, section: settings.DeploymentStarter
    ) -> DeploymentStarter | None:
        cluster = self._cluster(at, section)
        if cluster is None:
            return None
        return DeploymentStarter(cluster, section.start, section.restart)

    def _cluster(self, at: KeyPath, section: settings.Kubernetes) -> Cluster | None:
        if not is_installed():
            self._report(at, MISSING)
            return None
        kubeconfig = self._pem((*at, "kubeconfig"), section.kubeconfig)
        return Cluster(Access(kubeconfig, section.context), section.namespace)

    def _known(self, at: KeyPath, file: str | None, env: str | None) -> SecretStr | None:
        """A secret that the redactor knows from here on."""
        secret = self._secret(at, file, env)
        if secret is not None:
            REDACTOR.learn([secret.get_secret_value()])
        return secret


def _command(section: settings.CommandActuator) -> CommandActuator:
    commands = Commands(section.shift, section.restore, section.observe, section.environment)
    return CommandActuator(commands, normal_share=section.normal_share)


def _haproxy(section: settings.HaproxyActuator) -> HaproxyActuator:
    return HaproxyActuator(section.socket, section.backend, section.speculative, section.baseline)
