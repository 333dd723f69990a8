"""Monitoring of a node while a command runs: `NodeWatch` runs three probes in a thread, `Monitor` samples each second.

The probes are the ranks or workers (ranks.py), the users of the CPUs (load.py), and `Monitor`: CPUs, memory, network,
the target's block devices and client. Nothing on the target is read. Samples are stored as a stream, a line of JSON for
each node, which `series` reads.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from iosweep.histograms import Series
from iosweep.node import load, procfs
from iosweep.node.counters import IoCounters, Moved, Reading
from iosweep.node.cpus import NO_CPUS, CpuSet
from iosweep.node.load import Job, NodeLoad, Snapshot, Surroundings
from iosweep.node.ranks import ExpectedProcesses, Looks, Sampler

#: Seconds until the first look at ranks, and until the first snapshot of the load (a shorter command has too few ticks
#: to be judged).
_RANKS_BEGIN_S, _LOAD_BEGIN_S = 0.02, 0.2
#: Interval between snapshots of the load: this factor of the time since the start, but at most this time; and the share
#: of one CPU that snapshots may take.
_APART, _LONGEST_S, _COST = 0.5, 10.0, 1 / 150
#: Seconds between samples; doubled whenever there are more than this many samples.
INTERVAL_S, _MOST = 1.0, 1200
#: The kernel counts CPU time in ticks.
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """The activity of a node while a command ran."""

    #: Bytes by the counters of the node.
    moved: Moved
    #: The largest number of ranks that ran simultaneously.
    ranks: int = 0
    #: None if the command was too short.
    load: NodeLoad | None = None
    #: The looks of ranks.Sampler.
    cpus: Looks | None = None
    #: Stream of Monitor.
    monitor: bytes = b""
    #: Stream of ranks.Progress.
    progress: bytes = b""


class NodeWatch:
    """Watches a node while a command runs.

    Our processes: this process and its descendants, and in a job those of `job`. `counters`: of the target. `expected`:
    the ranks or workers to look for, `among` these processes; None: watch the node only.
    """

    def __init__(
        self,
        around: Surroundings,
        counters: IoCounters,
        job: Job | None = None,
        expected: ExpectedProcesses | None = None,
        among: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._counters, self._before = counters, counters.read()
        self._quotas = load.quotas()
        self._reader, self._snapshots = load.Reader(around, job), list[Snapshot]()
        # outside of a job we wait for every process that ends, so that two snapshots are enough, unless CPUs are bound
        self._between = job is not None or bool(self._reader.bound)
        self._monitor = Monitor(NO_CPUS.union(*self._reader.bound), counters, around.host)
        self._sampler = Sampler(expected, among, around.host) if expected else None
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self, silent_s: float = 0.0) -> Watched:
        """Stop watching. `silent_s`: see ranks.Sampler.end."""
        after = self._counters.read()
        self._stop.set()
        self._thread.join()
        if self._snapshots:
            self._monitor.read(after)
        moved = structs.replace(
            self._counters.moved(self._before, after),
            dirty_bytes=self._monitor.dirty_bytes(),
            still_s=self._monitor.still_s(),
            io_limits=load.io_limits(self._counters.disk_numbers),
        )
        watched = Watched(moved=moved)
        if self._snapshots:
            self._snapshots.append(self._reader.snapshot())
            node_load = load.shares(self._snapshots, self._reader.client_is_process, self._reader.bound, procfs.user)
            if node_load:
                node_load = structs.replace(node_load, throttled=load.throttled(self._quotas, load.quotas()))
            watched = structs.replace(watched, load=node_load, monitor=self._monitor.stream())
        if self._sampler:
            progress = self._sampler.progress.stream() if self._sampler.progress else b""
            looks = self._sampler.end(silent_s)
            watched = structs.replace(watched, ranks=self._sampler.most, cpus=looks, progress=progress)
        return watched

    def _run(self) -> None:
        """Run each probe when it is due. A probe returns the seconds until it is due again."""
        self._monitor.read(self._before)
        due: dict[Callable[[], float], float] = {self._sample: self._began + INTERVAL_S}
        due[self._look_at_load] = self._began + _LOAD_BEGIN_S
        if self._sampler:
            due[self._sampler.look] = self._began + _RANKS_BEGIN_S
        while not self._stop.wait(max(0.0, min(due.values()) - time.monotonic())):
            for probe, at_s in due.items():
                if time.monotonic() >= at_s:
                    pause_s = probe()
                    due[probe] = time.monotonic() + pause_s

    def _sample(self) -> float:
        self._monitor.read()
        interval_s = self._monitor.interval_s
        pause_s = interval_s - (time.monotonic() - self._began) % interval_s
        return pause_s if pause_s > interval_s / 2 else pause_s + interval_s  # if rounding made this sample too early

    def _look_at_load(self) -> float:
        used_s = time.thread_time()
        self._snapshots.append(self._reader.snapshot())
        cost_s = time.thread_time() - used_s
        pause_s = max(min(_APART * (time.monotonic() - self._began), _LONGEST_S), cost_s / _COST)
        return pause_s if self._between else math.inf


class Quantity(NamedTuple):
    """A sampled quantity."""

    name: str
    #: A count since boot, stored as a rate per second; otherwise a value that is stored unchanged.
    rate: bool = True
    #: Cap: higher values are artifacts of a counter with coarse steps.
    most: float = math.inf


_CPU_KINDS = ("busy", "user", "system", "iowait", "steal")
#: measuring_cpus: CPUs that ranks or workers may use; other_cpus: all others. busy includes interrupts.
QUANTITIES = (
    *(Quantity(f"{which}_cpus_{kind}_share", most=1.0) for which in ("measuring", "other") for kind in _CPU_KINDS),
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
_NAMES = [quantity.name for quantity in QUANTITIES]
_NOTHING = math.nan


class Sample(NamedTuple):
    """A value for each of QUANTITIES, NaN if there is none."""

    at_s: float
    values: tuple[float, ...]


class Monitor:
    """Samples of one node. `measuring`: the CPUs that ranks or workers may use; empty if they may use all."""

    def __init__(
        self,
        measuring: CpuSet = NO_CPUS,
        counters: IoCounters | None = None,
        host: str = "",
        proc: Path = Path("/proc"),
    ):
        self._measuring, self._counters, self._host = measuring, counters, host
        self._stat, self._meminfo = proc / "stat", proc / "meminfo"
        self._samples: list[Sample] = []
        self.interval_s = INTERVAL_S

    def read(self, counted: Reading | None = None) -> None:
        """Take a sample; counts are since boot. `counted`: a fresh reading of the counters, which saves another."""
        if counted is None:
            counted = self._counters.read() if self._counters else Reading(time.monotonic())
        nothing = (_NOTHING, _NOTHING)
        values = (
            *cpus(procfs.content(self._stat), self._measuring),
            *memory(procfs.content(self._meminfo)),
            *(counted.network or nothing),
            *(counted.device or nothing),
            *disks([procfs.content(file) for file in self._counters.stats] if self._counters else []),
            *(counted.client or nothing),
        )
        self._samples.append(Sample(counted.at_s, values))
        if len(self._samples) > _MOST:
            del self._samples[1::2]
            self.interval_s *= 2

    def dirty_bytes(self) -> int | None:
        """Bytes that waited to be written at the first sample; None if unknown."""
        first = dict(zip(_NAMES, self._samples[0].values, strict=True)) if self._samples else {}
        waiting = first.get("dirty_bytes", _NOTHING) + first.get("writeback_bytes", _NOTHING)
        return None if math.isnan(waiting) else int(waiting)

    def still_s(self) -> float:
        """The longest delay of a sample beyond the interval."""
        longest = max((b.at_s - a.at_s for a, b in pairwise(self._samples)), default=0.0)
        return round(max(0.0, longest - self.interval_s), 3)

    def stream(self) -> bytes:
        """The samples as a stream; empty with fewer than two."""
        return encoded(self._host, self._samples, self.interval_s)


def cpus(stat: bytes, measuring: CpuSet) -> Iterator[float]:
    """Mean seconds of busy, user, system, iowait and steal per CPU since boot, from the text of /proc/stat: first for
    the CPUs of `measuring`, then for the others."""
    sums, count = {True: [0] * 5, False: [0] * 5}, {True: 0, False: 0}
    for cpu, (user, nice, system, _, iowait, irq, softirq, steal) in load.cpu_ticks(stat).items():
        measures = not measuring or cpu in measuring
        kinds = (user + nice + system + irq + softirq, user + nice, system, iowait, steal)
        sums[measures] = [a + b for a, b in zip(sums[measures], kinds, strict=True)]
        count[measures] += 1
    for measures in (True, False):
        yield from (_TICK_S * each / count[measures] if count[measures] else _NOTHING for each in sums[measures])


def memory(meminfo: bytes) -> Iterator[float]:
    """Bytes available, dirty, in writeback and in the page cache, from the text of /proc/meminfo."""
    sizes = {name: 1024.0 * int(count) for name, count in re.findall(rb"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)}
    for name in (b"MemAvailable", b"Dirty", b"Writeback"):
        yield sizes.get(name, _NOTHING)
    yield sizes.get(b"Cached", _NOTHING) + sizes.get(b"Buffers", 0.0)


def disks(stats: Sequence[bytes]) -> tuple[float, float]:
    """Mean busy seconds of the block devices, and requests in flight on all, from /sys/class/block/*/stat."""
    rows = [stat.split() for stat in stats]
    if not rows or any(len(fields) < 11 for fields in rows):
        return _NOTHING, _NOTHING
    return sum(int(fields[9]) for fields in rows) / 1000 / len(rows), float(sum(int(fields[8]) for fields in rows))


# Streams


class _Node(msgspec.Struct):
    """The line of a node in a stream. series: quantity -> its values, None if nothing was read."""

    host: str
    interval_s: float
    series: dict[str, list[float | None]]


def encoded(host: str, samples: Sequence[Sample], interval_s: float) -> bytes:
    """Samples at roughly regular times as a stream; empty with fewer than two. Pure.

    The last interval lasts until the end, at most half an interval longer; a remainder of less than half an interval is
    merged into the interval before. A command shorter than 1.5 intervals gets a single interval. If samples are
    missing, the rate between two samples is repeated for every interval between them.
    """
    if len(samples) < 2:
        return b""
    if len(samples) > 2 and samples[-1].at_s - samples[-2].at_s < interval_s / 2:
        samples = [*samples[:-2], samples[-1]]
    if len(samples) == 2 and (whole_s := samples[1].at_s - samples[0].at_s) < 1.5 * interval_s:
        interval_s = max(whole_s, 1e-6)
    series: dict[str, list[float | None]] = {}
    for k, quantity in enumerate(QUANTITIES):
        row: list[float | None] = []
        for (since_s, before), (at_s, after) in pairwise(samples):
            value, count = after[k], max(1, round((at_s - since_s) / interval_s))
            if quantity.rate:
                value = min((after[k] - before[k]) / max(at_s - since_s, 1e-9), quantity.most)
                value = value if value >= 0 else _NOTHING  # the counter was reset
            short = None if math.isnan(value) else float(f"{value:.7g}")
            row += [short if quantity.rate else None] * (count - 1) + [short]
        if any(value is not None for value in row):
            series[quantity.name] = row
    return msgspec.json.encode(_Node(host, round(interval_s, 6), series)) + b"\n"


def series(stream: bytes) -> tuple[Series, ...]:
    """The series in a stream, without quantities that this version does not know. Pure."""
    return tuple(
        Series(name, tuple(_NOTHING if value is None else value for value in values), node.interval_s, host=node.host)
        for node in map(_decoder.decode, stream.splitlines())
        for name, values in node.series.items()
        if name in _NAMES
    )


_decoder = msgspec.json.Decoder(_Node)
