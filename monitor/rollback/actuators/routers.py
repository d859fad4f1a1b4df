"""Routers without weights: traffic is split by which workers they have.

Workers are added before others are removed, and a worker that is to take over only counts once
the router lists it as healthy, so that there is never a moment without one. Each change is
believed when it is seen in the list: sglang-router adds and removes in the background, and
vllm-router says "removed" of workers that it never had. Which workers belong to which side stands
in the configuration, so that restoring needs no memory. Tried with sglang-router 0.3.2 and
vllm-router 0.1.17; neither takes a worker in that is not healthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from pydantic import SecretStr

from monitor.clock import Clock, SystemClock
from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.actuators.failing import Deadline, PeerError, failing
from monitor.rollback.actuators.json_api import JsonApi
from monitor.rollback.actuators.shares import nearest, percent
from monitor.sources.errors import FetchError


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker as the router lists it."""

    id: str
    """By which it is removed."""
    healthy: bool


class Dialect(Protocol):
    """What differs between routers: how a worker is added and removed."""

    name: str

    def add(self, api: JsonApi, url: str, timeout: float) -> None:
        """Orders a worker to be added."""
        ...

    def remove(self, api: JsonApi, worker: Worker, timeout: float) -> None:
        """Orders a worker to be removed."""
        ...


class SglangRouter:
    """sglang-router, which takes orders (202) and carries them out later."""

    name = "sglang-router"

    def __init__(self, worker_key: SecretStr | None = None) -> None:
        self._key = worker_key

    def add(self, api: JsonApi, url: str, timeout: float) -> None:
        """With the key that the worker wants, if it wants one."""
        document = {"url": url}
        if self._key is not None:
            document["api_key"] = self._key.get_secret_value()
        api.order("POST", "/workers", timeout, document)

    def remove(self, api: JsonApi, worker: Worker, timeout: float) -> None:
        """By the id that the router gave it."""
        api.order("DELETE", f"/workers/{quote(worker.id, safe='')}", timeout)


class VllmRouter:
    """vllm-router, which answers once a new worker is healthy."""

    name = "vllm-router"

    def add(self, api: JsonApi, url: str, timeout: float) -> None:
        """Waits for the worker, for ever if it is dead."""
        api.order("POST", "/workers", timeout, {"url": url})

    def remove(self, api: JsonApi, worker: Worker, timeout: float) -> None:
        """By its URL, which is its id here."""
        api.order("DELETE", f"/workers/{quote(worker.id, safe='')}", timeout)


class RouterActuator:
    """Moves traffic by adding and removing workers.

    On the way over, baseline workers are added one by one beside all speculative ones, and then
    speculative ones are removed one by one, in the order of the configuration. So a share stands
    for one set of workers, and there are never fewer of them than the smaller side has.
    """

    def __init__(
        self,
        dialect: Dialect,
        url: str,
        speculative: Sequence[str],
        baseline: Sequence[str],
        *,
        bearer: SecretStr | None = None,
        ca_file: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._dialect = dialect
        self._api = JsonApi(url.rstrip("/"), bearer=bearer, ca_file=ca_file)
        self._speculative = tuple(map(_normal, speculative))
        self._baseline = tuple(map(_normal, baseline))
        self._ours = {*self._speculative, *self._baseline}
        self._clock = clock or SystemClock()

    def observe(self, timeout: float) -> Traffic:
        """The share of the baseline's workers among the healthy ones."""
        with failing("observe", self._dialect.name):
            workers = self._workers(timeout)
        healthy = {url for url, worker in workers.items() if worker.healthy}
        baseline = len(healthy.intersection(self._baseline))
        # A sick worker may be back at any moment, so that its side is not said to be without it.
        speculative = len(workers.keys() & set(self._speculative))
        others = len(healthy.difference(self._baseline, self._speculative))
        detail = f"{baseline} baseline and {speculative} speculative workers"
        if others:
            detail += f", beside {others} that belong to neither side"
        sick = sorted(workers.keys() - healthy)
        if sick:
            detail += f"; not healthy: {', '.join(sick)}"
        total = baseline + speculative + others
        return Traffic(baseline / total if total else None, detail)

    def shift(self, share: float, act: Act) -> None:
        """Brings the workers to those that stand for the nearest share."""
        baseline, speculative = self._counts(share)
        wanted = {*self._baseline[:baseline], *self._speculative[:speculative]}
        deadline = Deadline(act.timeout, self._clock)
        with failing("shift", self._dialect.name):
            taking_over = self._add(wanted, deadline)
            deadline.until(lambda: self._not_healthy(taking_over, deadline.left()))
            self._remove(wanted, deadline)

    def restore(self, act: Act) -> None:
        """All speculative workers of the configuration, and none of the baseline's.

        One of them that is sick does not keep the baseline's workers in place: it was so before,
        or the baseline side is worse. That it is missing is told once the others serve.
        """
        wanted = set(self._speculative)
        deadline = Deadline(act.timeout, self._clock)
        with failing("restore", self._dialect.name):
            missing = wanted - self._workers(deadline.left()).keys()
            patience = act.timeout / 2 / max(len(missing), 1)
            for url in sorted(missing):
                with suppress(PeerError, FetchError):
                    self._dialect.add(self._api, url, min(patience, deadline.left()))
            with suppress(PeerError):
                Deadline(patience, self._clock).until(
                    lambda: self._not_healthy(wanted, deadline.left())
                )
            self._remove(wanted, deadline)
            absent = sorted(wanted - self._workers(deadline.left()).keys())
            if absent:
                raise PeerError(f"traffic is back, but {absent[0]} could not be added")

    def would(self, share: float) -> str:
        """How many workers of each side there would be."""
        baseline, speculative = self._counts(share)
        return (
            f"would leave {baseline} baseline and {speculative} speculative workers in "
            f"{self._dialect.name}: {percent(baseline / (baseline + speculative))} to the baseline"
        )

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        """The nearest splits by number of workers."""
        return nearest(shares, self._steps())

    def _steps(self) -> dict[float, tuple[int, int]]:
        """Baseline and speculative workers by share, along the one way that is ever taken."""
        all_baseline, all_speculative = len(self._baseline), len(self._speculative)
        way = [(count, all_speculative) for count in range(all_baseline + 1)]
        way += [(all_baseline, count) for count in reversed(range(all_speculative))]
        return {baseline / (baseline + rest): (baseline, rest) for baseline, rest in way}

    def _counts(self, share: float) -> tuple[int, int]:
        steps = self._steps()
        return steps[nearest([share], steps)[0]]

    def _add(self, wanted: set[str], deadline: Deadline) -> set[str]:
        """Adds what is missing, and gives those that must be healthy before others may go.

        That are the new ones, and all of the side that gains; one of the other side may be sick,
        which may be the very reason for moving.
        """
        listed = self._workers(deadline.left()).keys()
        for url in sorted(wanted - listed):
            try:
                self._dialect.add(self._api, url, deadline.left())
            except PeerError:
                # Whoever was faster, or an earlier try of ours, leaves nothing to be done.
                if url not in self._workers(deadline.left()):
                    raise
        leaving = (self._ours - wanted) & listed
        gaining = {
            *(self._baseline if leaving.intersection(self._speculative) else ()),
            *(self._speculative if leaving.intersection(self._baseline) else ()),
        }
        return (wanted - listed) | (wanted & gaining)

    def _remove(self, wanted: set[str], deadline: Deadline) -> None:
        """Removes those of ours that are not wanted."""
        for url in sorted(self._ours - wanted):
            listed = self._workers(deadline.left())
            if url not in listed:
                continue
            # Looked at before each removal: a worker may have died since it was added.
            if not any(listed[other].healthy for other in wanted if other in listed):
                raise PeerError(f"{url} is kept, as no other worker is healthy")
            try:
                self._dialect.remove(self._api, listed[url], deadline.left())
            except PeerError:
                if url in self._workers(deadline.left()):
                    raise
        deadline.until(lambda: self._still_there(self._ours - wanted, deadline.left()))

    def _not_healthy(self, wanted: Iterable[str], timeout: float) -> str | None:
        listed = self._workers(timeout)
        for url in sorted(wanted):
            if url not in listed:
                return f"{url} was added, but is not listed"
            if not listed[url].healthy:
                return f"{url} was added, but is not healthy"
        return None

    def _still_there(self, unwanted: Iterable[str], timeout: float) -> str | None:
        left = sorted(set(unwanted) & self._workers(timeout).keys())
        return f"{left[0]} was removed, but is still listed" if left else None

    def _workers(self, timeout: float) -> dict[str, Worker]:
        answer = self._api.get("/workers", timeout)
        listed = answer.get("workers") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise PeerError("the answer is no list of workers", lasting=True)
        return dict(map(_worker, listed))


def _worker(entry: Any) -> tuple[str, Worker]:
    url = entry.get("url") if isinstance(entry, dict) else None
    if not isinstance(url, str):
        raise PeerError("the answer is no list of workers", lasting=True)
    return _normal(url), Worker(str(entry.get("id") or url), entry.get("is_healthy") is True)


def _normal(url: str) -> str:
    return url.rstrip("/")
