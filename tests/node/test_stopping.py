"""What makes a runner stop: signals, and the end of whoever it works for. In processes of their own."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

pytestmark = pytest.mark.local

PROGRAM = """
import sys, time
from iosweep.node.stopping import Stopped, stoppable
try:
    with stoppable([int(pid) for pid in sys.argv[1:]]):
        print("on", flush=True)
        time.sleep(600)
except Stopped as stopped:
    print(stopped)
"""


@contextmanager
def running(*argv: str) -> Iterator[subprocess.Popen[str]]:
    """It is not waited for where a test fails."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def started(*works_for: int, setup: str = "") -> AbstractContextManager[subprocess.Popen[str]]:
    return running(sys.executable, "-c", setup + PROGRAM, *map(str, works_for))


def on(process: subprocess.Popen[str]) -> None:
    assert process.stdout
    assert process.stdout.readline() == "on\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal(number: signal.Signals) -> None:
    with started() as process:
        on(process)
        process.send_signal(number)
        assert process.communicate(timeout=300)[0] == f"{number.name}\n"


def test_a_second_signal_changes_nothing() -> None:
    program = PROGRAM.replace(
        '        print("on", flush=True)\n        time.sleep(600)',
        "        try: print('on', flush=True); time.sleep(600)\n"
        "        finally: print('ending', flush=True); time.sleep(0.3)",
    )
    with running(sys.executable, "-c", program) as process:
        on(process)
        process.send_signal(signal.SIGTERM)
        assert process.stdout
        assert process.stdout.readline() == "ending\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=300)[0] == "SIGTERM\n"


def test_what_is_ignored_stays_ignored() -> None:
    with started(setup="import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n") as process:
        on(process)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=300)[0] == "SIGTERM\n"


@pytest.mark.parametrize("first", [False, True])
def test_the_end_of_whoever_it_works_for(first: bool) -> None:
    with running("sleep", "600") as one, running("sleep", "600") as other, started(one.pid, other.pid) as process:
        on(process)
        ended = one if first else other
        ended.kill()
        assert process.communicate(timeout=300)[0] == f"the end of process {ended.pid}, which had started it\n"


def test_whoever_it_works_for_is_gone_already() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    with started(gone.pid) as process:
        assert process.communicate(timeout=300)[0].endswith(f"the end of process {gone.pid}, which had started it\n")


def test_whoever_it_works_for_lives() -> None:
    """Nothing stays of the watch, and the signals are as before."""
    program = (
        "import os, signal, threading; from iosweep.node.stopping import STOPPING, stoppable\n"
        "before = [signal.getsignal(number) for number in STOPPING], len(os.listdir('/proc/self/fd'))\n"
        "with stoppable([os.getppid()]): pass\n"
        "after = [signal.getsignal(number) for number in STOPPING], len(os.listdir('/proc/self/fd'))\n"
        "print(before == after, threading.active_count())"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    assert done.stdout == "True 1\n"
