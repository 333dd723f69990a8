"""Runs every built binary once, because Spack checks neither that builds run nor that externals exist."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iosweep.errors import BuildError, Obstacle
from iosweep.node.process import Completed
from iosweep.plan import launchers
from iosweep.plan.launchers import LAUNCHERS, Mpiexec
from iosweep.programs import find as programs
from iosweep.programs.find import Program
from iosweep.programs.spack.packages import Package, owner
from iosweep.target.agent import Agent
from iosweep.text import printable
from iosweep.tools import tools

#: Ranks of the MPI test, and the time limit of each program in seconds.
RANKS, _ANSWER_S = 2, 60.0


@dataclass(frozen=True)
class Verified:
    """The programs that run. `ranks`: number of ranks that found each other; None where nothing starts ranks here."""

    programs: Mapping[str, Program]
    engines: tuple[str, ...]  # of fio
    mpiexec: Mpiexec | None
    ranks: int | None


def verify(path: Sequence[Path], roots: Collection[str], engines: Collection[str], scratch: Path) -> Verified:
    """Run the programs in the directories `path`. The MPI test writes below `scratch`.

    roots: names of the requested packages; engines: those that fio must have. Raises BuildError.
    """
    search = os.pathsep.join(map(str, path))
    with Agent() as agent:
        found: dict[str, Program] = {}
        for name, tool in tools().items():
            path_of = shutil.which(tool.program, path=search)
            if path_of is None:
                if name in roots:
                    raise BuildError(f"{name} is among the specs, and {tool.program} is in none of {search}")
                continue
            _linked(path_of, agent)  # first: a program that lacks a library does not run
            program = programs.find(tool, agent.run, search)
            if not isinstance(program, Program):
                hint = f"; {_HINT}" if program.signal == signal.SIGILL else ""
                raise BuildError(f"{program.reason}{hint}")
            found[name] = program
        has = _engines(found["fio"], agent) if "fio" in found else ()
        if "fio" in found and (lacking := sorted(set(engines) - set(has))):
            raise BuildError(
                f"fio is built without {', '.join(lacking)}, which sweeps use; build it with that (fio+libaio), or take"
                f" another ioengine (it has {', '.join(has)})"
            )
        mpiexec = launchers.mpiexec(search)
        if isinstance(mpiexec, Obstacle) or "ior" not in found:
            return Verified(found, has, None if isinstance(mpiexec, Obstacle) else mpiexec, None)
        _ranks(mpiexec, found["ior"], agent, scratch)
    return Verified(found, has, mpiexec, RANKS)


#: After an illegal instruction.
_HINT = "it is built for another processor; name an older target in spack.yaml (packages: all: target)"


def _linked(path: str, agent: Agent) -> None:
    """Check that every shared library is found. Raises BuildError."""
    if not shutil.which("ldd"):
        return
    printed = _printed(agent.run(["ldd", path], _ANSWER_S))
    if lacking := re.findall(r"^\s*(\S+) => not found", printed, re.MULTILINE):
        raise BuildError(f"{path} does not find {', '.join(sorted(set(lacking)))}; load what it needs, or build it")


def _engines(fio: Program, agent: Agent) -> tuple[str, ...]:
    printed = _printed(agent.run([fio.path, "--enghelp"], _ANSWER_S))
    return tuple(sorted(set(re.findall(r"^\s+(\w+)\s*$", printed, re.MULTILINE))))


def _ranks(mpiexec: Mpiexec, ior: Program, agent: Agent, scratch: Path) -> None:
    """Check that ranks find each other. Raises BuildError."""
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        command = [ior.path, "-a", "POSIX", "-w", "-b", "4k", "-t", "4k", "-o", f"{directory}/ranks"]
        argv = LAUNCHERS["mpiexec"].argv(command, True, RANKS, mpiexec.path)
        done = agent.run(argv, _ANSWER_S, Path(directory))
    printed = _printed(done)
    seen = re.search(r"^(?:Participating tasks|tasks)\s*:\s*(\d+)", printed, re.MULTILINE)
    if done.exit_code or done.timed_out or not seen:
        last = next((line for line in reversed(printed.splitlines()) if line.strip()), "nothing was said")
        raise BuildError(f"{RANKS} ranks of ior do not start with {mpiexec.path}: {printable(last[:200])}")
    if int(seen[1]) != RANKS:
        raise BuildError(
            f"of {RANKS} ranks of ior each is alone: ior ({ior.path}) is built with another MPI than {mpiexec.path}"
        )


def doubts(verified: Verified, packages: Sequence[Package], used: Collection[str]) -> list[str]:
    """Differences from the request, one sentence each; `used`: tools that sweeps use. Pure."""
    found = [
        f"{name}, which sweeps use, is not among what is built; its points will be missing"
        for name in sorted(set(used) - set(verified.programs))
    ]
    versions = [(p.path, p.version.removeprefix(f"{name}-")) for name, p in sorted(verified.programs.items())]
    if verified.mpiexec:
        versions.append((verified.mpiexec.path, verified.mpiexec.version))
    for path, version in versions:
        package = owner(path, packages)
        if package and package.version[:1].isdigit() and not version.startswith(package.version):
            right = "; correct its spec in spack.yaml" if package.external else ""
            found.append(f"{path} says {version}, and its package is {package.name}@{package.version}{right}")
    return found


def _printed(done: Completed) -> str:
    return (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")


def documents(
    verified: Verified, packages: Sequence[Package]
) -> tuple[dict[str, dict[str, object]], dict[str, object] | None]:
    """(`tools`, `mpi`) of tools.json. Pure."""
    described: dict[str, dict[str, object]] = {}
    for name, program in verified.programs.items():
        package = owner(program.path, packages)
        described[name] = {
            "path": program.path,
            "sha256": program.sha256,
            "version": program.version,
            "package": package.spec if package else None,
        }
    if "fio" in described:
        described["fio"]["engines"] = list(verified.engines)
    mpiexec, provider = verified.mpiexec, next((package for package in packages if package.provides_mpi), None)
    if not provider and mpiexec:  # nothing among the specs needs it
        provider = owner(mpiexec.path, packages)
    if not provider and not mpiexec:
        return described, None
    version = mpiexec.version if mpiexec else provider.version if provider else None
    return described, {
        "path": mpiexec.path if mpiexec else None,
        "version": version,
        "package": provider.spec if provider else None,
        "external": provider.external if provider else None,
        "ranks": verified.ranks,
    }
