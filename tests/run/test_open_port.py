"""fio's client/server mode listens without a password: only on request, never as root, and said wherever one looks."""

import os
from pathlib import Path
from typing import Any

import pytest

from campaign import document, make, problems, read
from iosweep import dag
from iosweep.commands import cli
from iosweep.errors import AllocationError, ConfigError, ExitCode
from iosweep.jobs.profile import Profile
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.run import allocation
from iosweep.run.work import Request
from iosweep.slurm import query

ROOT = Path(__file__).parents[2]
OPEN: dict[str, Any] = {"options": {"file_size": "16m", "client_server": True}}
AXIS: dict[str, Any] = {"axes": {"client_server": [False, True]}}


def allowed(**sweep: Any) -> dict[str, Any]:
    return document(**sweep) | {"allow_open_port": True}


def test_it_must_be_allowed_in_the_configuration(tmp_path: Path) -> None:
    for sweep, place in ((OPEN, "options"), (AXIS, "axes")):
        [wrong] = problems(tmp_path, document(**sweep))
        line, key, _ = wrong.split(": ", 2)
        assert "client_server" in (tmp_path / "x.yaml").read_text().splitlines()[int(line) - 1]
        assert key == f"sweeps[0].{place}.client_server"
        assert problems(tmp_path, allowed(**sweep)) == []
    assert problems(tmp_path, document(options={"file_size": "16m", "client_server": False})) == []


PORT = "open port"
#: Arguments of `iosweep plan`, and whether a port is opened then: on one machine such points are missing.
PLANS: list[tuple[list[str], bool]] = [
    (["--profile", str(ROOT / "profiles/slurm")], True),
    (["--profile", str(ROOT / "profiles/local")], False),
    ([], False),
]


@pytest.mark.local
@pytest.mark.parametrize("uid", [0, 1000])
def test_a_plan_announces_the_port_and_refuses_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], uid: int
) -> None:
    monkeypatch.chdir(tmp_path)
    read(tmp_path, allowed(**OPEN) | {"tools": {"provider": "path"}})
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    for by, opened in PLANS:
        code = cli.main(["plan", "x.yaml", *by])
        shown = capsys.readouterr()
        refused = opened and not uid
        assert (PORT in shown.out, "without a password" in shown.err) == (opened, refused), by
        assert code or not refused, by
    if uid:
        assert dag.load(Path("x.yaml"), Path("results"), Profile(given={"launcher": "srun"})).left
    else:
        with pytest.raises(ConfigError, match="allow_open_port"):
            dag.load(Path("x.yaml"), Path("results"), Profile(given={"launcher": "srun"}))
    assert not dag.load(Path("x.yaml"), Path("results")).left


def test_root_may_not_run_it_in_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a plan that another user has made, or in a job that is run as root."""
    made, watcher = make(tmp_path, allowed(**OPEN)), None
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    job = query.Job("7", "c", "RUNNING", "", "me", "", "/", 1, ("n1",), None, None, "")
    name, launcher = made.allocations[0].name, SLURM_LAUNCHERS["srun"]
    with pytest.raises(AllocationError, match="client_server") as caught:
        allocation.measure(Request(made, name, tmp_path / "r", tmp_path / "m", launcher, watcher, job=job))  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.lasting) == (ExitCode.REFUSED, True)
