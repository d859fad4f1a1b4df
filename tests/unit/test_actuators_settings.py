"""Settings of actuators and starters: what can be written, and what is told of mistakes."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from monitor.config import files
from monitor.config.problems import KeyPath, format_path
from monitor.logs import REDACTOR
from monitor.rollback.actuators import settings
from monitor.rollback.actuators.hook import HookStarter
from monitor.rollback.actuators.make import ActuatorBuilder
from monitor.rollback.actuators.several import SeveralActuator

KEY = "whsec_" + base64.b64encode(bytes(range(32))).decode()
HAPROXY = {"socket": "/run/admin.sock", "backend": "b", "speculative": ["s"], "baseline": ["p"]}
ROUTER = {"url": "http://router:30000", "speculative": ["http://a:1"], "baseline": ["http://b:1"]}
SERVICE = {"namespace": "n", "name": "c", "speculative": {"s": "a"}, "baseline": {"s": "b"}}
ROUTE = {"namespace": "n", "name": "c", "speculative": ["a"], "baseline": ["b"]}
AT: KeyPath = ("services", 0, "rollback", "actuator")


class Files:
    """Secrets in a folder, and the mistakes that were reported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []

    def secret(self, path: KeyPath, file: str | None, env: str | None) -> SecretStr | None:  # noqa: ARG002
        if file is None:
            return None
        try:
            return files.read_secret(self.folder / file)
        except ValueError as error:
            self.report(path, str(error))
            return None

    def pem(self, path: KeyPath, name: str | None) -> str | None:  # noqa: ARG002
        return name

    def report(self, path: KeyPath, message: str) -> None:
        self.problems.append(f"{format_path(path)}: {message}")

    def builder(self) -> ActuatorBuilder:
        return ActuatorBuilder(self.secret, self.pem, self.report)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "must have one of http, command, haproxy"),
        ({"haproxy": HAPROXY, "vllm_router": ROUTER}, "must have one of"),
        ({"haproxy": {**HAPROXY, "baseline": ["s"]}}, "has s on both sides"),
        ({"haproxy": {**HAPROXY, "baseline": ["p", "p"]}}, "a server of the baseline side twice"),
        ({"haproxy": {**HAPROXY, "socket": "admin.sock"}}, "neither the path of a socket"),
        ({"vllm_router": {**ROUTER, "baseline": []}}, "at least 1 item"),
        ({"vllm_router": {**ROUTER, "url": "http://u:p@r"}}, "holds a user name or password"),
        ({"http": {}}, "must have one of url, url_file and url_env"),
        ({"http": {"url": "http://h", "normal_share": 1.5}}, "less than or equal to 1"),
        ({"command": {"shift": ["move"]}}, "must have {share} or {percent} in shift, or observe"),
        ({"several": {"actuators": []}}, "at least 1 item"),
        ({"litellm": ROUTER}, "must have one of bearer_file and bearer_env"),
        ({"kubernetes_service": {**SERVICE, "baseline": {"s": "a"}}}, "the same selector"),
        ({"kubernetes_service": {**SERVICE, "context": "c"}}, "has context without kubeconfig"),
    ],
)
def test_mistakes_are_told(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        settings.Actuator.model_validate(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "must have one of http, command, systemd"),
        ({"command": {}}, "must have start, restart or both"),
        ({"systemd": {}}, "must have start, restart or both"),
        ({"systemd": {"start": ["--now"]}}, "takes as an option"),
    ],
)
def test_mistakes_of_starters_are_told(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        settings.Starter.model_validate(data)


@pytest.mark.parametrize(
    "data",
    [
        {"http": {"url": "https://hook/move"}},
        {"command": {"shift": ["move", "{share}"]}},
        {"haproxy": HAPROXY},
        {"sglang_router": ROUTER},
        {"vllm_router": ROUTER},
        {"litellm": {**ROUTER, "bearer_file": "key"}},
        {"kubernetes_service": SERVICE},
        {"kubernetes_route": ROUTE},
    ],
)
def test_each_kind_is_built_and_connects_to_nobody(data: dict[str, Any], tmp_path: Path) -> None:
    built = Files(tmp_path)
    (tmp_path / "key").write_text("canary-of-litellm")
    actuator = built.builder().actuator(AT, settings.Actuator.model_validate(data))
    assert actuator is not None
    assert actuator.would(1.0).startswith("would ")
    assert actuator.reachable([0.1, 1.0])[-1] == 1
    assert built.problems == []


def test_parts_are_built_in_their_order(tmp_path: Path) -> None:
    parts = [{"haproxy": HAPROXY}, {"vllm_router": ROUTER}]
    section = settings.Actuator.model_validate({"several": {"actuators": parts}})
    actuator = Files(tmp_path).builder().actuator(AT, section)
    assert isinstance(actuator, SeveralActuator)
    assert "HAProxy" in actuator.would(1.0).split("; then ")[0]


def test_a_missing_client_is_told_with_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.rollback.actuators.make.is_installed", lambda: False)
    read = Files(tmp_path)
    section = settings.Actuator.model_validate({"kubernetes_route": ROUTE})
    assert read.builder().actuator(AT, section) is None
    assert read.problems == [
        "services[0].rollback.actuator.kubernetes_route: needs the kubernetes package: "
        "pip install 'specdec-monitor[kubernetes]'"
    ]


def test_missing_secrets_are_reported_at_their_keys(tmp_path: Path) -> None:
    section = settings.Actuator.model_validate(
        {
            "several": {
                "actuators": [
                    {"haproxy": HAPROXY},
                    {"http": {"url_file": "none", "signing_keys": [{"key_file": "short"}]}},
                ]
            }
        }
    )
    (tmp_path / "short").write_text("abcd")
    read = Files(tmp_path)
    assert read.builder().actuator(AT, section) is None
    at = "services[0].rollback.actuator.several.actuators[1].http"
    assert read.problems == [
        f"{at}.signing_keys[0].key_file: leads to a key of less than 16 bytes: use 32 random ones "
        "in base64",
        f"{at}.url: cannot be read: No such file or directory",
    ]


def test_the_redactor_knows_all_secrets(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("https://hook/canary-in-the-path")
    (tmp_path / "key").write_text(KEY)
    (tmp_path / "token").write_text("canary-token")
    section = settings.Starter.model_validate(
        {
            "http": {
                "url_file": "url",
                "bearer_file": "token",
                "signing_keys": [{"key_file": "key"}],
            }
        }
    )
    assert isinstance(Files(tmp_path).builder().starter(AT, section), HookStarter)
    shown = REDACTOR.text(f"canary-token {KEY} canary-in-the-path")
    assert shown == "*** *** ***"
