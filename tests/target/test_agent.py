"""The agent: a child that touches the target for us, is waited for no longer than a deadline, and never outlives us."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from iosweep.errors import Refused, TargetError, TargetHangs
from iosweep.target import agent as agents
from iosweep.target import identify, trees
from iosweep.target.agent import Agent
from targets import marked
from waiting import PATIENCE_S, over, wait_for


@pytest.fixture
def agent() -> Iterator[Agent]:
    with Agent() as made:
        yield made


def alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def wait_until_gone(*pids: int) -> None:
    wait_for(lambda: not any(map(alive, pids)))


def started(agent: Agent) -> int:
    """Process id of the child, once it has answered."""
    agent.call(identify.read_space, "/")
    assert agent._process
    return agent._process.pid


def hang(path: str) -> None:
    """Hangs as on a sick file system; before that it makes a file."""
    Path(f"{path}.begun").touch()
    os.open(path, os.O_RDONLY)


#: An agent with this operation more.
STRANGE = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}
import test_agent
from iosweep.target import agent, protocol

agent.OPERATIONS |= protocol.by_name([test_agent.hang])
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
    """A FIFO: opening it hangs, as a file on a sick NFS does."""
    os.mkfifo(tmp_path / "fifo")
    return str(tmp_path / "fifo")


# Deadlines


class Wire:
    """A connection by a set clock: seconds until the child says something, and that; then it says nothing any more."""

    def __init__(self, *says: tuple[float, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
        self.says, self.now, self.patience = list(says), 0.0, 0.0
        monkeypatch.setattr(agents, "time", SimpleNamespace(monotonic=lambda: self.now))

    def settimeout(self, seconds: float) -> None:
        self.patience = seconds

    def sendall(self, _: bytes) -> None:
        pass

    def recv(self, _: int) -> bytes:
        after, said = self.says.pop(0) if self.says else (float("inf"), b"")
        self.now += min(after, self.patience)
        if after > self.patience:
            raise TimeoutError
        return said


BEAT = (1.99, b"\n")


@pytest.mark.parametrize(
    ("says", "answer", "took_s"),
    [
        ([(2.01, b"[1]\n")], None, 2),
        ([BEAT] * 5 + [(1.99, b"[1]\n")], b"[1]", 6 * 1.99),  # slow is not hanging
        ([BEAT] * 5, None, 5 * 1.99 + 2),
        ([BEAT, (1.0, b"\n\n[1"), (1.99, b"]\n")], b"[1]", 4.98),  # an answer in pieces
    ],
)
def test_a_child_has_the_deadline_anew_after_each_beat(
    says: Sequence[tuple[float, bytes]], answer: bytes | None, took_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire: Any = Wire(*says, monkeypatch=monkeypatch)
    assert agents._exchange(wire, b"", (), 2.0) == answer
    assert wire.now == pytest.approx(took_s)


@pytest.mark.local
def test_a_hung_target_is_left_and_the_next_call_has_another_child(strange: type[Agent], hanging: str) -> None:
    with strange() as agent:
        pid = started(agent)
        patience, agent._deadline_s = agent._deadline_s, 0.2  # now that it runs
        with pytest.raises(TargetHangs, match=hanging):
            agent.call(hang, hanging)
        wait_until_gone(pid)
        agent._deadline_s = patience
        assert started(agent) != pid


# Questions and answers


@pytest.mark.local
def test_refusals_and_errors_of_the_file_system_are_answers(agent: Agent, tmp_path: Path) -> None:
    pid = started(agent)
    with pytest.raises(Refused, match="does not exist"):
        agent.call(identify.identify, f"{tmp_path}/none")
    with pytest.raises(TargetError) as caught:
        agent.call(identify.read_space, f"{tmp_path}/none")
    assert caught.value.errno == 2
    (tmp_path / "iosweep-c").mkdir()
    (tmp_path / "iosweep-c" / "file").write_text("x")
    with pytest.raises(TargetError, match="not followed"):
        agent.call(trees.count_files, marked(tmp_path / "iosweep-c"), "file")
    assert started(agent) == pid


@pytest.mark.local
def test_a_child_that_dies_is_an_error_and_the_next_call_has_another(agent: Agent) -> None:
    started(agent)
    with pytest.raises(TargetError, match="exit code 1"):
        agent.call(alive, 1)  # it does not know this operation
    os.kill(pid := started(agent), signal.SIGKILL)
    wait_until_gone(pid)
    assert started(agent) != pid


# Its end


@pytest.mark.local
def test_a_child_that_hangs_does_not_outlive_a_runner_that_is_killed(strange: type[Agent], hanging: str) -> None:
    """In the target it does not see that its connection has ended."""
    program = (
        f"import sys; sys.path[:0] = {[str(Path(__file__).parent), *sys.path]!r}\n"
        "from test_agent import Agent, hang, started\n"
        f"Agent.argv = {strange.argv!r}; agent = Agent()\n"
        f"print(started(agent), flush=True); agent.call(hang, {hanging!r})"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        wait_for(Path(f"{hanging}.begun").exists, over=over(parent))
        assert alive(pid)
        parent.kill()
    wait_until_gone(pid)


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
        assert "ended by itself (killed by signal 9)" in str(error)
        sys.exit(7)
"""


@pytest.mark.local
@pytest.mark.parametrize("how", ["runner killed", "runner stopped", "agent killed"])
def test_a_tool_with_its_daemons_does_not_outlive_runner_or_agent(tmp_path: Path, how: str) -> None:
    file = tmp_path / "pids"
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, TOOL, str(file)], start_new_session=True)
    wait_for(file.exists, over=over(runner))
    tool = list(map(int, file.read_text().split()))
    (agent,) = [c.pid for c in psutil.Process(runner.pid).children() if "iosweep.target.agent" in c.cmdline()]
    assert len(tool) == 3
    assert all(map(alive, tool))
    if how == "agent killed":
        os.kill(agent, signal.SIGKILL)
        assert runner.wait(PATIENCE_S) == 7
    else:
        number = signal.SIGKILL if how == "runner killed" else signal.SIGINT
        runner.send_signal(number)
        assert runner.wait(PATIENCE_S) == -number
    wait_until_gone(*tool, agent)


@pytest.mark.local
def test_a_run_gives_what_the_command_printed_and_how_it_ended(agent: Agent, tmp_path: Path) -> None:
    done = agent.run(["sh", "-c", "pwd; echo err >&2; exit 7"], 60, tmp_path)
    assert (done.stdout, done.stderr) == (f"{tmp_path}\n".encode(), b"err\n")
    assert (done.exit_code, done.timed_out, done.flooded, done.left_behind) == (7, False, False, ())
    assert done.argv == ("sh", "-c", "pwd; echo err >&2; exit 7")
    pid = started(agent)
    with pytest.raises(TargetError, match="no-such-program-here"):
        agent.run(["no-such-program-here"], 60)
    assert agent.run(["sleep", "600"], 0.2).timed_out
    assert agent.run(["sh", "-c", "setsid sleep 600 & echo out"], 60).stdout == b"out\n"
    assert started(agent) == pid
