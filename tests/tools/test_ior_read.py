"""What the files of a run of IOR say: against real runs (samples/ior), good and bad, and damaged ones."""

import csv
import gc
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ior_samples import EXPECTED, Bad, Doubtful, Good
from iosweep.results.columns import result_columns
from iosweep.tools.reading import Reading
from readings import measured, refuses, texts

_module = import_module("iosweep.tools.ior.foreign")
read, summary = _module.read, import_module("iosweep.tools.ior.own_output").summary

SAMPLES = Path(__file__).resolve().parents[1] / "samples/ior"
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _however_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples are runs of milliseconds; tests/tools/test_ior_severity.py has tests of what that says."""
    monkeypatch.setattr(_module, "too_short", lambda runtime_s, clock_s: None)
    monkeypatch.setattr(_module, "too_short_to_be_steady", lambda time_s: "")


Row = Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    version: str
    name: str
    exit_code: int | None
    command: str

    @property
    def files(self) -> dict[str, bytes]:
        return _files(self.version, self.name)

    def read(self) -> Reading:
        return read(self.files, self.exit_code)


@cache
def _files(version: str, name: str) -> dict[str, bytes]:
    own = re.compile(rf"{re.escape(name)}\.(out|err|summary\.\w+)")
    return {p.name: p.read_bytes() for p in sorted((SAMPLES / version).iterdir()) if own.fullmatch(p.name)}


def _manifest() -> list[Sample]:
    with (SAMPLES / "manifest.tsv").open() as file:
        return [
            Sample(row["version"], row["sample"], int(row["exit_code"]), row["command"])
            for row in csv.DictReader(file, delimiter="\t")
            if row["version"] != "seeds"
        ]


ALL = _manifest()
GOOD = [sample for sample in ALL if isinstance(EXPECTED[sample.version, sample.name], Good)]
NOTES = (SAMPLES / "seeds/lustre_notes_results.csv").read_bytes()


def _name(sample: Sample) -> str:
    return f"{sample.version}-{sample.name}"


# -- every sample -------------------------------------------------------------------------------------------------


def test_every_sample_is_decided() -> None:
    assert {(sample.version, sample.name) for sample in ALL} == set(EXPECTED)
    assert len(ALL) == len(EXPECTED) == 188


@pytest.mark.parametrize("sample", ALL, ids=_name)
def test_sample(sample: Sample) -> None:
    expected = EXPECTED[sample.version, sample.name]
    reading = sample.read()
    if isinstance(expected, Bad):
        verdicts = {reading.verdict(index) for index, _ in enumerate(reading.rows)}
        assert verdicts == {"suspect"} if isinstance(expected, Doubtful) else not measured(reading)
        for reason in expected.reasons:
            assert any(reason in problem for problem in texts(reading)), (reason, texts(reading))
        return
    assert not texts(reading)
    assert len(reading.rows) == expected.rows
    first = reading.rows[0]
    assert first["label"] == expected.label
    assert first["bandwidth_bytes_per_s"] == pytest.approx(expected.bandwidth_mib_per_s * MIB, rel=1e-12)
    assert first.get("ops_per_s") == expected.ops_per_s
    assert reading.rows[-1]["runtime_s"] == expected.last_runtime_s
    assert {row["tasks"] for row in reading.rows} == {expected.tasks}
    assert first.get("phase") == (f"{expected.phase}_{expected.label}" if expected.phase else None)


@pytest.mark.parametrize("sample", GOOD, ids=_name)
def test_columns_and_what_the_command_asks_for(sample: Sample) -> None:
    """Every column is one of the result table's, and what it says is what the command in the manifest asked for."""
    known = {column.name for column in result_columns()}
    words = sample.command.split()
    if "-f" in words:  # a script says it
        return
    asked = dict(pairwise(words))
    units = {"k": 1 << 10, "m": 1 << 20}
    sizes = {name: int(asked[f"-{name}"][:-1]) * units[asked[f"-{name}"][-1]] for name in "bt"}
    for row in sample.read().rows:
        assert not set(row) - known
        assert row["transfer_size_bytes"] == sizes["t"]
        assert row.get("file_size_bytes") in (None, sizes["b"] * int(asked.get("-s", 1)))
        assert row.get("api") in (None, asked["-a"])
        assert row.get("file_per_process") in (None, "-F" in words)
        assert row.get("collective") in (None, "-c" in words)
        assert row.get("o_direct") in (None, "--posix.odirect" in words or "-B" in words)
        assert row.get("fsync") in (None, "-e" in words and row["label"] == "write")
        moved = row.get("bytes_written", row.get("bytes_read"))
        if moved is not None and "-D" not in words:
            assert moved == sizes["b"] * int(asked.get("-s", 1)) * row["tasks"]
        if moved is not None:
            assert row["ops"] * row["transfer_size_bytes"] == moved
        for name in ("bandwidth_bytes_per_s", "ops_per_s"):
            assert row.get(f"{row['label']}_{name}") == row.get(name)
        assert row[row["metric"]] > 0


def test_a_good_run_in_full() -> None:
    """One row of a JSON and one of a table, by hand from the files."""
    row = read(_files("4.0.0", "posix_fpp_seq_1m_np2_i3_JSON"), 0).rows[2]
    assert row == {
        "tool": "ior", "tool_version": "4.0.0", "label": "write", "repetition": 2, "phase": "seq_write",
        "kind": "data", "metric": "bandwidth_bytes_per_s", "nodes": 1, "threads_per_node": 2, "tasks": 2,
        "transfer_size_bytes": 1048576, "file_size_bytes": 33554432, "o_direct": False, "fsync": False,
        "api": "POSIX", "file_per_process": True, "collective": False, "bandwidth_bytes_per_s": 4164.5018 * MIB,
        "ops_per_s": 4172.1395, "write_bandwidth_bytes_per_s": 4164.5018 * MIB, "write_ops_per_s": 4172.1395,
        "bytes_written": 67108864, "ops": 64, "runtime_s": 0.0154, "open_s": 0.0, "io_s": 0.0153,
        "close_s": 0.0061, "segments": 2, "began_local": "2026-11-20T08:31:39",
        "ended_local": "2026-11-20T08:31:39", "host": "client01", "command": "ior -a POSIX -F -b 16m -t 1m -s 2 -i 3"
        " -o /mnt/pfs/bench/f_4.0.0 -O summaryFile=posix_fpp_seq_1m_np2_i3_JSON.summary.json,summaryFormat=JSON",
    }  # fmt: skip
    row = read(_files("main", "ior_perop"), 0).rows[1]  # one iteration: the summary has no more digits here
    assert (row["bandwidth_bytes_per_s"], row["close_s"]) == (111.30 * MIB, 0.008172)
    assert (row["file_size_bytes"], row["bytes_read"], row["ops"]) == (1048576, 2097152, 8)


def test_a_deadline_and_the_node_are_told() -> None:
    (row, *_) = read(_files("3.2.1", "stonewall_D1"), 0).rows
    assert (row["phase_time_s"], row["segments"], row["host"]) == (1.0, 64, "vm")
    assert (row["began_local"], row["ended_local"]) == ("2026-11-20T14:18:08", "2026-11-20T14:18:11")


def test_stonewalled_bytes_are_those_that_ior_moved() -> None:
    reading = read(_files("4.0.0", "stonewall_D1_wearout_CSV"), 0)
    assert [row["bytes_written"] for row in reading.rows] == [2317352960, 3458203648]
    assert [row["ops"] for row in reading.rows] == [2210, 3298]


# -- the Lustre notes ---------------------------------------------------------------------------------------------


def test_the_eight_rows_of_the_lustre_notes() -> None:
    reading = read({"results.csv": NOTES}, None)
    assert not texts(reading)
    columns = ("phase", "threads_per_node", "transfer_size_bytes", "bandwidth_bytes_per_s", "ops_per_s", "tasks")
    assert [tuple(row[name] for name in columns) for row in reading.rows] == [
        ("seq_write", 32, 16 << 20, 27135.9688 * MIB, 1696.0195, 64),
        ("seq_read", 32, 16 << 20, 28805.2367 * MIB, 1800.3649, 64),
        ("rand_write", 32, 16 << 20, 37879.2400 * MIB, 2367.4950, 64),
        ("rand_read", 32, 16 << 20, 39275.2087 * MIB, 2454.7904, 64),
        ("seq_write", 32, 64 << 20, 41838.6043 * MIB, 653.7421, 64),
        ("seq_read", 32, 64 << 20, 43203.6925 * MIB, 675.0791, 64),
        ("rand_write", 32, 64 << 20, 40580.2781 * MIB, 634.0792, 64),
        ("rand_read", 32, 64 << 20, 43326.2159 * MIB, 676.9922, 64),
    ]
    assert [row["metric"] for row in reading.rows[:3]] == ["bandwidth_bytes_per_s"] * 2 + ["ops_per_s"]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"seq_write,32,16m,write", b"seq_write,32,16m,read", "is of read"),
        (b"seq_write,32,16m,write", b"seq_write,32,32m,write", "transfer size: given as 32m"),
        (b"seq_write,32,16m,write", b"seq_write,33,16m,write", "not a multiple of 33"),
        (b"27135.9688", b"27235.9688", "no whole number of blocks"),
        (b"1696.0195", b"1697.0195", "no whole number of blocks"),
        (b"38.6416,64,0", b"38.6416,64", "damaged"),
        (b"seq_write,32,64m", b"seq_write,32,16m", "more than once"),
        (b"access_type,threads", b"access_type,thread", "without"),
    ],
)
def test_a_wrong_row_of_the_notes_is_not_given(old: bytes, new: bytes, why: str) -> None:
    reading = read({"results.csv": NOTES.replace(old, new, 1)}, None)
    assert any(why in problem for problem in texts(reading)), texts(reading)
    assert len(reading.rows) < 8


# -- one file of several ------------------------------------------------------------------------------------------


def _key(row: Row) -> tuple[Any, ...]:
    return row["label"], row["repetition"]


_FIGURES = ("bandwidth_bytes_per_s", "ops_per_s", "runtime_s", "open_s", "io_s", "close_s")
_SAME = ("tasks", "transfer_size_bytes", "file_size_bytes", "api", "phase", "nodes", "threads_per_node", "fsync",
         "o_direct", "file_per_process", "collective", "bytes_read", "bytes_written", "ops")  # fmt: skip


def _wrong(reading: Reading, whole: Reading) -> list[str]:
    """Figures and parameters in rows that are not the whole sample's."""
    found = []
    for row in reading.rows:
        same: list[Row] = [true for true in whole.rows if _key(true) == _key(row)]  # in a script one of each test
        size = row.get("transfer_size_bytes")
        true = next((true for true in same if len(same) == 1 or true["transfer_size_bytes"] == size), {})
        found += [f"{_key(row)} {n}: {row[n]}" for n in _SAME if n in row and n in true and row[n] != true[n]]
        for name in _FIGURES:
            # a table's bandwidth has fewer digits where Max Write and the summary are cut off
            if name in row and row[name] != pytest.approx(true.get(name, -1.0), rel=2e-4 * ("bandwidth" in name)):
                found.append(f"{_key(row)} {name}: {row[name]}, not {true.get(name)}")
    return found


@pytest.mark.parametrize("sample", GOOD, ids=_name)
def test_each_file_alone_says_the_same_or_why_not(sample: Sample) -> None:
    whole = sample.read()
    for name, content in sample.files.items():
        reading = read({name: content}, None)
        assert not _wrong(reading, whole)
        assert len(reading.rows) == len(whole.rows) or texts(reading)
        if name.endswith((".json", ".default")):
            assert len(reading.rows) == len(whole.rows)
        if "Writing output to" in content.decode():
            assert "no results: IOR writes them to a summary file" in " ".join(texts(reading))


def test_a_stonewalled_csv_alone_cannot_be_judged() -> None:
    content = _files("main", "stonewall_D1_wearout_CSV")["stonewall_D1_wearout_CSV.summary.csv"]
    reading = read({"x.csv": content}, 0)
    assert not measured(reading)
    assert "no whole number of blocks" in texts(reading)[0]


def test_two_files_of_one_run_give_the_more_precise_figures_and_must_agree() -> None:
    csv_of_it = (
        b"access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter\n"
        b"write,185.6148,744.2524,0.0027,1024.0000,256.0000,0.0000,0.0107,0.0001,0.0108,2,0\n"
        b"read,111.2979,445.4596,0.0045,1024.0000,256.0000,0.0000,0.0180,0.0082,0.0180,2,0\n"
    )
    table = _files("main", "ior_perop")["ior_perop.out"]
    reading = read({"ior.out": table, "ior.csv": csv_of_it}, 0)
    assert not texts(reading)
    assert reading.rows[0]["bandwidth_bytes_per_s"] == 185.6148 * MIB
    assert reading.rows[0]["phase"] == "seq_write"
    assert reading.version == "4.1.0+dev"
    for old, new in ((b"185.6148", b"185.7148"), (b",2,0\nread", b",3,0\nread"), (b"0.0082", b"0.0092")):
        reading = read({"ior.out": table, "ior.csv": csv_of_it.replace(old, new)}, 0)
        assert not measured(reading)
        assert texts(reading)
    other = _files("main", "verbose_v2_stdout")["verbose_v2_stdout.out"]
    assert not read({"ior.out": other, "ior.csv": csv_of_it}, 0).rows
    assert "not of the same runs" in texts(read({"ior.out": table + other, "ior.csv": csv_of_it}, 0))[0]


# -- several runs, and files that are none --------------------------------------------------------------------------


def test_several_runs_in_one_log_are_kept_apart() -> None:
    tables = [_files(v, "verbose_v2_stdout")["verbose_v2_stdout.out"] for v in ("3.3.0", "4.0.0", "main")]
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
    json_runs = [_files(v, "mpiio_coll_JSON")["mpiio_coll_JSON.summary.json"] for v in ("3.3.0", "4.0.0")]
    reading = read({"log": b"noise of MPI\n" + json_runs[0] + b"noise\n" + json_runs[1] + tables[2]}, None)
    assert [row["tool_version"] for row in reading.rows] == ["3.3.0"] * 6 + ["4.0.0"] * 6 + ["4.1.0+dev"] * 6


def test_the_tests_of_a_script_are_runs_of_their_own() -> None:
    """IOR -f: one banner, each test's options and table, and a summary of all at the end."""
    table = _files("4.0.0", "posix_fpp_seq_1m_np2_i3_default")[
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
    table = _files("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"]
    reading = read({"ior-easy-write.txt": table[: table.index(b"Max Write")]}, None)
    assert not texts(reading)
    assert len(reading.rows) == 6


def test_tables_without_iops_and_latency_and_with_lines_in_between_are_read() -> None:
    """3.2's table, and what stands between its header and a row on big machines."""
    lines = _files("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode().splitlines()
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
    reading = read({"rankdetails.csv": details, **_files(version, "rankdetails")}, 0)
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
    files = _files("4.0.0", "posix_shared_seq_1m_np2_i3_CSV")
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
    files = _files("4.0.0", "posix_shared_seq_1m_np2_i3_CSV")
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
    files = _files("4.0.0", "posix_shared_seq_1m_np2_i3_CSV")
    if not line.startswith("Command"):
        assert not texts(read({**files, "stderr": line.encode()}, 0))
    else:
        table = _files("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
        assert not texts(read({"out": re.sub("Command line .*", line, table).encode()}, 0))


_BLOCK = (
    "WARNING: Expected aggregate file size       = {}\nWARNING: Stat() of aggregate file size      = {}\n"
    "WARNING: Using actual aggregate bytes moved = {}\n"
)
_LIMIT = "WARNING: Maybe caused by deadlineForStonewalling\n"


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
    log = "Writing output to x\n" + _BLOCK.format(67108864, stat, moved) + _LIMIT * limit
    reading = read({"x": table.encode(), "out": log.encode()}, 0)
    assert len(reading.rows) == 1
    assert reading.verdict(0) == verdict, reading.problems
    assert bool(texts(reading)) == (verdict != "valid")
    good = verdict != "invalid"
    assert ("bandwidth_bytes_per_s" in reading.rows[0]) == good
    if good:
        assert reading.rows[0]["bytes_written" if access == "write" else "bytes_read"] == moved
    doubled = read({"x": table.encode(), "out": (log + _BLOCK.format(67108864, stat, moved)).encode()}, 0)
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
    table = _files("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
    assert old in table
    reading = read({"out": table.replace(old, new, 1).encode()}, 0)
    assert refuses(reading, why), reading


# -- 3.0 and 3.1 ----------------------------------------------------------------------------------------------------


def _old(version: str, name: str) -> str:
    return _files(version, name)[f"{name}.out"].decode()


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0"])
def test_a_good_run_of_the_old_layout_in_full(version: str) -> None:
    rows = read(_files(version, "mpiio_coll_v1"), 0).rows
    lines = _old(version, "mpiio_coll_v1").splitlines()
    figures = [line.split() for line in lines if re.match(r"write +[\d.]+ +1024", line)]
    assert len(figures) == 2
    assert rows[2] == {
        "tool": "ior", "tool_version": version, "label": "write", "repetition": 2, "phase": "seq_write",
        "kind": "data", "metric": "bandwidth_bytes_per_s", "threads_per_node": 2, "tasks": 2,
        "transfer_size_bytes": 1048576, "file_size_bytes": 4194304, "fsync": False, "api": "MPIIO",
        "file_per_process": False, "collective": True, "bandwidth_bytes_per_s": float(figures[1][1]) * MIB,
        "write_bandwidth_bytes_per_s": float(figures[1][1]) * MIB, "bytes_written": 8388608, "ops": 8,
        "runtime_s": float(figures[1][7]), "open_s": float(figures[1][4]), "io_s": float(figures[1][5]),
        "close_s": float(figures[1][6]), "segments": 4, "host": "vm", "command": lines[3].partition(": ")[2],
        "began_local": f"2026-11-20T{lines[2][18:26]}", "ended_local": f"2026-11-20T{lines[41][21:29]}",
    }  # fmt: skip


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0"])
def test_the_old_layout_is_read_without_its_beginning_and_without_its_end(version: str) -> None:
    text = _old(version, "posix_fpp_seq_1m_np2_i3")
    whole = read({"out": text.encode()}, 0)
    headless = read({"out": text[text.index("Test 0 started") :].encode()}, 0)
    assert (texts(headless), headless.version, len(headless.rows)) == ([], None, 6)
    assert not _wrong(headless, whole)
    assert "o_direct" not in headless.rows[0]
    endless = read({"out": text[: text.index("Max Write")].encode()}, 0)  # the segments are told at the end only
    assert (texts(endless), len(endless.rows)) == ([], 6)
    assert not _wrong(endless, whole)
    assert endless.rows[0]["file_size_bytes"] == 32 * MIB


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0"])
def test_the_tests_of_a_script_of_the_old_layout_are_runs_of_their_own(version: str) -> None:
    text = _old(version, "script_two_tests")
    rows = read({"out": text.encode()}, 0).rows
    assert [row["phase"] for row in rows[::2]] == ["seq_write", "seq_write", "rand_write", "rand_write"]
    assert [row["transfer_size_bytes"] for row in rows] == [1048576] * 4 + [524288] * 4
    assert [row["repetition"] for row in rows] == [1, 1, 2, 2] * 2
    start, second = text[: text.index("Test 1")], text[text.index("Test 1") :]
    reading = read({"out": (start + re.sub(r"Max Read: +\d", "Max Read:  9", second)).encode()}, 0)
    assert [(row["transfer_size_bytes"], row["label"]) for row in measured(reading)[4:]] == [(524288, "write")] * 2
    assert "run 2: the summary's maximum of read" in texts(reading)[0]
    for wrong in ("Test 0 started", "Test 2 started"):
        reading = read({"out": text.replace("Test 1 started", wrong).encode()}, 0)
        assert not measured(reading)
        assert "starts within test 0" in " ".join(texts(reading))


def test_several_runs_of_several_versions_and_other_programs_in_one_log() -> None:
    mdtest = "mdtest-1.9.3 was launched with 2 total task(s) on 1 nodes\nCommand line used: mdtest -n 5\n"
    names = [("3.0.1", "verbose_v3"), ("3.2.1", "posix_fpp_seq_1m_np2_i3"), ("3.1.0", "summary_always")]
    log = mdtest + mdtest.join(_old(*name) for name in names) + mdtest
    reading = read({"log": log.encode()}, None)
    assert not texts(reading)
    assert [row["tool_version"] for row in reading.rows] == ["3.0.1"] * 4 + ["3.2.1"] * 6 + ["3.1.0"] * 4
    two = _old("3.0.1", "verbose_v2") + _old("3.1.0", "verbose_v2").partition("\n\nTest 0")[2].join(["Test 0", ""])
    reading = read({"log": two.encode()}, None)
    assert [row["tool_version"] for row in reading.rows if "tool_version" in row] == ["3.0.1"] * 6
    assert len(reading.rows) == 12


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("IOR-3.1.0", "IOR-2.10.3", "the layout of IOR 2.10.3 is not read (3.0 and later are)"),
        ("\tclients            = 2 (2", "\tclients            = 4 (2", "says both tasks 2 and 4"),
        ("\tclients            = 2 (2", "\tclients            = 2 (1", "clients per node: given as 1 and as 2"),
        ("(2 per node)", "(2 per", "a damaged option: clients 2 (2 per"),
        ("\tclients            =", "\tclients   =", "not whole: no clients per node"),
        ("\trepetitions        = 3", "\trepetitions        = 2", "repetitions: given as 2 and as 3"),
        ("\txfersize           = 1 MiB", "", "the layout of IOR 3.1 and earlier is not whole: no xfersize"),
        ("\txfersize           = 1 MiB", "\txfersize           = 2 MiB", "transfer size: given as"),
        ("\tblocksize          = 16 MiB", "\tblocksize          = 8 MiB", "block size: given as"),
        ("aggregate filesize = 64 MiB", "aggregate filesize = 32 MiB", "aggregate file size: given as"),
        ("strided (2 segments)", "strided (4 segments)", "segments: given as 4 and as 2"),
        ("sequential offsets", "random offsets", "ordering in a file: given as True and as False"),
        ("file-per-process", "single-shared-file", "file per process: given as False and as True"),
        ("file-per-process", "file-per-process, collective", "collective: given as True and as False"),
        ("= POSIX\n", "= MPIIO (version=3, subversion=1)\n", "api: given as MPIIO and as POSIX"),
        ("Summary:\n", "Summary:\ntasks               : 2\n", "lines of IOR 3.1 and earlier and of later versions"),
        ("67108864 POSIX", "67108865 POSIX", "says the summary"),
        ("-F -vv", "-vvzF", "ordering in a file: given as False and as True"),
        ("-F -vv", "-wF", "read of iteration 0 was not asked for"),
        ("-F -vv", "-F -N4", "2 tasks ran, the command asks for 4"),
        ("Commencing", "ior WARNING: fsync() failed, errno 5, Input/output error \nCommencing", "fsync() failed"),
    ],
)
def test_what_is_said_twice_in_the_old_layout_must_agree(old: str, new: str, why: str) -> None:
    files = {name: content.decode() for name, content in _files("3.1.0", "verbose_v2").items()}
    assert sum(old in content for content in files.values()) == 1
    reading = read({name: content.replace(old, new, 1).encode() for name, content in files.items()}, 0)
    assert refuses(reading, why), reading


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("-F -vv", (False, False)),
        ("-vvFB", (True, False)),
        ("-FeBi3", (True, True)),  # getopt: flags together, the value of the last against it
        ("-F -O useO_DIRECT=1 -e", (True, True)),
        ("-l -B -F", (True, False)),  # a flag in 3.0
        ("-l offset -F", (False, False)),
        ("-li -FB", (True, False)),
        ("-F -W -R -w -r", (False, False)),
        ("-f script -B", (None, None)),
    ],
)
def test_command_lines_of_the_old_layout(options: str, told: tuple[bool | None, bool | None]) -> None:
    text = _old("3.1.0", "verbose_v2").replace("-F -vv", options)
    reading = read({"out": text.encode()}, 0)
    assert not texts(reading)
    row = reading.rows[0]
    assert (row.get("o_direct"), row.get("fsync")) == told


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0", "3.2.1", "4.0.0"])
@pytest.mark.parametrize("indentation", ["    ", "\t", " \t "])
def test_an_indented_log_says_the_same(version: str, indentation: str) -> None:
    """All of it, or all but a line before it."""
    for sample in (sample for sample in ALL if sample.version == version):
        for name, content in sample.files.items():
            if not name.endswith(".out") or b"bw(MiB/s)" not in content:
                continue
            plain = read({name: content}, 0)
            indented = b"".join(indentation.encode() + line for line in content.splitlines(keepends=True))
            assert read({name: indented}, 0) == plain
            if plain.rows:
                assert read({name: b"a line\n" + indented}, 0) == plain
    text = _old("3.1.0", "E_stonewall_read_eof")
    assert texts(read({"out": text.encode()}, None))  # its exit code is lost, too


def test_a_table_without_options_is_of_an_unknown_run() -> None:
    text = _old("4.0.0", "verbose_v2_stdout")
    reading = read({"out": text[text.index("access    bw") : text.index("Max Write")].encode()}, 0)
    assert not measured(reading)
    assert "without the options" in texts(reading)[0]


# -- what no run can have, and copies -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (",2,", ",0,", "tasks: 0, which cannot be"),
        (
            ",16384.0000,1024.0000,",
            ",16384.0000,1054.0000,",
            "16777216 bytes, is not a multiple of the transfer size, 1079",
        ),
        (",16384.0000,1024.0000,", ",16384.0000,0.0000,", "transfer size: 0, which cannot be"),
    ],
)
def test_impossible_rows_of_csv(old: str, new: str, why: str) -> None:
    name = "posix_shared_seq_1m_np2_i3_CSV.summary.csv"
    text = _files("4.0.0", "posix_shared_seq_1m_np2_i3_CSV")[name].decode()
    assert text.count(old) == 6
    reading = read({name: text.replace(old, new).encode()}, 0)
    assert refuses(reading, why), reading


@pytest.mark.parametrize(
    ("sample", "old", "new", "why"),
    [
        ("verbose_v2_stdout", "nodes               : 1", "nodes               : 0", "nodes: 0, which cannot be"),
        ("ior_perop", "tasks               : 2", "tasks               : 0", "tasks: 0, which cannot be"),
        (
            "ior_perop",
            "xfersize            : 262144 bytes",
            "xfersize            : 262140 bytes",
            "is not a multiple of",
        ),
        ("mpiio_coll_JSON", '"tasks": 2', '"tasks": -2', "tasks: -2, which cannot be"),
        ("mpiio_coll_JSON", '"transferSize": 1048576', '"transferSize": 1048000', "is not a multiple of"),
        ("mpiio_coll_JSON", '"segmentCount": 2', '"segmentCount": 0', "segments: given as 2 and as 0"),
        ("mpiio_coll_JSON", '"nodes": 1', '"nodes": ' + "1" * 30, "nodes: beyond 64 bits"),
        ("mpiio_coll_JSON", '"nodes": 1', '"nodes": 9223372036854775808', "nodes: beyond 64 bits"),
        (
            "mpiio_coll_JSON",
            '"segmentCount": 2',
            '"segmentCount": 9000000000000000000',
            "segments: given as 2 and as 9",
        ),
    ],
)
def test_impossible_numbers_in_all_layouts(sample: str, old: str, new: str, why: str) -> None:
    name, content = _biggest(_files("main" if sample == "ior_perop" else "4.0.0", sample))
    text = content.decode().partition("Summary of all")[0]  # where a table is told by its options alone
    assert old in text
    reading = read({name: text.replace(old, new).encode()}, 0)
    assert refuses(reading, why), reading


_NINES = tuple("9" * length for length in (18, 19, 20, 30, 300, 400, 5000))
LAYOUTS = [
    ("4.0.0", "verbose_v2_stdout"),
    ("main", "ior_perop"),
    ("3.1.0", "script_two_tests"),
    ("3.1.0", "stonewall_D1_w"),
    ("4.0.0", "stonewall_D1_wearout_CSV"),
    ("4.0.0", "posix_shared_seq_1m_np2_i3_CSV"),
]


@pytest.mark.parametrize(("version", "name"), LAYOUTS)
def test_no_number_however_long_makes_it_raise_or_a_row_beyond_64_bits(version: str, name: str) -> None:
    files = _files(version, name)
    for file, content in files.items():
        text = content.decode()
        for i, match in enumerate(re.finditer(r"\d+", text)):
            figure = _NINES[i % len(_NINES)]
            changed = text[: match.start()] + figure + text[match.end() :]
            for row in read({**files, file: changed.encode()}, 0).rows:
                assert all(abs(value) < 1 << 63 for value in row.values() if isinstance(value, int))


def test_a_total_that_is_no_figure_is_a_damaged_line() -> None:
    text = _old("4.0.0", "verbose_v2_stdout")
    for figure in ("10000000000000000000.35", "9" * 5000 + ".1"):
        reading = read({"out": re.sub(r"(Max Write: +)[\d.]+", rf"\g<1>{figure}", text).encode()}, 0)
        assert not measured(reading)
        assert any("a damaged line of the summary: Max Write" in problem for problem in texts(reading))


COPIED = [
    ("4.0.0", "verbose_v2_stdout"),
    ("3.1.0", "script_two_tests"),
    ("4.0.0", "mpiio_coll_JSON"),
    ("4.0.0", "posix_shared_seq_1m_np2_i3_CSV"),
]


@pytest.mark.parametrize(("version", "name"), COPIED)
def test_the_same_output_twice_in_one_file_counts_once(version: str, name: str) -> None:
    file, content = _biggest(_files(version, name))
    whole = read({file: content}, 0)
    assert read({file: content * 2}, 0) == whole
    other = _biggest(_files("main", "posix_shared_seq_1m_np2_i3_CSV"))[1]
    several = read({file: content + other + content}, 0)
    assert several.rows == [*whole.rows, *read({"other": other}, 0).rows]
    assert not texts(several)


@pytest.mark.parametrize(("version", "name"), COPIED)
def test_a_copy_of_a_part_is_of_no_run(version: str, name: str) -> None:
    file, content = _biggest(_files(version, name))
    text = content.decode()
    changed = {
        "CSV": lambda: text + "\n".join(text.splitlines()[:3]),  # as good as a run of one iteration
        "JSON": lambda: text + text.replace('"Version": "4.0.0"', '"Version": "4.0.1"'),
    }.get(name.rpartition("_")[2], lambda: text + text.replace("IOR-" + version, "IOR-3.2.0"))()
    reading = read({file: changed.encode()}, 0)
    assert not measured(reading)
    assert "has the very figures of run" in " ".join(texts(reading))


# -- time ---------------------------------------------------------------------------------------------------------

_BANNERS = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
_TABLE = "access bw(MiB/s) IOPS Latency block(KiB) xfer(KiB) open(s) wr/rd(s) close(s) total(s) iter\n"
_CELLS = "write 1.00 1.00 1.00 1024.00 1024.00 0.1 1.0 0.1 1.0 0\n"
_MAXIMUM = "Max Write: 1.00 MiB/sec (1.05 MB/sec)\n"
_SUMMARY = "Operation Max(MiB) Min(MiB) Mean(MiB) Test#\nwrite 1.00 1.00 1.00 5\n"


def _json(count: int) -> str:
    """A document with so many results and tests."""
    name = "mpiio_coll_JSON.summary.json"
    text = _files("4.0.0", "mpiio_coll_JSON")[name].decode()
    start, end = text.index("{", text.index('"Results"')), text.index("]", text.index('"Results"'))
    return text[:start] + ",".join([text[start : text.index("}", start) + 1]] * count) + text[end:]


_COMMAND = "Command line : ior" + " -a b"
#: name -> text of a size, and a size at which quadratic time shows
GROWING: dict[str, tuple[Callable[[int], str], int]] = {
    "blank lines": (lambda n: "\n" * n, 20_000),
    "blanks": (lambda n: " " * n + "\n" + "\t" * n, 50_000),
    "warnings in a line": (lambda n: "WARNING: " * n, 1000),
    "fsync in a line": (lambda n: "fsync(" * n, 2000),
    "assert in a line": (lambda n: "assert " * n, 2000),
    "IOR- in a line": (lambda n: "IOR-" * n, 2000),
    "a long figure": (lambda n: "write " + "1" * n + "x 1 1 1 1 1 1 1 1", 8000),
    "broken documents": (lambda n: ('{\n "Version": 1' + "\n" * 1000) * n, 500),
    "documents": (lambda n: '{\n "a": 1}\n' * n, 300),
    "results in a document": (_json, 1200),
    "runs with errors": (lambda n: (_BANNERS + "ERROR: x\n" * 20) * n, 200),
    "runs with a summary": (lambda n: (_BANNERS + _SUMMARY) * n, 2400),
    "rows with totals": (lambda n: _BANNERS + _TABLE + _CELLS * n + _MAXIMUM * n, 400),
    "a long command": (lambda n: _BANNERS + _COMMAND * n + "\n" + _TABLE + _CELLS * (n // 9), 999),
    "tests of a script": (lambda n: _BANNERS + _COMMAND * n + "\n" + f"TestID : 0\n{_TABLE}{_CELLS}" * (n // 9), 999),
    "bytes moved": (lambda n: _BANNERS + _TABLE + (_BLOCK.format(5, 5, 5) + _CELLS) * n, 800),
}


def _growth(make: Callable[[int], str], size: int) -> float:
    """CPU time of four times the size to that of the size."""
    took = []
    for length in (size, size, 4 * size):
        content = make(length).encode()
        gc.collect()
        start = process_time()
        read({"a": content}, None)
        took.append(process_time() - start)
    return took[2] / min(took[:2])


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("name", GROWING)
def test_time_grows_with_the_size_and_not_its_square(name: str) -> None:
    assert any(_growth(*GROWING[name]) < 8 for _ in range(3))  # the machine may be busy with other things


# -- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"tasks": 2', '"tasks": 2, "tasks": 4', "there twice with different values"),
        ('"bwMiB": 899.3566, ', "", "lacks what is expected: `bwMiB`"),
        ('"transferSize": 1048576, ', "", "no transferSize"),
        ('"readFile": 1', '"readFile": 0', "was not asked for"),
        ('"repetitions": 3', '"repetitions": 4', "given as 3 and as 4"),
        ('"bwMeanMIB": ', '"bwMeanMIB": 1', "mean of write"),
        ('"verbose": 0', '"verbose": 1 x', "-v"),
        ('"Finished"', '"Finish"', "lacks what is expected: `Finished`"),
        ('"access": "read"', '"access": "write"', "write of iteration 3 was not asked for"),
        ('"randomOffset": 0', '"randomOffset": 1', "ordering in a file"),
        ('"iops": 1290.1147', '"iops": 1390.1147', "operations/s x time"),
    ],
)
def test_what_is_said_twice_in_json_must_agree(old: str, new: str, why: str) -> None:
    document = _files("4.0.0", "mpiio_coll_JSON")["mpiio_coll_JSON.summary.json"].decode()
    assert old in document
    reading = read({"json": document.replace(old, new, 1).encode()}, 0)
    assert refuses(reading, why), reading


def test_with_one_iteration_the_summary_has_more_digits_than_the_table() -> None:
    table = _files("main", "ior_perop")["ior_perop.out"].decode()
    fast = "read  7200  28800  0.004490  1024.00  256.00  0.000010  0.000278  0.000012  0.000278  0"
    table = re.sub(r"read      111.30 .*0", fast, table)
    table = re.sub(r"(read +)111\.30 +111\.30 +111\.30", r"\g<1>7200.31 7200.31 7200.31", table)
    reading = read({"out": table.encode()}, 0)
    assert not texts(reading)
    assert reading.rows[1]["bandwidth_bytes_per_s"] == 7200.31 * MIB


def test_what_a_job_script_prints_is_not_ior_s_and_what_ior_prints_without_its_banner_is() -> None:
    table = _files("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
    other = _files("main", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
    log = "nodes: 4\ntasks: 128\ntype: fat\n" + table + "nodes: 8\ntasks: 256\n" + other
    reading = read({"slurm-1.out": log.encode()}, None)
    assert not texts(reading)
    assert [row["tasks"] for row in reading.rows] == [2] * 12
    headless = table[table.index("api    ") :]
    reading = read({"out": headless.encode()}, 0)
    assert not texts(reading)
    assert [row["repetition"] for row in reading.rows[::2]] == [1, 2, 3]
    assert {(row["api"], row["tasks"], row["collective"]) for row in reading.rows} == {("POSIX", 2, False)}


def test_a_script_may_say_otherwise_than_its_command_line() -> None:
    table = _files("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
    reading = read({"out": table.replace("-F -b 16m", "-f script -w -b 16m").encode()}, 0)
    assert not texts(reading)
    assert len(reading.rows) == 6
    assert "o_direct" not in reading.rows[0]


def test_rows_inside_of_a_damaged_json_are_of_no_run() -> None:
    document = _files("4.0.0", "mpiio_coll_JSON")["mpiio_coll_JSON.summary.json"].decode()
    foreign = _files("4.0.0", "T_timelimit_CSV")["T_timelimit_CSV.summary.csv"].decode()
    for start in ('"Began"', '"Parameters"'):
        at = document.index(start)
        for beginning in (document[:at], document[2:at]):  # with its brace and without
            reading = read({"json": (beginning + foreign + document[at:]).encode()}, 0)
            assert not measured(reading)
            assert "the JSON is damaged" in texts(reading)[0]


def test_warnings_in_another_file_must_be_of_the_one_run() -> None:
    rows = _files("4.0.0", "T_timelimit_CSV")["T_timelimit_CSV.summary.csv"]
    log = ("Writing output to x\n" + _BLOCK.format(8388608, 8388608, 8388608) + _LIMIT).encode()
    assert len(read({"x.csv": rows, "out": log}, 0).rows) == 2
    reading = read({"x.csv": rows + rows, "out": log}, 0)
    assert not measured(reading)
    assert any("do not say of which run" in problem for problem in texts(reading))


def test_the_exit_code_counts_and_its_absence_does_not() -> None:
    files = _files("main", "posix_shared_seq_1m_np2_i3_CSV")
    assert len(read(files, None).rows) == len(read(files, 0).rows) == 6
    assert read(files, 9).rows == []


# -- the runner's own runs ------------------------------------------------------------------------------------------


def test_summary_of_a_run_as_the_runner_makes_it() -> None:
    files = _files("4.0.0", "mpiio_coll_JSON")
    run = summary(files["mpiio_coll_JSON.summary.json"], files["mpiio_coll_JSON.out"])
    assert run.problems == ()
    assert (run.version, run.tasks, run.nodes, run.clients_per_node, run.api) == ("4.0.0", 2, 1, 2, "MPIIO")
    assert run.options["type"] == "collective"
    assert len(run.results) == 6
    assert run.results[0].bandwidth_bytes_per_s == 899.3566 * MIB
    assert run.results[0].bytes_moved == 67108864


def test_summary_of_a_run_bounded_by_time_has_the_bytes_that_were_moved() -> None:
    document = _files("4.0.0", "E_datacheck_R_corrupt_JSON")["E_datacheck_R_corrupt_JSON.summary.json"].decode()
    bounded = document.replace('"deadlineForStonewall": 0', '"deadlineForStonewall": 2')
    figures = {"wrRdTime": 2.0, "totalTime": 2.0, "xsizeMiB": 2000.0}
    figures |= dict.fromkeys(("bwMiB", "iops", "bwMaxMIB", "bwMinMIB", "bwMeanMIB"), 1000.0)
    for name, value in figures.items():
        bounded = re.sub(rf'"{name}": [\d.]+', f'"{name}": {value:.4f}', bounded)
    moved = _BLOCK.format(8388608, 8388608, 2000 * MIB) + _LIMIT
    run = summary(bounded.encode(), moved.encode())
    assert run.problems == ()
    assert run.results[0].bytes_moved == 2000 * MIB
    assert run.stonewall_s == 2
    alone = read({"summary.json": bounded.encode()}, None)
    assert alone.verdict(0) == "suspect"
    assert any("only IOR's messages tell" in problem for problem in texts(alone))
    for said in (b"", _BLOCK.format(8388608, 4194304, 2000 * MIB).encode()):  # 1000 MiB/s x 2 s are not 8 MiB
        run = summary(bounded.encode(), said)
        assert not run.problems and {remark.severity for remark in run.remarks} >= {"suspect" if said else "invalid"}
    assert summary(bounded.encode(), (moved + "WARNING: Incorrect data on read (1 errors found).").encode()).problems
    assert summary(bounded.encode()[:-300], moved.encode()).problems == ("the JSON is cut: the run did not end",)
    assert summary(b"", b"ERROR: x").problems == ("the summary is empty", "IOR or MPI says: ERROR: x")


# -- damaged files --------------------------------------------------------------------------------------------------


def _biggest(files: Mapping[str, bytes]) -> tuple[str, bytes]:
    return max(files.items(), key=lambda item: len(item[1]))


def _variants(sample: Sample, random: Random) -> Iterator[tuple[str, dict[str, bytes], Sample | None]]:
    """The sample with one of its files cut, lines of it doubled, dropped, out of order, or another's among them."""
    files = sample.files
    biggest, content = _biggest(files)
    for _ in range(200):
        at = random.randrange(len(content))
        yield f"cut at {at}", {**files, biggest: content[:at]}, None
    lines = content.splitlines(keepends=True)
    others = [s for s in GOOD if s != sample]
    for kind in ("double", "drop", "drop", "mix", "mix", "swap") * 8:
        changed = list(lines)
        donor = None
        picked = sorted(random.sample(range(len(lines)), min(len(lines), random.choice((1, 1, 2, 3)))), reverse=True)
        if kind == "swap":
            i, j = random.choice(range(len(lines))), picked[0]
            changed[i], changed[j] = changed[j], changed[i]
        elif kind == "mix":
            donor = random.choice(others)
            foreign = _biggest(donor.files)[1].splitlines(keepends=True)
            for line in random.sample(foreign, min(len(foreign), random.choice((1, 2, 5)))):
                changed.insert(random.randrange(len(changed) + 1), line)
        else:
            for i in picked:
                changed[i : i + 1] = [lines[i]] * 2 if kind == "double" else []
        yield f"{kind} {picked}", {**files, biggest: b"".join(changed)}, donor


def _own(reading: Reading, whole: Reading, donor: Sample | None) -> Reading:
    """Without a run of the donor that stands beside the sample's own: a header and rows of CSV make one anywhere."""
    if donor is None or len(reading.rows) <= len(whole.rows):
        return reading
    foreign = [row["bandwidth_bytes_per_s"] for row in donor.read().rows]
    rows = [row for row in reading.rows if row["bandwidth_bytes_per_s"] not in foreign]
    return Reading(reading.version, rows if len(rows) == len(whole.rows) else reading.rows, reading.problems)


@pytest.mark.parametrize("sample", GOOD, ids=_name)
def test_no_damage_makes_a_wrong_figure(sample: Sample) -> None:
    """Cut, doubled, dropped, swapped and foreign lines: what is given is right, with or without a problem."""
    whole = sample.read()
    seen = 0
    for what, files, donor in _variants(sample, Random(_name(sample))):
        reading = read(files, None)
        wrong = _wrong(_own(reading, whole, donor), whole)
        if what.startswith("swap"):  # nothing that IOR writes says again how long opening and closing took
            wrong = [text for text in wrong if " open_s" not in text and " close_s" not in text]
        assert not wrong, (what, wrong, texts(reading))
        seen += bool(reading.rows)
    assert seen  # some damage does no harm; a reader that refuses all of it would prove nothing


def _merged(one: list[bytes], other: list[bytes], most: int, random: Random) -> Iterator[bytes]:
    """The lines of both in their order, taken in turns of up to `most`."""
    sources, places, turn = (one, other), [0, 0], random.randrange(2)
    while places[0] < len(one) or places[1] < len(other):
        count = random.randint(1, most)
        yield from sources[turn][places[turn] : places[turn] + count]
        places[turn] += count
        turn = 1 - turn


TABLES = [sample for sample in GOOD if _biggest(sample.files)[0].endswith(".out")]


@pytest.mark.parametrize("sample", TABLES, ids=_name)
def test_two_outputs_line_by_line_make_no_wrong_figure(sample: Sample) -> None:
    random = Random(f"mixed {_name(sample)}")
    for most in (1, 4, 12, 40) * 2:
        other = random.choice([s for s in TABLES if s != sample])
        both = [_biggest(s.files)[1].splitlines(keepends=True) for s in (sample, other)]
        reading = read({"out": b"".join(_merged(*both, most, random))}, None)
        for row in reading.rows:
            one = Reading(None, [row], [])
            assert not _wrong(one, sample.read()) or not _wrong(one, other.read()), texts(reading)


@pytest.mark.parametrize("seed", range(3))
def test_no_damage_makes_a_wrong_figure_of_the_notes(seed: int) -> None:
    random = Random(seed)
    lines = NOTES.splitlines(keepends=True)
    right = {(row["phase"], row["transfer_size_bytes"]): row for row in read({"r": NOTES}, None).rows}
    for _ in range(200):
        content = NOTES[: random.randrange(len(NOTES))] if random.random() < 0.5 else b"".join(
            line * random.choice((0, 1, 1, 1, 1, 2)) for line in lines
        )  # fmt: skip
        for row in read({"r": content}, None).rows:
            assert row == right[row["phase"], row["transfer_size_bytes"]]


_WORDS = st.sampled_from(
    [
        b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n",
        b"access    bw(MiB/s)  iter\n",
        b"write 1 2 3 4 5 6 7 8 9 0\n",
        b"TestID : 0\n",
        b"tasks : 0\n",
        b"Operation Max(MiB) Test#\n",
        b'{\n  "Version": "4.0.0"',
        b'"tests": [{}],',
        b"}\n",
        b"NaN",
        b"1e999",
        b"write,1.0000,",
        b"access_type,threads,transfer_size,",
        b"WARNING: Expected aggregate file size = 5\n",
    ]
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=60), _WORDS), max_size=12), st.sampled_from([None, 0, 1]))
@example([b'{\n"a":' * 5000], None)
@example([b"{\n" + b'"tests": ' + b"[" * 100000], None)
@example([b'{\n"a": 1,\n"Command line": 5}'], None)
@example([",".join(["access", *"123"]).encode()], None)
def test_nothing_makes_it_raise(parts: Sequence[bytes], exit_code: int | None) -> None:
    content = b"".join(parts)
    assert not read({"a": content, "b": content[::-1]}, exit_code).rows
    assert texts(read({"a": content}, exit_code))
    assert summary(content, content).problems


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.sampled_from(GOOD), st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8))
def test_bytes_written_over_do_not_make_it_raise(sample: Sample, at: int, what: bytes) -> None:
    for name, content in sample.files.items():
        start = at % len(content)
        read({**sample.files, name: content[:start] + what + content[start + len(what) :]}, 0)


@pytest.mark.parametrize("version", ["3.3.0", "4.0.0"])
def test_values_of_any_other_type_in_the_json_do_not_make_it_raise(version: str) -> None:
    files = _files(version, "mpiio_coll_JSON")
    text = files["mpiio_coll_JSON.summary.json"].decode()
    values = list(re.finditer(r'(?<=: )("[^"\n]*"|[\d.]+)', text))
    others = (
        "null",
        "-1",
        "-1.0",
        "0",
        "0.0",
        "true",
        '"x"',
        "[]",
        "{}",
        "[[{}]]",
        "1e400",
        "9" * 400 + ".5",
        "9" * 5000,
    )
    for number, match in enumerate(values):
        for other in others[number % 5 :: 5]:
            changed = text[: match.start()] + other + text[match.end() :]
            read({"a.json": changed.encode()}, 0)
            summary(changed.encode(), b"")
