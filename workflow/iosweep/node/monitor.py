"""Monitoring of a node while a command runs: `NodeWatch` runs three probes in a thread.

The probes are the ranks or workers (ranks.py), the users of the CPUs (load.py), and each second the counters of the
target's block devices and client (counters.py), whose rates are stored as a stream, a line of JSON for each node.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import structs

from iosweep.histograms import Series
from iosweep.node import load, procfs
from iosweep.node.counters import IoCounters, Moved, Reading, between
from iosweep.node.load import Job, NodeLoad, Snapshot, Surroundings
from iosweep.node.ranks import ExpectedProcesses, Looks, Sampler

#: Seconds until the first look at ranks, and until the first snapshot of the load (a shorter command has too few ticks
#: to be judged).
_RANKS_BEGIN_S, _LOAD_BEGIN_S = 0.02, 0.2
#: Interval between snapshots of the load: this factor of the time since the start, but at most this time; and the share
#: of one CPU that snapshots may take.
_APART, _LONGEST_S, _COST = 0.5, 10.0, 1 / 150
#: Seconds between readings of counters; doubled whenever there are more than this many readings.
INTERVAL_S, _MOST = 1.0, 1200


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
    #: Rates over time (`encoded`).
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
        self._counters, self._readings, self._interval_s = counters, [counters.read()], INTERVAL_S
        self._dirty_bytes, self._host = dirty_bytes(), around.host
        self._quotas = load.quotas()
        self._reader, self._snapshots = load.Reader(around, job), list[Snapshot]()
        # outside of a job we wait for every process that ends, so that two snapshots are enough, unless CPUs are bound
        self._between = job is not None or bool(self._reader.bound)
        self._sampler = Sampler(expected, among, around.host) if expected else None
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self, silent_s: float = 0.0) -> Watched:
        """Stop watching. `silent_s`: see ranks.Sampler.end."""
        last = self._counters.read()
        self._stop.set()
        self._thread.join()
        self._readings.append(last)
        moved = structs.replace(
            self._counters.moved(self._readings[0], last),
            dirty_bytes=self._dirty_bytes,
            io_limits=load.io_limits(self._counters.disk_numbers),
        )
        watched = Watched(moved=moved)
        if self._snapshots:
            self._snapshots.append(self._reader.snapshot())
            node_load = load.shares(self._snapshots, self._reader.client_is_process, self._reader.bound, procfs.user)
            if node_load:
                node_load = structs.replace(node_load, throttled=load.throttled(self._quotas, load.quotas()))
            stream = encoded(self._host, self._readings, self._interval_s)
            watched = structs.replace(watched, load=node_load, monitor=stream)
        if self._sampler:
            progress = self._sampler.progress.stream() if self._sampler.progress else b""
            looks = self._sampler.end(silent_s)
            watched = structs.replace(watched, ranks=self._sampler.most, cpus=looks, progress=progress)
        return watched

    def _run(self) -> None:
        """Run each probe when it is due. A probe returns the seconds until it is due again."""
        due: dict[Callable[[], float], float] = {self._count: self._began + INTERVAL_S}
        due[self._look_at_load] = self._began + _LOAD_BEGIN_S
        if self._sampler:
            due[self._sampler.look] = self._began + _RANKS_BEGIN_S
        while not self._stop.wait(max(0.0, min(due.values()) - time.monotonic())):
            for probe, at_s in due.items():
                if time.monotonic() >= at_s:
                    pause_s = probe()
                    due[probe] = time.monotonic() + pause_s

    def _count(self) -> float:
        self._readings.append(self._counters.read())
        if len(self._readings) > _MOST:
            del self._readings[1::2]
            self._interval_s *= 2
        interval_s = self._interval_s
        pause_s = interval_s - (time.monotonic() - self._began) % interval_s
        return pause_s if pause_s > interval_s / 2 else pause_s + interval_s  # if rounding made this one too early

    def _look_at_load(self) -> float:
        used_s = time.thread_time()
        self._snapshots.append(self._reader.snapshot())
        cost_s = time.thread_time() - used_s
        pause_s = max(min(_APART * (time.monotonic() - self._began), _LONGEST_S), cost_s / _COST)
        return pause_s if self._between else math.inf


def dirty_bytes(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Bytes of all file systems that wait in memory to be written; None if unknown."""
    sizes = [procfs.size(procfs.field(meminfo, name)) for name in ("Dirty", "Writeback")]
    return None if None in sizes else sum(filter(None, sizes))


# Rates over time


class _Node(msgspec.Struct):
    """The line of a node in a stream. series: rate -> its values, None if nothing was read."""

    host: str
    interval_s: float
    series: dict[str, list[float | None]]


def encoded(host: str, readings: Sequence[Reading], interval_s: float) -> bytes:
    """Readings at roughly regular times as a stream of rates; empty without any. Pure.

    The last interval lasts until the end, at most half an interval longer; a remainder of less than half an interval is
    merged into the interval before. A command shorter than 1.5 intervals gets a single interval. If readings are
    missing, the rate between two readings is repeated for every interval between them.
    """
    if len(readings) < 2:
        return b""
    if len(readings) > 2 and readings[-1].at_s - readings[-2].at_s < interval_s / 2:
        readings = [*readings[:-2], readings[-1]]
    if len(readings) == 2 and (whole_s := readings[1].at_s - readings[0].at_s) < 1.5 * interval_s:
        interval_s = max(whole_s, 1e-6)
    series: dict[str, list[float | None]] = {}
    for source in ("device", "client"):
        for a, b in pairwise(readings):
            moved, lasted_s = between(getattr(a, source), getattr(b, source)), max(b.at_s - a.at_s, 1e-9)
            for way in ("read", "written"):
                rate = float(f"{getattr(moved, way) / lasted_s:.7g}") if moved else None
                values = series.setdefault(f"{source}_{way}_bytes_per_s", [])
                values += [rate] * max(1, round(lasted_s / interval_s))
    known = {name: values for name, values in series.items() if any(value is not None for value in values)}
    return msgspec.json.encode(_Node(host, round(interval_s, 6), known)) + b"\n" if known else b""


def series(stream: bytes) -> tuple[Series, ...]:
    """The series in a stream. Pure."""
    return tuple(
        Series(name, tuple(math.nan if value is None else value for value in values), node.interval_s, host=node.host)
        for node in map(_decoder.decode, stream.splitlines())
        for name, values in node.series.items()
    )


_decoder = msgspec.json.Decoder(_Node)
