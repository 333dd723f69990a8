"""`iosweep show POINT --commands`: what a stored point ran, for a shell."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import campaign
from iosweep.commands import cli
from iosweep.results.campaign_documents import DataSet

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> campaign.Made:
    monkeypatch.chdir(tmp_path)
    plan = campaign.make(tmp_path, campaign.document(**campaign.FOUR_AND_EIGHT))
    made = campaign.Made(tmp_path, plan)
    campaign.keep_plan(plan, made.results)
    return made


def test_the_command_is_what_was_run(made: campaign.Made, capsys: Capture) -> None:
    argv = ["/opt/a b/fio", "--name=x y", "--filename=$jobnum", "--note=it's"]
    node = {"hosts": ["n1"], "looks": 1, "processes": [], "usable": "0-7"}
    cpus = {"nodes": [node], "pinning": "enforce", "planned": {"0-3": 2}}
    made.measured(argv=argv, cpus=cpus, record={"host": "n1"})
    point = made.plan.points[0].id
    for name in (point.rpartition(".")[0], f"{made.results}/points/{point}"):
        assert cli.main(["show", name, "--commands"]) == 0
        comment, command = capsys.readouterr().out.splitlines()
        assert comment == "# n1, CPUs 0-3, rand_read"
        assert shlex.split(command) == argv


def reads_a_set(made: campaign.Made, tmp_path: Path, *programs: str) -> list[list[str]]:
    """A stored repetition that reads a data set with the first of two programs; the other one prepares it."""
    directory = f"{tmp_path}/a b:c's/sets/fio-read-1m-1".replace(":", "\\:")
    read, prepare = (["bash", "-c", program, "x", f"--directory={directory}"] for program in programs)
    made.measured(argv=read)
    made.store.put("sets", "sets.fio-read-1m-1", DataSet(argv=tuple(prepare), hosts=("n2",)))
    return [read, prepare]


def test_data_sets_are_prepared_before_they_are_read(made: campaign.Made, tmp_path: Path, capsys: Capture) -> None:
    read, prepare = reads_a_set(made, tmp_path, "read", "prepare")
    name = made.plan.points[0].id
    assert cli.main(["show", name, "--commands"]) == 0
    lines = capsys.readouterr().out.splitlines()
    directory = f"{tmp_path}/a b:c's/sets/fio-read-1m-1"
    assert [shlex.split(lines[k]) for k in (0, 2, 4)] == [["mkdir", "-p", directory], prepare, read]
    assert lines[1] == "# n2, prepares sets/fio-read-1m-1"
    shutil.rmtree(made.results / "sets")
    assert cli.main(["show", name, "--commands"]) == 0
    lost = "# sets/fio-read-1m-1: how it was prepared is not recorded; `target.keep: all` keeps data sets"
    assert capsys.readouterr().out.splitlines()[1] == lost


@pytest.mark.local
def test_a_shell_runs_the_text_as_it_is(made: campaign.Made, tmp_path: Path, capsys: Capture) -> None:
    plain = r'd=${1#*=}; cd "${d//\\/}"; '
    reads_a_set(made, tmp_path, plain + "cat 0.0", plain + "echo set >0.0")
    assert cli.main(["show", made.plan.points[0].id, "--commands"]) == 0
    text = capsys.readouterr().out
    assert subprocess.run(["bash", "-e"], input=text, capture_output=True, text=True, check=True).stdout == "set\n"


def test_a_point_of_two_campaigns_is_named_by_its_path(made: campaign.Made, capsys: Capture) -> None:
    made.measured()
    shutil.copytree(made.results, made.results.with_name("other"))
    name = made.plan.points[0].id
    assert cli.main(["show", name, "--commands"]) == 1
    assert capsys.readouterr().err.endswith("; name one as results/CAMPAIGN/points/ID\n")
    assert cli.main(["show", f"{made.results}/points/{name}", "--commands"]) == 0


def test_each_node_has_its_command_and_servers_have_a_client(made: campaign.Made, capsys: Capture) -> None:
    argvs = [["fio", "client"], ["fio", "server1"], ["fio", "server2"]]
    made.measured(argv=argvs[0], argvs=argvs, record={"hosts": ["a1", "a2"]})
    assert cli.main(["show", made.plan.points[0].id, "--commands"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[::2]] == ["# a1", "# a1", "# a2"]
    assert lines[1::2] == ["fio client", "fio server1", "fio server2"]


def test_a_point_that_is_not_stored(made: campaign.Made, capsys: Capture) -> None:
    assert cli.main(["show", "nothing", "--commands"]) == 1
    assert "has no result" in capsys.readouterr().err
