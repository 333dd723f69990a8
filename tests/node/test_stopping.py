"""What makes a runner stop: signals, and the end of whoever it works for."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from iosweep.node.process import STOPPING, Stopped, stoppable
from waiting import PATIENCE_S


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of the tests, afterwards."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def stopped(act: Callable[[], object], works_for: Sequence[int] = ()) -> str:
    """By what, while something is done; empty if by nothing."""
    try:
        with stoppable(works_for):
            act()
    except Stopped as by:
        return str(by)
    return ""


def test_each_signal_stops_once_and_says_which() -> None:
    tidied = []

    def receive(number: signal.Signals) -> None:
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(signal.SIGINT)  # what follows changes nothing
            tidied.append(number.name)

    names = [stopped(lambda number=number: receive(number)) for number in STOPPING]
    assert names == tidied == ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"]


def test_what_is_ignored_stays_ignored() -> None:
    """As under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert stopped(lambda: signal.raise_signal(signal.SIGHUP)) == ""
    assert stopped(lambda: signal.raise_signal(signal.SIGTERM)) == "SIGTERM"


@pytest.mark.local
def test_the_end_of_any_process_that_needs_the_result_stops_us() -> None:
    def ends(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        time.sleep(PATIENCE_S)

    for which in (0, 1):
        both = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
        said = stopped(lambda: ends(both[which]), [one.pid for one in both])  # noqa: B023
        assert f"process {both[which].pid}," in said
        for one in both:
            one.kill()
            one.wait()
    gone = both[0].pid
    assert f"process {gone}," in stopped(lambda: time.sleep(PATIENCE_S), [gone])
