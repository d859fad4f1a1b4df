"""What ``rollback`` in the configuration leads to, and each mistake in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.config.load import loads
from monitor.config.problems import Source
from monitor.config.rollback_words import rollback_sentence
from monitor.model import Cause, ConfigError
from monitor.rollback.settings import Cure, FleetPolicy, Mode, Policy
from monitor.settings import DaemonSettings, RollbackSettings
from monitor.weekly import parse_weekly

HOOK = {"http": {"url": "http://router:9000/share"}}
ACT = {"mode": "act", "actuator": HOOK}


def settings(rollback: dict[str, Any] | None, **more: Any) -> DaemonSettings:
    service = {
        "name": "chat",
        "speculative": {"targets": ["http://gpu1:8000"]},
        "baseline": {"targets": ["http://plain1:8000"]},
    }
    if rollback is not None:
        service["rollback"] = rollback
    document = {"services": [service | more.pop("service", {})], **more}
    return loads(yaml.safe_dump(document), Source("m.yaml", Path())).settings({})


def mistake(rollback: dict[str, Any], **more: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        settings(rollback, **more)
    return str(caught.value).partition(": services[0].rollback.")[2]


def test_a_service_without_the_key_is_observed() -> None:
    found = settings(None)
    assert found.rollbacks == {}
    assert found.freeze == FleetPolicy()
    assert RollbackSettings().policy.mode is Mode.OBSERVE


def test_an_empty_section_is_the_default_policy() -> None:
    assert settings({}).rollbacks["chat"].policy == Policy()


@pytest.mark.parametrize(
    ("starter", "can"),
    [
        ({"http": {"url": "http://starter"}}, (True, True)),
        ({"command": {"restart": ["x"]}}, (False, True)),
        ({"systemd": {"start": ["plain.service"]}}, (True, False)),
        ({"kubernetes_deployment": {"namespace": "n", "start": {"plain": 1}}}, (True, False)),
    ],
)
def test_what_a_starter_can_do_reaches_the_policy(
    starter: dict[str, Any], can: tuple[bool, bool]
) -> None:
    start = settings({"starter": starter}).rollbacks["chat"].policy.start
    assert (start.can_start, start.can_restart) == can


def test_all_knobs_reach_the_policy() -> None:
    rollback = {
        **ACT,
        "votes": {
            "needed": 2,
            "of": 4,
            "rules": ["harmful"],
            "acceptance_below": 0.2,
            "cures": {"load_crossover": "shift_above"},
            "running_limit": 12,
        },
        "cooldown": "1h",
        "per_day": 5,
        "quiet_hours": ["sat,sun 00:00-00:00 UTC"],
        "approval": "10m",
        "precheck": {"max_running": 64},
        "start": {"deadline": "20m"},
        "shift": {"steps": [0.5, 1.0], "hold": "30s"},
        "verify": {"max_tpot": "50ms"},
        "trial": {"auto": True},
        "starter": {"command": {"start": ["/bin/start-plain"]}},
    }
    found = settings(rollback, rollback_freeze={"least": 5}).rollbacks["chat"]
    policy = found.policy
    assert (policy.voting.needed, policy.voting.rules) == (2, ("harmful",))
    assert policy.voting.cures[Cause.LOAD_CROSSOVER] is Cure.SHIFT_ABOVE
    assert policy.voting.cures[Cause.DRAFTER_DEAD] is Cure.ROLL_BACK
    assert policy.limits.quiet == (parse_weekly("sat,sun 00:00-00:00 UTC"),)
    assert (policy.limits.cooldown, policy.limits.approval) == (3600.0, 600.0)
    assert (policy.shift.steps, policy.shift.hold) == ((0.5, 1.0), 30.0)
    assert (policy.verify.max_tpot, policy.trial.auto) == (0.05, True)
    assert (policy.start.can_start, policy.start.can_restart) == (True, False)
    assert found.actuator is not None
    assert found.starter is not None


@pytest.mark.parametrize(
    ("rollback", "says"),
    [
        ({"mode": "atc"}, "mode: must be 'observe', 'propose' or 'act'"),
        ({"mode": "act"}, "mode: is act, which needs actuator: say there how traffic is moved"),
        ({"quiet_hours": ["always"]}, "quiet_hours[0]: is not a weekly window: write 'mon-fri"),
        ({"votes": {"needed": 6}}, "votes.needed: must not be more than of, which is 5"),
        ({"votes": {"within": "2m"}}, "votes.within: is too short for so many windows"),
        ({"votes": {"rules": ["harmfull"]}}, "votes.rules[0]: is not an alert rule in force; did"),
        ({"votes": {"cures": {"step_cots": "restart"}}}, "votes.cures: has an unknown cause; did"),
        (
            {"votes": {"cures": {"step_cost": "shift_above"}}},
            "votes.cures: has shift_above, which needs votes.running_limit",
        ),
        ({"shift": {"steps": [0.5, 0.5]}}, "shift.steps: must ascend, each share once"),
        ({"shift": {"steps": [0.5, 1.5]}}, "shift.steps[1]: must be less than or equal to 1"),
        (
            {"shift": {"act_timeout": "40s"}},
            "shift.act_timeout: is too long for the lease: an act must be over before that",
        ),
        ({"actuator": {}}, "actuator: must have one of http, command"),
        ({"actuator": {"http": {"url_env": "NO_URL"}}}, "actuator.http.url_env: "),
    ],
)
def test_each_mistake_is_one_line_with_key_and_fix(rollback: dict[str, Any], says: str) -> None:
    assert mistake(rollback).startswith(says)


def test_moving_traffic_needs_somewhere_to_move_it() -> None:
    without = {"baseline": {"curve": "x.json"}}
    assert mistake(ACT, service=without).startswith("mode: is act, which needs baseline.targets")


@pytest.mark.parametrize(
    ("other", "refused"),
    [
        (HOOK, True),
        ({"several": {"actuators": [{"http": {"url": "http://other"}}, HOOK]}}, True),
        ({"http": {"url": "http://router:9000/other"}}, False),
    ],
)
def test_two_services_never_move_the_same_traffic(other: dict[str, Any], refused: bool) -> None:
    services = [
        {
            "name": name,
            "speculative": {"targets": [f"http://{name}:8000"]},
            "baseline": {"targets": [f"http://{name}-plain:8000"]},
            "rollback": {"mode": "act", "actuator": actuator},
        }
        for name, actuator in (("chat", HOOK), ("code", other))
    ]
    text = yaml.safe_dump({"services": services})
    if not refused:
        assert set(loads(text, Source("m.yaml", Path())).settings({}).rollbacks) == {
            "chat",
            "code",
        }
        return
    with pytest.raises(ConfigError) as caught:
        loads(text, Source("m.yaml", Path())).settings({})
    assert "services[1].rollback.actuator: moves the same traffic as that of" in str(caught.value)
    assert "'chat'" in str(caught.value)


def test_what_would_be_done_is_said_in_a_sentence() -> None:
    said = rollback_sentence(settings({**ACT, "mode": "propose"}).rollbacks["chat"])
    assert said == (
        "rollback propose: when 3 of the last 5 windows of 50 % of the targets vote for it, the "
        "monitor proposes to move its traffic, waits 60 min for approval, to the plain servers in "
        "steps of 10 %, 25 %, 50 %, 100 %, each watched for 2 min; at most 2 a day, 2 h apart; "
        "plain servers must be running already: no starter is configured"
    )
    assert rollback_sentence(RollbackSettings()).endswith("say so in the audit, and move nothing")


@pytest.mark.parametrize(
    ("actuator", "how"),
    [
        (HOOK, "in steps of 10 %, 25 %, 50 %, 100 %, each watched for 2 min"),
        (
            {
                "vllm_router": {
                    "url": "http://router",
                    "speculative": ["http://a", "http://b"],
                    "baseline": ["http://c"],
                }
            },
            "in steps of 33.33 %, 50 %, 100 %, each watched for 2 min",
        ),
        (
            {
                "kubernetes_service": {
                    "namespace": "n",
                    "name": "chat",
                    "speculative": {"side": "spec"},
                    "baseline": {"side": "plain"},
                }
            },
            "to the plain servers at once; ",
        ),
    ],
)
def test_the_steps_are_those_that_the_router_can_take(actuator: dict[str, Any], how: str) -> None:
    found = settings({"mode": "act", "actuator": actuator}).rollbacks["chat"]
    assert how in rollback_sentence(found)
