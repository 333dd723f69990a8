"""Running a command: its end, its time limit, and that nothing of it stays. In a process of its own, since whatever
else is a child of the runner's is ended with the command."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.local

#: Leaves the process group, ignores what can be ignored, and has a child of its own.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time, os; os.setsid(); time.sleep(600)"])
grandchild = os.fork()
if grandchild == 0:
    os.setsid()
    if os.fork(): os._exit(0)  # an orphan at once
    print(os.getpid(), child.pid, os.getppid(), file=open(sys.argv[1] + ".tmp", "w"), flush=True)
    os.rename(sys.argv[1] + ".tmp", sys.argv[1])
    os.close(1); os.close(2)
    time.sleep(600)
os.waitpid(grandchild, 0)
"""


#: `go`, and `asker`, whose closing means that nobody waits any more.
PROLOGUE = """
import json, os, sys
from dataclasses import replace
from iosweep.node import process
process.adopt_orphans()
listening, asker = os.pipe()
def go(argv, timeout_s=60):
    with process.memory("stdout") as stdout, process.memory("stderr") as stderr:
        done = process.run(argv, timeout_s, None, stdout.fileno(), stderr.fileno(), listening)
        stdout.seek(0), stderr.seek(0)
        return replace(done, stdout=stdout.read(process.MOST_BYTES), stderr=stderr.read(process.MOST_BYTES))
"""


def run(body: str, *arguments: str) -> dict[str, Any]:
    """Run Python code that calls process.run, in a process of its own; its last value as JSON."""
    program = PROLOGUE + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, timeout=300, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def simply(argv: list[str], timeout_s: float = 60) -> dict[str, Any]:
    return run(
        """
        d = go(json.loads(sys.argv[1]), float(sys.argv[2]))
        print(json.dumps({**vars(d), "stdout": d.stdout.decode(), "stderr": d.stderr.decode()}, default=bytes.decode))
        """,
        json.dumps(argv),
        str(timeout_s),
    )


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", -9), ("kill -TERM $$", -15)]
)
def test_exit_codes(script: str, code: int) -> None:
    done = simply(["sh", "-c", f"echo out; echo err >&2; {script}"])
    assert (done["exit_code"], done["timed_out"], done["left_behind"]) == (code, False, [])
    assert (done["stdout"], done["stderr"]) == ("out\n", "err\n")
    assert done["argv"] == ["sh", "-c", f"echo out; echo err >&2; {script}"]


def test_no_shell_and_no_input() -> None:
    done = simply(["printf", "%s|", "a b", "$HOME", ";", "*"])
    assert done["stdout"] == "a b|$HOME|;|*|"
    assert simply(["cat"])["stdout"] == ""  # it does not wait for somebody to type


def test_large_output_on_both_streams() -> None:
    done = simply(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero | tr '\\0' y >&2"])
    assert (done["stdout"], done["stderr"]) == ("x" * 3_000_000, "y" * 3_000_000)


@pytest.mark.parametrize("program", ["no-such-program-here", "/", "/etc/passwd"])
def test_what_cannot_be_started(program: str) -> None:
    found = run(
        """
        try: go(sys.argv[1:])
        except OSError as error: print(json.dumps([error.filename, list(process.children())]))
        """,
        program,
    )
    assert found == [program, []]


def ended(pids: list[int]) -> bool:
    """Whether processes are gone; a moment is granted to those that are killed already."""

    def lives(pid: int) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        return False

    end = time.monotonic() + 300
    while time.monotonic() < end:
        if not any(map(lives, pids)):
            return True
        time.sleep(0.01)
    return False


def test_a_time_limit_ends_the_whole_tree(tmp_path: Path) -> None:
    found = run(
        """
        for limit_s in (1, 10, 100):  # until it is long enough for the tree to be there
            d = go([sys.executable, "-c", sys.argv[1], sys.argv[2]], limit_s)
            if os.path.exists(sys.argv[2]): break
        print(json.dumps([d.timed_out, d.exit_code, d.left_behind, list(process.children())]))
        """,
        STUBBORN + "time.sleep(600)",
        str(tmp_path / "pids"),
    )
    assert found == [True, -9, [], []]
    assert ended([int(p) for p in (tmp_path / "pids").read_text().split() if int(p) > 1])


def test_what_is_left_by_a_command_that_ended_is_ended(tmp_path: Path) -> None:
    # as fio's workers are when fio is killed
    found = run(
        """
        d = go([sys.executable, "-c", sys.argv[1], sys.argv[2]], 60)
        print(json.dumps([d.timed_out, d.exit_code, d.left_behind, list(process.children())]))
        """,
        STUBBORN + "\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\nos.kill(os.getpid(), 9)",
        str(tmp_path / "pids"),
    )
    assert found == [False, -9, [], []]
    assert ended([int(p) for p in (tmp_path / "pids").read_text().split() if int(p) > 1])


def test_what_holds_the_output_is_not_waited_for() -> None:
    # it left the session, and would write on for ten minutes
    done = simply(["sh", "-c", "echo out; echo err >&2; setsid sleep 600 & exit 3"], 300)
    assert (done["exit_code"], done["timed_out"], done["left_behind"]) == (3, False, [])
    assert (done["stdout"], done["stderr"]) == ("out\n", "err\n")
    assert done["wall_s"] < 250


def test_what_whoever_started_us_has_left() -> None:
    """Where SIGCHLD is ignored every exit code is 0; where SIGTERM is blocked nothing ends us."""
    program = (
        "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "os.execv(sys.executable, [sys.executable, '-c', sys.argv[1]])"
    )
    body = PROLOGUE + (
        "import signal\n"
        "print(json.dumps([go(['sh', '-c', 'exit 7']).exit_code, len(signal.pthread_sigmask(signal.SIG_BLOCK, ()))]))"
    )
    done = subprocess.run([sys.executable, "-c", program, body], stdout=subprocess.PIPE, timeout=300, check=True)
    assert json.loads(done.stdout) == [7, 0]


def test_the_command_ends_with_its_asker(tmp_path: Path) -> None:
    found = run(
        """
        import threading
        threading.Timer(0.3, os.close, [asker]).start()
        try: go(["sh", "-c", "sleep 600 & sleep 600"], 300)
        except process.Abandoned: print(json.dumps(list(process.children())))
        """
    )
    assert found == []


def test_what_prints_without_end_is_ended() -> None:
    found = run(
        """
        process.MOST_BYTES = 1000
        done = go(["sh", "-c", "yes & exec yes >&2"], 300)
        print(json.dumps([done.flooded, done.timed_out, done.exit_code, len(done.stdout), len(done.stderr)]))
        """
    )
    assert found == [True, False, -15, 1000, 1000]


def test_what_ends_and_leaves_another_meanwhile_is_ended() -> None:
    """A child that starts another and exits between two readings: after our children were listed, before it is
    waited for. The other is then ours, and in no list."""
    found = run(
        """
        import subprocess
        script = "read line; setsid sleep 600 & exit"
        relay = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        real = process.children
        def listed():
            found = real()
            if relay.pid in found and not relay.stdin.closed:
                relay.stdin.write(b"go\\n"); relay.stdin.close()
                os.waitid(os.P_PID, relay.pid, os.WEXITED | os.WNOWAIT)
            return found
        process.children = listed
        print(json.dumps([len(process.end_descendants()), list(real())]))
        """
    )
    assert found == [0, []]


def test_output_until_the_time_limit_is_kept() -> None:
    for limit_s in (1, 10, 100):  # until it is long enough for a shell to begin
        done = simply(["sh", "-c", "echo first; sleep 600"], limit_s)
        assert done["timed_out"]
        if done["stdout"]:
            break
    assert done["stdout"] == "first\n"


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    program = (
        PROLOGUE + "try: go([sys.executable, '-c', sys.argv[1], sys.argv[2]], 600)\n"
        "except KeyboardInterrupt: print('interrupted', list(process.children()))"
    )
    argv = [sys.executable, "-c", program, STUBBORN + "time.sleep(600)", str(tmp_path / "pids")]
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
    end = time.monotonic() + 300
    while not (tmp_path / "pids").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGINT)
    output, _ = running.communicate(timeout=300)
    assert output == "interrupted []\n"
    assert ended([int(p) for p in (tmp_path / "pids").read_text().split() if int(p) > 1])


def test_children_that_have_nothing_to_do_with_it_are_spared() -> None:
    found = run(
        """
        import subprocess
        spared, other = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
        left = len(process.end_descendants([spared.pid]))
        print(json.dumps([left, spared.poll(), list(process.children()) == [spared.pid]]))
        spared.kill()
        """
    )
    assert found == [0, None, True]


def test_what_is_asked_to_end_may_tidy_up(tmp_path: Path) -> None:
    found = run(
        """
        import subprocess
        script = 'trap "echo tidy > $0; exit" TERM; echo on; while :; do sleep 0.01; done'
        tidy = subprocess.Popen(["setsid", "sh", "-c", script, sys.argv[1]], stdout=subprocess.PIPE)
        tidy.stdout.readline()
        print(json.dumps([len(process.end_descendants(tidy=True)), list(process.children())]))
        """,
        str(tmp_path / "tidied"),
    )
    assert found == [0, []]
    assert (tmp_path / "tidied").read_text() == "tidy\n"
