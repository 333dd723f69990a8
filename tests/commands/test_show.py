"""`iosweep show POINT --commands`: what a stored point ran, for a shell."""

import shlex
from pathlib import Path

import pytest

import campaign
from iosweep.commands import cli

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
