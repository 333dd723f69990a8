"""What the files of IOR say: several runs, files that are none, and what makes a run bad."""

import re

import pytest

from ior_readings import BLOCK, LIMIT, MIB, SAMPLES, files_of, read
from readings import measured, refuses, texts

pytestmark = pytest.mark.usefixtures("ior_runs_however_short")


# -- several runs, and files that are none --------------------------------------------------------------------------


def test_several_runs_in_one_log_are_kept_apart() -> None:
    tables = [files_of(v, "verbose_v2_stdout")["verbose_v2_stdout.out"] for v in ("3.3.0", "4.0.0", "main")]
    reading = read({"log": b"".join(tables)}, None)
    assert not texts(reading)
    assert [row["tool_version"] for row in reading.rows] == ["3.3.0"] * 6 + ["4.0.0"] * 6 + ["4.1.0+dev"] * 6
    cut = tables[1][: tables[1].index(b"Max Write") - 200]
    reading = read({"log": tables[0] + cut + tables[2]}, None)
    assert [row["tool_version"] for row in reading.rows] == ["3.3.0"] * 6 + ["4.0.0"] * 5 + ["4.1.0+dev"] * 6
    assert texts(reading) == ["log, run 2: read of iteration 2 is missing (3 repetitions of write and read)"]
    said = tables[1].replace(b"Commencing read", b"WARNING: fsync(3) failed\nCommencing read")
    reading = read({"log": tables[0] + said + tables[2]}, None)
    assert [row["tool_version"] for row in reading.rows] == ["3.3.0"] * 6 + ["4.1.0+dev"] * 6
    # the first run printed `Finished`: only what says how processes ended is of that run
    for line, verdicts in (
        (b"WARNING: inconsistent file size by different tasks\n", ["valid"] * 6 + ["suspect"] * 6 + ["valid"] * 6),
        (b"srun: error: n1: task 3: Killed\n", ["valid"] * 12),
    ):
        reading = read({"log": tables[0] + line + tables[1] + tables[2]}, None)
        assert [reading.verdict(index) for index, _ in enumerate(reading.rows)] == verdicts
    assert [row["tool_version"] for row in reading.rows] == ["4.0.0"] * 6 + ["4.1.0+dev"] * 6
    # a table that was cut before its first row was ended by what follows it
    early = tables[1][: tables[1].index(b"Commencing write")]
    reading = read({"log": tables[0] + early + b"ERROR: cannot open file\n" + tables[2]}, None)
    assert [row["tool_version"] for row in reading.rows] == ["3.3.0"] * 6 + ["4.1.0+dev"] * 6
    assert "log, run 2: IOR or MPI says: ERROR: cannot open file" in texts(reading)
    json_runs = [files_of(v, "mpiio_coll_JSON")["mpiio_coll_JSON.summary.json"] for v in ("3.3.0", "4.0.0")]
    reading = read({"log": b"noise of MPI\n" + json_runs[0] + b"noise\n" + json_runs[1] + tables[2]}, None)
    assert [row["tool_version"] for row in reading.rows] == ["3.3.0"] * 6 + ["4.0.0"] * 6 + ["4.1.0+dev"] * 6


def test_the_tests_of_a_script_are_runs_of_their_own() -> None:
    """IOR -f: one banner, each test's options and table, and a summary of all at the end."""
    table = files_of("4.0.0", "posix_fpp_seq_1m_np2_i3_default")[
        "posix_fpp_seq_1m_np2_i3_default.summary.default"
    ].decode()
    start, end = table.index("TestID"), table.index("\nSummary of all tests")
    second = table[start:end].replace("TestID              : 0", "TestID              : 1")
    rows = re.findall(r"(?m)^(?:write|read) .*\n", second)  # with figures of its own: iterations change places
    turned = [re.sub(r"\d( *\n)$", rf"{i // 2}\1", row) for i, row in enumerate([*rows[2:], *rows[:2]])]
    second = second.replace("".join(rows), "".join(turned))
    lines = table[end:].splitlines(keepends=True)
    others = [line.replace("    0      2   2    3   1", "    1      2   2    3   1") for line in lines[3:5]]
    whole = table[:end] + second + "".join(lines[:5] + others + lines[5:])
    reading = read({"out": whole.encode()}, 0)
    assert not texts(reading)
    assert len(reading.rows) == 12
    assert {row["tool_version"] for row in reading.rows} == {"4.0.0"}
    reading = read({"out": whole.replace("34686", "34786").encode()}, 0)  # of both: each is judged
    assert [row["label"] for row in measured(reading)] == ["write"] * 6
    reading = read({"out": (table[:end] + second.replace("34686", "34786") + table[end:]).encode()}, 0)
    assert len(measured(reading)) == 11


def test_a_log_that_ends_after_its_table_is_whole() -> None:
    """As IO500's do: no Max, no summary, no Finished."""
    table = files_of("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"]
    reading = read({"ior-easy-write.txt": table[: table.index(b"Max Write")]}, None)
    assert not texts(reading)
    assert len(reading.rows) == 6


def test_tables_without_iops_and_latency_and_with_lines_in_between_are_read() -> None:
    """3.2's table, and what stands between its header and a row on big machines."""
    lines = files_of("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("access  "))
    for i, line in enumerate(lines):
        words = line.split()
        if words[:1] in (["access"], ["write"], ["read"]) and start <= i and len(words) == 11:
            noise = "[cn12:1] mca_base_component_repository_open: unable\n" if words[0] == "write" else ""
            lines[i] = noise + "  ".join([*words[:2], *words[4:]])
    reading = read({"out": "\n".join(lines).replace("IOR-4.0.0", "IOR-3.2.1").encode()}, 0)
    assert not texts(reading)
    assert "ops_per_s" not in reading.rows[0]
    assert reading.rows[0]["bandwidth_bytes_per_s"] == 2933.62 * MIB


@pytest.mark.parametrize("version", ["4.0.0", "main"])
def test_details_of_ranks_are_refused_and_the_summary_beside_them_read(version: str) -> None:
    details = (SAMPLES / version / "rankdetails.csv").read_bytes()
    reading = read({"rankdetails.csv": details}, 0)
    assert not measured(reading)
    assert "rankdetails.csv holds the times of single ranks" in texts(reading)[0]
    reading = read({"rankdetails.csv": details, **files_of(version, "rankdetails")}, 0)
    assert len(reading.rows) == 6
    assert len(texts(reading)) == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"time,runtime,tp\n1.00000000e+00,2.00000000e-03,1.0e+09\n", "single operations"),
        (b"rank,start,end\n0,1,2\n", "a line for each rank"),
        (b"IOR-2.10.3: MPI Coordinated Test of Parallel I/O\n\nwrite 1 2 3 4 5 6 7 0\n", "the layout of IOR 2.10.3"),
        (b"Summary:\n\tclients            = 2 (1 per node)\n", "no results"),
        (b"", "no results of IOR"),
        (b"mdtest-4.0.0 was launched with 2 total task(s) on 1 node(s)\n", "no results of IOR"),
    ],
)
def test_what_is_no_result_of_ior_is_refused_with_what_it_is(content: bytes, why: str) -> None:
    reading = read({"file": content}, 0)
    assert refuses(reading, why), reading


# -- what makes a run bad -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: fsync(12) failed",
        "WARNING: Incorrect data on write (3 errors found).",
        "WARNING: incorrect data on read (3 errors found).",
        "ERROR: cannot open file, (aiori-POSIX.c:1)",
        "could not create directory",
        "Unable to create test directory /x",
        "ior: aiori-POSIX.c:769: POSIX_Xfer: Assertion `rc >= 0' failed.",
        "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES",
        "mpirun noticed that process rank 3 with PID 0 on node n exited on signal 9 (Killed).",
        "MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD",
        "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
        "srun: error: n1: task 3: Out Of Memory",
    ],
)
def test_a_line_that_says_so_makes_a_clean_table_bad(line: str) -> None:
    files = files_of("4.0.0", "posix_shared_seq_1m_np2_i3_CSV")
    out = next(name for name in files if name.endswith(".out"))
    assert not texts(read(files, 0))
    for where in (out, "stderr"):
        reading = read({**files, where: files.get(where, b"") + line.encode() + b"\n"}, 0)
        assert not measured(reading)
        assert any(line[:30] in problem for problem in texts(reading))


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("WARNING: task 3, partial read(), 4096 of 1048576 bytes at offset 0", "suspect"),
        ("WARNING: inconsistent file size by different tasks.", "suspect"),
        ("[E 12:00:00.000000] io_callback: I/O error occurred", "suspect"),
        ("transport: 3 requests failed and were sent again", "suspect"),
        ("WARNING: Could not read back the stonewalling status from the file!", "note"),
        ("WARNING: could not read stonewall status file", "note"),
        ("WARNING: Backend returned error during statfs", "note"),
        ('srun: error: Ignoring conflicting option "a" in plugin "b"', "note"),
        ("srun: error: SOME_DEBUG=often invalid. ignoring...", "note"),
        ("WARNING: There was an error initializing an OpenFabrics device.", "note"),
        ('[n1:1] Set MCA parameter "a" to 0 to see all help / error messages', "note"),
        ("ior WARNING: fsync() only available in POSIX/MMAP.  Using value of 0.", "note"),
    ],
)
def test_what_a_line_says_against_the_figures(line: str, severity: str) -> None:
    files = files_of("4.0.0", "posix_shared_seq_1m_np2_i3_CSV")
    out = next(name for name in files if name.endswith(".out"))
    for where in (out, "stderr"):
        reading = read({**files, where: files.get(where, b"") + (line + "\n").encode() * 10}, 0)
        assert len(measured(reading)) == 6
        (problem,) = reading.problems
        assert (problem.severity, problem.row) == (severity, None)
        assert line in problem.text and "(and 9 more)" in problem.text
        verdict = "suspect" if severity == "suspect" else "valid"
        assert {reading.verdict(index) for index in range(6)} == {verdict}


@pytest.mark.parametrize(
    "line",
    [
        'WARNING: The file "/p/ERROR/f.00000000" exists already and will be overwritten',
        "Writing output to /scratch/ERROR/partial read()",
        "WARNING: Not a BeeGFS file system",
        "Command line        : ior -a POSIX -F -b 16m -t 1m -s 2 -i 3 -o /scratch/ERROR/partial read()",
        "Using Time Stamp 7 (0x7) for Data Signature",
        "stonewalling pairs accessed min: 1 max: 2 -- min data: 1.0 GiB mean data: 1.1 GiB time: 1.0s",
    ],
)
def test_harmless_lines_are_harmless(line: str) -> None:
    files = files_of("4.0.0", "posix_shared_seq_1m_np2_i3_CSV")
    if not line.startswith("Command"):
        assert not texts(read({**files, "stderr": line.encode()}, 0))
    else:
        table = files_of("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
        assert not texts(read({"out": re.sub("Command line .*", line, table).encode()}, 0))


@pytest.mark.parametrize(
    ("access", "stat", "moved", "limit", "verdict"),
    [
        ("read", 67108864, 33554432, True, "valid"),  # a complete file, ended by -D
        ("read", 33554432, 33554432, True, "valid"),  # what a stonewalled write left, with its status file
        ("read", 20971520, 33554432, True, "invalid"),  # beyond what is allocated
        ("read", 50331648, 33554432, True, "invalid"),  # a file with holes
        ("read", 67108864, 134217728, True, "valid"),  # minTimeDuration: round and round
        ("write", 33554432, 33554432, True, "valid"),
        ("write", 20971520, 33554432, True, "suspect"),  # clients that cache sizes
        ("write", 67108864, 33554432, False, "invalid"),  # no limit, and yet not all
        ("read", 134217728, 67108864, False, "valid"),  # a part of a larger file
        ("read", 50331648, 67108864, False, "suspect"),
    ],
)
def test_what_ior_moved_decides_whether_a_figure_is_true(
    access: str, stat: int, moved: int, limit: bool, verdict: str
) -> None:
    table = (
        "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter\n"
        f"{access},{moved / MIB / 2:.4f},{moved / MIB / 2:.4f},"
        "0.0158,16384.0000,1024.0000,0.0001,2.0000,0.0560,2.0000,2,0\n"
    )
    log = "Writing output to x\n" + BLOCK.format(67108864, stat, moved) + LIMIT * limit
    reading = read({"x": table.encode(), "out": log.encode()}, 0)
    assert len(reading.rows) == 1
    assert reading.verdict(0) == verdict, reading.problems
    assert bool(texts(reading)) == (verdict != "valid")
    good = verdict != "invalid"
    assert ("bandwidth_bytes_per_s" in reading.rows[0]) == good
    if good:
        assert reading.rows[0]["bytes_written" if access == "write" else "bytes_read"] == moved
    doubled = read({"x": table.encode(), "out": (log + BLOCK.format(67108864, stat, moved)).encode()}, 0)
    assert not doubled.rows


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Max Write: 7063.35", "Max Write: 7163.35", "maximum of write"),
        ("read        33863.44", "read        33963.44", "maximum of read"),
        (" 2933.62    5054.12", " 2943.62    5054.12", "minimum of write"),
        ("5054.12    1687.79", "5154.12    1687.79", "mean of write"),
        ("     64.0 POSIX", "     65.0 POSIX", "says the summary"),
        ("2   2    3   1", "2   2    2   1", "repetitions: given as 3 and as 2"),
        ("aggregate filesize  : 64 MiB", "aggregate filesize  : 32 MiB", "aggregate file size"),
        ("tasks               : 2", "tasks               : 2\ntasks               : 4", "says both tasks 2 and 4"),
        ("Participating tasks : 2", "Participating tasks : 4", "says both tasks 4 and 2"),
        ("segments            : 2", "segments            : 3", "segments: given as 3 and as 2"),
        ("xfersize            : 1 MiB", "xfersize            : 2 MiB", "transfer size: given as"),
        ("16384      1024.00    0.000049", "8192       1024.00    0.000049", "block size: given as"),
        ("blocksize           : 16 MiB", "blocksize           : 16 MiB\ndryRun              : 1", "a dry run"),
        ("0.021816   0", "0.031816   0", "bandwidth x time"),
        ("2939.31", "2949.31", "operations/s x time"),
        ("0.000049   0.021774", "0.100049   0.021774", "open takes longer"),
        ("0.021816   0", "0.021816   1", "write of iteration 1 is there more than once"),
        ("0.004047   0", "0.004047", "damaged result"),
        ("-i 3", "-w -i 3", "read of iteration 0 was not asked for"),
        ("write     7063 ", "xwrite    7063 ", "write of iteration 1 is missing"),
        ("-i 3", "-i 3 -N 3", "2 tasks ran, the command asks for 3"),
    ],
)
def test_what_is_said_twice_must_agree(old: str, new: str, why: str) -> None:
    table = files_of("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
    assert old in table
    reading = read({"out": table.replace(old, new, 1).encode()}, 0)
    assert refuses(reading, why), reading
