"""`iosweep show` and `iosweep report`: the tables of a campaign, and what a stored point ran, for a shell."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import campaign
from iosweep.commands import cli
from iosweep.files import documents
from iosweep.report import page
from iosweep.store.record import DataSet

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> campaign.Made:
    monkeypatch.chdir(tmp_path)
    plan = campaign.make(tmp_path, campaign.document(**campaign.FOUR_AND_EIGHT))
    made = campaign.Made(tmp_path, plan)
    campaign.keep_plan(plan, made.results)
    return made


def run(*arguments: object) -> int:
    return cli.main(list(map(str, arguments)))


def test_report_makes_what_show_shows(made: campaign.Made, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iosweep.commands.report.make_figures", lambda _: None)  # seconds of rendering
    monkeypatch.setattr(page, "render", lambda _: "<html></html>")
    assert run("show", "quick") == 1
    assert "iosweep report results/quick" in capsys.readouterr().err
    assert run("report", "quick") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "report: results/quick/report.html"
    # the plan of the tables is kept, although another one is newer
    newer = campaign.make(made.results.parent, campaign.TEXT)
    os.utime(campaign.keep_plan(newer, made.results))
    assert run("report", "quick") == 0
    assert documents.read(made.results / "campaign.json")["plan_digest"] == made.plan.digest
    assert run("show", "quick") == 0
    assert "report: results/quick/report.html" in capsys.readouterr().out


def test_a_campaign_that_is_not_known(made: campaign.Made, capsys: Capture) -> None:
    for command in ("show", "report"):
        assert run(command, "nothing") == 1
        assert "`nothing`" in (said := capsys.readouterr().err) and "(there are: quick)" in said


# --commands


def test_the_command_is_what_was_run(made: campaign.Made, capsys: Capture) -> None:
    argv = ["/opt/a b/fio", "--name=x y", "--filename=$jobnum", "--note=it's"]
    node = {"hosts": ["n1"], "looks": 1, "processes": [], "usable": "0-7"}
    cpus = {"nodes": [node], "pinning": "enforce", "planned": {"0-3": 2}}
    made.measured(argv=argv, cpus=cpus, record={"host": "n1"})
    point = made.plan.points[0].id
    for name in (point.rpartition(".")[0], f"{made.results}/points/{point}"):
        assert run("show", name, "--commands") == 0
        comment, command = capsys.readouterr().out.splitlines()
        assert comment == "# n1, CPUs 0-3, rand_read"
        assert shlex.split(command) == argv
    assert run("show", "nothing", "--commands") == 1
    # a point of two campaigns is named by its path
    shutil.copytree(made.results, made.results.with_name("other"))
    assert run("show", point, "--commands") == 1
    assert run("show", f"{made.results}/points/{point}", "--commands") == 0


@pytest.mark.local
def test_a_shell_runs_the_text_as_it_is_and_prepares_a_data_set_before_it_is_read(
    made: campaign.Made, tmp_path: Path, capsys: Capture
) -> None:
    directory = f"--directory={tmp_path}/a b\\:c's/sets/fio-read-1m-1"  # as fio reads it
    plain = r'd=${1#*=}; cd "${d//\\/}"; '
    read, prepare = (["bash", "-c", plain + does, "x", directory] for does in ("cat 0.0", "echo set >0.0"))
    made.measured(argv=read)
    made.store.put("sets", "sets.fio-read-1m-1", DataSet(argv=tuple(prepare), hosts=("n2",)))
    assert run("show", made.plan.points[0].id, "--commands") == 0
    text = capsys.readouterr().out
    assert next(line for line in text.splitlines() if line.startswith("#")).startswith("# n2,")
    assert subprocess.run(["bash", "-e"], input=text, capture_output=True, text=True, check=True).stdout == "set\n"
    shutil.rmtree(made.results / "sets")
    assert run("show", made.plan.points[0].id, "--commands") == 0
    assert "# sets/fio-read-1m-1: " in capsys.readouterr().out


def test_each_node_has_its_command(made: campaign.Made, capsys: Capture) -> None:
    argvs = [["fio", "one"], ["fio", "two"]]
    made.measured(argv=argvs[0], argvs=argvs, record={"hosts": ["a1", "a2"]})
    assert run("show", made.plan.points[0].id, "--commands") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[::2]] == ["# a1", "# a2"]
    assert lines[1::2] == ["fio one", "fio two"]
