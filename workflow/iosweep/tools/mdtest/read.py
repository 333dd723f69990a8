"""What mdtest prints to rows: for people who only have files (`iosweep parse`), and, as `tables`, for the runner.

mdtest has no JSON and no CSV of results; its table is all there is:

    SUMMARY rate (in ops/sec): (of 3 iterations)
       Operation                     Max            Min           Mean        Std Dev
       ---------                     ---            ---           ----        -------
       File creation                2938.216       1578.693       2232.146        681.287

Read are IOR 3.2's, which calls itself 1.9.3, to 4.1's (also with -v), and the 1.9 before IOR had it where the table is
whole, of which no real output was at hand. Rates are operations per second. What Max, Min, Mean and Std Dev are over
differs (summarize_results in mdtest.c): from 4.0.0 each iteration is all items over the slowest rank's time, and the
statistics are over the iterations (sample standard deviation). In 3.3.0 every rank divides all items by its own time,
and the statistics are over ranks and iterations together (population), so that one iteration has a Max and a Min too.
Before that the fastest rank decides; over several iterations 3.2 takes ranks of different ones together.

A text is split into launches with their tables (scan.py, table.py); what it says of errors (messages.py), what its
command line asked for (command.py) and what its figures can be (judge.py) decide whether they are rows.

Exit codes say little (0 with an all-zero table, 0 with thousands of failed operations), so the text has to tell.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from iosweep.tools import ProblemSeverity, Reading, ReadingProblem, too_short
from iosweep.tools.loglines import Heard, marked
from iosweep.tools.mdtest.command import Options, parse, release, split
from iosweep.tools.mdtest.judge import ALONE, problems_of, statistics, times, zeros
from iosweep.tools.mdtest.messages import WORDS, judged, quote, said
from iosweep.tools.mdtest.scan import MIXED, Launch, scan
from iosweep.tools.mdtest.table import PHASES, Rate, Table

__all__ = ["PHASES", "Rate", "Run", "read", "shift", "tables"]

#: MPI's clock counts in far less; of barriers, a phase of a millisecond is mostly made.
CLOCK_S = 0.00005
_SHIFT = re.compile(r"Shifting ranks by (\d{1,9}) for each phase")


@dataclass(frozen=True)
class Run:
    """One table of rates and what the output says about it; without a table, what is wrong.

    `rates` has every row as printed, also the zeros of operations that were not run. With a problem none of them can
    be trusted; `doubts` says of single operations why they cannot be (their mean: in 3.3 with one iteration, the
    minimum is all items over the slowest rank's time, as 4.0.0 has it). What the output does not tell is None.
    """

    version: str | None = None
    tasks: int | None = None
    nodes: int | None = None
    shift: int | None = None  # ranks from the one that makes a file to the one that works on it next (-N)
    iterations: int | None = None
    rates: Mapping[str, Rate] = field(default_factory=dict)
    problems: Sequence[str] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[tuple[ProblemSeverity, str]] = ()  # suspect: of all rows; note
    items: int | None = None  # files (or directories) of each task
    command: tuple[str, ...] | None = None  # as mdtest prints it, program first
    options: Options | None = None
    began: str | None = None  # the dates as printed
    ended: str | None = None


def shift(text: str) -> int | None:
    """N of "Shifting ranks by N for each phase" (-N; where ranks fill node after node, times the ranks of a node).

    None without that line, and where several lines disagree.
    """
    found = _shifts(text)
    return found.pop() if len(found) == 1 else None


def _shifts(text: str) -> set[int]:
    return {int(number) for number in _SHIFT.findall(text)}


def tables(text: str) -> list[Run]:
    """The runs in one output, in its order: one for each table of rates, and one for each start without any."""
    launches, mixed = scan(text)
    runs = [run for launch in launches for run in _runs(launch)]
    return [replace(run, problems=(MIXED, *run.problems)) for run in runs] if mixed else runs


def _runs(launch: Launch) -> Iterator[Run]:
    text = launch.banner[0] if launch.banner else ""
    version = release(text)
    words = split(launch.command) if launch.command else None
    options = parse(words, version)
    told = list(said(launch.heard))
    signs = [sentence for severity, sentence in told if severity == "invalid"]
    shifts = launch.shifts
    if len(shifts) > 1:
        signs.append(f"lines disagree by how many ranks phases are shifted: {', '.join(map(str, sorted(shifts)))}")
    found: list[Table | None] = [table for table in launch.tables if table.kind == "rate"]
    for table in found or [None]:
        tasks, nodes = launch.banner[1:] if launch.banner else (None, None)
        items = None
        if table and table.count:
            if tasks is not None and table.count[0] != tasks and nodes != 1:
                nodes = None  # -f, -l: the first ranks only; on how many nodes is not told
            tasks = table.count[0]
            # what -W and -x make of -n is not printed
            if table.count[2] != "file" and tasks and not table.count[1] % tasks and not _open_ended(options):
                items = table.count[1] // tasks
        problems = list(problems_of(launch, table, version, options, signs))
        doubts: dict[str, str] = {}
        remarks: list[tuple[ProblemSeverity, str]] = [
            (severity, sentence) for severity, sentence in told if severity != "invalid"
        ]
        if table:
            problems += zeros(table, version, options, doubts, remarks)
            statistics(table, version, tasks, problems, doubts)
            problems += times(launch, table, version, options)
            if not (launch.headed or table.count):
                remarks.append(("suspect", ALONE))
        yield Run(
            version=text or None,
            tasks=tasks,
            nodes=nodes,
            shift=min(shifts) if len(shifts) == 1 else None,
            iterations=table.iterations if table else None,
            rates=table.rates if table else {},
            problems=tuple(dict.fromkeys(problems)),
            doubts=doubts,
            remarks=tuple(dict.fromkeys(remarks)),
            items=items,
            command=words,
            options=options,
            began=launch.began,
            ended=launch.ended,
        )


def _open_ended(options: Options | None) -> bool:
    return options is None or bool({"W", "x"} & set(options.values))


def _rows(run: Run, repetition: int | None) -> Iterator[dict[str, Any]]:
    """The rows of a run without problems; what is not told is left out, and figures that are in doubt."""
    options = run.options
    per_node = run.tasks // run.nodes if run.tasks and run.nodes and not run.tasks % run.nodes else None
    size = None
    if options and "w" in options.values:
        size = options.number("w")
    elif options and ("C" in options.flags or not options.flags & set("TErU")):
        size = 0  # it makes the files itself
    for name, rate in run.rates.items():
        if rate.maximum == 0 and name not in run.doubts:
            continue
        row: dict[str, Any] = {
            "tool": "mdtest",
            "tool_version": run.version,
            "label": name,
            "phase": PHASES[name],
            "kind": "metadata",
            "metric": "ops_per_s",
            "repetition": repetition,
            "command": shlex.join(run.command) if run.command else None,
            "tasks": run.tasks,
            "nodes": run.nodes,
            "threads_per_node": per_node,
            "files_per_thread": None if name.startswith("Tree") else run.items,
            "unique_directory": "u" in options.flags if options else None,
            "file_size_bytes": size if name.startswith("File") else None,
            "iterations": run.iterations,
        }
        if name not in run.doubts:
            row |= {
                "ops_per_s": rate.mean,
                "min_ops_per_s": rate.minimum,
                "max_ops_per_s": rate.maximum,
                "stddev_ops_per_s": rate.stddev,
            }
        yield {column: value for column, value in row.items() if value is not None}


def _once(runs: Sequence[Run]) -> list[Run]:
    """The runs without copies of the same output, which have the same dates and figures; with what any copy has wrong.

    Runs without a table are left as they are.
    """
    kept: dict[Any, Run] = {}
    for position, run in enumerate(runs):
        same = (run.version, run.command, run.tasks, run.nodes, run.items, run.iterations, run.began, run.ended)
        key = (*same, *run.rates.items()) if run.rates else position
        if copy := kept.get(key):
            run = replace(copy, problems=tuple(dict.fromkeys((*copy.problems, *run.problems))))
        kept[key] = run
    return list(kept.values())


def _details(text: str) -> str | None:
    """What a file of mdtest's is that has no results of the run, or None."""
    if re.match(r"rank,items(?:,|\s|$)", text):
        return "the figures of single ranks (--saveRankPerformanceDetails), not mdtest's table of results"
    if re.match(r"time,runtime,", text):
        return "the times of single operations (--savePerOpDataCSV), not mdtest's table of results"
    return None


def read(files: Mapping[str, bytes], exit_code: int | None) -> Reading:
    """The rows of one call's output files (name -> content), and what is wrong with them. Never raises.

    A run with a problem gives no row, one whose doubts concern single operations gives these rows without figures, and
    one that is there twice gives its rows once. Several runs of one log are told apart by `command` and, where that is
    the same or unknown, by `repetition`, their number in the log.
    """
    problems: list[ReadingProblem] = []
    holders: dict[str, list[Run]] = {}
    spoiled = bool(exit_code)
    if exit_code:
        problems.append(ReadingProblem("invalid", f"mdtest ended with exit code {exit_code}"))
    for name, content in files.items():
        text = content.decode("utf-8", "replace")
        if what := _details(text):
            problems.append(ReadingProblem("invalid", f"{quote(name)} has {what}"))
        elif runs := _once(tables(text)):
            holders[name] = runs
        else:
            beside = [ReadingProblem(*one) for one in said(_heard(text), warnings=False)]
            problems += beside  # of which run in another file is not known
            spoiled = spoiled or any(problem.severity == "invalid" for problem in beside)
    if not holders:
        nothing = not any(content.strip() for content in files.values())
        why = "mdtest printed nothing" if nothing else "there is no table of results (SUMMARY)"
        return Reading(None, (), tuple(dict.fromkeys([*problems, ReadingProblem("invalid", why)])))
    runs = next(iter(holders.values()))
    if any(others != runs for others in holders.values()):
        why = f"several files have results: {', '.join(map(quote, holders))}; give those of one run"
        problems.append(ReadingProblem("invalid", why))
        spoiled = True
    several = len(runs) > 1
    numbers: Counter[Any] = Counter()
    rows: list[Mapping[str, Any]] = []
    for position, run in enumerate(runs, 1):
        numbers[run.command, run.tasks] += 1
        where = f"run {position} of {len(runs)}: " if several else ""
        problems += [ReadingProblem("invalid", f"{where}{problem}") for problem in run.problems]
        first = len(rows)
        if not run.problems and not spoiled:
            rows += _rows(run, numbers[run.command, run.tasks] if several else None)
        problems += _of_rows(run, where, rows, first, alone=not several)
    versions = {run.version for run in runs}
    return Reading(versions.pop() if len(versions) == 1 else None, tuple(rows), tuple(dict.fromkeys(problems)))


def _heard(text: str) -> Heard:
    """What the lines of a file without results say."""
    heard = Heard(judged)
    for line, is_marked in marked(text, WORDS):
        if is_marked:
            heard.take(0, 0, line.strip())
    return heard


def _of_rows(
    run: Run, where: str, rows: Sequence[Mapping[str, Any]], first: int, alone: bool
) -> Iterator[ReadingProblem]:
    """What is said of a run's rows, of which `first` is the index of the first."""
    places = {rows[index]["label"]: index for index in range(first, len(rows))}
    for name, doubt in run.doubts.items():
        yield ReadingProblem("invalid", f"{where}{doubt}", places.get(name))
    for severity, text in run.remarks:
        if severity == "note" or alone:
            yield ReadingProblem(severity, f"{where}{text}")
        else:
            yield from (ReadingProblem(severity, f"{where}{text}", index) for index in places.values())
    for name, index in places.items():
        rate = rows[index].get("ops_per_s")
        # trees are a handful of directories, and always short
        if rate and run.items and run.tasks and not name.startswith("Tree"):
            runtime_s = run.items * run.tasks / rate
            if short := too_short(runtime_s, CLOCK_S):
                why = f"was over after {runtime_s * 1000:.3g} ms, which is mostly barriers and ticks of the clock"
                yield ReadingProblem(short, f"{where}{name} {why}", index)
