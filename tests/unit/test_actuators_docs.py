"""The examples of docs/actuators.md are what the settings take, and no kind is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.config.section import Section
from monitor.rollback.actuators.settings import Actuator, Starter

PAGE = (Path(__file__).parents[2] / "docs" / "actuators.md").read_text("utf-8")
BLOCKS = [
    document
    for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for document in yaml.safe_load_all(text)
]
SECTIONS: dict[str, type[Section]] = {"actuator": Actuator, "starter": Starter}


def examples(key: str) -> list[dict[str, Any]]:
    own = [block[key] for block in BLOCKS if key in block]
    services = [service for block in BLOCKS for service in block.get("services", ())]
    return own + [s["rollback"][key] for s in services if key in s["rollback"]]


@pytest.mark.parametrize("key", SECTIONS)
def test_each_example_is_valid_and_each_kind_has_one(key: str) -> None:
    found = examples(key)
    for example in found:
        SECTIONS[key].model_validate(example)
    assert {next(iter(example)) for example in found} == set(SECTIONS[key].model_fields)


def test_the_service_account_may_do_what_is_done_and_no_more() -> None:
    (role,) = [block for block in BLOCKS if block.get("kind") == "Role"]
    allowed = {(rule["apiGroups"][0], *rule["resources"]): rule["verbs"] for rule in role["rules"]}
    assert allowed == {
        ("", "services"): ["get", "patch"],
        ("gateway.networking.k8s.io", "httproutes"): ["get", "patch"],
        ("apps", "deployments"): ["get", "patch"],
    }
