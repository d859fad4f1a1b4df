"""Files for a Grafana that is provisioned from files: data sources, dashboards, alert rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monitor.grafana.managed import GROUP, INTERVAL
from monitor.grafana.wanted import FOLDER, FOLDER_TITLE, Wanted
from monitor.model import ConfigError
from monitor.prometheus.rule_file import dump

PASSWORD_VARIABLE = "SPECDEC_POSTGRESQL_PASSWORD"  # noqa: S105 - the name of a variable
"""Grafana's own environment holds the password of the database under this name."""
_COMMENT = "Written by 'monitor grafana render'; docs/grafana.md explains it. Do not edit."
_ORG = 1


def render(wanted: Wanted, folder: str) -> dict[str, str]:
    """The texts of all files by their path; ``folder`` is where Grafana will see them."""
    files = {
        f"dashboards/{uid}.json": json.dumps(board, indent=2, ensure_ascii=False) + "\n"
        for uid, board in wanted.dashboards.items()
    }
    documents: dict[str, dict[str, Any]] = {"dashboards": _provider(f"{folder}/dashboards")}
    if wanted.datasources:
        documents["datasources"] = _datasources(wanted)
    if wanted.rules:
        documents["alerting"] = _alerting(wanted)
    for name, document in documents.items():
        text = dump({"apiVersion": 1, **document}, _COMMENT)
        files[f"provisioning/{name}/specdec.yaml"] = text
    return files


def write(files: Mapping[str, str], out: Path) -> dict[str, bool]:
    """Writes what has changed, and tells of each file whether it has.

    Raises:
        ConfigError: a file cannot be written.
    """
    return {name: _write(out / name, text) for name, text in sorted(files.items())}


def _write(path: Path, text: str) -> bool:
    try:
        if path.is_file() and path.read_bytes() == text.encode():
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        # Grafana looks at the folder all the time, and must not see half of a file.
        part = path.with_name(f".{path.name}.part")
        part.write_text(text, "utf-8")
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
    return True


def _provider(path: str) -> dict[str, Any]:
    provider = {
        "name": FOLDER,
        "orgId": _ORG,
        "folder": FOLDER_TITLE,
        "folderUid": FOLDER,
        "type": "file",
        "disableDeletion": False,
        "updateIntervalSeconds": 30,
        "allowUiUpdates": False,
        "options": {"path": path},
    }
    return {"providers": [provider]}


def _datasources(wanted: Wanted) -> dict[str, Any]:
    made = []
    for uid, body in wanted.datasources.items():
        secrets = dict.fromkeys(wanted.secrets.get(uid, {}), f"${PASSWORD_VARIABLE}")
        hidden = {"secureJsonData": secrets} if secrets else {}
        made.append({**_escaped(body), "orgId": _ORG, **hidden, "editable": False})
    return {"datasources": made}


def _alerting(wanted: Wanted) -> dict[str, Any]:
    group = {
        "orgId": _ORG,
        "name": GROUP,
        "folder": FOLDER_TITLE,
        "interval": f"{INTERVAL}s",
        "rules": [_rule(rule) for rule in wanted.rules],
    }
    return {"groups": [group]}


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """The same rule with the names that files have; the API has others for two of them."""
    names = {
        "keep_firing_for": "keepFiringFor",
        "missingSeriesEvalsToResolve": "missing_series_evals_to_resolve",
    }
    named = {names.get(key, key): value for key, value in rule.items()}
    # Grafana puts variables of its environment into labels, but not into annotations and queries.
    return {**named, "labels": _escaped(rule["labels"])}


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, Mapping):
        return {key: _escaped(entry) for key, entry in value.items()}
    return value
