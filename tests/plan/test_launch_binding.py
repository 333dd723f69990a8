"""How a placement is said to srun, to hydra and to fio: the exact words."""

import pytest

from iosweep.hostlist import folded
from iosweep.node.cpus import parse
from iosweep.node.pinning import Binding
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher
from iosweep.tools import tools

IOR = ["ior", "-a", "POSIX", "-o", "/t/a b/data"]
HYDRA = ["/x/mpiexec", "-launcher", "slurm", "-rmk", "user"]
LOCAL = ["/x/mpiexec", "-launcher", "fork", "-rmk", "user", "-localhost", "127.0.0.1", "-genv", "UCX_TLS", "shm,self"]


def bound(ranks: str, usable: str = "0-63", crowded: bool = False) -> Binding:
    """`1 0,48`: rank 0 on CPU 1, rank 1 on CPUs 0 and 48."""
    return Binding(tuple(map(parse, ranks.split())), parse(usable), crowded)


@pytest.mark.parametrize(
    ("binding", "tasks", "hosts", "overcommit", "said"),
    [
        (bound("1"), 1, ("n1",), [], "map_cpu:1"),
        (bound("0 4 2 6"), 4, ("n1",), [], "map_cpu:0,4,2,6"),  # in the order of the ranks, not of the numbers
        (bound("1 0"), 4, ("n1", "n2"), [], "map_cpu:1,0"),  # for one node; the same on each
        (bound("0 1", "0-1"), 2, ("n1",), [], "map_cpu:0,1"),  # as many as there are
        (bound("0 1 0", "0-1", crowded=True), 3, ("n1",), ["--overcommit"], "map_cpu:0,1,0"),
        (bound("1 1 1 1", "1", crowded=True), 8, ("n1", "n2"), ["--overcommit"], "map_cpu:1,1,1,1"),
        (bound("0,48 1,49"), 2, ("n1",), [], "mask_cpu:0x1000000000001,0x2000000000002"),
        (bound("5 0,8"), 2, ("n1",), [], "mask_cpu:0x20,0x101"),  # a core of which one thread may be used
        (bound("63 127,255", "0-255"), 2, ("n1",), [], f"mask_cpu:0x8{'0' * 15},{hex(1 << 127 | 1 << 255)}"),
        (bound("0,2 1,3 0,2", "0-3", crowded=True), 3, ("n1",), ["--overcommit"], "mask_cpu:0x5,0xa,0x5"),
        (None, 3, ("n1",), ["--overcommit"], "none"),
    ],
)
@pytest.mark.parametrize(("name", "pmi"), [("srun", "pmi2"), ("srun-pmix", "pmix")])
def test_srun(
    binding: Binding | None, tasks: int, hosts: tuple[str, ...], overcommit: list[str], said: str, name: str, pmi: str
) -> None:
    argv = SLURM_LAUNCHERS[name].argv(IOR, True, tasks, "/x/mpiexec", hosts, binding)
    where = [f"--nodes={len(hosts)}", f"--nodelist={folded(hosts)}", f"--ntasks={tasks}"]
    step = ["--overlap", *overcommit, "--distribution=block", f"--cpu-bind={said}", "--kill-on-bad-exit=1"]
    assert argv == ["srun", *step, f"--mpi={pmi}", *where, f"--ntasks-per-node={tasks // len(hosts)}", *IOR]


@pytest.mark.parametrize(
    ("binding", "tasks", "hosts", "said"),
    [
        (bound("1"), 1, ("n1",), "user:1"),
        (bound("0 4 2 6"), 4, ("n1",), "user:0,4,2,6"),
        (bound("1 0"), 6, ("n1", "n2", "n9"), "user:1,0"),
        (bound("0 1 0", "0-1"), 3, ("n1",), "user:0,1,0"),
        (bound("1,8 0,48"), 2, ("n1",), "user:1+8,0+48"),
        (bound("0-2,8 3"), 2, ("n1",), "user:0+1+2+8,3"),  # hydra knows no ranges
    ],
)
def test_hydra(binding: Binding, tasks: int, hosts: tuple[str, ...], said: str) -> None:
    """The list has an entry for each rank of a node: ranks beyond its end would not be bound, without a word."""
    argv = SLURM_LAUNCHERS["mpiexec"].argv(IOR, True, tasks, "/x/mpiexec", hosts, binding)
    over = ["-hosts", ",".join(hosts), "-ppn", str(tasks // len(hosts)), "-n", str(tasks)]
    assert argv == [*HYDRA, "-bind-to", said, *over, *IOR]
    assert len(said.split(",")) == tasks // len(hosts)
    if len(hosts) == 1:
        argv = LAUNCHERS["mpiexec"].argv(IOR, True, tasks, "/x/mpiexec", binding=binding)
        assert argv == [*LOCAL, "-bind-to", said, "-n", str(tasks), *IOR]


@pytest.mark.parametrize("launcher", [*SLURM_LAUNCHERS.values(), LAUNCHERS["mpiexec"]], ids=lambda one: one.name)
@pytest.mark.parametrize("ranks", ["1", "0 1 2"])
def test_a_list_of_another_length_is_refused(launcher: Launcher, ranks: str) -> None:
    hosts = ("n1", "n2") if launcher.allocated else ()
    with pytest.raises(ValueError, match="2 ranks on a node"):
        launcher.argv(IOR, True, 4 if hosts else 2, "/x/mpiexec", hosts, bound(ranks))


def test_what_no_launcher_starts_is_left_as_it_is() -> None:
    """`direct`, and fio, which binds its workers itself."""
    assert LAUNCHERS["direct"].argv(IOR, True, 1, binding=bound("1")) == IOR
    for launcher in (*LAUNCHERS.values(), *SLURM_LAUNCHERS.values()):
        assert launcher.argv(["fio"], False, 8, "/x/mpiexec", ("n1",), bound("0 1")) == ["fio"]


@pytest.mark.parametrize(
    ("workers", "allowed", "policy"),
    [
        ("3", "3", "split"),
        ("0 1 2", "0-2", "split"),
        ("0 4 2 6", "0,2,4,6", "split"),  # fio deals them out by their numbers; each worker has one
        ("0-3 0-3 0-3 0-3 0-3", "0-3", "shared"),
        ("1 1", "1", "shared"),
        ("0,5 0,5", "0,5", "shared"),
    ],
)
def test_fio(workers: str, allowed: str, policy: str) -> None:
    said = tools()["fio"].bound(tuple(map(parse, workers.split())))
    assert said == [f"--cpus_allowed={allowed}", f"--cpus_allowed_policy={policy}"]


@pytest.mark.parametrize("tool", ["ior", "mdtest"])
def test_ranks_are_bound_by_their_launcher(tool: str) -> None:
    assert tools()[tool].bound((parse("0"), parse("1"))) == []
