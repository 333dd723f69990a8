"""What a node did while a command runs: `Watch` looks at its ranks or workers (ranks.py), at who uses its CPUs
(load.py), and, once a second, at CPUs, memory, network, the target's block devices and client (`Monitor`).

Nothing on the target is read. What `Monitor` has seen is kept as a stream: for each node a line of JSON, and the values
as 32-bit floats, one quantity after the other. `series` reads it.
"""

from __future__ import annotations

import math
import os
import re
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from iosweep.details import Series
from iosweep.node import load, procfs
from iosweep.node.counters import Bytes, IoCounters, Moved, Reading
from iosweep.node.cpus import NO_CPUS, CpuSet, parsed
from iosweep.node.load import Around, Job, Look, NodeLoad, Reader
from iosweep.node.ranks import Looks, Sampler, Wanted

#: Seconds between readings; they become twice as many whenever there are this many readings.
INTERVAL_S, _MOST = 1.0, 1200
#: A stream names this many quantities at most; more is not ours. The same of seconds, and of their fractions.
_MOST_NAMES, _MOST_S, _LEAST_S = 100, 1e9, 1e-6
#: The kernel counts CPU time in these.
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Quantity(NamedTuple):
    """`rate`: it is counted from the start of the node, and kept per second; else it is kept as it is. `most`: a higher
    value comes from a counter of coarse steps."""

    name: str
    rate: bool = True
    most: float = math.inf


def _of_cpus(which: str) -> list[Quantity]:
    kinds = ("busy", "user", "system", "iowait", "steal")
    return [Quantity(f"{which}_cpus_{kind}_share", most=1.0) for kind in kinds]


#: measuring_cpus: those that ranks or workers may use; other_cpus: the node's others. busy includes interrupts.
QUANTITIES = (
    *_of_cpus("measuring"),
    *_of_cpus("other"),
    Quantity("memory_available_bytes", rate=False),
    Quantity("dirty_bytes", rate=False),
    Quantity("writeback_bytes", rate=False),
    Quantity("page_cache_bytes", rate=False),
    Quantity("received_bytes_per_s"),
    Quantity("sent_bytes_per_s"),
    Quantity("device_read_bytes_per_s"),
    Quantity("device_written_bytes_per_s"),
    Quantity("device_busy_share", most=1.0),
    Quantity("device_in_flight", rate=False),
    Quantity("client_read_bytes_per_s"),
    Quantity("client_written_bytes_per_s"),
)
_NAMES = frozenset(one.name for one in QUANTITIES)
_NOTHING = math.nan


class Sample(NamedTuple):
    """A reading: a value for each of QUANTITIES, NaN where there is none."""

    at_s: float
    values: tuple[float, ...]


class _Head(msgspec.Struct):
    """The line before a node's values."""

    host: str
    interval_s: float
    begin_s: float
    count: int
    names: list[str]


def _read(path: Path) -> bytes:
    """The content of a file; empty where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Monitor:
    """Readings of one node from now on. `measuring`: the CPUs that ranks or workers may use, none where that is all."""

    def __init__(self, measuring: CpuSet = NO_CPUS, counters: IoCounters | None = None, proc: Path = Path("/proc")):
        self._measuring, self._counters = measuring, counters
        self._stat, self._meminfo = proc / "stat", proc / "meminfo"
        self._disks = [Path("/sys/class/block", name, "stat") for name in counters.devices] if counters else []
        self._samples: list[Sample] = []
        self.interval_s = INTERVAL_S

    def sample(self) -> Sample:
        """Read once; the counts are those since the node was started."""
        now = time.monotonic()
        values = [
            *cpus(_read(self._stat), self._measuring),
            *memory(_read(self._meminfo)),
            *self._moved(),
        ]
        sample = Sample(now, tuple(values))
        self._samples.append(sample)
        if len(self._samples) > _MOST:
            del self._samples[1::2]
            self.interval_s *= 2
        return sample

    def _moved(self) -> Iterator[float]:
        found = self._counters.read() if self._counters else Reading(0.0)
        yield from _both(found.network)
        yield from _both(found.device)
        yield from disks([_read(file) for file in self._disks])
        yield from _both(found.client)

    def dirty_bytes(self) -> int | None:
        """What waited to be written when the first reading was made; None where that is not known."""
        if not self._samples:
            return None
        first = dict(zip((one.name for one in QUANTITIES), self._samples[0].values, strict=True))
        waiting = first["dirty_bytes"] + first["writeback_bytes"]
        return None if math.isnan(waiting) else int(waiting)

    def still_s(self) -> float:
        """The longest time between two readings, beyond their interval."""
        times = [one.at_s for one in self._samples]
        longest = max((b - a for a, b in pairwise(times)), default=0.0)
        return round(max(0.0, longest - self.interval_s), 3)

    def stream(self) -> bytes:
        """What was seen, for `of_nodes`; empty where that is a single reading."""
        return encoded("", self._samples, self.interval_s)


def _both(counts: Bytes | None) -> tuple[float, float]:
    return (counts.read, counts.written) if counts else (_NOTHING, _NOTHING)


def cpus(stat: bytes, measuring: CpuSet) -> Iterator[float]:
    """Seconds per CPU since the node was started, of those that measure and of the others, by the text of /proc/stat:
    busy, user, system, iowait, steal."""
    sums = {True: [0] * 5, False: [0] * 5}
    count = {True: 0, False: 0}
    for line in re.findall(rb"^cpu(\d+) (.*)$", stat.partition(b"\nintr")[0], re.MULTILINE):
        among = not measuring or int(line[0]) in measuring
        user, nice, system, _, iowait, irq, softirq, steal = [*map(int, line[1].split()[:8]), *[0] * 8][:8]
        busy = user + nice + system + irq + softirq
        sums[among] = [a + b for a, b in zip(sums[among], (busy, user + nice, system, iowait, steal), strict=True)]
        count[among] += 1
    for among in (True, False):
        yield from (_TICK_S * each / count[among] if count[among] else _NOTHING for each in sums[among])


def memory(meminfo: bytes) -> Iterator[float]:
    """Bytes available, dirty, in writeback and in the page cache, by the text of /proc/meminfo."""
    found = {name: 1024.0 * int(count) for name, count in re.findall(rb"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)}
    for name in (b"MemAvailable", b"Dirty", b"Writeback"):
        yield found.get(name, _NOTHING)
    yield found.get(b"Cached", _NOTHING) + found.get(b"Buffers", 0.0)


def disks(stats: Sequence[bytes]) -> tuple[float, float]:
    """Seconds busy, of the mean block device, and requests in flight on all, by /sys/class/block/*/stat."""
    fields = [one.split() for one in stats]
    if not fields or any(len(one) < 11 for one in fields):
        return _NOTHING, _NOTHING
    return sum(int(one[9]) for one in fields) / 1000 / len(fields), float(sum(int(one[8]) for one in fields))


# Streams


def encoded(host: str, samples: Sequence[Sample], interval_s: float) -> bytes:
    """Samples at about even times as a stream, empty without two of them. Pure.

    Counts are interpolated at even times, so the sum over a series is what was counted. The last interval lasts until
    the end, up to half as long again; one of less than half is part of that before. A command that is shorter than two
    intervals has one.
    """
    if len(samples) < 2:
        return b""
    begin_s, end_s = samples[0].at_s, samples[-1].at_s
    count = max(1, math.floor((end_s - begin_s) / interval_s + 0.5))
    if count == 1:
        interval_s = max(end_s - begin_s, 1e-6)
    edges = [begin_s + k * interval_s for k in range(count)] + [end_s]
    names, values = [], array("f")
    for k, quantity in enumerate(QUANTITIES):
        points = [(at_s, each[k]) for at_s, each in samples]
        row = _rates(points, edges, quantity.most) if quantity.rate else _levels(points, edges, interval_s)
        if not all(map(math.isnan, row)):
            names.append(quantity.name)
            values.extend(row)
    return _whole(_Head(host, round(interval_s, 6), 0.0, count, names), values)


def _whole(head: _Head, values: array[float]) -> bytes:
    if sys.byteorder == "big":
        values.byteswap()
    return msgspec.json.encode(head) + b"\n" + values.tobytes()


def _rates(points: Sequence[tuple[float, float]], edges: Sequence[float], most: float) -> list[float]:
    """Per second between two edges; NaN where the count began again."""
    counts, k = [], 0
    for edge in edges:
        while k < len(points) - 2 and points[k + 1][0] < edge:
            k += 1
        (t0, v0), (t1, v1) = points[k], points[k + 1]
        counts.append(v0 + (v1 - v0) * min(1.0, max(0.0, (edge - t0) / max(t1 - t0, 1e-9))))
    pairs = zip(counts, counts[1:], edges, edges[1:], strict=False)
    rates = [(b - a) / max(until - since, 1e-9) for a, b, since, until in pairs]
    return [min(rate, most) if rate >= 0 else _NOTHING for rate in rates]


def _levels(points: Sequence[tuple[float, float]], edges: Sequence[float], interval_s: float) -> list[float]:
    """As read nearest to the end of each interval; NaN where nothing was read within half an interval of it."""
    found, k = [], 0
    for edge in edges[1:]:
        while k < len(points) - 1 and abs(points[k + 1][0] - edge) <= abs(points[k][0] - edge):
            k += 1
        found.append(points[k][1] if abs(points[k][0] - edge) <= interval_s / 2 else _NOTHING)
    return found


def of_nodes(streams: Mapping[str, bytes]) -> bytes:
    """One stream of those of several nodes, by their hosts. Pure."""
    made = []
    for host, stream in streams.items():
        for head, values in _blocks(stream):
            head.host = host
            made.append(_whole(head, values))
    return b"".join(made)


def is_whole(stream: bytes) -> bool:
    """Whether all of a stream is what `encoded` and `of_nodes` make. Pure."""
    return max((end for _, _, end in _heads(stream)), default=0) == len(stream)


def _blocks(stream: bytes) -> Iterator[tuple[_Head, array[float]]]:
    """The parts of a stream, up to the first that is not whole."""
    for head, begin, end in _heads(stream):
        values = array("f", stream[begin:end])
        if sys.byteorder == "big":
            values.byteswap()
        yield head, values


def _heads(stream: bytes) -> Iterator[tuple[_Head, int, int]]:
    """(head, where its values begin, and end) of the parts of a stream, up to the first that is not whole."""
    position = 0
    while (end := stream.find(b"\n", position)) >= 0:
        try:
            head = msgspec.json.decode(stream[position:end], type=_Head)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        position = end + 1 + 4 * head.count * len(head.names)
        if not (head.count > 0 and len(head.names) <= _MOST_NAMES):
            return
        if not (_LEAST_S <= head.interval_s <= _MOST_S and abs(head.begin_s) <= _MOST_S):
            return
        if position > len(stream):
            return
        yield head, end + 1, position


def series(stream: bytes) -> tuple[Series, ...]:
    """The series of a stream `monitor`, as they were seen on each node; none of what is not such a stream, nor
    of quantities that this version does not know. Pure."""
    return tuple(_series(_blocks(stream)))


def _series(blocks: Iterable[tuple[_Head, array[float]]]) -> Iterator[Series]:
    for head, values in blocks:
        for k, name in enumerate(head.names):
            if name not in _NAMES:
                continue
            own = values[k * head.count : (k + 1) * head.count]
            yield Series(name, tuple(own), head.interval_s, head.begin_s, head.host)


#: The first look comes after this time: shorter commands are too few ticks, and need not wait for a look.
_BEGIN_S = 0.2
#: Looks are apart by this factor of the time since the start, at most by this time; and take this share of one CPU.
_APART, _LONGEST_S, _COST = 0.5, 10.0, 1 / 150


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """What a node did while a command ran.

    moved: bytes by its counters; ranks: the most that were there at once; load: None where the command was too short;
    cpus: what Sampler.end saw; monitor, progress: streams of monitor.py and progress.py.
    """

    moved: Moved
    ranks: int = 0
    load: NodeLoad | None = None
    cpus: Looks | None = None
    monitor: bytes = b""
    progress: bytes = b""


class Watch:
    """Looks on while a command runs.

    This process is ours, with all that is below it, and in a job what `job` says. `counters`: those of the target.
    `wanted`: the ranks or workers to look at, `among` these processes; None to watch the node only.
    """

    def __init__(
        self,
        around: Around,
        counters: IoCounters,
        job: Job | None = None,
        wanted: Wanted | None = None,
        among: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._sampler = Sampler(wanted, among) if wanted else None
        self._counters, self._before = counters, counters.read()
        self._bound = tuple(dict.fromkeys(map(parsed, around.bound)))
        # outside of a job all that ends is waited for by us, so that two looks tell everything but who was on a CPU
        self._between = job is not None or bool(self._bound)
        self._reader = Reader(around, job)
        self._monitor = Monitor(NO_CPUS.union(*self._bound), counters)
        self._quotas = load.quotas()
        self._looks: list[Look] = []
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self, silent_s: float = 0.0) -> Watched:
        """Stop looking; what was seen. `silent_s`: as for Sampler.end."""
        moved = self._counters.moved(self._before, self._counters.read())
        self._stop.set()
        self._thread.join()
        if self._looks:
            self._monitor.sample()
        moved = structs.replace(moved, dirty_bytes=self._monitor.dirty_bytes(), still_s=self._monitor.still_s())
        moved = structs.replace(moved, io_limit=load.io_limits(self._counters.disks()))
        watched = Watched(moved=moved)
        if self._looks:
            self._looks.append(self._reader.look())
            found = load.shares(self._looks, self._reader.client_is_process, self._bound, procfs.user)
            if found:
                found = structs.replace(found, throttled=load.throttled(self._quotas, load.quotas()))
            watched = structs.replace(watched, load=found, monitor=self._monitor.stream())
        if self._sampler:
            cpus, progress = self._sampler.end(silent_s), self._sampler.progress
            ranks = progress.stream() if progress else b""
            watched = structs.replace(watched, ranks=self._sampler.most, cpus=cpus, progress=ranks)
        return watched

    def _run(self) -> None:
        self._monitor.sample()
        sampled_s, look_s = self._began, self._began + _BEGIN_S
        while not self._stop.wait(max(0.0, min(sampled_s + self._monitor.interval_s, look_s) - time.monotonic())):
            now = time.monotonic()
            if now >= sampled_s + self._monitor.interval_s:
                self._monitor.sample()
                sampled_s += (now - sampled_s) // self._monitor.interval_s * self._monitor.interval_s
            if now >= look_s:
                used_s = time.thread_time()
                self._looks.append(self._reader.look())
                cost_s = time.thread_time() - used_s
                pause_s = max(min(_APART * (now - self._began), _LONGEST_S), cost_s / _COST)
                look_s = now + pause_s if self._between else math.inf
