"""`iosweep doctor` on this machine: what a campaign needs, and the CPUs that are reserved."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import scripted
from iosweep.commands import cli
from iosweep.commands.doctor import node_probe
from iosweep.commands.doctor import this_machine as needs
from iosweep.errors import Obstacle
from iosweep.findings import Line
from iosweep.programs.find import Program, UnusableTool
from targets import as_root, needs_bindfs

pytestmark = pytest.mark.local

CAMPAIGN = """\
campaign: looked-at
target: {{directory: {target}}}
limits: {{share_of_free: {share}, fill: 100%}}
sweeps:
  - {{name: a, tool: fio, phases: [rand_read], phase_time: 1s, options: {{file_size: 1m}}, repetitions: 1}}
  - {{name: b, tool: ior, phases: [seq_write], phase_time: 1s, options: {{file_size: 1m}}, repetitions: 1}}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fio: Path) -> Path:
    """A directory with a configuration of fio and IOR, a target, and both tools on PATH."""
    for name in ("bin", "target", "config"):
        (tmp_path / name).mkdir()
    scripted.install(tmp_path / "bin", tools=["ior"])
    (tmp_path / "bin/fio").symlink_to(fio)
    (tmp_path / "config/sweep.yaml").write_text(CAMPAIGN.format(target=tmp_path / "target", share="100%"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}/bin")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return tmp_path


def doctor(capsys: Capture, code: int) -> dict[str, Line]:
    """`iosweep doctor` in the current directory: check -> its line."""
    assert cli.main(["doctor", "--json"]) == code
    lines = [Line(**line) for line in json.loads(capsys.readouterr().out)["lines"]]
    assert [line.check for line in lines] == ["configuration", "tools", "target", "space", "reserved CPUs"]
    return {line.check: line for line in lines}


def test_all_is_there(here: Path, capsys: Capture) -> None:
    found = doctor(capsys, 0)
    assert found["configuration"].seen == "config/sweep.yaml: looked-at, with fio, ior on 1 node"
    assert {found[check].outcome for check in ("configuration", "tools", "target", "space")} == {"ok"}, found
    assert f"{here}/bin/ior (" in found["tools"].seen
    assert found["target"].seen.endswith(", writable")
    assert list((here / "target").iterdir()) == []


def test_a_tool_that_is_not_here(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(here / "bin"))
    (here / "bin/ior").unlink()
    found = doctor(capsys, 1)
    assert found["tools"].outcome == "wrong"
    assert found["tools"].seen == "ior is not on PATH: their points would be missing"
    assert found["tools"].change.startswith("get it with ")
    assert cli.main(["doctor"]) == 1
    assert "all is well" not in capsys.readouterr().out


def test_what_ranks_are_started_with() -> None:
    there = {"ior": Program("/x/ior", "ab", "IOR-4.0.0", ())}
    assert needs.judged(there, object()) == Line("tools", "ok", "/x/ior (IOR-4.0.0)")
    found = needs.judged(there, Obstacle("there is no mpiexec of MPICH", "`make venv` installs one"))
    assert (found.outcome, found.change) == ("wrong", "`make venv` installs one")
    broken = needs.judged(there | {"fio": UnusableTool("/x/fio does not run: exit code 1", "", False)}, None)
    assert (broken.outcome, broken.change) == ("wrong", "see what is wrong with it")


def test_a_target_that_is_not_here(here: Path, capsys: Capture) -> None:
    (here / "target").rmdir()
    found = doctor(capsys, 1)
    assert "does not exist" in found["target"].seen
    assert found["target"].change.startswith("mount it")
    assert (found["space"].outcome, found["space"].seen) == ("not checked", "see target")


def test_a_target_with_too_little_room(here: Path, capsys: Capture) -> None:
    (here / "config/sweep.yaml").write_text(CAMPAIGN.format(target=here / "target", share="0%"))
    found = doctor(capsys, 1)
    assert (found["target"].outcome, found["space"].outcome) == ("ok", "wrong")


@as_root
@needs_bindfs
def test_a_target_that_does_not_answer(here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, with what to do; the rest is checked."""
    monkeypatch.setattr(node_probe, "TARGET_S", 0.5)
    mounted = here / "target"
    with subprocess.Popen(["bindfs", "-f", here / "config", mounted], env={"PATH": os.defpath}) as server:
        try:
            while not mounted.is_mount():
                assert server.poll() is None
            server.send_signal(signal.SIGSTOP)
            found = doctor(capsys, 1)
        finally:
            server.kill()
            server.wait()
            subprocess.run(["umount", mounted], check=True, env={"PATH": f"{os.defpath}:/sbin"})
    assert "the target does not answer: no progress for 0.5 s while looking which file system" in found["target"].seen
    assert found["target"].change.startswith("find out why it does not answer")
    assert found["space"].outcome == "not checked"
    assert found["tools"].outcome == "ok"
