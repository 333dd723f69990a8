"""What the files of a run of IOR say: against real runs (samples/ior), good and bad."""

import re
from itertools import pairwise

import pytest

from ior_readings import ALL, BLOCK, GOOD, LIMIT, MIB, NOTES, Sample, files_of, name_of, read, summary, wrong_rows
from ior_samples import EXPECTED, Bad, Doubtful
from iosweep.results.columns import result_columns
from readings import measured, texts

pytestmark = pytest.mark.usefixtures("ior_runs_however_short")


# -- every sample -------------------------------------------------------------------------------------------------


def test_every_sample_is_decided() -> None:
    assert {(sample.version, sample.name) for sample in ALL} == set(EXPECTED)
    assert len(ALL) == len(EXPECTED) == 188


@pytest.mark.parametrize("sample", ALL, ids=name_of)
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


@pytest.mark.parametrize("sample", GOOD, ids=name_of)
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
    row = read(files_of("4.0.0", "posix_fpp_seq_1m_np2_i3_JSON"), 0).rows[2]
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
    row = read(files_of("main", "ior_perop"), 0).rows[1]  # one iteration: the summary has no more digits here
    assert (row["bandwidth_bytes_per_s"], row["close_s"]) == (111.30 * MIB, 0.008172)
    assert (row["file_size_bytes"], row["bytes_read"], row["ops"]) == (1048576, 2097152, 8)


def test_a_deadline_and_the_node_are_told() -> None:
    (row, *_) = read(files_of("3.2.1", "stonewall_D1"), 0).rows
    assert (row["phase_time_s"], row["segments"], row["host"]) == (1.0, 64, "vm")
    assert (row["began_local"], row["ended_local"]) == ("2026-11-20T14:18:08", "2026-11-20T14:18:11")


def test_stonewalled_bytes_are_those_that_ior_moved() -> None:
    reading = read(files_of("4.0.0", "stonewall_D1_wearout_CSV"), 0)
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


@pytest.mark.parametrize("sample", GOOD, ids=name_of)
def test_each_file_alone_says_the_same_or_why_not(sample: Sample) -> None:
    whole = sample.read()
    for name, content in sample.files.items():
        reading = read({name: content}, None)
        assert not wrong_rows(reading, whole)
        assert len(reading.rows) == len(whole.rows) or texts(reading)
        if name.endswith((".json", ".default")):
            assert len(reading.rows) == len(whole.rows)
        if "Writing output to" in content.decode():
            assert "no results: IOR writes them to a summary file" in " ".join(texts(reading))


def test_a_stonewalled_csv_alone_cannot_be_judged() -> None:
    content = files_of("main", "stonewall_D1_wearout_CSV")["stonewall_D1_wearout_CSV.summary.csv"]
    reading = read({"x.csv": content}, 0)
    assert not measured(reading)
    assert "no whole number of blocks" in texts(reading)[0]


def test_two_files_of_one_run_give_the_more_precise_figures_and_must_agree() -> None:
    csv_of_it = (
        b"access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter\n"
        b"write,185.6148,744.2524,0.0027,1024.0000,256.0000,0.0000,0.0107,0.0001,0.0108,2,0\n"
        b"read,111.2979,445.4596,0.0045,1024.0000,256.0000,0.0000,0.0180,0.0082,0.0180,2,0\n"
    )
    table = files_of("main", "ior_perop")["ior_perop.out"]
    reading = read({"ior.out": table, "ior.csv": csv_of_it}, 0)
    assert not texts(reading)
    assert reading.rows[0]["bandwidth_bytes_per_s"] == 185.6148 * MIB
    assert reading.rows[0]["phase"] == "seq_write"
    assert reading.version == "4.1.0+dev"
    for old, new in ((b"185.6148", b"185.7148"), (b",2,0\nread", b",3,0\nread"), (b"0.0082", b"0.0092")):
        reading = read({"ior.out": table, "ior.csv": csv_of_it.replace(old, new)}, 0)
        assert not measured(reading)
        assert texts(reading)
    other = files_of("main", "verbose_v2_stdout")["verbose_v2_stdout.out"]
    assert not read({"ior.out": other, "ior.csv": csv_of_it}, 0).rows
    assert "not of the same runs" in texts(read({"ior.out": table + other, "ior.csv": csv_of_it}, 0))[0]


# -- the runner's own runs ------------------------------------------------------------------------------------------


def test_summary_of_a_run_as_the_runner_makes_it() -> None:
    files = files_of("4.0.0", "mpiio_coll_JSON")
    run = summary(files["mpiio_coll_JSON.summary.json"], files["mpiio_coll_JSON.out"])
    assert run.problems == ()
    assert (run.version, run.tasks, run.nodes, run.clients_per_node, run.api) == ("4.0.0", 2, 1, 2, "MPIIO")
    assert run.options["type"] == "collective"
    assert len(run.results) == 6
    assert run.results[0].bandwidth_bytes_per_s == 899.3566 * MIB
    assert run.results[0].bytes_moved == 67108864


def test_summary_of_a_run_bounded_by_time_has_the_bytes_that_were_moved() -> None:
    document = files_of("4.0.0", "E_datacheck_R_corrupt_JSON")["E_datacheck_R_corrupt_JSON.summary.json"].decode()
    bounded = document.replace('"deadlineForStonewall": 0', '"deadlineForStonewall": 2')
    figures = {"wrRdTime": 2.0, "totalTime": 2.0, "xsizeMiB": 2000.0}
    figures |= dict.fromkeys(("bwMiB", "iops", "bwMaxMIB", "bwMinMIB", "bwMeanMIB"), 1000.0)
    for name, value in figures.items():
        bounded = re.sub(rf'"{name}": [\d.]+', f'"{name}": {value:.4f}', bounded)
    moved = BLOCK.format(8388608, 8388608, 2000 * MIB) + LIMIT
    run = summary(bounded.encode(), moved.encode())
    assert run.problems == ()
    assert run.results[0].bytes_moved == 2000 * MIB
    assert run.stonewall_s == 2
    alone = read({"summary.json": bounded.encode()}, None)
    assert alone.verdict(0) == "suspect"
    assert any("only IOR's messages tell" in problem for problem in texts(alone))
    for said in (b"", BLOCK.format(8388608, 4194304, 2000 * MIB).encode()):  # 1000 MiB/s x 2 s are not 8 MiB
        run = summary(bounded.encode(), said)
        assert not run.problems and {remark.severity for remark in run.remarks} >= {"suspect" if said else "invalid"}
    assert summary(bounded.encode(), (moved + "WARNING: Incorrect data on read (1 errors found).").encode()).problems
    assert summary(bounded.encode()[:-300], moved.encode()).problems == ("the JSON is cut: the run did not end",)
    assert summary(b"", b"ERROR: x").problems == ("the summary is empty", "IOR or MPI says: ERROR: x")
