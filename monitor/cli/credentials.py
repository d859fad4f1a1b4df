"""Options that name secrets and certificates, read into what a connection needs."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import SecretStr

from monitor.cli.options import checked
from monitor.config import files
from monitor.config.values import check_environment_name
from monitor.model import ConfigError
from monitor.settings import Credentials


def read_credentials(
    bearer_file: Path | None,
    bearer_env: str | None,
    ca_file: Path | None,
    cert: Path | None,
    key: Path | None,
    *,
    verify: bool,
    username: str | None = None,
    password: SecretStr | None = None,
) -> Credentials:
    """How to authenticate at a server; raises ``ConfigError`` for what does not fit."""
    if key is not None and cert is None:
        raise ConfigError("--key needs --cert")
    bearer = read_secret(bearer_file, bearer_env)
    if password is not None and username is None:
        raise ConfigError("--password-file and --password-env need --username")
    if username is not None and bearer is not None:
        raise ConfigError("give a bearer token or --username, not both")
    return Credentials(
        bearer=bearer,
        username=username,
        password=password,
        ca_file=_pem("--ca-file", ca_file),
        cert_file=_pem("--cert", cert),
        key_file=_pem("--key", key),
        verify=verify,
    )


def read_secret(
    file: Path | None, variable: str | None, name: str = "--bearer"
) -> SecretStr | None:
    """The secret that ``NAME-file`` or ``NAME-env`` leads to, if either was given."""
    if file is not None and variable is not None:
        raise ConfigError(f"give one of {name}-file and {name}-env")
    if file is not None:
        return checked(f"{name}-file", files.read_secret, file)
    if variable is not None:
        return checked(f"{name}-env", _from_environment, variable)
    return None


def _from_environment(variable: str) -> SecretStr:
    return files.secret_from(os.environ, check_environment_name(variable))


def _pem(option: str, path: Path | None) -> str | None:
    if path is None:
        return None
    checked(option, files.check_readable, path)
    return str(path)
