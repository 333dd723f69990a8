"""What one report of fio's (JSON or text) becomes: columns of a row, once its numbers are known to agree.

Shared by the two readers, so that both give the same columns for the same thing. Figures in SI base units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from iosweep.tools import CLOCK_S, littles_law
from iosweep.tools.fio import latency
from iosweep.tools.fio.json_records import LARGEST, Latencies, Wrong
from iosweep.tools.fio.options import ENGINE, PHASES, RW
from iosweep.tools.reading import Cell, Job, ProblemSeverity, ReadingProblem, Sum

Row = dict[str, Cell]

#: fio's `rw` -> the phase (None: no name for it here) and the directions that must have I/O
ASKED: dict[str, tuple[str | None, frozenset[str]]] = {
    **{rw: (name, frozenset(_side for _side in ("read", "write") if getattr(PHASES[name], f"{_side}s")))
       for name, rw in RW.items()},
    "rw": (None, frozenset({"read", "write"})),
    "readwrite": (None, frozenset({"read", "write"})),
}  # fmt: skip

#: fio's engine -> the phase of metadata; the directories' engines are of fio 3.36 and later
METADATA = {engine: name for name, engine in ENGINE.items()} | {
    "dircreate": "dir_create",
    "dirstat": "dir_stat",
    "dirdelete": "dir_delete",
}

#: fio's mean of its samples is given where it agrees with operations / time: in many files it is one worker's, no sum
_SAMPLED_WITHIN = 0.1
#: fio counts whole milliseconds: below this many seconds its rates are off by more than 1 %
_SHORTEST_S = 0.1
#: rates of windows that differ by more do not add up
SAME_WINDOW = 0.02
#: bins of fio's histograms are at most 1/64 wide; a percentile is the middle of one
_BIN = 1 / 32
#: fio's bins: 64 for each power of two; the middle of one is off by 1/128 at most, and the last ends here (ns)
_BIN_BITS = 6
_HALF_BIN = 1.001 / 128
_LAST_BIN = 1 << 34
#: most that lies between submission and completion in the mean: ns, and share of the whole; see check_means
_GAP_NS, _GAP = 5000.0, 0.1


@dataclass
class Found:
    """Rows of one or more runs, and the problems with them; the index of a problem's row counts in `rows`."""

    version: str | None = None
    rows: list[Row] = field(default_factory=list)
    problems: list[ReadingProblem] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    jobs: dict[int, Job] = field(default_factory=dict)

    def add(self, row: Row, suspect: Sequence[str] = (), invalid: str = "", job: Job | None = None) -> int:
        """Add a row (without figures where it is invalid) and what is wrong with it; returns its index."""
        label = f"{row['label']} on {row['host']}" if "host" in row else row["label"]
        at = len(self.rows)
        self.rows.append(row)
        if job:
            self.jobs[at] = job
        if invalid:
            self.problems.append(ReadingProblem("invalid", f"{label}: {invalid}", at))
        self.problems += [ReadingProblem("suspect", f"{label}: {text}", at) for text in dict.fromkeys(suspect) if text]
        return at

    def doubt(self, texts: Iterable[str]) -> None:
        """What concerns every row of a run: suspect where there is a row, else the reason why there is none."""
        severity: ProblemSeverity = "suspect" if self.rows else "invalid"
        self.problems += [ReadingProblem(severity, text) for text in dict.fromkeys(texts)]

    def append(self, other: Found, alone: bool) -> None:
        """The rows of another run. `alone`: there is no further one, so that what concerns its rows concerns all."""
        first = len(self.rows)
        for problem in other.problems:
            if problem.row is not None:
                self.problems.append(replace(problem, row=problem.row + first))
            elif alone or problem.severity != "suspect":
                self.problems.append(problem)
            else:
                self.problems += [replace(problem, row=first + at) for at in range(len(other.rows))]
        self.sums += [replace(one, parts=tuple(first + part for part in one.parts)) for one in other.sums]
        self.jobs |= {first + at: job for at, job in other.jobs.items()}
        self.rows += other.rows
        self.version = self.version or other.version


@dataclass(frozen=True)
class Part:
    """One direction of a report: operations, seconds, bytes; `completion` (clat) and `whole` (lat) in ns, with their
    counts."""

    ops: int
    ops_per_s: float
    runtime_s: float
    bytes_moved: int | None = None
    bandwidth: float | None = None
    sampled: float | None = None
    completion: Latencies | None = None
    whole: Latencies | None = None


def phase_and_kind(rw: str | None, engine: str | None, writes: bool) -> Row:
    """phase, kind and metric as far as they are told. File engines' work is counted as reads: writes are data."""
    if engine in METADATA:
        return {"phase": METADATA[engine], "kind": "metadata", "metric": "ops_per_s"}
    told: Row = {"kind": "data"} if engine or rw or writes else {}
    name = ASKED.get((rw or "").split(":")[0], (None,))[0]
    return told | ({"phase": name, "metric": PHASES[name].metric} if name else {})


def of_one_node(row: Row) -> Row:
    """Nodes, and workers on each, of a report: a process of fio, or a server of client mode, works on one node."""
    return {"nodes": 1, "threads_per_node": row["tasks"]} if "tasks" in row else {"nodes": 1}


def asked_for(rw: str | None, engine: str | None, mix: str | None) -> frozenset[str] | None:
    """Directions that must have I/O; None where that is not told. `mix` is rwmixread in percent."""
    if engine in METADATA:
        return frozenset({"read"})
    if not rw:
        return None
    if rw.split(":")[0] not in ASKED:
        raise Wrong(f"rw={rw} has no columns here")
    directions = ASKED[rw.split(":")[0]][1]
    if len(directions) == 2 and mix in ("0", "100"):
        return frozenset({"read" if mix == "100" else "write"})
    return directions


def figures(parts: Mapping[str, Part], metadata: bool, engine: str | None) -> Row:
    """Figure columns of a row from its directions (`read`, `write`, or `mixed` where fio unified them).

    metadata: bytes may be files; they are if the engine is a file engine.
    """
    every = list(parts.values())
    runtimes_s = [part.runtime_s for part in every]
    row: Row = {"ops": sum(part.ops for part in every), "runtime_s": max(runtimes_s)}
    if max(runtimes_s) - min(runtimes_s) <= SAME_WINDOW * max(runtimes_s):
        row["ops_per_s"] = ops_per_s = sum(part.ops_per_s for part in every)
        rates = [part.bandwidth for part in every if part.bandwidth is not None]
        if not metadata and rates and len(rates) == len(every):
            row["bandwidth_bytes_per_s"] = sum(rates)
        sampled = [part.sampled for part in every if part.sampled]
        if len(sampled) == len(every) and abs(sum(sampled) - ops_per_s) <= _SAMPLED_WITHIN * ops_per_s:
            row["sampled_ops_per_s"] = sum(sampled)
    for name, part in parts.items():
        if metadata or name == "mixed":
            continue
        row[f"{name}_ops_per_s"] = part.ops_per_s
        if part.bandwidth is not None:
            row[f"{name}_bandwidth_bytes_per_s"] = part.bandwidth
        if part.bytes_moved is not None:
            row["bytes_read" if name == "read" else "bytes_written"] = part.bytes_moved
    if metadata and engine not in METADATA and not all(part.whole and part.whole.count for part in every):
        return row  # of files it would be the whole operation
    found = latency.columns({name: [part] for name, part in parts.items()}, engine in METADATA)
    return row | {column: value for column, value in found.items() if not column.startswith("mixed_")}


def in_flight(row: Row, issuing_s: float | None, waits: bool) -> str:
    """Why fewer I/Os were in flight than asked for, or nothing. Raises Wrong where there were more.

    issuing_s: seconds in which I/Os were issued, None where it is not known; waits: whether the engine may wait at the
    submission of an I/O (libaio without O_DIRECT).
    """
    rate, latency_s, workers, depth = (row.get(n) for n in ("ops_per_s", "latency_mean_s", "tasks", "queue_depth"))
    if not (isinstance(rate, float) and isinstance(latency_s, float)):
        return ""
    if not (isinstance(workers, int) and isinstance(depth, int)):
        return ""
    if wrong := littles_law.too_many(rate, latency_s, workers * depth, float(row["runtime_s"]), CLOCK_S):
        raise Wrong(f"rate and latency contradict each other: {wrong}")
    if depth == 1:
        return ""
    completion_s = row.get("completion_latency_mean_s")
    if waits and isinstance(completion_s, float):
        return littles_law.waits(rate, latency_s, completion_s, workers)
    return littles_law.too_few(float(row["ops"]), latency_s, workers * depth, issuing_s) if issuing_s else ""


def checked(row: Row) -> Row:
    """The row. Raises Wrong where a number is none that the tables hold."""
    for column, value in row.items():
        if (isinstance(value, int) and value > LARGEST) or (isinstance(value, float) and not math.isfinite(value)):
            raise Wrong(f"{column} is more than 64 bits hold")
    return row


def check_latency(clat: Latencies, rounding: float = 0.0) -> None:
    """Raises Wrong where a block of latencies (ns) cannot be one. `rounding`: ns that a printed value may be off."""
    if not clat.count:
        return
    low, high = clat.min - rounding, clat.max + rounding
    if not low <= clat.mean <= high or not clat.stddev <= high - low + rounding:
        raise Wrong("minimum, mean and maximum of the latency do not agree")
    values = [value for _, value in sorted((float(key), value) for key, value in clat.percentile.items())]
    if values != sorted(values) or (values and not low * (1 - _BIN) <= values[0] <= values[-1] <= high * (1 + _BIN)):
        raise Wrong("the percentiles of the latency do not agree with each other or with minimum and maximum")


def check_bins(clat: Latencies) -> None:
    """Raises Wrong where a histogram (fio 3, ns) is not that of its block of latencies."""
    bins = {int(key): count for key, count in (clat.bins or {}).items() if count}
    if sum(bins.values()) != clat.count:
        raise Wrong("the histogram does not hold every I/O")
    for value in bins:
        wide = value.bit_length() - 1 - _BIN_BITS
        if wide > 0 and value % (1 << wide) != 1 << (wide - 1):
            raise Wrong(f"the histogram has a bin at {value} ns, which fio's have not")
    if clat.max >= _LAST_BIN:
        return  # the last bin holds what is longer
    mean = sum(value * count for value, count in bins.items()) / clat.count
    for again, printed in ((mean, clat.mean), (min(bins), clat.min), (max(bins), clat.max)):
        if abs(again - printed) > 1 + printed * _HALF_BIN:
            raise Wrong("minimum, mean and maximum of the latency are not those of the histogram")


def check_time(runtime_s: float) -> None:
    """Raises Wrong where fio's clock is too coarse for what was timed."""
    if runtime_s < _SHORTEST_S:
        raise Wrong(f"ran for {runtime_s * 1000:.0f} ms, of which fio counts whole ones: too short for a rate")


def depth_not_reached(depth: int, levels: Mapping[str, float], engine: str | None) -> str:
    """Why the queue depth is not the one asked for, or nothing. fio's levels are 1, 2, 4 ... >=64, in percent."""
    if depth > 1 and levels:
        level = min(1 << (depth.bit_length() - 1), 64)
        reached = sum(percent for name, percent in levels.items() if int(name.lstrip(">=")) >= level)
        if reached < 50:
            who = f"engine {engine}" if engine else "the engine"
            one = levels.get("1", 0) > 99
            had = "does one at a time" if one else f"had that many in flight in {reached:.0f} % of its I/O only"
            return f"asked for depth {depth}, {who} {had}"
    return ""


def check_means(whole: float, before: float | None, after: float, rounding: float) -> None:
    """Raises Wrong where mean latencies (ns) cannot be those of the same I/Os: whole = before + after + a gap.

    With libaio fio reads its clock again between submission (`before`, slat) and wait (`after`, clat). In 9,356
    directions of published outputs of 3.1 to 3.26 the gap was 0.13 us and more, up to 4.3 % of the whole with many
    workers on few CPUs, and never negative. With other engines it is 0, or as small.
    """
    gap = whole - after - (before or 0.0)
    if gap < -rounding or (before is not None and gap > rounding + _GAP_NS + _GAP * whole):
        raise Wrong(
            f"the means of the latencies do not add up: {whole:.0f} ns in all, {before or 0:.0f} ns before and"
            f" {after:.0f} ns after the submission"
        )
