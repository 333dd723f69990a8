"""What commands say of results that are damaged, or of which a part is gone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from campaign import FOUR_AND_EIGHT, Made, document, keep_plan, make
from iosweep.commands import check, cli
from iosweep.commands.watch import read_progress
from iosweep.jobs.pending import Queue
from iosweep.judge import remaining
from iosweep.store.store import Store
from iosweep.tables.make import make_tables
from iosweep.tables.reader import load

Capture = pytest.CaptureFixture[str]


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A campaign of two points with two repetitions, all measured; without tables."""
    monkeypatch.chdir(tmp_path)
    made = Made(Path(), make(tmp_path, document(**FOUR_AND_EIGHT)))
    for index in (0, 1):
        for number in (1, 2):
            made.measured(index, number)
    keep_plan(made.plan, made.results)
    return made


@pytest.fixture
def results(made: Made) -> Path:
    made.table()
    return made.results


@pytest.fixture
def told(capsys: Capture) -> Callable[..., str]:
    """All that a command says, on one line."""

    def told(*command: str) -> str:
        capsys.readouterr()
        run(*command)
        captured = capsys.readouterr()
        return " ".join((captured.out + captured.err).split())

    return told


def left(made: Made) -> dict[str, dict[str, list[int]]]:
    """What `snakemake -n` says."""
    return remaining.find(made.plan, Store(made.results).repetitions(), {}, remaining.LocalMachine()).left


@pytest.mark.parametrize(("harm", "tries"), [("record is empty", 2), ("archive is gone", 1)])
def test_a_damaged_newest_try_is_left_for_every_command(made: Made, harm: str, tries: int) -> None:
    """Also where an older try is whole: it would be no figure that the campaign has chosen."""
    point = made.plan.points[0].id
    if tries == 2:
        made.measured(0, 1, record={"retried": True})
    made.table()
    record = made.store.point(point) / f"r001-{tries}.json"
    record.write_bytes(b"") if harm == "record is empty" else record.with_suffix(".zip").unlink()
    assert left(made) == {"1-node": {point: [1]}}
    for _ in range(2):
        assert run("check", "quick") == 1
        assert [one.repetitions_left for one in read_progress(made.results, Queue()).allocations] == [1]
        [row] = [row for row in made.table() if row["left"]]  # and once the tables are made again
        assert (row["point"], row["repetition"], row["verdict"]) == (point, 1, "missing")
    made.measured(0, 1)
    assert made.store.repetitions()[point][1].attempt == tries + 1
    assert not any(row["left"] for row in made.table())
    assert check.read_condition(made.results).wrong == []


@pytest.mark.parametrize("counts", [1, 2])
def test_a_changed_archive_is_set_aside_with_its_tables(made: Made, counts: int) -> None:
    """Its content is read when it is judged again. No other try counts in its place; the next run measures it."""
    made.table()
    point = made.plan.points[0].id
    # a second try without a figure does not count
    made.measured(0, 1, record={"retried": True}, headline=1.0 if counts == 2 else None)
    archive = made.results / "points" / point / f"r001-{counts}.zip"
    archive.write_bytes(bytes(archive.stat().st_size))
    assert Store(made.results).repetitions()[point][1].attempt == counts
    make_tables(made.plan, made.results, judge_again=True)
    kept = {file.name for file in archive.parent.glob("r001-*")}
    assert kept == {"r001-1.zip", "r001-2.zip", f"r001-{counts}.damaged.json", f"r001-{3 - counts}.superseded.json"}
    assert left(made) == {"1-node": {point: [1]}}
    assert check.read_condition(made.results).damaged == []
    [said] = [line for line in check.describe(load(made.results)) if line.startswith("  left")]
    assert archive.name in said
    assert run("check", "quick") == 1
    made.measured(0, 1)
    assert not any(row["left"] for row in made.table())
    assert check.read_condition(made.results).wrong == []


def test_show_names_damaged_files(results: Path, capsys: Capture, snapshot: SnapshotAssertion) -> None:
    [result, *_] = sorted(results.glob("points/*/r001-1.json"))
    for file in (results / "targets/iosweep-quick.json", results / "spent.json", results / "report.html", result):
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"")
    said = []
    for form in ([], ["--all"], ["--json"]):
        assert run("show", "quick", *form) == 0
        said.append(sorted(capsys.readouterr().err.splitlines()))
    assert said[0] == said[1] == said[2] == snapshot
    (results / "sets").mkdir(exist_ok=True)
    for number in range(9):
        (results / "sets" / f"{number}.json").write_bytes(b"")
    assert run("show", "quick") == 0
    assert capsys.readouterr().err.endswith(" more files are damaged\n")
