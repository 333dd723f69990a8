"""What `iosweep parse fio` must say about every sample in samples/fio/read/manifest.tsv, and where they are.

expected.json has one line per row that must be there: label, host, phase, operations, operations per second, bytes per
second, mean latency (ns) and its 99.5th percentile (ns). The numbers are those in the files (JSON: total_ios, iops,
bw_bytes, clat_ns; of a mixed job the sum of both directions and the mean weighted by the operations), put there by hand
and by a script of ten lines that has nothing in common with the reader. null: must be absent. Names `old_<version>_...`
are of builds of fio's tagged releases, run with old.fio.
"""

import csv
import json
from pathlib import Path
from typing import NamedTuple

SAMPLES = Path(__file__).resolve().parents[1] / "samples/fio"


class Sample(NamedTuple):
    """A run: all its files, and the exit code where it is known."""

    name: str
    exit_code: int | None
    files: dict[str, bytes]
    command: str

    @property
    def report(self) -> str:
        """The file that holds the report."""
        return max(self.files, key=lambda name: len(self.files[name]))


def _content(name: str) -> bytes:
    # samples that the runner's parser is tested with too are one folder up
    here = SAMPLES / "read" / name
    return (here if here.exists() else SAMPLES / name).read_bytes()


with (SAMPLES / "read" / "manifest.tsv").open(encoding="utf-8") as _file:
    ALL = {
        name: Sample(name, int(code) if code else None, {file: _content(file) for file in files.split(",")}, command)
        for name, code, files, command in list(csv.reader(_file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    }

_EXPECTED = json.loads((SAMPLES / "expected.json").read_text())
Row = tuple[str, str | None, str | None, int, float, float | None, float, float | None]
#: h2 and h7 read extents that were never written, at 4 to 5 times the true rate. They are good: the file alone cannot
#: tell, only a look at the data files can (the runner's check no_holes).
GOOD: dict[str, list[Row]] = {name: [tuple(row) for row in rows] for name, rows in _EXPECTED["good"].items()}
#: each string must be part of a problem
BAD: dict[str, tuple[str, ...]] = {name: tuple(parts) for name, parts in _EXPECTED["bad"].items()}
#: of BAD: what was measured stays, in rows that are suspect
SUSPECT = set(_EXPECTED["suspect"])
