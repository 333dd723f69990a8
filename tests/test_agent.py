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

from iosweep import target
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


@pytest.fixture
def hanging(tmp_path: Path) -> str:
    """A campaign's directory whose marker is a FIFO: opening it hangs, as a file on a sick NFS does."""
    directory = tmp_path / "iosweep-c"
    directory.mkdir()
    os.mkfifo(directory / "iosweep.json")
    return str(directory)


OWNER = {"uuid": None, "uid": 1, "host": "h", "results": "/r", "campaign": "c"}


def test_one_child_for_all_touches(agent: Agent, tmp_path: Path) -> None:
    assert agent.pid is None
    space = agent.call("space", str(tmp_path))
    assert set(space) == set(target.space(str(tmp_path)))
    pid = agent.pid
    assert agent.call("identify", str(tmp_path)) == target.identify(str(tmp_path))
    assert agent.pid == pid != os.getpid()


def test_the_child_ends_with_us(tmp_path: Path) -> None:
    with Agent() as made:
        made.call("space", str(tmp_path))
        pid = made.pid
    assert pid is not None
    assert gone(pid)
    assert made.pid is None


def test_a_hanging_target_is_left_and_the_next_call_works(agent: Agent, hanging: str, tmp_path: Path) -> None:
    agent.call("space", str(tmp_path))
    pid = agent.pid
    assert pid is not None
    with pytest.raises(TargetHangs, match=rf"the target does not answer: `claim {hanging}` took longer than 1 s"):
        agent.call("claim", hanging, OWNER, deadline_s=1)
    assert gone(pid)
    assert agent.call("space", str(tmp_path))["free_bytes"] > 0
    assert agent.pid != pid


def test_what_is_refused(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"the target {tmp_path}/none does not exist; is the file system mounted"):
        agent.call("identify", f"{tmp_path}/none")


def test_errors_of_the_file_system(agent: Agent, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="No such file or directory") as caught:
        agent.call("space", f"{tmp_path}/none")
    assert caught.value.errno == 2
    pid = agent.pid
    (tmp_path / "file").write_text("x")
    with pytest.raises(TargetError, match="Not a directory"):
        agent.call("count", str(tmp_path), "file")
    assert agent.pid == pid  # an error is an answer


def test_an_agent_that_dies_is_an_error_and_the_next_one_works(agent: Agent, tmp_path: Path) -> None:
    agent.call("space", str(tmp_path))
    assert agent.pid is not None
    with pytest.raises(TargetError, match=r"the agent ended by itself \(exit code 1\)"):
        agent.call("no_such_operation")
    assert agent.call("space", str(tmp_path))
    os.kill(agent.pid, signal.SIGKILL)
    assert gone(agent.pid)
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
    assert agent.pid is not None
    assert os.getsid(agent.pid) != os.getsid(0)


def test_the_child_does_not_outlive_a_parent_that_is_killed(tmp_path: Path, hanging: str) -> None:
    """Even while it hangs in the target, where it does not see that its standard input has ended."""
    program = (
        "import sys; from iosweep.agent import Agent; agent = Agent(); agent.call('space', '/')\n"
        "print(agent.pid, flush=True)\n"
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
