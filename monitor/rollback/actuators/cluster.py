"""A Kubernetes cluster through the official client: objects are read, compared and patched.

Each patch names the version of the object that it was made for, so that the API server refuses
it (409) where somebody was faster; then the object is read again. The fencing number of the
lease is kept in an annotation, and an order under a lower one is not carried out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any, Protocol

from urllib3.exceptions import HTTPError

from monitor.clock import Clock, SystemClock
from monitor.rollback.actuators.base import Act
from monitor.rollback.actuators.failing import Deadline, PeerError
from monitor.sources.errors import lasts
from monitor.sources.session import failure

FENCE = "specdec-monitor/fence"
"""Annotation with the number of the lease under which an object was changed last."""
MISSING = "needs the kubernetes package: pip install 'specdec-monitor[kubernetes]'"
_TRIES = 10
_SHOWN = 200

Json = dict[str, Any]
Change = Callable[[Json], Json | None]
"""From an object as it is to what must be merged into its spec; None where nothing must be."""


def is_installed() -> bool:
    """Whether the official client can be imported; that takes half a second, so it is late."""
    return find_spec("kubernetes") is not None


@dataclass(frozen=True, slots=True)
class Access:
    """How the API server is reached."""

    kubeconfig: str | None = None
    """None: the service account of the pod that we run in."""
    context: str | None = None


class Kind(Protocol):
    """Calls of the official client for one kind of object, whose answers are not unpacked."""

    name: str

    def read(self, client: Any, namespace: str, name: str, timeout: float) -> Any:
        """The object."""
        ...

    def patch(self, client: Any, namespace: str, name: str, patch: Json, timeout: float) -> Any:
        """Merges a patch into it."""
        ...


class Cluster:
    """The objects of one namespace. Not for two threads at a time."""

    def __init__(self, access: Access, namespace: str, clock: Clock | None = None) -> None:
        self._access = access
        self._namespace = namespace
        self.clock = clock or SystemClock()
        self._client: Any = None

    def read(self, kind: Kind, name: str, deadline: Deadline) -> Json:
        """An object as it is; raises ``PeerError`` or ``FetchError``."""
        return self._call(
            deadline, lambda client, left: kind.read(client, self._namespace, name, left)
        )

    def change(self, kind: Kind, name: str, act: Act, deadline: Deadline, change: Change) -> None:
        """Patches the spec of an object until nobody is faster.

        Raises:
            PeerError: it cannot be, or was done under a later lease.
        """
        for _ in range(_TRIES):
            found = self.read(kind, name, deadline)
            _check_fence(found, act)
            spec = change(found)
            if spec is None:
                return
            if self._patch(kind, name, {"metadata": _guard(found, act), "spec": spec}, deadline):
                return
        raise PeerError(f"{kind.name} {name} was changed by others all the time")

    def _patch(self, kind: Kind, name: str, patch: Json, deadline: Deadline) -> bool:
        """Whether the object still was as it had been read."""
        try:
            self._call(
                deadline,
                lambda client, left: kind.patch(client, self._namespace, name, patch, left),
            )
        except _ConflictError:
            return False
        return True

    def _call(self, deadline: Deadline, ask: Callable[[Any, float], Any]) -> Json:
        from kubernetes.client.exceptions import ApiException  # noqa: PLC0415

        left = deadline.left()
        try:
            answer = ask(self._connected(), left)
            document = json.loads(answer.data)
        except ApiException as error:
            raise _refusal(error) from None
        except (HTTPError, OSError) as error:
            raise failure(error, left) from None
        except ValueError:
            raise PeerError("the answer is not JSON") from None
        if not isinstance(document, dict) or not isinstance(document.get("metadata"), dict):
            raise PeerError("the answer is no object of Kubernetes")
        return document

    def _connected(self) -> Any:
        if self._client is None:
            self._client = connect(self._access)
        return self._client


class _ConflictError(PeerError):
    """The object was changed since it was read."""


def connect(access: Access) -> Any:
    """A client of the API server; nothing is asked yet."""
    from kubernetes import client, config  # noqa: PLC0415

    settings = client.Configuration()
    try:
        if access.kubeconfig is None:
            config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
        else:
            config.load_kube_config(  # type: ignore[no-untyped-call]
                access.kubeconfig,
                access.context,
                client_configuration=settings,
                persist_config=False,
            )
    except config.ConfigException as error:
        raise PeerError(f"no access to Kubernetes: {error}", lasting=True) from None
    # We try again ourselves, within our own deadline; and redirects are not followed.
    settings.retries = False
    return client.ApiClient(settings)


def _check_fence(found: Json, act: Act) -> None:
    text = (found["metadata"].get("annotations") or {}).get(FENCE, "")
    if isinstance(text, str) and text.isdecimal() and int(text) > act.fence:
        message = (
            f"it was changed under a later lease ({text}) than ours ({act.fence}); where the "
            f"database is a new one, remove the annotation {FENCE}"
        )
        raise PeerError(message, lasting=True)


def _guard(found: Json, act: Act) -> Json:
    # A version in a patch makes the server compare it with that of the object.
    version = found["metadata"].get("resourceVersion")
    return {"resourceVersion": version, "annotations": {FENCE: str(act.fence)}}


def _refusal(error: Any) -> PeerError:
    status = error.status if isinstance(error.status, int) else 0
    if status == HTTPStatus.CONFLICT:
        return _ConflictError("it was changed by others")
    try:
        said = json.loads(error.body)["message"]
    except (TypeError, ValueError, KeyError):
        said = error.reason
    text = f"HTTP {status}: {said}"[:_SHOWN] if status else f"no answer: {said}"[:_SHOWN]
    return PeerError(text, lasting=lasts(status))
