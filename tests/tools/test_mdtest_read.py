"""mdtest's output as people keep it, to rows: against outputs of real runs, good, bad and damaged."""

from __future__ import annotations

import csv
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.results.columns import result_columns
from iosweep.tools.mdtest.foreign import read
from iosweep.tools.mdtest.judge import ALONE
from iosweep.tools.mdtest.runs import tables
from iosweep.tools.mdtest.table import PHASES
from iosweep.tools.reading import Reading
from mdtest_samples import BAD, DOUBTFUL, GOOD
from readings import measured
from readings import texts as all_texts

SAMPLES = Path(__file__).resolve().parents[1] / "samples/mdtest"
with (SAMPLES / "manifest.tsv").open() as manifest:
    MANIFEST = {
        f"{row['version']}/{row['sample']}": row
        for row in csv.DictReader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE)
    }
_module = import_module("iosweep.tools.mdtest.foreign")


@pytest.fixture(autouse=True)
def _however_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples are runs of milliseconds; tests/tools/test_mdtest_severity.py has tests of what that says."""
    monkeypatch.setattr(_module, "too_short", lambda runtime_s, clock_s: None)


def texts(reading: Reading) -> list[str]:
    """What is wrong with it, but for tables without the lines above them, which some samples are."""
    return [text for text in all_texts(reading) if not text.endswith(ALONE)]


FIGURES = ("max_ops_per_s", "min_ops_per_s", "ops_per_s", "stddev_ops_per_s")


def files(sample: str) -> dict[str, bytes]:
    paths = [SAMPLES / f"{sample}.{end}" for end in ("out", "err")]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def text(sample: str) -> str:
    return (SAMPLES / f"{sample}.out").read_text()


def exit_code(sample: str) -> int | None:
    code = MANIFEST[sample]["exit_code"]
    return None if code == "-" else int(code)


def of_text(content: str) -> Reading:
    return read({"mdtest.out": content.encode()}, None)


def by_run(reading: Reading) -> list[list[Any]]:
    """Its rows, run by run: what tells runs apart is the command, the tasks and the repetition."""
    runs: dict[Any, list[Any]] = {}
    for row in reading.rows:
        runs.setdefault((row.get("command"), row.get("tasks"), row.get("repetition")), []).append(row)
    return list(runs.values())


def test_every_sample_is_decided() -> None:
    assert set(GOOD) | set(BAD) == set(MANIFEST)
    assert not set(GOOD) & set(BAD)
    folders = {row["version"] for row in MANIFEST.values()}
    outputs = {f"{folder}/{path.stem}" for folder in folders for path in (SAMPLES / folder).glob("*.out")}
    assert outputs == set(MANIFEST)


@pytest.mark.parametrize("sample", GOOD)
def test_good_samples_give_the_tables_figures(sample: str) -> None:
    doubtful = DOUBTFUL.get(sample, set())
    for code in {exit_code(sample), None}:
        reading = read(files(sample), code)
        assert [name for name in doubtful if not any(name in problem for problem in texts(reading))] == []
        assert len(texts(reading)) == len(doubtful)
        bare = sample.startswith("seeds/")
        assert any(text.endswith(ALONE) for text in all_texts(reading)) == bare
        verdicts = {reading.verdict(index) for index, row in enumerate(reading.rows) if row["label"] not in doubtful}
        assert verdicts <= {"suspect" if bare else "valid"}
        runs = by_run(replace(reading, rows=measured(reading)))
        found = [{row["label"]: tuple(row[name] for name in FIGURES) for row in run} for run in runs]
        assert found == [{name: row for name, row in run.items() if name not in doubtful} for run in GOOD[sample]]
        for row in reading.rows:
            assert set(row) <= {column.name for column in result_columns()}
            assert (row["tool"], row["kind"], row["metric"]) == ("mdtest", "metadata", "ops_per_s")
            assert row["phase"] == PHASES[row["label"]]


@pytest.mark.parametrize("sample", BAD)
def test_bad_samples_give_no_figure_and_say_why(sample: str) -> None:
    for code in {exit_code(sample), None}:
        reading = read(files(sample), code)
        assert reading.rows == ()
        said = "\n".join(texts(reading))
        assert [reason for reason in BAD[sample] if reason not in said] == []
        assert ("exit code" in said) is bool(code)
        assert all(problem and "\n" not in problem and " | " not in problem for problem in texts(reading))


#: columns that the output tells, the same for every row of a sample
TOLD: dict[str, dict[str, Any]] = {
    "3.3.0/md_files_u": {"tool_version": "3.3.0", "tasks": 2, "nodes": 1, "threads_per_node": 2, "iterations": 3},
    "3.3.0/md_tree_z2b3": {"tool_version": "3.3.0", "iterations": 2, "unique_directory": False},
    "4.0.0/md_single_task_n1": {"tool_version": "4.0.0", "tasks": 1, "threads_per_node": 1, "iterations": 1},
    "main/md_vv": {"tool_version": "4.1.0+dev", "unique_directory": True, "iterations": 2},
    "seeds/weka_1088_tasks": {"iterations": 3, "tasks": None, "tool_version": None, "unique_directory": None},
    "seeds/lustre_4_nodes": {"iterations": 8, "nodes": None, "files_per_thread": None, "command": None},
}


@pytest.mark.parametrize("sample", TOLD)
def test_columns_that_are_told(sample: str) -> None:
    for row in read(files(sample), None).rows:
        assert {name: row.get(name) for name in TOLD[sample]} == TOLD[sample]


def test_columns_of_files_and_of_directories() -> None:
    rows = {row["label"]: row for row in read(files("4.0.0/md_tree_z2b3"), 0).rows}
    assert [rows[name].get("files_per_thread") for name in ("File stat", "Directory stat", "Tree creation")] == [
        130, 130, None,
    ]  # fmt: skip
    assert [rows[name].get("file_size_bytes") for name in ("File stat", "Directory stat")] == [0, None]
    written = read(files("3.3.0/md_write_read_3901"), 0).rows[0]
    assert (written["file_size_bytes"], written["files_per_thread"], written["unique_directory"]) == (3901, 100, True)
    assert written["command"] == "mdtest -n 100 -i 2 -F -u -w 3901 -e 3901 -d /mnt/pfs/bench/md_3.3.0"
    # who stats the files of another call does not know their size; how many -W made is not printed
    assert all("file_size_bytes" not in row for row in read(files("4.0.0/own_T"), 0).rows)
    assert all("files_per_thread" not in row for row in read(files("4.0.0/own_W_F"), 0).rows)


def test_numbers_of_the_published_tables() -> None:
    weka = {row["label"]: row for row in read(files("seeds/weka_1088_tasks"), None).rows}
    assert weka["File creation"]["ops_per_s"] == 40784.448
    assert weka["File stat"]["ops_per_s"] == 2352911.311
    lustre = {row["label"]: row for row in read(files("seeds/lustre_4_nodes"), None).rows}
    assert [lustre["Directory rename"][name] for name in FIGURES] == [18698.508, 17422.244, 18151.485, 452.181]


# --- runs ------------------------------------------------------------------------------------------------------------


def test_the_ranks_shift() -> None:
    assert [run.shift for run in tables(text("3.3.0/md_files_u"))] == [1]
    assert [run.shift for run in tables(text("main/own_C"))] == [1]
    assert {run.shift for run in tables(text("main/md_vv"))} == {None}
    (run,) = tables(text("4.0.0/own_C"))
    assert (run.version, run.tasks, run.nodes, run.shift, run.iterations) == ("4.0.0", 2, 1, 1, 1)
    assert (list(run.problems), run.items, run.doubts) == ([], 10, {})


def test_two_shifts_are_a_problem_and_none_is_not() -> None:
    own = text("4.0.0/own_C")
    line = "V-0: Rank   0 Line  2537 Shifting ranks by {} for each phase.\n"
    once, twice, two = (own.replace(line.format(1), line.format(1) + more) for more in ("", *map(line.format, (1, 2))))
    assert [texts(of_text(content)) for content in (once, twice, own.replace(line.format(1), ""))] == [[]] * 3
    (run,) = tables(two)
    assert (run.shift, of_text(two).rows) == (None, ())
    assert run.problems == ("lines disagree by how many ranks phases are shifted: 1, 2",)


def test_a_single_phase_has_zeros_in_the_table_and_no_rows_for_them() -> None:
    (run,) = tables(text("main/own_U_D"))
    assert [name for name, rate in run.rates.items() if rate.mean] == ["Directory rename"]
    assert run.rates["Directory creation"] == (0.0, 0.0, 0.0, 0.0)
    assert len(run.rates) == 6


def test_runs_of_one_log_are_told_apart() -> None:
    one, other = text("4.0.0/md_files_u"), text("main/md_both_i1")
    again = one.replace(" 08:3", " 09:3")
    assert again != one
    reading = of_text(f"starting\n{one}$ next\n{other}{again}done\n")
    assert texts(reading) == []
    assert reading.version is None  # there are two
    assert [(run[0]["tool_version"], run[0]["repetition"], len(run)) for run in by_run(reading)] == [
        ("4.0.0", 1, 6), ("4.1.0+dev", 1, 10), ("4.0.0", 2, 6),
    ]  # fmt: skip


@pytest.mark.parametrize("sample", ["4.0.0/md_files_u", "4.0.0/own_f1_l2", "3.2.1/md_C", "seeds/lustre_4_nodes"])
def test_a_copy_of_a_run_counts_once(sample: str) -> None:
    whole, other = text(sample), text("main/own_E")
    once = of_text(whole)
    assert of_text(f"{whole}\n$ cat\n{whole}\n{whole}") == once
    beside = of_text(whole + other + whole)
    assert texts(beside) == []
    assert len(beside.rows) == len(once.rows) + 1
    # what is wrong with one copy is wrong with the run
    error = "srun: error: n1: task 0: Killed\n"
    assert [of_text(content).rows for content in (whole + error + whole, whole + whole + error)] == [(), ()]


def test_a_run_that_was_cut_and_is_there_again_whole() -> None:
    whole = text("4.0.0/md_files_u")
    reading = of_text(whole.partition("   File read")[0] + whole)
    assert len(reading.rows) == 6
    assert "run 1 of 2: the output is cut: mdtest's closing line '-- finished at' is missing" in texts(reading)


def test_tables_without_anything_around_them_are_told_apart() -> None:
    page = "\n\nFor the next:\n\n".join(text(f"seeds/lustre_{nodes}_nodes") for nodes in range(1, 5))
    reading = of_text(page)
    assert texts(reading) == []
    creations = [row for row in reading.rows if row["label"] == "File creation"]
    assert [(row["repetition"], row["ops_per_s"]) for row in creations] == [
        (1, 27546.829), (2, 47604.781), (3, 66567.553), (4, 63400.068),
    ]  # fmt: skip


def test_counts_of_ranks_in_one_call_are_runs() -> None:
    runs = tables(text("4.0.0/own_f1_l2"))
    assert [(run.tasks, run.nodes, run.items, list(run.problems)) for run in runs] == [(1, 1, 10, []), (2, 1, 10, [])]
    on_two = text("4.0.0/own_f1_l2").replace("on 1 node(s)", "on 2 node(s)")
    assert [(run.tasks, run.nodes) for run in tables(on_two)] == [(1, None), (2, 2)]


def test_a_run_that_was_cut_does_not_spoil_the_next() -> None:
    cut = text("4.0.0/md_files_u").partition("SUMMARY")[0]
    reading = of_text(
        cut + "slurmstepd: error: *** JOB 1 CANCELLED AT 2026 DUE TO TIME LIMIT ***\n" + text("4.0.0/own_C")
    )
    assert [row["label"] for row in reading.rows] == ["File creation", "Tree creation"]
    assert all(problem.startswith("run 1 of 2: ") for problem in texts(reading))
    assert "is cut" in texts(reading)[0]
    assert "TIME LIMIT" in texts(reading)[1]


def test_several_files() -> None:
    output, other = text("4.0.0/own_C").encode(), text("4.0.0/own_T").encode()
    rows = read({"a": output}, 0).rows
    assert read({"a": output, "b": output, "err": b"noise\n"}, 0) == Reading("4.0.0", rows, ())
    both = read({"a": output, "b": other}, 0)
    assert both.rows == ()
    assert "several files have results: a, b" in texts(both)[0]
    # a warning beside the output is the launcher's; an abort is not harmless, whoever prints it
    assert texts(read({"a": output, "err": b"WARNING: no InfiniBand\n"}, 0)) == []
    killed = read({"a": output, "err": b"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"}, 0)
    assert (killed.rows, "BAD TERMINATION" in texts(killed)[0]) == ((), True)


def test_other_files_of_mdtests_are_named() -> None:
    ranks = b"rank,items,rate-Directory creation,time-Directory creation\nall,200,,\n0,,,\n"
    assert "--saveRankPerformanceDetails" in texts(read({"md_rank.csv": ranks}, None))[0]
    assert "--savePerOpDataCSV" in texts(read({"x-File creation-00000.csv": b"time,runtime,tp\n"}, None))[0]
    beside = read({"a": text("4.0.0/md_savRank").encode(), "md_rank.csv": ranks}, 0)
    assert len(beside.rows) == 6
    assert texts(beside) == [
        "md_rank.csv has the figures of single ranks (--saveRankPerformanceDetails), not mdtest's table of results"
    ]
    assert texts(read({}, None)) == ["mdtest printed nothing"]
    assert texts(read({"a": b"bw,iops\n"}, None)) == ["there is no table of results (SUMMARY)"]


def test_an_exit_code_takes_all_figures() -> None:
    for code in (1, 255, -15):
        reading = read(files("4.0.0/md_files_u"), code)
        assert (reading.rows, texts(reading)) == ((), [f"mdtest ended with exit code {code}"])


# --- versions --------------------------------------------------------------------------------------------------------

OLD = """-- started at 05/27/2018 04:07:15 --

mdtest-1.9.3 was launched with 8 total task(s) on 2 nodes
Command line used: ./mdtest -d /mnt/x -n 30 -i 2 -u
Path: /mnt
FS: 244.0 GiB   Used FS: 32.3%   Inodes: 15.5 Mi   Used Inodes: 9.2%

8 tasks, 240 files/directories

SUMMARY: (of 2 iterations)
   Operation                      Max            Min           Mean        Std Dev
   ---------                      ---            ---           ----        -------
   Directory creation:       1200.000       1000.000       1100.000        100.000
   Directory stat    :       1200.000       1000.000       1100.000        100.000
   Directory removal :       1200.000       1000.000       1100.000        100.000
   File creation     :       1200.000       1000.000       1100.000        100.000
   File stat         :       1200.000       1000.000       1100.000        100.000
   File read         :       1200.000       1000.000       1100.000        100.000
   File removal      :       1200.000       1000.000       1100.000        100.000
   Tree creation     :         12.000         10.000         11.000          1.000
   Tree removal      :         12.000         10.000         11.000          1.000

-- finished at 05/27/2018 04:07:16 --
"""


def test_before_version_3() -> None:
    reading = of_text(OLD)
    assert (texts(reading), len(reading.rows), reading.version) == ([], 9, "1.9.3")
    row = reading.rows[3]
    assert (row["nodes"], row["threads_per_node"], row["files_per_thread"], row["ops_per_s"]) == (2, 4, 30, 1100.0)
    assert row["unique_directory"] is True
    older = re.sub(r".*(File read|Tree creation|Tree removal).*\n", "", OLD).replace("1.9.3", "1.8.3")
    assert of_text(older).rows == ()
    assert "before 1.9" in texts(of_text(older))[0]
    bare = older[older.index("SUMMARY") : older.index("-- finished")]
    assert "rows of the table are missing: File read, Tree creation, Tree removal" in texts(of_text(bare))[0]


def test_titles_and_colons_are_free() -> None:
    table = text("main/md_both_i1")
    for title in ("SUMMARY:", "SUMMARY rate:", "SUMMARY rate (in ops/sec):"):
        for colon in ("", ":"):
            changed = re.sub(r"^(   (?:File|Tree|Directory) \w+)", rf"\1 {colon} ", table, flags=re.MULTILINE)
            changed = changed.replace("SUMMARY rate (in ops/sec):", title)
            assert of_text(changed).rows == read(files("main/md_both_i1"), 0).rows
    times = text("main/md_P_rate_and_time").replace("time (in ms/op)", "time (in ops/sec)")
    assert of_text(times).rows == read(files("main/md_P_rate_and_time"), 0).rows
    assert "rates are in ms/op" in texts(of_text(table.replace("rate (in ops/sec)", "rate (in ms/op)")))[0]
    unnamed = of_text(table.replace("mdtest-4.1.0+dev was", "mdtest- was"))
    assert (texts(unnamed), unnamed.version, unnamed.rows[0]["tasks"]) == ([], None, 2)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("mdtest '-n' '200' '-i' '1' '-u' '-d' '/a b'", (200, True, 0)),
        ("mdtest '-n=200' '-i1' '-u' '-w' '4k' '-d' 'it's'", (200, True, 4096)),
        ('mdtest "-n" "200" "-u"', (200, True, 0)),
        ("mdtest -n 200 --posix.odirect", (200, False, 0)),
        ("mdtest '-n' '200' '-vu' '--random-seed' '4'", (200, True, 0)),
        ("mdtest '-n' '200' '-d/tmp'", None),  # sets -t and -p, too
        ("mdtest '-n' '200' '-u' '-d' '/cut", None),
        ("mdtest '-n' '200' '-u' 'stray'", None),
        ("mdtest '-n' '200' '-u' '-d' '" + "x" * 1000 + "'", None),  # mdtest cuts it
    ],
)
def test_command_lines(line: str, told: tuple[int, bool, int] | None) -> None:
    changed = re.sub(r"used:.*", lambda _: f"used: {line}", text("4.0.0/md_both_i1"))
    reading = of_text(changed)
    assert texts(reading) == []
    row = next(row for row in reading.rows if row["label"] == "File creation")
    found = tuple(row.get(name) for name in ("files_per_thread", "unique_directory", "file_size_bytes"))
    assert found == (told or (None, None, None))


def test_letters_behind_a_flag_were_not_read_before_version_4() -> None:
    changed = re.sub(r"used:.*", "used: mdtest '-n' '200' '-vu'", text("3.3.0/own_C"))
    assert all("unique_directory" not in row for row in of_text(changed).rows)


# --- what is wrong ---------------------------------------------------------------------------------------------------

NEW, OLDER = "4.0.0/md_files_u_noverbose", "3.3.0/md_files_u_noverbose"
TIMES = "4.0.0/md_P_rate_and_time"
WRONG = [
    # (sample, pattern, what it is replaced by, part of the problem)
    (NEW, r"(   File stat +\S+) +\S+ +\S+", r"\1 9.000 8.000", "not min <= mean <= max"),
    ("4.0.0/md_both_i1", r"(   File stat +\S+) +\S+", r"\1 25000.000", "one iteration cannot have different rates"),
    ("4.0.0/md_both_i1", r"(   File stat .*) 0\.000", r"\1 1.000", "one iteration cannot have different rates"),
    ("3.3.0/md_both_i1", r"(   Tree removal +: +\S+) +\S+", r"\1 60.000", "one iteration cannot have different rates"),
    (NEW, r"(   File stat .*) \S+$", r"\1 0.000", "have a larger standard deviation"),
    (NEW, r"(   File stat .*) \S+$", r"\1 9999999.000", "have this standard deviation"),
    ("4.0.0/md_leaf_L", r"(   File creation +\S+ +\S+) +\S+", r"\1 2090.000", "no 2 values within these bounds"),
    (NEW, r"(   File stat +\S+) +\S+", r"\1 0.000", "the rate of one iteration is 0"),
    (NEW, r"(   File stat) .*", r"\1 inf 1.000 inf nan", "a row of the table is damaged"),
    (NEW, r"(   File stat +\S+).*", r"\1", "a row of the table is damaged"),
    (NEW, r"   File stat .*\n", "", "rows of the table are missing: File stat"),
    ("4.0.0/md_both_i1", r"   Directory rename .*\n", "", "rows of the table are missing: Directory rename"),
    (NEW, r"(   File stat .*\n)", r"\1\1", "the row File stat is there twice"),
    (NEW, r"(   File stat .*\n)(   File read .*\n)", r"\2\1", "is not where mdtest prints it"),
    (NEW, r"(   File stat .*\n)", r"\1   Directory stat 1.000 1.000 1.000 0.000\n", "not where mdtest"),
    (OLDER, r"(   ---------.*\n)", r"\1   Directory stat 1.000 1.000 1.000 0.000\n", "rows that this run does not"),
    ("4.0.0/md_showRankStats", r"   Operation.*\n", "", "has 7 figures, which does not fit the heading"),
    (NEW, r"-- finished.*\n", "", "the output is cut"),
    (NEW, r"(?s)^.*(?=SUMMARY)", "", "its beginning is missing"),
    (NEW, r"Command line.*\n", "", "'Command line used' is missing"),
    (NEW, r"SUMMARY.*\n", "", "are mixed"),
    (NEW, r"(SUMMARY.*\n)", r"\1\1", "are mixed"),
    (NEW, r"(-- finished.*\n)", r"\1\1", "are mixed"),
    (NEW, r"(mdtest-4.0.0 was.*\n)", r"\1\1", "are mixed"),
    (NEW, r"(-- finished.*\n)", r"   File stat  1.000 1.000 1.000 0.000\n\1", "are mixed"),
    (NEW, r"2 tasks, 400 files\n", "", "counts tasks and files is missing"),
    (NEW, r"2 tasks, 400 files", "4 tasks, 800 files", "is not that of the command line"),
    (NEW, r"2 tasks, 400 files", "2 tasks, 402 files", "is not that of the command line"),
    (NEW, r"of 3 iterations", "of 0 iterations", "over no iteration"),
    (NEW, r"'-i' '3'", "'-i' '2'", "is over 3 iterations, and the command line asks for 2"),
    (NEW, r" '-i' '3'", "", "is over 3 iterations, and the command line asks for 1"),
    ("4.0.0/own_r_D", r"of 1 iterations", "of 3 iterations", "over 3 iterations, and the command line asks for 1"),
    ("3.3.0/own_C", r"of 1 iterations", "of 2 iterations", "over 2 iterations, and the command line asks for 1"),
    ("3.2.1/md_C", r"of 1 iterations", "of 2 iterations", "over 2 iterations, and the command line asks for 1"),
    (OLDER, r"1024\.032", "1300.032", "3 values with these bounds and this mean have another standard deviation"),
    (OLDER, r"955\.516", "955.530", "have another standard deviation"),
    (NEW, r"2104\.477", "2104.577", "have another standard deviation"),
    ("main/md_showRankStats", r"2147\.504$", "2147.520", "have another standard deviation"),
    ("3.3.0/own_C", r"242\.831$", "242.931", "2 values with these bounds and this mean have another"),
    ("3.3.0/own_C", r"87214\.479", "87214.579", "no 2 values within these bounds"),
    ("3.2.1/md_files_u", r"7537\.702", "7537.802", "have another standard deviation"),
    ("seeds/weka_1088_tasks", r"0\.316$", "0.336", "have another standard deviation"),
    (NEW, r"2 tasks, 400 files", "0 tasks, 10 files", "the output counts 0 tasks (10 files)"),
    ("4.0.0/own_f1_l2", r"(?s)1 tasks, 10 f(.*)2 tasks", r"0 tasks, 10 f\1 0 tasks", "the output counts 0 tasks"),
    (NEW, r"on 1 node", "on 0 node", "cannot have run as 2 tasks on 0 nodes"),
    (NEW, r"on 1 node", "on 3 node", "cannot have run as 2 tasks on 3 nodes"),
    (NEW, r"with 2 total", "with 0 total", "cannot have run as 0 tasks on 1 nodes"),
    (TIMES, r"   File read .* 0\.002\n", "", "table of times (-P) is damaged or has other rows"),
    (TIMES, r"^   Tree removal +0\.006", r"   Tree removal 9 0.006", "table of times (-P) is damaged"),
    (TIMES, r"(File stat +)0\.003", r"\g<1>9.003", "longer than the whole run"),
    (TIMES, r"(File creation +0\.253 +)0\.136", r"\g<1>0.138", "rate and time do not belong together"),
    (TIMES, r"(File creation +)0\.253", r"\g<1>0.255", "rate and time do not belong together"),
    (TIMES, r"(Tree removal +0\.006 +)0\.004", r"\g<1>0.005", "rate and time do not belong together"),
    (TIMES, r"(   File stat) .*", r"\1 0.000 0.000 0.000 0.000", "a time without a rate"),
    (NEW, r"^(Nodemap)", "WARNING: unable to create file /x/y\n\\1", "counted all the same"),
    (NEW, r"^(Nodemap)", "WARNING: [RANK 0]: unlink() of file x failed\n\\1", "counted all the same"),
    (NEW, r"^(Nodemap)", "WARNING: fsync(12) failed\n\\1", "not made durable"),
    (OLDER, r"^(Nodemap)", "ior WARNING: fsync(12) failed, errno 5, x\n\\1", "not made durable"),
    (NEW, r"^(-- finished)", "ERROR: verifying the data on read (3 errors)! x\n\\1", "read back wrong"),
    (OLDER, r"^(Nodemap)", "error could not create directory '/x'\n\\1", "an earlier run"),
    (NEW, r"^(Nodemap)", "mdtest: x.c:1: f: Assertion `rc >= 0' failed.\n\\1", "before their time"),
    (NEW, r"(finished.*\n)", r"\1[mpiexec@n] control_cb (x.c:280): assert (!closed) failed\n", "before their time"),
    (NEW, r"^(Nodemap)", "write(3) No space left on device | more\n\\1", "on device / more"),
]  # fmt: skip


@pytest.mark.parametrize(("sample", "pattern", "replacement", "problem"), WRONG)
def test_what_is_wrong_is_said(sample: str, pattern: str, replacement: str, problem: str) -> None:
    changed, times = re.subn(pattern, replacement, text(sample), count=1, flags=re.MULTILINE)
    assert times == 1
    reading = of_text(changed)
    assert reading.rows == ()
    assert problem in "\n".join(texts(reading))


def test_the_head_of_one_run_and_the_table_of_another() -> None:
    head = (SAMPLES / "own/mdtest_create_3.out").read_text().partition("SUMMARY")[0]
    mixture = head + "".join(text("main/md_savRank").partition("SUMMARY")[1:])
    assert of_text(mixture).rows == ()
    assert "over 2 iterations, and the command line asks for 1" in texts(of_text(mixture))[0]


@pytest.mark.parametrize("version", ["3.3.0", "4.0.0", "main"])
def test_rows_of_rates_and_of_times_are_not_exchanged(version: str) -> None:
    def bare(content: list[str]) -> Reading:
        return of_text("SUMMARY" + "".join(content).partition("SUMMARY")[2].partition("-- finished")[0])

    lines = text(f"{version}/md_P_rate_and_time").splitlines(keepends=True)
    rows = [place for place, line in enumerate(lines) if re.match(r"   (?:File|Tree) ", line)]
    assert len(rows) == 12
    assert (texts(bare(lines)), len(bare(lines).rows)) == ([], 6)
    for rate, timed in zip(rows[:6], rows[6:], strict=True):
        changed = list(lines)
        changed[rate], changed[timed] = lines[timed], lines[rate]
        assert of_text("".join(changed)).rows == (), lines[rate]
        if "Tree" not in lines[rate]:  # without dates, a tree may take long
            assert "rates and times may be exchanged" in "\n".join(texts(bare(changed)))


def test_iterations_with_a_time_limit_differ_in_items() -> None:
    limited = text(TIMES).replace("'-P'", "'-P' '-W' '9'").replace("0.253          0.136", "0.253          0.150")
    assert limited.count("0.150") == 1
    assert (texts(of_text(limited)), len(of_text(limited).rows)) == ([], 6)


def test_what_is_harmless() -> None:
    rows = read(files("4.0.0/md_files_u"), 0).rows
    for noise in (
        "WARNING: Read bytes is 0, thus, a read test will actually just open/close, (mdtest.c:1850).",
        "WARNING: unable to use realpath() on file system",
        "-" * 74 + "\nWARNING: No preset parameters were found for the device that Open MPI detected:\n" + "-" * 74,
        "[node01:123] WARNING: something of the MPI library",
        "[1700000000.123456] [node01:1:0] ucp_context.c:1 UCX  WARN  x",
        "Continue stonewall hit min: 1 max: 3 avg: 2.0 ",
        "   File create (stonewall)   :             NA             NA     145792.716             NA",
    ):
        changed = re.sub(r"(   File read .*\n)", rf"\1{noise}\n", text("4.0.0/md_files_u"))
        assert of_text(changed) == Reading("4.0.0", rows, ()), noise


def test_a_zero_of_what_was_not_run_is_no_problem() -> None:
    # a single directory is not renamed
    alone = text("4.0.0/md_both_i1").replace("'200'", "'1'").replace("2 tasks, 400", "2 tasks, 2")
    alone = re.sub(r"(Directory rename).*", r"\1 0.000 0.000 0.000 0.000", alone)
    assert [texts(of_text(alone)), len(of_text(alone).rows)] == [[], 9]
    # a bare table does not tell what was asked for, but all zeros are no measurement
    bare = text("4.0.0/own_T").partition("SUMMARY")
    table = (bare[1] + bare[2]).partition("-- finished")[0]
    assert [row["label"] for row in of_text(table).rows] == ["File stat"]
    nothing = re.sub(r"(File stat).*", r"\1 0.000 0.000 0.000 0.000", table)
    assert texts(of_text(nothing)) == ["nothing was measured: every rate is 0"]


# --- damage ----------------------------------------------------------------------------------------------------------

CLEAN = [sample for sample in GOOD if sample not in DOUBTFUL]
#: What differs between runs of one log, and dates, which are of another run where a beginning or end was lost.
OTHERS = ("repetition", "began_local", "ended_local")
TRUTH = {sample: by_run(read(files(sample), None)) for sample in CLEAN}
TRUTH |= {sample: by_run(read({"out": text(sample).encode()}, None)) for sample in [*DOUBTFUL, *BAD]}


def assert_right(content: str, *samples: str) -> bool:
    """Whether there is no problem; then every run must be one of the samples', whole and with the same figures."""
    reading = of_text(content)
    if texts(reading):
        return False
    truth = [{row["label"]: row for row in run} for sample in samples for run in TRUTH[sample]]
    for run in by_run(reading):
        rows = {row["label"]: {k: v for k, v in row.items() if k not in OTHERS} for row in run}
        assert any(
            set(rows) == set(right) and all(row.items() <= right[name].items() for name, row in rows.items())
            for right in truth
        ), content
    return True


def merged(one: list[str], other: list[str], most: int, draw: random.Random) -> Iterator[str]:
    """The lines of both in their order, taken in turns of up to `most`."""
    sources = [one, other]
    places = [0, 0]
    turn = draw.randrange(2)
    while places[0] < len(one) or places[1] < len(other):
        count = draw.randint(1, most)
        yield from sources[turn][places[turn] : places[turn] + count]
        places[turn] += count
        turn = 1 - turn


@pytest.mark.parametrize("sample", CLEAN)
def test_damaged_output_gives_no_wrong_figure(sample: str, rounds: Callable[[int, int], int]) -> None:
    draw = random.Random(f"mdtest {sample}")
    whole = text(sample)
    lines = whole.splitlines(keepends=True)
    for _ in range(200):
        assert_right(whole[: draw.randrange(len(whole))], sample)
    for _ in range(rounds(20, 40)):
        assert_right(whole[draw.randrange(len(whole)) :], sample)
        kept = list(lines)
        for _ in range(draw.randint(1, 3)):
            kept.pop(draw.randrange(len(kept)))
        assert_right("".join(kept), sample)
        doubled = list(lines)
        for _ in range(draw.randint(1, 3)):
            place = draw.randrange(len(doubled))
            doubled.insert(draw.choice((place, draw.randrange(len(doubled)))), doubled[place])
        assert_right("".join(doubled), sample)


@pytest.mark.parametrize("sample", CLEAN)
def test_mixed_outputs_give_no_wrong_figure(sample: str, rounds: Callable[[int, int], int]) -> None:
    draw = random.Random(f"mixed {sample}")
    lines = text(sample).splitlines(keepends=True)
    for most in (1, 4, 12, 40):
        for _ in range(rounds(5, 10)):
            other = draw.choice(list(TRUTH))
            mixture = list(merged(lines, text(other).splitlines(keepends=True), most, draw))
            assert_right("".join(mixture), sample, other)
            mixture.pop(draw.randrange(len(mixture)))
            assert_right("".join(mixture), sample, other)


@pytest.mark.parametrize("sample", CLEAN)
def test_noise_of_others_takes_nothing_away(sample: str) -> None:
    draw = random.Random(f"noise {sample}")
    noise = [
        "[node01:123] mca_base_component_repository_open: unable to open mca_btl_openib\n",
        "V-3: Rank   1 Line   574 Entering something\n",
        "WARNING: Read bytes is 0, thus, a read test will actually just open/close\n",
        "2026-11-20 08:38:00,123 prolog done\n",
        "\n",
    ]
    for _ in range(20):
        lines = text(sample).splitlines(keepends=True)
        for _ in range(draw.randint(1, 5)):
            lines.insert(draw.randrange(len(lines) + 1), draw.choice(noise))
        assert assert_right("".join(lines), sample)
        assert len(of_text("".join(lines)).rows) == sum(map(len, TRUTH[sample]))


TITLE = "SUMMARY rate: (of 1 iterations)\n"
RUN = text("4.0.0/own_C")
#: contents of about n bytes on which a reader can spend more than its share
LONG: dict[str, Callable[[int], str]] = {
    "blanks": lambda n: f"{TITLE}File creation{' ' * n}1\n",
    "blanks and a colon": lambda n: f"{TITLE}File creation{' ' * (n // 2)}:{' ' * (n // 2)}1\n",
    "blanks outside of a table": lambda n: f"File creation{' ' * n}x\n",
    "blanks between figures": lambda n: f"{TITLE}File creation{(' ' * (n // 8) + '1.000') * 8}\n",
    "digits": lambda n: f"{TITLE}File creation {'1' * n}\n",
    "digits outside of a table": lambda n: f"File creation {'1' * n} sec\n",
    "titles": lambda n: TITLE * (n // len(TITLE)),
    "titles of times": lambda n: TITLE.replace("rate", "time") * (n // len(TITLE)),
    "counts and titles": lambda n: f"2 tasks, 20 files\n{TITLE}" * (n // 50),
    "counts": lambda n: "2 tasks, 20 files\n" * (n // 18),
    "starts": lambda n: "-- started at x --\n" * (n // 19),
    "runs": lambda n: "".join(RUN.replace("13:4", f"{i}:4") for i in range(n // len(RUN))),
    "copies": lambda n: RUN * (n // len(RUN)),
    "shifts": lambda n: RUN + "".join(f"Shifting ranks by {i} for each phase.\n" for i in range(n // 40)),
    "damaged rows": lambda n: TITLE + "   File stat  1.000\n" * (n // 20),
    "warnings": lambda n: RUN + ("-" * 60 + "\nWARNING: x\n") * (n // 72),
    **{
        f"many {words!r}": lambda n, words=words: RUN + words * (n // len(words))  # type: ignore[misc]
        for words in (
            *("fsync(", "unlink() of file ", "rename() of file ", "srun: error: ", "WARNING: ", "-- started at "),
            *(
                "mdtest-",
                "Command line used: '",
                "SUMMARY: (in ",
                "File creation ",
                "1.000 ",
                "1.1",
                "WARNING: x backend",
            ),
        )
    },
}


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("content", LONG)
def test_time_grows_with_the_length(content: str) -> None:
    def seconds(length: int) -> float:
        long = {"mdtest.out": LONG[content](length).encode()}
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            read(long, 0)
            best = min(best, time.process_time() - start)
        return best

    short = 5_000
    while seconds(short) < 0.004:  # long enough to be measured
        short *= 2
    # the machine may be busy with other things
    assert any(seconds(4 * short) / seconds(short) < 8 for _ in range(3))


PIECES = st.sampled_from(
    [
        *text("3.3.0/md_both_i1").splitlines(keepends=True),
        *text("4.0.0/own_f1_l2").splitlines(keepends=True),
        *text("main/md_showRankStats").splitlines(keepends=True),
        *text("main/md_P_rate_and_time").splitlines(keepends=True),
        *OLD.splitlines(keepends=True),
        *("SUMMARY rate: (of 999999999 iterations)\n", "2 tasks, 1 file\n", "Command line used:\n", "mdtest-"),
        *("   File stat " + " ".join(["9" * 300 + ".000"] * 4) + "\n", "0 tasks, 0 files\n", "\x00\x85\u2028"),
    ]
)


@given(
    st.dictionaries(
        st.text(max_size=5), st.binary() | st.lists(PIECES, max_size=30).map(lambda x: "".join(x).encode())
    ),
    st.none() | st.integers(),
)
def test_no_content_raises(content: dict[str, bytes], code: int | None) -> None:
    reading = read(content, code)
    assert reading.rows or texts(reading)
    for row in reading.rows:
        assert row["min_ops_per_s"] <= row["ops_per_s"] + 0.002 <= row["max_ops_per_s"] + 0.004
