"""How a tool's processes start and are bound: the exact commands of the launchers, and which mpiexec is taken."""

import math
import os
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaign import document, make
from iosweep.errors import Obstacle
from iosweep.hostlist import folded
from iosweep.node.cpus import parse
from iosweep.node.pinning import Binding
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher, subset
from iosweep.plan.model import seed_of
from iosweep.programs.programs import Mpiexec, mpiexec
from iosweep.run.repetition import tool_commands
from iosweep.tools import Step, tools

DIRECT, MPIEXEC, SRUN = LAUNCHERS["direct"], LAUNCHERS["mpiexec"], SLURM_LAUNCHERS["srun"]
FIO = ["fio", "--name=rand_read", "--directory=/t/a b"]
IOR = ["ior", "-a", "POSIX", "-o", "/t/a b/data"]
#: What keeps hydra on this machine: no batch system, no remote shell, no name to look up, no port for each rank.
LOCAL = ["/x/mpiexec", "-launcher", "fork", "-rmk", "user", "-localhost", "127.0.0.1", "-genv", "UCX_TLS", "shm,self"]
HYDRA = ["/x/mpiexec", "-launcher", "slurm", "-rmk", "user"]
#: A step of srun's whose ranks are not bound.
STEP = ["srun", "--overlap", "--overcommit", "--distribution=block", "--cpu-bind=none", "--kill-on-bad-exit=1"]


@pytest.mark.parametrize(
    ("launcher", "tasks", "hosts", "expected"),
    [
        (DIRECT, 1, (), []),
        (MPIEXEC, 12, (), [*LOCAL, "-n", "12"]),
        (SRUN, 4, ("n1", "n2"),
         [*STEP, "--mpi=pmi2", "--nodes=2", "--nodelist=n[1-2]", "--ntasks=4", "--ntasks-per-node=2"]),
        (SLURM_LAUNCHERS["srun-pmix"], 3, ("b7", "b1", "b9"),
         [*STEP, "--mpi=pmix", "--nodes=3", "--nodelist=b[7,1,9]", "--ntasks=3", "--ntasks-per-node=1"]),
        (SLURM_LAUNCHERS["mpiexec"], 4, ("n1", "n2"), [*HYDRA, "-hosts", "n1,n2", "-ppn", "2", "-n", "4"]),
        (SLURM_LAUNCHERS["mpirun"], 4, ("n1", "n2"),
         ["/x/mpiexec", "--map-by", "slot", "--bind-to", "none", "--host", "n1:2,n2:2", "-n", "4", "stdbuf", "-o4096"]),
    ],
)  # fmt: skip
def test_ranks_are_started_by_the_launcher_and_fio_as_it_is(
    launcher: Launcher, tasks: int, hosts: tuple[str, ...], expected: list[str]
) -> None:
    assert launcher.argv(IOR, True, tasks, "/x/mpiexec", hosts) == [*expected, *IOR]
    assert launcher.argv(FIO, False, tasks, "/x/mpiexec", hosts) == FIO  # once on each node, by the agents


# How they are bound


def bound(ranks: str) -> Binding:
    """`1 0,48`: rank 0 on CPU 1, rank 1 on CPUs 0 and 48."""
    return Binding(tuple(map(parse, ranks.split())))


@pytest.mark.parametrize(
    ("binding", "hosts", "srun", "hydra"),
    [
        (bound("0 4 2 6"), ("n1",), "0 4 2 6", "0,4,2,6"),  # in the order of the ranks, not of the numbers
        (bound("1 0"), ("n1", "n2"), "1 0", "1,0"),  # for one node; the same on each
        (bound("0,48 1,49"), ("n1",), "0,48 1,49", "0+48,1+49"),
        (bound("0-2,8 3"), ("n1", "n2", "n9"), "0-2,8 3", "0+1+2+8,3"),  # hydra knows no ranges
    ],
)
def test_ranks_are_bound_to_their_cpus_in_the_words_of_taskset_and_hydra(
    binding: Binding, hosts: tuple[str, ...], srun: str, hydra: str
) -> None:
    """The list has an entry for each rank of a node: ranks beyond its end would not be bound, without a word."""
    each = len(binding.ranks)
    tasks = each * len(hosts)
    where = [f"--nodes={len(hosts)}", f"--nodelist={folded(hosts)}", f"--ntasks={tasks}", f"--ntasks-per-node={each}"]
    found = SRUN.argv(IOR, True, tasks, "/x/mpiexec", hosts, binding)
    start = [*STEP, "--mpi=pmi2", *where, "/bin/sh", "-c"]
    assert (found[: len(start)], found[len(start) + 1 :]) == (start, [srun, *IOR])
    over = ["-hosts", ",".join(hosts), "-ppn", str(each), "-n", str(tasks)]
    found = SLURM_LAUNCHERS["mpiexec"].argv(IOR, True, tasks, "/x/mpiexec", hosts, binding)
    assert found == [*HYDRA, "-bind-to", f"user:{hydra}", *over, *IOR]
    found = MPIEXEC.argv(IOR, True, each, "/x/mpiexec", binding=binding)
    assert found == [*LOCAL, "-bind-to", f"user:{hydra}", "-n", str(each), *IOR]


@pytest.mark.local
@pytest.mark.parametrize(("launcher", "local"), [("srun", "SLURM_LOCALID"), ("mpirun", "OMPI_COMM_WORLD_LOCAL_RANK")])
def test_a_rank_has_its_cpus_before_the_tool_begins_whatever_slurm_binds(launcher: str, local: str) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    wanted = [{cpus[-1]}, {cpus[0]}, {cpus[0], cpus[-1]}]
    tell = [sys.executable, "-c", "import os, sys; print(sorted(os.sched_getaffinity(0)), sys.argv[1])", "$HOME; '*"]
    argv = SLURM_LAUNCHERS[launcher].argv(tell, True, 3, "", ("n1",), Binding(tuple(map(frozenset, wanted))))
    command = argv[argv.index("/bin/sh") :]
    for rank, own in enumerate([*wanted, None]):  # the last is beyond the list
        done = subprocess.run(command, env=os.environ | {local: str(rank)}, capture_output=True, text=True)
        said = f"{sorted(own)} $HOME; '*\n" if own else ""
        assert (bool(done.returncode), done.stdout) == (own is None, said)


@pytest.mark.parametrize("launcher", [*SLURM_LAUNCHERS.values(), MPIEXEC], ids=lambda one: one.name)
def test_a_list_that_would_leave_ranks_unbound_is_refused(launcher: Launcher) -> None:
    hosts = ("n1", "n2") if launcher.allocated else ()
    for ranks in ("1", "0 1 2"):
        with pytest.raises(ValueError, match="2 ranks"):
            launcher.argv(IOR, True, 4 if hosts else 2, "/x/mpiexec", hosts, bound(ranks))


def test_what_no_launcher_starts_is_left_as_it_is_and_fio_binds_its_workers() -> None:
    assert DIRECT.argv(IOR, True, 1, binding=bound("1")) == IOR
    for launcher in (*LAUNCHERS.values(), *SLURM_LAUNCHERS.values()):
        assert launcher.argv(["fio"], False, 8, "/x/mpiexec", ("n1",), bound("0 1")) == ["fio"]
    for workers, allowed, policy in (
        ("3", "3", "split"),
        ("0 4 2 6", "0,2,4,6", "split"),  # fio deals them out by their numbers; each worker has one
        ("0-3 0-3 0-3 0-3 0-3", "0-3", "shared"),
        ("1 1", "1", "shared"),
        ("0,5 0,5", "0,5", "shared"),
    ):
        found = tools()["fio"].bound(tuple(map(parse, workers.split())))
        assert found == [f"--cpus_allowed={allowed}", f"--cpus_allowed_policy={policy}"]
    for tool in ("ior", "mdtest"):
        assert tools()[tool].bound((parse("0"), parse("1"))) == []


# On which nodes, and what is started once on each


@given(st.integers(1, 12), st.data())
def test_smaller_points_use_all_nodes_alike(size: int, data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, size))
    hosts = tuple(f"n{k}" for k in data.draw(st.permutations(range(size))))
    round_ = size // math.gcd(size, nodes)  # repetitions until the first nodes come again
    first = data.draw(st.integers(1, 50))
    chosen = [subset(hosts, nodes, first + k) for k in range(round_)]
    for each in chosen:
        assert len(set(each)) == nodes
        assert list(each) == sorted(each, key=hosts.index)  # the allocation's order
    assert len(set(chosen)) == round_  # no two alike before all nodes had their turn
    assert set(Counter(host for each in chosen for host in each).values()) == {nodes * round_ // size}
    assert subset(hosts, nodes, 1)[0] == hosts[0]


def test_fio_on_several_nodes_has_a_seed_and_a_directory_for_each(tmp_path: Path) -> None:
    phases = ["rand_read", "seq_write"]
    made = make(tmp_path, document(axes={"nodes": [1, 3]}, phases=phases, options={"write_mode": "new"}))
    one, three = sorted(made.points, key=lambda p: p.nodes)
    read, write = three.steps
    commands = tool_commands(made, three, read, 1, "/t/iosweep-quick")
    # that of the first differs from a single node's in nothing but its seed, so it reads the same files
    (single,) = tool_commands(made, one, one.steps[0], 1, "/t/iosweep-quick")
    assert [w for w in commands[0] if "randseed" not in w] == [w for w in single if "randseed" not in w]
    directories = [next(w for w in command if w.startswith("--directory=")) for command in commands]
    assert directories == [f"--directory=/t/iosweep-quick/sets/fio-read-1g-1{k}" for k in ("", ".node1", ".node2")]

    def words(step: Step, repetition: int, option: str) -> list[str]:
        commands = tool_commands(made, three, step, repetition, "/t")
        return [word.removeprefix(option) for command in commands for word in command if word.startswith(option)]

    seeds = words(read, 1, "--randseed=")
    assert len(set(seeds)) == 3
    assert seeds[0] == str(seed_of(made.seed, three.id, 1, "rand_read"))
    assert not set(seeds) & set(words(read, 2, "--randseed="))
    fresh = [f"/t/fresh/{three.id}-r2/seq_write/node{k}" for k in range(3)]
    assert words(write, 2, "--directory=") == fresh


# Which mpiexec

HYDRA_SAYS = "printf 'HYDRA build details:\\n    Version:                                 4.1\\n    CC: gcc\\n'"


@pytest.mark.local
def test_the_first_hydra_is_taken_of_path_or_else_of_the_lock_and_no_other_mpiexec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    def program(name: str, script: str) -> str:
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
        return str(tmp_path / name)

    find, ours = mpiexec.__wrapped__, f"{sysconfig.get_path('scripts')}/mpiexec"
    found = find()
    assert found.path == ours
    done = subprocess.run([ours, "--version"], capture_output=True, text=True, check=True)
    assert f"Version: {found.version}" in " ".join(done.stdout.split())
    path = program("mpiexec", HYDRA_SAYS)
    assert find() == Mpiexec(path, "4.1")
    for script in ("echo 'mpiexec (OpenRTE) 4.1.4'", "exec /nonexistent"):
        foreign = program("mpiexec", script)
        assert find().path == ours
        with monkeypatch.context() as patched:
            patched.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "no"))
            none = find()
            assert isinstance(none, Obstacle)
            assert foreign in str(none)
    path = program("mpiexec.hydra", HYDRA_SAYS)
    assert find() == find(str(tmp_path)) == Mpiexec(path, "4.1")


@pytest.mark.local
def test_the_real_hydra_binds_each_rank_and_asks_no_batch_system_around_us(tmp_path: Path) -> None:
    """Ranks write into files: of a rank that is very short hydra may lose the output. It would start them by srun, on
    the nodes of the job."""
    hydra = mpiexec()
    assert isinstance(hydra, Mpiexec)
    cpus = sorted(os.sched_getaffinity(0))
    ranks = [cpus[-1], cpus[0]]
    tell = """
import os, sys, time
rank = os.environ["PMI_RANK"]
with open(f"{rank}.tmp", "w") as file:
    print(os.environ["PMI_SIZE"], os.environ["UCX_TLS"], os.sched_getaffinity(0), sys.argv[1], file=file)
os.rename(f"{rank}.tmp", rank)
while not os.path.exists("0"):  # hydra may end the others when a rank fails
    time.sleep(0.01)
sys.exit(7 if rank == "1" else 0)
"""
    binding = Binding(tuple(frozenset({cpu}) for cpu in ranks))
    argv = MPIEXEC.argv([sys.executable, "-c", tell, "it's $HOME; *"], True, 2, hydra.path, binding=binding)
    job = {"SLURM_JOB_ID": "1", "SLURM_JOBID": "1", "SLURM_NODELIST": "far[1-3]", "SLURM_JOB_NUM_NODES": "3",
           "SLURM_TASKS_PER_NODE": "1(x3)", "SLURM_NNODES": "3"}  # fmt: skip
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, cwd=tmp_path, env=os.environ | job, timeout=600, check=False)
    assert done.returncode == 7  # of the rank that failed
    said = [(tmp_path / str(rank)).read_text() for rank in range(2)]
    assert said == [f"2 shm,self {{{cpu}}} it's $HOME; *\n" for cpu in ranks]
