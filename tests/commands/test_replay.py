"""`iosweep replay`: the command of a point as a shell runs it, and a point that is measured again."""

import shlex
from pathlib import Path

import pytest

import campaign
import results_factory
from iosweep.analysis.aggregate import Result, summarize
from iosweep.commands import cli
from iosweep.commands.replay import compared
from iosweep.plan.model import plan_from_document
from iosweep.plan.replaying import replay
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
    sets = made.plan.points[0].file_sets()[0].directory
    made.store.put("sets", sets.replace("/", "."), DataSet(argv=("fio", "--name=prepare me")))
    node = {"hosts": ["h"], "looks": 1, "processes": [], "usable": "0-7"}
    cpus = {"nodes": [node], "pinning": "enforce", "planned": {"0-3": 2}}
    made.measured(argv=argv, cpus=cpus, record={"environment": {"PATH": "/a b:/bin"}, "campaign": "quick"})
    point = made.plan.points[0].id
    assert cli.main(["replay", point.rpartition(".")[0]]) == 0
    text = capsys.readouterr().out
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    assert words[-len(argv) :] == argv
    assert words[-len(argv) - 5 : -len(argv)] == ["taskset", "--cpu-list", "0-3", "env", "PATH=/a b:/bin"]
    assert f"needs /scratch/me/iosweep-quick/{sets}: 2 files of 1.0 MiB" in text
    assert "#   fio '--name=prepare me'" in text


def test_nothing_that_is_stored_leaves_a_comment(made: campaign.Made, capsys: Capture) -> None:
    sets = made.plan.points[0].file_sets()[0].directory
    made.store.put("sets", sets.replace("/", "."), DataSet(argv=("fio", "a\ntouch stolen")))
    made.measured(record={"host": "h\ntouch stolen", "campaign": "quick"})
    assert cli.main(["replay", made.plan.points[0].id]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert not any(line.startswith("touch") for line in lines)


def test_what_cannot_be_replayed(made: campaign.Made, capsys: Capture) -> None:
    made.measured()
    made.measured(1)
    for arguments, why in (
        (["nothing"], "has no result"),
        (["fio"], "is not one point"),
        ([made.plan.points[0].id, "--repetition", "7"], "has no repetition 7 (there are: 1)"),
    ):
        assert cli.main(["replay", *arguments]) == 1
        assert why in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["replay", made.plan.points[0].id, "--phase", "create"])
    assert "--phase create: the point has rand_read" in capsys.readouterr().err


def test_the_plan_of_a_replay(made: campaign.Made) -> None:
    point = made.plan.points[1]
    plan = replay(made.plan, point, ["rand_read"], "/other", 5)
    again = plan_from_document(plan.document())
    assert [one.id for one in again.points] == [point.id]
    assert again.campaign.startswith("replay-")
    assert (again.target.directory, again.points[0].repetitions.last) == ("/other", 5)
    assert [sweep.points for sweep in again.sweeps] == [(point.id,)]
    assert replay(made.plan, point, ["rand_read"], "/scratch/me", 5).campaign != again.campaign


def test_the_sentence() -> None:
    def result(*figures: float) -> Result:
        rows = [results_factory.row(repetition=n, ops_per_s=each) for n, each in enumerate(figures, 1)]
        return summarize(rows)[0]

    one, same, other = result(100.0, 101.0, 99.0), result(100.5, 100.1, 99.4), result(50.0, 50.5, 49.9)
    assert "no difference that can be told" in compared(same, one, "rand_read")
    assert "another figure" in compared(other, one, "rand_read")
    assert "too few repetitions" in compared(result(1.0), one, "rand_read")
    assert "no figure in the tables" in compared(one, None, "rand_read")


@pytest.mark.local
def test_a_point_is_measured_again(tmp_path: Path) -> None:
    run = campaign.Campaign(tmp_path)
    run.tables()
    before = run.stored()
    point = sorted(run.store.results())[0]
    text = run.iosweep("replay", point, "--run", "--phase", "rand_read")
    assert "Random read: " in text
    assert "measured again as replay-" in text
    assert run.stored() == before
    assert not list(run.target.glob("iosweep-replay-*"))
