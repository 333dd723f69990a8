"""Launchers: how a point's processes start on its nodes. A command line is a list, never a string."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iosweep.hostlist import folded
from iosweep.node.cpus import listed
from iosweep.node.pinning import Binding
from iosweep.plan.model import Point
from iosweep.tools import tools


@dataclass(frozen=True)
class Manager:
    """The process manager of an MPI library. `says`: pattern of its program's output, with the version.
    `remedy`: how to get it."""

    mpi: str
    names: tuple[str, ...]
    says: str
    remedy: str


HYDRA = Manager(
    "MPICH",
    ("mpiexec.hydra", "mpiexec"),
    r"(?s)HYDRA(?:.*?Version: *(\S+))?",
    "`make venv` installs one, as do apt-get install mpich and Spack",
)
OPEN_MPI = Manager(
    "Open MPI",
    ("mpirun.openmpi", "mpirun"),
    r"\(Open(?:RTE| MPI)\) (\S+)",
    "load its module before snakemake starts, or set another launcher",
)


@dataclass(frozen=True)
class Launcher:
    """`nodes`: most nodes that it reaches; `ranks`: most MPI ranks that it starts. None: as many as are asked for.

    `allocated`: it starts ranks on the nodes of a Slurm allocation, else on this machine. `mpi`: the library that it is
    for. `manager`: what starts the ranks; None: srun, and `pmi` is how it and MPI find each other (`srun --mpi`).
    """

    name: str
    nodes: int | None
    ranks: int | None
    allocated: bool = False
    mpi: str = "MPICH"
    manager: Manager | None = None
    pmi: str | None = None

    def argv(
        self,
        command: Sequence[str],
        mpi: bool,
        tasks: int,
        mpiexec: str = "mpiexec",
        hosts: Sequence[str] = (),
        binding: Binding | None = None,
    ) -> list[str]:
        """The command that starts `tasks` ranks of an MPI program, as many on each host; or another program as it is.

        `hosts`: nodes of the allocation, in its order. `binding`: a node's ranks are bound so. What starts without a
        launcher is bound by who starts it.
        """
        if not mpi or self.ranks is not None:
            return list(command)
        per_node = tasks // max(1, len(hosts))
        if binding and len(binding.ranks) != per_node:  # a list that is too short leaves the others unbound, silently
            raise ValueError(f"{per_node} ranks on a node, and CPUs for {len(binding.ranks)}")
        if self.manager is HYDRA:
            bound = (
                ["-bind-to", "user:" + ",".join("+".join(map(str, sorted(cpus))) for cpus in binding.ranks)]
                if binding
                else []
            )
            if not self.allocated:
                return [mpiexec, *_LOCAL, *bound, "-n", str(tasks), *command]
            over = ("-hosts", ",".join(hosts), "-ppn", str(per_node))
            return [mpiexec, *_ALLOCATED, *bound, *over, "-n", str(tasks), *command]
        placed = (f"--nodes={len(hosts)}", f"--nodelist={folded(hosts)}", f"--ntasks={tasks}")
        rank = "OMPI_COMM_WORLD_LOCAL_RANK" if self.manager else "SLURM_LOCALID"
        bound = ["/bin/sh", "-c", _BIND % rank, " ".join(map(listed, binding.ranks))] if binding else []
        if self.manager is OPEN_MPI:
            over = ("--host", ",".join(f"{host}:{per_node}" for host in hosts), "-n", str(tasks))
            return [mpiexec, "--map-by", "slot", "--bind-to", "none", *over, *_BUFFERED, *bound, *command]
        return ["srun", *_STEP, f"--mpi={self.pmi}", *placed, f"--ntasks-per-node={per_node}", *bound, *command]

    def lacks(self, point: Point) -> tuple[dict[str, int], str] | None:
        """The needs of a point that this launcher does not meet, and the reason in words; None without any."""
        if self.nodes is not None and point.nodes > self.nodes:
            return {
                "nodes": point.nodes
            }, f"{point.nodes} nodes are needed; the launcher {self.name} reaches {self.nodes}"
        if self.ranks is not None and point.tasks > self.ranks and tools()[point.tool].mpi:
            needed = f"{point.tasks} MPI ranks are needed; the launcher {self.name} starts {self.ranks}"
            return {"ranks": point.tasks}, needed
        return None


#: On this machine alone: no batch system, no remote shell, no name that must resolve; ranks talk through memory, or
#: each would open a port. Hydra itself listens on a port while it runs; no option prevents that.
_LOCAL = (
    *("-launcher", "fork", "-rmk", "user", "-localhost", "127.0.0.1"),
    *("-genv", "UCX_TLS", "shm,self"),
)
#: Over an allocation hydra starts its proxies with srun. The hosts are an option: it finds only some of the variables
#: SLURM_*, and would put all ranks on one node.
_ALLOCATED = ("-launcher", "slurm", "-rmk", "user")


#: A step of srun's beside that of the agents (--overlap; no -c, which would give it CPUs of its own). Many sites count
#: cores (--overcommit). Ranks are dealt out node by node, so that the tools' shift of ranks reaches another node.
_STEP = ("--overlap", "--overcommit", "--distribution=block", "--cpu-bind=none", "--kill-on-bad-exit=1")
#: On mpirun's terminals ranks print at once, IOR a line before MPI_Init, and looks at CPUs count from the first output.
_BUFFERED = ("stdbuf", "-o4096")
#: Binds a rank, and becomes the command: rank k of a node gets the CPU list k of $0. Not by srun's --cpu-bind: without
#: TaskPlugin=task/affinity, as many sites have it, that does nothing and says so to nobody.
_BIND = 'k=$%s; for cpus in $0; do [ $k = 0 ] && exec taskset -c $cpus "$@"; k=$((k-1)); done; exit 1'


#: On this machine: `direct` starts tools as they are, `mpiexec` those with MPI by MPICH's hydra.
LAUNCHERS = {
    launcher.name: launcher
    for launcher in (Launcher("direct", nodes=1, ranks=1), Launcher("mpiexec", nodes=1, ranks=None, manager=HYDRA))
}
#: On the nodes of a Slurm job: by srun, with either of the two ways that MPI libraries know, or by their own managers.
SLURM_LAUNCHERS = {
    launcher.name: launcher
    for launcher in (
        Launcher("srun", nodes=None, ranks=None, allocated=True, pmi="pmi2"),
        Launcher("srun-pmix", nodes=None, ranks=None, allocated=True, pmi="pmix", mpi="Open MPI"),
        Launcher("mpiexec", nodes=None, ranks=None, allocated=True, manager=HYDRA),
        Launcher("mpirun", nodes=None, ranks=None, allocated=True, manager=OPEN_MPI, mpi="Open MPI"),
    )
}


def launchers(scheduler: str | None) -> dict[str, Launcher]:
    """The launchers under a scheduler, `slurm` or None, by name. Raises KeyError for another scheduler."""
    return {None: LAUNCHERS, "slurm": SLURM_LAUNCHERS}[scheduler]


def subset(hosts: Sequence[str], nodes: int, repetition: int) -> tuple[str, ...]:
    """The nodes of an allocation that a repetition of a point with fewer nodes runs on, in the allocation's order.

    Another subset for each repetition, so that no node's peculiarity is taken for the system's. Pure.
    """
    first = (repetition - 1) * nodes % len(hosts)
    chosen = {(first + k) % len(hosts) for k in range(nodes)}
    return tuple(hosts[k] for k in sorted(chosen))
