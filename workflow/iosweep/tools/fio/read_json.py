"""fio's JSON document (json and json+; local and client mode) to rows, each cross-checked against itself.

Written for 3.18 and later; old.py brings what older releases print (from 2.2.9 on) into that layout first.

fio writes most things twice (bytes, rate and time; operations, rate and time; mean, minimum and maximum; bins and
their sum). Everything that is given here was checked against its double, so that a document that was damaged or put
together from two runs gives problems and not figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from iosweep.tools.fio import old, told
from iosweep.tools.fio.parse import PERCENTILES, merged_percentiles
from iosweep.tools.fio.rows import (
    Part,
    Row,
    Wrong,
    asked_for,
    check_bins,
    check_depth,
    check_latency,
    check_time,
    checked,
    figures,
    phase_and_kind,
)

_ALL = "All clients"  # fio's sum over everything, also over unlike tests: only used to see whether all hosts are there
_LATENCY = {"min", "max", "mean", "stddev", "N", "percentile", "bins"}


def rows(document: Mapping[str, Any]) -> tuple[str | None, list[Row], list[str]]:
    """(version, rows that can be trusted, problems). May raise what a malformed document makes of it."""
    version = document.get("fio version")
    match = re.match(r"fio-(\d+)\.(\d+)", version) if isinstance(version, str) else None
    if not match:
        return None, [], ["the JSON does not say which version of fio wrote it"]
    release = int(match[1]), int(match[2])
    if ("jobs" in document) == ("client_stats" in document):
        return version, [], ["the JSON has neither fio's jobs nor its client_stats, or both"]
    if why := old.unreadable(document, release):
        return version, [], [f"{version} is not read: {why}"]
    client = "client_stats" in document
    everything = document["client_stats" if client else "jobs"]
    entries = [entry for entry in everything if not (client and entry["jobname"] == _ALL)]
    if not entries:
        return version, [], ["no host reported a job" if client else "no job was reported"]
    if problems := _whole(document, entries, [e for e in everything if client and e["jobname"] == _ALL], client):
        return version, [], problems
    ports = Counter(host for host, _ in {(e["hostname"], e["port"]) for e in entries}) if client else Counter()
    same = Counter((e["jobname"], e["groupid"], e.get("hostname"), e.get("port")) for e in entries)
    found: list[Row] = []
    for entry in entries:
        identity: Row = {"tool": "fio", "tool_version": version, "label": _text(entry["jobname"])}
        if client:
            host = _text(entry["hostname"])
            identity["host"] = f"{host}:{entry['port']}" if ports[host] > 1 else host
        siblings = same[(entry["jobname"], entry["groupid"], entry.get("hostname"), entry.get("port"))]
        try:
            row = _row(entry, told.options(document, entry), release, siblings)
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            why = str(error) if isinstance(error, Wrong) else f"the JSON lacks what is expected: {error!r}"
            problems.append(f"{identity['label']}{' on ' + identity['host'] if client else ''}: {why}")
        else:
            found += [identity | row] if row else []
    if not found and not problems:
        problems = ["nothing was measured: every section only laid out files"]
    return version, found, problems


def _whole(
    document: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], sums: Sequence[Mapping[str, Any]], client: bool
) -> list[str]:
    """Is every host and every group there?"""
    groups: dict[Any, list[int]] = {}
    for entry in entries:
        groups.setdefault((entry.get("hostname"), entry.get("port")), []).append(entry["groupid"])
    if any(sorted(set(ids)) != list(range(max(ids) + 1)) for ids in groups.values()):
        return ["a group of jobs is missing from the JSON"]
    if not client:
        return []
    shared = document.get("global options")
    hosts = {(one.get("hostname"), one.get("port")) for one in shared} if isinstance(shared, list) else set()
    if missing := hosts - set(groups):
        return [f"{host} (port {port}) did not report" for host, port in sorted(missing)]
    # fio sums up as soon as every host has reported, if there is more than one report
    if len(sums) != (len(entries) > 1):
        why = "of other reports" if sums else "missing: not every host reported"
        return [f"fio's sum over all clients is {why}"]
    for total in sums:
        for name in ("read", "write"):
            for key in ("io_bytes", "total_ios"):
                if total[name][key] != sum(entry[name][key] for entry in entries):
                    return ["the reports do not add up to fio's sum over all clients"]
    return []


def _row(entry: Mapping[str, Any], options: Mapping[str, str], release: tuple[int, int], siblings: int) -> Row | None:
    """Columns of an entry; None for a section that only lays out files. Raises Wrong, or what a malformed one makes."""
    if error := told.number(entry, "error"):
        raise Wrong(f"fio reports error {error:.0f}")
    size = told.size(options.get("bs", options.get("blocksize")))
    if release < old.TODAY:
        entry = old.modern(entry, release, size)
    if options.get("name", entry["jobname"]) != entry["jobname"] or entry["jobname"] == _ALL:
        raise Wrong(f"its options are those of {options.get('name', 'no job')}")
    engine, rw = options.get("ioengine"), options.get("rw", options.get("readwrite"))
    asked = asked_for(rw, engine, options.get("rwmixread"))
    names = ("mixed",) if "mixed" in entry and "read" not in entry else ("read", "write", "trim")
    active = [name for name in names if _worked(entry.get(name, {}) if name == "trim" else entry[name], name)]
    if not active and "create_only" in options and options["create_only"] != "0":
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
    row = phase_and_kind(rw, engine, "write" in active or release < old.FILE_ENGINES)
    # file engines' I/Os have no latency as a whole: where the engine is not told, these may be files and no bytes
    timed = [entry[name]["clat_ns"]["N"] and not entry[name]["lat_ns"]["N"] for name in active]
    if any(timed) and release >= old.FILE_ENGINES and "ioengine" not in options and "disable_lat" not in options:
        row = {}
    metadata = row.get("kind") == "metadata"
    row |= told.tasks(entry, active, options, release, siblings)
    depth = told.depth(entry, options)
    if not metadata:
        check_depth(depth, entry.get("iodepth_level", {}), engine)
    parts = {name: _part(entry[name], size, options, depth, release) for name in active}
    check_time(max(part.runtime_s for part in parts.values()))
    row |= told.phase_time(max(part.runtime_s for part in parts.values()), parts, entry, options)
    if engine:
        row["ioengine"] = engine
    if row.get("kind") == "data":
        row |= {"transfer_size_bytes": size} if size else {}
        row |= {"queue_depth": depth} if depth and "iodepth_level" in entry else {}
        row |= {"file_size_bytes": known} if (known := told.size(options.get("filesize"))) else {}
        row |= {"o_direct": options["direct"] != "0"} if "direct" in options else {}
    # neither an engine nor a direction told: bytes may be files that were created or looked up
    return checked(row | figures(parts, metadata or "kind" not in row))


def _worked(part: Mapping[str, Any], name: str) -> bool:
    """Did this direction have I/O? Raises Wrong where its numbers do not agree about that."""
    if told.number(part, "total_ios", 0):
        return True
    for key in ("io_bytes", "io_kbytes", "bw_bytes", "bw", "iops"):
        if told.number(part, key, 0):
            raise Wrong(f"no {name} was done, but its {key} is {part[key]}")
    return False


def _part(
    part: Mapping[str, Any],
    size: int | None,
    options: Mapping[str, str],
    depth: int,
    release: tuple[int, int],
) -> Part:
    """One direction, after everything in it that stands twice was compared."""
    ops, moved, milliseconds = (told.number(part, key) for key in ("total_ios", "io_bytes", "runtime"))
    if told.number(part, "short_ios") or told.number(part, "drop_ios"):
        raise Wrong(f"{part['short_ios']} I/Os were short and {part['drop_ios']} were dropped")
    if not milliseconds or not moved:
        raise Wrong("I/O without time or bytes")
    iops, kibibytes = told.number(part, "iops"), told.number(part, "bw")
    # no bw_bytes up to 3.1; fio cuts the fraction off
    rate = told.number(part, "bw_bytes") if release > (3, 1) or "bw_bytes" in part else moved * 1000 // milliseconds
    cut = 1000 / milliseconds if release < (2, 21) else 0.0  # bytes are whole KiB then, unless they are known otherwise
    if (
        abs(rate - moved * 1000 / milliseconds) > 1 + 1e-6 * rate
        or abs(kibibytes - rate / 1024) > 1 + cut + 1e-6 * kibibytes
    ):
        raise Wrong("bandwidth, bytes and time do not agree")
    if (
        abs(iops - ops * 1000 / milliseconds) > 1e-5 * iops + (0.006 if release < (2, 14) else 0.0)
        or told.number(part, "io_kbytes", moved // 1024) != moved // 1024
    ):
        raise Wrong("operations, bytes and time do not agree")
    # I/Os in flight when the ramp ended are counted in one place only
    ramp = max(depth, 1) * int(options.get("numjobs", "1")) if options.get("ramp_time", "0") != "0" else 0
    if size and abs(moved - ops * size) > ramp * size:
        raise Wrong(f"{ops:.0f} operations of {size} bytes are not {moved:.0f} bytes")
    clat = part["clat_ns"]
    _check_clat(part, clat, ops, None if "verify" in options else ramp, old.grain_ns(release))
    sampled = told.number(part, "iops_mean", 0) if told.number(part, "iops_samples", 0) else None
    return Part(int(ops), iops, milliseconds / 1000, int(moved), float(rate), sampled, clat)


def _check_clat(
    part: Mapping[str, Any], clat: Mapping[str, Any], ops: float, slack: int | None, grain_ns: float
) -> None:
    timed = told.number(clat, "N")
    if not timed:
        return  # gtod_reduce, disable_clat: absent, not 0
    if slack is not None and abs(timed - ops) > slack:
        raise Wrong(f"latencies of {timed:.0f} I/Os for {ops:.0f} I/Os")
    whole, before = part["lat_ns"], part["slat_ns"]
    for block in (clat, whole, before):
        if set(block) - _LATENCY:
            raise Wrong("a block of latencies holds what does not belong there")
    for name in ("min", "max", "mean", "stddev"):
        told.number(clat, name)
    check_latency(clat, grain_ns)
    bins = clat.get("bins")
    if bins is not None:
        check_bins(clat)
        again = merged_percentiles([bins])
        if any(clat["percentile"].get(key, again[name]) != again[name] for name, key in PERCENTILES.items()):
            raise Wrong("the percentiles are not those of the histogram")
    if told.number(whole, "N") == timed:  # submission + completion = all, in the mean
        rest = told.number(whole, "mean") - clat["mean"]
        known = before["mean"] if told.number(before, "N") == timed else None
        # means of whole microseconds have two decimals
        within = 1 + 0.02 * grain_ns
        if rest < -within or (known is not None and abs(rest - known) > within + grain_ns + 1e-3 * whole["mean"]):
            raise Wrong("the means of the latencies do not add up")
        if clat["min"] > told.number(whole, "min") or clat["max"] > told.number(whole, "max"):
            raise Wrong("completion took longer than the whole I/O")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name is {value!r}")
    return value
