"""``monitor config``: write, check and show the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from monitor.cli import exits
from monitor.cli.apps import group
from monitor.cli.locate import find_config
from monitor.cli.options import CONFIG_FILE, CONFIG_VARIABLE, JsonOption
from monitor.cli.output import is_plain_terminal, print_json, print_text
from monitor.config.example import EXAMPLE
from monitor.config.load import load, redacted, to_yaml
from monitor.config.rollback_words import rollback_sentence
from monitor.config.schema import Config
from monitor.model import ConfigError
from monitor.settings import DaemonSettings, Role

app = group("Write, check and show the configuration.")

FileArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help=f"Default ${CONFIG_VARIABLE}, else {CONFIG_FILE}.",
        show_default=False,
    ),
]


@app.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write it.")] = Path(
        CONFIG_FILE
    ),
) -> int:
    """Write an example with comments; a file that exists is never overwritten."""
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(EXAMPLE)
    except FileExistsError:
        raise ConfigError(f"{file}: exists already and stays as it is") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from None
    print_text(f"wrote {file}: put in your servers, then 'monitor config check {file}'")
    return exits.OK


@app.command()
def check(file: FileArgument = None, *, json: JsonOption = False) -> int:
    """Check the configuration with all it names; list every mistake, or what is watched."""
    path = _path(file)
    settings = load(path).settings()
    if json:
        print_json({"schema": "monitor.config/1", "file": str(path), **_summary(settings)})
    else:
        print_text("\n".join([f"{path} is fine", *_lines(settings)]))
    return exits.OK


@app.command()
def show(file: FileArgument = None, *, json: JsonOption = False) -> int:
    """Show the configuration with all defaults; secrets are not part of it."""
    config = load(_path(file)).config
    if json:
        print_json(redacted(config))
    else:
        print_text(to_yaml(config, ascii_only=is_plain_terminal()))
    return exits.OK


@app.command()
def schema() -> int:
    """Print the JSON schema of the configuration, for editors."""
    print_json(Config.model_json_schema())
    return exits.OK


def _path(given: Path | None) -> Path:
    path = find_config(given)
    if path is None:
        raise ConfigError(f"there is no {CONFIG_FILE} here: 'monitor config init' writes one")
    return path


def _summary(settings: DaemonSettings) -> dict[str, Any]:
    return {
        "config_hash": settings.config_hash,
        "listen": f"{settings.host}:{settings.port}",
        "targets": [
            {"target": t.name, "service": t.service, "role": t.role, "interval": t.interval}
            for t in settings.targets
        ],
        "rollbacks": [
            {"service": name, "mode": r.policy.mode, "sentence": rollback_sentence(r)}
            for name, r in settings.rollbacks.items()
        ],
    }


def _lines(settings: DaemonSettings) -> list[str]:
    services = dict.fromkeys(target.service for target in settings.targets)
    lines = []
    for service in services:
        lines.append(f"  {service}: {_line(settings, service)}")
        if service in settings.rollbacks:
            lines.append(f"    {rollback_sentence(settings.rollbacks[service])}")
    return lines


def _line(settings: DaemonSettings, service: str) -> str:
    own = [target for target in settings.targets if target.service == service]
    sides = {role: [t.name for t in own if t.role is role] for role in Role}
    parts = [f"{', '.join(names)} ({role})" for role, names in sides.items() if names]
    baseline = own[0].judge.baseline
    if baseline is not None:
        parts.append(f"baseline curve {baseline.name}")
    return "; ".join(parts)
