"""The workflow as a user runs it: real Snakemake, real fio, and a store that is damaged, grown, shrunk and killed."""

import csv
import os
import re
import shutil
import signal
import subprocess
import zipfile
from pathlib import Path

import psutil
import pytest

from campaign import ROOT, Campaign
from iosweep import dag
from waiting import over, wait_for

pytestmark = pytest.mark.local


def links(place, *names):
    """A directory for PATH with these programs alone."""
    directory = place / "links"
    directory.mkdir()
    for name in names:
        (directory / name).symlink_to(shutil.which(name))
    return directory


@pytest.fixture(scope="module")
def measured(tmp_path_factory, fio):
    """A campaign that ran once. Tests that change it work on a copy."""
    campaign = Campaign(tmp_path_factory.mktemp("measured"))
    campaign.output = campaign.snakemake()
    return campaign


@pytest.fixture
def again(measured, tmp_path):
    """A copy of the measured campaign that may be changed. Snakemake's own records come along."""
    place = tmp_path / "copy"
    shutil.copytree(measured.place, place)
    copy = Campaign(place)
    # the target's directory is part of what was measured, so it stays where it is; its lock is in the plan
    copy.target, copy.lock = measured.target, measured.lock
    copy.configure()
    return copy


def test_first_run_gives_a_report_and_settles(measured):
    assert "measure 1 node: 2 points, 4 repetitions left" in measured.output
    assert len(measured.repetitions()) == 4
    for name in ("results.parquet", "results.csv", "checks.parquet", "nodes.parquet", "campaign.json", "report.html"):
        assert (measured.results / name).stat().st_size > 0
    assert {f.suffix for f in (measured.results / "figures").iterdir()} >= {".svg", ".png"}
    # the headline table and where the report is, last
    assert "report: results/tiny/report.html" in measured.output
    assert "Nothing to be done" in measured.dry()
    # what narrows a run is no part of what was measured
    assert "Nothing to be done" in measured.dry("--config", "only=4k")


def test_results_are_in_the_table_as_fio_gave_them(measured):
    rows = list(csv.DictReader((measured.results / "results.csv").open()))
    assert len(rows) == 2 * 2 * 2  # points, repetitions, phases
    for row in rows:
        assert float(row["ops_per_s"]) * int(row["transfer_size_bytes"]) == pytest.approx(
            float(row["bandwidth_bytes_per_s"]), rel=0.02
        )


def test_snakemakes_own_report_has_page_and_table(measured, tmp_path):
    """They are in it as they are in the campaign's directory, under its name, each with a caption."""
    measured.snakemake("--report", str(tmp_path / "own.zip"))
    with zipfile.ZipFile(tmp_path / "own.zip") as archive:
        found = {Path(name).name: archive.read(name) for name in archive.namelist() if "/data/raw/" in name}
        shown = archive.read("own/report.html").decode()
    files = [measured.results / "report.html", measured.results / "results.csv"]
    assert found == {file.name: file.read_bytes() for file in files}
    assert '"tiny"' in shown
    for caption in ("page", "table"):
        words = (ROOT / "workflow" / "report" / f"{caption}.rst").read_text().split()[:6]
        assert " ".join(words) in " ".join(shown.split())


def test_nothing_outside_the_campaigns_directory(measured):
    assert list(measured.target.iterdir()) == []  # with keep: none not even that


def test_a_damaged_store_is_measured_again(again):
    first, second = sorted((again.results / "points").iterdir())
    before = again.stored()
    (first / "r001-1.json").unlink()
    assert "1 node: 1 point, 1 repetition left" in again.left()["1-node"]
    (first / "r002-1.zip").unlink()
    assert "1 node: 1 point, 2 repetitions left" in again.left()["1-node"]
    (second / "r001-1.zip").write_bytes((second / "r001-1.zip").read_bytes()[:100])
    assert "measure 1 node: 2 points, 3 repetitions left" in again.dry()
    again.tables()
    assert again.settled()
    after = again.stored()
    for name in ("r002-1.json", "r002-1.zip"):
        assert after[second.name, name] == before[second.name, name]
    tried = {(p, n) for p, n in again.repetitions() if n[5] > "1"}
    assert {n for p, n in tried if p == second.name} == {"r001-2.json"}


#: What a rule has made, and must not be empty.
MADE = ("results.parquet", "results.csv", "checks.parquet", "nodes.parquet", "campaign.json")


def contents(again):
    """The files of the campaign, with what is in them."""
    return {f: f.read_bytes() for f in again.results.rglob("*") if f.is_file()}


@pytest.mark.parametrize("records", ["kept", "lost"])
def test_what_a_power_cut_has_emptied_is_made_again_once(again, records):
    """Also where Snakemake's own records of what it ran with are empty then."""
    emptied = [again.results / name for name in MADE]
    for file in emptied:
        os.truncate(file, 0)
    if records == "lost":
        for file in (again.place / ".snakemake" / "metadata").iterdir():
            os.truncate(file, 0)
    stored = again.stored()
    before = contents(again)
    if records == "kept":
        assert {"tables", "report", "figures"} <= set(re.findall(r"^Job \d+: (\w+)", again.dry(), re.MULTILINE))
    assert contents(again) == before
    output = again.snakemake()
    assert "campaign.json is damaged (it is empty" in output
    for file in emptied:
        assert file.stat().st_size > 0, file
    assert again.stored() == stored
    assert "Nothing to be done" in again.dry()


def test_to_look_removes_nothing_and_a_run_without_tables_shows_none(again):
    os.truncate(again.results / "results.csv", 0)
    before = contents(again)
    for mode in ("--unlock", "--summary"):  # what others there are: test_dag.py
        again.snakemake(mode)
        assert contents(again) == before, mode
    assert "report.html" not in again.snakemake("--until", "measure")


@pytest.mark.parametrize("name", MADE)
def test_one_changed_bit_of_what_a_rule_has_made_is_noticed(again, name):
    [file, *_] = sorted(again.results.glob(name))
    data = bytearray(file.read_bytes())
    data[len(data) - 3] ^= 1
    file.write_bytes(data)
    found = dag.load(again.file, again.results.parent, "mpiexec")
    assert [line for line in found.damaged if str(file) in line], found.damaged
    assert found.stale == {again.results / "results.parquet"}


def test_growth_runs_only_new_points_and_shrinking_none(again):
    before = again.stored()
    again.configure(axes={"transfer_size": ["4k", "8k", "16k"]})
    assert "measure 1 node: 1 point, 2 repetitions left" in again.tables()
    assert again.settled()
    after = again.stored()
    assert {k: after[k] for k in before} == before
    assert len({point for point, _ in after} - {point for point, _ in before}) == 1

    again.configure(axes={"transfer_size": ["16k"]})
    output = again.tables()
    assert "measure 1 node: nothing left" in output
    assert again.settled()
    assert again.stored() == after
    rows = list(csv.DictReader((again.results / "results.csv").open()))
    assert {row["transfer_size_bytes"] for row in rows} == {"16384"}

    # back to what was measured first: nothing to measure either
    again.configure()
    assert "measure 1 node: nothing left" in again.tables()
    assert again.settled()
    assert again.stored() == after


def test_order_in_the_file_and_another_name_measure_nothing(again):
    again.configure(name="other", axes={"transfer_size": ["16k", "4k"]})
    assert again.left() == {}


def test_a_changed_parser_makes_only_tables_and_report_again(again, tmp_path):
    # the package's code, changed, ahead of the installed one
    shutil.copytree(ROOT / "workflow" / "iosweep", tmp_path / "code" / "iosweep")
    parser = tmp_path / "code" / "iosweep" / "tools" / "fio" / "output.py"
    parser.write_text(parser.read_text() + "\n# mended\n")
    environment = again.environment | {"PYTHONPATH": str(tmp_path / "code")}
    before = again.stored()
    output = again.run(env=environment)
    assert "tables: raw output to tables" in output
    assert "report: results/tiny/report.html" in output
    assert "measure 1 node" not in output
    assert "report:" not in again.snakemake("-n", "--until", "report", env=environment)
    assert again.stored() == before


def test_a_point_that_was_removed_is_measured_again_and_rerun_supersedes_and_keeps(again):
    removed, superseded = sorted(f.name for f in (again.results / "points").iterdir())
    before = again.stored()
    shutil.rmtree(again.results / "points" / removed)
    assert "1 node: 1 point, 2 repetitions left" in again.left()["1-node"]
    assert "superseded" in again.iosweep("rerun", superseded)
    output = again.tables()
    assert "measure 1 node: 2 points, 4 repetitions left" in output
    assert again.settled()
    after = again.stored()
    assert {n for p, n in again.repetitions() if p == removed} == {"r001-1.json", "r002-1.json"}
    assert {n for p, n in again.repetitions() if p == superseded} == {"r001-2.json", "r002-2.json"}
    for repetition in ("r001-1", "r002-1"):
        assert after[superseded, f"{repetition}.superseded.json"] == before[superseded, f"{repetition}.json"]
        assert after[superseded, f"{repetition}.zip"] == before[superseded, f"{repetition}.zip"]


def test_only_narrows_what_is_left_and_not_the_plan(tmp_path, fio):
    campaign = Campaign(tmp_path, phases=["rand_read"], repetitions=1)
    from iosweep.config import sweep_file
    from iosweep.plan.expand import make_plan

    points = [p.id for p in make_plan(sweep_file.read(campaign.file)).points]
    campaign.tables("--config", f"only={points[0]}")
    assert {p for p, _ in campaign.repetitions()} == {points[0]}
    rows = list(csv.DictReader((campaign.results / "results.csv").open()))
    assert {r["verdict"] for r in rows if r["point"] == points[1]} == {"missing"}
    assert "measure 1 node: 1 point, 1 repetition left" in campaign.tables()
    assert campaign.settled()


def test_a_failed_allocation_gives_a_report_and_is_taken_up_again(again):
    again.configure(axes={"transfer_size": ["4k", "8k", "16k"]})
    theirs = again.target / "iosweep-tiny" / "theirs"
    theirs.mkdir(parents=True)
    try:
        output = again.tables(code=1)
        assert "has no marker iosweep.json of ours" in output
        rows = list(csv.DictReader((again.results / "results.csv").open()))
        why = (
            f"{theirs.parent} exists, but has no marker iosweep.json of ours; it is left alone."
            " Choose another campaign name, or remove it yourself."
        )
        missing = [r for r in rows if r["verdict"] == "missing"]
        assert {(r["transfer_size_bytes"], r["reasons"]) for r in missing} == {("8192", why)}
        assert why in (again.results / "report.html").read_text()
        assert "1 node: 1 point, 2 repetitions left" in again.left()["1-node"]
    finally:
        shutil.rmtree(theirs.parent)
    again.tables()
    assert again.settled()


def test_a_target_that_is_not_there_is_refused_before_anything_runs(again):
    def states():
        """A stale manifest is removed, under the lock."""
        return {
            f.name: f.stat().st_mtime_ns for f in again.results.iterdir() if f.name not in ("manifests", "run.lock")
        }

    before = states()
    away = again.target.rename(again.target.with_name("tarket"))
    try:
        # what is measured needs no target
        assert "Nothing to be done" in again.dry()
        again.configure(axes={"transfer_size": ["4k", "8k", "16k"]})
        lines = again.file.read_text().splitlines()
        line = 1 + next(n for n, text in enumerate(lines) if '"directory":' in text)
        wrong = f'sweep.yaml:{line}: target.directory: "{again.target}" does not exist: {away.parent} is there, and has'
        for options in (["-n"], []):
            output = again.snakemake(*options, code=1)
            assert f"{wrong} no `target`; did you mean {away}?\nnothing was run\n" in output
            assert "Error" not in output and "File " not in output
        assert states() == before
    finally:
        away.rename(again.target)
    assert "measure 1 node: 1 point, 2 repetitions left" in again.dry()


def test_an_invalid_point_shows_as_such_everywhere(tmp_path, fio):
    campaign = Campaign(tmp_path, repetitions=1)
    # a stand-in before the real fio: reads of 16k say that they failed, after they are done
    wrapper = tmp_path / "bin" / "fio"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\n{fio} "$@" || exit; case "$*" in *randread*bs=16384*) exit 7;; esac\n')
    wrapper.chmod(0o755)
    output = campaign.run(env=campaign.environment | {"PATH": f"{wrapper.parent}:{campaign.environment['PATH']}"})
    reason = "the tool ended with exit code 7"
    assert f"invalid: {reason}" in output
    assert "✕ 1 invalid" in output
    rows = list(csv.DictReader((campaign.results / "results.csv").open()))
    assert [(r["phase"], r["transfer_size_bytes"]) for r in rows if r["verdict"] == "invalid"] == [
        ("rand_read", "16384")
    ]
    assert reason in (campaign.results / "report.html").read_text()


def test_a_missing_tool_is_said_and_not_left(tmp_path, fio):
    campaign = Campaign(tmp_path)
    # everything but fio: what a shell and Snakemake need
    without = links(tmp_path, "bash", "sh", "env", "uname", "cat", "tee", "which")
    environment = campaign.environment | {"PATH": f"{Path(campaign.command()[0]).parent}:{without}"}
    output = campaign.tables(env=environment)
    assert "missing: fio is not on PATH; get it with apt-get install fio" in output
    rows = list(csv.DictReader((campaign.results / "results.csv").open()))
    assert {row["verdict"] for row in rows} == {"missing"}
    assert "measure" not in campaign.snakemake("-n", "--until", "report", env=environment)
    # and it is measured when fio is there
    assert "1 node: 2 points, 4 repetitions left" in campaign.left()["1-node"]


@pytest.mark.parametrize("profile", ["local", "slurm"])
def test_a_dry_run_needs_nothing_and_agrees_with_the_plan(profile, tmp_path):
    # without fio, Slurm, results, and with profiles/slurm without the target: on PATH is only what Python and the
    # import of the executors need
    # (test_slurm_profile.py does this with every configuration)
    from iosweep.config import sweep_file
    from iosweep.plan import forecast
    from iosweep.plan.expand import make_plan

    campaign = Campaign(tmp_path)
    campaign.file = tmp_path / "sweep.yaml"
    there_is_room = "\nlimits: {share_of_free: 100%, fill: 100%}\n"  # on every machine's disk
    campaign.file.write_text((ROOT / "config/sweep.yaml").read_text() + there_is_room)
    [allocation] = (made := make_plan(sweep_file.read(campaign.file))).allocations
    cost = forecast.of(made, {allocation.name: {p.id: p.repetitions.min for p in allocation.points}})
    environment = {"PATH": str(links(tmp_path, "which")), "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    there = ["--config", f"target={campaign.target}"] if profile == "local" else []
    output = campaign.snakemake("-n", "--profile", str(ROOT / "profiles" / profile), *there, env=environment)
    # shown once by each, and the same but for a word
    assert f"measure {forecast.sentence(cost, 1)}" + ("; asks for 1 node for" if profile == "slurm" else "\n") in output
    assert f"\n{forecast.sentence(cost, 1, word='')}\n" in campaign.iosweep("plan", str(campaign.file), code=None)
    rules = set(re.findall(r"^Job \d+: (\w+)", output, re.MULTILINE))
    built = {"tools"} if profile == "slurm" else set()
    assert rules == {"measure", "tables", "report", "figures", "all"} | built
    assert "all: everything is in results/" in output
    assert not (tmp_path / "results").exists()


def test_the_message_counted_by_hand(tmp_path):
    # 3 threads x 2 sizes - 1 excluded = 5 points, 3 repetitions each = 15 of two phases.
    # Time: 15 x 2 x (10 s + 0.45 s) = 313.5 s; both sets hold 4 workers x 64 MiB, 512 MiB written at 1 GiB/s: 0.5 s.
    # Bytes written: only seq_write; threads x 4 KiB / 50 us or threads x 1 MiB / 50 us, at most 4 GiB/s, 10 s, 3 times:
    # 4k: (1 + 2 + 4) x 81,920,000 x 10 x 3 B = 16.02 GiB; 1m: 2 x 4 GiB x 10 x 3 = 240 GiB; sets 0.5 GiB: 256.5 GiB.
    campaign = Campaign(
        tmp_path,
        axes={"threads_per_node": [1, 2, 4], "transfer_size": ["4k", "1m"]},
        exclude=[{"threads_per_node": 4, "transfer_size": "1m"}],
        options={"file_size": "64m"},
        phase_time="10s",
        repetitions=3,
    )
    text = (
        "1 node: 5 points, 15 repetitions left, 5 min 14 s, about 257 GiB written at up to 4.0 GiB/s per node (assumed)"
    )
    assert f"measure {text}" in campaign.dry()
    shown = campaign.iosweep("plan", str(campaign.file), code=None)
    assert text.replace(" left", "") in shown
    assert re.search(r"peak space +512 MiB", shown)
    assert re.search(r"inodes +8\b", shown)


def test_wrong_configuration_stops_before_anything(tmp_path):
    campaign = Campaign(tmp_path, axes={"thread_per_node": [1]})
    output = campaign.snakemake(code=1)
    assert "sweep.yaml:" in output
    assert "unknown key `thread_per_node`; did you mean `threads_per_node`?" in output
    assert "nothing was run" in output
    assert not (tmp_path / "results").exists()
    assert "--config: it knows `only`" in Campaign(tmp_path).snakemake("--config", "limits=3", code=1)


def test_another_campaign_and_target_by_config(measured, tmp_path):
    (tmp_path / "bench").mkdir()
    # 007 is a name, and not the number 7
    given = ["--config", "campaign=007", f"target={tmp_path / 'bench'}"]
    output = measured.dry(*given)
    assert "measure 1 node: 2 points, 4 repetitions left" in output
    assert "results/007/" in output
    wrong = measured.snakemake("-n", "--config", f"target={tmp_path / 'bnch'}", code=1)
    assert f'command line: target.directory: "{tmp_path / "bnch"}" does not exist' in wrong
    # the rule writes the plan that was asked for
    plans = measured.place / "results/007/plans"
    measured.snakemake("--until", "tables", *given, "only=4k")
    assert len(list(plans.glob("*.json"))) == 1
    shutil.rmtree(plans.parent)


def test_the_error_of_a_rule_is_shown(again, tmp_path):
    # a package of which the tables fail, ahead of the installed one
    shutil.copytree(ROOT / "workflow" / "iosweep", tmp_path / "code" / "iosweep")
    command = tmp_path / "code" / "iosweep" / "commands" / "tables.py"
    command.write_text(
        command.read_text().replace(
            "    make_tables(arguments", "    raise CommandError('no luck')\n    make_tables(arguments"
        )
    )
    (again.results / "results.parquet").unlink()
    output = again.tables(env=again.environment | {"PYTHONPATH": str(tmp_path / "code")}, code=1)
    assert "tables: iosweep: no luck" in output
    assert "no luck" in (again.results / "logs/tables.log").read_text()


def test_nodes_that_are_not_there_are_said_and_not_left(again):
    again.configure(axes={"transfer_size": ["4k", "16k"], "nodes": [1, 2]})
    assert "2 nodes: missing, the launcher mpiexec reaches 1" in again.tables()
    assert again.settled()
    rows = list(csv.DictReader((again.results / "results.csv").open()))
    missing = {r["reasons"] for r in rows if r["verdict"] == "missing"}
    assert missing == {"2 nodes are needed; the launcher mpiexec reaches 1"}


def test_a_report_made_by_hand_is_no_reason_to_make_it_again(again):
    assert "report: results/tiny/report.html" in again.iosweep("report", "tiny")
    assert "Nothing to be done" in again.dry()


#: Before the real fio: of what it measures it does as much as the file `allowed` says, and then waits.
IN_TURN = """#!/bin/sh
case "$*" in *--name=rand_write*)
    echo >> {place}/calls; mine=$(wc -l < {place}/calls)
    while [ "$mine" -gt "$(cat {place}/allowed)" ]; do sleep 0.05; done;;
esac
exec {fio} "$@"
"""


def started(campaign):
    """`snakemake` in a session of its own, as a terminal has it, in the middle of the third repetition that it does."""
    before, calls = len(campaign.repetitions()), campaign.place / "calls"
    done = calls.read_text().count("\n") if calls.exists() else 0
    (campaign.place / "allowed").write_text(str(done + 2))
    process = subprocess.Popen(
        campaign.command("--until", "tables"), env=campaign.environment, cwd=campaign.place,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: len(campaign.repetitions()) >= before + 2, over=over(process))
    return process


def test_an_interrupt_and_a_sigkill_keep_what_is_measured(tmp_path, fio, monkeypatch):
    wrapper = tmp_path / "bin" / "fio"
    wrapper.parent.mkdir()
    wrapper.write_text(IN_TURN.format(place=tmp_path, fio=fio))
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=os.pathsep)
    sizes = ["4k", "8k", "16k", "32k"]
    campaign = Campaign(tmp_path, phases=["rand_write"], axes={"transfer_size": sizes}, repetitions=4)
    process = started(campaign)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: snakemake and everything below it
    output = process.communicate(timeout=600)[0]
    assert process.returncode != 0
    assert "stopped by SIGINT; what was measured is stored" in output
    interrupted = campaign.stored()
    assert not list((campaign.results / "points").glob("*/.*.tmp"))
    assert (campaign.results / "report.html").exists()
    assert "left" in campaign.left()["1-node"]

    process = started(campaign)
    beside = campaign.snakemake(code=1)
    assert f"campaign tiny is being measured by process {process.pid} of user " in beside
    below = psutil.Process(process.pid).children(recursive=True)
    process.kill()  # Snakemake alone: what it had started ends with it, cleanly
    process.communicate()
    assert psutil.wait_procs(below, timeout=300)[1] == []
    stopped = re.search(rf"stopped by the end of process {process.pid}", "".join(
        log.read_text() for log in (campaign.results / "logs").glob("1-node*")))  # fmt: skip
    assert stopped
    killed = campaign.stored()
    assert {k: killed[k] for k in interrupted} == interrupted

    (tmp_path / "allowed").write_text("1000")
    campaign.tables()
    assert campaign.settled()
    after = campaign.stored()
    assert {k: after[k] for k in killed} == killed
    assert len(campaign.repetitions()) == 16
