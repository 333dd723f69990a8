"""IO500: outputs of its phases, and the workload that a file is named after.

The texts are written here: runs that a deadline ended, without Max, Summary and `Finished`; lines between a table's
header and its row; tables of rates and of times, whatever their titles say; names with a colon.
"""

from functools import lru_cache

import pytest

from iosweep.ingest import outputs
from iosweep.ingest.outputs import readings
from iosweep.tools.reading import Reading

TASKS, TRANSFER, SEGMENTS, TOTAL_S = 64, 47008, 500_000, 310.76
#: Bytes that each phase of IOR moved, and kIOPS of the others.
MOVED = {
    name: TASKS * TRANSFER * pieces
    for name, pieces in {"ior-easy-write": 412345, "ior-hard-write": 104321, "ior-hard-read": 92345}.items()
}
MDTEST_ROWS = ("File creation", "File stat", "File read", "File removal")


def ior(access: str, moved: int) -> str:
    """A run of one shared file of interleaved pieces, ended by a deadline of 300 s."""
    mib_s, expected = moved / TOTAL_S / (1 << 20), TASKS * TRANSFER * SEGMENTS
    iops = f"{moved / TRANSFER / 310.5:<10.2f} 0.025       "
    lines = [
        "IOR-3.4.0+dev: MPI Coordinated Test of Parallel I/O",
        "Began               : Sun Mar  1 07:08:09 2026",
        f"Command line        : ./ior -C -Q 1 -g -G 27 -k -e -t 47008 -b 47008 -s {SEGMENTS} -o /fs/hard -{access[0]}"
        " -D 300 -a POSIX -O stoneWallingWearOut=1",
        "Machine             : Linux n001 5.14.0 #1 SMP x86_64", "TestID              : 0",
        "StartTime           : Sun Mar  1 07:08:10 2026", "Options: ", "api                 : POSIX",
        "access              : single-shared-file", "type                : independent",
        f"segments            : {SEGMENTS}", "ordering in a file  : sequential",
        "nodes               : 4",
        f"tasks               : {TASKS}", "clients per node    : 16", "repetitions         : 1",
        "xfersize            : 47008 bytes", "blocksize           : 47008 bytes",
        f"aggregate filesize  : {expected / (1 << 40):.2f} TiB", "stonewallingTime    : 300", "", "Results: ", "",
        "access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)"
        "   close(s)   total(s) iter",
        "------    ---------  ---------- ---------  --------   --------   --------   -------- ----",
        "stonewalling pairs accessed min: 12000 max: 12345 -- min data: 0.5 GiB mean data: 0.5 GiB time: 300.1s",
        *["[n001:1] pml ucx went on"] * 50,
        f"WARNING: Expected aggregate file size       = {expected}",
        f"WARNING: Stat() of aggregate file size      = {moved}",
        f"WARNING: Using actual aggregate bytes moved = {moved}",
        "WARNING: Maybe caused by deadlineForStonewalling",
        f"{access:9} {mib_s:<10.2f} {iops}45.91      45.91      0.250000   310.50     0.010000   {TOTAL_S:<10.2f} 0   ",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def mdtest(label: str, rate: float) -> str:
    """A run of one phase: 16 ranks on 2 nodes with 1,000 files each, and a table of times behind that of rates."""
    names = (*MDTEST_ROWS, "Tree creation", "Tree removal")
    heading = "   Operation    Max   Min   Mean   Std Dev\n   ---------\n"
    rates, times = (
        "".join(f"   {n:22} " + 3 * f"{value * (n == label):14.3f} " + f"{0:14.3f}\n" for n in names)
        for value in (rate, 16_000 / rate)
    )
    return (
        f"-- started at 03/01/2026 07:08:09 --\n\nmdtest-4.1.0+dev was launched with 16 total"
        " task(s) on 2 node(s)\nCommand line used: ./mdtest '-n' '1000' '-u' '-L' '-F' '-P' '-d' '/fs/easy' '-W' '300'"
        f" '-a' 'POSIX' '-{'C' if label == 'File creation' else 'T'}'\n16 tasks, 16000 files\n\n"
        f"SUMMARY rate (in ops/sec): (of 1 iterations)\n{heading}{rates}\n"
        f"SUMMARY time (in ms/op): (of 1 iterations)\n{heading}{times}"
        "-- finished at 03/01/2026 07:08:12 --\n"
    )


def text(phase: str) -> str:
    if phase in MOVED:
        return ior(phase.rpartition("-")[2], MOVED[phase])
    return mdtest("File creation", 10_125)


@lru_cache
def reading(phase: str) -> Reading:
    (found,) = (readings(text(phase).encode()) or {}).values()  # type: ignore[union-attr]
    return found


def test_bytes_dates_and_the_deadline_of_a_run_without_its_end() -> None:
    (row,) = reading("ior-hard-write").rows
    moved = MOVED["ior-hard-write"]
    expected = {
        "bytes_written": moved, "ops": moved // TRANSFER, "phase_time_s": 300, "segments": SEGMENTS,
        "tasks": TASKS, "threads_per_node": 16, "began_local": "2026-03-01T07:08:10", "host": "n001",
        "ended_local": None, "runtime_s": TOTAL_S,
    }  # fmt: skip
    assert {name: row.get(name) for name in expected} == expected
    (row,) = (row for row in reading("mdtest-easy-write").rows if row.get("ops_per_s"))
    expected = {
        "ops_per_s": 10125.0, "phase_time_s": 300, "tasks": 16, "nodes": 2, "began_local": "2026-03-01T07:08:09",
        "ended_local": "2026-03-01T07:08:12", "runtime_s": pytest.approx(16_000 / 10125, abs=0.001),
    }  # fmt: skip
    assert {name: row.get(name) for name in expected} == expected


def test_a_log_of_ior_and_mdtest_gives_both_and_neither_is_blamed_for_the_other() -> None:
    parts = (text("ior-easy-write"), "sleep 10", text("mdtest-easy-write"), text("ior-hard-read"))
    found = readings(b"\xef\xbb\xbf" + "\n".join(parts).encode())  # as an editor begins UTF-8
    assert isinstance(found, dict)
    assert [(tool, len(reading.rows)) for tool, reading in found.items()] == [("ior", 2), ("mdtest", 1)]
    assert all(problem.severity == "note" for reading in found.values() for problem in reading.problems)


def test_an_output_that_is_named_after_a_phase_belongs_to_its_workload() -> None:
    names = ["a/IOR-hard-write.txt", "ior-easy-read", "mdtest-hard-stat.csv", "ior-hard.txt", "x-ior-easy-read.txt"]
    assert [outputs.workload_of(name, "ior") for name in names] == ["ior-hard", "ior-easy", "", "", ""]
