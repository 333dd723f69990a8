"""Results on a file system that hangs (a dead NFS server, a stopped FUSE process): a message, and Ctrl-C works.

A thread that waits for such a file system runs no signal handler, but the kernel lets a signal end it that has none.
So two threads watch: one asks the file system from time to time, also that of a file for which the main thread waits.
The other prints a sentence where no answer comes, and gives the signals back their default until one does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from iosweep.files import waiting
from iosweep.text import printable

#: Seconds without an answer before the message is printed.
DEADLINE_S = 30.0
#: The file system is asked this many times in that time.
_LOOKS = 10
#: Times the deadline before a wait is named whose file system answers: a sync on a busy one takes minutes.
_PATIENT = 10
#: Seconds between looks once the message is printed.
_SOON_S = 0.1
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
    """The place that is asked now, and how many were asked before. `file`: what the main thread waits for.
    `pipe`: one that is a named pipe, whose writer may take as long as it likes."""

    place: Path | None = None
    number = 0
    file: Path | None = None
    pipe: Path | None = None


def _ask(places: Sequence[Path], asked: _Asked, over: threading.Event) -> None:
    while not over.is_set():
        for place in [*places, *filter(None, [asked.file])]:
            asked.number += 1
            asked.place = place
            with contextlib.suppress(OSError):  # an error is an answer
                os.statvfs(place)
                if place == asked.file and stat.S_ISFIFO(place.stat().st_mode):
                    asked.pipe = place
            asked.place = None
        over.wait(DEADLINE_S / _LOOKS)


def _look(places: Sequence[Path], asked: _Asked, over: threading.Event, main: int) -> None:
    """Looks are counted, not seconds: a process that is stopped, or gets no CPU, does not look."""
    last: waiting.Call | None = None
    number = unanswered = still = 0
    before: dict[int, ctypes.Array[ctypes.c_char]] = {}
    while not over.wait(_SOON_S if before else DEADLINE_S / _LOOKS):
        call = waiting.call(main)
        still = still + 1 if call is not None and call == last else 0
        last = call
        asked.file = waiting.file(call[0]) if call and still else None
        if asked.file and asked.file == asked.pipe:
            still = 0
        place = asked.place
        unanswered = unanswered + 1 if place is not None and asked.number == number else 0
        number = asked.number
        # The file system of a slow file answers. That of a frozen one does so, too.
        hangs = unanswered > _LOOKS or still > _LOOKS * _PATIENT or (bool(before) and (unanswered or still))
        if hangs:
            first = not before
            for each in _ENDING:  # again and again: each asyncio.run has its own handler of SIGINT
                if not _ignored(each) and _handled(was := _set(each)):
                    before[each] = was
            if first:
                where = place or asked.file or " or ".join(map(str, places)) or "a file system"
                _say(str(where), DEADLINE_S if unanswered > _LOOKS else DEADLINE_S * _PATIENT)
        elif before:
            _restore(before)
    _restore(before)


def _say(where: str, seconds: float) -> None:
    said = f"iosweep: {where} has not answered for {seconds:g} s; it is waited for, and Ctrl-C ends this"
    with contextlib.suppress(OSError):
        os.write(2, f"{printable(said)} (what was stored before is not lost)\n".encode("utf-8", "replace"))


def _restore(before: dict[int, ctypes.Array[ctypes.c_char]]) -> None:
    for each, action in before.items():
        _set(each, action)
    before.clear()


def _handled(action: ctypes.Array[ctypes.c_char]) -> bool:
    """Whether a signal has a handler: the first field of a `struct sigaction` is its address, of SIG_DFL 0."""
    return any(action.raw[: ctypes.sizeof(ctypes.c_void_p)])


def _ignored(number: int) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN  # as under nohup


def _set(number: int, action: ctypes.Array[ctypes.c_char] | None = None) -> ctypes.Array[ctypes.c_char]:
    """Set what a signal does (None: its default), and return what it did. Python lets only the main thread do so."""
    was = ctypes.create_string_buffer(_SIGACTION_BYTES)
    wanted = action or ctypes.create_string_buffer(_SIGACTION_BYTES)  # SIG_DFL, no mask and no flags are zeros
    ctypes.CDLL(None).sigaction(number, wanted, was)
    return was
