"""Kubernetes, through the official client, against a strict fake of the API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_kubernetes import Kubernetes, kubernetes

from monitor.model import ActuatorError
from monitor.rollback.actuators import cluster as cluster_module
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.cluster import FENCE, Access, Cluster
from monitor.rollback.actuators.kubernetes_route import RouteActuator
from monitor.rollback.actuators.kubernetes_service import ServiceActuator
from monitor.rollback.actuators.kubernetes_starter import RESTARTED, DeploymentStarter

ACT = Act("chat-7-2", fence=5, timeout=20.0)
SERVICE = "/api/v1/namespaces/llm/services/chat"
ROUTE = "/apis/gateway.networking.k8s.io/v1/namespaces/llm/httproutes/chat"
DEPLOYMENT = "/apis/apps/v1/namespaces/llm/deployments/chat-plain"
SPECULATIVE = {"app": "chat", "side": "speculative", "drafter": "eagle"}
BASELINE = {"app": "chat", "side": "plain"}


@pytest.fixture
def api() -> Iterator[Kubernetes]:
    with kubernetes() as server:
        yield server


@pytest.fixture
def llm(api: Kubernetes, tmp_path: Path) -> Cluster:
    return Cluster(Access(api.kubeconfig(tmp_path)), "llm")


def service(cluster: Cluster) -> ServiceActuator:
    return ServiceActuator(cluster, "chat", SPECULATIVE, BASELINE)


def route(cluster: Cluster, **rest: Any) -> RouteActuator:
    return RouteActuator(cluster, "chat", ["spec-a", "spec-b"], ["plain"], **rest)


def backends(*weights: int | None) -> dict[str, Any]:
    names = ("spec-a", "spec-b", "plain")
    refs = [
        {"name": name, "port": 8000, **({} if weight is None else {"weight": weight})}
        for name, weight in zip(names, weights, strict=True)
    ]
    return {"rules": [{"matches": [{"path": {"value": "/v1"}}], "backendRefs": refs}]}


def failure(actuator: ServiceActuator | RouteActuator, act: Act = ACT) -> ActuatorError:
    with pytest.raises(ActuatorError) as caught:
        actuator.shift(1.0, act)
    assert caught.value.stage == "shift"
    return caught.value


def test_a_service_is_given_the_selector_of_the_other_side(api: Kubernetes, llm: Cluster) -> None:
    api.put(SERVICE, {"selector": dict(SPECULATIVE), "ports": [{"port": 80}]})
    actuator = service(llm)
    assert actuator.observe(5.0).share == 0
    assert actuator.reachable([0.1, 0.5, 1.0]) == (1.0,)
    actuator.shift(1.0, ACT)
    # The whole selector is set: a label of the other side that stayed would select no pod.
    assert api.objects[SERVICE]["spec"] == {"selector": BASELINE, "ports": [{"port": 80}]}
    assert api.objects[SERVICE]["metadata"]["annotations"] == {FENCE: "5"}
    assert actuator.observe(5.0).detail == "Service chat selects the baseline side"
    actuator.restore(ACT)
    assert api.objects[SERVICE]["spec"]["selector"] == SPECULATIVE


def test_what_is_so_already_is_not_patched(api: Kubernetes, llm: Cluster) -> None:
    api.put(SERVICE, {"selector": dict(BASELINE)})
    service(llm).shift(1.0, ACT)
    assert api.requests == [f"GET {SERVICE}"]


def test_a_selector_of_neither_side_is_told(api: Kubernetes, llm: Cluster) -> None:
    api.put(SERVICE, {"selector": {"app": "other"}})
    traffic = service(llm).observe(5.0)
    assert traffic.share is None
    assert traffic.detail == "Service chat selects neither side but app=other"


def test_a_conflict_leads_to_another_look(api: Kubernetes, llm: Cluster) -> None:
    api.put(SERVICE, {"selector": dict(SPECULATIVE)}, annotations={"kept": "yes"})
    rivals = iter([SERVICE, SERVICE])
    api.before_patch = lambda: api.touch(path) if (path := next(rivals, "")) else None
    service(llm).shift(1.0, ACT)
    methods = [request.split()[0] for request in api.requests]
    assert methods == ["GET", "PATCH"] * 3
    assert api.objects[SERVICE]["metadata"]["annotations"] == {"kept": "yes", FENCE: "5"}


def test_endless_conflicts_are_a_failure_that_may_pass(api: Kubernetes, llm: Cluster) -> None:
    api.put(SERVICE, {"selector": dict(SPECULATIVE)})
    api.before_patch = lambda: api.touch(SERVICE)
    error = failure(service(llm))
    assert str(error) == "Kubernetes: Service chat was changed by others all the time"
    assert error.safe_to_retry


def test_who_lost_the_lease_changes_nothing(api: Kubernetes, llm: Cluster) -> None:
    api.put(SERVICE, {"selector": dict(SPECULATIVE)}, annotations={FENCE: "6"})
    error = failure(service(llm))
    assert "it was changed under a later lease (6) than ours (5)" in str(error)
    assert not error.safe_to_retry
    assert api.requests == [f"GET {SERVICE}"]


def test_a_later_lease_that_comes_in_between_is_not_overtaken(
    api: Kubernetes, llm: Cluster
) -> None:
    api.put(SERVICE, {"selector": dict(SPECULATIVE)})

    def overtake() -> None:
        api.put(SERVICE, {"selector": dict(SPECULATIVE)}, annotations={FENCE: "6"})

    api.before_patch = overtake
    assert "later lease (6)" in str(failure(service(llm)))
    assert api.objects[SERVICE]["spec"]["selector"] == SPECULATIVE


def test_weights_of_a_route_are_set_and_nothing_else(api: Kubernetes, llm: Cluster) -> None:
    api.put(ROUTE, backends(1, None, 0))
    actuator = route(llm)
    assert actuator.observe(5.0).share == 0
    actuator.shift(0.25, ACT)
    assert api.objects[ROUTE]["spec"] == backends(375, 375, 250)
    assert actuator.observe(5.0).detail == "HTTPRoute chat gives 25 % to the baseline"
    actuator.shift(1.0, ACT)
    assert api.objects[ROUTE]["spec"] == backends(0, 0, 1000)
    actuator.restore(ACT)
    assert actuator.observe(5.0).share == 0


def test_a_route_is_waited_for_until_the_gateway_has_it(api: Kubernetes, llm: Cluster) -> None:
    api.put(ROUTE, backends(1, 1, 0))

    def gateway(generation: int) -> None:
        accepted = {"type": "Accepted", "status": "True", "observedGeneration": generation}
        api.objects[ROUTE]["status"] = {"parents": [{"conditions": [accepted]}]}

    gateway(1)
    late = Act("late", 5, timeout=0.5)
    error = failure(route(llm), late)
    assert str(error) == "Kubernetes: the gateway has not taken it up within 0.5 s"
    assert error.safe_to_retry
    assert "but the gateway has not taken it up" in route(llm).observe(5.0).detail
    gateway(2)
    route(llm).shift(1.0, late)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"rules": []}, "HTTPRoute chat has no rule 0 with backends"),
        ({"rules": [{"backendRefs": None}]}, "HTTPRoute chat has no rule 0 with backends"),
        (
            {"rules": [{"backendRefs": [{"name": "spec-a"}]}]},
            "HTTPRoute chat has no backend spec-b",
        ),
        ({"rules": [{"backendRefs": [{"name": "x"}, {"name": "x"}]}]}, "names a backend twice"),
    ],
)
def test_routes_that_do_not_fit_are_told(
    api: Kubernetes, llm: Cluster, spec: dict[str, Any], words: str
) -> None:
    api.put(ROUTE, spec)
    error = failure(route(llm))
    assert words in str(error)
    assert not error.safe_to_retry


def test_deployments_are_scaled_up_and_never_down(api: Kubernetes, llm: Cluster) -> None:
    api.put(DEPLOYMENT, {"replicas": 0, "template": {"metadata": {"labels": {"a": "b"}}}})
    starter = DeploymentStarter(llm, {"chat-plain": 4})
    starter.start(ACT)
    assert api.objects[DEPLOYMENT]["spec"]["replicas"] == 4
    api.put(DEPLOYMENT, {"replicas": 6})
    starter.start(ACT)
    assert api.objects[DEPLOYMENT]["spec"]["replicas"] == 6
    assert starter.would_start() == "would scale Deployment chat-plain to 4"
    with pytest.raises(ActuatorError, match="no Deployments are configured to restart"):
        starter.restart(ACT)


def test_a_restart_that_is_asked_for_twice_happens_once(api: Kubernetes, llm: Cluster) -> None:
    api.put(DEPLOYMENT, {"template": {"metadata": {"labels": {"a": "b"}}}})
    starter = DeploymentStarter(llm, {}, ["chat-plain"])
    for _ in range(2):
        starter.restart(ACT)
    metadata = api.objects[DEPLOYMENT]["spec"]["template"]["metadata"]
    assert metadata == {"labels": {"a": "b"}, "annotations": {RESTARTED: "chat-7-2"}}
    assert api.objects[DEPLOYMENT]["metadata"]["generation"] == 2
    starter.restart(Act("chat-8-1", fence=5, timeout=20.0))
    assert api.objects[DEPLOYMENT]["metadata"]["generation"] == 3


def test_what_is_missing_or_forbidden_is_told_in_the_servers_words(
    api: Kubernetes, llm: Cluster
) -> None:
    error = failure(service(llm))
    assert str(error) == 'Kubernetes: HTTP 404: "chat" not found'
    assert not error.safe_to_retry


def test_a_server_that_hangs_does_not_hold_us(api: Kubernetes, llm: Cluster) -> None:
    api.hangs = True
    error = failure(service(llm), Act("a", 5, timeout=0.5))
    assert str(error) == "Kubernetes: no answer within 0.5 s"
    assert error.safe_to_retry


def test_a_server_that_is_away_is_a_failure_that_may_pass(tmp_path: Path) -> None:
    with kubernetes() as gone:
        access = Access(gone.kubeconfig(tmp_path))
    error = failure(service(Cluster(access, "llm")))
    assert str(error) == "Kubernetes: the connection failed: Connection refused"
    assert error.safe_to_retry


def test_no_access_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").write_text("{}")
    for access in (Access(str(tmp_path / "empty")), Access(None)):
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        error = failure(service(Cluster(access, "llm")))
        assert str(error).startswith("Kubernetes: no access to Kubernetes: ")
        assert not error.safe_to_retry


def test_the_client_is_only_imported_when_it_is_used() -> None:
    assert not any(name == "kubernetes" for name in vars(cluster_module))
