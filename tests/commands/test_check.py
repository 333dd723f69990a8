"""What became of a campaign: `check`, and what `show` says of it."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

import records
import results_factory
from campaign import TEXT, keep_plan, make
from iosweep.commands import check, cli, watch
from iosweep.files import documents
from iosweep.jobs.pending import Queue
from iosweep.plan.model import Plan, read_plan
from iosweep.store.record import Missing, Needs, Refusal
from iosweep.store.store import Store
from iosweep.tables import reader
from iosweep.tables.make import make_tables

Capture = pytest.CaptureFixture[str]
Verdicts = dict[tuple[str, int], tuple[str, str]]

SWEEP = results_factory.sweep("s", ["seq_write", "rand_read"], {"threads_per_node": [1, 2]})
LONG = "a reason of more than eighty characters, [which] a terminal of that width would have broken in two or three"
INVALID: Verdicts = {("rand_read", 1): ("invalid", LONG)}
SUSPECT: Verdicts = {("rand_read", 1): ("suspect", "other load")}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def campaign(place: Path, verdicts: Verdicts, name: str = "quick") -> Path:
    """Tables of 2 points with 2 phases each. `verdicts`: (phase, threads) -> verdict and reason, if not valid.

    The plan is one of which nothing is left: every point is measured.
    """
    Store(place / "results" / name).mark()
    results = results_factory.make(
        place / "results" / name,
        sweeps=[SWEEP],
        repetitions=2,
        spoil=lambda row: verdicts.get((row["phase"], row["threads_per_node"])),
        campaign=name,
    )
    text = TEXT.replace("quick", name).replace("[1, 2]", "[1]").replace("[4k, 64k]", "[4k]").replace("[1, 2, 4]", "[1]")
    made = make(place, text)
    keep_plan(made, results)
    for point in made.points:
        record = records.record(point.id, target={"directory": made.targets[""].directory})
        for number in range(1, point.repetitions.min + 1):
            Store(results).commit(point.id, number, record, {"x": b"y"})
    about = documents.read(results / "campaign.json")
    (results / "campaign.json").write_bytes(documents.dump(about | {"plan_digest": made.digest}))
    (results / "results.parquet").touch()
    return results


def opened(results: Path) -> Plan:
    """The plan of a campaign, whose first repetition is opened again."""
    [file] = (results / "plans").iterdir()
    made, store = read_plan(file), Store(results)
    store.supersede(store.repetitions_of(made.points[0].id)[1])
    return made


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


@pytest.fixture
def told(capsys: Capture) -> Callable[..., tuple[int, str]]:
    """Runs a command: its exit code, and all that it says on one line."""

    def told(*command: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(*command)
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).split())

    return told


def test_check_fails_for_invalid_results_and_for_suspect_ones_if_told(place: Path) -> None:
    campaign(place, {}, "valid")
    found = check.read_outcome(campaign(place, INVALID, "invalid"))
    assert found.verdicts == {"valid": 2, "suspect": 0, "invalid": 2, "missing": 0}
    [(reason, count, points)] = found.reasons["invalid"]
    assert (reason, count, len(points)) == (LONG, 2, 1)
    campaign(place, SUSPECT, "suspect")
    campaign(place, SUSPECT | {("rand_read", 2): ("suspect", "other load")}, "doubted")
    names = ("valid", "invalid", "suspect", "doubted")
    codes = {name: (run("check", name), run("check", "--suspect", name)) for name in names}
    assert codes == {"valid": (0, 0), "invalid": (1, 1), "suspect": (0, 1), "doubted": (1, 1)}
    assert (run("check", "valid", "invalid"), run("check", "nothing")) == (1, 1)


def test_check_and_show_of_a_campaign(place: Path, capsys: Capture, snapshot: SnapshotAssertion) -> None:
    """Without a terminal nothing is wrapped or padded."""
    assert run("check") == 1
    campaign(place, INVALID, "one")
    (campaign(place, {}, "two") / "results.parquet").unlink()
    run("check")
    for form in ([], ["--all"]):
        run("show", "one", *form)
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line != line.rstrip()] == []
    assert re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "0000-00-00 00:00", said) == snapshot


def test_check_fails_for_what_is_left_or_tried_again(place: Path, capsys: Capture) -> None:
    results = campaign(place, {})
    made, store = opened(results), Store(results)
    (results / "results.parquet").touch()  # the tables have a verdict of it
    found = check.read_outcome(results)
    assert (found.left, found.stale, found.fails()) == (1, False, True)
    os.utime(results / "results.parquet", (0, 0))  # they do not know of it yet
    found = check.read_outcome(results)
    assert (found.left, found.stale, found.fails()) == (1, True, True)
    assert found.verdicts == {"valid": 4, "suspect": 0, "invalid": 0, "missing": 0}
    # what lacks a tool is missing, and not left
    store.set_missing(made.points[0].id, Missing(Needs(tool="fio"), "fio is not on PATH"))
    assert check.count_left(made, store) == 0
    assert run("check", "quick") == 1


def test_what_is_left_is_counted_alike_everywhere(place: Path) -> None:
    """What a job that was stopped did not measure is left, and the reason is known."""
    made, results = make(place, TEXT), place / "results" / "quick"
    keep_plan(made, results)
    store, lacks = Store(results), made.points[-1]
    store.set_refusal(made.allocations[0].name, Refusal("SIGTERM", stopped=True))
    store.set_missing(lacks.id, Missing(Needs(tool="fio"), "no fio"))
    make_tables(made, results)
    found = check.read_outcome(results)
    assert (found.verdicts, found.left) == ({"valid": 0, "suspect": 0, "invalid": 0, "missing": 1}, 11)
    assert found.reasons["left"][0][:2] == ("SIGTERM", 11)
    assert found.reasons["missing"] == [("no fio", 1, [lacks.id])]
    assert check.count_left(made, store) == 11
    seen = watch.read_progress(results, Queue()).allocations
    assert [sum(a.repetitions_left for a in seen), sum(a.repetitions_missing for a in seen)] == [11, 1]


def test_check_fails_if_the_tables_are_older_than_the_store_or_not_there(place: Path) -> None:
    results = campaign(place, {})
    file = results / "results.parquet"
    os.utime(file, (0, 0))
    assert (check.read_outcome(results).stale, run("check", "quick"), run("show", "quick")) == (True, 1, 0)
    file.touch()
    (results / "plans" / "0.json").write_text("{}")  # another configuration, of which there are no tables yet
    os.utime(results / "plans" / "0.json", (file.stat().st_mtime + 1,) * 2)
    assert run("check", "quick") == 1
    (results / "plans" / "0.json").unlink()
    for made in (*results.glob("*.parquet"), results / "results.csv", results / "campaign.json"):
        made.unlink()
    assert (check.read_outcome(results).verdicts, run("check", "quick")) == (None, 1)


@pytest.fixture
def of_rows(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., check.Outcome]:
    """The outcome of rows: (repetition, phase, verdict, reasons)."""
    results = campaign(place, {})

    def of_rows(*rows: tuple[int, str, str, str]) -> check.Outcome:
        made = [
            reader.read_verdict(
                {"point": "p", **dict(zip(("repetition", "phase", "verdict", "reasons"), row, strict=False))}
            )
            for row in rows
        ]
        monkeypatch.setattr(reader, "read_rows", lambda *_: made)
        return check.read_outcome(results)

    return of_rows


def test_a_repetition_counts_once_with_its_worst_verdict_and_each_reason(
    of_rows: Callable[..., check.Outcome],
) -> None:
    found = of_rows((1, "x", "valid", ""), (2, "x", "missing", ""))
    assert (found.verdicts, found.fails()) == ({"valid": 1, "suspect": 0, "invalid": 0, "missing": 1}, True)
    found = of_rows((1, "x", "suspect", "load 86%"), (1, "y", "suspect", "load 12%"), (1, "z", "invalid", "I/O"))
    assert (found.verdicts["suspect"], found.verdicts["invalid"]) == (0, 1)
    found = of_rows((1, "x", "suspect", "load 86%"), (1, "y", "suspect", "load 12%"))
    assert found.reasons["suspect"] == [("load 12 to 86%", 1, ["p"])]  # another number is the same reason
    found = of_rows(
        (1, "x", "suspect", "short"), (2, "x", "suspect", "short | load 40%"), (3, "x", "suspect", "load 9%")
    )
    assert found.reasons["suspect"] == [("short", 2, ["p"]), ("load 9 to 40%", 2, ["p"])]


# Files that are damaged or gone


def test_check_names_damaged_and_lost_tables(place: Path, told: Callable[..., tuple[int, str]]) -> None:
    results = campaign(place, {})
    assert told("check", "quick")[0] == 0
    for name in ("checks.parquet", "nodes.parquet", "results.csv", "campaign.json", "results.parquet"):
        file = results / name
        whole = file.read_bytes()
        for said in ("damaged", "gone"):
            file.write_bytes(whole + b"x")
            if said == "gone":
                file.unlink()
            code, text = told("check", "quick")
            assert f"{name} is {said}" in text and "`iosweep report results/quick`" in text, name
            assert code == 1, name
        file.write_bytes(whole)
    assert told("check", "quick")[0] == 0


@pytest.mark.parametrize("folder", ["plans", "manifests", "logs", "points"])
def test_no_command_reads_through_a_link_in_place_of_a_folder(
    place: Path, folder: str, told: Callable[..., tuple[int, str]]
) -> None:
    results = campaign(place, {})
    elsewhere = place / "elsewhere"
    (results / folder).rename(elsewhere) if (results / folder).exists() else elsewhere.mkdir()
    (results / folder).symlink_to(elsewhere)
    for command in (["check", "quick"], ["watch", "quick", "--once"]):
        _, said = told(*command)
        assert said.count(f"results/quick/{folder} is damaged") == 1, command


def test_the_tables_are_shown_where_the_plan_is_damaged_or_gone(
    place: Path, told: Callable[..., tuple[int, str]]
) -> None:
    """As of received results, whose plan only the sender has."""
    results = campaign(place, {})
    [file] = (results / "plans").iterdir()
    file.write_bytes(b"")
    os.utime(file, (0, 0))
    assert told("show", "quick")[0] == 0
    found = check.read_outcome(results)
    assert found.verdicts == {"valid": 4, "suspect": 0, "invalid": 0, "missing": 0}
    assert sum(f"plans/{file.name}" in line for line in found.damaged) == 1
    assert told("check", "quick")[0] == 1
    file.unlink()
    assert told("check", "quick")[0] == 1
