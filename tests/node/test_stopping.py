"""What makes a runner stop: signals, and the end of whoever it works for."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from iosweep.node.stopping import STOPPING, Stopped, stoppable
from waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of the tests, afterwards."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_each_signal_stops_once_and_says_which() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        tidied = False
        with pytest.raises(Stopped) as stopped, stoppable():
            try:
                signal.raise_signal(number)
            finally:
                signal.raise_signal(signal.SIGINT)  # what follows changes nothing
                tidied = True
        assert (str(stopped.value), tidied) == (number.name, True)


def test_what_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with pytest.raises(Stopped, match="SIGTERM"), stoppable():
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)


def test_nothing_stays_of_the_watch_where_nobody_stops_us() -> None:
    def state() -> tuple[object, ...]:
        return [signal.getsignal(n) for n in STOPPING], len(os.listdir("/proc/self/fd")), threading.active_count()

    before = state()
    with stoppable([os.getppid()]):
        pass
    assert state() == before


@pytest.mark.local
def test_the_end_of_any_process_that_needs_the_result_stops_us() -> None:
    for which in (0, 1):
        both = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
        with pytest.raises(Stopped, match=f"process {both[which].pid},"), stoppable([one.pid for one in both]):
            both[which].kill()
            time.sleep(PATIENCE_S)
        for one in both:
            one.kill()
            one.wait()
    with pytest.raises(Stopped, match=f"process {both[0].pid},"), stoppable([both[0].pid]):  # it is gone already
        time.sleep(PATIENCE_S)
