"""mdtest: the exact commands, and output to figures: recorded outputs of real runs (samples/mdtest), good and bad.

expected.json has the figures, which are copied from the files' columns, and the samples that have none. `doubtful` are
single rows that are no rate of the run (3.3.0: the ranks' own rates differ). `own` are runs of this project's commands.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from campaign import document, make, problems
from iosweep.tables.columns import result_columns
from iosweep.tools import Parsed, Step, tools
from iosweep.tools.mdtest.output import ALONE, read
from iosweep.tools.mdtest.output import ROWS as PHASES
from iosweep.tools.reading import Reading
from readings import judged, measured, said, texts

MDTEST = tools()["mdtest"]
SAMPLES = Path(__file__).resolve().parents[1] / "samples/mdtest"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())
GOOD, BAD, DOUBTFUL = EXPECTED["good"], EXPECTED["bad"], EXPECTED["doubtful"]
FIGURES = ("max_ops_per_s", "min_ops_per_s", "ops_per_s", "stddev_ops_per_s")
with (SAMPLES / "manifest.tsv").open() as _file:
    ALL = {f"{row['version']}/{row['sample']}" for row in csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def content(sample: str) -> bytes:
    paths = [SAMPLES / f"{sample}.{end}" for end in ("out", "err")]
    return b"".join(path.read_bytes() for path in paths if path.exists())


# What a file alone says.


def test_good_samples_give_the_figures_of_their_tables(short_runs_are_good: None) -> None:
    assert {*GOOD, *BAD} == ALL
    known = {column.name for column in result_columns()}
    for sample in GOOD:
        reading, doubtful = read(content(sample)), DOUBTFUL.get(sample, ())
        # some samples are tables without the lines above them
        about_rows = [one for one in reading.problems if one.row is not None]  # some iterations scatter widely
        wrong = [text for text in texts(reading) if not text.endswith(ALONE)]
        invalid = [one.text for one in reading.problems if one.severity == "invalid"]
        assert len(invalid) == len(doubtful) and all(name in text for name, text in zip(doubtful, invalid, strict=True))
        assert {one.text for one in about_rows} >= set(wrong), sample
        assert any(text.endswith(ALONE) for text in texts(reading)) == sample.startswith("seeds/"), sample
        runs: dict[Any, dict[Any, list[Any]]] = {}
        for row in measured(reading):
            run = runs.setdefault((row.get("command"), row.get("tasks"), row.get("repetition")), {})
            run[row["label"]] = [row[name] for name in FIGURES]
        expected = [{name: row for name, row in run.items() if name not in doubtful} for run in GOOD[sample]]
        assert [*runs.values()] == [run for run in expected if run], sample
        for row in reading.rows:
            assert set(row) <= known
            assert (row["tool"], row["kind"], PHASES[str(row["phase"])]) == ("mdtest", "metadata", row["label"])


def test_bad_samples_give_no_figure_and_say_why(snapshot: SnapshotAssertion) -> None:
    readings = {sample: read(content(sample)) for sample in BAD}
    assert [sample for sample, reading in readings.items() if reading.rows or not texts(reading)] == []
    assert "\n".join(f"{sample}\n{said(reading)}" for sample, reading in readings.items()) == snapshot


def test_columns_are_what_the_output_tells() -> None:
    for sample, told in {
        "3.3.0/md_files_u": {"tool_version": "3.3.0", "tasks": 2, "nodes": 1, "threads_per_node": 2, "iterations": 3},
        "3.3.0/md_tree_z2b3": {"tool_version": "3.3.0", "iterations": 2, "unique_directory": False},
        "main/md_vv": {"tool_version": "4.1.0+dev", "unique_directory": True, "iterations": 2},
        "seeds/weka_1088_tasks": {"iterations": 3, "tasks": None, "tool_version": None, "unique_directory": None},
    }.items():
        for row in read(content(sample)).rows:
            assert {name: row.get(name) for name in told} == told, sample
    rows = {row["label"]: row for row in read(content("4.0.0/md_tree_z2b3")).rows}
    names = ("File stat", "Directory stat")
    assert [rows[name].get("files_per_thread") for name in names] == [130, 130]
    assert [rows[name].get("file_size_bytes") for name in names] == [0, None]


@given(st.sampled_from([*GOOD]), st.floats(0, 0.95))
def test_a_cut_output_has_no_figure_without_a_problem(sample: str, part: float) -> None:
    text = content(sample)
    reading = read(text[: int(part * len(text))])
    assert texts(reading)
    assert not measured(reading) or sample.startswith("seeds/") or len(GOOD[sample]) > 1


@given(st.sampled_from([*GOOD]), st.binary(max_size=200), st.integers(0, 5000), st.integers(0, 300))
def test_whatever_a_file_holds_can_be_read(sample: str, junk: bytes, at: int, over: int) -> None:
    text = content(sample)
    assert isinstance(read(text[:at] + junk + text[at + over :]), Reading)


# A campaign's own runs.

OPTIONS: dict[str, Any] = {"threads_per_node": 2, "files_per_thread": 1000, "unique_directory": True, "file_size": 0}
EVERY = Step(OPTIONS, tuple(MDTEST.phases.values()))
BOTH = content("own/mdtest_dir_create_2")


def parsed(phase: str, output: bytes = BOTH, step: Step = EVERY) -> Parsed:
    return MDTEST.parse({"stdout": output}, step, MDTEST.phases[phase])


def verdict(found: Parsed, phase: str, step: Step = EVERY) -> tuple[str, list[str]]:
    run = {"wall_s": 12.0, "files": {"role": "fresh"}, "leftover_expected": 0, "leftover": 0}
    # these few files are made to be read quickly, not to last
    return judged("mdtest", found, step, MDTEST.phases[phase], but=["long_enough"], **run)


def test_every_phase_has_its_row() -> None:
    for phase, rate in {
        "dir_create": 14300.632, "dir_stat": 1451316.263, "dir_rename": 79110.943, "dir_delete": 722.167,
        "create": 5276.753, "stat": 148897.866, "read": 1073535.705, "delete": 107038.510,
    }.items():  # fmt: skip
        found = parsed(phase)
        assert found.version == "4.0.0" and not found.problems and not found.evidence.errors
        assert found.figures == {
            "ops_per_s": rate, "ops": 2000, "runtime_s": pytest.approx(2000 / rate), "tasks": 2,
        }, phase  # fmt: skip
        assert verdict(found, phase) == ("valid", []), phase
    some = Step(OPTIONS | {"threads_per_node": 3}, tuple(MDTEST.phases[p] for p in ("create", "stat", "delete")))
    output = content("own/mdtest_create_3")
    assert parsed("stat", output, some).figures["ops_per_s"] == 271569.733
    assert not parsed("read", output, some).figures and parsed("read", output, some).problems  # it was not run


def test_a_rate_that_the_ranks_times_do_not_give_is_none() -> None:
    for took_s, own, is_one in (("", 2700, True), ("", 2000, False), (0.379, 2700, True), (0.5, 2700, False),
                                    (0.3, 2700, False)):  # fmt: skip
        ranks = f"rank,time-File creation,rate-File creation\nall,{took_s},\n0,,{own}\n1,,{own}\n".encode()
        found = MDTEST.parse({"stdout": BOTH, "ranks": ranks}, EVERY, MDTEST.phases["create"])  # 5,276.753 of 2,000
        assert bool(found.figures) == is_one and bool(found.problems) != is_one, (took_s, own)


def on_nodes(nodes: int, shift: int = 2) -> bytes:
    """The output of as many nodes with two ranks each, whose phases are shifted by so many ranks."""
    tasks = 2 * nodes
    output = BOTH.replace(b"with 2 total task(s) on 1 node", b"with %d total task(s) on %d node" % (tasks, nodes))
    output = output.replace(b"Shifting ranks by 1 for", b"Shifting ranks by %d for" % shift)
    output = output.replace(b"2 tasks, 2000", b"%d tasks, %d" % (tasks, 1000 * tasks))
    output = output.replace(b"Nodemap: 11\n", b"Nodemap: %b\n" % (b"1" * 2 + b"0" * (tasks - 2)))
    return re.sub(rb"(started at \S+) \d\d:", rb"\1 00:", output)  # twice the items take longer


@pytest.mark.parametrize(
    ("phase", "nodes", "shift", "expected"),
    [
        ("stat", 2, 2, "valid"),
        ("stat", 2, 1, "suspect"),  # half of the ranks find what their own node made
        ("read", 2, 2, "suspect"),  # shifted twice: with two nodes, back to who created
        ("read", 3, 2, "valid"),
        ("create", 2, 0, "valid"),
        ("stat", 2, 0, "suspect"),  # nothing is said of a shift
    ],
)
def test_nodes_must_not_read_what_they_made(phase: str, nodes: int, shift: int, expected: str) -> None:
    output = on_nodes(nodes, shift)
    if not shift:
        output = b"".join(line for line in output.splitlines(keepends=True) if b"Shifting" not in line)
    step = Step(OPTIONS, EVERY.phases, nodes)
    assert verdict(parsed(phase, output, step), phase, step)[0] == expected


ALONE_RANK = (
    BOTH.replace(b"with 2 total task(s)", b"with 1 total task(s)")
    .replace(b"2 tasks, 2000", b"1 tasks, 1000")
    .replace(b"Nodemap: 11\n", b"Nodemap: 1\n")
)


@pytest.mark.parametrize(
    ("output", "check"),
    [
        (BOTH.replace(b"(of 1 iterations)", b"(of 3 iterations)"), "output"),
        (BOTH.replace(b"   File stat ", b"   File xxxx "), "output"),
        (BOTH.replace(b"148897.866     148897.866     148897.866", b"0.000          0.000          0.000"), "output"),
        (BOTH.replace(b"-- finished at", b"-- "), "tool_errors"),
        (b"WARNING: unable to create tree directory '/mnt/x/test-dir.0-0/mdtest_tree.0.0/'\n" + BOTH, "tool_errors"),
        (ALONE_RANK, "workers"),  # each rank believes that it is alone
        (ALONE_RANK + ALONE_RANK, "output"),
        *((BOTH[:cut], "output") for cut in (0, 700)),
        (BOTH[:1700], "tool_errors"),
    ],
)
def test_what_does_not_fit_is_invalid(output: bytes, check: str) -> None:
    assert output != BOTH
    outcome, failed = verdict(parsed("stat", output), "stat")
    assert outcome == "invalid" and check in failed, failed


# What makes single rows invalid or suspect.

ROWS = ("File creation", "File stat", "File read", "File removal", "Directory removal")


def table(kind: str, figures: Mapping[str, float]) -> str:
    rows = "".join(
        f"   {name:14} {figures[name]:16.3f} {figures[name]:14.3f} {figures[name]:14.3f} {0:14.3f}\n" for name in ROWS
    )
    heading = "   Operation                     Max            Min           Mean        Std Dev\n"
    trees = "".join(f"   Tree {what:9} {5:16.3f} {5:14.3f} {5:14.3f} {0:14.3f}\n" for what in ("creation", "removal"))
    return f"SUMMARY {kind}: (of 1 iterations)\n{heading}{rows}{trees}"


def run(
    rates: Mapping[str, float] | None = None,
    said: str = "",
    options: str = "'-n' '2000' '-F' '-N' '1'",
    after: str = "",
) -> str:
    """mdtest's output of 4 ranks with 8,000 files, at 1,000 files per second where `rates` does not say otherwise."""
    return (
        "-- started at 11/20/2026 08:00:00 --\n\n"
        "mdtest-4.0.0 was launched with 4 total task(s) on 2 node(s)\n"
        f"Command line used: mdtest {options} '-d' '/x'\n4 tasks, 8000 files\n{said}\n"
        f"{table('rate', dict.fromkeys(ROWS, 1000.0) | dict(rates or {}))}"
        f"-- finished at 11/20/2026 09:30:00 --\n{after}"
    )


def of(text: str) -> Reading:
    return read(text.encode())


def verdicts(reading: Reading) -> list[str]:
    return [reading.verdict(index) for index, _ in enumerate(reading.rows)]


def test_an_operation_that_was_over_at_once_leaves_the_others() -> None:
    for rate, expected in (
        (8000 / 0.0009, "invalid"),
        (8000 / 0.019, "suspect"),
        (8000 / 0.021, "valid"),
    ):
        reading = of(run({"File stat": rate}))
        assert verdicts(reading) == ["valid", expected, *["valid"] * 3], rate
        assert [problem.row for problem in reading.problems] == [1] * (expected != "valid")


def test_ranks_may_find_in_their_nodes_cache_what_they_created() -> None:
    """Where none works on what another node made: with several nodes that could be had (-N)."""
    without = run(options="'-n' '2000' '-F'")
    assert verdicts(of(without)) == ["valid", "suspect", "suspect", "valid", "valid"]
    one = of(without.replace("on 2 node", "on 1 node"))
    assert verdicts(one) == ["valid"] * 5
    assert [(problem.severity, problem.row) for problem in one.problems] == [("note", 1), ("note", 2)]


def test_iterations_that_scatter_are_no_rate() -> None:
    text = run(options="'-n' '2000' '-F' '-N' '1' '-i' '5'").replace("(of 1 iterations)", "(of 5 iterations)")
    assert verdicts(of(text)) == ["valid"] * 5
    row = next(line for line in text.splitlines() if "File stat" in line)
    wide = of(text.replace(row, row.removesuffix("0.000") + "1650.000"))
    assert verdicts(wide) == ["valid", "suspect", *["valid"] * 3]


def test_what_is_before_3_3_is_not_read() -> None:
    for version, quote, rows in (("1.9.3", '"', 0), ("1.9.3", "", 0), ("1.9.3", "'", 5), ("3.3.0", "'", 5)):
        found = of(run().replace("-4.0.0", f"-{version}").replace("'", quote))
        assert (len(found.rows), len(found.problems)) == (rows, not rows), (version, quote)


def test_directories_that_were_not_removed_say_nothing_of_files() -> None:
    for word in ("unable", "Unable"):
        reading = of(run(said=f"WARNING: {word} to remove directory /x/test-dir.0-0"))
        assert verdicts(reading) == ["suspect"] * 4 + ["invalid"]
        assert "ops_per_s" not in reading.rows[-1] and reading.rows[ROWS.index("File removal")]["ops_per_s"] == 1000
    assert not of(run(said="WARNING: unable to remove file /x/f")).rows


def test_runs_of_one_command_are_its_repetitions_and_those_of_another_are_not() -> None:
    reading = of(run() + run({"File stat": 1001.0}) + run(options="'-n' '2000' '-F' '-u' '-N' '1'"))
    assert [row["repetition"] for row in reading.rows] == [1] * 5 + [2] * 5 + [1] * 5


def test_a_table_behind_the_end_of_a_run_is_of_another_run() -> None:
    reading = of(run() + table("rate", dict.fromkeys(ROWS, 7.0)))
    assert verdicts(reading) == ["valid"] * 5 + ["suspect"] * 5
    assert [row.get("tasks") for row in reading.rows] == [4] * 5 + [None] * 5


def test_lines_between_two_runs_are_of_the_first() -> None:
    second = run({"File stat": 1001.0}, options="'-n' '2000' '-F' '-u' '-N' '1'")
    of_both = {
        line: [(row["unique_directory"], verdict) for row, verdict in zip(reading.rows, verdicts(reading), strict=True)]
        for line in ("", "WARNING: nobody knows", "srun: error: n1: task 3: Killed", "write(3) Input/output error")
        if (reading := of(f"{run()}{line}\n{second}"))
    }
    first, last = [(False, "valid")] * 5, [(True, "valid")] * 5
    assert [*of_both.values()] == [first + last, [(False, "suspect")] * 5 + last, last, last]
    assert not of(run(after="write(3) Input/output error\n")).rows  # nothing follows


# Commands.

FILES = ["create", "stat", "read", "delete"]
DIRECTORIES = ["dir_create", "dir_stat", "dir_rename", "dir_delete"]


def step(phases: list[str], nodes: int = 1, **options: Any) -> Step:
    return Step(OPTIONS | options, tuple(MDTEST.phases[phase] for phase in phases), nodes)


def test_the_command_of_every_set_of_phases() -> None:
    for phases, options, expected in (
        (FILES, {}, "-F -u"),
        (DIRECTORIES, {}, "-D -u"),
        (DIRECTORIES + FILES, {}, "-u"),
        (DIRECTORIES + FILES, {"unique_directory": False}, ""),
        (["create", "stat", "delete"], {}, "-F -C -T -r -u"),
        (["create"], {}, "-F -C -u"),
        (["dir_create", "dir_stat", "dir_delete"], {}, "-D -C -T -r -u"),
        (["dir_create", "dir_delete", "create", "read", "delete"], {}, "-C -E -r -u"),
        (FILES, {"file_size": 3901}, "-F -u -w 3901 -e 3901"),
        (["create", "delete"], {"file_size": 3901}, "-F -C -r -u -w 3901"),
    ):
        ranks = "--saveRankPerformanceDetails=ranks.csv"
        whole = f"mdtest -i 1 -n 1000 -N 1 {expected} {ranks} -d /t"
        assert MDTEST.argv(step(phases, **options), "/t", 7) == whole.split(), phases


def test_one_command_measures_all_phases_of_a_point(tmp_path: Path) -> None:
    (point,) = make(tmp_path, document(**SWEEP)).points
    (only,) = point.steps
    assert [p.name for p in only.phases] == FILES == [p.name for p in point.measured()]
    assert (only.name, only.tasks, only.time_s) == ("create", 2, None)


def test_what_a_command_leaves_and_makes_in_a_fresh_directory() -> None:
    files = MDTEST.file_set(step(FILES), "fresh/x-r2")
    assert (files.directory, files.role, files.of_all_nodes) == ("fresh/x-r2", "fresh", True)
    left = [MDTEST.leftover(one) for one in (step(FILES), step(["create", "stat"], nodes=2), step(DIRECTORIES))]
    assert left == [0, 4000, None]
    assert MDTEST.inodes(step(FILES)) >= 2000 + 2
    assert MDTEST.work(step(DIRECTORIES + FILES)) == 2000 * 8


SWEEP: dict[str, Any] = {
    "tool": "mdtest", "phases": FILES, "axes": {"threads_per_node": [2]}, "options": {"files_per_thread": 1000},
    "phase_time": None,
}  # fmt: skip


def test_a_directory_that_is_two_to_mdtest_is_refused(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, document(**SWEEP) | {"target": {"directory": "/mnt/a@b"}}, make)
    assert "target.directory" in found


def test_a_version_before_4_0_is_not_fit() -> None:
    assert MDTEST.version("WARNING: DUMMY initialized\n--\n\nmdtest-4.0.0 was launched with 1 total") == "4.0.0"
    assert MDTEST.version("mdtest- was launched") == "unknown"
    versions = ("1.9.3", "3.3.0", "4.0.0", "4.1.0+dev")
    assert [bool(MDTEST.unfit(version)) for version in versions] == [True, True, False, False]
