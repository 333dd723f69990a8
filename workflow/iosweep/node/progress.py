"""What each MPI rank had moved whenever a node looked at its ranks, by the kernel's account of a process.

IOR tells no rank's own bytes in a timed phase. The kernel does (`rchar`, `wchar` of /proc/<pid>/io): what a process
read and wrote by system calls, in whatever file system. What was seen is kept as a stream: a line of JSON for each
node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median
from typing import Annotated

import msgspec

from iosweep.node import procfs
from iosweep.own_rate import MOST

#: Looks that are kept; if there are more, every other one goes.
_MOST = 24
#: Who has started a rank, and numbered it. Slurm comes last: hydra's ranks have its number of their proxy.
_NUMBERS = ("PMI_RANK", "PMIX_RANK", "SLURM_PROCID")
#: A look counts from when ranks move, together, at this share of their usual rate: before, they start.
_MOVING = 0.1
#: Whole intervals between looks that a rate takes.
_LEAST = 3
#: The largest stream that is read: one of 10,000 ranks.
_MOST_BYTES = 16 << 20
#: The kernel's counts have 64 bits, but no process moves as much.
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Rank = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,9}\Z")]
_COUNTS = re.compile(rb"^[rw]char: (\d+)$", re.MULTILINE)


class _Looks(msgspec.Struct):
    """moved_bytes: of each rank at each look, as many as at_s."""

    host: str
    at_s: list[float]
    moved_bytes: dict[_Rank, list[_Count]]


class Progress:
    """The looks at the ranks of this node."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}
        self._looks: list[tuple[float, dict[str, int]]] = []

    def look(self, at_s: float, pids: Iterable[str]) -> None:
        """Read what ranks have moved; a look without one of them does not count."""
        found: dict[str, int] = {}
        for pid in pids:
            counts = _COUNTS.findall(procfs.read(pid, "io"))
            number = self._number(pid)
            if len(counts) != 2 or not number:
                return
            found[number] = sum(map(int, counts))
        self._looks.append((at_s, found))
        if len(self._looks) > _MOST:
            del self._looks[1::2]

    def _number(self, pid: str) -> str:
        if pid not in self._numbers:
            known = (procfs.variable(pid, name) for name in _NUMBERS)
            self._numbers[pid] = next((number for number in known if number.isdecimal()), "")
        return self._numbers[pid]

    def stream(self) -> bytes:
        """What was seen, for `of_nodes`; empty where that is nothing."""
        every = [found for _, found in self._looks]
        ranks = every[-1].keys() if every else set()
        whole = [(at_s, found) for at_s, found in self._looks if found.keys() == ranks]
        if len(whole) < 2:
            return b""
        moved = {rank: [found[rank] for _, found in whole] for rank in sorted(ranks, key=int)}
        return _line(_Looks("", [round(at_s - whole[0][0], 3) for at_s, _ in whole], moved))


def _line(looks: _Looks) -> bytes:
    return msgspec.json.encode(looks) + b"\n"


def of_nodes(streams: Mapping[str, bytes]) -> bytes:
    """One stream of those of several nodes, by their hosts. Pure."""
    made = []
    for host, stream in streams.items():
        for looks in _read(stream):
            looks.host = host
            made.append(_line(looks))
    return b"".join(made)


def _read(stream: bytes) -> Iterator[_Looks]:
    """The nodes of a stream, without what is not one."""
    for line in stream.splitlines() if len(stream) <= _MOST_BYTES else ():
        try:
            looks = msgspec.json.decode(line, type=_Looks)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if all(len(own) == len(looks.at_s) for own in looks.moved_bytes.values()):
            yield looks


def rates(stream: bytes) -> dict[str, dict[int, float]]:
    """host -> rank -> its bytes per second while all ranks of the node moved data; none of a node with too few looks.

    Pure. The first and the last interval in which they moved are left out, because the phase began and ended there.
    """
    return {looks.host: own for looks in _read(stream) if (own := _of_node(looks))}


def _of_node(looks: _Looks) -> dict[int, float]:
    at_s, ranks = looks.at_s, looks.moved_bytes
    together = [sum(own[k] for own in ranks.values()) for k in range(len(at_s))]
    if any(after <= before for before, after in pairwise(at_s)):
        return {}
    each = [(together[k + 1] - together[k]) / (at_s[k + 1] - at_s[k]) for k in range(len(at_s) - 1)]
    usual = median(each) if each else 0.0
    moving = [k for k, rate in enumerate(each) if rate > _MOVING * usual and rate > 0]
    if not moving:
        return {}
    begin, end = moving[0] + 1, moving[-1]  # looks
    if end - begin < _LEAST:
        return {}
    lasted_s = at_s[end] - at_s[begin]
    found = {int(rank): (own[end] - own[begin]) / lasted_s for rank, own in ranks.items()}
    return found if all(0 <= rate <= MOST for rate in found.values()) else {}
