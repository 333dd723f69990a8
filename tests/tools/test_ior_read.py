"""IOR's output of others: what a file alone says, against real runs (samples/ior), good and bad.

expected.json was decided by hand, figures read off the files: of a good sample its rows, then of the first one its
access, bandwidth (MiB/s) and IOPS, the last one's total (s), tasks, and the ordering where the files tell it. Of a bad
one what must be said. IOR 3.3's CSV has no separators: it is bad whatever ran.
"""

from __future__ import annotations

import csv
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.results.columns import result_columns
from iosweep.tools.ior.output import read, summary
from iosweep.tools.reading import Reading
from readings import measured, texts

pytestmark = pytest.mark.usefixtures("short_runs_are_good")

SAMPLES = Path(__file__).resolve().parents[1] / "samples/ior"
MIB = 1 << 20
BANNER = b"IOR-%s: MPI Coordinated Test of Parallel I/O\n"
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected.json").read_text())
with (SAMPLES / "manifest.tsv").open() as _file:
    COMMANDS = {f"{row['version']}/{row['sample']}": row["command"] for row in csv.DictReader(_file, delimiter="\t")}
GOOD = [name for name, known in EXPECTED.items() if isinstance(known, list)]
BAD = [name for name in EXPECTED if name not in GOOD]


def content(name: str) -> bytes:
    """All files of a run one after the other, the summary last: what is said before a run is of it."""
    folder, stem = (SAMPLES / name).parent, (SAMPLES / name).name
    own = re.compile(rf"{re.escape(stem)}\.(out|err|summary\.\w+)")
    found = sorted(
        (path for path in folder.iterdir() if own.fullmatch(path.name)), key=lambda path: "summary" in path.name
    )
    return b"\n".join(path.read_bytes() for path in found)


def test_every_sample_is_decided() -> None:
    assert EXPECTED.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", GOOD)
def test_good_samples(name: str) -> None:
    reading = read(content(name))
    rows, label, bandwidth, ops_per_s, last_runtime_s, tasks, order = EXPECTED[name]
    assert not texts(reading)
    assert len(reading.rows) == rows
    first = reading.rows[0]
    assert (first["label"], first.get("ops_per_s")) == (label, ops_per_s)
    assert first["bandwidth_bytes_per_s"] == pytest.approx(bandwidth * MIB, rel=1e-12)
    assert (reading.rows[-1]["runtime_s"], {row["tasks"] for row in reading.rows}) == (last_runtime_s, {tasks})
    assert first.get("phase") == (f"{order}_{label}" if order else None)


@pytest.mark.parametrize("name", BAD)
def test_bad_samples(name: str) -> None:
    ((verdict, reasons),) = EXPECTED[name].items()
    reading = read(content(name))
    verdicts = {reading.verdict(index) for index, _ in enumerate(reading.rows)}
    assert verdicts == {"suspect"} if verdict == "doubtful" else not measured(reading)
    assert [one for one in reasons if not any(one in text for text in texts(reading))] == []


@pytest.mark.parametrize("name", GOOD)
def test_columns_are_what_the_command_asks_for(name: str) -> None:
    known = {column.name for column in result_columns()}
    words = COMMANDS[name].split()
    if "-f" in words:  # a script says it
        return
    asked = dict(pairwise(words))
    units = {"k": 1 << 10, "m": 1 << 20}
    sizes = {name: int(asked[f"-{name}"][:-1]) * units[asked[f"-{name}"][-1]] for name in "bt"}
    for row in read(content(name)).rows:
        assert not set(row) - known
        assert row["transfer_size_bytes"] == sizes["t"]
        assert row.get("file_size_bytes") in (None, sizes["b"] * int(asked.get("-s", 1)))
        assert row.get("api") in (None, asked["-a"])
        assert row.get("file_per_process") in (None, "-F" in words)
        assert row.get("collective") in (None, "-c" in words)
        assert row.get("o_direct") in (None, "--posix.odirect" in words or "-B" in words)
        assert row.get("fsync") in (None, "-e" in words and row["label"] == "write")
        moved = row.get("bytes_written", row.get("bytes_read"))
        if isinstance(moved, int):
            assert "-D" in words or moved == sizes["b"] * int(asked.get("-s", 1)) * int(row["tasks"])
            assert int(row["ops"]) * sizes["t"] == moved


def test_a_good_run_in_full() -> None:
    """One row of a JSON, by hand from the file."""
    assert read((SAMPLES / "4.0.0/posix_fpp_seq_1m_np2_i3_JSON.summary.json").read_bytes()).rows[2] == {
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


def test_stonewalled_bytes_are_those_that_ior_moved() -> None:
    rows = read(content("4.0.0/stonewall_D1_wearout_CSV")).rows
    assert [(row["bytes_written"], row["ops"]) for row in rows] == [(2317352960, 2210), (3458203648, 3298)]
    alone = read((SAMPLES / "4.0.0/stonewall_D1_wearout_CSV.summary.csv").read_bytes())
    assert not measured(alone) and "no whole number of blocks" in texts(alone)[0]


def test_a_checked_run_without_its_messages_is_suspect() -> None:
    alone = read((SAMPLES / "4.0.0/E_datacheck_R_corrupt_JSON.summary.json").read_bytes())
    assert alone.verdict(0) == "suspect" and "only IOR's messages tell" in texts(alone)[0]


def test_several_runs_in_one_log_are_kept_apart() -> None:
    names = ("4.0.0/posix_fpp_seq_1m_np2_i3_JSON", "4.0.0/verbose_v2_stdout", "4.0.0/csv_stdout")
    both = read(b"\n".join(map(content, names)))
    assert not texts(both)
    assert [row["label"] for row in both.rows] == [row["label"] for name in names for row in read(content(name)).rows]
    line = b"WARNING: fsync(12) failed\n"
    spoiled = read(b"\n".join([content(names[0]), line, content(names[1])]))
    assert len(measured(spoiled)) == 6 and texts(spoiled)[0].startswith("run 2 of 2: ")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no results of IOR"),
        (BANNER % b"2.10.3" + b"\nwrite 1 2 3\n", "not read: IOR 2.10.3 (3.3 and newer are)"),
        (BANNER % b"3.0.1" + b"Command line used: ior\nParticipating tasks: 2\n", "not read: IOR 3.0.1"),
        (BANNER % b"4.0.0" + b"write 1 2 3 4 5 6 7 8 9 10\n", "a result without its header"),
        (b"Writing output to x.csv\n", "IOR writes them to a summary file"),
    ],
)  # fmt: skip
def test_what_is_not_read_says_why(data: bytes, why: str) -> None:
    reading = read(data)
    assert not reading.rows and any(why in text for text in texts(reading)), texts(reading)


@pytest.mark.parametrize("name", ["4.0.0/posix_fpp_seq_1m_np2_i3_JSON", "4.0.0/csv_stdout", "4.0.0/verbose_v2_stdout"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.8])
def test_a_cut_output_has_no_figure_without_a_problem(name: str, part: float) -> None:
    text = content(name)
    reading = read(text[: int(part * len(text))])
    rates = [row["bandwidth_bytes_per_s"] for row in read(text).rows]
    assert texts(reading) or [row["bandwidth_bytes_per_s"] for row in reading.rows] == rates


@given(st.sampled_from(GOOD), st.binary(max_size=200), st.integers(0, 5000), st.integers(0, 300))
def test_whatever_a_file_holds_can_be_read(name: str, junk: bytes, at: int, over: int) -> None:
    text = content(name)
    assert isinstance(read(text[:at] + junk + text[at + over :]), Reading)


def test_the_summary_of_a_run_bounded_by_time_has_the_bytes_that_were_moved() -> None:
    stem = SAMPLES / "own/ior_seq_read_fpp"
    run = summary(stem.with_suffix(".summary.json").read_bytes(), stem.with_suffix(".out").read_bytes())
    (result,) = run.results
    assert not run.problems and result.bytes_moved is not None
    assert result.bytes_moved == pytest.approx(result.bandwidth_bytes_per_s * result.total_s, rel=1e-4)


@pytest.mark.parametrize(
    ("line", "damaged"),
    [(r"(nodes +: )\d+", "nodes"), (r"(segments +: )\d+", "segments"), (r"(tasks +: )\d+", "tasks")],
)
def test_a_count_below_0_is_damage(line: str, damaged: str) -> None:
    name = next(name for name in GOOD if re.search(line, content(name).decode()))
    reading = read(re.sub(line, r"\1-512", content(name).decode(), count=1).encode())
    assert f"a damaged option: {damaged} is -512" in texts(reading)
    assert not measured(reading)


def test_a_deadline_below_0_is_damage() -> None:
    name = next(name for name in GOOD if b"deadlineForStonewall" in content(name))
    reading = read(re.sub(rb'("deadlineForStonewall[^"]*": *"?)-?\d+', rb"\1-300", content(name)))
    assert any("a damaged option: deadlineForStonewall" in text for text in texts(reading))
    assert not measured(reading)
