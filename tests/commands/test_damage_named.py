"""What commands say of results that are damaged, or of which a part is gone."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from campaign import FOUR_AND_EIGHT, Made, document, keep_plan, make
from iosweep.commands import cli, outcome
from iosweep.commands.watch.snapshot import Campaign
from iosweep.files import safe_paths
from iosweep.plan.model import read_plan
from iosweep.results import remaining
from iosweep.results.store import Store
from iosweep.target.identify import rights

Capture = pytest.CaptureFixture[str]


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign of two points with two repetitions, all measured, with its tables."""
    monkeypatch.chdir(tmp_path)
    made = Made(Path(), make(tmp_path, document(**FOUR_AND_EIGHT)))
    for index in (0, 1):
        for number in (1, 2):
            made.measured(index, number)
    keep_plan(made.plan, made.results)
    made.table()
    return made.results


@pytest.mark.parametrize("harm", [lambda file: file.write_bytes(b""), lambda file: file.with_suffix(".zip").unlink()])
@pytest.mark.parametrize("tries", [1, 2])
@pytest.mark.local  # `watch` asks squeue
def test_a_damaged_newest_try_is_left_for_every_command(
    tmp_path: Path, harm: Callable[[Path], object], tries: int, capsys: Capture
) -> None:
    """Also where an older try is whole: it would be no figure that the campaign has chosen."""
    made = Made(tmp_path, make(tmp_path, document(**FOUR_AND_EIGHT)))
    for index in (0, 1):
        for number in (1, 2):
            made.measured(index, number)
    point = made.plan.points[0].id
    if tries == 2:
        made.measured(0, 1, record={"retried": True})
    keep_plan(made.plan, made.results)
    made.table()
    harm(made.store.point(point) / f"r001-{tries}.json")
    here = remaining.Here()
    left = remaining.left(made.plan, Store(made.results).results(), {}, here)
    assert left == {"1-node": {point: [1]}}  # which snakemake -n says
    for _ in range(2):
        found = outcome.of(made.results)
        assert found.left == 1
        assert [one.repetitions_left for one in Campaign(made.results).look().allocations] == [1]
        assert run("check", str(made.results)) == 1
        assert ", 1 left\n" in capsys.readouterr().out
        [row] = [row for row in made.table() if row["left"]]  # and once the tables are made again
        assert (row["point"], row["repetition"], row["verdict"]) == (point, 1, "missing")
    made.measured(0, 1)
    assert made.store.results()[point][1].attempt == tries + 1
    made.table()
    assert (outcome.of(made.results).left, outcome.of(made.results).damaged) == (0, [])


@pytest.mark.parametrize("counts", [1, 2])
def test_a_changed_archive_is_set_aside_with_its_tables(results: Path, counts: int, capsys: Capture) -> None:
    """Its content is looked at when tables are made. No other try counts in its place; the next run measures it."""
    made = Made(results.parent.parent, next(read_plan(file) for file in (results / "plans").iterdir()))
    point = made.plan.points[0].id
    # a second try without a figure does not count
    made.measured(0, 1, record={"retried": True}, headline=1.0 if counts == 2 else None)
    archive = results / "points" / point / f"r001-{counts}.zip"
    archive.write_bytes(bytes(archive.stat().st_size))
    assert Store(results).results()[point][1].attempt == counts
    made.table()
    kept = {file.name for file in archive.parent.glob("r001-*")}
    assert kept == {"r001-1.zip", "r001-2.zip", f"r001-{counts}.damaged.json", f"r001-{3 - counts}.superseded.json"}
    assert remaining.left(made.plan, Store(results).results(), {}, remaining.Here()) == {"1-node": {point: [1]}}
    assert run("check", "quick") == 1
    said = capsys.readouterr().out
    assert ", 0 missing, 1 left\n" in said and f"{archive.name}" in said and "the next run measures it again" in said
    assert (outcome.of(results).again, outcome.of(results).damaged) == (0, [])
    made.measured(0, 1)
    made.table()
    assert (outcome.of(results).left, outcome.of(results).again) == (0, 0)


@pytest.mark.parametrize("lost", [["campaign.json"], ["results.parquet"], ["results.parquet", "plans/*.json"]])
def test_list_has_a_row_of_a_campaign_that_is_damaged(results: Path, lost: list[str], capsys: Capture) -> None:
    for file in (file for name in lost for file in results.glob(name)):
        file.write_bytes(b"")
    run("list")
    captured = capsys.readouterr()
    [_, row] = captured.out.splitlines()
    assert row.split()[0] == "quick" and row.split()[-1] == "results/quick"
    assert row.count(" - ") >= 2 and f"{lost[0]} is damaged" in captured.err
    run("list", "--json")
    [told] = json.loads(capsys.readouterr().out)
    assert (told["campaign"], told["repetitions"]) == ("quick", None)
    assert told["repetitions_left"] == (None if len(lost) == 2 else 0)


def test_show_names_damaged_files(results: Path, capsys: Capture) -> None:
    [result, *_] = results.glob("points/*/r001-1.json")
    others = [results / "target.json", results / "spent.json", results / "report.html", result]
    for file in others:
        file.write_bytes(b"")
    for form in ([], ["--all"], ["--json"]):
        assert run("show", "quick", *form) == 0
        said = capsys.readouterr().err
        assert f"{result} is damaged (it is empty); the next run measures it again" in said
        assert "results/quick/spent.json is damaged (it is empty)" in said
        assert "remove the directory by hand; then remove results/quick/target.json" in said
    (results / "sets").mkdir(exist_ok=True)
    for number in range(9):
        (results / "sets" / f"{number}.json").write_bytes(b"")
    assert run("show", "quick") == 0
    assert capsys.readouterr().err.endswith(" more files are damaged\n")


def test_plans_that_cannot_be_listed(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def closed(*_: object) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(results / "plans"))

    monkeypatch.setattr(safe_paths, "names", closed)
    for command in (["report", "quick"], ["show", "quick"], ["check", "quick"]):
        run(*command)
        captured = capsys.readouterr()
        assert f"{results}/plans is damaged (it cannot be read: Permission denied)" in captured.out + captured.err


@pytest.mark.parametrize("lost", [["plans", "campaign.json"], ["plans", "campaign.json", "results.parquet"]])
def test_results_without_a_plan_are_found(results: Path, lost: list[str], capsys: Capture) -> None:
    for name in lost:
        shutil.rmtree(results / name) if name == "plans" else (results / name).unlink()
    for command in (["show", "quick"], ["check", "quick"], ["report", "quick"], ["list"]):
        assert run(*command) == 1
        said = capsys.readouterr().err
        assert "no results of a campaign" not in said
        assert "results/quick has results but no plan; the next run of snakemake with its configuration" in said, (
            command
        )


def test_a_table_that_is_gone_is_called_so(results: Path, capsys: Capture) -> None:
    (results / "results.parquet").unlink()
    for command in (["show", "quick"], ["check", "quick"], ["rerun", "--invalid", "--campaign", "quick"], ["list"]):
        run(*command)
        captured = capsys.readouterr()
        said = captured.out + captured.err
        assert "no tables yet" not in said
        assert "results/quick/results.parquet is gone; `iosweep report" in said, command


def test_results_that_are_closed_are_named_with_owner_and_mode(
    results: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(results / ".campaign.json.7.tmp"))

    monkeypatch.setattr("iosweep.results.merge.merge", lambda *_: refused())
    assert run("report", "quick") == 1
    said = f"Permission denied: results/quick has {rights(results.stat())}; what was measured is stored: get permission"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["campaign.json", "checks.parquet", "nodes.parquet"])
def test_show_without_one_of_the_tables(results: Path, name: str, capsys: Capture) -> None:
    (results / name).unlink()
    for form in ([], ["--all"], ["--json"]):
        assert run("show", "quick", *form) == 1
        said = f"results/quick/{name} is gone; `iosweep report quick` makes it again\n"
        assert capsys.readouterr().err == said
