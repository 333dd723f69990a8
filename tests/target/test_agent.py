"""The agent: a child that touches the target for us, is waited for no longer than a deadline, and never outlives us."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from iosweep.errors import Refused, TargetError, TargetHangs
from iosweep.target import agent as agents
from iosweep.target import identify, protocol, trees
from iosweep.target.agent import Agent
from targets import marked

pytestmark = pytest.mark.local


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent() as made:
        yield made


def alive(pid: int | None) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return pid is not None and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def gone(pid: int) -> bool:
    """Whether a process ends, sooner or later."""
    end = time.monotonic() + 300
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(pid)


def pid_of(agent: Agent) -> int | None:
    """Process id of the child, None before its first touch."""
    return agent._process.pid if agent._process else None


@contextlib.contextmanager
def waiting(agent: Agent, deadline_s: float) -> Iterator[None]:
    """No longer than that, while the block lasts: for an agent that runs, since to start one takes its time, too."""
    before, agent._deadline_s = agent._deadline_s, deadline_s
    yield
    agent._deadline_s = before


def hang(path: str) -> None:
    """Hangs as on a sick file system."""
    os.open(path, os.O_RDONLY)


def slow(beats: bool) -> str:
    """Takes three seconds."""
    for _ in range(12):
        time.sleep(0.25)
        if beats:
            protocol.beat()
    return "done"


#: An agent with these two operations more.
STRANGE = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
import test_agent
from iosweep.target import agent, protocol

agent.OPERATIONS |= protocol.by_name([test_agent.hang, test_agent.slow])
agent.main()
"""


@pytest.fixture
def strange(tmp_path: Path) -> type[Agent]:
    script = tmp_path / "agent.py"
    script.write_text(STRANGE)

    class Strange(Agent):
        argv = (sys.executable, str(script))

    return Strange


@pytest.fixture
def hanging(tmp_path: Path) -> str:
    """A FIFO: opening it hangs, as a file on a sick NFS does. (The fault table has real ones.)"""
    os.mkfifo(tmp_path / "fifo")
    return str(tmp_path / "fifo")


def test_one_child_for_all_touches(agent: Agent, tmp_path: Path) -> None:
    assert pid_of(agent) is None
    space = agent.call(identify.space, str(tmp_path))
    assert set(space) == set(identify.space(str(tmp_path)))
    pid = pid_of(agent)
    assert agent.call(identify.identify, str(tmp_path)) == identify.identify(str(tmp_path))
    assert pid_of(agent) == pid != os.getpid()


def test_the_child_ends_with_us(tmp_path: Path) -> None:
    with Agent() as made:
        made.call(identify.space, str(tmp_path))
        pid = pid_of(made)
    assert pid is not None
    assert gone(pid)
    assert pid_of(made) is None


def test_a_hanging_target_is_left_and_the_next_call_works(strange: type[Agent], hanging: str, tmp_path: Path) -> None:
    with strange() as agent:
        agent.call(identify.space, str(tmp_path))
        pid = pid_of(agent)
        assert pid is not None
        wanted = rf"does not answer: no progress for 1 s while hang \({hanging}\)"
        with waiting(agent, 1), pytest.raises(TargetHangs, match=wanted):
            agent.call(hang, hanging)
        assert gone(pid)
        assert agent.call(identify.space, str(tmp_path))["free_bytes"] > 0
        assert pid_of(agent) != pid


def test_an_agent_that_starts_slowly_says_nothing_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Agent):
        argv = (sys.executable, "-c", "import time; time.sleep(2); from iosweep.target import agent; agent.main()")

    with Slow(deadline_s=1) as agent:
        assert agent.call(identify.space, str(tmp_path))["free_bytes"] > 0
    monkeypatch.setattr(agents, "_TO_START_S", 0.5)
    with (
        Slow(deadline_s=1) as agent,
        pytest.raises(TargetError, match=r"the agent did not start within 0\.5 s: .*CPUs"),
    ):
        agent.call(identify.space, str(tmp_path))
    assert pid_of(agent) is None


def test_what_is_refused(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"the target {tmp_path}/none does not exist; is the file system mounted"):
        agent.call(identify.identify, f"{tmp_path}/none")


def test_errors_of_the_file_system(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="No such file or directory") as caught:
        agent.call(identify.space, f"{tmp_path}/none")
    assert caught.value.errno == 2
    pid = pid_of(agent)
    directory = tmp_path / "iosweep-c"
    directory.mkdir()
    (directory / "file").write_text("x")
    with pytest.raises(TargetError, match="is a symbolic link or no directory, and is not followed"):
        agent.call(trees.count, marked(directory), "file")
    assert pid_of(agent) == pid  # an error is an answer


def test_an_agent_that_dies_is_an_error_and_the_next_one_works(agent: Agent, tmp_path: Path) -> None:
    agent.call(identify.space, str(tmp_path))
    assert pid_of(agent) is not None
    with pytest.raises(TargetError, match=r"the agent ended by itself \(exit code 1\)"):
        agent.call(alive, None)
    assert agent.call(identify.space, str(tmp_path))
    pid = pid_of(agent)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert agent.call(identify.space, str(tmp_path))


def test_large_questions_and_answers(agent: Agent, tmp_path: Path) -> None:
    # far more than a pipe holds
    names = [f"{n:0200d}" for n in range(5000)]
    directory = tmp_path / "iosweep-c"
    directory.mkdir()
    [found] = agent.call(trees.examine, marked(directory), [trees.Look("", names, 1, False)])
    assert len(found["wrong"]) == 5
    deep = "x" * 200
    with pytest.raises(Refused) as caught:
        agent.call(identify.identify, "/".join(["", *[deep] * 15, "none"]) if len(deep) * 15 < 4096 else "")
    assert deep in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "a\nb", "\u00e4\u6f22", "a\udcff", "a\\b", '"'])
def test_names_cross_the_pipe_unharmed(agent: Agent, tmp_path: Path, name: str) -> None:
    # \udcff is how Python names a byte that is no UTF-8
    directory = tmp_path / f"iosweep-{name}"
    directory.mkdir()
    assert agent.call(trees.ensure_each, marked(directory), [f"{name}/below"]) == [f"{directory}/{name}/below"]
    assert (directory / name / "below").is_dir()


def test_ctrl_c_is_not_for_the_agent(agent: Agent, tmp_path: Path) -> None:
    agent.call(identify.space, str(tmp_path))
    pid = pid_of(agent)
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)


def test_the_child_does_not_outlive_a_parent_that_is_killed(strange: type[Agent], hanging: str) -> None:
    """Even while it hangs in the target, where it does not see that its connection has ended."""
    program = (
        f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
        "from test_agent import Agent, hang, identify\n"
        f"Agent.argv = {strange.argv!r}; agent = Agent(); agent.call(identify.space, '/')\n"
        f"print(agent._process.pid, flush=True); agent.call(hang, {hanging!r})"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    assert alive(pid)
    time.sleep(0.2)  # into open()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)


def test_a_killed_parent_ends_a_child_that_does_not_listen(tmp_path: Path) -> None:
    """One that hangs in a network file system is ended by nothing but SIGKILL; a stopped one is like it."""
    program = (
        "import time; from iosweep.target import agent, identify; agent = agent.Agent()\n"
        "agent.call(identify.space, '/')\n"
        "print(agent._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        parent.kill()
    assert gone(pid)


def test_slow_is_not_hanging(strange: type[Agent]) -> None:
    """What takes longer than the deadline goes on as long as something is done."""
    with strange() as agent:
        agent.call(identify.space, "/")
        with waiting(agent, 2):
            assert agent.call(slow, True) == "done"
            with pytest.raises(TargetHangs, match="no progress for 2 s while slow"):
                agent.call(slow, False)


# Tools

#: A tool: it starts a child in a session of its own, which starts a daemon that has no parent any more; their process
#: ids are written to a file.
TOOL = """
import os, sys, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        os.write(writer, b"%d " % os.getpid())
        time.sleep(600)
    os.wait()
    os.write(writer, b"%d " % os.getpid())
    time.sleep(600)
found = b""
while found.count(b" ") < 2: found += os.read(reader, 100)
open(sys.argv[1] + ".tmp", "w").write(f"{os.getpid()} {found.decode()}")
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
time.sleep(600)
"""
#: A runner of that tool.
RUNNER = """
import sys
from iosweep.node import process
from iosweep.errors import TargetError
from iosweep.target.agent import Agent
process.adopt_orphans()
with Agent() as agent:
    try:
        agent.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], 600)
    except TargetError as error:
        assert str(error) == "[Errno 0] the agent ended by itself (killed by signal 9)"
        sys.exit(7)
"""


def pids_in(file: Path) -> list[int]:
    end = time.monotonic() + 300
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return [int(pid) for pid in file.read_text().split()]


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_tool_does_not_outlive_a_runner_that_is_killed(tmp_path: Path, whole_group: bool) -> None:
    runner, tool, agent = started(tmp_path / "pids")
    assert len(tool) == 3
    assert all(map(alive, tool))
    if whole_group:
        os.killpg(runner.pid, signal.SIGKILL)
    else:
        runner.kill()
    runner.wait()
    assert all(map(gone, tool))
    assert gone(agent)


def started(file: Path) -> tuple[subprocess.Popen[bytes], list[int], int]:
    """A runner with its tool: the runner, the tool's processes, the agent."""
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, TOOL, str(file)], start_new_session=True)
    tool = pids_in(file)
    (agent,) = [c.pid for c in psutil.Process(runner.pid).children() if "iosweep.target.agent" in c.cmdline()]
    return runner, tool, agent


def test_a_stopped_runner_ends_its_tool(tmp_path: Path) -> None:
    runner, tool, agent = started(tmp_path / "pids")
    runner.send_signal(signal.SIGINT)
    assert runner.wait(300) == -signal.SIGINT
    assert all(map(gone, [*tool, agent]))


def test_a_tool_does_not_outlive_an_agent_that_is_killed(tmp_path: Path) -> None:
    runner, tool, agent = started(tmp_path / "pids")
    os.kill(agent, signal.SIGKILL)
    assert runner.wait(300) == 7
    assert all(map(gone, tool))


def test_the_end_of_its_connection_is_enough(agent: Agent, tmp_path: Path) -> None:
    """Whether or not it gets a signal."""
    agent.call(identify.space, str(tmp_path))
    assert agent._process
    assert agent._socket
    agent._socket.close()
    assert agent._process.wait(300) == 0


def test_an_agent_that_is_started_too_late(tmp_path: Path) -> None:
    """Its parent had ended before it could ask to be told of that."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        done = subprocess.run(
            [sys.executable, "-m", "iosweep.target.agent", "1"], stdin=theirs, timeout=300, check=False
        )
    assert done.returncode == 0


def test_what_a_run_gives(agent: Agent, tmp_path: Path) -> None:
    done = agent.run(["sh", "-c", "pwd; echo err >&2; exit 7"], 60, tmp_path)
    assert (done.stdout, done.stderr) == (f"{tmp_path}\n".encode(), b"err\n")
    assert (done.exit_code, done.timed_out, done.flooded, done.left_behind) == (7, False, False, ())
    assert done.argv == ("sh", "-c", "pwd; echo err >&2; exit 7")
    pid = pid_of(agent)
    with pytest.raises(TargetError, match="No such file or directory: no-such-program-here"):
        agent.run(["no-such-program-here"], 60)
    assert agent.run(["sleep", "600"], 0.2).timed_out
    assert agent.run(["sh", "-c", "setsid sleep 600 & echo out"], 60).stdout == b"out\n"
    assert pid_of(agent) == pid


def test_children_of_ours_are_not_ended_with_it(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        with Agent() as agent:
            agent.run(["true"], 60)
        assert other.poll() is None
        other.kill()
