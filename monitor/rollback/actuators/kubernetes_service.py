"""A Service of Kubernetes whose selector names either side: all traffic, or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.cluster import Cluster, Json
from monitor.rollback.actuators.failing import Deadline, failing
from monitor.rollback.actuators.shares import nearest

_PEER = "Kubernetes"
_POSSIBLE = (0.0, 1.0)


class _Services:
    name = "Service"

    def read(self, client: Any, namespace: str, name: str, timeout: float) -> Any:
        """One GET."""
        from kubernetes.client import CoreV1Api  # noqa: PLC0415

        return CoreV1Api(client).read_namespaced_service(
            name, namespace, _preload_content=False, _request_timeout=timeout
        )

    def patch(self, client: Any, namespace: str, name: str, patch: Json, timeout: float) -> Any:
        """One PATCH."""
        from kubernetes.client import CoreV1Api  # noqa: PLC0415

        return CoreV1Api(client).patch_namespaced_service(
            name, namespace, patch, _preload_content=False, _request_timeout=timeout
        )


_SERVICES = _Services()


class ServiceActuator:
    """Moves all traffic of a Service by its selector."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        speculative: Mapping[str, str],
        baseline: Mapping[str, str],
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._selectors = {0.0: dict(speculative), 1.0: dict(baseline)}

    def observe(self, timeout: float) -> Traffic:
        """Which side the selector names."""
        with failing("observe", _PEER):
            service = self._cluster.read(_SERVICES, self._name, self._deadline(timeout))
        selector = _selector(service)
        for share, known in self._selectors.items():
            if selector == known:
                side = "baseline" if share else "speculative"
                return Traffic(share, f"Service {self._name} selects the {side} side")
        shown = ",".join(f"{name}={text}" for name, text in selector.items()) or "nothing"
        return Traffic(None, f"Service {self._name} selects neither side but {shown}")

    def shift(self, share: float, act: Act) -> None:
        """Makes the selector name the side that gets more."""
        self._set("shift", nearest([share], _POSSIBLE)[0], act)

    def restore(self, act: Act) -> None:
        """Makes the selector name the speculative side."""
        self._set("restore", 0.0, act)

    def would(self, share: float) -> str:
        """The selector that would be set."""
        found = self._selectors[nearest([share], _POSSIBLE)[0]]
        shown = ",".join(f"{name}={text}" for name, text in found.items())
        return f"would set the selector of Service {self._name} to {shown}"

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """All or nothing."""
        return nearest(shares, _POSSIBLE)

    def _set(self, action: str, share: float, act: Act) -> None:
        wanted = self._selectors[share]

        def change(found: Json) -> Json | None:
            selector = _selector(found)
            if selector == wanted:
                return None
            # Merging keeps what is not named, and a label that stayed would select no pod.
            return {"selector": {**dict.fromkeys(selector), **wanted}}

        with failing(action, _PEER):
            deadline = self._deadline(act.timeout)
            self._cluster.change(_SERVICES, self._name, act, deadline, change)

    def _deadline(self, timeout: float) -> Deadline:
        return Deadline(timeout, self._cluster.clock)


def _selector(service: Json) -> Json:
    selector = (service.get("spec") or {}).get("selector")
    return selector if isinstance(selector, dict) else {}
