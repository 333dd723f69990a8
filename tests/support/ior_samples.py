"""What is right for every sample of IOR (samples/ior): decided by hand, figures read off the files.

`read_missing` of 3.3.0 in CSV says nothing but its exit code, nor does `perm` of main. `E_nompi_singleton` is good: one
task ran, as its command asks. `T_timelimit` is good: -T 0 is no limit. IOR 3.3's CSV is bad whatever ran. Before 3.3 no
operations per second are printed. 3.1.0 was built without O_DIRECT, and says so. What an aborted run of 3.0 to 3.2
printed last is lost at times: then it says nothing but its exit code.
"""

import json
from pathlib import Path
from typing import NamedTuple


class Good(NamedTuple):
    """Rows, then of the first one its access, bandwidth (MiB/s) and IOPS, and the last one's total (s)."""

    rows: int
    label: str
    bandwidth_mib_per_s: float
    ops_per_s: float | None
    last_runtime_s: float
    tasks: int
    phase: str | None = None  # where the files tell the ordering


class Bad:
    """What the problems must say, all of it."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = reasons


class Doubtful(Bad):
    """What the problems must say; the rows are there, and suspect."""


def _expected(known: list[object] | dict[str, list[str]]) -> Good | Bad:
    if isinstance(known, list):
        return Good(*known)
    [(verdict, reasons)] = known.items()
    return {"bad": Bad, "doubtful": Doubtful}[verdict](*reasons)


_FILE = Path(__file__).resolve().parents[1] / "samples/ior/expected.json"
#: (version, sample) -> verdict
EXPECTED: dict[tuple[str, str], Good | Bad] = {
    tuple(name.split("/")): _expected(known) for name, known in json.loads(_FILE.read_text()).items()
}
