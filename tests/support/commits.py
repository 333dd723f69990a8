"""Commits results until it is killed, and says of each when it is committed: commits.py STORE REPETITION."""

import sys
from itertools import count
from pathlib import Path

from iosweep.store.store import Store
from records import record

store = Store(Path(sys.argv[1]))
for n in count(int(sys.argv[2]) + 1):
    store.commit("p", n, record("p", campaign=str(n)), {"a.stdout": b"%d" % n * 2000})
    print(n, flush=True)
