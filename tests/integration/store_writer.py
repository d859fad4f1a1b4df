"""A process that writes rounds for ever and says which are in; it is there to be killed."""

from __future__ import annotations

import sys
from itertools import count

from store_rows import NOON, full_row, target

from monitor.store.connect import open_store
from monitor.store.repository import Repository
from monitor.store.rows import RoundRow

NAMES = [f"t{number}" for number in range(20)]


def batch(number: int) -> list[RoundRow]:
    return [full_row(NOON + 15.0 * number, name) for name in NAMES]


def main(url: str) -> None:
    repository = Repository(open_store(url))
    repository.register([target(name) for name in NAMES], NOON)
    for number in count():
        repository.write_round(batch(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
