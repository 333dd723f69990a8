"""A place that looks like Spack 1.1.0 with its packages, for tests: the stand-in of standins/spack."""

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

STANDIN = Path(__file__).with_name("standins") / "spack"
PIN = "v2026.06.0"
SPECS = ("ior@4.0.0", "fio@3.37", "mpich@5.0.1")


def checkout(below: Path, tools: Path) -> Path:
    """Spack's directory. What it "builds" are copies of fio, ior and mdtest, of `tools` or else of PATH."""
    directory = below / "spack"
    (directory / "bin").mkdir(parents=True)
    shutil.copy(STANDIN, directory / "bin/spack")
    found = {name: shutil.which(name, path=tools) or shutil.which(name) for name in ("fio", "ior", "mdtest")}
    paths = {name: str(Path(path).resolve()) for name, path in found.items() if path}
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


def play(spack: Path, name: str) -> None:
    """What goes wrong from now on: `fails` (fio does not build), `waits` (in the middle of it), `broken` (no program
    runs), or nothing."""
    (spack / "bin/play").write_text(name)


def calls(spack: Path) -> list[list[str]]:
    """The arguments of each call since checkout()."""
    log = spack / "bin/calls.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
