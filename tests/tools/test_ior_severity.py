"""What IOR's output says against single figures: too short, not flushed, bounded by time, random within the file."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from iosweep.tools.ior.output import read
from iosweep.tools.reading import Reading
from readings import measured, texts

MIB = 1 << 20


def table(
    command: str = "-w -a POSIX -e",
    *,
    access: str = "write",
    seconds: float = 2.0,
    moved: int = 64 * MIB,
    before: str = "",
    options: Mapping[str, str] | None = None,
) -> str:
    """IOR's output with one row: 2 ranks, each a file of 32 MiB in transfers of 1 MiB."""
    told = {
        "api": "POSIX", "access": "file-per-process", "type": "independent", "segments": "1",
        "ordering in a file": "sequential", "nodes": "1", "tasks": "2", "clients per node": "2", "repetitions": "1",
        "xfersize": "1 MiB", "blocksize": "32 MiB", "aggregate filesize": "64 MiB",
    }  # fmt: skip
    lines = "".join(f"{name:20}: {value}\n" for name, value in (told | dict(options or {})).items())
    return (
        "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
        f"Command line        : ior {command}\nOptions: \n{lines}\nResults: \n\n"
        "access    bw(MiB/s)  IOPS       Latency(s)  block(KiB) xfer(KiB)  open(s)    wr/rd(s)   close(s)   total(s)"
        f"   iter\n{before}"
        f"{access}     {moved / MIB / seconds:.4f} {moved / MIB / seconds:.4f} 0.001 32768 1024 0.000001"
        f" {seconds:.6f} 0.000001 {seconds:.6f} 0\n"
    )


def warning(moved: int, stat: int, expected: int = 64 * MIB, limit: bool = False) -> str:
    return (
        f"WARNING: Expected aggregate file size       = {expected}\n"
        f"WARNING: Stat() of aggregate file size      = {stat}\n"
        f"WARNING: Using actual aggregate bytes moved = {moved}\n"
        + "WARNING: Maybe caused by deadlineForStonewalling\n"
        * limit
    )


def of(text: str) -> Reading:
    reading = read(text.encode())
    assert len(reading.rows) == 1, reading.problems
    return reading


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [(0.000015, "invalid"), (0.0009, "invalid"), (0.0021, "suspect"), (0.0199, "suspect"), (0.0201, "valid")],
)
def test_a_run_that_was_over_at_once_is_no_measurement(seconds: float, verdict: str) -> None:
    reading = of(table(access="read", command="-r", seconds=seconds))
    assert reading.verdict(0) == verdict
    assert ("bandwidth_bytes_per_s" in reading.rows[0]) == (verdict != "invalid")
    assert [problem.row for problem in reading.problems] == [0] * (verdict != "valid")
    assert all("was over after" in text for text in texts(reading))


def test_a_run_that_ended_before_its_least_duration_is_no_measurement() -> None:
    # a small file of reads that ended early, and a rate of its own
    reading = read(table("-w -D 3 -O minTimeDuration=3", seconds=0.05).encode())
    assert not reading.rows
    assert "write of iteration 0: 0.05 s are less than minTimeDuration, 3 s" in texts(reading)[0]


def test_the_digits_of_a_time_are_its_clock() -> None:
    # CSV has times of 0.1 ms: 0.9 ms are 9 of them, where the table above counts microseconds
    header = "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter\n"
    row = "read,35555.5556,35555.5556,0.0001,16384.0000,1024.0000,0.0001,0.0009,0.0001,0.0009,2,0\n"
    reading = of(header + row)
    assert (reading.verdict(0), measured(reading)) == ("invalid", [])


@pytest.mark.parametrize(
    "line",
    [
        "ior WARNING: fsync() only available in POSIX(AIO).  Using value of 0.",
        "WARNING: fsync() not supported in selected backend. Using value of 0.",
    ],
)
def test_an_fsync_that_ior_did_without_is_not_claimed(line: str) -> None:
    assert of(table()).rows[0]["fsync"] is True
    reading = of(f"{line}\n{table()}")
    assert reading.rows[0]["fsync"] is False
    assert [problem.severity for problem in reading.problems] == ["note"]
    assert "fsync" not in of(line + "\n" + table(access="read", command="-r -e")).rows[0]


def test_an_o_direct_that_ior_did_without_is_not_claimed() -> None:
    assert of(table("--posix.odirect -w")).rows[0]["o_direct"] is True
    reading = of("ior WARNING: cannot use O_DIRECT\n" + table("--posix.odirect -w"))
    assert (reading.rows[0]["o_direct"], reading.verdict(0)) == (False, "suspect")


@pytest.mark.parametrize(
    ("command", "text", "size"),
    [
        ("-w", "", 32 * MIB),
        ("-w -D 300", warning(16 * MIB, 16 * MIB, limit=True), None),  # the deadline ended it
        ("-w -D 300 -O minTimeDuration=300", warning(256 * MIB, 64 * MIB, limit=True), 32 * MIB),  # several passes
        ("-r -O stoneWallingStatusFile=/s", warning(16 * MIB, 16 * MIB), None),
        ("-r -z -z", warning(16 * MIB, 48 * MIB, limit=True), None),
    ],
)
def test_a_file_size_is_claimed_where_all_of_it_was_gone_over(command: str, text: str, size: int | None) -> None:
    moved = int(text.split("moved = ")[1].split()[0]) if text else 64 * MIB
    random = {"ordering in a file": "random"} if "-z" in command else {}
    access = "read" if "-r" in command else "write"
    seconds = 300.0 if "300" in command else 2.0
    reading = of(table(command, access=access, seconds=seconds, before=text, moved=moved, options=random))
    assert not texts(reading)
    assert reading.rows[0].get("file_size_bytes") == size


def test_reads_bounded_by_a_status_file_are_as_many_bytes_as_were_written() -> None:
    command = "-r -C -O stoneWallingStatusFile=/r/ior-easy.stonewall -O stoneWallingWearOut=1"
    reading = of(table(command, access="read", before=warning(16 * MIB, 16 * MIB), moved=16 * MIB))
    assert not texts(reading)
    assert reading.rows[0]["bytes_read"] == 16 * MIB
    # without the file nothing says why less was read than asked for
    reading = of(table("-r -C", access="read", before=warning(16 * MIB, 16 * MIB), moved=16 * MIB))
    assert "no time limit says why" in texts(reading)[0] and not measured(reading)
    # a status file bounds reads alone
    command = command.replace("-r ", "-w ")
    assert not measured(of(table(command, before=warning(16 * MIB, 16 * MIB), moved=16 * MIB)))


@pytest.mark.parametrize("options", ["-r -z -z -D 300", "-r -zz -D 300"])
def test_random_offsets_within_the_file_reach_nothing_beyond_it(options: str) -> None:
    random = {"ordering in a file": "random"}
    for text in (warning(16 * MIB, 48 * MIB, limit=True), warning(16 * MIB, 48 * MIB, expected=12345, limit=True)):
        assert not texts(of(table(options, access="read", before=text, moved=16 * MIB, options=random)))
        once = options.replace("-z -z", "-z").replace("-zz", "-z")
        (problem, *_) = of(table(once, access="read", before=text, moved=16 * MIB, options=random)).problems
        assert (problem.severity, problem.row) == ("invalid", 0)


def test_sizes_that_overflow_are_the_same_as_ior_prints_them() -> None:
    block = 476_837_158_203 * MIB
    printed = block * 40 % (1 << 64)
    assert printed < 1 << 63 < block * 40
    told = {"blocksize": f"{block} bytes", "tasks": "40", "clients per node": "40"}
    told["aggregate filesize"] = f"{printed} bytes"
    moved = warning(64 * MIB, 64 * MIB, printed, limit=True)
    text = table("-w -D 300", before=moved, options=told).replace(" 32768 ", f" {block // 1024} ")
    assert not texts(of(text))
    assert "IOR expected" in " ".join(texts(of(text.replace(f"= {printed}", f"= {printed - 4096}"))))


def test_a_row_that_cannot_be_leaves_the_others() -> None:
    text = table("-w -r", options={"repetitions": "1"})
    row = text.splitlines()[-1]
    both = read(f"{text}{row.replace('write', 'read')}\n".encode())
    assert not texts(both) and len(measured(both)) == 2
    wrong = read(f"{text}{row.replace('write', 'read').replace('32.0000', '99.0000', 1)}\n".encode())
    assert [wrong.verdict(index) for index in range(2)] == ["valid", "invalid"]
    assert {problem.row for problem in wrong.problems} == {1}
    assert "bandwidth_bytes_per_s" in wrong.rows[0] and "bandwidth_bytes_per_s" not in wrong.rows[1]
    assert (wrong.rows[1]["label"], wrong.rows[1]["tasks"]) == ("read", 2)


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("WARNING: Incorrect data on write (3 errors found).", "invalid"),
        ("ERROR: cannot open file, (aiori-POSIX.c:1)", "invalid"),
        ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "invalid"),
        ("srun: error: n1: task 3: Out Of Memory", "invalid"),
        ("WARNING: task 3, partial read(), 4096 of 1048576 bytes at offset 0", "suspect"),
        ("transport: 3 requests failed and were sent again", "suspect"),
        ("WARNING: could not read stonewall status file", "note"),
        ("WARNING: There was an error initializing an OpenFabrics device.", "note"),
        ('WARNING: The file "/p/ERROR/f.00000000" exists already and will be overwritten', ""),
        ("Writing output to /scratch/ERROR/partial read()", ""),
    ],
)
def test_what_a_line_says_against_the_figures(line: str, severity: str) -> None:
    for text in (table(before=f"{line}\n" * 10), f"{line}\n" * 10 + table()):
        reading = read(text.encode())
        assert [problem.severity for problem in reading.problems] == ([severity] if severity else [])
        assert bool(measured(reading)) == (severity != "invalid")
        assert not severity or "first of 10 such lines" in reading.problems[0].text


@pytest.mark.parametrize(
    ("access", "stat", "moved", "limit", "verdict"),
    [
        ("read", 64, 32, True, "valid"),  # a complete file, ended by -D
        ("read", 32, 32, True, "valid"),  # what a stonewalled write left, with its status file
        ("read", 20, 32, True, "suspect"),  # beyond what is allocated; the offsets are sequential
        ("read", 64, 128, True, "valid"),  # minTimeDuration: round and round
        ("write", 32, 32, True, "valid"),
        ("write", 20, 32, True, "suspect"),  # clients that cache sizes
        ("write", 64, 32, False, "invalid"),  # no limit, and yet not all
        ("read", 128, 64, False, "valid"),  # a part of a larger file
        ("read", 48, 64, False, "suspect"),
    ],
)
def test_what_ior_moved_decides_whether_a_figure_is_true(
    access: str, stat: int, moved: int, limit: bool, verdict: str
) -> None:
    text = warning(moved * MIB, stat * MIB, limit=limit)
    reading = of(table(f"-{access[0]}", access=access, before=text, moved=moved * MIB))
    assert reading.verdict(0) == verdict, reading.problems
    if verdict != "invalid":
        assert reading.rows[0]["bytes_written" if access == "write" else "bytes_read"] == moved * MIB
