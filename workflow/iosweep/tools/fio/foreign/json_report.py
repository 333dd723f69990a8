"""fio's JSON document (json and json+; local and client mode) to rows, each cross-checked against itself.

Written for 3.18 and later; json_before_3_18.py brings what older releases print (from 2.2.9 on) into that layout first.

fio writes most things twice (bytes, rate and time; operations, rate and time; mean, minimum and maximum; bins and
their sum). Everything that is given here was checked against its double, so that a document that was damaged or put
together from two runs gives problems and not figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from iosweep.tools import wall_clock
from iosweep.tools.fio.foreign import job_options, json_before_3_18
from iosweep.tools.fio.foreign.job_options import Asked
from iosweep.tools.fio.foreign.rows import (
    Found,
    Part,
    Row,
    asked_for,
    check_bins,
    check_latency,
    check_means,
    check_time,
    checked,
    depth_not_reached,
    figures,
    in_flight,
    of_one_node,
)
from iosweep.tools.fio.foreign.sums import Report
from iosweep.tools.fio.foreign.sums import sums as summed
from iosweep.tools.fio.json_records import (
    ALL_CLIENTS,
    UNREADABLE,
    Count,
    Direction,
    Document,
    Entry,
    Wrong,
    converted,
    printed,
    reason,
)
from iosweep.tools.fio.latency import PERCENTILES, merged_percentiles

#: the group of a report that belongs to none: -1 in 32 bits
_NO_GROUP = 0xFFFFFFFF
#: ms since 1970 of the last year that a date can have
_LAST_MS = 253_402_300_799_000
#: reports of one run agree in when fio began: `elapsed` is rounded up to seconds
_SAME_BEGIN_S = 1.2
_LATENCY = {"min", "max", "mean", "stddev", "N", "percentile", "bins"}

#: Entries are converted one by one, so that what is wrong with one of them leaves the others.
RawEntry = dict[str, object]
_Document = Document[RawEntry]


class _Place(msgspec.Struct, frozen=True):
    """What tells an entry from others; equal for the workers of a section without group_reporting."""

    jobname: str
    groupid: Count
    hostname: str = ""
    port: Count = 0


def rows(found_document: object) -> Found:
    """Rows of a decoded document and what is wrong with them. Raises Wrong where it is none of fio's."""
    document = converted(found_document, _Document)
    match = re.match(r"fio-(\d{1,9})\.(\d{1,9})", document.version)
    if not match:
        raise Wrong("the JSON does not say which version of fio wrote it")
    found, release = Found(document.version), (int(match[1]), int(match[2]))
    if (document.jobs is None) == (document.client_stats is None):
        raise Wrong("the JSON has neither fio's jobs nor its client_stats, or both")
    client = document.client_stats is not None
    used = _used(document)
    if why := json_before_3_18.unreadable(used, client, release):
        raise Wrong(f"{document.version} is not read: {why}")
    sums = [entry for entry in used if client and entry.get("jobname") == ALL_CLIENTS]
    entries = [entry for entry in used if not (client and entry.get("jobname") == ALL_CLIENTS)]
    if not entries:
        raise Wrong("no host reported a job" if client else "no job was reported")
    places = [converted(entry, _Place) for entry in entries]
    if client and not all(place.hostname for place in places):
        raise Wrong("an entry of client mode has no hostname")
    servers: dict[str, set[int]] = {}
    for place in places:
        servers.setdefault(place.hostname, set()).add(place.port)
    same = Counter(places)
    reports: list[Report] = []
    for raw, place in zip(entries, places, strict=True):
        identity: Row = {"tool": "fio", "tool_version": document.version, "label": place.jobname}
        if client:
            several = len(servers[place.hostname]) > 1
            identity["host"] = f"{place.hostname}:{place.port}" if several else place.hostname
        identity |= _dates(document, raw)
        known, job = identity, None
        try:
            _check_keys(raw)
            entry = converted(raw, Entry)
            options = job_options.options(document, entry)
            entry = _modern(entry, options, release)
            asked = job_options.asked(entry, options, release, same[place])
            known = identity | job_options.unmeasured(entry, asked)
            job = job_options.job(place.jobname, asked.options, known)
            row, doubts = _row(entry, asked, release)
            job = job_options.job(place.jobname, asked.options, row)
            parts = {name: part for name, part in entry.directions.items() if f"{name}_ops_per_s" in row}
        except UNREADABLE as error:
            at = found.add(known, invalid=reason(error), job=job)
            reports.append(Report(at, place.groupid, place.hostname, known, None, job))
        else:
            if row:
                row = identity | row | of_one_node(row)
                at = found.add(row, doubts, job=job)
                reports.append(Report(at, place.groupid, place.hostname, row, parts, job))
    found.sums += summed(reports)
    if not found.rows:
        raise Wrong("nothing was measured: every section only laid out files")
    found.doubt(_whole(document, entries, places, sums, client))
    return found


def _dates(document: _Document, raw: RawEntry) -> Row:
    """`ended_local`: the date of the report. `started`, in UTC: of the job, which fio prints from 3.36 on; before that
    the date of the report less the seconds since fio began, which it rounds up. Nothing where it prints no date."""
    ended = wall_clock.iso(wall_clock.date(document.time))
    dates: Row = {"ended_local": ended} if ended else {}
    start, elapsed = (raw.get(name) for name in ("job_start", "elapsed"))
    if not start and document.timestamp_ms and isinstance(elapsed, int):
        start = document.timestamp_ms - 1000 * elapsed
    if not isinstance(start, int) or not 0 < start <= _LAST_MS:
        return dates
    return dates | {"started": datetime.fromtimestamp(start / 1000, UTC).isoformat(timespec="milliseconds")}


def runs(documents: Sequence[object]) -> tuple[Found, int]:
    """(rows of some documents and what is wrong with them, how many runs they are of).

    With --status-interval fio prints a document again and again while it runs: the last one of a run counts.
    """
    last: list[object] = []
    for document in documents:
        if last and _goes_on(last[-1], document):
            last[-1] = document
        else:
            last.append(document)
    together = Found()
    for document in last:
        try:
            one = rows(document)
        except UNREADABLE as error:
            one = Found()
            one.doubt([reason(error)])
        together.append(one, alone=len(last) == 1)
    return together, len(last)


def _goes_on(before: object, after: object) -> bool:
    """Is a document a later report of the same run? Its entries are the same, its clock and its counters went on."""
    try:
        first, second = converted(before, _Document), converted(after, _Document)
        (one, begun), (two, again) = _progress(first), _progress(second)
    except Wrong:
        return False
    if (first.version, first.global_options) != (second.version, second.global_options):
        return False
    grown = all(now >= then for then, now in zip(one.values(), two.values(), strict=False))
    return one.keys() == two.keys() and grown and one != two and abs(again - begun) <= _SAME_BEGIN_S


def _progress(document: _Document) -> tuple[dict[tuple[_Place, int, str], int], float]:
    """(what each entry has counted so far, when fio began in seconds) of a document. Raises Wrong."""
    counted: dict[tuple[_Place, int, str], int] = {}
    elapsed_s = []
    for at, raw in enumerate(_used(document)):
        entry = converted(raw, Entry)
        elapsed_s += [] if entry.elapsed is None else [entry.elapsed]
        for name, part in entry.directions.items():
            if name != "trim":
                counted[converted(raw, _Place), at, name] = part.total_ios
    return counted, printed(document.timestamp_ms, "timestamp_ms") / 1000 - printed(
        max(elapsed_s, default=None), "elapsed"
    )


def _used(document: _Document) -> list[RawEntry]:
    """The entries, without places that fio reserved for a section and did not use.

    Where only some sections have group_reporting, fio counts more reports than it fills. It prints the others without a
    name and without figures, and with the number that fio prints for no group.
    """
    entries = document.jobs if document.client_stats is None else document.client_stats
    return [entry for entry in entries or [] if entry.get("groupid") != _NO_GROUP or entry.get("jobname")]


def _check_keys(entry: RawEntry) -> None:
    """Raises Wrong where a block of latencies has a key that fio does not write: lines of several reports are mixed."""
    parts = [part for name in ("read", "write", "mixed") if isinstance(part := entry.get(name), dict)]
    blocks = [part.get(name) for part in parts for name in ("slat_ns", "clat_ns", "lat_ns")]
    if any(isinstance(block, dict) and set(block) - _LATENCY for block in blocks):
        raise Wrong("a block of latencies holds what does not belong there")


def _whole(
    document: _Document,
    entries: Sequence[RawEntry],
    places: Sequence[_Place],
    sums: Sequence[RawEntry],
    client: bool,
) -> list[str]:
    """What speaks against every host and every group being there."""
    groups: dict[tuple[str, int], set[int]] = {}
    for place in places:
        groups.setdefault((place.hostname, place.port), set()).add(place.groupid)
    if any(len(ids) != max(ids) + 1 for ids in groups.values()):
        return ["a group of jobs is missing from the JSON: it was removed, or its sections have stats=0"]
    if not client:
        return []
    hosts = document.global_options if isinstance(document.global_options, list) else []
    if missing := {f"{one.get('hostname')} (port {one.get('port')})" for one in hosts} - {
        f"{host} (port {port})" for host, port in groups
    }:
        return [f"{host} did not report" for host in sorted(missing)]
    # fio sums up as soon as every host has reported, if there is more than one report
    if len(sums) != (len(entries) > 1):
        why = "of other reports" if sums else "missing: not every host reported"
        return [f"fio's sum over all clients is {why}"]
    try:
        totals = [_counters(converted(total, Entry)) for total in sums]
        counters = [_counters(converted(entry, Entry)) for entry in entries]
    except Wrong:
        return ["fio's sum over all clients cannot be compared with the reports"]
    if any(total != [sum(column) for column in zip(*counters, strict=True)] for total in totals):
        return ["the reports do not add up to fio's sum over all clients"]
    return []


def _counters(entry: Entry) -> list[int]:
    """Bytes and I/Os, read and written."""
    return [count for part in map(entry.direction, ("read", "write")) for count in (part.io_bytes, part.total_ios)]


def _row(entry: Entry, asked: Asked, release: tuple[int, int]) -> tuple[Row, list[str]]:
    """(columns of an entry, none for a section that only lays out files; why they may not be what they seem). Raises
    Wrong or one of UNREADABLE."""
    if entry.error:
        raise Wrong(f"fio reports error {entry.error}")
    options, size, depth, workers = asked.options, asked.size, asked.depth, asked.workers
    engine, rw = options.get("ioengine"), options.get("rw", options.get("readwrite"))
    active = _directions(entry, options, rw, engine)
    if active is None:
        return {}, []
    row = dict(asked.row)
    directions = {name: entry.direction(name) for name in active}
    # file engines time no whole I/O: without the engine's name these may be files and no bytes
    if (
        any(part.block("clat_ns").count and not part.block("lat_ns").count for part in directions.values())
        and release >= json_before_3_18.FILE_ENGINES
        and "ioengine" not in options
        and "disable_lat" not in options
    ):
        row = {name: row[name] for name in ("tasks",) if name in row}
    metadata = row.get("kind") == "metadata"
    doubts = [workers.merged, workers.missing]
    if not metadata:
        doubts += [depth_not_reached(depth, entry.iodepth_level or {}, engine), job_options.limits(options)]
    parts = {name: _part(part, size, options, depth, release) for name, part in directions.items()}
    runtime_s = max(part.runtime_s for part in parts.values())
    check_time(runtime_s)
    timing, doubt = job_options.phase_time(runtime_s, parts, entry, options)
    row, doubts = row | timing, [*doubts, doubt]
    # neither an engine nor a direction told: bytes may be files that were created or looked up
    row = checked(row | figures(parts, metadata or "kind" not in row, engine))
    doubts += [] if metadata else [job_options.too_short(row, options)]
    if row.get("kind") == "data" and job_options.whole_latencies(options):
        issuing_s = job_options.issuing_s(runtime_s, options, "write" in parts)
        doubts.append(in_flight(row, issuing_s, engine == "libaio" and options.get("direct", "0") == "0"))
    return row, doubts


def _modern(entry: Entry, options: Mapping[str, str], release: tuple[int, int]) -> Entry:
    """The entry as releases of today print it. Raises Wrong or one of UNREADABLE."""
    if release >= json_before_3_18.TODAY:
        return entry
    return json_before_3_18.modern(entry, release, job_options.transfer_size(options))


def _directions(entry: Entry, options: Mapping[str, str], rw: str | None, engine: str | None) -> list[str] | None:
    """The directions with I/O that an entry's figures are of; None for a section that only lays out files.

    Raises Wrong for I/O that was not asked for, and for none.
    """
    asked = asked_for(rw, engine, options.get("rwmixread"))
    unified = entry.mixed is not None and entry.read is None
    for name in () if unified else ("read", "write"):
        entry.direction(name)  # neither may be missing
    names = {"mixed"} if unified else {"read", "write", "trim"}
    active = [name for name, part in entry.directions.items() if name in names and _worked(part, name)]
    if not active and options.get("create_only", "0") != "0":
        return None
    if "trim" in active:
        raise Wrong("trims have no columns here")
    if not unified:
        for name in sorted((asked or frozenset()) - set(active)):
            raise Wrong(f"no {name} was done")
        if asked and set(active) - asked:
            if "verify" not in options:
                raise Wrong(f"{', '.join(sorted(set(active) - asked))} was done, which rw={rw} does not ask for")
            active = [name for name in active if name in asked]  # the others are the verification
    if not active:
        raise Wrong("no I/O was done")
    return active


def _worked(part: Direction, name: str) -> bool:
    """Did this direction have I/O? Raises Wrong where its numbers do not agree about that."""
    if part.total_ios:
        return True
    for key in ("io_bytes", "io_kbytes", "bw_bytes", "bw", "iops"):
        if value := getattr(part, key):
            raise Wrong(f"no {name} was done, but its {key} is {value}")
    return False


def _part(part: Direction, size: int | None, options: Mapping[str, str], depth: int, release: tuple[int, int]) -> Part:
    """One direction, after everything that it gives twice was compared."""
    ops, moved, milliseconds = part.total_ios, part.io_bytes, part.runtime
    if part.short_ios or part.drop_ios:
        raise Wrong(f"{part.short_ios} I/Os were short and {part.drop_ios} were dropped")
    if not milliseconds or not moved:
        raise Wrong("I/O without time or bytes")
    # no bw_bytes up to 3.1; fio cuts the fraction off
    without = release <= (3, 1) and part.bw_bytes is None
    rate = moved * 1000 // milliseconds if without else printed(part.bw_bytes, "bw_bytes")
    cut = 1000 / milliseconds if release < (2, 21) else 0.0  # bytes are whole KiB then, unless they are known otherwise
    if (
        abs(rate - moved * 1000 / milliseconds) > 1 + 1e-6 * rate
        or abs(part.bw - rate / 1024) > 1 + cut + 1e-6 * part.bw
    ):
        raise Wrong("bandwidth, bytes and time do not agree")
    if abs(part.iops - ops * 1000 / milliseconds) > 1e-5 * part.iops + (
        0.006 if release < (2, 14) else 0.0
    ) or part.io_kbytes not in (None, moved // 1024):
        raise Wrong("operations, bytes and time do not agree")
    # I/Os in flight when the ramp ended are counted in one place only (of merged sections it is not known how many)
    ramp = max(depth, 1) * (job_options.count(options, "numjobs") or 1) if options.get("ramp_time", "0") != "0" else 0
    if size and abs(moved - ops * size) > ramp * size:
        raise Wrong(f"{ops} operations of {size} bytes are not {moved} bytes")
    unknown = "verify" in options or (job_options.NOT_PRINTED in options and "ramp_time" in options)
    _check_latencies(part, None if unknown else ramp, json_before_3_18.grain_ns(release))
    sampled = part.iops_mean if part.iops_samples else None
    blocks = part.block("clat_ns"), part.block("lat_ns")
    return Part(ops, part.iops, milliseconds / 1000, moved, float(rate), sampled, *blocks)


def _check_latencies(part: Direction, slack: int | None, grain_ns: float) -> None:
    clat = part.block("clat_ns")
    if not clat.count:
        return  # gtod_reduce, disable_clat: absent, not 0
    if slack is not None and abs(clat.count - part.total_ios) > slack:
        raise Wrong(f"latencies of {clat.count} I/Os for {part.total_ios} I/Os")
    whole, before = part.block("lat_ns"), part.block("slat_ns")
    for block in (clat, whole):
        check_latency(block, grain_ns)
        if block.bins is not None:
            check_bins(block)
            again = merged_percentiles([block.bins])
            if any(block.percentile.get(key, again[name]) != again[name] for name, key in PERCENTILES.items()):
                raise Wrong("the percentiles are not those of the histogram")
    if whole.count == clat.count:  # submission + completion = all, in the mean
        submitted = before.mean if before.count == clat.count and not slack else None
        # means of whole microseconds have two decimals, and each was cut to whole ones
        check_means(whole.mean, submitted, clat.mean, 1 + 1.02 * grain_ns)
        if clat.min > whole.min or clat.max > whole.max:
            raise Wrong("completion took longer than the whole I/O")
