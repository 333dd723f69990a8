"""A place that looks like Spack 1.1.0 with its packages, for tests: the stand-in of standins/README.md."""

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import standins

STANDIN = Path(__file__).with_name("standins") / "spack"
PIN = "v2026.06.0"
SPECS = ("ior@4.0.0", "fio@3.37", "mpich@5.0.1")


def checkout(below: Path, tools: Path | None = None) -> Path:
    """Spack's directory. `tools` is where ior and mdtest are (the fixture `mpi_tools`); without it the stand-ins are
    compiled below."""
    directory = below / "spack"
    (directory / "bin").mkdir(parents=True)
    shutil.copy(STANDIN, directory / "bin/spack")
    programs = tools or standins.build(below)
    paths = {name: str((programs / name).resolve()) for name in standins.TOOLS}
    if fio := shutil.which("fio"):
        paths["fio"] = fio
    (directory / "tools.json").write_text(json.dumps(paths))
    return directory


def packages(below: Path) -> Path:
    """A git repository in the place of spack-packages, with the tag that spack_yaml() pins, and no package in it."""
    directory = below / "spack-packages"
    directory.mkdir(parents=True)
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    for words in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", PIN], ["tag", PIN]):
        subprocess.run(["git", *words], cwd=directory, env=env, check=True, capture_output=True)
    return directory


def spack_yaml(
    repository: Path | str = "https://github.com/spack/spack-packages.git", specs: Sequence[str] = SPECS
) -> str:
    """A spack.yaml. Its MPICH is an external: that beside the Python of the tests."""
    return f"""\
spack:
  specs: [{", ".join(f'"{spec}"' for spec in specs)}]
  view: false
  repos:
    builtin:
      git: {repository}
      tag: {PIN}
  packages:
    mpich:
      buildable: false
      externals: [{{spec: mpich@5.0.1 device=ch4, prefix: {sysconfig.get_path("data")}}}]
"""


def play(spack: Path, name: str | None) -> None:
    """What goes wrong from now on: `fails` (fio does not build), `waits` (60 s), `broken` (no program runs)."""
    (spack / "bin/play").write_text(name or "")


def calls(spack: Path) -> list[list[str]]:
    """The arguments of each call since checkout()."""
    log: list[dict[str, Any]] = []
    if (spack / "bin/calls.jsonl").exists():
        log = [json.loads(line) for line in (spack / "bin/calls.jsonl").read_text().splitlines()]
    return [call["argv"] for call in log]
