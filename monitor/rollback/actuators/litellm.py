"""A LiteLLM proxy: weights of the deployments of one model.

By its source (``router_strategy/simple_shuffle.py``), a deployment without a weight gets nothing
as soon as the first one has a weight, and all get the same while that one has none. So each
deployment of both sides is given a weight. Only deployments in LiteLLM's database can be changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from monitor.clock import Clock, SystemClock
from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.failing import Deadline, PeerError, failing
from monitor.rollback.actuators.json_api import JsonApi
from monitor.rollback.actuators.shares import any_of, even_weights, percent

_PEER = "LiteLLM"


@dataclass(frozen=True, slots=True)
class Deployment:
    """What LiteLLM says of a deployment."""

    model: str
    """The name that clients use; traffic is split among all deployments of one name."""
    weight: float | None
    in_database: bool


class LitellmActuator:
    """Moves traffic between deployments of one model."""

    def __init__(
        self,
        api: JsonApi,
        speculative: Sequence[str],
        baseline: Sequence[str],
        *,
        normal_share: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        self._api = api
        self._speculative = tuple(speculative)
        self._baseline = tuple(baseline)
        self._normal = normal_share
        self._clock = clock or SystemClock()

    def observe(self, timeout: float) -> Traffic:
        """The share that the weights amount to."""
        with failing("observe", _PEER):
            known = self._deployments(timeout)
        weights = {name: deployment.weight for name, deployment in known.items()}
        if all(weight is None for weight in weights.values()):
            weights = dict.fromkeys(weights, 1.0)
        without = sorted(name for name, weight in weights.items() if weight is None)
        if without:
            return Traffic(None, f"deployment {without[0]} has no weight, but others have")
        total = sum(weight for weight in weights.values() if weight)
        if not total:
            return Traffic(None, "no deployment has any weight")
        share = sum(weights[name] or 0.0 for name in self._baseline) / total
        return Traffic(share, f"weights give {percent(share)} to the baseline")

    def shift(self, share: float, act: Act) -> None:
        """Sets the weights."""
        self._set("shift", share, act)

    def restore(self, act: Act) -> None:
        """Sets the weights of the normal share."""
        self._set("restore", self._normal, act)

    def would(self, share: float) -> str:
        """Which weights would be set."""
        weights = even_weights(share, self._baseline, self._speculative)
        shown = ", ".join(f"{name} {weight}" for name, weight in weights.items())
        return f"would set weights in LiteLLM: {shown}"

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """Any."""
        return any_of(shares)

    def _set(self, action: str, share: float, act: Act) -> None:
        wanted = even_weights(share, self._baseline, self._speculative)
        deadline = Deadline(act.timeout, self._clock)
        with failing(action, _PEER):
            known = self._deployments(deadline.left())
            fixed = [name for name in wanted if not known[name].in_database]
            if fixed:
                message = f"deployment {fixed[0]} is not in LiteLLM's database: it cannot change"
                raise PeerError(message, lasting=True)
            changes = [name for name in wanted if known[name].weight != wanted[name]]
            # Up before down, so that there is some weight at any moment.
            for name in sorted(changes, key=lambda name: -wanted[name]):
                path = f"/model/{quote(name, safe='')}/update"
                document = {"litellm_params": {"weight": wanted[name]}}
                self._api.order("PATCH", path, deadline.left(), document)
            deadline.until(lambda: self._missing(wanted, deadline.left()))

    def _missing(self, wanted: dict[str, int], timeout: float) -> str | None:
        known = self._deployments(timeout)
        for name, weight in wanted.items():
            if known[name].weight != weight:
                return f"the weight of {name} was set, but is not {weight}"
        return None

    def _deployments(self, timeout: float) -> dict[str, Deployment]:
        """Ours, and all others among which traffic for the same model is split."""
        answer = self._api.get("/model/info", timeout)
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list):
            raise PeerError("the answer is no list of models", lasting=True)
        known = dict(map(_deployment, data))
        ours = (*self._speculative, *self._baseline)
        missing = [name for name in ours if name not in known]
        if missing:
            raise PeerError(f"there is no deployment {missing[0]}", lasting=True)
        models = {known[name].model for name in ours}
        if len(models) > 1:
            message = f"the deployments serve several models: {', '.join(sorted(models))}"
            raise PeerError(message, lasting=True)
        return {name: found for name, found in known.items() if found.model in models}


def _deployment(entry: Any) -> tuple[str, Deployment]:
    try:
        info, params = entry["model_info"], entry["litellm_params"]
        weight = params.get("weight")
        found = Deployment(
            model=str(entry["model_name"]),
            weight=None if weight is None else float(weight),
            in_database=info.get("db_model") is True,
        )
        return str(info["id"]), found
    except (KeyError, TypeError, ValueError, AttributeError):
        raise PeerError("the answer is no list of models", lasting=True) from None
