"""A process that fills in eight hours in small steps and says after each; it is to be killed."""

from __future__ import annotations

import sys

from backfill_stage import RULES, START, TARGETS, Tape, quarter

from monitor.backfill import ingest
from monitor.store.backfill import PastStore
from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.turn.curves import Curves

STEP = 50


def main(url: str) -> None:
    ingest.BATCH = STEP
    engine = open_store(url)
    store = PastStore(engine, {target.name: target for target in TARGETS}, START)
    curves = Curves(Repository(engine))
    run = ingest.Ingest(store, curves, RULES, Tape(quarter()), name="tape", end=START + 1e9)
    run.run(say)


def say(at: float) -> None:
    sys.stdout.write(f"{at}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
