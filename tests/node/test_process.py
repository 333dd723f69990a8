"""Running a command: its end, its limits, and that nothing of it stays. In a process of its own, which is forked, since
whatever else is a child of the runner's is ended with the command."""

import contextlib
import os
import pickle
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from iosweep.node import process
from waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.local

#: Leaves the process group and ignores what can be ignored: a child, and an orphan. Their ids go to the file $0.
STUBBORN = """
trap '' TERM HUP INT
setsid sh -c 'echo $$ >> "$0"; exec sleep 600' "$0" &
(setsid sh -c 'echo $$ >> "$0"; exec sleep 600' "$0" &)
"""


def apart(act: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a forked process that has no children yet, and adopts orphans."""
    answer, ours = os.pipe()
    if not (child := os.fork()):
        try:
            os.close(answer)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as whoever has started a runner may have left it:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # exit codes hidden, and nothing ends us
            signal.signal(signal.SIGINT, signal.default_int_handler)
            process.adopt_orphans()
            try:
                said = act(*arguments)
            except BaseException as error:
                said = error
            with os.fdopen(ours, "wb") as file:
                file.write(pickle.dumps((said, process.children(), signal.pthread_sigmask(signal.SIG_BLOCK, ()))))
        finally:
            os._exit(0)
    os.close(ours)
    with os.fdopen(answer, "rb") as file:
        try:
            assert select.select([file], [], [], PATIENCE_S)[0], "it does not return"
            said, left, blocked = pickle.loads(file.read())  # noqa: S301 - our own
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert (left, blocked) == (set(), set()), "processes stay, or signals stay blocked"
    if isinstance(said, BaseException):
        raise said
    return said


def go(argv: Sequence[str], timeout_s: float = PATIENCE_S, **more: Any) -> process.Completed:
    """Run a command to its end, with what it prints."""
    listening, held = os.pipe()
    with process.memory("stdout") as stdout, process.memory("stderr") as stderr:
        try:
            done = process.run(argv, timeout_s, None, stdout.fileno(), stderr.fileno(), listening, **more)
        finally:
            os.close(listening)
            os.close(held)
        stdout.seek(0), stderr.seek(0)
        return replace(
            done, stdout=stdout.read(process.MOST_PRINTED_BYTES), stderr=stderr.read(process.MOST_PRINTED_BYTES)
        )


def sh(script: str, timeout_s: float = PATIENCE_S) -> process.Completed:
    done = apart(go, ["sh", "-c", script], timeout_s)
    assert isinstance(done, process.Completed)
    return done


def stubborn(file: Path, script: str, timeout_s: float, now_s: float) -> process.Completed:
    """Run a stubborn command by a clock of its own: it stands still, and shows `now_s` once all that the command starts
    are there, and the runner has read it for the start and for the limit."""
    readings = 0

    def clock() -> float:
        nonlocal readings
        readings += 1
        return now_s if readings > 2 and file.exists() and len(file.read_text().split()) == 2 else 0.0

    process.time = SimpleNamespace(monotonic=clock, sleep=time.sleep)  # type: ignore[assignment]
    return go(["sh", "-c", script, str(file)], timeout_s)


def lives(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_exit_codes_and_output_are_those_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError

    ends = {"exit 0": 0, "exit 7": 7, "kill -KILL $$": -9, "kill -TERM $$": -15}
    for old_kernel in (False, True):
        if old_kernel:
            monkeypatch.setattr(os, "pidfd_open", refuse)
        for script, code in ends.items():
            done = sh(f"echo out; echo err >&2; {script}")
            assert (done.exit_code, done.timed_out, done.flooded, done.left_behind) == (code, False, False, ())
            assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_no_shell_reads_the_words_and_nobody_is_waited_for_to_type() -> None:
    assert apart(go, ["printf", "%s|", "a b", "$HOME", ";", "*"]).stdout == b"a b|$HOME|;|*|"
    assert apart(go, ["cat"]).stdout == b""


def test_a_command_runs_on_its_cpus_and_we_on_ours() -> None:
    ours = os.sched_getaffinity(0)

    def both() -> tuple[bytes, set[int]]:
        argv = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status"]
        return go(argv, cpus={max(ours)}).stdout, os.sched_getaffinity(0)

    said, after = apart(both)
    assert (said.split()[1], after) == (str(max(ours)).encode(), ours)


def test_bytes_of_a_command_are_blocks_of_512(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = iter([SimpleNamespace(ru_inblock=10, ru_oublock=20), SimpleNamespace(ru_inblock=13, ru_oublock=28)])
    counted = SimpleNamespace(getrusage=lambda _: next(usage), RUSAGE_CHILDREN=process.resource.RUSAGE_CHILDREN)
    monkeypatch.setattr(process, "resource", counted)
    monkeypatch.setattr(process, "_COUNTS_BLOCKS", True)
    done = apart(go, ["true"])
    assert (done.storage_read_bytes, done.storage_written_bytes) == (3 * 512, 8 * 512)


@pytest.mark.parametrize(("now_s", "over"), [(89.9, False), (90.0, True)])
def test_a_time_limit_ends_the_whole_tree_and_keeps_what_was_printed(tmp_path: Path, now_s: float, over: bool) -> None:
    ends = "sleep 60" if over else 'until [ "$(wc -l < "$0")" = 2 ]; do sleep 0.01; done; exit 0'
    done = apart(stubborn, tmp_path / "pids", f"echo first;{STUBBORN}{ends}", 90.0, now_s)
    assert (done.timed_out, done.exit_code, done.left_behind) == (over, -9 if over else 0, ())
    assert done.stdout == b"first\n"
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    wait_for(lambda: not any(map(lives, pids)))


def test_how_long_a_command_has_printed_nothing(tmp_path: Path) -> None:
    for says, silent_s in (("echo first;", 0.0), ("echo >&2;", 90.0)):
        done = apart(stubborn, tmp_path / f"{silent_s}", f"{says}{STUBBORN}sleep 60", 90.0, 90.0)
        assert done.silent_s == silent_s


def test_what_holds_the_output_is_not_waited_for() -> None:
    # it left the session, and would write on for ten minutes
    done = sh("echo out; echo err >&2; setsid sleep 600 & exit 3", 300)
    assert (done.exit_code, done.timed_out, done.left_behind) == (3, False, ())
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")


def test_what_prints_without_end_is_ended_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_PRINTED_BYTES", 1000)
    monkeypatch.setattr(process, "_TIDY_S", 600)
    for script in ("yes", "exec yes >&2"):
        done = sh(f"echo once; {script}", 300)
        assert (done.flooded, done.timed_out, done.exit_code) == (True, False, -15)
        assert max(len(done.stdout), len(done.stderr)) == 1000


def test_children_that_have_nothing_to_do_with_it_are_spared() -> None:
    def both() -> tuple[set[int], bool, bool]:
        spared, other = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
        left = process.end_descendants([spared.pid])
        lives, alone = spared.poll() is None, process.children() == {spared.pid}
        spared.kill()
        spared.wait()
        assert other.poll() is not None
        return left, lives, alone

    assert apart(both) == (set(), True, True)
