"""A valid configuration into the settings of the daemon: secrets read, overrides applied."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import SecretStr

from monitor.alerting.receivers import ReceiverSettings
from monitor.alerting.rules import Rule
from monitor.alerting.ruleset import load_rules
from monitor.baseline_file import load_baseline
from monitor.config import files, values
from monitor.config.problems import KeyPath, Problem, Source
from monitor.config.receivers import ReceiverBuilder, build_routing
from monitor.config.rollback import Rollback, unknown_rules
from monitor.config.schema import DEFAULT_DATABASE, Auth, Config, Service, Target, Tls
from monitor.config.validate import target_name, targets_of
from monitor.health.baseline import Baseline
from monitor.model import ConfigError
from monitor.rollback.actuators.make import ActuatorBuilder
from monitor.settings import (
    Credentials,
    DaemonSettings,
    GrafanaSettings,
    JudgeSettings,
    Retention,
    Role,
    RollbackSettings,
    TargetSettings,
)
from monitor.sources.address import is_loopback

_DEFAULT_TIMEOUT = 10.0


def build(
    config: Config, source: Source, environ: Mapping[str, str] = os.environ
) -> DaemonSettings:
    """Reads what ``config`` names and puts the settings together.

    Raises:
        ConfigError: with one line for each file or variable that does not serve.
    """
    return _Builder(config, source, environ).build()


def named_mistakes(
    config: Config, source: Source, environ: Mapping[str, str] = os.environ
) -> list[Problem]:
    """What is wrong with the files and variables that ``config`` names."""
    builder = _Builder(config, source, environ)
    builder.read()
    return builder.problems


def database_of(config: Config, source: Source, environ: Mapping[str, str] = os.environ) -> str:
    """The database URL alone, for commands that need nothing else."""
    builder = _Builder(config, source, environ)
    url = builder.database()
    builder.check()
    return url


def grafana_of(
    config: Config, source: Source, environ: Mapping[str, str] = os.environ
) -> GrafanaSettings | None:
    """The Grafana alone, for commands that need nothing else."""
    builder = _Builder(config, source, environ)
    found = builder.grafana()
    builder.check()
    return found


def retention_of(config: Config) -> Retention:
    """How long figures are kept."""
    kept = config.retention
    return Retention(kept.samples, kept.one_minute, kept.ten_minutes, kept.max_size)


class _Named(NamedTuple):
    """What was read from the files and variables that a configuration names."""

    host: str
    port: int
    token: SecretStr | None
    database: str
    judges: dict[str, JudgeSettings]
    logins: dict[str, Credentials]
    rules: tuple[Rule, ...]
    receivers: tuple[ReceiverSettings, ...]
    rollbacks: dict[str, RollbackSettings]
    grafana: GrafanaSettings | None


class _Builder:
    def __init__(self, config: Config, source: Source, environ: Mapping[str, str]) -> None:
        self._config = config
        self._source = source
        self._environ = environ
        self.problems: list[Problem] = []
        """What was found to be wrong so far."""

    def read(self) -> _Named:
        """Reads all that is named; what does not serve is noted among the ``problems``."""
        config = self._config
        host, port = values.parse_listen(config.listen)
        token = self._secret(("token",), config.token_file, config.token_env)
        if token is None and not is_loopback(host) and not self.problems:
            self._problem(
                ("listen",),
                "is reachable from other machines, which needs token_file or token_env; "
                "or listen on 127.0.0.1",
                ("token_file",),
                ("token_env",),
            )
        database = self.database()
        judges = {s.name: self._judge(i, s) for i, s in enumerate(config.services)}
        logins = {s.name: self._credentials(i, s) for i, s in enumerate(config.services)}
        rules = self._rules()
        receivers = ReceiverBuilder(self._secret, self._pem, self._problem).build(config.receivers)
        rollbacks = {
            service.name: self._rollback(index, service.rollback)
            for index, service in enumerate(config.services)
            if service.rollback is not None
        }
        if rules or not config.alerts.rules:
            for path, message in unknown_rules(config.services, [rule.id for rule in rules]):
                self._problem(path, message, ("alerts",))
        grafana = self.grafana()
        return _Named(
            host, port, token, database, judges, logins, rules, receivers, rollbacks, grafana
        )

    def build(self) -> DaemonSettings:
        """Everything, or all mistakes at once."""
        config, named = self._config, self.read()
        self.check()
        logins, judges = named.logins, named.judges
        return DaemonSettings(
            database=named.database,
            targets=tuple(
                self._target(path, service, target, logins[service.name], judges[service.name])
                for path, service, target in targets_of(config)
            ),
            host=named.host,
            port=named.port,
            token=named.token,
            shutdown_seconds=config.shutdown_timeout,
            lease_seconds=config.lease,
            config_hash=_hash(config, judges, named.rules),
            rules=named.rules,
            receivers=named.receivers,
            routing=build_routing(config),
            retention=retention_of(config),
            rollbacks=named.rollbacks,
            freeze=config.rollback_freeze.policy(),
            grafana=named.grafana,
        )

    def _problem(self, path: KeyPath, message: str, *depends: KeyPath) -> None:
        self.problems.append(Problem(path, message, depends=depends))

    def _problems_of(self, path: KeyPath, error: ConfigError) -> None:
        """Each mistake in a file, at the key that names it."""
        for line in str(error).splitlines():
            self._problem(path, line)

    def _path(self, name: str) -> Path:
        return self._source.folder / name

    def _secret(self, path: KeyPath, file: str | None, env: str | None) -> SecretStr | None:
        """The secret under ``path`` + ``_file`` or ``_env``; a problem where it is not there."""
        *section, stem = path
        try:
            if file is not None:
                kind = "file"
                return files.read_secret(self._path(file))
            if env is not None:
                kind = "env"
                return files.secret_from(self._environ, env)
        except ValueError as error:
            self._problem((*section, f"{stem}_{kind}"), str(error))
        return None

    def check(self) -> None:
        """Raises what was found to be wrong so far."""
        if self.problems:
            raise self._source.error(self.problems)

    def database(self) -> str:
        """The database URL, password included."""
        config = self._config
        secret = self._secret(("database",), config.database_file, config.database_env)
        if secret is None:
            return config.database or DEFAULT_DATABASE
        url = secret.get_secret_value().strip()
        try:
            return values.check_secret_database_url(url)
        except ValueError as error:
            key = "database_file" if config.database_file is not None else "database_env"
            self._problem((key,), f"leads to a URL that {error}")
            return DEFAULT_DATABASE

    def grafana(self) -> GrafanaSettings | None:
        """Where the dashboards are; None where no Grafana is named."""
        section = self._config.grafana
        if section is None:
            return None
        token = self._secret(("grafana", "token"), section.token_file, section.token_env)
        ca_file = self._pem(("grafana", "ca_file"), section.ca_file)
        return None if token is None else GrafanaSettings(section.url, token, ca_file)

    def _rules(self) -> tuple[Rule, ...]:
        alerts = self._config.alerts
        paths = [self._path(name) for name in alerts.rules]
        try:
            return load_rules(paths, defaults=alerts.default_rules).rules
        except ConfigError as error:
            self._problems_of(("alerts", "rules"), error)
            return ()

    def _rollback(self, index: int, section: Rollback) -> RollbackSettings:
        builder = ActuatorBuilder(self._secret, self._pem, self._problem)
        at = ("services", index, "rollback")
        moves, starts = section.actuator, section.starter
        actuator = None if moves is None else builder.actuator((*at, "actuator"), moves)
        starter = None if starts is None else builder.starter((*at, "starter"), starts)
        return RollbackSettings(section.policy(), actuator, starter)

    def _judge(self, index: int, service: Service) -> JudgeSettings:
        config = self._config
        return JudgeSettings(
            threshold=config.threshold if service.threshold is None else service.threshold,
            dead_band=config.dead_band if service.dead_band is None else service.dead_band,
            windows=config.windows,
            judged=config.judged(),
            baseline=self._curve(("services", index, "baseline", "curve"), service),
        )

    def _curve(self, path: KeyPath, service: Service) -> Baseline | None:
        curve = service.baseline.curve if service.baseline else None
        if curve is None:
            return None
        try:
            return load_baseline(self._path(curve))
        except ConfigError as error:
            self._problems_of(path, error)
            return None

    def _credentials(self, index: int, service: Service) -> Credentials:
        auth, tls = service.auth or Auth(), service.tls or Tls()
        at = ("services", index)
        return Credentials(
            bearer=self._secret((*at, "auth", "bearer"), auth.bearer_file, auth.bearer_env),
            username=auth.username,
            password=self._secret(
                (*at, "auth", "password"), auth.password_file, auth.password_env
            ),
            ca_file=self._pem((*at, "tls", "ca_file"), tls.ca_file),
            cert_file=self._pem((*at, "tls", "cert_file"), tls.cert_file),
            key_file=self._pem((*at, "tls", "key_file"), tls.key_file),
            verify=tls.verify,
        )

    def _pem(self, path: KeyPath, name: str | None) -> str | None:
        if name is None:
            return None
        try:
            files.check_readable(self._path(name))
        except ValueError as error:
            self._problem(path, str(error))
        return str(self._path(name))

    def _target(
        self,
        path: KeyPath,
        service: Service,
        target: Target,
        credentials: Credentials,
        judge: JudgeSettings,
    ) -> TargetSettings:
        scrape = self._config.scrape
        interval = target.interval or scrape.interval
        # A general timeout bends to a target that is looked at more often than the others.
        timeout = min(scrape.timeout or _DEFAULT_TIMEOUT, interval * 2 / 3)
        return TargetSettings(
            name=target_name(target),
            service=service.name,
            url=target.url,
            role=Role.BASELINE if "baseline" in path else Role.SPECULATIVE,
            labels=dict(target.labels),
            engine=values.parse_engine(target.engine),
            draft_size=target.num_speculative_tokens,
            interval=interval,
            timeout=target.timeout or timeout,
            max_bytes=scrape.max_page_size,
            credentials=credentials,
            judge=judge,
            threshold_is_set=service.threshold is not None,
        )


def _hash(config: Config, judges: Mapping[str, JudgeSettings], rules: tuple[Rule, ...]) -> str:
    """Equal for equal behaviour: values, curves and rules, but neither comments nor secrets."""
    curves = {name: repr(judge.baseline) for name, judge in judges.items()}
    text = json.dumps([config.model_dump(mode="json"), curves, repr(rules)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
