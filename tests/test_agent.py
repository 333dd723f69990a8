"""The agent: a child that touches the target for us, is waited for no longer than a deadline, and never outlives us."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from iosweep import process, target
from iosweep.agent import Agent, TargetError, TargetHangs
from iosweep.target import Refused


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
    end = time.monotonic() + 30
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(pid)


def pid_of(agent: Agent) -> int | None:
    """Process id of the child, None before its first touch."""
    return agent._process.pid if agent._process else None


@pytest.fixture
def hanging(tmp_path: Path) -> str:
    """A campaign's directory whose marker is a FIFO: opening it hangs, as a file on a sick NFS does."""
    directory = tmp_path / "iosweep-c"
    directory.mkdir()
    os.mkfifo(directory / "iosweep.json")
    return str(directory)


OWNER = {"uuid": None, "uid": 1, "host": "h", "results": "/r", "campaign": "c"}


def test_one_child_for_all_touches(agent: Agent, tmp_path: Path) -> None:
    assert pid_of(agent) is None
    space = agent.call("space", str(tmp_path))
    assert set(space) == set(target.space(str(tmp_path)))
    pid = pid_of(agent)
    assert agent.call("identify", str(tmp_path)) == target.identify(str(tmp_path))
    assert pid_of(agent) == pid != os.getpid()


def test_the_child_ends_with_us(tmp_path: Path) -> None:
    with Agent() as made:
        made.call("space", str(tmp_path))
        pid = pid_of(made)
    assert pid is not None
    assert gone(pid)
    assert pid_of(made) is None


def test_a_hanging_target_is_left_and_the_next_call_works(agent: Agent, hanging: str, tmp_path: Path) -> None:
    agent.call("space", str(tmp_path))
    pid = pid_of(agent)
    assert pid is not None
    with pytest.raises(TargetHangs, match=rf"the target does not answer: `claim {hanging}` took longer than 1 s"):
        agent.call("claim", hanging, OWNER, deadline_s=1)
    assert gone(pid)
    assert agent.call("space", str(tmp_path))["free_bytes"] > 0
    assert pid_of(agent) != pid


def test_what_is_refused(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"the target {tmp_path}/none does not exist; is the file system mounted"):
        agent.call("identify", f"{tmp_path}/none")


def test_errors_of_the_file_system(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="No such file or directory") as caught:
        agent.call("space", f"{tmp_path}/none")
    assert caught.value.errno == 2
    pid = pid_of(agent)
    (tmp_path / "file").write_text("x")
    with pytest.raises(TargetError, match="Not a directory"):
        agent.call("count", str(tmp_path), "file")
    assert pid_of(agent) == pid  # an error is an answer


def test_an_agent_that_dies_is_an_error_and_the_next_one_works(agent: Agent, tmp_path: Path) -> None:
    agent.call("space", str(tmp_path))
    assert pid_of(agent) is not None
    with pytest.raises(TargetError, match=r"the agent ended by itself \(exit code 1\)"):
        agent.call("no_such_operation")
    assert agent.call("space", str(tmp_path))
    pid = pid_of(agent)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert agent.call("space", str(tmp_path))


def test_large_questions_and_answers(agent: Agent, tmp_path: Path) -> None:
    # far more than a pipe holds
    names = [f"{n:0200d}" for n in range(5000)]
    found = agent.call("examine", str(tmp_path), "", names, 1, False)
    assert len(found["wrong"]) == 5
    deep = "x" * 200
    with pytest.raises(Refused) as caught:
        agent.call("identify", "/".join(["", *[deep] * 15, "none"]) if len(deep) * 15 < 4096 else "")
    assert deep in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "a\nb", "\u00e4\u6f22", "a\udcff", "a\\b", '"'])
def test_names_cross_the_pipe_unharmed(agent: Agent, tmp_path: Path, name: str) -> None:
    # \udcff is how Python names a byte that is no UTF-8
    (tmp_path / name).mkdir()
    assert agent.call("ensure", str(tmp_path), f"{name}/below", False) == f"{tmp_path}/{name}/below"
    assert (tmp_path / name / "below").is_dir()


def test_ctrl_c_is_not_for_the_agent(agent: Agent, tmp_path: Path) -> None:
    agent.call("space", str(tmp_path))
    pid = pid_of(agent)
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)


def test_the_child_does_not_outlive_a_parent_that_is_killed(tmp_path: Path, hanging: str) -> None:
    """Even while it hangs in the target, where it does not see that its standard input has ended."""
    program = (
        "import sys; from iosweep.agent import Agent; agent = Agent(); agent.call('space', '/')\n"
        "print(agent._process.pid, flush=True)\n"
        f"agent.call('claim', {hanging!r}, {json.dumps(OWNER).replace('null', 'None')})"
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
        "import time; from iosweep.agent import Agent; agent = Agent(); agent.call('space', '/')\n"
        "agent.call('guard', 0); print(agent._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        os.kill(pid, signal.SIGSTOP)
        parent.kill()
    assert gone(pid)


# The guard

#: A tool: it starts a child in a session of its own, which starts another one; the names of all are written to a file.
TOOL = """
import os, subprocess, sys, time
sleep = "import os, time; os.setsid(); time.sleep(600)"
child = f"import os, subprocess, sys, time; os.setsid(); p = subprocess.Popen([sys.executable, '-c', {sleep!r}]);" \
        "print(p.pid, flush=True); time.sleep(600)"
started = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE, text=True)
grandchild = started.stdout.readline().strip()
open(sys.argv[1] + ".tmp", "w").write(f"{os.getpid()} {started.pid} {grandchild}")
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
time.sleep(600)
"""
#: A runner of that tool.
RUNNER = """
import sys
from iosweep import process
from iosweep.agent import Agent
process.adopt_orphans()
with Agent() as agent:
    agent.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], 600)
"""


def pids_in(file: Path) -> list[int]:
    end = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return [int(pid) for pid in file.read_text().split()]


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_tool_does_not_outlive_a_runner_that_is_killed(tmp_path: Path, whole_group: bool) -> None:
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, TOOL, str(tmp_path / "pids")], start_new_session=True)
    tool = pids_in(tmp_path / "pids")
    assert len(tool) == 3
    assert all(map(alive, tool))
    agent = [c for c in psutil.Process(runner.pid).children() if "iosweep.agent" in c.cmdline()]
    assert len(agent) == 1
    if whole_group:
        os.killpg(runner.pid, signal.SIGKILL)
    else:
        runner.kill()
    runner.wait()
    assert all(map(gone, tool))
    assert gone(agent[0].pid)


def guarded(agent: Agent, file: Path) -> list[int]:
    """Start a tool that the agent guards; returns its processes."""
    tool = subprocess.Popen([sys.executable, "-c", TOOL, str(file)], start_new_session=True)
    agent.call("guard", tool.pid)
    return pids_in(file)


def end_of_input(agent: Agent) -> None:
    """What the agent sees when whoever started it is gone, whether or not it gets a signal."""
    assert agent._process
    assert agent._process.stdin
    agent._process.stdin.close()
    assert agent._process.wait(30) == 0


def test_the_end_of_its_input_is_enough(agent: Agent, tmp_path: Path) -> None:
    tool = guarded(agent, tmp_path / "pids")
    end_of_input(agent)
    assert all(map(gone, tool))


def test_what_is_not_guarded_any_more_lives(agent: Agent, tmp_path: Path) -> None:
    tool = guarded(agent, tmp_path / "pids")
    agent.call("guard", 0)
    end_of_input(agent)
    assert all(map(alive, tool))
    process.kill_tree(tool[0])
    assert all(map(gone, tool))


def test_run_is_a_run(tmp_path: Path) -> None:
    """In a process of its own: what else is a child of ours would be ended with the command."""
    program = (
        "import sys; from iosweep.agent import Agent\n"
        "told = []\n"
        "class Watched(Agent):\n"
        "    def call(self, *arguments, **more): told.append(arguments); return super().call(*arguments, **more)\n"
        "with Watched() as agent:\n"
        "    done = agent.run(['sh', '-c', 'echo out; echo err >&2; exit 7'], 60)\n"
        "    print(done.stdout, done.stderr, done.exit_code, done.timed_out, done.left_behind)\n"
        "    print([pid > 0 for _, pid in told])\n"
        "    pid = agent._process.pid\n"
        "    try: agent.run(['no-such-program-here'], 60)\n"
        "    except FileNotFoundError as error: print(error.filename)\n"
        "    print(agent.run(['sleep', '600'], 0.2).timed_out, agent._process.pid == pid)\n"
        "    agent._process.kill(); agent._process.wait()\n"
        "    print(agent.run(['echo', 'on'], 60).stdout)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        r"b'out\n' b'err\n' 7 False 0",
        "[True, False]", "no-such-program-here", "True True", r"b'on\n'",
    ]  # fmt: skip
