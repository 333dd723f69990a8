"""`iosweep doctor` on this machine: what a campaign needs, and the CPUs that are reserved."""

import json
import re
from contextlib import closing
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.commands import cli
from iosweep.commands.doctor import Line
from iosweep.errors import Obstacle, TargetHangs
from iosweep.node.load import Load, Other
from iosweep.programs.programs import Mpiexec, Program
from iosweep.run import preflight
from iosweep.target import lock
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

    def doctor(self, code: int, load: bool = True) -> dict[str, Line]:
        """check -> its line. load: whether the load is watched."""
        assert cli.main(["doctor", "--json"]) == code
        lines = [Line(**line) for line in json.loads(self._capsys.readouterr().out)["lines"]]
        checks = dict.fromkeys(line.check for line in lines)
        watched = ["load"] if load else []
        assert [*checks] == ["configuration", "tools", "target", "space", *watched, "reserved CPUs"]
        return {line.check: line for line in lines}


@pytest.fixture
def machine_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    found = {"fio": Program("/x/fio", "ab", "fio-3.33", ()), "ior": Program("/x/ior", "ab", "IOR-4.0.0", ())}
    monkeypatch.setattr(preflight, "find", lambda tool, *_: found[tool.name])
    monkeypatch.setattr(preflight.programs, "mpiexec", lambda *_: Mpiexec("/x/mpiexec", "4.3.0"))
    monkeypatch.setattr(Agent, "call", InProcess.call)
    monkeypatch.setattr(preflight, "check_load", lambda *_: preflight.describe_load(Load(other=0.03, steal=0.0)))
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
    absent = machine_here.doctor(1, load=False)

    def hangs(*_: object, **__: object) -> None:
        raise TargetHangs("no progress")

    monkeypatch.setattr(Agent, "call", hangs)
    for found in (absent, machine_here.doctor(1, load=False)):
        outcomes = {check: found[check].outcome for check in ("tools", "target", "space")}
        assert outcomes == {"tools": "ok", "target": "wrong", "space": "not checked"}
        assert found["target"].change


def test_all_targets_are_examined_whatever_is_wrong_with_one(
    machine_here: Here, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion
) -> None:
    """One is another campaign's, one is not mounted, one is being measured; and the machine is busy."""
    names = ("foreign", "absent", "measured", "fine")
    places = {name: machine_here.place / name for name in names}
    for name in {*names} - {"absent"}:
        places[name].mkdir()
    (places["foreign"] / "iosweep-looked-at-foreign").mkdir()
    (places["foreign"] / "iosweep-looked-at-foreign/data").write_text("")
    locks = {"measured": str(machine_here.place / "locks")}
    Path(locks["measured"]).mkdir()
    targets = "".join(f"  {n}: {{directory: {d}}}\n" for n, d in places.items())
    text = CAMPAIGN.partition("limits:")
    (machine_here.place / "config/sweep.yaml").write_text(
        f"campaign: looked-at\ntargets:\n{targets}limits:{text[2].format(share='100%')}"
    )
    load = Load(other=0.88, steal=0.0, top=(Other("python3", "root", 0.8),))
    monkeypatch.setattr(preflight, "check_load", lambda *_: preflight.describe_load(load))
    measured = str(places["measured"])
    monkeypatch.setattr(lock, "file_of", lambda _, facts: Path(facts["real"]) / "lock")
    with closing(lock.take(Path(measured) / "lock", lock.Owner("nightly", "/r"), "it")):
        assert cli.main(["doctor", "--json"]) == 1
    lines = [Line(**line) for line in json.loads(capsys.readouterr().out)["lines"]]
    told = [f"{line.outcome} {line.check}: {line.seen} -> {line.change}" for line in lines[2:-1]]
    said = "\n".join(told).replace(str(machine_here.place), "PLACE")
    assert re.sub(r"process .*", "OWNER", re.sub(r" \(\S+ \S+\)", "", said)) == snapshot


def test_a_tool_that_is_not_here_is_wrong(machine_here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "find", lambda tool, *_: Obstacle(f"{tool.program} is not on PATH", "install it"))
    found = machine_here.doctor(1)
    assert found["tools"].outcome == "wrong" and "install it" in found["tools"].seen
    assert found["target"].outcome == "ok"
