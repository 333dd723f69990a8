"""A site where Slurm's commands authenticate with a token (auth/jwt): they get it, tools do not.

The cluster here uses munge. Stand-ins for its commands refuse to work without SLURM_JWT, and hand it to what they
start, as the real ones do with `--export=ALL`.
"""

import shutil
from pathlib import Path

import pytest

import scripted
from held_job import Held
from iosweep.target.agent import Agent
from two_nodes import TWO, Job

TOKEN = "eyJ0b2tlbg.planted"  # noqa: S105 - of nobody
STAND_IN = """\
#!/bin/sh
[ -n "$SLURM_JWT" ] || {{ echo "{name}: error: no token" >&2; exit 1; }}
echo "{name} $(hostname) $*" >> {log}
token=$SLURM_JWT
unset SLURM_JWT
exec {real} {more} "$@"
"""


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
def test_slurms_commands_have_the_token_and_ranks_do_not(held: Held, launcher: str, tmp_path: Path) -> None:
    job = Job(held, tmp_path)
    for name in ("srun", "squeue", "scancel"):
        more = "--export=ALL,SLURM_JWT=$token" if name == "srun" else ""
        script = STAND_IN.format(name=name, log=tmp_path / "asked", real=shutil.which(name), more=more)
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    job.made.configure(sweeps=[TWO, TWO | {"name": "i", "tool": "ior"}])
    job.measure(launcher, SLURM_JWT=TOKEN)
    processes = scripted.processes(tmp_path / "bin")
    assert {(one["node"], one["tool"]) for one in processes} == {(n, t) for n in held.hosts for t in ("fio", "ior")}
    assert not any(one["token"] for one in processes)
    assert {line.split()[0] for line in (tmp_path / "asked").read_text().splitlines()} >= {"srun", "squeue"}


@pytest.mark.local
def test_a_command_gets_the_token_only_if_it_is_one_of_slurms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", TOKEN)
    with Agent(60) as agent:
        for token in (True, False):
            assert (TOKEN.encode() in agent.run(["env"], 60, token=token).stdout) is token, token
