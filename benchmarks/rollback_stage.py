"""The process that ``benchmarks.rollback`` moves traffic in: two servers, a router, clients."""

from __future__ import annotations

import json
import sys
import time

from monitor.demo.clients import Clients
from monitor.demo.router import Router
from monitor.demo.servers import ScaledClock, TapeServer
from monitor.demo.stage import life
from monitor.demo.tape import load_story


def main(rate: float, key: str) -> None:
    """Serves until its standard input ends, and then says what clients noticed."""
    story, clock = load_story(), ScaledClock(time.time(), rate)
    spec, plain = (
        TapeServer(story.tapes[name], clock, life(story, name, begins=0.0)).server
        for name in ("code-spec", "code-plain")
    )
    router = Router(spec.url, plain.url, bytes.fromhex(key)).server
    clients = Clients(router.url, clock, begins=0.0)
    for part in (spec, plain, router):
        part.start()
    clients.start()
    print(json.dumps({"spec": spec.url, "plain": plain.url, "router": router.url}), flush=True)
    sys.stdin.read()
    clients.close()
    print(json.dumps(clients.felt()._asdict()), flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2])
