"""What mdtest's output says against single figures, and what is a note."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from iosweep.tools.mdtest.output import read
from iosweep.tools.mdtest.runs import ALONE
from iosweep.tools.reading import Reading
from readings import measured, texts

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
    times: Mapping[str, float] | None = None,
    *,
    said: str = "",
    options: str = "'-n' '2000' '-F'",
    after: str = "",
) -> str:
    """mdtest's output of 4 ranks with 8,000 files, at 1,000 files per second where `rates` does not say otherwise."""
    figures = dict.fromkeys(ROWS, 1000.0) | dict(rates or {})
    timed = "\n" + table("time", dict.fromkeys(ROWS, 8.0) | dict(times)) if times else ""
    return (
        "-- started at 11/20/2026 08:00:00 --\n\n"
        "mdtest-4.0.0 was launched with 4 total task(s) on 2 node(s)\n"
        f"Command line used: mdtest {options} '-d' '/x'\n4 tasks, 8000 files\n{said}\n"
        f"{table('rate', figures).replace('   File creation', '   File creation', 1)}{timed}"
        f"-- finished at 11/20/2026 09:30:00 --\n{after}"
    )


def of(text: str) -> Reading:
    return read(text.encode())


def test_the_output_that_these_tests_change_is_whole() -> None:
    reading = of(run())
    assert not reading.problems
    assert [row["label"] for row in reading.rows] == list(ROWS)


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("WARNING: could not read stonewall status file", "note"),
        ("WARNING: Backend returned error during statfs", "note"),
        ("WARNING: There was an error initializing an OpenFabrics device.", "note"),
        ('srun: error: Ignoring conflicting option "a" in plugin "b"', "note"),
        ("[n1:7] Error: coll_x.c:1 - mca_coll_x_comm_query() library init failed", "note"),
        ("WARNING: Task 3, partial read(), 100 of 3901 bytes at offset 0", "suspect"),
        ("WARNING: something that no version is known to print", "suspect"),
        ("[7] [n1:1:0] sock.c:1  UCX  ERROR recv(fd=7) failed: Connection reset by peer", "suspect"),
        ("WARNING: unable to stat file /x/file.3", "invalid"),
        ("write(3) Input/output error", "invalid"),
        ("srun: error: n1: task 3: Killed", "invalid"),
    ],
)
def test_what_a_line_says_against_the_figures(line: str, severity: str) -> None:
    reading = of(run(said=f"{line}\n" * 10))
    (problem,) = reading.problems
    assert (problem.severity, problem.row) == (severity, None)
    assert line in problem.text and "first of 10 such lines" in problem.text
    assert bool(reading.rows) == (severity != "invalid")
    verdict = "suspect" if severity == "suspect" else "valid"
    assert {reading.verdict(index) for index, _ in enumerate(reading.rows)} <= {verdict}


def test_a_table_without_anything_above_it_is_suspect() -> None:
    bare = table("rate", dict.fromkeys(ROWS, 1000.0))
    reading = of(bare)
    assert [(problem.severity, problem.text, problem.row) for problem in reading.problems] == [("suspect", ALONE, None)]
    assert len(reading.rows) == len(ROWS)


@pytest.mark.parametrize(
    ("rate", "verdict"), [(8000 / 0.0009, "invalid"), (8000 / 0.019, "suspect"), (8000 / 0.021, "valid")]
)
def test_an_operation_that_was_over_at_once_is_no_measurement(rate: float, verdict: str) -> None:
    reading = of(run({"File stat": rate}))
    assert [reading.verdict(index) for index in range(5)] == ["valid", verdict, *["valid"] * 3]
    assert [problem.row for problem in reading.problems] == [1] * (verdict != "valid")


def test_an_operation_with_the_rate_0_leaves_the_others() -> None:
    reading = of(run({"File stat": 0.0}))
    (problem,) = reading.problems
    assert (problem.severity, problem.row) == ("invalid", 1)
    assert "ops_per_s" not in reading.rows[1] and reading.rows[1]["phase"] == "stat"
    assert [row["label"] for row in measured(reading)] == [name for name in ROWS if name != "File stat"]


@pytest.mark.parametrize("word", ["unable", "Unable"])
def test_directories_that_were_not_removed_say_nothing_of_files(word: str) -> None:
    reading = of(run(said=f"WARNING: {word} to remove directory /x/test-dir.0-0"))
    found = {str(row["label"]): reading.verdict(index) for index, row in enumerate(reading.rows)}
    assert found == dict.fromkeys(ROWS, "suspect") | {"Directory removal": "invalid"}
    assert "ops_per_s" not in reading.rows[-1] and reading.rows[ROWS.index("File removal")]["ops_per_s"] == 1000
    of_files = of(run(said="WARNING: unable to remove file /x/f"))
    assert not of_files.rows


def test_lines_between_two_runs_are_of_one_of_them() -> None:
    second = run({"File stat": 1001.0}, options="'-n' '2000' '-F' '-u'")

    def verdicts(line: str) -> list[str]:
        reading = of(run() + line + "\n" + second)
        return [reading.verdict(index) for index, _ in enumerate(reading.rows)]

    assert verdicts("") == ["valid"] * 10
    assert verdicts("WARNING: something that no version is known to print") == ["valid"] * 5 + ["suspect"] * 5
    reading = of(run() + "srun: error: n1: task 3: Killed\n" + second)
    assert {row["unique_directory"] for row in reading.rows} == {True}
    assert all(problem.text.startswith("run 1 of 2: ") for problem in reading.problems)
    reading = of(run() + "write(3) Input/output error\n" + second)
    assert {row["unique_directory"] for row in reading.rows} == {False}
    # nothing follows the last run
    assert re.match("the system refused", texts(of(run(after="write(3) Input/output error\n")))[0])
