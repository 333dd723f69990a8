"""fio's classic text report (2.1 to 3.x) to rows.

The report is for people: its rates and bytes have three or four digits. What was printed with more digits is preferred
(operations from `issued rwts`, rates from the more precise of `BW=` and bytes / time), and the numbers are compared
with each other as far as the digits go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from iosweep.tools.fio import old_text
from iosweep.tools.fio.rounded import Rounded
from iosweep.tools.fio.rows import (
    METADATA,
    Part,
    Row,
    Wrong,
    asked_for,
    check_depth,
    check_latency,
    check_time,
    checked,
    figures,
    phase_and_kind,
)
from iosweep.tools.fio.text_lines import ALL, JOB, Report, plain, reports

_NS = {"nsec": 1.0, "usec": 1e3, "msec": 1e6, "sec": 1e9}
#: a rate that is printed less precisely than this is not given
_PRECISE = 0.01

_VERSION = re.compile(r"(?:hostname=(?P<host>\S+), .*, fio=)?(?P<version>fio-\d\S*?)(?:, flags=.*)?")
_STARTING = re.compile(r"(?:<(?P<host>[^>]+)> )?Starting (\d+) (?:process|thread)(?:\w* and (\d+) process)?.*")


def rows(text: str) -> tuple[str | None, list[Row], list[str]]:
    """(version, rows that can be trusted, problems) of all reports in a text; none and no problem without a report."""
    lines = [line for whole in text.splitlines() if (line := plain(whole))]
    first = [match for line in lines if (match := _VERSION.fullmatch(line))]
    versions = list(dict.fromkeys(match["version"] for match in first))
    if len(versions) > 1:
        return None, [], [f"reports of {' and '.join(versions)}: give one run's files at a time"]
    version = versions[0] if versions else None
    jobs = [match for line in lines if (match := JOB.fullmatch(line))]
    try:
        everything = list(reports(lines))
        printed = [report for report in everything if report.head["label"] != ALL]
        sums = [report for report in everything if report.head["label"] == ALL]
        single, copies = _once(printed)
        starting = [match for line in lines if (match := _STARTING.fullmatch(line))]
        _whole(single, sums, jobs, bool(version or starting))
        servers = [match["host"] for match in first if match["host"]]
        clients = dict.fromkeys([*servers, *(match["host"] for match in [*jobs, *starting] if match["host"])])
        if clients:
            _every_host(single, copies, bool(sums), jobs, servers)
        else:
            _unlike(single)
            if len(starting) > copies:
                raise Wrong("the text is of several runs: give one run's files at a time")
        started = sum(int(match[2]) + int(match[3] or 0) for match in starting)
        reported = sum(int(report.head["jobs"]) for report in single)
        if started and started not in (reported, reported * copies):
            raise Wrong(f"{started} workers were started, the reports are of {reported}")
        hosts = _hosts(lines, single, jobs, list(clients))
    except Wrong as wrong:
        return version, [], [str(wrong)]
    found: list[Row] = []
    problems: list[str] = []
    named = {(job["label"], job["group"]): job for job in reversed(jobs)}
    for report in single:
        told = {"tool_version": version} if version else {}
        identity: Row = {"tool": "fio", **told, "label": report.head["label"]}
        identity |= {"host": hosts[report.at]} if report.at in hosts else {}
        try:
            found.append(identity | _row(report, named.get(_key(report)), old_text.prints_remainders(report, version)))
        except Wrong as wrong:
            problems.append(f"{identity['label']}{' on ' + identity['host'] if 'host' in identity else ''}: {wrong}")
    return version, found, problems


def _whole(single: list[Report], sums: list[Report], jobs: list[re.Match[str]], announced: bool) -> None:
    """Is there a report for every job, and every job's report one that was announced?"""
    if sums and not single:
        raise Wrong(
            "there is only fio's sum over all clients, which adds up unlike tests: the hosts' own reports are needed"
        )
    for total in sums:
        if int(total.head["jobs"]) != len(single):
            raise Wrong(f"fio's sum over all clients is of {total.head['jobs']} reports, {len(single)} are here")
    told = {(job["label"], job["group"]) for job in jobs}
    here = {_key(report) for report in single}
    for label, group in sorted(told - here):
        raise Wrong(
            f"no report of {label} (group {group}): it is missing, or group_reporting merged it with another section"
        )
    for label, _ in sorted(here - told) if announced else ():
        raise Wrong(f"the line that says what {label} does is missing")


def _key(report: Report) -> tuple[str, str]:
    return report.head["label"], report.head["group"]


def _once(printed: list[Report]) -> tuple[list[Report], int]:
    """Every report once, and how often all of them were there: 2 where a whole output was saved twice."""
    times = Counter(tuple(report.text) for report in printed)
    first = {tuple(report.text): report for report in reversed(printed)}
    copies = set(times.values())
    return [first[text] for text in times], copies.pop() if len(copies) == 1 else 1


def _unlike(single: list[Report]) -> None:
    """Is there one report only of each worker of a local run?"""
    for (label, _, pid), times in Counter((*_key(report), report.head["pid"]) for report in single).items():
        if times > 1:
            raise Wrong(f"{times} reports of {label} with pid {pid} differ: reports in between, or a damaged one")


def _every_host(single: list[Report], copies: int, summed: bool, jobs: list[re.Match[str]], servers: list[str]) -> None:
    """Did every host of client mode announce its jobs and report them?"""
    announced = Counter((job["host"], job["label"], job["group"]) for job in jobs if job["host"])
    for host, times in Counter(servers).items():
        if max((count for (name, *_), count in announced.items() if name == host), default=0) < times:
            raise Wrong(f"host {host} did not say what its jobs do")
    reported, asked = Counter(map(_key, single)), Counter((job["label"], job["group"]) for job in jobs)
    for key, times in asked.items():
        if reported[key] * copies < times:
            raise Wrong(f"{times} hosts were to report {key[0]} (group {key[1]}), {reported[key]} did")
    # fio sums up as soon as every host has reported, if there is more than one report
    if not summed and len(single) > 1:
        raise Wrong("fio's sum over all clients is missing: not every host reported")


def _hosts(lines: list[str], single: list[Report], jobs: list[re.Match[str]], clients: list[str]) -> dict[int, str]:
    """Host of the reports that begin at a line, where it is told.

    fio prints a host's reports after an empty line of that host; if hosts end together, those come first. So they tell
    only where the reports after each are all of one host's.
    """
    if len(clients) < 2:
        return {report.at: host for host in clients for report in single}
    begins = {report.at: _key(report) for report in single}
    empty = {f"<{host}>": host for host in clients}
    found: dict[int, str] = {}
    keys: dict[str, list[tuple[str, str]]] = {host: [] for host in clients}
    host = None
    for at, line in enumerate(lines):
        if line.startswith("<"):
            host = empty.get(line)
        elif at in begins:
            if host is None:
                return {}
            keys[host].append(begins[at])
            found[at] = host
    told = {host: sorted({(job["label"], job["group"]) for job in jobs if job["host"] == host}) for host in clients}
    return found if all(sorted(keys[host]) == told[host] for host in clients) else {}


def _row(report: Report, job: re.Match[str] | None, remainders: bool) -> Row:
    issued, head = report.one("issued"), report.head
    if int(head["error"]):
        raise Wrong(f"fio reports error {head['error']}")
    if not issued or not report.one("cpu") or not report.one("depths"):
        raise Wrong("lines of the report are missing")
    if set(issued[4] + (issued[5] or "")) - set("0,rwd=/"):
        raise Wrong("I/Os were short or dropped")
    counts = {name: int(issued[index]) for index, name in enumerate(("read", "write", "trim"), start=1)}
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
    row = phase_and_kind(rw, engine, "write" in active) | {"tasks": int(head["jobs"])}
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
    if not files:
        row |= _depth(report, job, engine)
        if len(known := set(sizes.values())) == 1 and (size := known.pop()):
            row["transfer_size_bytes"] = size
    if any(old_text.is_old(line) for name in printed if (line := report.one("direction", name))):
        longest = max(part.runtime_s for part in parts.values())
        workers = row["tasks"] * max(row.get("queue_depth", 1), 1)
        old_text.check_unit(report, [(name, part.ops) for name, part in parts.items()], longest, workers)
        row.setdefault("kind", "data")  # engines whose operations are files came with 3.2
    return checked(row | figures(parts, files))


def _depth(report: Report, job: re.Match[str] | None, engine: str | None) -> Row:
    tail, depths = report.one("tail"), report.one("depths")
    told = {int(match[2]) for match in (tail,) if match and match[1] == "0"} | ({int(job["depth"])} if job else set())
    if len(told) > 1:
        raise Wrong(f"the queue depth is told as {' and as '.join(map(str, sorted(told)))}")
    levels = re.findall(r"(\S+)=([\d.]+)%", depths[0]) if depths else []
    for depth in told:
        check_depth(depth, {level: float(percent) for level, percent in levels}, engine)
    return {"queue_depth": told.pop()} if told else {}


def _part(report: Report, name: str, ops: int, size: int | None, remainders: bool) -> Part:
    """One direction, after the rounded numbers were compared with each other."""
    line = report.one("direction", name)
    if not line:
        raise Wrong(f"the line of the {name}s is missing")
    old = old_text.is_old(line)
    runtime_s = int(line[5 if old else 7]) / 1000
    check_time(runtime_s)
    iops = line[4 if old else 2]
    if not Rounded.of(iops, remainder=remainders).agrees(Rounded(ops / runtime_s, 0.0)):
        raise Wrong(f"{ops} operations in {runtime_s} s are not IOPS={iops.strip()}")
    if old:
        rates = old_text.rates(line, ops, size, runtime_s)
    else:
        rates = [
            Rounded.of(line[3], bool(line[4]), remainders),
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
        _clat(report, name, ops, remainders),
    )  # fmt: skip


def _clat(report: Report, name: str, ops: int, remainders: bool) -> Mapping[str, Any]:
    """The clat lines as fio's JSON would have them (ns); empty where it was not timed."""
    line = report.one("latency clat", name)
    if not line:
        return {}
    unit = _NS[line[2]]
    low, high = (Rounded.of(line[index], remainder=remainders) for index in (3, 4))
    mean, spread = (Rounded.of(line[index]) for index in (5, 6))
    clat: dict[str, Any] = {"N": ops, "min": low.value, "max": high.value, "mean": mean.value, "stddev": spread.value}
    clat = {key: value if key == "N" else value * unit for key, value in clat.items()}
    rounding = unit * max(low.ulp, high.ulp)
    whole, before = report.one("latency lat", name), report.one("latency slat", name)
    if whole:
        total = Rounded.of(whole[5]).value * _NS[whole[2]]
        submitted = Rounded.of(before[5]).value * _NS[before[2]] if before else None
        rest = total - clat["mean"]
        within = 0.02 * max(unit, _NS[whole[2]])
        if rest < -within or (
            # fio 2 cut off all three to whole microseconds
            submitted is not None and abs(rest - submitted) > within + (1e3 if remainders else 0.0) + 1e-3 * total
        ):
            raise Wrong("the means of the latencies do not add up")
    head = report.one("percentiles clat", name)
    if head:
        printed = [
            p
            for line in report.lines.get((name, "percents clat"), [])
            for p in re.findall(r"([\d.]+)th=\[\s*(\d+)\]", line[0])
        ]
        clat["percentile"] = {f"{float(percent):.6f}": int(value) * _NS[head[2]] for percent, value in printed}
        if len(clat["percentile"]) != len(printed):
            raise Wrong("a percentile stands twice")
        rounding += _NS[head[2]]
    check_latency(clat, rounding)
    return clat


def _block(job: re.Match[str], name: str) -> int | None:
    """Bytes of `64.0KiB-64.0KiB`, `4096B-4096B`; None for a range."""
    if job[f"{name}_2"]:
        return old_text.block(job[f"{name}_2"])
    low, _, high = job[name].partition("-")
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(|[KMG]i)B", low)
    if not match or low != high:
        return None
    return round(float(match[1]) * {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}[match[2]])
