"""Processes that wait in the kernel: which they are, and in which function.

A process that waits for a file system that does not answer may not even end by SIGKILL. Its kernel function says what
it waits for: `request_wait_answer` is the daemon of a FUSE file system, `rpc_wait_bit_killable` an NFS server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from iosweep.files.fields import Count, Part
from iosweep.node import procfs
from iosweep.text import human_count, printable, some

#: Where processes wait that have nothing to do, or for each other: not for a file system.
_IDLE = re.compile(r"nanosleep|do_wait|wait4|futex|poll|select|pipe|unix_|sigtimedwait|sigsuspend|tty|^0?$")
#: Process ids that a sentence names.
_MOST = 8


class Stuck(Part, frozen=True, kw_only=True):
    """Processes of one program that wait in the same function of the kernel, on one node (`host`, empty: this one).

    where: the name of the function; empty where the kernel does not tell it.
    """

    program: str
    pids: tuple[Count, ...]
    where: str = ""
    host: str = ""


def of(pids: Iterable[int]) -> tuple[Stuck, ...]:
    """Which of these processes wait for something in the kernel."""
    found = {}
    for pid in pids:
        threads = [(_state(pid, thread), _function(pid, thread)) for thread in procfs.threads(str(pid))]
        if (where := place(threads)) is not None:
            found[pid] = (printable(procfs.read(str(pid), "comm").decode("utf-8", "replace").strip()), where)
    return grouped(found)


def waits(pid: int) -> str:
    """`waits in request_wait_answer`, of one process; empty if it is idle, runs or is gone."""
    found = of([pid])
    return f"waits in {found[0].where or 'the kernel'}" if found else ""


def place(threads: Sequence[tuple[str, str]]) -> str | None:
    """The function in which a process waits that does not get on; None if it is idle or runs. Pure.

    `threads`: state and function of each. One that cannot be interrupted (D) goes before one that only sleeps.
    """
    if held := [where for state, where in threads if state == "D"]:
        return next((where for where in held if where.strip("0")), "")
    return next((where for state, where in threads if state in "STt" and not _IDLE.search(where)), None)


def grouped(processes: Mapping[int, tuple[str, str]]) -> tuple[Stuck, ...]:
    """Processes of the same program and place together. `processes`: id -> program, function. Pure."""
    kinds: dict[tuple[str, str], list[int]] = {}
    for pid, kind in processes.items():
        kinds.setdefault(kind, []).append(pid)
    return tuple(Stuck(program=p, where=where, pids=tuple(sorted(pids))) for (p, where), pids in sorted(kinds.items()))


def on(host: str, stuck: Iterable[Stuck]) -> tuple[Stuck, ...]:
    """The same with the name of their node."""
    return tuple(Stuck(program=one.program, pids=one.pids, where=one.where, host=host) for one in stuck)


def sentence(stuck: Sequence[Stuck]) -> str:
    """`on n1, n2: 4 processes of fio wait in request_wait (pids n1: 11, 12; n2: 7, 9)`; empty without any. Pure."""
    kinds: dict[tuple[str, str], list[Stuck]] = {}
    for one in stuck:
        kinds.setdefault((one.program, one.where), []).append(one)
    return "; ".join(_kind(program, where, found) for (program, where), found in kinds.items())


def _kind(program: str, where: str, found: Sequence[Stuck]) -> str:
    count = sum(len(one.pids) for one in found)
    hosts = [one.host for one in found if one.host]
    at = f"on {some(hosts, 4)}: " if hosts else ""
    which = f"{human_count(count, 'process', 'processes')} of {printable(program)} {'waits' if count == 1 else 'wait'}"
    each = [f"{one.host}: {_numbers(one.pids)}" if len(hosts) > 1 else _numbers(one.pids) for one in found]
    pid = "pid" if count == 1 else "pids"
    return f"{at}{which} in {printable(where) or 'the kernel'} ({pid} {some(each, 4, separator='; ')})"


def _numbers(pids: Sequence[int]) -> str:
    return some([str(pid) for pid in pids], _MOST)


def _state(pid: int, thread: str) -> str:
    fields = procfs.stat(f"{pid}/task/{thread}")
    return fields[0].decode() if fields else ""


def _function(pid: int, thread: str) -> str:
    return procfs.read(f"{pid}/task/{thread}", "wchan").decode("ascii", "replace").strip()
