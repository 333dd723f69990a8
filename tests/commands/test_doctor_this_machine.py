"""`iosweep doctor` on this machine: what a campaign needs, and the CPUs that are reserved."""

import json
import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.commands import cli
from iosweep.commands.doctor import Line
from iosweep.errors import Obstacle, TargetHangs
from iosweep.programs.programs import Mpiexec, Program
from iosweep.run import preflight
from iosweep.target.agent import Agent
from machine import InProcess

CAMPAIGN = """\
campaign: looked-at
target: {{directory: {target}}}
limits: {{share_of_free: {share}, fill: 100%}}
sweeps:
  - {{name: a, tool: fio, phases: [rand_read], phase_time: 1s, options: {{file_size: 1m}}, repetitions: 1}}
  - {{name: b, tool: ior, phases: [seq_write], phase_time: 1s, options: {{file_size: 1m}}, repetitions: 1}}
"""


class Here:
    """A directory with a configuration of fio and IOR, a target, and both tools on PATH; the agent is in this
    process."""

    def __init__(self, place: Path, capsys: pytest.CaptureFixture[str]):
        self.place, self._capsys, self.target = place, capsys, place / "target"
        self.target.mkdir()
        (place / "config").mkdir()
        self.configure("100%")

    def configure(self, share: str) -> None:
        (self.place / "config/sweep.yaml").write_text(CAMPAIGN.format(target=self.target, share=share))

    def doctor(self, code: int, then: str = "space") -> dict[str, Line]:
        """check -> its line. then: what follows the check of the target."""
        assert cli.main(["doctor", "--json"]) == code
        lines = [Line(**line) for line in json.loads(self._capsys.readouterr().out)["lines"]]
        checks = dict.fromkeys(line.check for line in lines)
        assert [*checks] == ["configuration", "tools", "target", then, "reserved CPUs"]
        return {line.check: line for line in lines}


@pytest.fixture
def machine_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    found = {"fio": Program("/x/fio", "ab", "fio-3.33", ()), "ior": Program("/x/ior", "ab", "IOR-4.0.0", ())}
    monkeypatch.setattr(preflight, "find", lambda tool, *_: found[tool.name])
    monkeypatch.setattr(preflight.programs, "mpiexec", lambda *_: Mpiexec("/x/mpiexec", "4.3.0"))
    monkeypatch.setattr(Agent, "call", InProcess.call)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.chdir(tmp_path)
    return Here(tmp_path, capsys)


def test_this_machine_is_well(
    machine_here: Here,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    found = machine_here.doctor(0)
    assert {found[check].outcome for check in ("configuration", "tools", "target", "space")} == {"ok"}, found
    assert list(machine_here.target.iterdir()) == []
    assert cli.main(["doctor"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ok ") and "reserved" not in line]
    said = re.sub(r"(ok +target +).*", r"\1FILE SYSTEM", "\n".join(lines))
    assert re.sub(r"fits .*", "fits", said) == snapshot


def test_a_target_that_is_not_usable_is_wrong_and_the_rest_is_checked(
    machine_here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine_here.configure("0%")
    found = machine_here.doctor(1)
    assert (found["target"].outcome, found["space"].outcome) == ("ok", "wrong")
    assert cli.main(["doctor"]) == 1
    capsys.readouterr()
    machine_here.target.rmdir()
    absent = machine_here.doctor(1, then="the rest")

    def hangs(*_: object, **__: object) -> None:
        raise TargetHangs("no progress")

    monkeypatch.setattr(Agent, "call", hangs)
    for found in (absent, machine_here.doctor(1, then="the rest")):
        outcomes = {check: found[check].outcome for check in ("tools", "target", "the rest")}
        assert outcomes == {"tools": "ok", "target": "wrong", "the rest": "not checked"}
        assert found["target"].change


def test_a_tool_that_is_not_here_is_wrong(machine_here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "find", lambda tool, *_: Obstacle(f"{tool.program} is not on PATH", "install it"))
    found = machine_here.doctor(1)
    assert found["tools"].outcome == "wrong" and "install it" in found["tools"].seen
    assert found["target"].outcome == "ok"
