"""IO500: outputs of its phases, and the workload that a file is named after.

The texts of IOR are written here: runs that a deadline ended, without Max, Summary and `Finished`; lines between a
table's header and its row.
"""

from pathlib import Path

from iosweep.ingest import outputs
from iosweep.ingest.outputs import readings

TASKS, TRANSFER, SEGMENTS, TOTAL_S = 64, 47008, 500_000, 310.76
MOVED = TASKS * TRANSFER * 104321


def ior(access: str) -> str:
    """A run of one shared file of interleaved pieces, ended by a deadline of 300 s."""
    mib_s, expected = MOVED / TOTAL_S / (1 << 20), TASKS * TRANSFER * SEGMENTS
    iops = f"{MOVED / TRANSFER / 310.5:<10.2f} 0.025       "
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
        f"WARNING: Stat() of aggregate file size      = {MOVED}",
        f"WARNING: Using actual aggregate bytes moved = {MOVED}",
        "WARNING: Maybe caused by deadlineForStonewalling",
        f"{access:9} {mib_s:<10.2f} {iops}45.91      45.91      0.250000   310.50     0.010000   {TOTAL_S:<10.2f} 0   ",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def test_bytes_dates_and_the_deadline_of_a_run_without_its_end() -> None:
    found = readings(ior("write").encode())
    assert isinstance(found, dict)
    (row,) = found["ior"].rows
    expected = {
        "bytes_written": MOVED, "ops": MOVED // TRANSFER, "phase_time_s": 300, "segments": SEGMENTS,
        "tasks": TASKS, "threads_per_node": 16, "began_local": "2026-03-01T07:08:10", "host": "n001",
        "ended_local": None, "runtime_s": TOTAL_S,
    }  # fmt: skip
    assert {name: row.get(name) for name in expected} == expected


def test_a_log_of_ior_and_mdtest_gives_both_and_neither_is_blamed_for_the_other() -> None:
    mdtest = (Path(__file__).parents[1] / "samples/mdtest/own/mdtest_create_3.out").read_text()
    both = "\ufeff" + "\n".join((ior("write"), mdtest, ior("read")))  # as an editor begins UTF-8
    found, alone = readings(both.encode()), readings(mdtest.encode())
    assert isinstance(found, dict) and isinstance(alone, dict)
    assert [(tool, len(reading.rows)) for tool, reading in found.items()] == [("ior", 2), ("mdtest", 3)]
    assert found["mdtest"].problems == alone["mdtest"].problems
    assert all(problem.severity == "note" for problem in found["ior"].problems)


def test_an_output_that_is_named_after_a_phase_belongs_to_its_workload() -> None:
    names = ["a/IOR-hard-write.txt", "ior-easy-read", "mdtest-hard-stat.csv", "ior-hard.txt", "x-ior-easy-read.txt"]
    assert [outputs.workload_of(name, "ior") for name in names] == ["ior-hard", "ior-easy", "", "", ""]
