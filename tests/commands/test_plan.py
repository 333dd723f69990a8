"""`iosweep plan`: the table, JSON and commands of a configuration, and what is refused before anything runs."""

import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from campaign import METADATA, TEXT, document, make
from iosweep.commands import cli
from iosweep.plan import forecast
from iosweep.plan.launchers import LAUNCHERS
from iosweep.target.agent import Agent
from machine import InProcess

Capture = pytest.CaptureFixture[str]
PROFILE = "executor: iosweep\ndefault-resources: [launcher=srun, scheduler=slurm, {}]\n"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Agent, "call", InProcess.call)
    (tmp_path / "target").mkdir()
    (tmp_path / "x.yaml").write_text(TEXT.replace("/scratch/me", str(tmp_path / "target")))
    return tmp_path


def plan(*arguments: str) -> int:
    return cli.main(["plan", *arguments])


def configure(place: Path, document: dict[str, Any], directory: Path | None = None) -> dict[str, Any]:
    made = document | {"target": {"directory": str(directory or place / "target")}}
    (place / "x.yaml").write_bytes(msgspec.json.encode(made))
    return made


def add(place: Path, text: str) -> None:
    with (place / "x.yaml").open("a") as file:
        file.write(text)


def cluster(place: Path, resource: str = "") -> None:
    """A profile for Slurm, in `there`."""
    (place / "there").mkdir(exist_ok=True)
    (place / "there/profile.v9+.yaml").write_text(PROFILE.format(resource))


def test_a_plan_says_what_is_measured_and_what_it_takes(
    capsys: Capture, place: Path, snapshot: SnapshotAssertion
) -> None:
    add(place, "    confirm: 2\n    ramp: queue_depth\nlimits: {time: 1h}\n")
    assert plan("x.yaml") == 0
    said = re.sub(r"[\d.]+ .iB free", "FREE", capsys.readouterr().out.replace(str(place), "PLACE"))
    assert said == snapshot


def test_campaign_and_target_of_the_command_line_are_planned(capsys: Capture, place: Path) -> None:
    other = place / "[bold]x[/bold] [red]"  # shown as it is
    other.mkdir(parents=True)
    assert plan("x.yaml", "--campaign", "nightly", "--target", str(other)) == 0
    assert capsys.readouterr().out.startswith(f"nightly  target {other}\n")


def test_a_target_that_cannot_be_measured_on_is_an_error_below_the_plan(capsys: Capture, place: Path) -> None:
    add(place, "limits: {share_of_free: 0%}\n")
    assert plan("x.yaml") == 1
    assert "does not fit" in capsys.readouterr().err
    (place / "target").rename(place / "targets")
    assert plan("x.yaml") == 1
    said = capsys.readouterr()
    assert "12 points" in said.out
    first, last = said.err.splitlines()
    assert first.startswith("x.yaml:2: target.directory: ") and f"did you mean {place}/targets?" in first
    assert last.startswith("1 problem")
    cluster(place)  # for a cluster it is made anywhere
    assert plan("--profile", "there", "x.yaml") == 0
    configure(place, document(**METADATA), Path("/proc/sys"))  # not even root can make a directory there
    capsys.readouterr()
    assert plan("x.yaml") == 1
    assert capsys.readouterr().err.startswith("x.yaml:1: target.directory: ")


def test_a_phase_longer_than_a_job_is_an_error_below_the_plan(capsys: Capture, place: Path) -> None:
    (place / "x.yaml").write_text(TEXT.replace("phase_time: 1s", "phase_time: 2h"))
    for limit, code in (("runtime=1h", 1), ("runtime=5h", 0), ("runtime=1h, 'from_1_nodes=\"runtime=5h qos=q\"'", 0)):
        cluster(place, limit)
        assert plan("--profile", "there", "x.yaml") == code
        said = capsys.readouterr()
        wrong = "there/profile.v9+.yaml: default-resources.runtime: a phase of 2 h does not fit a job of 1 h ("
        assert said.out and said.err.startswith(wrong) == bool(code)


def test_a_wrong_configuration_or_profile_plans_nothing(capsys: Capture, place: Path) -> None:
    def refused(*arguments: str) -> list[str]:
        assert plan(*arguments) == 1
        said = capsys.readouterr()
        assert said.out == ""
        return [":".join(line.split(":")[:3]) for line in said.err.splitlines()]

    for form in ([], ["--json"], ["--commands"]):
        assert refused(*form)[0].startswith("config/sweep.yaml:1:")
    cases = {
        "runtime=soon": "there/profile.v9+.yaml:2: default-resources.runtime",
        "license=pfs": "there/profile.v9+.yaml:2: default-resources.license",
    }
    for resource, where in cases.items():
        cluster(place, resource)
        assert refused("--profile", "there", "x.yaml")[0] == where
    assert refused("--profile", "absent", "x.yaml")
    for unreadable in ("executor: [", ""):
        (place / "there/profile.v9+.yaml").write_text(unreadable)
        assert refused("--profile", "there", "x.yaml")
    (place / "x.yaml").write_text(TEXT.replace("axes:", "axis:").replace("phase_time: 1s", "phase_time: 1"))
    assert refused("x.yaml")[:2] == ["x.yaml:7: sweeps[0].axis", "x.yaml:9: sweeps[0].phase_time"]


def test_more_than_the_limits_allow_is_an_error_below_the_plan(capsys: Capture, place: Path) -> None:
    add(place, "limits: {time: 10s}\n")
    assert plan("x.yaml") == 1
    said = capsys.readouterr()
    assert "12 points, 12 repetitions, 17 s" in said.out  # which shows what takes the time
    assert said.err.startswith("x.yaml:11: limits.time: ")


def test_json_is_the_plan_with_its_forecast(capsys: Capture, place: Path) -> None:
    assert plan("--json", "x.yaml") == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    made = make(place, (place / "x.yaml").read_text())
    assert found["forecast"] == msgspec.json.decode(msgspec.json.encode(forecast.forecast_of(made)))
    assert [p["id"] for p in found["plan"]["allocations"][0]["points"]] == [p.id for p in made.points]


def test_commands_are_exact_and_quoted(capsys: Capture, place: Path) -> None:
    target = place / "it's a; $dir"
    target.mkdir()
    text = configure(place, document(axes=None, phases=["seq_write", "rand_read"], repetitions=2), target)
    assert plan("--commands", "x.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    [point] = make(place, text).points
    assert lines[0::2] == [f"# {point.id} r{n}" for n in (1, 1, 2, 2)]
    commands = [shlex.split(line) for line in lines[1::2]]
    assert [c[1] for c in commands] == ["--name=seq_write", "--name=rand_read"] * 2
    assert commands[1][2] == f"--directory={target}/iosweep-quick/sets/fio-read-16m-1"
    assert len({arg for c in commands for arg in c if arg.startswith("--randseed=")}) == 4
    configure(place, document(**METADATA))
    assert plan("--commands", "x.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 2 * 3
    directories = {arg for line in lines[1::2] for arg in shlex.split(line) if arg.startswith("--directory=")}
    assert len(directories) == 2  # the phases of a repetition share one


def test_commands_are_those_of_the_launcher(capsys: Capture, place: Path) -> None:
    ior = document(name="i", tool="ior", phases=["seq_read"], axes=None, options={"threads_per_node": 3})["sweeps"]
    text = document(axes=None)
    configure(place, text | {"sweeps": text["sweeps"] + ior})
    said = {}
    for name, launcher in LAUNCHERS.items():
        (place / "here").mkdir(exist_ok=True)
        (place / "here/profile.v9+.yaml").write_text(f"default-resources: [launcher={name}]\n")
        assert plan("--commands", "--profile", "here", "x.yaml") == 0
        said[name] = capsys.readouterr().out
        commands = [shlex.split(line) for line in said[name].splitlines()[1::2]]
        fio, ranks = (next(command for command in commands if tool in command) for tool in ("fio", "ior"))
        assert fio[0] == "fio"
        assert ranks[: ranks.index("ior")] == launcher.argv([], True, 3), name
    assert plan("--commands", "x.yaml") == 0
    assert capsys.readouterr().out == said["mpiexec"]  # the default: that of profiles/local


def test_a_plan_says_what_will_be_missing(capsys: Capture, place: Path, root: Path) -> None:
    cluster(place, "runtime=6")
    configure(place, document(tool="mdtest", phases=["create"], axes={"nodes": [1, 2]}, options={}, phase_time=None))
    for where, lack in (
        ([], "--profile profiles/slurm"),  # no launcher and no profile was named
        (["--profile", f"{root}/profiles/local"], "reaches 1"),
        (["--profile", "there"], "asks for 6 min"),  # all can be measured, in jobs of the profile's limit
    ):
        plan(*where, "x.yaml")
        said = capsys.readouterr().out
        assert [one for one in ("--profile profiles/slurm", "reaches 1", "asks for 6 min") if one in said] == [lack], (
            where
        )
