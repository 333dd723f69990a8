"""`iosweep replay`: the command of a point as a shell runs it, and a point that is measured again."""

import contextlib
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

import campaign
import records
import results_factory
from iosweep.analysis.aggregate import Result, summarize
from iosweep.commands import cli
from iosweep.commands.replay_run import changed, compared
from iosweep.commands.replay_script import quoted
from iosweep.errors import ExitCode
from iosweep.plan.model import plan_from_document
from iosweep.plan.replaying import renamed, replay, trusted
from iosweep.plan.settings import LimitSettings
from iosweep.results import campaign_lock
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


#: Words that a terminal or a shell would change.
ODD = ("x\ny", "\x1b[31m", "it's\ta \\ $(touch stolen)", "\u202eabc", "\udcff", "a\x07b", "ü", "", "\r")


@pytest.mark.local
def test_a_shell_runs_what_was_run(made: campaign.Made, capsys: Capture, tmp_path: Path) -> None:
    tool = tmp_path / "the tool"
    tool.write_text('#!/bin/bash\nprintf "%s\\0" "$NOTE" "$@" >"$SEEN"\n')
    tool.chmod(0o755)
    known = {"NOTE": ODD[0] + ODD[2], "SEEN": str(tmp_path / "seen")}
    target = {"directory": str(tmp_path / "target"), "fsid": "1", "layout_is": "not recorded"}
    made.measured(argv=[str(tool), *ODD[:4], *ODD[5:]], record={"environment": known, "target": target})
    assert cli.main(["replay", made.plan.points[0].id]) == 0
    script = capsys.readouterr().out
    assert script.replace("\n", "").isprintable()
    assert subprocess.run(["bash", "-e"], input=script, text=True, cwd=tmp_path, check=False).returncode == 0
    seen = (tmp_path / "seen").read_bytes().decode().split("\0")
    assert seen == [known["NOTE"], *ODD[:4], *ODD[5:], ""]
    assert not (tmp_path / "stolen").exists()


@pytest.mark.parametrize("word", ODD)
def test_a_word_is_one_printable_line(word: str) -> None:
    assert quoted(word).isprintable()


def test_a_relative_target_is_where_the_command_had_it(made: campaign.Made, capsys: Capture) -> None:
    sets = made.plan.points[0].file_sets()[0].directory
    there = f"/home/me/a b/tgt/iosweep-quick/{sets}"
    target = {"directory": "tgt", "fsid": "1", "layout_is": "not recorded"}
    made.measured(argv=["fio", f"--directory={there}"], record={"target": target, "campaign": "quick"})
    assert cli.main(["replay", made.plan.points[0].id]) == 0
    assert f"mkdir -p '{there}' &&" in capsys.readouterr().out


def test_a_figure_has_its_unit(made: campaign.Made, capsys: Capture) -> None:
    made.measured(headline=968129.0)
    assert cli.main(["replay", made.plan.points[0].id]) == 0
    assert "# rand_read: valid, 968 k IOPS, 1.4 s" in capsys.readouterr().out


def test_commands_on_several_nodes_are_started_with_srun(made: campaign.Made, capsys: Capture) -> None:
    job = {"slurm": {"job": "7", "launcher": "srun", "allocation_hosts": ["a1", "a2"]}, "hosts": ["a1", "a2"]}
    made.measured(argv=["fio", "x"], argvs=[["fio", "x"], ["fio", "y"]], record=job)
    point = made.plan.points[0].id
    assert cli.main(["replay", point, "--run"]) == 1
    said = capsys.readouterr()
    start = "srun --overlap --nodes=1 --ntasks=1 --cpu-bind=none --nodelist="
    assert [line for line in said.out.split("\n") if line.startswith(("srun", "    y", "wait"))] == [
        f"{start}a1 env \\", f"{start}a2 env \\", "    y", "wait"
    ]  # fmt: skip
    assert "    x &\n" in said.out
    assert "salloc --exclusive --nodes=2 --nodelist=a1,a2" in said.out
    assert "nothing was run: --run measures on this machine alone" in said.err


def test_servers_start_before_their_client(made: campaign.Made, capsys: Capture) -> None:
    job = {"slurm": {"job": "7", "launcher": "srun", "allocation_hosts": ["a1", "a2"]}, "hosts": ["a1", "a2"]}
    commands = [["fio", "client"], ["fio", "server1"], ["fio", "server2"]]
    made.measured(argv=commands[0], argvs=commands, record=job)
    assert cli.main(["replay", made.plan.points[0].id]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.split("\n")]
    assert [one for one in lines if one.startswith(("server", "client", "kill"))] == [
        "server1 &", "server2 &", "client", "kill $(jobs -p)"
    ]  # fmt: skip


def test_srun_is_not_bound_to_the_cpus_of_its_ranks(made: campaign.Made, capsys: Capture) -> None:
    node = {"hosts": ["h"], "looks": 1, "processes": [], "usable": "0-7"}
    cpus = {"nodes": [node], "pinning": "enforce", "planned": {"0-3": 2}}
    made.measured(argv=["srun", "ior"], cpus=cpus)
    assert cli.main(["replay", made.plan.points[0].id]) == 0
    assert "taskset" not in capsys.readouterr().out


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement that starts fails the test."""

    def never(*_: object) -> int:
        raise AssertionError

    monkeypatch.setattr("iosweep.commands.rules.measure.run", never)


@pytest.mark.usefixtures("unmeasured")
def test_a_point_of_others_is_not_run_unasked(made: campaign.Made, capsys: Capture) -> None:
    made.measured()
    point = made.plan.points[0].id
    assert cli.main(["replay", point, "--run"]) == 1
    said = capsys.readouterr()
    assert "measured elsewhere" in said.err
    assert "--yes" in said.err
    assert f"{point}: 3 repetitions on this machine, " in said.out
    assert "  fio --name=rand_read --directory=/scratch/me/iosweep-replay-" in said.out
    assert not list(Path("results").glob("replay-*"))


def test_a_plan_of_others_decides_nothing_about_this_machine(made: campaign.Made) -> None:
    target = structs.replace(made.plan.target, lock="/etc", trust_other_writers=True)
    limits = structs.replace(made.plan.limits, fill=1.0, share_of_free=1.0)
    theirs = structs.replace(made.plan, target=target, limits=limits, variables=("SSH_AUTH_SOCK",))
    own = trusted(theirs)
    assert (own.target.lock, own.target.trust_other_writers, own.variables) == (None, False, ())
    fields = LimitSettings.__struct_fields__
    assert "fill" in fields
    assert (own.limits.fill, own.limits.share_of_free) == (0.80, 0.10)


def test_what_was_measured_again_is_not_taken_for_the_point(made: campaign.Made, capsys: Capture) -> None:
    made.measured()
    point = made.plan.points[0]
    plan = replay(made.plan, point, ["rand_read"], "/scratch/me", 1)
    later = campaign.Made(made.results.parent.parent, plan)
    campaign.keep_plan(plan, later.results)
    later.measured()
    assert cli.main(["replay", point.id]) == 0
    assert "repetition 1 of quick," in capsys.readouterr().out
    assert renamed(plan, 2).campaign == f"{plan.campaign}-2"


def test_a_point_that_is_being_measured_again_is_waited_for(
    made: campaign.Made, capsys: Capture, unmeasured: None
) -> None:
    made.measured()
    point, results = made.plan.points[0], begun(made)
    with campaign_lock.hold(results / campaign_lock.NAME, None, lambda _: False):
        assert cli.main(["replay", point.id, "--run", "--yes"]) == ExitCode.REFUSED
    said = capsys.readouterr().err
    assert f"{results.name} is being measured by process {os.getpid()} on " in said
    assert "wait until it has ended" in said
    assert "clean" not in said
    assert not list(results.glob("plans/*"))


@pytest.mark.parametrize("running", [True, False])
def test_files_of_another_run_are_not_for_removal(
    made: campaign.Made, capsys: Capture, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    made.measured()
    results = begun(made)
    with contextlib.ExitStack() as others:

        def taken(*_: object) -> int:
            if running:
                others.enter_context(campaign_lock.hold(results / campaign_lock.NAME, None, lambda _: False))
            return ExitCode.REFUSED

        monkeypatch.setattr("iosweep.commands.rules.measure.run", taken)
        assert cli.main(["replay", made.plan.points[0].id, "--run", "--yes"]) == ExitCode.REFUSED
    assert ("`iosweep clean" in capsys.readouterr().err) != running


def begun(made: campaign.Made) -> Path:
    """The results of a replay of the first point, which has begun to write to the target."""
    plan = replay(trusted(made.plan), made.plan.points[0], ["rand_read"], "/scratch/me", 3)
    results = made.results.parent / plan.campaign
    results.mkdir()
    (results / "target.json").touch()
    return results


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
    assert "no difference can be shown" in compared(same, one, "rand_read")
    assert "another figure" in compared(other, one, "rand_read")
    assert "too few repetitions" in compared(result(1.0), one, "rand_read")
    assert "no figure in the tables" in compared(one, None, "rand_read")


def test_what_is_another_is_named() -> None:
    then = records.record("p", host="a", tool={"sha256": "1" * 64, "version": "fio-3.33"})
    now = records.record("p", host="b", tool={"sha256": "2" * 64, "version": "fio-3.40"})
    assert list(changed(then, now)) == [
        "another node: a then, b now",
        f"another build of the tool: fio-3.33 (sha256 {'1' * 12}) then, fio-3.40 (sha256 {'2' * 12}) now",
    ]
    assert not list(changed(then, then))


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
    assert "Random read: " in run.iosweep(
        "replay", point, "--run", "--phase", "rand_read", "--repetitions", "1", code=None
    )
    replays = sorted(path.name for path in run.results.parent.glob("replay-*"))
    assert len(replays) == 2
    assert replays[1] == f"{replays[0]}-2"
    said = run.iosweep("replay", point, "--run", "--target", str(tmp_path / "gone"), code=3)
    assert "does not exist" in said
    assert sorted(path.name for path in run.results.parent.glob("replay-*")) == replays
