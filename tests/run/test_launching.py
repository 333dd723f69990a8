"""A tool's command in its scratch directory: where it is started, and which of its files are read."""

import re
import shlex
import shutil
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from campaign import document, make
from held_job import Held
from iosweep.errors import AllocationError, ExitCode, Unanswered
from iosweep.node.cpu_record import Load, MachineCounters, NodeLoad
from iosweep.node.io_record import Moved
from iosweep.node.process import Completed
from iosweep.node.watching import Watched
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS, Launcher, Mpiexec, mpiexec
from iosweep.plan.model import Point
from iosweep.programs.find import Program
from iosweep.results import judging
from iosweep.results.checks.finding import Seen
from iosweep.run import remote_agent
from iosweep.run.launching import Commands, lacking_pmi, together
from iosweep.run.remote import Clock, RanOn, RemoteAgents
from iosweep.run.remote_agent import hello
from iosweep.slurm import query
from iosweep.target.agent import Agent
from iosweep.tools import Step, Tool, tools
from records import ON_TARGET, phase_run
from waiting import wait_for

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
def agent() -> Iterator[Agent]:
    with Agent() as made:
        yield made


@pytest.fixture
def commands(agent: Agent, tmp_path: Path) -> Commands:
    return Commands(agent, LAUNCHERS["direct"], tmp_path / "scratch", None, program())


def run(commands: Commands, script: str, **more: Any) -> dict[str, bytes]:
    """The streams of a shell script, which must succeed."""
    done, streams = commands.run(tool(**more), [["/bin/sh", "-c", script]], 1, 60.0)
    assert done.exit_code == 0, done.stderr
    assert (streams["stdout"], streams["stderr"]) == (done.stdout, done.stderr)
    return dict(streams)


def test_it_is_started_in_the_scratch_directory(commands: Commands) -> None:
    assert run(commands, "pwd; ls -A; echo x >&2") == {"stdout": f"{commands.scratch}\n".encode(), "stderr": b"x\n"}


def test_a_relative_scratch_directory(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # results/<campaign> is below where snakemake is run
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    relative = Commands(agent, LAUNCHERS["direct"], Path("results/scratch"), None, program())
    assert run(relative, "pwd; echo {} > summary.json") == {
        "stdout": f"{tmp_path}/results/scratch\n".encode(), "stderr": b"", "summary": b"{}\n",
    }  # fmt: skip
    assert Path.cwd() == tmp_path


def test_the_tools_output_files_are_read(commands: Commands) -> None:
    script = "printf '\\377\\n' > summary.json; : > log; echo other > other; echo > log.1"
    assert run(commands, script) == {"stdout": b"", "stderr": b"", "summary": b"\xff\n", "log": b""}


def test_the_output_files_of_a_failed_command_are_read(commands: Commands) -> None:
    done, streams = commands.run(tool(), [["/bin/sh", "-c", "echo half > summary.json; exit 5"]], 1, 60.0)
    assert done.exit_code == 5
    assert streams["summary"] == b"half\n"


def test_the_files_of_the_previous_command_are_removed(commands: Commands) -> None:
    run(commands, "echo 1 > summary.json; mkdir -p a/b; echo > a/b/c; chmod 000 a/b/c")
    assert run(commands, "ls -A") == {"stdout": b"", "stderr": b""}
    commands.clear()
    assert not commands.scratch.exists()
    commands.clear()  # nothing to do


def test_links_are_not_followed(commands: Commands, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("secret")
    assert run(commands, f"ln -s {precious}/file summary.json; mkdir log; ln -s {precious} log/there") == {
        "stdout": b"", "stderr": b"",
    }  # fmt: skip
    assert run(commands, "mkfifo log") == {"stdout": b"", "stderr": b""}  # nobody writes to it: it is not waited for
    # nor is one that stands where the scratch directory is to be
    commands.clear()
    commands.scratch.symlink_to(precious)
    assert run(commands, "pwd -P; ls -A")["stdout"] == f"{commands.scratch}\n".encode()
    assert [f.name for f in precious.iterdir()] == ["file"]


def test_a_file_that_is_too_large_is_not_read(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_agent, "MOST_BYTES", 1000)
    found = run(commands, "head -c 1000 /dev/zero > log; head -c 1001 /dev/zero > summary.json")
    assert found == {"stdout": b"", "stderr": b"", "log": bytes(1000)}


def file_in_the_way(scratch: Path) -> str:
    scratch.write_text("x")
    return "a file, not a directory"


def no_parent(scratch: Path) -> str:
    scratch.parent.rename(scratch.parent.with_name("away"))
    return "No such file or directory"


@pytest.mark.parametrize("harm", [file_in_the_way, no_parent])
def test_a_scratch_directory_that_cannot_be_made(agent: Agent, tmp_path: Path, harm: Any) -> None:
    results = tmp_path / "results"
    results.mkdir()
    commands = Commands(agent, LAUNCHERS["direct"], results / "scratch", None, program())
    why = harm(commands.scratch)
    with pytest.raises(AllocationError) as caught:
        commands.run(tool(), [["/bin/sh", "-c", f"echo > {tmp_path}/started"]], 1, 60.0)
    assert caught.value.code == ExitCode.STORE_FAILED
    assert f"{commands.scratch}: {why}" in str(caught.value)
    assert not (tmp_path / "started").exists()


def test_a_command_that_cannot_be_started(agent: Agent, tmp_path: Path) -> None:
    commands = Commands(agent, LAUNCHERS["direct"], tmp_path / "scratch", None, program("/nonexistent/tool"))
    with pytest.raises(OSError, match="No such file or directory"):
        commands.run(tool(), [["sh"]], 1, 60.0)


def test_a_time_limit(commands: Commands) -> None:
    for limit_s in (0.5, 5, 50):  # until it is long enough for a shell to begin
        done, streams = commands.run(tool(), [["/bin/sh", "-c", "echo x > log; sleep 600"]], 1, limit_s)
        assert done.timed_out
        if streams["log"]:
            break
    assert streams["log"] == b"x\n"


def test_the_launcher_is_used_for_mpi_only(agent: Agent, tmp_path: Path) -> None:
    commands = Commands(agent, LAUNCHERS["mpiexec"], tmp_path / "scratch", Mpiexec("/x/mpiexec", "5"), program("/y/a"))
    assert commands.argv(tool(), ["a", "b"], 3) == ["a", "b"]
    assert commands.argv(tool(), ["sh", "b"], 3) == ["/y/a", "b"]  # what was found, whatever is on PATH by now
    mpi = commands.argv(tool(mpi=True), ["sh", "b"], 3)
    assert (mpi[0], mpi[-4:]) == ("/x/mpiexec", ["-n", "3", "/y/a", "b"])


def test_ranks_write_into_the_scratch_directory(agent: Agent, tmp_path: Path) -> None:
    found = mpiexec()
    assert isinstance(found, Mpiexec)
    commands = Commands(agent, LAUNCHERS["mpiexec"], tmp_path / "scratch", found, program(sys.executable))
    script = [sys.executable, "-c", "import os; open('log', 'a').write(os.environ['PMI_RANK'])"]
    done, streams = commands.run(tool(mpi=True), [script], 3, 60.0)
    assert done.exit_code == 0, done.stderr
    assert sorted(streams["log"]) == sorted(b"012")
    assert done.argv == (*commands.argv(tool(mpi=True), script, 3),)
    assert done.left_behind == ()


def test_ranks_end_with_their_time(tmp_path: Path) -> None:
    # in a process of its own, which adopts what hydra's proxy leaves, as the runner does
    program = """
import sys, types
from pathlib import Path
from iosweep.node import process
from iosweep.target.agent import Agent
from iosweep.run.launching import Commands
from iosweep.plan.launchers import LAUNCHERS, mpiexec
process.adopt_orphans()
tool = types.SimpleNamespace(name="shell", program="sh", mpi=True, outputs={"log": "log"})
with Agent() as agent:
    programs = {"shell": types.SimpleNamespace(path="/bin/sh")}
    commands = Commands(agent, LAUNCHERS["mpiexec"], Path(sys.argv[1]), mpiexec(), programs)
    for limit_s in (1, 10, 100):  # until it is long enough for both to begin
        done, streams = commands.run(tool, [["/bin/sh", "-c", "echo $$ >> log; exec sleep 600"]], 2, limit_s)
        if len(streams["log"].split()) == 2: break
    alive = [pid for pid in streams["log"].split() if Path(f"/proc/{int(pid)}").exists()]
    print(done.timed_out, done.left_behind, len(streams["log"].split()), alive)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "scratch")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "True () 2 []\n"


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
    assert together({"n1": one, "n2": two, "n3": three}) == completed(
        argv=("b",), exit_code=-9, timed_out=True, flooded=True, wall_s=2.5,
        left_behind=("b (pid 1) on n2", "c (pid 2) on n3"),
        stderr=b"n1: a\nn1: bn3: c\n", argvs=(("a",), ("b",), ("c",)),
    )  # fmt: skip
    assert together({"n1": one}) == completed(stderr=b"n1: a\nn1: b")


class Agents:
    """A stand-in for RemoteAgents, for one command on each of three nodes."""

    hosts = ("n1", "n2", "n3")

    def clocks(self) -> dict[str, Clock]:
        return {"n1": Clock(0.0, 0.001), "n2": Clock(5.0, 0.002), "n3": Clock(-2.0, 0.003)}

    def run(
        self,
        commands: dict[str, list[str]],
        timeout_s: float,
        cpus: frozenset[int] | None,
        outputs: dict[str, str],
        watched: dict[str, Any],
    ) -> dict[str, RanOn]:
        self.asked = commands, timeout_s, cpus, outputs
        self.watched = list(watched)
        machine = (MachineCounters(1, 2, 3), MachineCounters(1, 4, 5))
        load = NodeLoad(busy=0.5, ours=0.25, steal=0.0, client=0.0, user_only=False, window_s=1.5, machine=machine)
        return {
            host: RanOn(completed(argv=tuple(argv)), 105.0, 107.0, {"log": b"x"}, Watched(load=one, moved=Moved()))
            for (host, argv), one in zip(commands.items(), (load, None), strict=True)
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
    assert done.load == Load(
        other=0.25, steal=0.0, client=0.0, user_only=False, window_s=1.5, host="n2", unread=("n3",)
    )


# What srun needs


def srun(place: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (place / "srun").write_text(f"#!/bin/sh\n{script}\n")
    (place / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")


def test_srun_without_a_way_to_start_mpi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "called"
    srun(tmp_path, monkeypatch, f"echo $* >> {kept}; echo \"srun: error: Invalid MPI type 'pmix'\" >&2; exit 1")
    mpi, other = [tool(mpi=True)], [tool()]
    for launcher, tools_ in (("mpiexec", mpi), ("srun", other), ("srun", [])):
        assert lacking_pmi(SLURM_LAUNCHERS[launcher], tools_) is None
    assert not kept.exists()
    assert lacking_pmi(SLURM_LAUNCHERS["srun-pmix"], mpi) == (
        "srun cannot start MPI with pmix here (srun --overlap --nodes=1 failed (exit code 1): srun: error: Invalid MPI"
        " type 'pmix'); set the launcher to srun or mpiexec in the profile"
    )
    assert kept.read_text() == "--overlap --nodes=1 --ntasks=1 --mpi=pmix true\n"
    srun(tmp_path, monkeypatch, "exit 0")
    assert lacking_pmi(SLURM_LAUNCHERS["srun"], mpi) is None
    # what says nothing about MPI is no reason to leave the points out
    srun(tmp_path, monkeypatch, "echo 'srun: error: Unable to create step: Job/step already completing' >&2; exit 1")
    with pytest.raises(Unanswered, match="already completing"):
        lacking_pmi(SLURM_LAUNCHERS["srun"], mpi)


# On the nodes of a job


def on_nodes(
    job: str,
    scratch: Path,
    of: Any,
    program: str,
    act: Callable[[Commands], Any],
    launcher: Launcher = SLURM_LAUNCHERS["srun"],
) -> Any:
    """What a function gives of commands over both nodes."""
    found = mpiexec()
    assert isinstance(found, Mpiexec)
    with RemoteAgents(job, Held.hosts, 30.0) as remote, Agent() as agent:
        return act(Commands(agent, launcher, scratch, found, {of.name: Program(program, "", "", ())}, job, remote))


SCRIPT = 'echo "$(hostname) $1"; pwd; echo "$1 failed" >&2; exit $2'


def once_each(job: str, scratch: Path) -> Any:
    shell: Any = types.SimpleNamespace(name="shell", program="sh", mpi=False, outputs={})

    def act(commands: Commands) -> Any:
        both = [["sh", "-c", SCRIPT, "x", "a b", "0"], ["sh", "-c", SCRIPT, "x", "*", "3"]]
        try:
            commands.run(shell, [["sh", "-c", "exit 0"], ["/nonexistent/x"]], 1, 30.0, Held.hosts)
        except OSError as error:
            why = error.strerror
        return (
            commands.run(shell, both, 1, 30.0, Held.hosts), commands.run(shell, both[:1], 1, 30.0, ("n2",)),
            commands.run(shell, both[:1], 1, 30.0, ("n1",)), why,
        )  # fmt: skip

    return on_nodes(job, scratch, shell, "/bin/sh", act)


def test_a_command_for_each_node(held: Held, tmp_path: Path) -> None:
    came = held.inside(once_each, held.job, tmp_path / "scratch")
    (done, streams), (second, on_second), (first, on_first), why = came
    assert (done.exit_code, done.argv) == (3, ("/bin/sh", "-c", SCRIPT, "x", "*", "3"))
    assert done.stderr == b"n1: a b failed\nn2: * failed\n"
    assert set(streams) == {"stdout@0", "stderr@0", "stdout@1", "stderr@1", "hosts"}
    assert streams["stdout@0"].splitlines()[0] == b"n1 a b"
    assert streams["stdout@1"].splitlines()[0] == b"n2 *"
    assert streams["stderr@1"] == b"* failed\n"
    hosts = msgspec.json.decode(streams["hosts"])
    assert [(host["host"], host["exit_code"]) for host in hosts] == [("n1", 0), ("n2", 3)]
    for host in hosts:
        assert host["started"] < host["ended"] < host["started"] + 30
        assert abs(host["clock_offset_s"]) <= host["clock_error_s"]
    # another node than the first is asked by the agents, too; the first is where we are
    assert (second.exit_code, on_second["stdout@0"].splitlines()[0]) == (0, b"n2 a b")
    assert [host["host"] for host in msgspec.json.decode(on_second["hosts"])] == ["n2"]
    assert (first.exit_code, on_first["stdout"]) == (0, f"n1 a b\n{tmp_path}/scratch\n".encode())
    assert why == "on n2: No such file or directory: /nonexistent/x"


#: One rank on each node, a file each.
WRITE = ("-a", "POSIX", "-F", "-w", "-b", "64k", "-t", "64k")


def ranks(job: str, scratch: Path, program: str, launcher: str, timeout_s: float, command: list[str]) -> Any:
    ior = types.SimpleNamespace(name="ior", program="ior", mpi=True, outputs={})

    def act(commands: Commands) -> Any:
        began = time.monotonic()
        done, _ = commands.run(ior, [command], 4, timeout_s, Held.hosts)
        return done, time.monotonic() - began, commands.argv(ior, command, 4, Held.hosts)

    return on_nodes(job, scratch, ior, program, act, SLURM_LAUNCHERS[launcher])


@pytest.mark.parametrize("launcher", ["srun", "mpiexec"])
def test_ranks_on_both_nodes(held: Held, stand_ins: Path, tmp_path: Path, launcher: str) -> None:
    words, program = [*WRITE, "-o", f"{tmp_path}/a b"], f"{stand_ins}/ior"
    done, _, argv = held.inside(ranks, held.job, tmp_path / "scratch", program, launcher, 60.0, ["ior", *words])
    assert done.exit_code == 0, done.stderr
    assert done.argv == tuple(argv)
    assert argv[-len(words) - 1 :] == [program, *words]
    told = {name.strip(): value.strip() for name, value in re.findall("(.*?):(.*)", done.stdout.decode())}
    assert (told["nodes"], told["tasks"], told["clients per node"]) == ("2", "4", "2")
    assert done.ran_on in ({"n1": 2, "n2": 2}, None)
    assert done.left_behind == ()


def test_ranks_end_with_their_time_on_all_nodes(held: Held, tmp_path: Path) -> None:
    program = tmp_path / "ior"
    shutil.copy("/usr/bin/sleep", program)
    # deaf to SIGTERM, as what hangs in a file system is
    command = ["sh", "-c", "trap '' TERM; hostname >> seen; exec \"$0\" 4321.7", str(program)]
    for limit_s in (1.0, 10.0, 100.0):  # until it is long enough for all to begin
        seen = tmp_path / f"{limit_s}/seen"
        done, took_s, _ = held.inside(ranks, held.job, seen.parent, str(program), "srun", limit_s, command)
        assert done.timed_out
        if seen.exists() and len(seen.read_text().split()) == 4:
            break
    assert sorted(seen.read_text().split()) == ["n1", "n1", "n2", "n2"]
    assert [held.alive("4321.7", node) for node in held.hosts] == [[], []]
    assert done.left_behind == ()
    assert done.ran_on == {"n1": 2, "n2": 2}
    assert took_s < 30 + limit_s


def steps_left(job: str, scratch: Path) -> Any:
    ior = types.SimpleNamespace(name="ior", program="ior", mpi=True, outputs={})

    class Leaving(Launcher):
        def argv(self, command: Sequence[str], *_: Any) -> list[str]:
            deaf = f"trap '' TERM; touch {scratch}.$SLURMD_NODENAME; sleep 4321.8; :"
            both = f"until [ -e {scratch}.n1 ] && [ -e {scratch}.n2 ]; do sleep 0.1; done"
            return ["sh", "-c", f"srun --overlap --nodes=2 --ntasks=2 sh -c {shlex.quote(deaf)} & {both}; exit 3"]

    def act(commands: Commands) -> Any:
        done, _ = commands.run(ior, [["ior"]], 2, 60.0, Held.hosts)
        assert commands.remote
        return done, query._steps(job), commands.remote.step, commands.remote.call(hello)

    return on_nodes(job, scratch, ior, "/bin/true", act, Leaving("srun", None, None, allocated=True))


def test_steps_that_a_launcher_leaves(held: Held, tmp_path: Path) -> None:
    # an srun that is killed leaves its ranks to themselves; the agents are spared
    done, steps, agents, answers = held.inside(steps_left, held.job, tmp_path / "scratch")
    assert (done.exit_code, done.left_behind) == (3, ())
    assert steps == [agents]
    assert set(answers) == {"n1", "n2"}
    assert [held.alive("sleep 4321.8", node) for node in held.hosts] == [[], []]


def judged(job: str, scratch: Path, program: str, prefix: list[str], words: list[str], of: Point) -> Any:
    """What IOR's checks say of a launch that is not as it should be."""
    ior = tools()["ior"]

    class Wrong(Launcher):
        def argv(self, command: Sequence[str], *_: Any) -> list[str]:
            return [*prefix, *command]

    def act(commands: Commands) -> Any:
        (step,) = of.steps()
        done, streams = commands.run(ior, [["ior", *words]], 2, 60.0, Held.hosts)
        parsed = ior.parse(streams, step, step.phase)
        run = {
            "exit_code": done.exit_code,
            "timed_out": False,
            "stderr": "",
            "wall_s": 1.0,
            "ran_on": done.ran_on or {},
        }
        return judging.verdict(judging.judge(Seen(of, step.phase, phase_run(run), parsed, ON_TARGET, {})))

    return on_nodes(job, scratch, ior, program, act, Wrong("srun", None, None, allocated=True))


SINGLETONS = ["srun", "--overlap", "--mpi=none", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        (SINGLETONS, "the tool ran with 1 rank, 2 were asked for: was it built with another MPI than its launcher?"),
        (["mpiexec", "-n", "2"], "the tool ran on 1 node, 2 were asked for"),  # hydra that is told no hosts
    ],
)
def test_a_launch_that_went_wrong(held: Held, stand_ins: Path, tmp_path: Path, prefix: list[str], reason: str) -> None:
    options = {"file_size": "64k", "transfer_size": "64k"}
    (of,) = make(tmp_path, document(tool="ior", phases=["seq_write"], axes={"nodes": [2]}, options=options)).points
    (step,) = of.steps()
    (tmp_path / "data").mkdir()
    words = tools()["ior"].argv(step, f"{tmp_path}/data", 1)[1:]
    program = f"{stand_ins}/ior"
    said, reasons = held.inside(judged, held.job, tmp_path / "scratch", program, prefix, words, of)
    assert said == "invalid"
    assert any(reason in one for one in reasons)


# fio's own client and servers


def on_each(commands: Commands, name: str) -> list[bytes]:
    """Process ids of the programs of that name, on each node, as long as there are agents."""
    assert commands.remote
    found = commands.remote.run({host: ["pgrep", name] for host in Held.hosts}, 30)
    return [done.stdout for done, *_ in found.values()]


def fio_mode(job: str, scratch: Path, program: str, target: str, harm: str) -> Any:
    """The outcome of a run, and who listened on our ports on the first node meanwhile."""
    fio = tools()["fio"]
    options = {"threads_per_node": 1, "transfer_size": 4096, "queue_depth": 1, "file_size": 1 << 20,
               "files_per_thread": 1, "o_direct": False, "fsync": False, "write_mode": "overwrite",
               "data": "tool_default", "read_percent": 70, "ioengine": "psync", "client_server": True}  # fmt: skip
    step = Step(options, (fio.phases["rand_write"],), 2, 60.0 if harm == "time" else 3.0)

    def act(commands: Commands) -> Any:
        try:
            done, streams = commands.serve(
                fio, step, [(f"{target}/0", 5), (f"{target}/1", 6)], 1.0 if harm == "time" else 60.0, Held.hosts
            )
        except OSError as error:
            return str(error.strerror), on_each(commands, "fio")
        return done, dict(streams), done.argvs, fio.parse(streams, step, step.phase), on_each(commands, "fio")

    return on_nodes(job, scratch, fio, program, act)


def listening(held: Held, node: str) -> set[str]:
    """Addresses and ports where a fio listens on a node."""
    said = held.cluster.on(node, ["ss", "--no-header", "--listening", "--tcp", "--processes", "--numeric"]).stdout
    return {words[3] for words in map(str.split, said.splitlines()) if '"fio"' in words[-1]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for k in (0, 1):
        (tmp_path / "data" / str(k)).mkdir(parents=True)
        (tmp_path / "data" / str(k) / "0.0").write_bytes(bytes(1 << 20))
    return tmp_path / "data"


def test_client_and_servers(held: Held, fio: Path, tmp_path: Path, data: Path) -> None:
    child = held.start(fio_mode, held.job, tmp_path / "scratch", str(fio), str(data), "")
    wait_for(lambda: len(held.alive("fio --eta=never", "n1")) == 1, over=child.over)  # the client
    during = [listening(held, node) for node in held.hosts]
    done, streams, argvs, parsed, left = child.result()
    assert (done.exit_code, done.left_behind, parsed.problems) == (0, (), []), done
    assert left == [b"", b""]
    assert parsed.figures["bandwidth_bytes_per_s"] > 0
    hosts = msgspec.json.decode(streams["hosts"])
    assert [(host["host"], host["address"]) for host in hosts] == [("n1", "10.77.0.11"), ("n2", "10.77.0.12")]
    # each on the address of its node by which the others reach it, and nowhere else
    assert during == [{f"{host['address']}:{host['port']}"} for host in hosts]
    assert [listening(held, node) for node in held.hosts] == [set(), set()]
    assert len(argvs) == 3
    assert all(str(fio) in argv for argv in argvs)
    assert {(f.parent.name, f.stat().st_size) for f in data.glob("*/*")} == {("0", 1 << 20), ("1", 1 << 20)}
    seeds = [re.search("randseed=(.*)", (tmp_path / f"scratch/job{k}.fio").read_text()) for k in (0, 1)]
    assert [match and match[1] for match in seeds] == ["5", "6"]


def test_a_client_that_takes_too_long(held: Held, fio: Path, tmp_path: Path, data: Path) -> None:
    done, _, _, _, left = held.inside(fio_mode, held.job, tmp_path / "scratch", str(fio), str(data), "time")
    assert done.timed_out
    assert left == [b"", b""]


def test_a_server_that_cannot_start(held: Held, fio: Path, tmp_path: Path, data: Path) -> None:
    shutil.rmtree(data / "1")
    said, left = held.inside(fio_mode, held.job, tmp_path / "scratch", str(fio), str(data), "")
    assert said == f"on n2: env: cannot change directory to '{data}/1': No such file or directory: env"
    assert left == [b"", b""]  # nor the one that did start
