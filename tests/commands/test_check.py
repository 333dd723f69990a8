"""What became of a campaign: `check`, and what `show` says of it."""

import os
import re
from collections.abc import Callable
from itertools import product
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
    campaign(place, INVALID, "invalid")
    campaign(place, SUSPECT, "suspect")
    every = product(("seq_write", "rand_read"), (1, 2))
    campaign(place, dict.fromkeys(every, ("suspect", "other load")), "doubted")
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


def test_what_is_left_is_counted_alike_everywhere(place: Path) -> None:
    """What a job that was stopped did not measure is left, and the reason is known."""
    made, results = make(place, TEXT), place / "results" / "quick"
    keep_plan(made, results)
    store, lacks = Store(results), made.points[-1]
    store.set_refusal(made.allocations[0].name, Refusal("SIGTERM", stopped=True))
    store.set_missing(lacks.id, Missing(Needs(tool="fio"), "no fio"))
    make_tables(made, results)
    said = [*check.describe(reader.load(results))]
    assert said[0] == "quick: 1 of 12 results is missing, 11 left to measure"
    assert ("SIGTERM" in said[2], "no fio" in said[1]) == (True, True)
    assert watch.read_progress(results, Queue()).counts == {"missing": 1, "left": 11}


def test_check_fails_if_the_tables_are_older_than_the_store_or_not_there(place: Path) -> None:
    results = campaign(place, {})
    file = results / "results.parquet"
    os.utime(file, (0, 0))
    assert (check.read_condition(results).stale, run("check", "quick"), run("show", "quick")) == (True, 1, 0)
    file.touch()
    (results / "plans" / "0.json").write_text("{}")  # another configuration, of which there are no tables yet
    os.utime(results / "plans" / "0.json", (file.stat().st_mtime + 1,) * 2)
    assert run("check", "quick") == 1
    (results / "plans" / "0.json").unlink()
    for made in (*results.glob("*.parquet"), results / "results.csv", results / "campaign.json"):
        made.unlink()
    assert run("check", "quick") == 1


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
    assert sum(f"plans/{file.name}" in line for line in check.read_condition(results).damaged) == 1
    assert told("check", "quick")[0] == 1
    file.unlink()
    assert told("check", "quick")[0] == 1
