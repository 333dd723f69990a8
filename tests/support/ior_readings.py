"""Readings of IOR's samples."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ior_samples import EXPECTED, Good
from iosweep.tools.reading import Reading

foreign_ior = import_module("iosweep.tools.ior.foreign")
read, summary = foreign_ior.read, import_module("iosweep.tools.ior.own_output").summary

SAMPLES = Path(__file__).resolve().parents[1] / "samples/ior"
MIB = 1 << 20


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    version: str
    name: str
    exit_code: int | None
    command: str

    @property
    def files(self) -> dict[str, bytes]:
        return files_of(self.version, self.name)

    def read(self) -> Reading:
        return read(self.files, self.exit_code)


@cache
def files_of(version: str, name: str) -> dict[str, bytes]:
    own = re.compile(rf"{re.escape(name)}\.(out|err|summary\.\w+)")
    return {p.name: p.read_bytes() for p in sorted((SAMPLES / version).iterdir()) if own.fullmatch(p.name)}


def samples_listed() -> list[Sample]:
    with (SAMPLES / "manifest.tsv").open() as file:
        return [
            Sample(row["version"], row["sample"], int(row["exit_code"]), row["command"])
            for row in csv.DictReader(file, delimiter="\t")
            if row["version"] != "seeds"
        ]


ALL = samples_listed()
GOOD = [sample for sample in ALL if isinstance(EXPECTED[sample.version, sample.name], Good)]
NOTES = (SAMPLES / "seeds/lustre_notes_results.csv").read_bytes()


def name_of(sample: Sample) -> str:
    return f"{sample.version}-{sample.name}"


# -- one file of several ------------------------------------------------------------------------------------------


def key_of(row: Row) -> tuple[Any, ...]:
    return row["label"], row["repetition"]


FIGURES = ("bandwidth_bytes_per_s", "ops_per_s", "runtime_s", "open_s", "io_s", "close_s")
SAME = ("tasks", "transfer_size_bytes", "file_size_bytes", "api", "phase", "nodes", "threads_per_node", "fsync",
         "o_direct", "file_per_process", "collective", "bytes_read", "bytes_written", "ops")  # fmt: skip


def wrong_rows(reading: Reading, whole: Reading) -> list[str]:
    """Figures and parameters in rows that are not the whole sample's."""
    found = []
    for row in reading.rows:
        same: list[Row] = [true for true in whole.rows if key_of(true) == key_of(row)]  # in a script one of each test
        size = row.get("transfer_size_bytes")
        true = next((true for true in same if len(same) == 1 or true["transfer_size_bytes"] == size), {})
        found += [f"{key_of(row)} {n}: {row[n]}" for n in SAME if n in row and n in true and row[n] != true[n]]
        for name in FIGURES:
            # a table's bandwidth has fewer digits where Max Write and the summary are cut off
            if name in row and row[name] != pytest.approx(true.get(name, -1.0), rel=2e-4 * ("bandwidth" in name)):
                found.append(f"{key_of(row)} {name}: {row[name]}, not {true.get(name)}")
    return found


BLOCK = (
    "WARNING: Expected aggregate file size       = {}\nWARNING: Stat() of aggregate file size      = {}\n"
    "WARNING: Using actual aggregate bytes moved = {}\n"
)
LIMIT = "WARNING: Maybe caused by deadlineForStonewalling\n"


# -- 3.0 and 3.1 ----------------------------------------------------------------------------------------------------


def old_log(version: str, name: str) -> str:
    return files_of(version, name)[f"{name}.out"].decode()


# -- damaged files --------------------------------------------------------------------------------------------------


def biggest_of(files: Mapping[str, bytes]) -> tuple[str, bytes]:
    return max(files.items(), key=lambda item: len(item[1]))
