"""A writer that is killed loses at most the round it was writing."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import store_writer
from sqlalchemy import Engine
from store_rows import NOON, dump, opened, target

import monitor
from monitor.store.repository import Repository

ROUNDS = 30


def kill_in_mid_write(url: str) -> int:
    """Lets a process write, kills it without warning; the last round it told of."""
    source = str(Path(monitor.__file__).parent.parent)
    with subprocess.Popen(
        [sys.executable, store_writer.__file__, url],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    ) as process:
        assert process.stdout is not None
        told = [int(line) for line in islice(process.stdout, ROUNDS)]
        process.kill()
        told += [int(line) for line in process.stdout if line.endswith("\n")]
    return told[-1]


def stored_rounds(engine: Engine) -> dict[float, int]:
    ends = [found[2] for found in dump(engine)["samples"]]
    return {end: ends.count(end) for end in set(ends)}


def test_kill_loses_at_most_the_round_in_flight(database_url: str) -> None:
    last = kill_in_mid_write(database_url)
    assert last >= ROUNDS - 1
    with opened(database_url) as engine:
        found = stored_rounds(engine)
        # Each round is there as a whole: two engines of each target.
        assert set(found.values()) == {2 * len(store_writer.NAMES)}
        # The round after the last one told of may be in, too: it was killed before it could tell.
        assert len(found) in {last + 1, last + 2}

        repository = Repository(engine)
        repository.register([target(name) for name in store_writer.NAMES], NOON)
        newest = len(found) - 1
        before = dump(engine)
        repository.write_round(store_writer.batch(newest))
        assert dump(engine) == before
        repository.write_round(store_writer.batch(newest + 1))
        assert len(stored_rounds(engine)) == newest + 2
