"""A site where Slurm's commands authenticate with a token (auth/jwt): they get it, tools do not.

The cluster here uses munge. Stand-ins for its commands refuse to work without SLURM_JWT, and hand it to what they
start, as the real ones do with `--export=ALL`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from held_job import Held
from iosweep.node import environment, process
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
#: Until its stdin ends: which scripted tools it sees that work on a target, and whether there is a token in them.
WITNESS = """
import json, os, select, sys
seen = {}
while not select.select([sys.stdin], [], [], 0.02)[0]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().split(b"\\0")
            name = os.path.basename(words[2]).decode()
            if name in ("ior", "fio") and any(b"/iosweep-c/" in word for word in words):
                seen[f"{name} {pid}"] = b"SLURM_JWT" in open(f"/proc/{pid}/environ", "rb").read()
        except (OSError, IndexError):
            pass
print(json.dumps(seen))
"""


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
def test_slurms_commands_have_the_token_and_ranks_do_not(held: Held, launcher: str, tmp_path: Path) -> None:
    job = Job(held, tmp_path, {"sleep_s": 1.0, "seconds": 0.5})
    for name in ("srun", "scontrol", "squeue", "scancel"):
        more = "--export=ALL,SLURM_JWT=$token" if name == "srun" else ""
        script = STAND_IN.format(name=name, log=tmp_path / "asked", real=shutil.which(name), more=more)
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    job.made.configure(sweeps=[TWO, TWO | {"name": "i", "tool": "ior"}])
    command = [sys.executable, "-I", "-S", "-c", WITNESS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    witnesses = [held.cluster.popen(command, on=name, **pipes) for name in held.hosts]
    job.measure(launcher, SLURM_JWT=TOKEN)
    for seen in (json.loads(witness.communicate("\n")[0]) for witness in witnesses):
        assert {name.split()[0] for name in seen} == {"fio", "ior"}
        assert not any(seen.values()), seen
    assert {line.split()[0] for line in (tmp_path / "asked").read_text().splitlines()} >= {"srun", "scontrol"}


def test_the_token_stays_with_us_and_is_not_handed_to_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("SLURM_JWT", "SLURM_CONF", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PLAIN", "ASKED_FOR")
    monkeypatch.setattr(os, "environ", dict.fromkeys(names, "x"))
    environment.reduce(["ASKED_FOR"])
    assert list(os.environ) == ["SLURM_JWT", "SLURM_CONF", "ASKED_FOR"]
    assert "SLURM_JWT" not in process.without_token()


@pytest.mark.local
def test_a_command_gets_the_token_only_if_it_is_one_of_slurms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JWT", TOKEN)
    with Agent(60) as agent:
        for token in (True, False):
            assert (TOKEN.encode() in agent.run(["env"], 60, token=token).stdout) is token, token
