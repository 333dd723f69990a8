"""IOR's output to figures: recorded outputs of real runs (samples/ior), good and bad, and what makes one row invalid.

expected.json was decided by hand, figures read off the files: of a good sample its rows, then of the first one its
access, bandwidth (MiB/s) and IOPS, the last one's total (s), tasks, and the ordering where the files tell it; null is a
bad one. `own` are runs of this project's commands.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from iosweep.tables.columns import result_columns
from iosweep.tools import Parsed, Step, tools
from iosweep.tools.ior.output import read, summary
from iosweep.tools.reading import Reading
from readings import judged, measured, said, texts

IOR = tools()["ior"]
SAMPLES = Path(__file__).resolve().parents[1] / "samples/ior"
OWN = SAMPLES / "own"
MIB = 1 << 20
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected.json").read_text())
with (SAMPLES / "manifest.tsv").open() as _file:
    COMMANDS = {f"{row['version']}/{row['sample']}": row["command"] for row in csv.DictReader(_file, delimiter="\t")}
GOOD = [name for name, known in EXPECTED.items() if known]
BAD = [name for name in EXPECTED if name not in GOOD]


def content(name: str) -> bytes:
    """All files of a run one after the other, the summary last: what is said before a run is of it."""
    folder, stem = (SAMPLES / name).parent, (SAMPLES / name).name
    own = re.compile(rf"{re.escape(stem)}\.(out|err|summary\.\w+)")
    found = sorted(
        (path for path in folder.iterdir() if own.fullmatch(path.name)), key=lambda path: "summary" in path.name
    )
    return b"\n".join(path.read_bytes() for path in found)


# What a file alone says.


def test_good_samples_give_their_figures(short_runs_are_good: None) -> None:
    assert EXPECTED.keys() == COMMANDS.keys()
    found = {}
    for name in GOOD:
        reading = read(content(name))
        assert not texts(reading), name
        (first, *_), last = reading.rows, reading.rows[-1]
        order = (first.get("phase") or "").partition("_")[0] or None
        found[name] = [
            len(reading.rows), first["label"], round(first["bandwidth_bytes_per_s"] / MIB, 6), first.get("ops_per_s"),
            last["runtime_s"], first["tasks"], order,
        ]  # fmt: skip
        assert len({row["tasks"] for row in reading.rows}) == 1, name
    assert found == {name: EXPECTED[name] for name in GOOD}


def test_bad_samples_give_no_figure_and_say_why(short_runs_are_good: None, snapshot: SnapshotAssertion) -> None:
    banner = "MPI Coordinated Test of Parallel I/O\n"
    documents = (
        "",
        f"IOR-2.10.3: {banner}\nwrite 1 2 3\n",
        f"IOR-3.0.1: {banner}Command line used: ior\nParticipating tasks: 2\n",
        f"IOR-4.0.0: {banner}write 1 2 3 4 5 6 7 8 9 10\n",  # a result without its header
        "Writing output to x.csv\n",
        "access,bw(MiB/s),IOPS,Latency,block(KiB)\nwrite,593.2419,593.5108,0.0034,16384.0000\n",
    )
    readings = {name: read(content(name)) for name in BAD}
    readings |= {repr(document): read(document.encode()) for document in documents}
    assert [name for name, reading in readings.items() if measured(reading) or not texts(reading)] == []
    assert "\n".join(f"{name}\n{said(reading)}" for name, reading in readings.items()) == snapshot


def test_columns_are_what_the_command_asks_for(short_runs_are_good: None) -> None:
    known = {column.name for column in result_columns()}
    units = {"k": 1 << 10, "m": 1 << 20, "": 1}
    for name in GOOD:
        words = COMMANDS[name].split()
        if "-f" in words:  # a script says it
            continue
        asked = dict(pairwise(words))
        sizes = {name: int(asked[f"-{name}"].rstrip("km")) * units[asked[f"-{name}"].lstrip("0123456789")]
                 for name in "bt"}  # fmt: skip
        segments, timed = int(asked.get("-s", 1)), "-D" in words
        for row in read(content(name)).rows:
            assert not set(row) - known
            told = {
                "transfer_size_bytes": sizes["t"], "file_size_bytes": sizes["b"] * segments, "api": asked["-a"],
                "file_per_process": "-F" in words, "collective": "-c" in words,
                "o_direct": "--posix.odirect" in words or "-B" in words,
                "fsync": "-e" in words and row["label"] == "write",
            }  # fmt: skip
            assert {key: row.get(key) for key in told if row.get(key) is not None}.items() <= told.items(), name
            moved = row.get("bytes_written", row.get("bytes_read"))
            if isinstance(moved, int):
                assert timed or moved == sizes["b"] * segments * int(row["tasks"]), name
                assert int(row["ops"]) * sizes["t"] == moved, name


def test_bytes_of_a_run_bounded_by_time_come_from_iors_messages(short_runs_are_good: None) -> None:
    (row,) = read(content("recorded/ior_collective_timed")).rows
    assert (row["bytes_written"], row["ops"]) == (681574400, 2600)
    alone = read((SAMPLES / "recorded/ior_collective_timed.summary.json").read_bytes())
    assert "bytes_written" not in alone.rows[0]
    checked = read((SAMPLES / "4.0.0/E_datacheck_R_corrupt_JSON.summary.json").read_bytes())
    assert checked.verdict(0) == "suspect"  # only the messages tell whether the data was right


def test_a_cut_output_has_no_figure_without_a_problem(short_runs_are_good: None) -> None:
    for name in ("4.0.0/posix_fpp_seq_1m_np2_i3_JSON", "4.0.0/verbose_v2_stdout"):
        text = content(name)
        rates = [row["bandwidth_bytes_per_s"] for row in read(text).rows]
        for cut in range(0, len(text), len(text) // 25):
            reading = read(text[:cut])
            found = [row["bandwidth_bytes_per_s"] for row in reading.rows if "bandwidth_bytes_per_s" in row]
            assert texts(reading) or found == rates, (name, cut)


@given(st.sampled_from(GOOD), st.binary(max_size=200), st.integers(0, 5000), st.integers(0, 300))
def test_whatever_a_file_holds_can_be_read(name: str, junk: bytes, at: int, over: int) -> None:
    text = content(name)
    assert isinstance(read(text[:at] + junk + text[at + over :]), Reading)


# A campaign's own runs.

TIMED: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 65536, "file_size": 8 * MIB, "file_per_process": True, "api": "POSIX",
    "collective": False, "o_direct": True, "fsync": True, "write_mode": "overwrite", "data": "random",
}  # fmt: skip
SHARED = TIMED | {"transfer_size": MIB, "file_per_process": False, "api": "MPIIO", "o_direct": False}


def step(phase: str, time_s: float | None = 1.0, **options: Any) -> Step:
    return Step((TIMED if time_s else SHARED) | options, (IOR.phases[phase],), 1, time_s)


WRITES = step("seq_write")


def streams(sample: str) -> dict[str, bytes]:
    files = {"stdout": "out", "summary": "summary.json"}
    return {name: (OWN / f"{sample}.{ending}").read_bytes() for name, ending in files.items()}


def parsed(sample: str, step: Step, **changed: bytes) -> Parsed:
    return IOR.parse(streams(sample) | changed, step, step.phase)


def verdict(step: Step, parsed: Parsed) -> tuple[str, list[str]]:
    return judged("ior", parsed, step)


def test_figures_are_those_of_the_summary() -> None:
    found = parsed("ior_seq_write_fpp", WRITES)
    moved = 993_394_688
    assert (found.version, found.label, found.problems) == ("4.0.0", "write", []) and not found.evidence.errors
    expected = {
        "bandwidth_bytes_per_s": 942.1844 * MIB, "ops_per_s": 15155.561, "runtime_s": 1.0055, "io_s": 1.0002,
        "bytes_written": moved, "ops": moved // 65536, "tasks": 2,
    }  # fmt: skip
    assert {name: found.figures[name] for name in expected} == pytest.approx(expected)
    assert "latency_mean_s" not in found.figures  # IOR's is wrong with a deadline


def test_every_timed_phase_is_valid_and_moved_its_rate_times_its_time() -> None:
    for phase in ("seq_write", "seq_read", "rand_write", "rand_read"):
        wanted = step(phase)
        found = parsed(f"ior_{phase}_fpp", wanted)
        assert verdict(wanted, found) == ("valid", []), phase
        # -C, which only reads have: each rank reads what the next node's wrote
        assert (found.evidence.shifts, found.evidence.shift) == (wanted.phase.reads, 2)
        moved = found.figures["bytes_read" if wanted.phase.reads else "bytes_written"]
        assert moved == pytest.approx(found.figures["bandwidth_bytes_per_s"] * found.figures["runtime_s"], rel=1e-4)
        (result,) = summary(*reversed(streams(f"ior_{phase}_fpp").values()))[1].results
        assert result.bytes_moved == moved


def test_one_pass_moves_the_files_once_and_may_be_too_short_for_the_clock() -> None:
    once = step("seq_write", None, write_mode="new")
    found = parsed("ior_seq_write_shared", once)
    assert found.figures["bytes_written"] == 16 * MIB and verdict(once, found) == ("valid", [])
    short = step("rand_read", None)
    assert verdict(short, parsed("ior_rand_read_shared", short)) == ("invalid", ["duration", "long_enough"])


def changed(**values: Any) -> dict[str, bytes]:
    """The summary of a run with keys of its only result, or of its options, changed."""
    text = streams("ior_seq_write_fpp")["summary"].decode()
    for key, value in values.items():
        text, found = re.subn(rf'"{key}": [^,\n]*', f'"{key}": {json.dumps(value)}', text)
        assert found
    return {"summary": text.encode()}


def printed(line: str) -> dict[str, bytes]:
    return {"stdout": line.encode() + b"\n" + streams("ior_seq_write_fpp")["stdout"]}


@pytest.mark.parametrize(
    ("changes", "expected", "failed"),
    [
        # singletons: each rank believes that it is alone
        (changed(tasks=1, numTasks=1), "invalid", "workers"),
        (changed(bwMiB=1884.3688), "invalid", "arithmetic"),
        (changed(wrRdTime=0.2, totalTime=0.2), "invalid", "arithmetic"),
        (changed(access="read"), "invalid", "direction"),
        (printed("Incorrect data on write (2 errors found)."), "invalid", "tool_errors"),
        (printed("WARNING: fsync(29) failed Input/output error"), "invalid", "tool_errors"),
        (printed("WARNING: fsync() not supported in selected backend.  Using value of 0."), "suspect", "durable"),
        (printed("transport: 3 requests failed and were sent again"), "suspect", "tool_doubts"),
        (printed("WARNING: Backend returned error during statfs"), "valid", ""),
        *(({"summary": streams("ior_seq_write_fpp")["summary"][:cut]}, "invalid", "output") for cut in (0, 1, 2500)),
    ],
)
def test_what_ior_says_decides_the_verdict(changes: dict[str, bytes], expected: str, failed: str) -> None:
    found = parsed("ior_seq_write_fpp", WRITES, **changes)
    outcome, checks = verdict(WRITES, found)
    assert outcome == expected and (failed in checks if failed else not checks), checks
    assert bool(found.figures) != (failed == "output")


def test_random_data_of_large_files_repeats_after_128_mib() -> None:
    for size, repeats in ((8 * MIB, False), (128 * MIB, False), (256 * MIB, True)):
        found = parsed("ior_seq_write_fpp", step("seq_write", file_size=size))
        assert bool(found.evidence.repeats) == repeats, size


def test_sets_hold_data_that_does_not_repeat() -> None:
    """IOR's rand_r has the same answer for seeds that are alike in their lower 27 bits; a seed is an I/O's offset."""
    for size in (1 * MIB, 3 * MIB, 128 * MIB, 512 * MIB, 16 << 30, 100 << 30, 3 << 40):
        files = IOR.file_set(step("seq_read", file_size=size), "")
        assert files.prepare
        words = files.prepare("/t")
        block, transfer = (int(words[words.index(flag) + 1]) for flag in ("-b", "-t"))
        assert block % transfer == 0 and block - size == files.surplus_bytes < transfer
        offsets = {k * transfer % (1 << 27) for k in range(min(block // transfer, 1 << 16))}
        assert len(offsets) == block // transfer, size


# What makes single rows invalid or suspect.


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


def test_a_run_that_was_over_at_once_is_no_measurement() -> None:
    for seconds, expected in ((0.0009, "invalid"), (0.0021, "suspect"), (0.0199, "suspect"), (0.0201, "valid")):
        reading = of(table(access="read", command="-r", seconds=seconds))
        assert reading.verdict(0) == expected, seconds
        assert ("bandwidth_bytes_per_s" in reading.rows[0]) == (expected != "invalid")


def test_what_changes_io_and_is_in_no_column_is_told_and_nothing_else() -> None:
    for command, others, fsync in (
        ("-w -a POSIX -t 1m -F -o /a -G 3 -v -i 1 -O summaryFile=/b,randomOffsetSeed=1", "", False),
        ("-w -e", "", True), ("-w -r -R -Y", "-Y", True), ("-w -O fsyncPerWrite=1", "-fsyncperwrite=1", True),
        ("-w -E -l random -Q 2 -O memoryPerNode=/x", "-E -Q=2 -l=random -memorypernode", False),
    ):  # fmt: skip
        row = of(table(command)).rows[0]
        assert (row["other_options"], row["fsync"]) == (others, fsync), command


def test_an_fsync_or_o_direct_that_ior_did_without_is_not_claimed() -> None:
    assert of(table()).rows[0]["fsync"] is True
    for line in (
        "ior WARNING: fsync() only available in POSIX(AIO).  Using value of 0.",
        "WARNING: fsync() not supported in selected backend. Using value of 0.",
    ):
        reading = of(f"{line}\n{table()}")
        assert (reading.rows[0]["fsync"], reading.verdict(0)) == (False, "valid")
    assert of(table("--posix.odirect -w")).rows[0]["o_direct"] is True
    reading = of("ior WARNING: cannot use O_DIRECT\n" + table("--posix.odirect -w"))
    assert (reading.rows[0]["o_direct"], reading.verdict(0)) == (False, "suspect")


RANDOM = {"ordering in a file": "random"}
STATUS = "-O stoneWallingStatusFile=/s"


@pytest.mark.parametrize(
    ("command", "stat", "moved", "limit", "expected", "size"),
    [
        ("-w", 0, 0, False, "valid", 32),  # no warning
        ("-r -D 300", 64, 32, True, "valid", None),  # a complete file, ended by the deadline
        ("-r -D 300", 32, 32, True, "valid", None),  # what a stonewalled write left
        ("-r -D 300", 20, 32, True, "suspect", None),  # beyond what is allocated; the offsets are sequential
        ("-r -z -D 300", 20, 32, True, "invalid", None),  # random ones: holes cost nothing
        ("-r -D 300", 64, 128, True, "valid", 32),  # several passes
        ("-w -D 300", 32, 32, True, "valid", None),
        ("-w -D 300", 20, 32, True, "suspect", None),  # clients that cache sizes
        ("-w", 64, 32, False, "invalid", None),  # no limit, and yet not all
        ("-r", 16, 16, False, "invalid", None),
        (f"-r {STATUS}", 16, 16, False, "valid", None),  # as many bytes as were written
        (f"-w {STATUS}", 16, 16, False, "invalid", None),  # a status file bounds reads alone
        ("-r", 128, 64, False, "valid", 32),  # a part of a larger file
        ("-r", 48, 64, False, "suspect", 32),
    ],
)
def test_bytes_that_ior_moved_decide_whether_a_figure_is_true(
    command: str, stat: int, moved: int, limit: bool, expected: str, size: int | None
) -> None:
    before = warning(moved * MIB, stat * MIB, limit=limit) if moved else ""
    access, seconds = "read" if "-r" in command else "write", 300.0 if "-D" in command else 2.0
    options = RANDOM if "z" in command else {}
    total = (moved or 64) * MIB
    reading = of(table(command, access=access, before=before, moved=total, seconds=seconds, options=options))
    row = reading.rows[0]
    assert reading.verdict(0) == expected, reading.problems
    if expected != "invalid":
        assert row["bytes_written" if access == "write" else "bytes_read"] == total
        assert row.get("file_size_bytes") == (size and size * MIB)


def test_a_row_that_cannot_be_leaves_the_others() -> None:
    text = table("-w -r")
    row = text.splitlines()[-1].replace("write", "read")
    both = read(f"{text}{row}\n".encode())
    assert not texts(both) and len(measured(both)) == 2
    wrong = read(f"{text}{row.replace('32.0000', '0.0000', 1)}\n".encode())
    assert [wrong.verdict(index) for index in range(2)] == ["valid", "invalid"]
    assert {problem.row for problem in wrong.problems} == {1}
    other = read(f"{text}{row.replace('32.0000', '64.0000', 1)}\n".encode())
    assert [other.verdict(index) for index in range(2)] == ["valid", "invalid"]
    assert not read(table("-w -O dryRun=1").encode()).rows
    assert "bandwidth_bytes_per_s" in wrong.rows[0] and "bandwidth_bytes_per_s" not in wrong.rows[1]


def test_a_time_limit_of_all_iterations_leaves_a_summary_that_can_be_read() -> None:
    """IOR writes -nan for iterations that it left out (hpc/ior#542)."""
    limited = read(table("-w -T 1 -i 20", options={"repetitions": "20"}).encode())
    assert (limited.verdict(0), [problem.severity for problem in limited.problems]) == ("valid", ["note"])
    text = (OWN / "ior_seq_write_fpp.summary.json").read_text()
    assert len(measured(read(re.sub(r'("bwMaxMIB": )[\d.]+', r"\1-nan", text).encode()))) == 1


def test_unequal_ranks_have_no_number_per_node() -> None:
    """IOR says how many the node of rank 0 has (hpc/ior#181)."""
    found = read(table("-r -C", access="read", options={"nodes": "2", "clients per node": "1"}).encode())
    assert found.rows[0]["threads_per_node"] == 1 and found.verdict(0) == "valid"
    told = {"nodes": "2", "tasks": "4", "clients per node": "3", "aggregate filesize": "128 MiB"}
    found = read(table("-r -C", access="read", moved=128 * MIB, options=told).encode())
    assert (found.rows[0].get("threads_per_node"), found.rows[0]["tasks"]) == (None, 4)
    assert found.verdict(0) == "suspect"


def test_a_row_that_is_missing_is_said_and_no_other_iteration_takes_its_place() -> None:
    text = table("-w -r -i 2", options={"repetitions": "2"})
    row = text.splitlines()[-1]
    rows = [f"{row.replace('write', access)[:-1]}{k}\n" for k in (0, 1) for access in ("write", "read")]
    whole = text.removesuffix(f"{row}\n")
    for missing, verdicts in ((None, ["valid"] * 4), (0, ["valid"] * 3), (3, ["valid"] * 3)):
        reading = read((whole + "".join(r for k, r in enumerate(rows) if k != missing)).encode())
        assert [reading.verdict(k) for k, _ in enumerate(reading.rows)] == verdicts
        assert bool(texts(reading)) == (missing is not None)
    assert not read((whole + "".join([*rows, rows[3]])).encode()).rows  # twice
