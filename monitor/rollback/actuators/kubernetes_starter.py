"""Deployments of Kubernetes: scaled up to start a side, rolled over to restart it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.cluster import Change, Cluster, Json
from monitor.rollback.actuators.failing import Deadline, PeerError, failing

_PEER = "Kubernetes"
RESTARTED = "specdec-monitor/restarted"
"""Annotation of the pods with the id of the act that restarted them."""


class _Deployments:
    name = "Deployment"

    def read(self, client: Any, namespace: str, name: str, timeout: float) -> Any:
        """One GET."""
        from kubernetes.client import AppsV1Api  # noqa: PLC0415

        return AppsV1Api(client).read_namespaced_deployment(
            name, namespace, _preload_content=False, _request_timeout=timeout
        )

    def patch(self, client: Any, namespace: str, name: str, patch: Json, timeout: float) -> Any:
        """One PATCH."""
        from kubernetes.client import AppsV1Api  # noqa: PLC0415

        return AppsV1Api(client).patch_namespaced_deployment(
            name, namespace, patch, _preload_content=False, _request_timeout=timeout
        )


_DEPLOYMENTS = _Deployments()


class DeploymentStarter:
    """Scales Deployments of the baseline side up, and restarts those of the speculative one."""

    def __init__(
        self, cluster: Cluster, start: Mapping[str, int], restart: Sequence[str] = ()
    ) -> None:
        self._cluster = cluster
        self._start = dict(start)
        self._restart = tuple(restart)

    def start(self, act: Act) -> None:
        """Scales up to the replicas that are configured; never down."""
        self._change(
            "start", act, {n: partial(_scaled, count) for n, count in self._start.items()}
        )

    def restart(self, act: Act) -> None:
        """Notes the act at the pods, which makes Kubernetes replace them, once for each act."""
        self._change("restart", act, dict.fromkeys(self._restart, partial(_restarted, act)))

    def would_start(self) -> str:
        """The replicas that would be set."""
        if not self._start:
            return "could not: no Deployments are configured"
        shown = ", ".join(f"{name} to {replicas}" for name, replicas in self._start.items())
        return f"would scale Deployment {shown}"

    def would_restart(self) -> str:
        """The Deployments whose pods would be replaced."""
        if not self._restart:
            return "could not: no Deployments are configured"
        return f"would restart Deployment {', '.join(self._restart)}"

    def _change(self, action: str, act: Act, changes: Mapping[str, Change]) -> None:
        deadline = Deadline(act.timeout, self._cluster.clock)
        with failing(action, _PEER):
            if not changes:
                raise PeerError(f"no Deployments are configured to {action}", lasting=True)
            for name, change in changes.items():
                self._cluster.change(_DEPLOYMENTS, name, act, deadline, change)


def _scaled(wanted: int, found: Json) -> Json | None:
    replicas = (found.get("spec") or {}).get("replicas", 1)
    if not isinstance(replicas, int):
        raise PeerError("the Deployment tells no number of replicas")
    return None if replicas >= wanted else {"replicas": wanted}


def _restarted(act: Act, found: Json) -> Json | None:
    pods = ((found.get("spec") or {}).get("template") or {}).get("metadata") or {}
    if (pods.get("annotations") or {}).get(RESTARTED) == act.id:
        return None
    return {"template": {"metadata": {"annotations": {RESTARTED: act.id}}}}
