"""Launchers: the command lines that start a point's ranks on its nodes (srun, mpiexec, mpirun), and their limits."""

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
    """The process manager of an MPI library."""

    mpi: str
    names: tuple[str, ...]  # of its program
    says: str  # pattern of the program's output; its group is the version
    remedy: str  # how to get it


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
    """A way to start the ranks of a tool."""

    name: str
    nodes: int | None  # the most nodes that it reaches; None: no limit
    ranks: int | None  # the most MPI ranks that it starts; None: no limit
    allocated: bool = False  # on the nodes of a Slurm allocation, else on this machine
    mpi: str = "MPICH"  # the MPI library that it works with
    manager: Manager | None = None  # None: srun starts the ranks
    pmi: str | None = None  # the interface between srun and MPI (`srun --mpi`)

    def argv(
        self,
        command: Sequence[str],
        mpi: bool,
        tasks: int,
        mpiexec: str = "mpiexec",
        hosts: Sequence[str] = (),
        binding: Binding | None = None,
    ) -> list[str]:
        """The command that starts `tasks` ranks of an MPI program, evenly over hosts; any other program unchanged.

        `hosts`: nodes of the allocation, in its order. `binding`: CPUs of a node's ranks. A program that needs no
        launcher is bound by the process that starts it.
        """
        if not mpi or self.ranks is not None:
            return list(command)
        per_node = tasks // max(1, len(hosts))
        if binding and len(binding.ranks) != per_node:  # ranks beyond a list that is too short would stay unbound
            raise ValueError(f"{per_node} ranks on a node, and CPUs for {len(binding.ranks)}")
        if self.manager is HYDRA:
            bound = (
                ["-bind-to", "user:" + ",".join("+".join(map(str, sorted(cpus))) for cpus in binding.ranks)]
                if binding
                else []
            )
            if not self.allocated:
                return [mpiexec, *_LOCAL, *bound, "-n", str(tasks), *command]
            on_hosts = ("-hosts", ",".join(hosts), "-ppn", str(per_node))
            return [mpiexec, *_ALLOCATED, *bound, *on_hosts, "-n", str(tasks), *command]
        placed = (f"--nodes={len(hosts)}", f"--nodelist={folded(hosts)}", f"--ntasks={tasks}")
        rank = "OMPI_COMM_WORLD_LOCAL_RANK" if self.manager else "SLURM_LOCALID"
        bound = ["/bin/sh", "-c", _BIND % rank, " ".join(map(listed, binding.ranks))] if binding else []
        if self.manager is OPEN_MPI:
            on_hosts = ("--host", ",".join(f"{host}:{per_node}" for host in hosts), "-n", str(tasks))
            return [mpiexec, "--map-by", "slot", "--bind-to", "none", *on_hosts, *_BUFFERED, *bound, *command]
        return ["srun", *_STEP, f"--mpi={self.pmi}", *placed, f"--ntasks-per-node={per_node}", *bound, *command]

    def lacks(self, point: Point) -> tuple[dict[str, int], str] | None:
        """The needs of a point that this launcher does not meet, and the reason in words; None if it meets all."""
        if self.nodes is not None and point.nodes > self.nodes:
            return {
                "nodes": point.nodes
            }, f"{point.nodes} nodes are needed; the launcher {self.name} reaches {self.nodes}"
        if self.ranks is not None and point.tasks > self.ranks and tools()[point.tool].mpi:
            needed = f"{point.tasks} MPI ranks are needed; the launcher {self.name} starts {self.ranks}"
            return {"ranks": point.tasks}, needed
        return None


#: Options of hydra on this machine: no batch system, no remote shell, no name that must resolve. Ranks communicate
#: through memory, as otherwise each would open a port. Hydra itself listens on a port; no option prevents that.
_LOCAL = (
    *("-launcher", "fork", "-rmk", "user", "-localhost", "127.0.0.1"),
    *("-genv", "UCX_TLS", "shm,self"),
)
#: Options of hydra in an allocation: it starts its proxies by srun. The hosts are passed as an option, because from the
#: variables SLURM_* alone hydra would put all ranks on one node.
_ALLOCATED = ("-launcher", "slurm", "-rmk", "user")


#: Options of srun. --overlap: the step shares the CPUs of the agents' step (no -c, which would reserve CPUs).
#: --overcommit: many sites count cores. --distribution=block: nodes are filled in turn, so that the tools, which shift
#: ranks for reading, reach another node.
_STEP = ("--overlap", "--overcommit", "--distribution=block", "--cpu-bind=none", "--kill-on-bad-exit=1")
#: Buffers the output of ranks: on the terminals of mpirun IOR would print a line before MPI_Init, and looks at masks
#: count from the first output on.
_BUFFERED = ("stdbuf", "-o4096")
#: Binds a rank and executes the command: rank k of a node gets the CPU list k of $0. Not by srun's --cpu-bind, which
#: silently does nothing at the many sites without TaskPlugin=task/affinity.
_BIND = 'k=$%s; for cpus in $0; do [ $k = 0 ] && exec taskset -c $cpus "$@"; k=$((k-1)); done; exit 1'


#: Launchers on this machine: `direct` starts tools without a launcher, `mpiexec` starts MPI tools by MPICH's hydra.
LAUNCHERS = {
    launcher.name: launcher
    for launcher in (Launcher("direct", nodes=1, ranks=1), Launcher("mpiexec", nodes=1, ranks=None, manager=HYDRA))
}
#: Launchers on the nodes of a Slurm job: srun with either process management interface of MPI libraries (PMI-2, PMIx),
#: or the process managers of these libraries.
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
    """The launchers under a scheduler (`slurm` or None) by name. Raises KeyError for any other scheduler."""
    return {None: LAUNCHERS, "slurm": SLURM_LAUNCHERS}[scheduler]


def subset(hosts: Sequence[str], nodes: int, repetition: int) -> tuple[str, ...]:
    """The nodes of an allocation on which a repetition of a smaller point runs, in the allocation's order. Pure.

    Repetitions rotate over the nodes, so that a peculiar node is not mistaken for a property of the storage.
    """
    first = (repetition - 1) * nodes % len(hosts)
    indices = {(first + k) % len(hosts) for k in range(nodes)}
    return tuple(hosts[k] for k in sorted(indices))
