"""Outputs in the layouts of IO500's runs, written here, by iosweep and by the second reader of benchmarks/io500.py.

What counts for the submissions themselves (`python benchmarks/io500.py CHECKOUT`) is checked here with texts of ours:
runs that a deadline ended, without Max, Summary and `Finished`; lines between a table's header and its row; tables of
rates and of times, whatever their titles say; names with a colon.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from iosweep.commands import cli
from iosweep.ingest.outputs import readings

_SPEC = importlib.util.spec_from_file_location("io500", Path(__file__).parents[2] / "benchmarks" / "io500.py")
assert _SPEC and _SPEC.loader
io500 = sys.modules["io500"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(io500)

MIB = 1 << 20
TASKS, TRANSFER, SEGMENTS = 64, 47008, 500_000
MOVED = TASKS * TRANSFER * 12_345
TIMES = (0.25, 310.5, 0.01, 310.76)  # open, transfers, close, all of it


def ior(access: str, *, new: bool, finished: bool, between: str = "", machine: str = "Linux n001") -> str:
    """A run of IO500's hard phases: one shared file of interleaved pieces, ended by a deadline of 300 s."""
    open_s, io_s, close_s, total_s = TIMES
    rate = MOVED / total_s / MIB
    expected = TASKS * TRANSFER * SEGMENTS
    dot = "" if new else "."
    lines = [
        f"IOR-{'3.4.0+dev' if new else '3.2.0'}: MPI Coordinated Test of Parallel I/O",
        "Began               : Sun Mar  1 07:08:09 2026",
        f"Command line        : ./ior -C -Q 1 -g -G 27 -k -e -t 47008 -b 47008 -s {SEGMENTS} -o /fs/hard -{access[0]}"
        " -D 300 -a POSIX -O stoneWallingWearOut=1",
        f"Machine             : {machine}", "TestID              : 0",
        "StartTime           : Sun Mar  1 07:08:10 2026", "Path                : /fs/hard", "", "Options: ",
        "api                 : POSIX", "apiVersion          : ", "test filename       : /fs/hard",
        "access              : single-shared-file", "type                : independent",
        f"segments            : {SEGMENTS}", "ordering in a file  : sequential",
        *(["nodes               : 4"] if new else []),
        f"tasks               : {TASKS}", "clients per node    : 16", "repetitions         : 1",
        "xfersize            : 47008 bytes", "blocksize           : 47008 bytes",
        f"aggregate filesize  : {expected / (1 << 40):.2f} TiB", "stonewallingTime    : 300",
        "stoneWallingWearOut : 1", "", "Results: ", "",
        f"access    bw(MiB/s)  {'IOPS       Latency(s)  ' if new else ''}block(KiB) xfer(KiB)  open(s)    wr/rd(s)"
        "   close(s)   total(s) iter",
        "------    ---------  ---------- ---------  --------   --------   --------   -------- ----",
        "stonewalling pairs accessed min: 12000 max: 12345 -- min data: 0.5 GiB mean data: 0.5 GiB time: 300.1s",
        *([between] if between else []),
        f"WARNING: Expected aggregate file size       = {expected}{dot}",
        f"WARNING: Stat() of aggregate file size      = {MOVED}{dot}",
        f"WARNING: Using actual aggregate bytes moved = {MOVED}{dot}",
        f"WARNING: {'M' if new else 'm'}aybe caused by deadlineForStonewalling",
        f"{access:9} {rate:<10.2f} {f'{MOVED / TRANSFER / io_s:<10.2f} 0.025       ' if new else ''}45.91      45.91  "
        f"    {open_s:<10.6f} {io_s:<10.2f} {close_s:<10.6f} {total_s:<10.2f} 0   ",
    ]  # fmt: skip
    if finished:
        lines += [
            f"Max {access.title()}: {rate:.2f} MiB/sec ({MOVED / total_s / 1e6:.2f} MB/sec)", "",
            "Finished            : Sun Mar  1 07:13:22 2026",
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def mdtest(version: str, label: str, rate: float, *, unit: str = "", kind: str = "rate", colon: str = "") -> str:
    """A run of one phase: 16 ranks on 2 nodes with 1,000 files each, and a table of times behind that of rates."""
    names = ("File creation", "File stat", "File read", "File removal", "Tree creation", "Tree removal")
    rates = "".join(f"   {n:22}{colon} " + 3 * f"{rate * (n == label):14.3f} " + f"{0:14.3f}\n" for n in names)
    times = "".join(f"   {n:22}{colon} " + 3 * f"{16_000 / rate * (n == label):14.3f} " + f"{0:14.3f}\n" for n in names)
    heading = "   Operation                     Max            Min           Mean        Std Dev\n   ---------\n"
    title = " ".join(["SUMMARY", *([kind] if kind else []), *([f"(in {unit})"] if unit else [])])
    return (
        f"-- started at 03/01/2026 07:08:09 --\n\nmdtest-{version} was launched with 16 total task(s) on 2 node(s)\n"
        "Command line used: ./mdtest '-n' '1000' '-u' '-L' '-F' '-P' '-d' '/fs/easy' '-W' '300' '-a' 'POSIX'"
        f" '-{'C' if label == 'File creation' else 'T'}'\n"
        "Path                : /fs/easy\nNodemap: 1010101010101010\nV-0: Rank   0 Line  2537 Shifting ranks by 1 for"
        " each phase.\n16 tasks, 16000 files\n\n"
        f"{title}: (of 1 iterations)\n{heading}{rates}\nSUMMARY time (in ms/op): (of 1 iterations)\n{heading}{times}"
        "-- finished at 03/01/2026 07:08:12 --\n"
    )


TEXTS: Mapping[str, str] = {
    "ior 3.2, whole": ior("write", new=False, finished=True),
    "ior 3.4, no end": ior("read", new=True, finished=False),
    "ior 3.4, -v": ior("write", new=True, finished=False, machine="Linux n001 5.14.0 #1 SMP x86_64"),
    "ior, lines before the row": ior("write", new=True, finished=False, between="[n001:1] pml ucx went on\n" * 500),
    "ior, several": ior("write", new=False, finished=True) + "\nsleep 10\n" + ior("read", new=True, finished=False),
    "mdtest 3.3": mdtest("3.3.0+dev", "File creation", 5123.25),
    "mdtest 4.1": mdtest("4.1.0+dev", "File stat", 90123.5, unit="ops/sec"),
    "mdtest 1.9, colons": mdtest("1.9.3", "File creation", 5123.25, kind="", colon=" :"),
}


def document(text: str, tmp_path: Path) -> dict[str, Any]:
    """What `iosweep parse` says of a text."""
    (tmp_path / "output.txt").write_text(text)
    with redirect_stdout(StringIO()) as printed:
        cli.main(["parse", str(tmp_path / "output.txt")])
    (found,) = json.loads(printed.getvalue())["documents"]
    return dict(found)


@pytest.mark.parametrize("name", TEXTS)
def test_both_readers_see_the_same(name: str, tmp_path: Path) -> None:
    one = document(TEXTS[name], tmp_path)
    assert not [problem for problem in one["problems"] if problem["severity"] == "invalid"], one["problems"]
    compared = io500.Comparison()
    compared.add(one)
    assert compared.wrong == []
    assert compared.count["rows"] == (2 if "several" in name else 1)
    assert compared.count["figures"] >= 10


def test_a_log_of_ior_and_mdtest_gives_both_and_neither_is_blamed_for_the_other() -> None:
    data = "\n".join([TEXTS["ior 3.2, whole"], "sleep 10", TEXTS["mdtest 3.3"], TEXTS["ior 3.4, no end"]]).encode()
    found = readings(data)
    assert isinstance(found, dict)
    assert [(tool, len(reading.rows)) for tool, reading in found.items()] == [("ior", 2), ("mdtest", 1)]
    assert all(problem.severity == "note" for reading in found.values() for problem in reading.problems)


def test_bytes_dates_and_the_deadline_of_a_run_without_its_end(tmp_path: Path) -> None:
    (row,) = document(TEXTS["ior 3.4, no end"], tmp_path)["rows"]
    assert (row["bytes_read"], row["ops"], row["phase_time_s"], row["segments"]) == (
        MOVED,
        MOVED // TRANSFER,
        300,
        SEGMENTS,
    )
    assert (row["began_local"], row["host"]) == ("2026-03-01T07:08:10", "n001") and "ended_local" not in row
    (row,) = document(TEXTS["mdtest 3.3"], tmp_path)["rows"]
    assert (row["began_local"], row["ended_local"]) == ("2026-03-01T07:08:09", "2026-03-01T07:08:12")
    assert row["phase_time_s"] == 300 and row["runtime_s"] == pytest.approx(16_000 / 5123.25, abs=0.001)


@pytest.mark.parametrize(
    ("name", "column", "change"),
    [
        ("ior 3.2, whole", "bandwidth_bytes_per_s", 1.00001),
        ("ior 3.4, no end", "runtime_s", 1.0001),
        ("ior 3.4, no end", "bytes_read", 1.0001),
        ("mdtest 4.1", "ops_per_s", 1.0001),
    ],
)
def test_the_comparison_sees_a_wrong_value(name: str, column: str, change: float, tmp_path: Path) -> None:
    told = document(TEXTS[name], tmp_path)
    told["rows"][0][column] *= change
    compared = io500.Comparison()
    compared.add(told)
    assert compared.wrong
    told["rows"] = []
    compared = io500.Comparison()
    compared.add(told)
    assert compared.wrong and compared.wrong[0].endswith("is missing")
