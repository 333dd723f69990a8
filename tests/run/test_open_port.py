"""fio's client/server mode listens without a password: only on request, never as root, and said wherever one looks."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from campaign import document, make, problems, read
from iosweep import dag
from iosweep.commands import cli
from iosweep.errors import AllocationError, ConfigError, ExitCode
from iosweep.jobs.submission import Site, open_port
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.run import allocation, remote_agent
from iosweep.run.request import Request
from iosweep.slurm import query

pytestmark = pytest.mark.local

ROOT = Path(__file__).parents[2]
OPEN: dict[str, Any] = {"options": {"file_size": "16m", "client_server": True}}
AXIS: dict[str, Any] = {"axes": {"client_server": [False, True]}}


def allowed(**sweep: Any) -> dict[str, Any]:
    return document(**sweep) | {"allow_open_port": True}


@pytest.mark.parametrize(("sweep", "place"), [(OPEN, "options"), (AXIS, "axes")])
def test_it_must_be_allowed(tmp_path: Path, sweep: dict[str, Any], place: str) -> None:
    [wrong] = problems(tmp_path, document(**sweep))
    line, key, said = wrong.split(": ", 2)
    assert "client_server" in (tmp_path / "x.yaml").read_text().splitlines()[int(line) - 1]
    assert key == f"sweeps[0].{place}.client_server"
    assert said.startswith("fio listens on each node without a password, and whoever reaches it can run commands as")
    assert "write `allow_open_port: true` at the top of the file" in said
    assert problems(tmp_path, allowed(**sweep)) == []


def test_sweeps_without_an_open_port_need_no_permission(tmp_path: Path) -> None:
    assert problems(tmp_path, document(options={"file_size": "16m", "client_server": False})) == []
    assert open_port(make(tmp_path).points, SLURM_LAUNCHERS["srun"], uid=0) is None


def test_root_may_not(tmp_path: Path) -> None:
    points = make(tmp_path, allowed(**AXIS)).points
    assert open_port(points, SLURM_LAUNCHERS["srun"], uid=1000) is None
    said = open_port(points, SLURM_LAUNCHERS["srun"], uid=0)
    assert said and said.startswith("client_server: fio would listen without a password as root, for 1 point: ")
    assert said.endswith("measure as another user, or set it to false")


@pytest.mark.parametrize("uid", [0, 1000])
def test_root_may_not_plan_it_for_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], uid: int
) -> None:
    monkeypatch.chdir(tmp_path)
    read(tmp_path, allowed(**OPEN) | {"tools": {"provider": "path"}})
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    code = cli.main(["plan", "x.yaml", "--profile", str(ROOT / "profiles/slurm")])
    shown = capsys.readouterr()
    assert "open port: fio listens without a password on a free port of each" in " ".join(shown.out.split())
    if uid:
        assert (code, shown.err) == (0, "")
        assert dag.load(Path("x.yaml"), Path("results"), "srun", site=Site()).left
        return
    assert code == 1
    assert "x.yaml:1: allow_open_port: client_server: fio would listen without a password as root" in shown.err
    with pytest.raises(ConfigError, match="fio would listen without a password as root, for 12 points"):
        dag.load(Path("x.yaml"), Path("results"), "srun", site=Site())


@pytest.mark.parametrize("by", [["--profile", str(ROOT / "profiles/local")], ["--launcher", "direct"], []])
def test_no_port_is_announced_where_none_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], by: list[str]
) -> None:
    """On one machine such points are missing, for root too."""
    monkeypatch.chdir(tmp_path)
    read(tmp_path, allowed(**OPEN) | {"tools": {"provider": "path"}})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    cli.main(["plan", "x.yaml", *by])
    shown = capsys.readouterr()
    assert "client/server mode" in shown.out and "open port" not in shown.out and "password" not in shown.err
    assert not dag.load(Path("x.yaml"), Path("results"), "direct").left


def test_root_may_not_plan_it_for_a_launcher_of_slurm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    read(tmp_path, allowed(**OPEN) | {"tools": {"provider": "path"}})
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cli.main(["plan", "x.yaml", "--launcher", "srun"]) == 1
    shown = capsys.readouterr()
    assert "open port" in shown.out and "fio would listen without a password as root" in shown.err


def test_root_may_not_run_it_in_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a plan that another user has made, or in a job that is run as root."""
    made, watcher = make(tmp_path, allowed(**OPEN)), None
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    job = query.Job("7", "c", "RUNNING", "", "me", "", "/", 1, ("n1",), None, None, "")
    name, launcher = made.allocations[0].name, SLURM_LAUNCHERS["srun"]
    with pytest.raises(AllocationError, match="measure as another user") as caught:
        allocation.measure(Request(made, name, tmp_path / "r", tmp_path / "m", launcher, watcher, job=job))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.lasting) == (ExitCode.REFUSED, True)


def test_a_port_that_another_process_has_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """What listens there must be the server that was started: the client's jobs go to it."""
    monkeypatch.setattr(remote_agent, "_SERVER_S", 0.5)
    monkeypatch.setattr(remote_agent.process, "end_descendants", lambda: 0)  # ours are pytest's
    with socket.create_server(("127.0.0.1", 0)) as theirs:
        with pytest.raises(OSError, match="does not listen after"):
            remote_agent.serve(["sleep", "60"], *theirs.getsockname())
        remote_agent.end_servers()
