"""fio's classic text report (2.1 to 3.x) to rows.

The report is for people: its rates and bytes have three or four digits. What was printed with more digits is preferred
(operations from `issued rwts`, rates from the more precise of `BW=` and bytes / time), and the numbers are compared
with each other as far as the digits go.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from iosweep.tools import wall_clock
from iosweep.tools.fio.foreign import sums as sums_of
from iosweep.tools.fio.foreign import text_before_3, text_row
from iosweep.tools.fio.foreign.rows import Found, Row, of_one_node
from iosweep.tools.fio.foreign.text_reports import JOB, Report, plain, reports
from iosweep.tools.fio.json_records import ALL_CLIENTS, UNREADABLE, Wrong, reason
from iosweep.tools.reading import Job

#: characters of a job's name that fio prints in a report; its line before the run has all of them
_NAME = 127
#: names of merged sections that a problem gives
_NAMED = 5
_VERSION = re.compile(r"(?:hostname=(?P<host>\S+), .*, fio=)?(?P<version>fio-\d\S*?)(?:, flags=.*)?")
_STARTING = re.compile(r"(?:<(?P<host>[^>]+)> )?Starting (\d+) (?:process|thread)(?:\w* and (\d+) process)?.*")


def rows(text: str) -> Found:
    """Rows of all reports in a text and what is wrong with them; nothing at all where there is no report."""
    segments: list[_Segment] = [_Segment()]
    for whole in text.split("\n"):
        if line := plain(whole):
            segments = _sorted_in(line, segments)
    runs: list[Found] = []
    seen: set[tuple[str, ...]] = set()
    heads: set[str] = set()
    for segment in segments:
        everything = list(reports(segment.lines))
        found = [one for one in everything if isinstance(one, Report)]
        texts = [tuple(report.text) for report in found]
        if texts and seen.issuperset(texts) and not segment.hosts:
            continue  # an output that was saved twice
        contradicts = [
            f"reports of {report.head['label']} with pid {report.head['pid']} differ: a damaged one"
            for report, one in zip(found, texts, strict=True)
            if one not in seen and one[0] in heads and report.head["label"] != ALL_CLIENTS
        ]
        seen.update(texts)
        heads.update(one[0] for one in texts)
        run = _run(segment, found, [one for one in everything if isinstance(one, str)] + contradicts[:1])
        runs += [run] if run.rows or run.problems else []
    together = Found()
    for run in runs:
        together.append(run, alone=len(runs) == 1)
    return together


@dataclass
class _Segment:
    """The lines of one run, and those of them that say what runs."""

    lines: list[str] = field(default_factory=list)
    versions: list[re.Match[str]] = field(default_factory=list)
    jobs: list[re.Match[str]] = field(default_factory=list)
    starting: list[re.Match[str]] = field(default_factory=list)
    reported: bool = False

    @property
    def hosts(self) -> bool:
        return any(match["host"] for match in [*self.versions, *self.jobs, *self.starting])


def _sorted_in(line: str, segments: list[_Segment]) -> list[_Segment]:
    """The segments with another line; fio prints its jobs, its version and `Starting` before anything else."""
    last = segments[-1]
    kind, match = "", None
    if "(g=" in line and (match := JOB.fullmatch(line)):
        kind = "job"
    elif line.startswith(("fio-", "hostname=")) and (match := _VERSION.fullmatch(line)):
        kind = "version"
    elif "Starting " in line and (match := _STARTING.fullmatch(line)):
        kind = "starting"
    elif "(groupid=" in line:
        last.reported = True
    if match:
        begun = last.reported or (kind != "starting" and (last.versions or last.starting))
        if begun and not match["host"] and not last.hosts:
            segments.append(last := _Segment())
        {"job": last.jobs, "version": last.versions, "starting": last.starting}[kind].append(match)
    last.lines.append(line)
    return segments


def _run(segment: _Segment, everything: list[Report], doubts: list[str]) -> Found:
    versions = list(dict.fromkeys(match["version"] for match in segment.versions))
    found = Found(versions[0] if len(versions) == 1 else None)
    if len(versions) > 1:
        doubts = [f"reports of {' and '.join(versions)}: give one run's files at a time", *doubts]
    jobs = segment.jobs
    sums = [report for report in everything if report.head["label"] == ALL_CLIENTS]
    printed = [report for report in everything if report.head["label"] != ALL_CLIENTS]
    servers = [match["host"] for match in segment.versions if match["host"]]
    named = [match["host"] for match in [*jobs, *segment.starting] if match["host"]]
    clients = dict.fromkeys([*servers, *named])
    if clients:
        single, copies = _once(printed)
        doubts += _every_host(single, copies, bool(sums), jobs, servers)
    else:
        (single, why), copies = _last(printed), 1
        doubts += why
    merged = {} if clients else _merged(single, jobs)
    doubts += _whole(single, sums, jobs, merged, bool(segment.versions or segment.starting))
    started = sum(int(match[2]) + int(match[3] or 0) for match in segment.starting)
    reported = sum(int(report.head["jobs"]) for report in single)
    if started and started not in (reported, reported * copies):
        doubts.append(f"{started} workers were started, the reports are of {reported}")
    hosts = _hosts(segment.lines, single, jobs, list(clients))
    sections = {(job["label"][:_NAME], job["group"]): job for job in reversed(jobs)}
    parts: list[sums_of.Report] = []
    for report in single:
        group, host = int(report.head["group"]), hosts.get(report.at, "")
        identity: Row = {"tool": "fio", **({"tool_version": found.version} if found.version else {})}
        identity |= {"label": report.head["label"]}
        identity |= {"host": hosts[report.at]} if report.at in hosts else {}
        ended = wall_clock.iso(wall_clock.date(report.head["ended"]))
        identity |= {"ended_local": ended} if ended else {}
        added = merged.get(report.head["group"], [])
        job = None if added else sections.get(_key(report))
        told = Job((f"name={report.head['label']}",))  # of its options the text has those in columns
        try:
            if report.wrong:
                raise Wrong(report.wrong)
            row, unsure = text_row.row(report, job, text_before_3.prints_remainders(report, found.version))
        except UNREADABLE as error:
            row = identity | of_one_node(asked := text_row.asked(report, job)) | asked
            at = found.add(row, invalid=reason(error), job=told)
            parts.append(sums_of.Report(at, group, host, row, None, told))
        else:
            labels = ", ".join(dict.fromkeys(job["label"][:_NAME] for job in added[:_NAMED]))
            labels += f" and {len(added) - _NAMED} more" if len(added) > _NAMED else ""
            adds_up = f"group_reporting merged the sections {labels}, whose options may differ"
            row = identity | row | of_one_node(row)
            at = found.add(row, [*unsure, adds_up] if added else unsure, job=told)
            parts.append(sums_of.Report(at, group, host, row, {}, told))
    found.sums += sums_of.sums(parts)
    found.doubt(doubts)
    return found


def _merged(single: list[Report], jobs: list[re.Match[str]]) -> dict[str, list[re.Match[str]]]:
    """Group -> its sections, where one report adds up several of them."""
    sections: dict[str, list[re.Match[str]]] = {}
    for job in jobs:
        sections.setdefault(job["group"], []).append(job)
    reported: dict[str, list[Report]] = {}
    for report in single:
        reported.setdefault(report.head["group"], []).append(report)
    return {
        group: found
        for group, found in sections.items()
        if len(one := reported.get(group, [])) == 1
        and found[0]["label"][:_NAME] == one[0].head["label"]
        and len({job["label"] for job in found}) > 1
        and int(one[0].head["jobs"]) >= len(found)
    }


def _last(printed: list[Report]) -> tuple[list[Report], list[str]]:
    """(the reports of a local run that count, what speaks against them).

    With --status-interval fio prints all that have begun again and again: the last complete set of them counts.
    """
    sets: list[dict[tuple[str, str, str], Report]] = [{}]
    for report in printed:
        if report.key in sets[-1]:
            sets.append({})
        sets[-1][report.key] = report
    doubts = []
    whole = [one for one in sets if not any(report.wrong for report in one.values())] or sets
    last = max(reversed(whole), key=len)
    end = next(at for at, one in enumerate(sets) if one is last)
    if last is not sets[-1]:
        doubts.append("the last reports are cut or damaged: those before them are given")
    done: dict[tuple[str, str, str], int] = {}
    for one in sets[: end + 1]:
        for key, report in one.items():
            issued = report.one("issued")
            count = sum(int(issued[index]) for index in (1, 2, 3)) if issued else 0
            if issued and count < done.get(key, 0):
                doubts.append(f"reports of {key[0]} with pid {key[2]} differ: a damaged one, or several runs")
            done[key] = count
    return list(last.values()), doubts


def _whole(
    single: list[Report],
    sums: list[Report],
    jobs: list[re.Match[str]],
    merged: Mapping[str, list[re.Match[str]]],
    announced: bool,
) -> list[str]:
    """What speaks against a report for every job, and an announcement for every report."""
    if sums and not single:
        return [
            "there is only fio's sum over all clients, which adds up unlike tests: the hosts' own reports are needed"
        ]
    doubts = [
        f"fio's sum over all clients is of {total.head['jobs']} reports, {len(single)} are here"
        for total in sums
        if int(total.head["jobs"]) != len(single)
    ]
    asked = {(job["label"][:_NAME], job["group"]) for job in jobs if job["group"] not in merged}
    here = {_key(report) for report in single}
    doubts += [f"no report of {label} (group {group})" for label, group in sorted(asked - here)]
    if announced:
        unsaid = sorted(key for key in here - asked if key[1] not in merged)
        doubts += [f"the line that says what {label} does is missing" for label, _ in unsaid]
    return doubts


def _key(report: Report) -> tuple[str, str]:
    return report.head["label"], report.head["group"]


def _once(printed: list[Report]) -> tuple[list[Report], int]:
    """Every report once, and how often all of them were there: 2 where a whole output was saved twice."""
    times = Counter(tuple(report.text) for report in printed)
    first = {tuple(report.text): report for report in reversed(printed)}
    copies = set(times.values())
    return [first[text] for text in times], copies.pop() if len(copies) == 1 else 1


def _every_host(
    single: list[Report], copies: int, summed: bool, jobs: list[re.Match[str]], servers: list[str]
) -> list[str]:
    """What speaks against every host of client mode having announced its jobs and reported them."""
    doubts = []
    announced = Counter((job["host"], job["label"], job["group"]) for job in jobs if job["host"])
    for host, times in Counter(servers).items():
        if max((count for (name, *_), count in announced.items() if name == host), default=0) < times:
            doubts.append(f"host {host} did not say what its jobs do")
    reported, asked = Counter(map(_key, single)), Counter((job["label"][:_NAME], job["group"]) for job in jobs)
    for key, times in asked.items():
        if reported[key] * copies < times:
            doubts.append(f"{times} hosts were to report {key[0]} (group {key[1]}), {reported[key]} did")
    # fio sums up as soon as every host has reported, if there is more than one report
    if not summed and len(single) > 1:
        doubts.append("fio's sum over all clients is missing: not every host reported")
    return doubts


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
    told = {
        host: sorted({(job["label"][:_NAME], job["group"]) for job in jobs if job["host"] == host}) for host in clients
    }
    return found if all(sorted(keys[host]) == told[host] for host in clients) else {}
