"""A tool's command in its scratch directory: where it is started, and which of its files are read."""

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from held_job import Held
from iosweep.node.counters import Moved
from iosweep.node.load import Load, MachineCounters, NodeLoad
from iosweep.node.monitor import Watched
from iosweep.node.process import Completed
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS
from iosweep.programs.programs import Program
from iosweep.run import agents
from iosweep.run.agents import Clock, NodeRun, RemoteAgents
from iosweep.run.launch import Commands, merge, remove_scratch
from iosweep.target.agent import Agent
from iosweep.tools import Tool
from waiting import PATIENCE_S

pytestmark = pytest.mark.local


class Shell:
    """A stand-in for a tool."""

    def __init__(self, mpi: bool = False):
        self.name, self.program = "shell", "sh"
        self.mpi = mpi
        self.outputs = {"summary": "summary.json", "log": "log"}


def program(path: str = "/bin/sh") -> dict[str, Program]:
    """What was found for it."""
    return {"shell": Program(path, "", "", ())}


def tool(mpi: bool = False) -> Tool:
    made: Any = Shell(mpi)
    return made  # type: ignore[no-any-return]


@pytest.fixture
def commands(agent: Agent, tmp_path: Path) -> Commands:
    return Commands(agent, LAUNCHERS["direct"], tmp_path / "scratch", None, program())


def run(commands: Commands, script: str, **more: Any) -> dict[str, bytes]:
    """The streams of a shell script, which must succeed."""
    done, streams = commands.run(tool(**more), [["/bin/sh", "-c", script]], 1, 60.0)
    assert done.exit_code == 0, done.stderr
    assert (streams["stdout"], streams["stderr"]) == (done.stdout, done.stderr)
    return dict(streams)


def test_a_tool_is_started_in_the_scratch_directory(commands: Commands) -> None:
    assert run(commands, "pwd; ls -A; echo x >&2") == {"stdout": f"{commands.scratch}\n".encode(), "stderr": b"x\n"}


def test_only_the_output_files_that_a_tool_names_are_read(commands: Commands) -> None:
    script = "printf '\\377\\n' > summary.json; : > log; echo other > other; echo > log.1"
    assert run(commands, script) == {"stdout": b"", "stderr": b"", "summary": b"\xff\n", "log": b""}


def test_files_of_one_command_are_not_read_as_those_of_the_next(commands: Commands) -> None:
    run(commands, "echo 1 > summary.json; mkdir -p a/b; echo > a/b/c; chmod 000 a/b/c")
    assert run(commands, "ls -A") == {"stdout": b"", "stderr": b""}
    remove_scratch(commands.scratch)
    assert not commands.scratch.exists()
    remove_scratch(commands.scratch)  # nothing to do


def test_no_link_in_the_scratch_directory_is_followed_to_read_or_remove(commands: Commands, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("secret")
    assert run(commands, f"ln -s {precious}/file summary.json; mkdir log; ln -s {precious} log/there") == {
        "stdout": b"", "stderr": b"",
    }  # fmt: skip
    assert run(commands, "mkfifo log") == {"stdout": b"", "stderr": b""}  # nobody writes to it: it is not waited for
    # nor is one that stands where the scratch directory is to be
    remove_scratch(commands.scratch)
    commands.scratch.symlink_to(precious)
    assert run(commands, "pwd -P; ls -A")["stdout"] == f"{commands.scratch}\n".encode()
    assert [f.name for f in precious.iterdir()] == ["file"]


def test_a_file_that_is_too_large_is_not_read(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "MOST_PRINTED_BYTES", 1000)
    found = run(commands, "head -c 1000 /dev/zero > log; head -c 1001 /dev/zero > summary.json")
    assert found == {"stdout": b"", "stderr": b"", "log": bytes(1000)}


# What several nodes did


def completed(**more: Any) -> Completed:
    made: dict[str, Any] = {
        "argv": ("a",), "exit_code": 0, "timed_out": False, "flooded": False, "wall_s": 1.0,
        "left_behind": (),
    }  # fmt: skip
    return Completed(**made | more)


def test_commands_of_several_hosts_as_one() -> None:
    one = completed(stderr=b"a\nb", stdout=b"1")
    two = completed(argv=("b",), exit_code=-9, timed_out=True, wall_s=2.5, left_behind=("b (pid 1)",), stdout=b"2")
    three = completed(argv=("c",), exit_code=3, flooded=True, stderr=b"c\n", left_behind=("c (pid 2)",))
    assert merge({"n1": one, "n2": two, "n3": three}) == completed(
        argv=("b",), exit_code=-9, timed_out=True, flooded=True, wall_s=2.5,
        left_behind=("b (pid 1) on n2", "c (pid 2) on n3"),
        stderr=b"n1: a\nn1: bn3: c\n", argvs=(("a",), ("b",), ("c",)),
    )  # fmt: skip
    assert merge({"n1": one}) == completed(stderr=b"n1: a\nn1: b")


class Agents:
    """A stand-in for RemoteAgents, for one command on each of three nodes."""

    hosts = ("n1", "n2", "n3")

    def clocks(self) -> dict[str, Clock]:
        return {"n1": Clock(0.0, 0.001), "n2": Clock(5.0, 0.002), "n3": Clock(-2.0, 0.003)}

    def run_at_once(
        self,
        commands: dict[str, list[str]],
        timeout_s: float,
        cpus: frozenset[int] | None,
        outputs: dict[str, str],
        watched: dict[str, Any],
    ) -> dict[str, NodeRun]:
        self.asked = commands, timeout_s, cpus, outputs
        self.watched = list(watched)
        machine = (MachineCounters(1, 2, 3), MachineCounters(1, 4, 5))
        load = NodeLoad(busy=0.5, ours=0.25, steal=0.0, client=0.0, window_s=1.5, machine=machine)
        nodes = Watched(load=load, moved=Moved()), Watched(moved=Moved())
        return {
            host: NodeRun(completed(argv=tuple(argv), watched={host: node}), 105.0, 107.0, {"log": b"x"})
            for (host, argv), node in zip(commands.items(), nodes, strict=True)
        }


def test_times_of_several_nodes_are_of_one_clock(agent: Agent, tmp_path: Path) -> None:
    remote: Any = Agents()
    commands = Commands(agent, SLURM_LAUNCHERS["srun"], tmp_path / "scratch", None, program("/y/sh"), "12", remote)
    done, streams = commands.run(tool(), [["sh", "a"], ["sh", "b"]], 1, 9.0, ("n2", "n3"))
    assert remote.watched == ["n2", "n3"]
    assert remote.asked == ({"n2": ["/y/sh", "a"], "n3": ["/y/sh", "b"]}, 9.0, None, tool().outputs)
    assert (streams["log@0"], streams["log@1"]) == (b"x", b"x")
    common = {"exit_code": 0}
    assert msgspec.json.decode(streams["hosts"]) == [
        {"host": "n2", "started": 100.0, "ended": 102.0, "clock_offset_s": 5.0, "clock_error_s": 0.002, **common},
        {"host": "n3", "started": 107.0, "ended": 109.0, "clock_offset_s": -2.0, "clock_error_s": 0.003, **common},
    ]
    assert done.load == Load(other=0.25, steal=0.0, client=0.0, window_s=1.5, host="n2", unread=("n3",))


def test_open_mpi_is_told_all_nodes_of_the_job_or_it_would_start_on_others(agent: Agent, tmp_path: Path) -> None:
    remote: Any = Agents()
    commands = Commands(agent, SLURM_LAUNCHERS["mpirun"], tmp_path / "scratch", None, program(), "12", remote)
    told = ["/usr/bin/env", "SLURM_JOBID=12", "SLURM_NODELIST=n[1-3]", "SLURM_TASKS_PER_NODE=2(x3)"]
    assert commands.argv(tool(mpi=True), ["sh"], 2, ("n2",))[:4] == told


# On the nodes of a job

SCRIPT = 'echo "$SLURMD_NODENAME $1"; pwd; echo "$1 failed" >&2; exit $2'


def on_nodes(job: str, remote: RemoteAgents, agent: Agent, place: Path, name: str, path: str) -> Commands:
    programs = {name: Program(path, "", "", ())}
    return Commands(agent, SLURM_LAUNCHERS["srun"], place / "scratch", None, programs, job, remote)


def test_each_node_runs_its_own_command_and_the_worst_exit_code_counts(
    local_job: str, agent: Agent, tmp_path: Path
) -> None:
    both = [["sh", "-c", SCRIPT, "x", "a b", "0"], ["sh", "-c", SCRIPT, "x", "*", "3"]]
    with RemoteAgents(local_job, ("n1", "n2"), PATIENCE_S) as remote:
        commands = on_nodes(local_job, remote, agent, tmp_path, "shell", "/bin/sh")
        with pytest.raises(OSError, match="/nonexistent/x"):
            commands.run(tool(), [["sh", "-c", "exit 0"], ["/nonexistent/x"]], 1, 30.0, ("n1", "n2"))
        done, streams = commands.run(tool(), both, 1, PATIENCE_S, ("n1", "n2"))
        second, on_second = commands.run(tool(), both[:1], 1, PATIENCE_S, ("n2",))
        first, on_first = commands.run(tool(), both[:1], 1, PATIENCE_S, ("n1",))
    assert (done.exit_code, done.argv) == (3, ("/bin/sh", "-c", SCRIPT, "x", "*", "3"))
    assert done.stderr == b"n1: a b failed\nn2: * failed\n"
    assert [streams[f"stdout@{k}"].splitlines()[0] for k in (0, 1)] == [b"n1 a b", b"n2 *"]
    hosts = msgspec.json.decode(streams["hosts"])
    assert [(host["host"], host["exit_code"]) for host in hosts] == [("n1", 0), ("n2", 3)]
    for host in hosts:
        assert host["started"] < host["ended"]
        assert abs(host["clock_offset_s"]) <= host["clock_error_s"]
    # another node than the first is asked by the agents, too; the first is where we are
    assert (second.exit_code, on_second["stdout@0"].splitlines()[0]) == (0, b"n2 a b")
    assert (first.exit_code, on_first["stdout"].splitlines()[1]) == (0, f"{tmp_path}/scratch".encode())


# On a real cluster

DEAF = """
import types
from pathlib import Path
from iosweep.node import process
from iosweep.plan.launchers import SLURM_LAUNCHERS
from iosweep.programs.programs import Program
from iosweep.run.launch import Commands
from iosweep.run.agents import RemoteAgents
from iosweep.slurm import query
from iosweep.target.agent import Agent
query._STEPS_END_S = 600
process.adopt_orphans()
scratch, program, command, limit_s = given
ior = types.SimpleNamespace(name="ior", program="ior", mpi=True, outputs={})
with RemoteAgents(job, hosts, 600) as remote, Agent() as agent:
    programs = {"ior": Program(program, "", "", ())}
    commands = Commands(agent, SLURM_LAUNCHERS["srun"], Path(scratch), None, programs, job, remote)
    done, _ = commands.run(ior, [command], 4, limit_s, hosts)
    answer = {"timed_out": done.timed_out, "left": done.left_behind, "ran_on": done.ran_on}
"""


def test_ranks_that_are_deaf_to_signals_end_with_their_time_on_all_nodes(held: Held, tmp_path: Path) -> None:
    program = tmp_path / "ior"
    shutil.copy("/usr/bin/sleep", program)
    command = ["sh", "-c", "trap '' TERM; hostname >> seen; exec \"$0\" 4321.7", str(program)]
    for limit_s in (1.0, 10.0, 100.0):  # until it is long enough for all to begin
        scratch = tmp_path / f"{limit_s}"
        done = held.python(DEAF, str(scratch), str(program), command, limit_s)
        assert done["timed_out"]
        seen = (scratch / "seen").read_text().split() if (scratch / "seen").exists() else []
        assert [held.alive("4321.7", node) for node in held.hosts] == [[], []]
        assert done["left"] == []
        if len(seen) == 4 and sum(done["ran_on"].values()) == 4:
            break
    assert sorted(seen) == ["n1", "n1", "n2", "n2"]
    assert done["ran_on"] == {"n1": 2, "n2": 2}
