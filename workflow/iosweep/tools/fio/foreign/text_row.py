"""One report of fio's classic text to a row, after its rounded numbers were compared with each other."""

from __future__ import annotations

import re

from iosweep.tools.fio.foreign import job_options, text_before_3
from iosweep.tools.fio.foreign.rounded import Rounded
from iosweep.tools.fio.foreign.rows import (
    ASKED,
    METADATA,
    Part,
    Row,
    asked_for,
    check_latency,
    check_means,
    check_time,
    checked,
    depth_not_reached,
    figures,
    in_flight,
    phase_and_kind,
)
from iosweep.tools.fio.foreign.text_reports import Report
from iosweep.tools.fio.json_records import Latencies, Wrong

_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}


#: a rate that is printed less precisely than this is not given
_PRECISE = 0.01


def row(report: Report, job: re.Match[str] | None, remainders: bool) -> tuple[Row, list[str]]:
    """(columns of a report, why they may not be what they seem, as far as there is a reason). Raises Wrong."""
    issued, head = report.one("issued"), report.head
    if int(head["error"]):
        raise Wrong(f"fio reports error {head['error']}")
    if not issued or not report.one("cpu") or not report.one("depths"):
        raise Wrong("lines of the report are missing")
    counts = {name: int(issued[index]) for index, name in enumerate(("read", "write", "trim"), start=1)}
    short, dropped = _per_direction(issued[4]), _per_direction(issued[5] or "")
    # fio counts every fsync and fdatasync as a short read, also of a job that only writes
    if any((name != "read" or counts["read"]) and short.get(name) for name in counts) or any(dropped.values()):
        raise Wrong("I/Os were short or dropped")
    printed = [name for name in ("read", "write", "trim", "mixed") if report.one("direction", name)]
    unified = printed == ["mixed"]
    active = [name for name, count in counts.items() if count]
    if not unified and printed != active:
        raise Wrong("the directions printed are not those that had I/O")
    engine, rw = (job["engine"], job["rw"]) if job else (None, None)
    asked = asked_for(rw, engine, None)
    if "trim" in active:
        raise Wrong("trims have no columns here")
    if not active or (asked and not unified and set(active) != asked):
        raise Wrong(f"rw={rw} was asked for, {' and '.join(active) or 'nothing'} was done")
    tasks = int(head["jobs"])
    row = phase_and_kind(rw, engine, "write" in active) | {"tasks": tasks}
    metadata = engine in METADATA
    sizes = {name: _block(job, name) if job and name in ("read", "write") else None for name in active}
    parts = (
        {"mixed": _part(report, "mixed", sum(counts.values()), None, remainders)}
        if unified
        else {name: _part(report, name, counts[name], sizes[name], remainders) for name in active}
    )
    row |= {"ioengine": engine} if engine else {}
    # file engines' I/Os have no latency as a whole: where the engine is not told, these may be files and no bytes
    timed = [report.one("latency clat", name) and not report.one("latency lat", name) for name in printed]
    files = metadata or (not engine and any(timed))
    depth, doubt = None, ""
    if not files:
        depth, doubt = _depth(report, job, engine)
        row |= {} if depth is None else {"queue_depth": depth}
        if len(known := set(sizes.values())) == 1 and (size := known.pop()):
            row["transfer_size_bytes"] = size
    if any(text_before_3.is_old(line) for name in printed if (line := report.one("direction", name))):
        longest = max(part.runtime_s for part in parts.values())
        workers = tasks * max(depth or 1, 1)
        text_before_3.check_unit(report, [(name, part.ops) for name, part in parts.items()], longest, workers)
        row.setdefault("kind", "data")  # engines whose operations are files came with 3.2
    row = checked(row | figures(parts, files, engine))
    # what the options were is not printed: a rate held down, or a flush at the end, leave fewer in flight
    doubt = doubt or ("" if files or remainders else in_flight(row, None, waits=False))
    return row, [doubt, "" if metadata else job_options.too_short(row, {})]


def asked(report: Report, job: re.Match[str] | None) -> Row:
    """What a report was to do: columns of its parameters, for one whose figures cannot be used."""
    tasks: Row = {"tasks": int(report.head["jobs"])}
    if not job:
        return tasks
    row = phase_and_kind(job["rw"], job["engine"], False) | tasks | {"ioengine": job["engine"]}
    if row.get("kind") == "data" and "phase" in row:
        row["queue_depth"] = int(job["depth"])
        sizes = {_block(job, name) for name in ASKED[job["rw"]][1]}
        if len(sizes) == 1 and (size := sizes.pop()):
            row["transfer_size_bytes"] = size
    return row


def _per_direction(counts: str) -> dict[str, int]:
    """`1,0,0,0` and `r=1/w=0/d=0` by direction; what they count of syncs is left out."""
    return dict(zip(("read", "write", "trim"), map(int, re.findall(r"\d+", counts)), strict=False))


def _depth(report: Report, job: re.Match[str] | None, engine: str | None) -> tuple[int | None, str]:
    tail, depths = report.one("tail"), report.one("depths")
    given = {int(match[2]) for match in (tail,) if match and match[1] == "0"} | ({int(job["depth"])} if job else set())
    if len(given) > 1:
        raise Wrong(f"the queue depth is given as {' and as '.join(map(str, sorted(given)))}")
    levels = re.findall(r"(\S+)=([\d.]+)%", depths[0]) if depths else []
    percents = {level: float(percent) for level, percent in levels}
    doubts = [depth_not_reached(depth, percents, engine) for depth in given]
    return next(iter(given), None), "".join(doubts)


def _part(report: Report, name: str, ops: int, size: int | None, remainders: bool) -> Part:
    """One direction, after the rounded numbers were compared with each other."""
    line = report.one("direction", name)
    if not line:
        raise Wrong(f"the line of the {name}s is missing")
    old = text_before_3.is_old(line)
    runtime_s = int(line[5 if old else 7]) / 1000
    check_time(runtime_s)
    iops = line[4 if old else 2]
    if not Rounded.of(iops, remainder=remainders).agrees(Rounded(ops / runtime_s, 0.0)):
        raise Wrong(f"{ops} operations in {runtime_s} s are not IOPS={iops.strip()}")
    if old:
        rates = text_before_3.rates(line, ops, size, runtime_s)
    else:
        rates = [
            Rounded.of(line[3], line[4].startswith("i"), remainders).over(8 if line[4].endswith("bit") else 1),
            Rounded.of(line[5], bool(line[6]), remainders).over(runtime_s),
        ]
        if not rates[0].agrees(rates[1]):
            raise Wrong("bandwidth, bytes and time do not agree")
    if size:
        rates.append(Rounded(ops * size / runtime_s, 0.0))
        if not all(rate.agrees(rates[-1]) for rate in rates[:2]):
            raise Wrong(f"{ops} operations of {size} bytes are not the bytes that are printed")
    best = min(rates, key=lambda rate: rate.ulp / rate.value if rate.value else 1.0, default=Rounded(0.0, 0.0))
    precise = bool(best.value) and best.ulp / best.value <= _PRECISE
    sampled = report.one("iops", name)
    return Part(
        ops, ops / runtime_s, runtime_s,
        round(best.value * runtime_s) if precise else None,
        best.value if precise else None,
        float(sampled[3]) if sampled and sampled[3].strip().replace(".", "").isdigit() else None,
        *_latencies(report, name, ops, remainders),
    )  # fmt: skip


def _latencies(report: Report, name: str, ops: int, remainders: bool) -> list[Latencies | None]:
    """The lines of clat and of lat as records (ns); None where it was not timed."""
    clat, whole, before = (report.one(f"latency {kind}", name) for kind in ("clat", "lat", "slat"))
    if clat and whole:
        means = [Rounded.of(line[5]).value * _NS[line[2]] if line else None for line in (whole, before, clat)]
        # fio 2 cut off all three to whole microseconds
        rounding = 0.02 * max(_NS[clat[2]], _NS[whole[2]]) + (1e3 if remainders else 0.0)
        check_means(means[0] or 0.0, means[1], means[2] or 0.0, rounding)
    return [_timed(report, kind, name, ops, remainders) for kind in ("clat", "lat")]


def _timed(report: Report, kind: str, name: str, ops: int, remainders: bool) -> Latencies | None:
    """The lines of one kind of latency, with its percentiles."""
    line = report.one(f"latency {kind}", name)
    if not line:
        return None
    unit = _NS[line[2]]
    low, high = (Rounded.of(line[index], remainder=remainders) for index in (3, 4))
    mean_ns, stddev_ns = (Rounded.of(line[index]).value * unit for index in (5, 6))
    rounding = unit * max(low.ulp, high.ulp)
    percentiles: dict[str, float] = {}
    if head := report.one(f"percentiles {kind}", name):
        lines = report.lines.get((name, f"percents {kind}"), [])
        printed = [pair for one in lines for pair in re.findall(r"([\d.]+)th=\[\s*(\d+)\]", one[0])]
        percentiles = {f"{float(percent):.6f}": int(value) * _NS[head[2]] for percent, value in printed}
        if len(percentiles) != len(printed):
            raise Wrong("a percentile is repeated")
        rounding += _NS[head[2]]
    found = Latencies(low.value * unit, high.value * unit, mean_ns, stddev_ns, ops, percentiles)
    check_latency(found, rounding)
    return found


def _block(job: re.Match[str], name: str) -> int | None:
    """Bytes of `64.0KiB-64.0KiB`, `4096B-4096B`; None for a range."""
    if job[f"{name}_2"]:
        return text_before_3.block(job[f"{name}_2"])
    low, _, high = job[name].partition("-")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(|[KMG]i)B", low)
    if not match or low != high:
        return None
    return round(float(match[1]) * {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[match[2]])
