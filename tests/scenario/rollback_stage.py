"""A simulated service with two sides and a router, and an executor over it, on a fake clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rollback_values import GAIN, LOSS, MODEL, NOON, SERVER, assessment

from monitor.clock import FakeClock
from monitor.model import ActuatorError, Cause, Estimate, Identity, LeaseError, StoreError, Verdict
from monitor.rollback.actuators.base import Act, Traffic
from monitor.rollback.asks import attainable
from monitor.rollback.evidence import Circumstances, Completion, Look, Progress, Pulse
from monitor.rollback.executor import Executor
from monitor.rollback.fleet import FLEET
from monitor.rollback.hands import Gear
from monitor.rollback.model import Command, Kind, News, Order, Phase
from monitor.rollback.ports import Record, StepRow
from monitor.rollback.probe import ServiceProbe
from monitor.rollback.settings import Mode, Policy, Precheck, Start
from monitor.rollback.state import State

POLICY = Policy(
    mode=Mode.ACT, precheck=Precheck(max_running=64.0), start=Start(True, can_restart=True)
)
TICK = 5.0
SCRAPE = 15.0


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Fuse:
    """Ends the process at the nth point at which something leaves it or comes in."""

    at: int | None = None
    points: int = 0

    def burn(self) -> None:
        self.points += 1
        if self.points == self.at:
            raise Crash


@dataclass
class Server:
    """All servers of one side as one."""

    name: str
    up: bool = True
    hangs: bool = False
    page_down: bool = False
    load_seconds: float = 1500.0
    ready_at: float | None = None
    capacity: float = 64.0
    tpot: float = 0.02
    error_share: float = 0.0
    model: str = MODEL
    birth: float = 1.0
    running: float = 0.0
    waiting: float = 0.0
    tokens: float = 1e6
    decode_seconds: float = 1e4
    requests: float = 1e4
    failures: float = 0.0

    def load(self, now: float) -> None:
        if not self.up and self.ready_at is None:
            self.ready_at = now + self.load_seconds

    def serve(self, now: float, seconds: float, running: float) -> None:
        if self.ready_at is not None and now >= self.ready_at:
            self.up, self.ready_at, self.birth = True, None, now
            self.tokens = self.decode_seconds = self.requests = self.failures = 0.0
        self.running = min(running, self.capacity)
        self.waiting = max(running - self.capacity, 0.0)
        if self.up and not self.hangs:
            tokens = seconds * self.running / self.tpot
            self.tokens += tokens
            self.decode_seconds += tokens * self.tpot
            self.requests += tokens / 100.0
            self.failures += self.error_share * tokens / 100.0


@dataclass
class World:
    """The traffic, the router and both sides."""

    clock: FakeClock
    baseline: Server = field(default_factory=lambda: Server("plain-1"))
    speculative: Server = field(default_factory=lambda: Server("chat-1", tpot=0.03))
    share: float = 0.0
    running: float = 8.0
    neighbour: float = 0.0
    """Running requests of another service that has the same baseline side."""
    applied: Counter[str] = field(default_factory=Counter)
    """How often each act changed anything."""
    fences: list[int] = field(default_factory=list)
    needless: int = 0
    """Orders for a share that is set already."""
    router_down: bool = False
    router_lies: bool = False
    router_forgets: bool = False
    """It does what it is told, and neither answers nor says where traffic goes."""
    has_weights: bool = True
    started: int = 0

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        now = self.clock.utc()
        self.baseline.serve(now, seconds, self.running * self.share + self.neighbour)
        self.speculative.serve(now, seconds, self.running * (1.0 - self.share))


class Router:
    """An actuator and a starter that apply an act once, whatever is asked."""

    def __init__(self, world: World, fuse: Fuse) -> None:
        self._world = world
        self._fuse = fuse

    def observe(self, timeout: float) -> Traffic:  # noqa: ARG002
        self._fuse.burn()
        if self._world.router_down or self._world.router_forgets:
            raise ActuatorError("the router refuses", stage="observe")
        return Traffic(self._world.share, f"{100.0 * self._world.share:.0f} % at plain-1")

    def shift(self, share: float, act: Act) -> None:
        if share == self._world.share:
            self._world.needless += 1
        self._once(act, "shift")
        if not self._world.router_lies and self._world.share != share:
            self._world.share = share
            self._world.applied[act.id] += 1
        self._fuse.burn()
        if self._world.router_forgets:
            raise ActuatorError("the router does not answer", stage="shift")

    def restore(self, act: Act) -> None:
        self._once(act, "restore")
        if self._world.share != 0.0:
            self._world.share = 0.0
            self._world.applied[act.id] += 1
        self._fuse.burn()

    def start(self, act: Act) -> None:
        self._once(act, "start")
        if act.id not in self._world.applied:
            self._world.applied[act.id] += 1
            self._world.started += 1
            self._world.baseline.load(self._world.clock.utc())
        self._fuse.burn()

    def restart(self, act: Act) -> None:
        self._once(act, "restart")
        if act.id not in self._world.applied:
            self._world.applied[act.id] += 1
            self._world.speculative.up = False
            self._world.speculative.load(self._world.clock.utc())
        self._fuse.burn()

    def would(self, share: float) -> str:
        return f"would give plain-1 {share}"

    def would_start(self) -> str:
        return "would start plain-1"

    def would_restart(self) -> str:
        return "would restart chat-1"

    def reachable(self, shares: Sequence[float]) -> tuple[float, ...]:
        return tuple(shares) if self._world.has_weights else (1.0,)

    def _once(self, act: Act, stage: str) -> None:
        self._fuse.burn()
        self._world.fences.append(act.fence)
        if self._world.router_down:
            raise ActuatorError("the router refuses", stage=stage)


class Looks:
    """A probe of both sides."""

    def __init__(self, world: World) -> None:
        self._world = world

    def complete_baseline(self, timeout: float) -> tuple[Completion, ...]:
        return self._complete(self._world.baseline, timeout)

    def complete_speculative(self, timeout: float) -> tuple[Completion, ...]:
        return self._complete(self._world.speculative, timeout)

    def pulse_baseline(self, timeout: float) -> tuple[Pulse, ...]:  # noqa: ARG002
        return self._pulse(self._world.baseline)

    def pulse_speculative(self, timeout: float) -> tuple[Pulse, ...]:  # noqa: ARG002
        return self._pulse(self._world.speculative)

    def progress_baseline(self, timeout: float) -> Progress:  # noqa: ARG002
        return self._progress(self._world.baseline)

    def progress_speculative(self, timeout: float) -> Progress:  # noqa: ARG002
        return self._progress(self._world.speculative)

    def _complete(self, server: Server, timeout: float) -> tuple[Completion, ...]:
        now = self._world.clock.utc()
        if not server.up:
            return (Completion(server.name, now, 0.0, error="connection refused"),)
        if server.hangs:
            return (Completion(server.name, now, timeout, error=f"no answer in {timeout:.0f} s"),)
        server.tokens += 8.0
        return (Completion(server.name, now, 0.4, 8, server.model),)

    def _pulse(self, server: Server) -> tuple[Pulse, ...]:
        now = self._world.clock.utc()
        if not server.up or server.page_down:
            return (Pulse(server.name, now, error="connection refused"),)
        return (
            Pulse(
                server.name, now, server.running, server.waiting, server.tokens,
                server.decode_seconds, server.tokens, server.requests, server.failures,
                server.model, server.birth,
            ),
        )  # fmt: skip

    def _progress(self, server: Server) -> Progress:
        now = self._world.clock.utc()
        left = None if server.ready_at is None else server.ready_at - now
        # At first nothing answers at all.
        mark = "refused" if left is None or left > 1500.0 else "503"
        return Progress(now, mark)


class Book:
    """A journal in memory, which only takes what comes under the newest number."""

    def __init__(self, fuse: Fuse) -> None:
        self._fuse = fuse
        self.states: dict[str, str] = {}
        self.phases: list[str] = []
        self.news: list[News] = []
        self.steps: dict[str, StepRow] = {}
        self.waiting: list[Command] = []
        self.fence = 0
        self.is_down = False
        self.is_full = False
        """Whether it can be read and not written."""

    def load(self, service: str) -> str | None:
        self._open()
        return self.states.get(service)

    def commands(self, service: str) -> Sequence[Command]:
        self._open()
        return [command for command in self.waiting if command.service == service]

    def ask(self, command: Command) -> None:
        """An operator writes an order."""
        self.waiting.append(command)

    def lead(self) -> int:
        """Another process takes the lease."""
        self.fence += 1
        return self.fence

    def save(self, record: Record, fence: int) -> None:
        self._fuse.burn()
        self._open()
        if self.is_full:
            raise StoreError("the disk is full")
        if fence < self.fence:
            raise LeaseError("the lease belongs to another process")
        if record.service != FLEET:
            State.from_json(record.state)
        self.states[record.service] = record.state
        self.phases.append(record.phase)
        self.news += record.news
        self.steps |= {row.id: row for row in record.steps}
        self.waiting = [command for command in self.waiting if command.id not in record.taken]
        self._fuse.burn()

    def _open(self) -> None:
        if self.is_down:
            raise StoreError("the database is gone")


class Held:
    """The lease of one process."""

    def __init__(self, book: Book) -> None:
        self.number: int | None = book.lead()
        self.left = 30.0

    def fence(self) -> int | None:
        return self.number

    def remaining(self) -> float:
        return self.left if self.number is not None else 0.0


class Stage:
    """Plays a story: traffic flows, pages are judged, orders come, processes die."""

    def __init__(
        self, policy: Policy = POLICY, *, fuse: Fuse | None = None, book: Book | None = None
    ) -> None:
        self.clock = FakeClock(NOON)
        self.world = World(self.clock)
        self.fuse = fuse or Fuse()
        self.book = book or Book(self.fuse)
        self.policy = policy
        self.identity: Identity = SERVER
        self.speedup: Estimate | None = GAIN
        self.cause: Cause | None = Cause.WEAK_DRAFTER
        self.is_watched = True
        self.is_probed = True
        self.is_warming_up = False
        self.around = Circumstances()
        self.restarts = 0
        self._scraped_at = -SCRAPE
        self._due = 0.0
        self.begin()

    def begin(self) -> None:
        """A new process, with a lease of its own."""
        self.lease = Held(self.book)
        self.executor = Executor(
            "chat", self._gear(), journal=self.book, lease=self.lease, clock=self.clock,
            now=self.clock.utc,
        )  # fmt: skip
        self._due = self.clock.monotonic()

    def reload(self) -> None:
        """The same process goes on with another policy."""
        self.executor.use(self._gear())

    def _gear(self) -> Gear:
        router = Router(self.world, self.fuse)
        policy = attainable(self.policy, router.reachable)
        looks = Looks(self.world) if self.is_probed else ServiceProbe((), ())
        return Gear(policy, looks, router, router, lambda: self.around)

    def where(self) -> Phase:
        """As it is stored: a process that has just begun knows nothing yet."""
        return Phase(self.book.phases[-1]) if self.book.phases else Phase.ARMED

    @property
    def told(self) -> list[Kind]:
        """What people were told, each once in a row."""
        kinds = [news.kind for news in self.book.news]
        return [kind for n, kind in enumerate(kinds) if n == 0 or kinds[n - 1] is not kind]

    def last(self) -> Kind:
        """What they were told last."""
        return self.book.news[-1].kind

    @property
    def pages(self) -> list[str]:
        """What somebody was woken for."""
        return [news.sentence for news in self.book.news if news.pages]

    def hurt(self) -> None:
        """Speculation begins to cost."""
        self.speedup = LOSS

    def mend(self, version: str = "0.11.1") -> None:
        """Somebody puts a fixed version on the speculative side."""
        self.speedup = GAIN
        self.identity = SERVER._replace(engine_version=version)

    def order(self, order: Order, **changes: object) -> None:
        key = f"o{len(self.book.waiting)}-{self.clock.utc()}"
        command = Command(key, "chat", order, "anna", self.clock.utc(), **changes)  # type: ignore[arg-type]
        self.book.ask(command)

    def run(self, seconds: float, *, until: Phase | None = None, tick: float = TICK) -> None:
        """Lets time pass, until a phase is reached where one is named."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end and (until is None or self.where() is not until):
            self.world.advance(tick)
            self._scrape()
            if self.clock.monotonic() >= self._due:
                self._turn()
        assert until is None or self.where() is until, (self.where(), self.pages)

    def _turn(self) -> None:
        try:
            self._due = self.clock.monotonic() + max(self.executor.turn(), TICK)
        except StoreError:
            self._due = self.clock.monotonic() + TICK
        except Crash:
            self.restarts += 1
            self.begin()

    def _scrape(self) -> None:
        if not self.is_watched or self.clock.monotonic() - self._scraped_at < SCRAPE:
            return
        self._scraped_at = self.clock.monotonic()
        self.executor.take(self._tick())

    def _tick(self) -> Look:
        """What the monitor makes of the page of the speculative side."""
        now, server = self.clock.utc(), self.world.speculative
        share = 1.0 - self.world.share
        if not server.up or server.hangs:
            down = assessment(now, verdict=Verdict.DOWN, cause=None, speedup=None)
            return Look(down._replace(window=None, identity=Identity()), fresh=False)
        if self.is_warming_up:
            fresh = assessment(
                now, verdict=Verdict.INSUFFICIENT, cause=None, speedup=None,
                identity=self.identity,
            )  # fmt: skip
            window = None if fresh.window is None else fresh.window._replace(warming_up=True)
            return Look(fresh._replace(window=window), fresh=True)
        if share * self.world.running < 0.2:
            idle = assessment(
                now, verdict=Verdict.IDLE, cause=None, speedup=None, identity=self.identity
            )
            return Look(idle, fresh=True)
        is_bad = self.speedup == LOSS
        found = assessment(
            now,
            verdict=Verdict.HARMFUL if is_bad else Verdict.HEALTHY,
            cause=self.cause if is_bad else None,
            speedup=self.speedup,
            identity=self.identity,
            running=share * self.world.running,
        )
        return Look(found, fresh=True, votes=("harmful",) if is_bad else ())
