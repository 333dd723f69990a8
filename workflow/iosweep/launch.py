"""Launchers: how a point's processes start on its nodes. A command line is a list, never a string."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from iosweep.plan import Point
from iosweep.tools import tools


@dataclass(frozen=True)
class Launcher:
    """`nodes`: most nodes that it reaches; `ranks`: most MPI ranks that it starts. None: as many as are asked for."""

    name: str
    nodes: int | None
    ranks: int | None

    def argv(self, command: Sequence[str], mpi: bool, tasks: int, mpiexec: str = "mpiexec") -> list[str]:
        """The command that starts `tasks` ranks of an MPI program, or another program once on every node."""
        if not mpi or self.ranks is not None:
            return list(command)
        return [mpiexec, *_LOCAL, "-n", str(tasks), *command]

    def lacks(self, point: Point) -> tuple[dict[str, int], str] | None:
        """What a point needs that this launcher does not have, and the reason in words; None if it can start it."""
        if self.nodes is not None and point.nodes > self.nodes:
            return {
                "nodes": point.nodes
            }, f"{point.nodes} nodes are needed; the launcher {self.name} reaches {self.nodes}"
        if self.ranks is not None and point.tasks > self.ranks and tools()[point.tool].mpi:
            needed = f"{point.tasks} MPI ranks are needed; the launcher {self.name} starts {self.ranks}"
            return {"ranks": point.tasks}, needed
        return None


#: On this machine alone: no batch system, no remote shell, no name that must resolve; ranks talk through memory, or
#: each would open a port. Hydra itself listens on one while it runs, and has no way not to.
_LOCAL = (
    *("-launcher", "fork", "-rmk", "user", "-localhost", "127.0.0.1"),
    *("-genv", "UCX_TLS", "shm,self"),
)

#: `direct` starts tools as they are, on this machine; `mpiexec` those with MPI by MPICH's hydra.
LAUNCHERS = {
    launcher.name: launcher
    for launcher in (Launcher("direct", nodes=1, ranks=1), Launcher("mpiexec", nodes=1, ranks=None))
}


@dataclass(frozen=True)
class Mpiexec:
    """MPICH's process manager."""

    path: str
    version: str


def candidates() -> list[str]:
    """What may be hydra, in order: on PATH, or beside our Python (it comes with the lock). Starts nothing."""
    places = (("mpiexec.hydra", None), ("mpiexec", None), ("mpiexec", sysconfig.get_path("scripts")))
    return [path for name, folder in places if (path := shutil.which(name, path=folder))]


@cache
def mpiexec() -> Mpiexec | str:
    """The first hydra there is, or why there is none."""
    seen = []
    for path in candidates():
        try:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            said = ""
        if "HYDRA" in said:
            version = next((line.split(":", 1)[1].strip() for line in said.splitlines() if "Version:" in line), "")
            return Mpiexec(str(Path(path)), version)
        seen.append(path)
    found = f" ({', '.join(seen)} is another's)" if seen else ""
    return f"there is no mpiexec of MPICH{found}; `make venv` installs one, as do apt-get install mpich and Spack"
