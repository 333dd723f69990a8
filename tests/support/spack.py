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
RECORDED = Path(__file__).with_name("standins") / "recorded" / "spack"
VERSION = "v1.1.0"
PIN = "v2026.06.0"
SPECS = ("ior@4.0.0", "fio@3.37", "mpich")
_GIT_ENVIRONMENT = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "tests"), ("EMAIL", "tests@example.org"), ("DATE", "2026-01-01T00:00:00Z"))
}


def checkout(below: Path, tools: Path | None = None) -> Path:
    """Spack's directory, a git repository with the tag v1.1.0, which can be cloned. `tools` is where ior and mdtest
    are (the fixture `mpi_tools`); without it the stand-ins are compiled below."""
    directory = below / "spack"
    (directory / "bin").mkdir(parents=True)
    (directory / "lib/spack").mkdir(parents=True)
    (directory / "lib/spack/README").write_text("Nothing: bin/spack is all that there is.\n")
    shutil.copy(STANDIN, directory / "bin/spack")
    shutil.copytree(RECORDED, directory / "recorded")
    programs = tools or standins.build(below)
    scripts = Path(sysconfig.get_path("scripts"))
    paths = {name: str((programs / name).resolve()) for name in standins.TOOLS}
    paths |= {name: str(scripts / name) for name in ("mpiexec", "mpichversion")}
    if fio := shutil.which("fio"):
        paths["fio"] = fio
    (directory / "tools.json").write_text(json.dumps(paths))
    (directory / ".gitignore").write_text("/bin/play\n/bin/calls.jsonl\n")
    _commit(directory, VERSION)
    return directory


def packages(below: Path) -> Path:
    """A git repository like spack-packages, with the tag that spack_yaml() pins, and no package in it."""
    directory = below / "spack-packages"
    builtin = directory / "repos/spack_repo/builtin"
    builtin.mkdir(parents=True)
    (directory / "spack-repo-index.yaml").write_text("repo_index:\n  paths:\n  - repos/spack_repo/builtin\n")
    (builtin / "repo.yaml").write_text("repo:\n  namespace: builtin\n  api: v2.2\n")
    _commit(directory, PIN)
    return directory


def spack_yaml(
    repository: Path | str = "https://github.com/spack/spack-packages.git",
    specs: Sequence[str] = SPECS,
    mpich: Path | str | None = None,
    tag: str = PIN,
) -> str:
    """A spack.yaml. Its MPICH is an external: that beside the Python of the tests, or where `mpich` says."""
    return f"""\
spack:
  specs: [{", ".join(f'"{spec}"' for spec in specs)}]
  view: false
  concretizer: {{unify: true, reuse: false, targets: {{granularity: generic, host_compatible: true}}}}
  repos:
    builtin:
      git: {repository}
      tag: {tag}
  packages:
    all: {{require: target=x86_64_v2}}
    mpi: {{require: mpich}}
    mpich:
      buildable: false
      externals: [{{spec: mpich@5.0.1 device=ch4 netmod=ofi, prefix: {mpich or Path(sysconfig.get_path("data"))}}}]
"""


def play(spack: Path, name: str | None) -> None:
    """What fails from now on (recorded/spack/manifest.tsv), or nothing."""
    (spack / "bin/play").write_text(name or "")


def log(spack: Path) -> list[dict[str, Any]]:
    """Each call since checkout(): its `argv` without the program, its `cwd` and what of its `env` matters."""
    calls = spack / "bin/calls.jsonl"
    return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []


def calls(spack: Path) -> list[list[str]]:
    return [call["argv"] for call in log(spack)]


def _commit(directory: Path, tag: str) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main", "-c", "advice.detachedHead=false")
        env = {**os.environ, **_GIT_ENVIRONMENT}
        subprocess.run(["git", *identity, *words], cwd=directory, env=env, check=True, capture_output=True)

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", tag)
    git("tag", tag)
