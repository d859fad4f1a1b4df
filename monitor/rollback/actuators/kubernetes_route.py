"""An HTTPRoute of the Gateway API, whose backends have weights."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.cluster import Cluster, Json
from monitor.rollback.actuators.failing import Deadline, PeerError, failing
from monitor.rollback.actuators.shares import any_of, even_weights, is_close, percent

_PEER = "Kubernetes"
_PLACE = ("gateway.networking.k8s.io", "v1")
_PLURAL = "httproutes"


class _Routes:
    name = "HTTPRoute"

    def read(self, client: Any, namespace: str, name: str, timeout: float) -> Any:
        """One GET."""
        from kubernetes.client import CustomObjectsApi  # noqa: PLC0415

        return CustomObjectsApi(client).get_namespaced_custom_object(
            *_PLACE, namespace, _PLURAL, name, _preload_content=False, _request_timeout=timeout
        )

    def patch(self, client: Any, namespace: str, name: str, patch: Json, timeout: float) -> Any:
        """One PATCH."""
        from kubernetes.client import CustomObjectsApi  # noqa: PLC0415

        return CustomObjectsApi(client).patch_namespaced_custom_object(
            *(*_PLACE, namespace, _PLURAL, name, patch),
            _preload_content=False,
            _request_timeout=timeout,
        )


_ROUTES = _Routes()


class RouteActuator:
    """Moves traffic between the backends of one rule."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        speculative: Sequence[str],
        baseline: Sequence[str],
        *,
        rule: int = 0,
        normal_share: float = 0.0,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._speculative = tuple(speculative)
        self._baseline = tuple(baseline)
        self._rule = rule
        self._normal = normal_share

    def observe(self, timeout: float) -> Traffic:
        """The share that the weights amount to."""
        with failing("observe", _PEER):
            route = self._cluster.read(_ROUTES, self._name, self._deadline(timeout))
            share = self._share(route)
        pending = _pending(route)
        if share is None:
            return Traffic(None, f"HTTPRoute {self._name} gives no backend any weight")
        detail = f"HTTPRoute {self._name} gives {percent(share)} to the baseline"
        return Traffic(share, f"{detail}, but {pending}" if pending else detail)

    def shift(self, share: float, act: Act) -> None:
        """Sets the weights, and waits for the gateway to take them up."""
        self._set("shift", share, act)

    def restore(self, act: Act) -> None:
        """Sets the weights of the normal share."""
        self._set("restore", self._normal, act)

    def would(self, share: float) -> str:
        """Which weights would be set."""
        weights = even_weights(share, self._baseline, self._speculative)
        shown = ", ".join(f"{name} {weight}" for name, weight in weights.items())
        return f"would set the weights of HTTPRoute {self._name}: {shown}"

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """Any."""
        return any_of(shares)

    def _set(self, action: str, share: float, act: Act) -> None:
        def change(found: Json) -> Json | None:
            if is_close(self._share(found), share):
                return None
            weights = even_weights(share, self._baseline, self._speculative)
            # Lists are not merged but replaced, so that all rules go with the one that changes.
            rules = deepcopy(found["spec"]["rules"])
            for backend in rules[self._rule]["backendRefs"]:
                backend["weight"] = weights.get(backend["name"], backend.get("weight", 1))
            return {"rules": rules}

        with failing(action, _PEER):
            deadline = self._deadline(act.timeout)
            self._cluster.change(_ROUTES, self._name, act, deadline, change)
            deadline.until(lambda: self._missing(share, deadline))

    def _missing(self, share: float, deadline: Deadline) -> str | None:
        route = self._cluster.read(_ROUTES, self._name, deadline)
        found = self._share(route)
        if not is_close(found, share):
            shown = "unknown" if found is None else percent(found)
            return f"the share is {shown} instead of {percent(share)}"
        return _pending(route)

    def _share(self, route: Json) -> float | None:
        weights = self._backends(route)
        total = sum(weights.values())
        return sum(weights[name] for name in self._baseline) / total if total else None

    def _backends(self, route: Json) -> dict[str, int]:
        """Weights by name, in the order in which they stand in the route."""
        try:
            refs = route["spec"]["rules"][self._rule]["backendRefs"]
            weights = {str(ref["name"]): int(ref.get("weight", 1)) for ref in refs}
            if len(weights) < len(refs):
                raise PeerError(f"HTTPRoute {self._name} names a backend twice", lasting=True)
        except (KeyError, IndexError, TypeError, ValueError):
            message = f"HTTPRoute {self._name} has no rule {self._rule} with backends"
            raise PeerError(message, lasting=True) from None
        missing = [n for n in (*self._speculative, *self._baseline) if n not in weights]
        if missing:
            message = f"HTTPRoute {self._name} has no backend {missing[0]}"
            raise PeerError(message, lasting=True)
        return weights

    def _deadline(self, timeout: float) -> Deadline:
        return Deadline(timeout, self._cluster.clock)


def _pending(route: Json) -> str | None:
    """What the gateways that carry the route still have to say to it, by its status."""
    generation = route["metadata"].get("generation")
    parents = (route.get("status") or {}).get("parents") or []
    for condition in (c for parent in parents for c in parent.get("conditions") or []):
        if condition.get("type") != "Accepted" or not isinstance(generation, int):
            continue
        if condition.get("observedGeneration", generation) < generation:
            return "the gateway has not taken it up"
        if condition.get("status") == "False":
            return f"the gateway refuses it: {condition.get('message', '')}"
    return None
