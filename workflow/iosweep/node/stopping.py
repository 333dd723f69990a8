"""What makes a runner stop cleanly: a signal, or the end of whoever it works for."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

#: Ctrl-C, a scheduler that ends a job, a terminal that is closed, a scheduler that warns or a person.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Stopped(BaseException):
    """We were asked to stop; the message says by what. BaseException, so that nothing on the way takes it for a
    failure."""


@contextmanager
def stoppable(works_for: Sequence[int] = ()) -> Iterator[None]:
    """Turn the first of those signals into Stopped, and ignore what follows while we end cleanly.

    `works_for`: processes that need the result; the end of one of them stops us, too.
    """
    why = [""]

    def stop(number: int, frame: FrameType | None) -> None:
        for each in STOPPING:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(why[0] or signal.Signals(number).name)

    def gone(pid: int) -> None:
        why[0] = f"the end of process {pid}, which had started it"
        signal.pthread_kill(main, signal.SIGUSR1)  # not os.kill: the handler runs where it interrupts what waits

    # what is ignored stays ignored (nohup); ours is never
    before = {
        each: signal.signal(each, stop)
        for each in STOPPING
        if signal.getsignal(each) != signal.SIG_IGN or each == signal.SIGUSR1
    }
    main = threading.get_ident()
    ours, theirs = os.pipe()
    watch = threading.Thread(target=_watch, args=(works_for, ours, gone), daemon=True)
    watch.start()
    try:
        yield
    finally:
        os.close(theirs)
        watch.join()
        os.close(ours)
        for each, handler in before.items():
            signal.signal(each, handler)


def _watch(pids: Sequence[int], until: int, gone: Callable[[int], None]) -> None:
    """Call `gone` with the first of some processes that ends; return at the end of the descriptor `until`."""

    handles: dict[int, int] = {}
    try:
        for pid in pids:
            try:
                handles[os.pidfd_open(pid)] = pid
            except ProcessLookupError:  # already
                return gone(pid)
            except OSError:  # Linux before 5.3: we end with the signals alone
                continue
        ready, _, _ = select.select([until, *handles], [], [])
        if until not in ready:
            gone(handles[ready[0]])
    finally:
        for handle in handles:
            os.close(handle)
