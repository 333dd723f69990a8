"""Rates of this node while a command runs, from counters: for `iosweep watch`, and no part of a result.

The bytes of the tool's own processes are the kernel's account of each (/proc/<pid>/io): of system calls (`rchar`,
`wchar`), which libaio, io_uring and mmap do without, and of I/O that the process itself caused in storage
(`read_bytes`, `write_bytes`), which some network file systems do not count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

import msgspec

from iosweep.node import procfs
from iosweep.node.io_counters import Bytes
from iosweep.node.monitor import QUANTITIES, Sample

#: Minimum interval between two rates; with many nodes it is longer, so that all send at most this many a second.
EVERY_S, _NODES_PER_S = 2.0, 64
#: Readings are up to this early or late.
_JITTER_S = 0.2
#: The tool's processes are looked for at each of so many looks, and when one has ended.
_SEARCH = 8
#: A count of the tool's own is used unless another one moved this many times as much: then it sees only a part.
_SEES_A_PART = 2.0
#: The same of the network, which other traffic uses, too: libaio's own calls are a few bytes beside it.
_SEES_NOTHING = 100.0
#: A rate of more than this is no rate but a counter that began again.
_MOST = 1e15

Source = Literal["tool", "client", "device", "network"]
_COUNTERS: Mapping[Source, tuple[str, str]] = {
    "client": ("client_read_bytes_per_s", "client_written_bytes_per_s"),
    "device": ("device_read_bytes_per_s", "device_written_bytes_per_s"),
    "network": ("received_bytes_per_s", "sent_bytes_per_s"),
}
_INDEX = {quantity.name: k for k, quantity in enumerate(QUANTITIES)}
_OWN = re.compile(rb"^(rchar|wchar|read_bytes|write_bytes): (\d+)$", re.MULTILINE)


class Rates(msgspec.Struct, frozen=True):
    """Of one node, over the last `over_s` seconds. source: whose counters these are (Source)."""

    source: Source
    read_bytes_per_s: float
    written_bytes_per_s: float
    over_s: float


class Account(NamedTuple):
    """What a process moved, by system calls and in storage."""

    calls: Bytes = Bytes(0, 0)
    storage: Bytes = Bytes(0, 0)


class Look(NamedTuple):
    """The counters of the node, and the accounts of the tool's processes, at one time; None before it was started."""

    at_s: float
    counters: Mapping[Source, Bytes]
    processes: Mapping[str, Account] | None = None


class Meter:
    """Tells rates from time to time, until its command ends. `pids`: the tool's processes now; `tell`: takes rates."""

    def __init__(self, pids: Callable[[], Iterable[str]], tell: Callable[[Rates], None], nodes: int = 1) -> None:
        self._pids, self._tell = pids, tell
        self._every_s = every_s(nodes)
        self._before: Look | None = None
        self._known: list[str] = []
        self._looks = 0

    def sampled(self, sample: Sample) -> None:
        """Take a reading of the monitor; the first one is made when the command begins."""
        before = self._before
        if before and sample.at_s - before.at_s < self._every_s - _JITTER_S:
            return
        self._before = Look(sample.at_s, counters(sample), self._accounts() if before else None)
        if before and (found := rates(before, self._before)):
            self._tell(found)

    def _accounts(self) -> dict[str, Account]:
        """Of the tool's processes. To find these takes longer than to read them, and most stay."""
        if self._looks % _SEARCH == 0:
            self._known = list(self._pids())
        self._looks += 1
        found = {pid: account(text) for pid in self._known if (text := procfs.read(pid, "io"))}
        if len(found) < len(self._known):
            self._looks = 0  # some have ended, and others may have been started
        return found


def every_s(nodes: int) -> float:
    """Seconds between the rates of one of so many nodes. Pure."""
    return max(EVERY_S, nodes / _NODES_PER_S)


def nodes_of_step() -> int:
    """The number of nodes of the Slurm step that we are in; 1 without one."""
    found = os.environ.get("SLURM_STEP_NUM_NODES", "")
    return int(found) if found.isdecimal() else 1


def account(text: bytes) -> Account:
    """The text of /proc/<pid>/io; zeros where it is not one. Pure."""
    found = {name: int(count) for name, count in _OWN.findall(text)}
    calls = Bytes(found.get(b"rchar", 0), found.get(b"wchar", 0))
    return Account(calls, Bytes(found.get(b"read_bytes", 0), found.get(b"write_bytes", 0)))


def counters(sample: Sample) -> dict[Source, Bytes]:
    """The bytes of a reading, without those that the node does not count. Pure."""
    found: dict[Source, Bytes] = {}
    for source, names in _COUNTERS.items():
        read, written = (sample.values[_INDEX[name]] for name in names)
        if read == read and written == written:  # not NaN
            found[source] = Bytes(int(read), int(written))
    return found


def rates(before: Look, now: Look) -> Rates | None:
    """Rates between two looks; None where nothing was counted. Pure.

    They are the tool's own, if its processes are seen to move about as much as the client or the devices, and not next
    to nothing beside the network where neither is there; otherwise those of the client, the devices, or the network,
    whichever is there first.
    """
    over_s = now.at_s - before.at_s
    if over_s <= 0:
        return None
    moved: dict[Source, Bytes] = {
        source: found
        for source, count in now.counters.items()
        if source in before.counters and (found := _between(before.counters[source], count))
    }
    own = _own(before.processes, now.processes)
    others: list[float] = [sum(moved[source]) for source in ("client", "device") if source in moved]
    if not others and "network" in moved:
        others = [sum(moved["network"]) * _SEES_A_PART / _SEES_NOTHING]
    order: tuple[Source, ...] = ("client", "device", "network")
    if own and sum(own) and _SEES_A_PART * sum(own) >= max(others, default=0):
        moved["tool"], order = own, ("tool",)
    for source in order:
        if source in moved:
            read, written = (count / over_s for count in moved[source])
            return Rates(source, round(read), round(written), round(over_s, 3)) if read + written < _MOST else None
    return None


def _own(before: Mapping[str, Account] | None, now: Mapping[str, Account] | None) -> Bytes | None:
    """What the tool's processes moved between two looks; None where none was there both times."""
    start = dict.fromkeys(now or (), Account()) if before is None else before
    each = [_moved(start[pid], account) for pid, account in (now or {}).items() if pid in start]
    return Bytes(sum(one.read for one in each), sum(one.written for one in each)) if each else None


def _moved(before: Account, now: Account) -> Bytes:
    """What a process moved: by its system calls, unless storage saw much more."""
    calls, storage = _between(before.calls, now.calls), _between(before.storage, now.storage)
    if calls is None or storage is None:
        return Bytes(0, 0)
    return storage if sum(storage) > _SEES_A_PART * sum(calls) else calls


def _between(before: Bytes, now: Bytes) -> Bytes | None:
    """None where a counter began again."""
    if now.read < before.read or now.written < before.written:
        return None
    return Bytes(now.read - before.read, now.written - before.written)
