"""fio's JSON document (json and json+; local and client mode) to rows, each cross-checked against itself.

Written for 3.18 and later; legacy_json.py brings what older releases print (from 2.2.9 on) into that layout first.

fio writes most things twice (bytes, rate and time; operations, rate and time; mean, minimum and maximum; bins and
their sum). Everything that is given here was checked against its double, so that a document that was damaged or put
together from two runs gives problems and not figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from iosweep.tools.fio import job_settings, legacy_json
from iosweep.tools.fio.malformed import DAMAGE, Wrong, check_form, sentence, shown
from iosweep.tools.fio.parse import PERCENTILES, merged_percentiles
from iosweep.tools.fio.rows import (
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
    phase_and_kind,
)

_ALL = "All clients"  # fio's sum over everything, also over unlike tests: only used to see whether all hosts are there
#: the group of a report that belongs to none: -1 in 32 bits
_NO_GROUP = 0xFFFFFFFF
#: reports of one run agree in when fio began: `elapsed` is rounded up to seconds
_SAME_BEGIN_S = 1.2
#: characters of a job's name that fio prints
_NAME = 127
_LATENCY = {"min", "max", "mean", "stddev", "N", "percentile", "bins"}


def rows(document: Mapping[str, Any]) -> Found:
    """Rows of a document and what is wrong with them. Raises Wrong, or one of DAMAGE, where it is none of fio's."""
    version = document.get("fio version")
    match = re.match(r"fio-(\d{1,9})\.(\d{1,9})", version) if isinstance(version, str) else None
    if not match:
        raise Wrong("the JSON does not say which version of fio wrote it")
    found, release = Found(version), (int(match[1]), int(match[2]))
    if ("jobs" in document) == ("client_stats" in document):
        raise Wrong("the JSON has neither fio's jobs nor its client_stats, or both")
    client = "client_stats" in document
    everything = document["client_stats" if client else "jobs"]
    if not isinstance(everything, list) or not all(isinstance(entry, Mapping) for entry in everything):
        raise Wrong(
            f"fio's {'client_stats' if client else 'jobs'} are {shown(everything)}; a list of objects is expected"
        )
    if why := legacy_json.unreadable(document, release):
        raise Wrong(f"{version} is not read: {why}")
    named = [entry for entry in everything if not _unused(entry)]
    sums = [entry for entry in named if client and entry.get("jobname") == _ALL]
    entries = [entry for entry in named if not (client and entry.get("jobname") == _ALL)]
    if not entries:
        raise Wrong("no host reported a job" if client else "no job was reported")
    places = [_place(entry, client) for entry in entries]
    servers: dict[str, set[object]] = {}
    for place in places:
        servers.setdefault(place.host, set()).add(place.port)
    same = Counter(places)
    for entry, place in zip(entries, places, strict=True):
        identity: Row = {"tool": "fio", "tool_version": version, "label": place.job}
        if client:
            identity["host"] = f"{place.host}:{place.port}" if len(servers[place.host]) > 1 else place.host
        try:
            check_form(entry)
            row, doubts = _row(entry, job_settings.options(document, entry), release, same[place])
        except DAMAGE as error:
            found.add(identity, invalid=sentence(error))
        else:
            if row:
                found.add(identity | row, doubts)
    if not found.rows:
        raise Wrong("nothing was measured: every section only laid out files")
    found.doubt(_whole(document, entries, places, sums, client))
    return found


def runs(documents: Sequence[Mapping[str, Any]]) -> tuple[Found, int]:
    """(rows of some documents and what is wrong with them, how many runs they are of).

    With --status-interval fio prints a document again and again while it runs: the last one of a run counts.
    """
    last: list[Mapping[str, Any]] = []
    for document in documents:
        if last and _goes_on(last[-1], document):
            last[-1] = document
        else:
            last.append(document)
    together = Found()
    for document in last:
        try:
            one = rows(document)
        except DAMAGE as error:
            one = Found()
            one.doubt([sentence(error)])
        together.append(one, alone=len(last) == 1)
    return together, len(last)


def _goes_on(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Is a document a later report of the same run? Its entries are the same, its clock and its counters went on."""
    try:
        if before["fio version"] != after["fio version"] or before.get("global options") != after.get("global options"):
            return False
        (one, begun), (two, again) = _progress(before), _progress(after)
    except DAMAGE:
        return False
    grown = all(now >= then for then, now in zip(one.values(), two.values(), strict=False))
    return one.keys() == two.keys() and grown and one != two and abs(again - begun) <= _SAME_BEGIN_S


def _progress(document: Mapping[str, Any]) -> tuple[dict[tuple[_Place, int, str], float], float]:
    """(what each entry has counted so far, when fio began in seconds) of a document. Raises one of DAMAGE."""
    client = "client_stats" in document
    entries = [entry for entry in document["client_stats" if client else "jobs"] if not _unused(entry)]
    counted = {
        (_place(entry, client and entry.get("jobname") != _ALL), at, name): job_settings.number(
            entry[name], "total_ios"
        )
        for at, entry in enumerate(entries)
        for name in ("read", "write", "mixed")
        if name in entry
    }
    stamp_s = job_settings.number(document, "timestamp_ms") / 1000
    return counted, stamp_s - max(job_settings.number(entry, "elapsed") for entry in entries if "elapsed" in entry)


class _Place(NamedTuple):
    """What tells an entry from others; equal for the workers of a section without group_reporting."""

    job: str
    group: int
    host: str
    port: int


def _place(entry: Mapping[str, Any], client: bool) -> _Place:
    job, host = entry.get("jobname"), entry.get("hostname", "")
    if not isinstance(job, str) or not isinstance(host, str) or (client and not host):
        name = "jobname" if not isinstance(job, str) else "hostname"
        raise Wrong(f"`{name}` of an entry is {shown(entry.get(name))}; a name is expected")
    port = int(job_settings.number(entry, "port")) if client else 0
    return _Place(job, int(job_settings.number(entry, "groupid")), host, port)


def _unused(entry: Mapping[str, Any]) -> bool:
    """Is this a place that fio reserved for a section and did not use?

    Where only some sections have group_reporting, fio counts more reports than it fills. It prints the others without a
    name and without figures, and with the number of the group that stands for none.
    """
    return entry.get("groupid") == _NO_GROUP and not entry.get("jobname")


def _whole(
    document: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    places: Sequence[_Place],
    sums: Sequence[Mapping[str, Any]],
    client: bool,
) -> list[str]:
    """What speaks against every host and every group being there."""
    groups: dict[tuple[str, int], set[int]] = {}
    for place in places:
        groups.setdefault((place.host, place.port), set()).add(place.group)
    if any(len(ids) != max(ids) + 1 for ids in groups.values()):
        return ["a group of jobs is missing from the JSON: it was removed, or its sections have stats=0"]
    if not client:
        return []
    shared = document.get("global options")
    hosts = [one for one in shared if isinstance(one, Mapping)] if isinstance(shared, list) else []
    if missing := {f"{one.get('hostname')} (port {one.get('port')})" for one in hosts} - {
        f"{host} (port {port})" for host, port in groups
    }:
        return [f"{host} did not report" for host in sorted(missing)]
    # fio sums up as soon as every host has reported, if there is more than one report
    if len(sums) != (len(entries) > 1):
        why = "of other reports" if sums else "missing: not every host reported"
        return [f"fio's sum over all clients is {why}"]
    try:
        for total in sums:
            for name in ("read", "write"):
                for key in ("io_bytes", "total_ios"):
                    if total[name][key] != sum(entry[name][key] for entry in entries):
                        return ["the reports do not add up to fio's sum over all clients"]
    except DAMAGE:
        return ["fio's sum over all clients cannot be compared with the reports"]
    return []


def _row(
    entry: Mapping[str, Any], options: Mapping[str, str], release: tuple[int, int], siblings: int
) -> tuple[Row, list[str]]:
    """(columns of an entry, none for a section that only lays out files; why they may not be what they seem). Raises
    Wrong or one of DAMAGE."""
    if error := job_settings.number(entry, "error"):
        raise Wrong(f"fio reports error {error:.0f}")
    size = job_settings.size(options.get("bs", options.get("blocksize")))
    if release < legacy_json.TODAY:
        entry = legacy_json.modern(entry, release, size)
    worked = [
        name for name in ("read", "write", "mixed") if name in entry and job_settings.number(entry[name], "total_ios")
    ]
    workers = job_settings.workers(entry, worked, options, release, siblings)
    # fio cuts the name of a job, but not the option; merged sections may have the options of any of them
    foreign = options.get("name", entry["jobname"])[:_NAME] != entry["jobname"][:_NAME]
    if (foreign and not workers.merged) or entry["jobname"] == _ALL:
        raise Wrong(f"its options are those of {shown(options.get('name', 'no job'))}")
    if workers.merged:
        kept = {name: options[name] for name in ("verify", "ramp_time") if name in options}
        options, size = {job_settings.NOT_TOLD: "yes", **kept}, None
    engine, rw = options.get("ioengine"), options.get("rw", options.get("readwrite"))
    active = _directions(entry, options, rw, engine)
    if active is None:
        return {}, []
    row = phase_and_kind(rw, engine, "write" in active or release < legacy_json.FILE_ENGINES)
    # file engines' I/Os have no latency as a whole: where the engine is not told, these may be files and no bytes
    timed = [entry[name]["clat_ns"]["N"] and not entry[name]["lat_ns"]["N"] for name in active]
    if (
        any(timed)
        and release >= legacy_json.FILE_ENGINES
        and "ioengine" not in options
        and "disable_lat" not in options
    ):
        row = {}
    metadata = row.get("kind") == "metadata"
    row |= workers.tasks
    depth = 0 if workers.merged else job_settings.depth(entry, options)
    doubts = [workers.merged, workers.missing]
    if not metadata:
        doubts += [depth_not_reached(depth, entry.get("iodepth_level", {}), engine), job_settings.limits(options)]
    parts = {name: _part(entry[name], size, options, depth, release) for name in active}
    check_time(max(part.runtime_s for part in parts.values()))
    timing, doubt = job_settings.phase_time(max(part.runtime_s for part in parts.values()), parts, entry, options)
    row, doubts = row | timing, [*doubts, doubt]
    if engine:
        row["ioengine"] = engine
    if row.get("kind") == "data":
        row |= {"transfer_size_bytes": size} if size else {}
        row |= {"queue_depth": depth} if depth and "iodepth_level" in entry else {}
        row |= {"file_size_bytes": known} if (known := job_settings.size(options.get("filesize"))) else {}
        row |= {"o_direct": options["direct"] != "0"} if "direct" in options else {}
    # neither an engine nor a direction told: bytes may be files that were created or looked up
    return checked(row | figures(parts, metadata or "kind" not in row)), doubts


def _directions(
    entry: Mapping[str, Any], options: Mapping[str, str], rw: str | None, engine: str | None
) -> list[str] | None:
    """The directions with I/O that an entry's figures are of; None for a section that only lays out files.

    Raises Wrong for I/O that was not asked for, and for none.
    """
    asked = asked_for(rw, engine, options.get("rwmixread"))
    names = ("mixed",) if "mixed" in entry and "read" not in entry else ("read", "write", "trim")
    active = [name for name in names if _worked(entry.get(name, {}) if name == "trim" else entry[name], name)]
    if not active and options.get("create_only", "0") != "0":
        return None
    if "trim" in active:
        raise Wrong("trims have no columns here")
    if names[0] != "mixed":
        for name in sorted((asked or frozenset()) - set(active)):
            raise Wrong(f"no {name} was done")
        if asked and set(active) - asked:
            if "verify" not in options:
                raise Wrong(f"{', '.join(sorted(set(active) - asked))} was done, which rw={rw} does not ask for")
            active = [name for name in active if name in asked]  # the others are the verification
    if not active:
        raise Wrong("no I/O was done")
    return active


def _worked(part: Mapping[str, Any], name: str) -> bool:
    """Did this direction have I/O? Raises Wrong where its numbers do not agree about that."""
    if job_settings.number(part, "total_ios", 0):
        return True
    for key in ("io_bytes", "io_kbytes", "bw_bytes", "bw", "iops"):
        if job_settings.number(part, key, 0):
            raise Wrong(f"no {name} was done, but its {key} is {part[key]}")
    return False


def _part(
    part: Mapping[str, Any],
    size: int | None,
    options: Mapping[str, str],
    depth: int,
    release: tuple[int, int],
) -> Part:
    """One direction, after everything that it gives twice was compared."""
    ops, moved, milliseconds = (job_settings.number(part, key) for key in ("total_ios", "io_bytes", "runtime"))
    if job_settings.number(part, "short_ios") or job_settings.number(part, "drop_ios"):
        raise Wrong(f"{part['short_ios']} I/Os were short and {part['drop_ios']} were dropped")
    if not milliseconds or not moved:
        raise Wrong("I/O without time or bytes")
    iops, kibibytes = job_settings.number(part, "iops"), job_settings.number(part, "bw")
    # no bw_bytes up to 3.1; fio cuts the fraction off
    rate = (
        job_settings.number(part, "bw_bytes")
        if release > (3, 1) or "bw_bytes" in part
        else moved * 1000 // milliseconds
    )
    cut = 1000 / milliseconds if release < (2, 21) else 0.0  # bytes are whole KiB then, unless they are known otherwise
    if (
        abs(rate - moved * 1000 / milliseconds) > 1 + 1e-6 * rate
        or abs(kibibytes - rate / 1024) > 1 + cut + 1e-6 * kibibytes
    ):
        raise Wrong("bandwidth, bytes and time do not agree")
    if (
        abs(iops - ops * 1000 / milliseconds) > 1e-5 * iops + (0.006 if release < (2, 14) else 0.0)
        or job_settings.number(part, "io_kbytes", moved // 1024) != moved // 1024
    ):
        raise Wrong("operations, bytes and time do not agree")
    # I/Os in flight when the ramp ended are counted in one place only (of merged sections it is not known how many)
    ramp = max(depth, 1) * (job_settings.count(options, "numjobs") or 1) if options.get("ramp_time", "0") != "0" else 0
    if size and abs(moved - ops * size) > ramp * size:
        raise Wrong(f"{ops:.0f} operations of {size} bytes are not {moved:.0f} bytes")
    clat = part["clat_ns"]
    unknown = "verify" in options or (job_settings.NOT_TOLD in options and "ramp_time" in options)
    _check_clat(part, clat, ops, None if unknown else ramp, legacy_json.grain_ns(release))
    sampled = job_settings.number(part, "iops_mean", 0) if job_settings.number(part, "iops_samples", 0) else None
    return Part(int(ops), iops, milliseconds / 1000, int(moved), float(rate), sampled, clat)


def _check_clat(
    part: Mapping[str, Any], clat: Mapping[str, Any], ops: float, slack: int | None, grain_ns: float
) -> None:
    timed = job_settings.number(clat, "N")
    if not timed:
        return  # gtod_reduce, disable_clat: absent, not 0
    if slack is not None and abs(timed - ops) > slack:
        raise Wrong(f"latencies of {timed:.0f} I/Os for {ops:.0f} I/Os")
    whole, before = part["lat_ns"], part["slat_ns"]
    for block in (clat, whole, before):
        if set(block) - _LATENCY:
            raise Wrong("a block of latencies holds what does not belong there")
    for name in ("min", "max", "mean", "stddev"):
        job_settings.number(clat, name)
    check_latency(clat, grain_ns)
    bins = clat.get("bins")
    if bins is not None:
        check_bins(clat)
        again = merged_percentiles([bins])
        if any(clat.get("percentile", {}).get(key, again[name]) != again[name] for name, key in PERCENTILES.items()):
            raise Wrong("the percentiles are not those of the histogram")
    if job_settings.number(whole, "N") == timed:  # submission + completion = all, in the mean
        known = job_settings.number(before, "mean") if job_settings.number(before, "N") == timed and not slack else None
        # means of whole microseconds have two decimals, and each was cut to whole ones
        check_means(job_settings.number(whole, "mean"), known, clat["mean"], 1 + 1.02 * grain_ns)
        if clat["min"] > job_settings.number(whole, "min") or clat["max"] > job_settings.number(whole, "max"):
            raise Wrong("completion took longer than the whole I/O")
