"""The workflow as a user runs it: real Snakemake, scripted tools, a store that is damaged, grown, shrunk and killed."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from campaign import ROOT, Campaign
from iosweep.commands import cli
from iosweep.store.store import Store
from waiting import PATIENCE_S, over, wait_for

pytestmark = pytest.mark.local

#: What the rule `tables` makes, and must not be empty.
MADE = ("results.parquet", "results.csv", "checks.parquet", "nodes.parquet", "campaign.json")


def rules_of(output: str) -> set[str]:
    """The rules of which jobs would be run, by what a dry run prints."""
    return set(re.findall(r"^Job \d+: (\w+)", output, re.MULTILINE))


def rows_of(campaign: Campaign) -> list[dict[str, str]]:
    with (campaign.results / "results.csv").open() as file:
        return list(csv.DictReader(file))


def left_of(campaign: Campaign) -> str:
    """`1 point, 2 repetitions left` of the only allocation; "" if nothing is."""
    found = re.search(r": (.* left)", campaign.left().get("1-node", ""))
    return found[1] if found else ""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, str]:
    """A campaign that ran once, and what that printed. Tests that change it work on a copy."""
    campaign = Campaign(tmp_path_factory.mktemp("measured"))
    return campaign, campaign.run()


@pytest.fixture
def again(measured: tuple[Campaign, str], tmp_path: Path) -> Iterator[Campaign]:
    """A copy of the measured campaign that may be changed. Snakemake's own records come along."""
    first, place = measured[0], tmp_path / "copy"
    shutil.copytree(first.place, place)
    copy = Campaign(place)
    # the target's directory is part of what was measured, so it stays where it is; its lock is in the plan
    copy.target, copy.lock, copy.tools = first.target, first.lock, first.tools
    copy.play()
    copy.configure()
    yield copy
    shutil.rmtree(place)  # what it claimed on the target is the next copy's
    first.play()


def test_a_first_run_gives_tables_and_a_report_and_the_next_run_nothing(
    measured: tuple[Campaign, str],
) -> None:
    campaign, output = measured
    assert "2 points, 4 repetitions left" in output
    assert len(campaign.repetitions()) == 4
    for name in (*MADE, "report.html"):
        assert (campaign.results / name).stat().st_size > 0
    assert "results/tiny/report.html" in output
    assert len(rows_of(campaign)) == 2 * 2 * 2  # points, repetitions, phases
    assert list(campaign.target.iterdir()) == []  # with keep: none
    assert rules_of(campaign.dry("--until", "report")) == set()


def test_what_is_damaged_gone_or_superseded_is_measured_again_and_nothing_else(
    again: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(again.place)
    other, chosen = sorted((again.results / "points").iterdir())
    before = again.stored()
    (other / "r001-1.json").unlink()
    assert left_of(again) == "1 point, 1 repetition left"
    (chosen / "r001-1.zip").write_bytes((chosen / "r001-1.zip").read_bytes()[:100])
    assert left_of(again) == "2 points, 2 repetitions left"
    shutil.rmtree(again.place / ".snakemake")  # nothing of what is left is known by Snakemake's own records
    again.tables("--config", f"only={chosen.name}")
    assert left_of(again) == "1 point, 1 repetition left"
    assert {row["verdict"] for row in rows_of(again) if (row["point"], row["repetition"]) == (other.name, "1")} == {
        "missing"
    }
    after = again.stored()
    del before[other.name, "r001-1.json"], before[chosen.name, "r001-1.json"], before[chosen.name, "r001-1.zip"]
    assert {file: after[file] for file in before} == before
    assert {name for point, name in again.repetitions() if point == chosen.name} >= {"r001-2.json", "r002-1.json"}
    shutil.rmtree(other)
    assert cli.main(["rerun", chosen.name]) == 0
    assert left_of(again) == "2 points, 4 repetitions left"
    kept = again.stored()
    assert kept[chosen.name, "r002-1.superseded.json"] == before[chosen.name, "r002-1.json"]
    assert kept[chosen.name, "r002-1.zip"] == before[chosen.name, "r002-1.zip"]


def test_what_a_power_cut_has_emptied_is_made_again_and_looking_removes_nothing(again: Campaign) -> None:
    """Also where Snakemake's own records of what it ran with are empty then."""
    emptied = [again.results / name for name in MADE]
    for file in (*emptied, *(again.place / ".snakemake" / "metadata").iterdir()):
        os.truncate(file, 0)
    stored = again.stored()
    before = {f: f.read_bytes() for f in again.results.rglob("*") if f.is_file()}
    assert rules_of(again.dry("--until", "tables")) == {"damaged", "tables"}
    assert {f: f.read_bytes() for f in again.results.rglob("*") if f.is_file()} == before
    again.tables()
    assert all(file.stat().st_size for file in emptied)
    assert (again.stored(), again.loaded().remake, rules_of(again.dry("--until", "report"))) == (
        stored,
        False,
        {"report"},
    )


def test_tables_older_than_a_manifest_are_made_again(again: Campaign) -> None:
    """As after `--until measure`, and after a kill before the tables were made."""
    file = again.loaded().manifest("1-node")
    file.write_bytes(file.read_bytes()[:-1])
    assert rules_of(again.dry("--until", "tables")) == {"tables"}


def test_growth_measures_only_new_points_and_shrinking_keeps_the_others(again: Campaign) -> None:
    before = again.stored()
    again.configure(name="other", axes={"transfer_size": ["16k", "4k"]})
    assert again.left() == {}  # the order in the file and the name of a sweep do not matter
    again.configure(axes={"transfer_size": ["16k"]})
    assert again.left() == {}
    again.configure(axes={"transfer_size": ["8k", "16k"]})
    assert left_of(again) == "1 point, 2 repetitions left"
    again.tables()
    after = again.stored()
    assert {k: after[k] for k in before} == before
    assert len({point for point, _ in after} - {point for point, _ in before}) == 1
    assert {row["transfer_size_bytes"] for row in rows_of(again)} == {"8192", "16384"}
    again.configure()  # back to what was measured first: nothing to measure either
    assert again.left() == {}


def test_changed_code_makes_tables_again_alone_and_the_error_of_a_rule_is_shown_and_logged(
    again: Campaign, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    shutil.copytree(ROOT / "workflow/iosweep", code / "iosweep", ignore=shutil.ignore_patterns("__pycache__"))
    ahead = again.environment | {"PYTHONPATH": str(code)}  # of the installed package

    def change(file: str, old: str, new: str) -> None:
        text = (code / "iosweep" / file).read_text()
        assert old in text
        (code / "iosweep" / file).write_text(text.replace(old, new))

    change("tools/fio/output.py", "def parse(", "# another comment\ndef parse(")
    assert rules_of(again.snakemake("-n", env=ahead)) == {"tables", "report", "figures", "all"}
    change("commands/tables.py", "    make_tables(arg", "    raise CommandError('no luck')\n    make_tables(arg")
    before = again.stored()
    assert "no luck" in again.tables(env=ahead, code=1)
    assert "no luck" in (again.results / "logs/tables.log").read_text()
    assert again.stored() == before


def test_a_failed_allocation_fails_the_run_gives_a_report_and_is_taken_up_again(
    again: Campaign, measured: tuple[Campaign, str]
) -> None:
    """The directory on the target belongs to the results that these are a copy of."""
    again.configure(axes={"transfer_size": ["4k", "8k", "16k"]})
    theirs = again.target / "iosweep-tiny"
    shutil.rmtree(theirs, ignore_errors=True)  # of another test, which left some points to the next run
    theirs.mkdir(parents=True)
    marker = {"uuid": Store(again.results).uuid(), "results": str(measured[0].results)}
    (theirs / "iosweep.json").write_text(json.dumps(marker))
    try:
        again.tables(code=1)
        [(size, why)] = {(r["transfer_size_bytes"], r["reasons"]) for r in rows_of(again) if r["verdict"] == "missing"}
        assert size == "8192"
        assert str(theirs) in why
        assert why in (again.results / "report.html").read_text()
        assert json.loads((theirs / "iosweep.json").read_text()) == marker
    finally:
        shutil.rmtree(theirs)
    assert left_of(again) == "1 point, 2 repetitions left"


def test_a_wrong_configuration_or_target_stops_before_anything(again: Campaign) -> None:
    def states() -> dict[str, int]:
        return {
            f.name: f.stat().st_mtime_ns for f in again.results.iterdir() if f.name not in ("manifests", "run.lock")
        }

    before = states()
    again.configure(axes={"thread_per_node": [1]})
    output = again.snakemake(code=1)
    assert re.search(r"sweep\.yaml:\d+: .*thread_per_node", output)
    assert "nothing was run" in output
    again.configure(axes={"transfer_size": ["4k", "8k", "16k"]})
    away = again.target.rename(again.target.with_name("tarket"))
    try:
        output = again.snakemake(code=1)
        assert re.search(r"sweep\.yaml:\d+: target\.directory: ", output)
        assert str(away) in output  # what it may have been meant to be
        assert "nothing was run" in output
        assert "Error" not in output
    finally:
        away.rename(again.target)
    assert states() == before


def test_a_missing_tool_is_a_reason_and_nothing_is_left(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path)
    campaign.play()
    (tmp_path / "scripted/fio").rename(tmp_path / "fio")
    links = tmp_path / "links"
    links.mkdir()
    for name in ("bash", "sh", "env", "uname", "cat", "tee", "which"):  # what a shell and Snakemake need
        (links / name).symlink_to(str(shutil.which(name)))
    campaign.path = f"{tmp_path / 'scripted'}{os.pathsep}{links}"
    said = campaign.tables(code=1)  # it has an outcome, and is no success
    assert said.endswith(f"iosweep: {campaign.loaded().unmeasured()[0]}\n")
    assert {row["verdict"] for row in rows_of(campaign)} == {"missing"}
    assert campaign.left() == {}
    assert campaign.tables(code=1).count(campaign.loaded().unmeasured()[0]) == 1  # again, and said once
    (tmp_path / "fio").rename(tmp_path / "scripted/fio")
    assert left_of(campaign) == "2 points, 4 repetitions left"


def started(campaign: Campaign, number: int) -> subprocess.Popen[str]:
    """`snakemake` in a session of its own, as a terminal has it, while the third of its repetitions does not end."""
    campaign.play({"when": "rand_write", "times": 2}, {"when": "rand_write", "sleep_s": 10_000})
    process = subprocess.Popen(
        campaign.command("--until", "tables"), env=campaign.environment, cwd=campaign.place,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: len(campaign.repetitions()) == number, over=over(process))
    return process


def test_a_sigkill_and_an_interrupt_of_snakemake_keep_what_is_measured(tmp_path: Path) -> None:
    axes = {"transfer_size": ["4k", "8k", "16k"]}
    campaign = Campaign(tmp_path, phases=["rand_write"], axes=axes, repetitions=2)
    process = started(campaign, 2)
    assert str(process.pid) in campaign.snakemake(code=1)  # a second one beside it is refused
    below = psutil.Process(process.pid).children(recursive=True)
    process.kill()  # Snakemake alone: what it had started ends with it, cleanly
    process.communicate()
    assert psutil.wait_procs(below, timeout=PATIENCE_S)[1] == []
    killed = campaign.stored()
    assert not list((campaign.results / "points").glob("*/.*.tmp"))

    process = started(campaign, 4)  # it goes on
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: snakemake and everything below it
    said = process.communicate()[0]
    assert process.returncode != 0 and "Error in rule" not in said and "Command '" not in said
    assert said.endswith("measured is stored; the same command goes on from there\n")
    interrupted = campaign.stored()
    assert {k: interrupted[k] for k in killed} == killed
    assert not list((campaign.results / "points").glob("*/.*.tmp"))
    assert (campaign.results / "report.html").exists()
    assert left_of(campaign).endswith(" 2 repetitions left")
