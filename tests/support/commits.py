"""Commits results until it is ended, and says of each when it is committed: commits.py STORE REPETITION."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from iosweep.store.record import Record
from iosweep.store.store import Store
from records import record


@contextmanager
def committing(store: Store) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that goes on with the commits of a store, and has committed one. The block ends it. Then what it has
    announced is stored, and what it has not is there as a whole or not at all."""
    command = [sys.executable, __file__, str(store.path), str(len(_stored(store)))]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        first = process.stdout.readline()
        yield process
        told = max(map(int, (first + process.stdout.read()).split()))
    found = _stored(store)
    assert set(found) in (set(range(1, told + 1)), set(range(1, told + 2)))
    for number, each in found.items():
        assert each.intact
        assert each.campaign == str(number)
        assert store.raw(each)


def _stored(store: Store) -> dict[int, Record]:
    return {each.repetition: each for each in store.records_of("p", Record)}


def main() -> None:
    store = Store(Path(sys.argv[1]))
    for n in count(int(sys.argv[2]) + 1):
        store.commit("p", n, record("p", campaign=str(n)), {"a.stdout": b"%d" % n * 2000})
        print(n, flush=True)


if __name__ == "__main__":
    main()
