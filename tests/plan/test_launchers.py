"""How a tool's processes start: the exact commands of the launchers, what they lack, and which mpiexec is taken."""

import math
import os
import signal
import subprocess
import sys
import sysconfig
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from campaign import document, make
from iosweep.config.sweeps import Repetitions
from iosweep.errors import Obstacle
from iosweep.plan import launchers as launch
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher, Mpiexec, subset
from iosweep.plan.model import Point, seed_of
from iosweep.run.launching import needs_mpiexec
from iosweep.run.repetition import places, tool_commands
from iosweep.tools import FileSet, tools

DIRECT, MPIEXEC = LAUNCHERS["direct"], LAUNCHERS["mpiexec"]
FIO = ["fio", "--name=rand_read", "--directory=/t/a b"]
IOR = ["ior", "-a", "POSIX", "-o", "/t/a b/data"]
#: What keeps hydra on this machine: no batch system, no remote shell, no name to look up, no port for each rank.
LOCAL = ["-launcher", "fork", "-rmk", "user", "-localhost", "127.0.0.1", "-genv", "UCX_TLS", "shm,self"]
VENV = Path(sysconfig.get_path("scripts"))


def point(tool: str, nodes: int = 1, threads: int = 1) -> Point:
    """One point of the tool's first phase, all options at their defaults."""
    known = tools()[tool]
    options: dict[str, Any] = {name: option.default for name, option in known.options.items()}
    phase = next(iter(known.phases))
    return Point("p", tool, (phase,), nodes, options | {"threads_per_node": threads}, None, Repetitions(1, 1), ("s",))


# Commands


@pytest.mark.parametrize(
    ("launcher", "command", "mpi", "tasks", "expected"),
    [
        (DIRECT, FIO, False, 8, FIO),
        (DIRECT, IOR, True, 1, IOR),
        (MPIEXEC, FIO, False, 8, FIO),  # its workers are its own
        (MPIEXEC, IOR, True, 1, ["/x/mpiexec", *LOCAL, "-n", "1", *IOR]),
        (MPIEXEC, IOR, True, 12, ["/x/mpiexec", *LOCAL, "-n", "12", *IOR]),
    ],
)
def test_the_command(launcher: Launcher, command: list[str], mpi: bool, tasks: int, expected: list[str]) -> None:
    before = list(command)
    argv = launcher.argv(command, mpi, tasks, "/x/mpiexec")
    assert argv == expected
    assert argv is not command
    assert command == before


STEP = ["--overlap", "--overcommit", "--distribution=block", "--cpu-bind=none", "--kill-on-bad-exit=1"]
HYDRA_STEP = ["/x/mpiexec", "-launcher", "slurm", "-rmk", "user"]


@pytest.mark.parametrize(
    ("name", "tasks", "hosts", "expected"),
    [
        ("srun", 4, ("n1", "n2"),
         ["srun", *STEP, "--mpi=pmi2", "--nodes=2", "--nodelist=n[1-2]", "--ntasks=4", "--ntasks-per-node=2"]),
        ("srun-pmix", 3, ("b7", "b1", "b9"),
         ["srun", *STEP, "--mpi=pmix", "--nodes=3", "--nodelist=b[7,1,9]", "--ntasks=3", "--ntasks-per-node=1"]),
        ("srun", 64, ("n2",),
         ["srun", *STEP, "--mpi=pmi2", "--nodes=1", "--nodelist=n2", "--ntasks=64", "--ntasks-per-node=64"]),
        ("mpiexec", 4, ("n1", "n2"), [*HYDRA_STEP, "-hosts", "n1,n2", "-ppn", "2", "-n", "4"]),
        ("mpiexec", 1, ("n2",), [*HYDRA_STEP, "-hosts", "n2", "-ppn", "1", "-n", "1"]),
    ],
)  # fmt: skip
def test_the_command_over_nodes_of_a_job(name: str, tasks: int, hosts: tuple[str, ...], expected: list[str]) -> None:
    launcher = SLURM_LAUNCHERS[name]
    assert launcher.argv(IOR, True, tasks, "/x/mpiexec", hosts) == [*expected, *IOR]
    assert launcher.argv(FIO, False, tasks, "/x/mpiexec", hosts) == FIO  # once on each node, by the agents


# What is lacking


@pytest.mark.parametrize(
    ("launcher", "tool", "nodes", "threads", "lacks"),
    [
        (DIRECT, "fio", 1, 64, None),
        (DIRECT, "ior", 1, 1, None),
        (MPIEXEC, "fio", 1, 64, None),
        (DIRECT, "fio", 2, 1, ({"nodes": 2}, "2 nodes are needed; the launcher direct reaches 1")),
        (MPIEXEC, "ior", 4, 1, ({"nodes": 4}, "4 nodes are needed; the launcher mpiexec reaches 1")),
        (DIRECT, "ior", 1, 4, ({"ranks": 4}, "4 MPI ranks are needed; the launcher direct starts 1")),
        (SLURM_LAUNCHERS["srun"], "ior", 1000, 64, None),
    ],
)
def test_what_a_point_needs_and_is_not_there(
    launcher: Launcher, tool: str, nodes: int, threads: int, lacks: tuple[dict[str, int], str] | None
) -> None:
    assert launcher.lacks(point(tool, nodes, threads)) == lacks


def test_client_server_mode_needs_nodes_of_a_job() -> None:
    asked = point("fio")
    asked = structs.replace(asked, options=asked.options | {"client_server": True})
    said = "client/server mode needs the nodes of a Slurm job; the launcher direct has none"
    assert DIRECT.lacks(asked) == ({"nodes": 0}, said)
    assert SLURM_LAUNCHERS["srun"].lacks(asked) is None
    assert MPIEXEC.lacks(structs.replace(asked, options=asked.options | {"client_server": None})) is None


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


@pytest.mark.parametrize(
    ("files", "nodes", "directories"),
    [
        (FileSet("sets/x", "read"), 1, ["sets/x"]),
        (FileSet("sets/x", "read"), 3, ["sets/x", "sets/x.node1", "sets/x.node2"]),
        (FileSet("sets/x", "write", of_all_nodes=True), 3, ["sets/x"]),
        (FileSet("fresh/p-r1", "fresh"), 1, ["fresh/p-r1"]),
        (FileSet("fresh/p-r1", "fresh"), 2, ["fresh/p-r1/node0", "fresh/p-r1/node1"]),
    ],
)
def test_what_each_node_works_on(files: FileSet, nodes: int, directories: list[str]) -> None:
    shares = files.shares(nodes)
    assert [share.directory for share in shares] == directories
    assert {replace(share, directory="") for share in shares} == {replace(files, directory="")}


def test_a_tool_that_is_started_once_on_each_node(tmp_path: Path) -> None:
    phases = ["rand_read", "seq_write"]
    made = make(tmp_path, document(axes={"nodes": [1, 3]}, phases=phases, options={"write_mode": "new"}))
    one, three = sorted(made.points, key=lambda p: p.nodes)
    read, write = three.steps()
    commands = tool_commands(made, three, read, 1, "/t/iosweep-quick")
    # that of the first differs from a single node's in nothing but its seed, so it reads the same files
    (single,) = tool_commands(made, one, one.steps()[0], 1, "/t/iosweep-quick")
    assert [w for w in commands[0] if "randseed" not in w] == [w for w in single if "randseed" not in w]
    directories = [next(w for w in command if w.startswith("--directory=")) for command in commands]
    assert directories == [f"--directory=/t/iosweep-quick/sets/fio-read-1g-1{k}" for k in ("", ".node1", ".node2")]
    seeds = [seed for _, seed in places(made, three, read, 1, "/t")]
    assert len(set(seeds)) == 3
    assert seeds[0] == seed_of(made.seed, three.id, 1, "rand_read")
    assert not set(seeds) & {seed for _, seed in places(made, three, read, 2, "/t")}
    assert [f"--randseed={seed}" in command for command, seed in zip(commands, seeds, strict=True)] == [True] * 3
    fresh = [directory for directory, _ in places(made, three, write, 2, "/t")]
    assert fresh == [f"/t/fresh/{three.id}-r2/seq_write/node{k}" for k in range(3)]


# Which mpiexec


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Any:
    """`mpiexec()` without its memory, with only these directories on PATH."""

    def search(*path: Path) -> Mpiexec | Obstacle:
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, path)))
        return launch.mpiexec.__wrapped__()

    return search


def program(directory: Path, name: str, script: str) -> Path:
    """A shell script that is on PATH under this name."""
    directory.mkdir(exist_ok=True)
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


HYDRA = "printf 'HYDRA build details:\\n    Version:                                 4.1\\n    CC: gcc\\n'"
FOREIGN = [
    "echo 'mpiexec (OpenRTE) 4.1.4'",
]


@pytest.mark.local
def test_the_one_that_comes_with_the_lock(find: Any, tmp_path: Path) -> None:
    found = find(tmp_path)
    assert found.path == str(VENV / "mpiexec")
    done = subprocess.run([found.path, "--version"], capture_output=True, text=True, check=True)
    assert f"Version: {found.version}" in " ".join(done.stdout.split())
    assert found.version[0].isdigit()


@pytest.mark.local
@pytest.mark.parametrize("name", ["mpiexec", "mpiexec.hydra"])
def test_one_on_path_comes_first(find: Any, tmp_path: Path, name: str) -> None:
    file = program(tmp_path, name, HYDRA)
    assert find(tmp_path) == Mpiexec(str(file), "4.1")


@pytest.mark.local
@pytest.mark.parametrize("script", FOREIGN)
def test_anothers_is_not_taken(find: Any, tmp_path: Path, script: str) -> None:
    program(tmp_path, "mpiexec", script)
    assert find(tmp_path).path == str(VENV / "mpiexec")
    # but a hydra beside it is
    file = program(tmp_path, "mpiexec.hydra", HYDRA)
    assert find(tmp_path).path == str(file)


@pytest.mark.local
def test_where_there_is_none(find: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "no"))
    how = "`make venv` installs one, as do apt-get install mpich and Spack"
    assert str(find(tmp_path)) == f"there is no mpiexec of MPICH; {how}"
    file = program(tmp_path, "mpiexec", FOREIGN[0])
    assert str(find(tmp_path)) == f"there is no mpiexec of MPICH ({file} is another's); {how}"
    file.write_text("#!/nonexistent\n")  # nor does one that cannot be started
    assert str(find(tmp_path)) == f"there is no mpiexec of MPICH ({file} is another's); {how}"


def test_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iosweep.run.launching.mpiexec", lambda search: "asked")
    fio, ior = tools()["fio"], tools()["ior"]
    assert needs_mpiexec(MPIEXEC, [fio, ior]) == "asked"
    assert needs_mpiexec(MPIEXEC, [fio]) is None
    assert needs_mpiexec(MPIEXEC, []) is None
    assert needs_mpiexec(DIRECT, [fio, ior]) is None


# The real one


@pytest.fixture(scope="module")
def hydra() -> str:
    found = launch.mpiexec()
    assert isinstance(found, Mpiexec)
    return found.path


def start(hydra: str, command: list[str], tasks: int, **more: Any) -> subprocess.CompletedProcess[str]:
    argv = MPIEXEC.argv(command, True, tasks, hydra)
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, **more
    )


@pytest.mark.local
def test_ranks_are_started(hydra: str) -> None:
    for _ in range(3):  # echo is so short that hydra may meet a closed pipe of it on a busy machine
        done = start(hydra, ["/bin/echo", "it's $HOME; *"], 3)
        if done.returncode != -signal.SIGPIPE:
            break
    assert (done.returncode, done.stdout, done.stderr) == (0, "it's $HOME; *\n" * 3, "")


@pytest.mark.local
def test_each_rank_knows_which_it_is(hydra: str, tmp_path: Path) -> None:
    tell = ["/bin/sh", "-c", 'echo "$PMI_RANK $PMI_SIZE $UCX_TLS $PWD"']
    for _ in range(3):  # as above: hydra may meet a closed pipe of what is so short
        done = start(hydra, tell, 3, cwd=tmp_path)
        if done.returncode != -signal.SIGPIPE:
            break
    assert sorted(done.stdout.splitlines()) == [f"{rank} 3 shm,self {tmp_path}" for rank in range(3)]


@pytest.mark.local
def test_the_exit_code_of_a_rank_that_fails(hydra: str) -> None:
    fail = "import os, sys; sys.exit(7 if os.environ['PMI_RANK'] == '1' else 0)"
    assert start(hydra, [sys.executable, "-c", fail], 3).returncode == 7


@pytest.mark.local
def test_a_batch_system_around_us_is_not_asked(hydra: str) -> None:
    # hydra would start its ranks by srun, on the nodes of the job
    job = {"SLURM_JOB_ID": "1", "SLURM_JOBID": "1", "SLURM_NODELIST": "far[1-3]", "SLURM_JOB_NUM_NODES": "3",
           "SLURM_TASKS_PER_NODE": "1(x3)", "SLURM_NNODES": "3"}  # fmt: skip
    done = start(hydra, ["/bin/echo", "here"], 2, env=os.environ | job)
    assert (done.returncode, done.stdout) == (0, "here\nhere\n")
