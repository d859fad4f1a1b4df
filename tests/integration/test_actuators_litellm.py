"""LiteLLM: weights of deployments, against a strict fake of its proxy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_litellm import KEY, Litellm, litellm
from pydantic import SecretStr

from monitor.model import ActuatorError
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.json_api import JsonApi
from monitor.rollback.actuators.litellm import LitellmActuator

ACT = Act("chat-7-2", fence=5, timeout=10.0)


@pytest.fixture
def proxy() -> Iterator[Litellm]:
    with litellm() as server:
        server.add("spec-a")
        server.add("spec-b")
        server.add("plain")
        server.add("elsewhere", model="other", weight=7)
        yield server


def actuator(proxy: Litellm, key: str = KEY) -> LitellmActuator:
    api = JsonApi(proxy.url, bearer=SecretStr(key))
    return LitellmActuator(api, ["spec-a", "spec-b"], ["plain"])


def failure(proxy: Litellm, act: Act = ACT, key: str = KEY) -> ActuatorError:
    with pytest.raises(ActuatorError) as caught:
        actuator(proxy, key).shift(0.5, act)
    return caught.value


def test_weights_are_set_on_all_deployments_of_the_model(proxy: Litellm) -> None:
    moving = actuator(proxy)
    assert moving.observe(5.0).share == pytest.approx(1 / 3)
    moving.shift(0.25, ACT)
    assert proxy.weights() == {"spec-a": 375, "spec-b": 375, "plain": 250, "elsewhere": 7}
    assert moving.observe(5.0).detail == "weights give 25 % to the baseline"
    moving.restore(ACT)
    assert moving.observe(5.0).share == 0
    assert proxy.weights()["plain"] == 0


def test_some_deployment_has_a_weight_at_any_moment(proxy: Litellm) -> None:
    moving = actuator(proxy)
    moving.shift(0.0, ACT)
    proxy.changes.clear()
    moving.shift(1.0, ACT)
    assert proxy.changes == [("plain", 1000), ("spec-a", 0), ("spec-b", 0)]
    proxy.changes.clear()
    moving.shift(1.0, ACT)
    assert proxy.changes == []


def test_others_of_the_same_model_take_their_part(proxy: Litellm) -> None:
    actuator(proxy).shift(1.0, ACT)
    proxy.add("forgotten", weight=1000)
    assert actuator(proxy).observe(5.0).share == 0.5
    proxy.add("unweighted")
    traffic = actuator(proxy).observe(5.0)
    assert traffic.share is None
    assert traffic.detail == "deployment unweighted has no weight, but others have"


def test_a_proxy_that_only_says_so_is_not_believed(proxy: Litellm) -> None:
    proxy.deaf = True
    error = failure(proxy, Act("a", 1, timeout=0.5))
    assert "was set, but is not" in str(error)
    assert error.safe_to_retry


def test_deployments_of_the_file_cannot_be_changed(proxy: Litellm) -> None:
    proxy.add("plain", db=False)
    error = failure(proxy)
    assert str(error) == "LiteLLM: deployment plain is not in LiteLLM's database: it cannot change"
    assert not error.safe_to_retry
    assert proxy.changes == []


def test_wrong_names_keys_and_models_are_told(proxy: Litellm) -> None:
    assert str(failure(proxy, key="wrong")) == 'LiteLLM: HTTP 404: {"detail": "Not Found"}'
    proxy.add("plain", model="another")
    assert "serve several models: another, chat" in str(failure(proxy))
    del proxy.deployments["plain"]
    assert str(failure(proxy)) == "LiteLLM: there is no deployment plain"
