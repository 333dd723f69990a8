"""What became of a campaign: `check`, `list`, and the forms of `show`."""

import os
import re
from pathlib import Path

import msgspec
import pytest

import records
import results_factory
from campaign import TEXT, make
from iosweep.analysis.data import PhaseOutcome
from iosweep.commands import cli, outcome
from iosweep.commands.watch import snapshot
from iosweep.files import documents
from iosweep.plan.model import Plan, plan_from_document, read_plan
from iosweep.report import headline
from iosweep.results import merge, merged_tables
from iosweep.results.campaign_documents import Missing, Needs, Refusal
from iosweep.results.store import Store

Capture = pytest.CaptureFixture[str]

SWEEP = results_factory.sweep("s", ["seq_write", "rand_read"], {"threads_per_node": [1, 2]})


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def campaign(place: Path, verdicts: dict[tuple[str, int], tuple[str, str]], name: str = "quick") -> Path:
    """Tables of 2 points with 2 phases each. `verdicts`: (phase, threads) -> verdict and reason, if not valid.

    The plan is one of which nothing is left: every point is measured.
    """
    results = results_factory.make(
        place / "results" / name,
        sweeps=[SWEEP],
        repetitions=2,
        spoil=lambda row: verdicts.get((row["phase"], row["threads_per_node"])),
        campaign=name,
    )
    text = TEXT.replace("quick", name).replace("[1, 2]", "[1]").replace("[4k, 64k]", "[4k]").replace("[1, 2, 4]", "[1]")
    made = make(place, text)
    (results / "plans").mkdir(exist_ok=True)
    (results / "plans" / f"{made.digest}.json").write_bytes(made.document())
    measure(results, made)
    about = documents.read(results / "campaign.json")
    (results / "campaign.json").write_bytes(documents.dump(about | {"plan_digest": made.digest}))
    (results / "results.parquet").touch()
    return results


def measure(results: Path, made: Plan) -> None:
    """Store what the plan asks for."""
    for point in made.points:
        record = records.record(point.id, target={"directory": made.target.directory})
        for number in range(1, point.repetitions.min + 1):
            Store(results).commit(point.id, number, record, {"x": b"y"})


def run(*arguments: str) -> int:
    return cli.main(list(arguments))


INVALID = {("rand_read", 1): ("invalid", "no_errors: 3 I/O errors")}
SUSPECT = {("rand_read", 1): ("suspect", "other load")}


@pytest.mark.parametrize(
    ("verdicts", "options", "code", "said"),
    [
        ({}, [], 0, "4 repetitions: 4 valid, 0 suspect, 0 invalid, 0 missing, 0 left"),
        (INVALID, [], 1, "4 repetitions: 2 valid, 0 suspect, 2 invalid, 0 missing, 0 left"),
        (SUSPECT, [], 0, "4 repetitions: 2 valid, 2 suspect, 0 invalid, 0 missing, 0 left"),
        (SUSPECT, ["--suspect"], 1, "2 suspect"),
    ],
)
def test_check(
    place: Path,
    capsys: Capture,
    verdicts: dict[tuple[str, int], tuple[str, str]],
    options: list[str],
    code: int,
    said: str,
) -> None:
    campaign(place, verdicts)
    assert run("check", "quick", *options) == code
    assert said in capsys.readouterr().out.splitlines()[0]


def test_check_names_reasons_and_points(place: Path, capsys: Capture) -> None:
    campaign(place, INVALID)
    assert run("check", "quick") == 1
    [_, line] = capsys.readouterr().out.splitlines()
    assert line.startswith("  2 invalid: no_errors: 3 I/O errors (fio.")


def test_check_fails_for_what_is_left(place: Path, capsys: Capture) -> None:
    results = campaign(place, {})
    made = plan_from_document(next((results / "plans").iterdir()).read_bytes())
    store = Store(results)
    store.supersede(store.results_of(made.points[0].id)[1])
    os.utime(results / "results.parquet", (0, 0))  # the tables do not know of it yet
    assert run("check", "quick") == 1
    assert ", 1 left\n" in capsys.readouterr().out
    assert outcome.left(made, store) == 1
    # what lacks a tool is missing, and not left
    store.set_missing(made.points[0].id, Missing(Needs(tool="fio"), "fio is not on PATH"))
    assert outcome.left(made, store) == 0


def test_check_fails_for_what_is_tried_again(place: Path, capsys: Capture) -> None:
    results = campaign(place, {})
    made = plan_from_document(next((results / "plans").iterdir()).read_bytes())
    store = Store(results)
    store.supersede(store.results_of(made.points[0].id)[1])
    (results / "results.parquet").touch()  # the tables have a verdict of it
    assert run("check", "quick") == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.endswith(", 0 missing, 0 left")
    assert last == "  1 repetition will be measured again by the same snakemake command"


def test_check_counts_what_is_left_as_the_headline_does(place: Path, capsys: Capture) -> None:
    """What a job that was stopped did not measure is left, and the reason is shown."""
    made, results = make(place, TEXT), place / "results" / "quick"
    (results / "plans").mkdir(parents=True)
    (results / "plans" / f"{made.digest}.json").write_bytes(made.document())
    store = Store(results)
    store.set_refusal(made.allocations[0].name, Refusal("its job was stopped by SIGTERM", stopped=True))
    lacks = made.points[-1]
    store.set_missing(lacks.id, Missing(Needs(tool="fio"), "fio is not on PATH"))
    merge.merge(made, results)
    assert run("check", "quick") == 1
    first, *others = capsys.readouterr().out.splitlines()
    many, missing = sum(point.repetitions.min for point in made.points), lacks.repetitions.min
    left = many - missing
    assert first == (f"quick: {many} repetitions: 0 valid, 0 suspect, 0 invalid, {missing} missing, {left} left")
    assert others[0].startswith(f"  {left} left: its job was stopped by SIGTERM (")
    assert others[1] == f"  {missing} missing: fio is not on PATH ({lacks.id})"
    assert f"{missing} missing and {left} left of {many} repetitions" in headline.closing(results, "quick")
    assert outcome.left(made, store) == left
    seen = snapshot.Campaign(results).look().allocations
    assert [sum(a.repetitions_left for a in seen), sum(a.repetitions_missing for a in seen)] == [left, missing]


def test_check_fails_if_the_tables_are_older_than_the_store(place: Path, capsys: Capture) -> None:
    results = campaign(place, {})
    file = results / "results.parquet"
    os.utime(file, (0, 0))
    assert run("check", "quick") == 1
    assert "  not checked: the campaign has changed since the tables were made" in capsys.readouterr().out
    run("show", "quick")
    assert "the campaign has changed since these tables were made; " in capsys.readouterr().out
    file.touch()
    (results / "plans" / "0.json").write_text("{}")  # another configuration, of which there are no tables yet
    os.utime(results / "plans" / "0.json", (file.stat().st_mtime + 1,) * 2)
    assert run("check", "quick") == 1


def test_check_without_tables_and_without_a_campaign(place: Path, capsys: Capture) -> None:
    results = campaign(place, {})
    for file in (*results.glob("*.parquet"), results / "results.csv", results / "campaign.json"):
        file.unlink()
    assert run("check", "quick") == 1
    assert "quick: no tables yet; 0 repetitions left" in capsys.readouterr().out
    assert run("check", "nothing") == 1
    (place / "results/quick/plans").joinpath("0.json").write_text("{")
    for file in (place / "results/quick/plans").glob("[1-9a-f]*.json"):
        file.unlink()
    assert run("check", "quick") == 1
    assert "results/quick/plans/0.json is damaged (it is cut short or overwritten)" in capsys.readouterr().err


def test_a_repetition_that_is_missing_beside_others_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = campaign(place, {})
    rows = [
        PhaseOutcome(point="p", phase="x", repetition=number, verdict=verdict, reasons="", left=False)
        for number, verdict in ((1, "valid"), (2, "missing"))
    ]
    monkeypatch.setattr(merged_tables, "rows", lambda *_: rows)
    found = outcome.of(results)
    assert found.verdicts == {"valid": 1, "suspect": 0, "invalid": 0, "missing": 1}
    assert found.fails()


def test_the_last_line_of_show_says_what_has_no_figure(place: Path, capsys: Capture) -> None:
    campaign(place, INVALID)
    assert run("show", "quick") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 invalid of 4 repetitions: `iosweep check quick`")
    campaign(place, SUSPECT, "other")
    assert run("show", "other") == 0
    assert "iosweep check" not in capsys.readouterr().out


def test_nothing_is_wrapped_or_padded_without_a_terminal(place: Path, capsys: Capture) -> None:
    long = "a reason of more than eighty characters, which a terminal of that width would have broken in two or three"
    campaign(place, {("rand_read", 1): ("invalid", long)})
    assert run("show", "quick", "--all") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert [line for line in lines if line != line.rstrip()] == []
    assert [line for line in lines if line.endswith(f"✕ invalid  {long}")]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed goes to a terminal of 80 columns, as far as Rich knows."""
    for name, value in {"FORCE_COLOR": "1", "COLUMNS": "80", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)


def printed(capsys: Capture) -> list[str]:
    """The lines without colors."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out).splitlines()


LONG = "a reason of more than eighty characters, [which] a terminal of that width would have broken in two or three"


@pytest.mark.usefixtures("terminal")
def test_a_narrow_terminal_has_a_block_per_result(place: Path, capsys: Capture) -> None:
    campaign(place, {("rand_read", 1): ("invalid", LONG)})
    assert run("show", "quick", "--all") == 0
    lines = printed(capsys)
    assert max(map(len, lines)) <= 80
    at = lines.index("  ✕ invalid  -")
    assert lines[at - 1].endswith("  rand_read")
    assert " ".join(" ".join(lines[at + 1 : at + 3]).split()) == LONG
    assert sum(line.startswith("  ● valid  ") and "n = 2" in line for line in lines) == 3


@pytest.mark.usefixtures("terminal")
def test_no_word_is_broken_on_a_terminal(place: Path, capsys: Capture) -> None:
    campaign(place, {("rand_read", 1): ("invalid", LONG)})
    assert run("check", "quick") == 1
    lines = printed(capsys)
    assert max(map(len, lines)) <= 80
    assert LONG in " ".join(" ".join(lines).split())
    assert run("show", "quick") == 0
    lines = printed(capsys)
    assert max(map(len, lines)) <= 80
    assert "`iosweep check quick` lists the reasons and exits with 1" in " ".join(" ".join(lines[-2:]).split())


def test_list(place: Path, capsys: Capture) -> None:
    assert run("list") == 0
    assert capsys.readouterr().out == "no campaigns here; snakemake measures one\n"
    campaign(place, INVALID, "one")
    (campaign(place, {}, "two") / "results.parquet").unlink()
    assert run("list") == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "campaign",
        "measured",
        "valid",
        "suspect",
        "invalid",
        "missing",
        "left",
        "target",
        "results",
    ]
    cells = {line.split()[0]: line.split() for line in lines}
    assert cells["one"][3:] == ["2", "0", "2", "0", "0", "/scratch/me", "results/one"]
    assert cells["two"][3:] == ["-", "-", "-", "-", "0", "/scratch/me", "results/two"]
    assert run("list", "--json") == 0
    found = {one["campaign"]: one for one in msgspec.json.decode(capsys.readouterr().out)}
    assert found["one"]["repetitions"]["invalid"] == 2
    assert found["two"]["repetitions"] is None


def test_list_tells_of_a_campaign_that_cannot_be_read(place: Path, capsys: Capture) -> None:
    campaign(place, {}, "one")
    (place / "results/odd/plans").mkdir(parents=True)
    assert run("list") == 1
    captured = capsys.readouterr()
    assert "one" in captured.out
    assert captured.err.startswith("results/odd has results but no plan; the next run of snakemake with its")


def test_check_fails_for_damaged_files(place: Path, capsys: Capture) -> None:
    results = campaign(place, {})
    assert run("check", "quick") == 0
    (results / "spent.json").write_bytes(b"")
    capsys.readouterr()
    assert run("check", "quick") == 1
    assert "spent.json is damaged (it is empty)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["checks.parquet", "nodes.parquet", "results.csv"])
def test_check_and_list_name_every_damaged_table(place: Path, name: str, capsys: Capture) -> None:
    file = campaign(place, {}) / name
    file.write_bytes(file.read_bytes() + b"x")
    for harm, said in ((lambda: None, f"{name} is damaged (it has"), (file.unlink, f"{name} is gone")):
        harm()
        for command in (["check", "quick"], ["list"]):
            capsys.readouterr()
            assert run(*command) == (command != ["list"])
            captured = capsys.readouterr()
            assert said in (output := captured.out + captured.err)
            assert "`iosweep report results/quick` makes it again" in output


def test_check_and_list_name_a_campaign_json_that_is_gone(place: Path, capsys: Capture) -> None:
    (campaign(place, {}) / "campaign.json").unlink()
    for command in (["check", "quick"], ["list"]):
        capsys.readouterr()
        run(*command)
        captured = capsys.readouterr()
        said = "results/quick/campaign.json is gone; `iosweep report results/quick` makes it again"
        assert said in captured.out + captured.err


@pytest.mark.parametrize("folder", ["plans", "manifests", "logs", "points"])
def test_no_command_reads_through_a_link_in_place_of_a_folder(place: Path, folder: str, capsys: Capture) -> None:
    results = campaign(place, {})
    elsewhere = place / "elsewhere"
    (results / folder).rename(elsewhere) if (results / folder).exists() else elsewhere.mkdir()
    (results / folder).symlink_to(elsewhere)
    for command in (["check", "quick"], ["list"], ["watch", "quick", "--once"]):
        capsys.readouterr()
        run(*command)
        captured = capsys.readouterr()
        said = " ".join((captured.out + captured.err).split())
        assert said.count(f"results/quick/{folder} is damaged") == 1, command
        assert f"results/quick/{folder} is damaged (it is a symbolic link, and is not followed" in said, command


def test_the_tables_are_shown_where_the_plan_is_damaged(place: Path, capsys: Capture) -> None:
    """As of received results, whose plan only the sender has."""
    results = campaign(place, {})
    [file] = (results / "plans").iterdir()
    file.write_bytes(b"")
    os.utime(file, (0, 0))
    (results / "spent.json").write_bytes(b"")
    assert run("show", "quick") == 0
    capsys.readouterr()
    assert run("list") == 0
    listed = capsys.readouterr()
    assert re.search(r"^quick .* 4 +0 +0 +0 +0 +/", listed.out, re.M)
    assert f"plans/{file.name} is damaged (it is empty)" in listed.err
    assert "spent.json is damaged (it is empty)" in listed.err
    assert run("check", "quick") == 1
    checked = capsys.readouterr().out
    assert checked.startswith("quick: 4 repetitions: 4 valid, 0 suspect, 0 invalid, 0 missing, 0 left\n")
    assert "ask the sender for it: without it their tables cannot be made again" in checked
    file.unlink()
    assert run("check", "quick") == 1
    assert "results/quick has results but no plan" in capsys.readouterr().out


def test_no_command_promises_tables_without_a_plan(place: Path, capsys: Capture) -> None:
    results = campaign(place, {})
    (results / "campaign.json").write_bytes(b"")
    run("show", "quick")
    assert "`iosweep report quick` makes the tables and the report again" in capsys.readouterr().err
    assert run("check", "quick") == 1
    said = capsys.readouterr().out
    assert "quick: tables that cannot be read; 0 repetitions left" in said
    assert "no tables yet" not in said
    [file] = (results / "plans").iterdir()
    file.write_bytes(b"")
    (results / "spent.json").write_bytes(b"")
    for command in (["show", "quick"], ["check", "quick"], ["list"]):
        assert run(*command) == 1
        said = capsys.readouterr().err
        assert "without it their tables cannot be made again" in said
        assert "iosweep report" not in said
        assert "spent.json" in said or command[0] == "show"


def test_what_was_opened_again_is_not_counted_twice(place: Path, capsys: Capture) -> None:
    results = campaign(place, {})
    [file] = (results / "plans").iterdir()
    made, store = read_plan(file), Store(results)
    store.supersede(store.results_of(made.points[0].id)[1])
    os.utime(results / "results.parquet", (0, 0))
    assert run("check", "quick") == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "quick: 4 repetitions in the tables: 4 valid, 0 suspect, 0 invalid, 0 missing, 1 left"


def test_a_reason_with_other_numbers_counts_once_in_a_repetition(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = campaign(place, {})
    said = {"x": "other processes used 86% of the CPU time", "y": "other processes used 12% of the CPU time"}
    rows = [
        PhaseOutcome(point="p", phase=phase, repetition=1, verdict="suspect", reasons=reason, left=False)
        for phase, reason in said.items()
    ]
    monkeypatch.setattr(merged_tables, "rows", lambda *_: rows)
    assert outcome.of(results).reasons["suspect"] == [(said["x"], 1, ["p"])]


def test_each_reason_counts_by_itself(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it comes with, and whoever used the CPUs."""
    results = campaign(place, {})
    short, load = "phases of 2 s are too short", "other processes used 40% of the CPU time"
    rows = [
        PhaseOutcome(point="p", phase="x", repetition=number, verdict="suspect", reasons=reasons, left=False)
        for number, reasons in enumerate((short, f"{short} | {load} (dd of eve 48%, cc1 10%)", f"{load} (tar 9%)"), 1)
    ]
    monkeypatch.setattr(merged_tables, "rows", lambda *_: rows)
    assert outcome.of(results).reasons["suspect"] == [
        (short, 2, ["p"]),
        (f"{load} (dd of eve 48%, cc1 10%)", 2, ["p"]),
    ]
