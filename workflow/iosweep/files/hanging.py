"""Results on a file system that hangs (a dead NFS server, a stopped FUSE process): a message, and Ctrl-C works.

A thread that waits for such a file system runs no signal handler, but the kernel lets a signal end it that has none.
So two threads watch: one asks the file system from time to time, the other prints a sentence where no answer comes, or
where the main thread has waited for a file all the time, and gives the signals back their default until it answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from iosweep.files import waiting
from iosweep.text import printable

#: Seconds without an answer before the message is printed.
DEADLINE_S = 30.0
#: The file system is asked this many times in that time.
_LOOKS = 10
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: More than a `struct sigaction` has.
_SIGACTION_BYTES = 256


@contextmanager
def watched(places: Sequence[Path]) -> Iterator[None]:
    """Watch the main thread and the file systems of some paths until the end of the block. To be called in that thread,
    and not within such a block: two would overwrite what the other one does with signals."""
    over = watch(places)
    try:
        yield
    finally:
        over.set()


def watch(places: Sequence[Path]) -> threading.Event:
    """The same until the event is set, or the process ends. Places may be added meanwhile."""
    over = threading.Event()
    asked = _Asked()
    main = threading.get_native_id()
    for work, arguments in ((_ask, (places, asked, over)), (_look, (places, asked, over, main))):
        threading.Thread(target=work, args=arguments, daemon=True).start()
    return over


class _Asked:
    """The place that is asked now, and since when."""

    place: Path | None = None
    since = 0.0


def _ask(places: Sequence[Path], asked: _Asked, over: threading.Event) -> None:
    while not over.is_set():
        for place in places:
            asked.since, asked.place = time.monotonic(), place
            with contextlib.suppress(OSError):  # an error is an answer
                os.statvfs(place)
            asked.place = None
        over.wait(DEADLINE_S / _LOOKS)


def _look(places: Sequence[Path], asked: _Asked, over: threading.Event, main: int) -> None:
    waits_since: float | None = None
    last: waiting.Call | None = None
    before: list[tuple[int, ctypes.Array[ctypes.c_char]]] = []
    while not over.wait(DEADLINE_S / _LOOKS):
        now = time.monotonic()
        call = waiting.call(main)
        still = _waits(main) or (call is not None and call == last)
        last = call
        waits_since = (waits_since or now) if still else None
        since = min([asked.since] * (asked.place is not None) + [waits_since or now])
        hangs = now - since > DEADLINE_S
        if hangs and not before:
            file = waiting.file(call[0]) if call and waits_since else None
            where = asked.place or file or " or ".join(map(str, places)) or "a file system"
            said = f"iosweep: {where} has not answered for {DEADLINE_S:g} s; it is waited for, and Ctrl-C ends this"
            before = [(each, _set(each)) for each in _ENDING if not _ignored(each)]  # before the message promises it
            with contextlib.suppress(OSError):
                os.write(2, f"{printable(said)} (what was stored before is not lost)\n".encode("utf-8", "replace"))
        elif before and not hangs:
            for each, action in before:
                _set(each, action)
            before = []
    for each, action in before:
        _set(each, action)


def _waits(thread: int) -> bool:
    """Whether a thread of ours waits in the kernel and cannot be interrupted."""
    try:
        return Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0] == "D"
    except OSError:
        return False


def _ignored(number: int) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN  # as under nohup


def _set(number: int, action: ctypes.Array[ctypes.c_char] | None = None) -> ctypes.Array[ctypes.c_char]:
    """Set what a signal does (None: its default), and return what it did. Python lets only the main thread do so."""
    was = ctypes.create_string_buffer(_SIGACTION_BYTES)
    wanted = action or ctypes.create_string_buffer(_SIGACTION_BYTES)  # SIG_DFL, no mask and no flags are zeros
    ctypes.CDLL(None).sigaction(number, wanted, was)
    return was
