"""A running daemon and model servers whose counters grow with each look at them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scrape_peers import NOT_FOUND, PATIENCE, Conversation, Peer, answer, asks_aside

from monitor.clock import Clock
from monitor.daemon import Daemon
from monitor.settings import DaemonSettings, TargetSettings
from monitor.store.connect import open_store
from monitor.store.repository import Repository

INTERVAL = 0.2
TOKENS = 100.0


def page(tokens: float) -> bytes:
    lines = (
        "# TYPE vllm:num_requests_running gauge",
        'vllm:num_requests_running{engine="0",model_name="m"} 1.0',
        "# TYPE vllm:generation_tokens counter",
        f'vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}',
        "",
    )
    return "\n".join(lines).encode()


class Growing:
    """Each look finds ``TOKENS`` more tokens than the one before."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self, conversation: Conversation) -> None:
        while (head := conversation.request()) is not None:
            if asks_aside(head):
                conversation.send(NOT_FOUND)
                continue
            self.looks += 1
            conversation.send(answer(page(TOKENS * self.looks)))


def hanging(conversation: Conversation) -> None:
    """Never answers, and ends when the client has given up."""
    conversation.request()
    conversation.closed_by_client()


def target(name: str, peer: Peer, *, timeout: float = PATIENCE) -> TargetSettings:
    # The gap is long because a process takes longer to start than two of these intervals.
    return TargetSettings(
        name, "chat", peer.url, interval=INTERVAL, timeout=timeout, gap=2 * PATIENCE
    )


def settings(database: str, *targets: TargetSettings, shutdown: float = 20.0) -> DaemonSettings:
    return DaemonSettings(
        database=database, targets=targets, port=0, shutdown_seconds=shutdown, config_hash="one"
    )


def unchanged() -> DaemonSettings:
    raise AssertionError("nobody asked for a reload")


class Running:
    """A daemon in a thread, and how it ended."""

    def __init__(
        self,
        first: DaemonSettings,
        load: Callable[[], DaemonSettings] = unchanged,
        clock: Clock | None = None,
    ) -> None:
        self.daemon = Daemon(first, load=load, clock=clock)
        self.code: int | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.code = self.daemon.run()
        except BaseException as error:
            self.error = error

    def begin(self) -> None:
        self._thread.start()

    def start(self) -> None:
        self.begin()
        eventually(lambda: self.daemon.started.is_set() or self.error is not None)
        if self.error is not None:
            raise self.error

    def stop(self) -> int | None:
        self.daemon.stop()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.code

    def rounds(self, name: str) -> int:
        return next(view.rounds for view in self.daemon.targets() if view.target == name)


@contextmanager
def running(
    first: DaemonSettings,
    load: Callable[[], DaemonSettings] = unchanged,
    clock: Clock | None = None,
) -> Iterator[Running]:
    stage = Running(first, load, clock)
    stage.start()
    try:
        yield stage
    finally:
        stage.stop()


def eventually(holds: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Waits until something holds that a thread brings about; fails when it never does."""
    pause = threading.Event()
    for _ in range(int(patience / 0.01)):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it did not happen")


def stored_tokens(database: str, name: str) -> tuple[float, bool]:
    """The tokens in the store, and whether its samples follow each other without a gap."""
    engine = open_store(database)
    try:
        samples = Repository(engine).samples(name, 0.0, 1e12)
    finally:
        engine.dispose()
    ends = [sample.end for sample in samples]
    starts = [sample.start for sample in samples]
    return sum(sample.counts.output_tokens for sample in samples), starts[1:] == ends[:-1]
