"""Files of mdtest that others made (`iosweep parse mdtest`) -> rows and problems."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iosweep.tools import wall_clock
from iosweep.tools.loglines import Heard, marked
from iosweep.tools.mdtest.launches import DATE
from iosweep.tools.mdtest.messages import WORDS, judged, quote, said
from iosweep.tools.mdtest.runs import CLOCK_S, Run, tables
from iosweep.tools.mdtest.table import PHASES
from iosweep.tools.reading import Cell, Reading, ReadingProblem, too_short


def _rows(run: Run, repetition: int | None) -> Iterator[dict[str, Cell]]:
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
        row: dict[str, Cell | None] = {
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
            "phase_time_s": _deadline_s(run),
            "iterations": run.iterations,
            "began_local": wall_clock.iso(wall_clock.date(run.began, DATE)),
            "ended_local": wall_clock.iso(wall_clock.date(run.ended, DATE)),
        }
        if name not in run.doubts:
            row |= {
                "ops_per_s": rate.mean,
                "min_ops_per_s": rate.minimum,
                "max_ops_per_s": rate.maximum,
                "stddev_ops_per_s": rate.stddev,
                "runtime_s": run.times_s.get(name),
            }
        yield {column: value for column, value in row.items() if value is not None}


def _deadline_s(run: Run) -> float | None:
    """When ranks stop to create files (-W), where it was asked for."""
    asked = run.options.number("W") if run.options and "W" in run.options.values else None
    return float(asked) if asked else None


def _once(runs: Sequence[Run]) -> list[Run]:
    """The runs without copies of the same output, which have the same dates and figures; with what any copy has wrong.

    Runs without a table are left as they are.
    """
    kept: dict[object, Run] = {}
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
    numbers: Counter[object] = Counter()
    rows: list[Mapping[str, Cell]] = []
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
    heard = Heard(judged)
    for line, is_marked in marked(text, WORDS):
        if is_marked:
            heard.take(0, 0, line.strip())
    return heard


def _of_rows(
    run: Run, where: str, rows: Sequence[Mapping[str, Cell]], first: int, alone: bool
) -> Iterator[ReadingProblem]:
    """What is said of a run's rows, of which `first` is the index of the first."""
    places = {str(rows[index]["label"]): index for index in range(first, len(rows))}
    for name, doubt in run.doubts.items():
        yield ReadingProblem("invalid", f"{where}{doubt}", places.get(name))
    for severity, text in run.remarks:
        if severity == "note" or alone:
            yield ReadingProblem(severity, f"{where}{text}")
        else:
            yield from (ReadingProblem(severity, f"{where}{text}", index) for index in places.values())
    for name, index in places.items():
        rate = 0 if name in run.doubts else run.rates[name].mean
        # trees are a handful of directories, and always short
        if rate and run.items and run.tasks and not name.startswith("Tree"):
            runtime_s = run.items * run.tasks / rate
            if short := too_short(runtime_s, CLOCK_S):
                why = f"was over after {runtime_s * 1000:.3g} ms, which is mostly barriers and ticks of the clock"
                yield ReadingProblem(short, f"{where}{name} {why}", index)
