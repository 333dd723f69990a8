"""Files of IOR that others made (`iosweep parse ior`): IOR 3.0 and later.

IOR writes one run to several files: messages to stdout, results to stdout or to a summary file. Each file is read into
runs (scan.py), those of several files are merged, facts are collected (run_facts.py) and figures judged (judge.py). A
run with a problem gives no rows; a remark leaves them, or takes the figures of the row that it concerns.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from iosweep.tools import CLOCK_S as COARSEST_S
from iosweep.tools import wall_clock
from iosweep.tools.ior.judge import judge, without_figures
from iosweep.tools.ior.records import CLOCK_S, MIXED, Printed, Remark, Result, Run
from iosweep.tools.ior.run_facts import derive, time_bounded
from iosweep.tools.ior.scan import Scanned, remarks_on, scan, with_remarks
from iosweep.tools.ior.unfinished_run import OF_THE_LAUNCH
from iosweep.tools.reading import Cell, Reading, ReadingProblem, too_short, too_short_to_be_steady

T = TypeVar("T")


def read(files: Mapping[str, bytes], exit_code: int | None) -> Reading:
    """Rows of the runs in the files (name -> content): all of one run, or the same several runs in each.

    Never raises for what a file may hold. What makes no figure of a run trustworthy is an invalid problem, and the run
    gives no rows; an exit code other than 0 says so of all of them. What concerns a row belongs to that row.
    """
    scanned = [scan(name, content) for name, content in files.items()]
    runs, problems = _together(scanned)
    problems += [refusal for one in scanned for refusal in one.refused]
    if exit_code not in (0, None):
        problems.append(f"IOR's exit code is {exit_code}")
    general = remarks_on([said for one in scanned for which, said in one.said if not which])
    problems += [remark.text for remark in general if remark.severity == "invalid"]
    if not runs:
        problems.append(_nothing(files, scanned))
    # a file that is refused is not part of the run; all else that is wrong here is wrong with every run
    usable = len(problems) == sum(len(one.refused) for one in scanned)
    rows: list[Mapping[str, Cell]] = []
    told = [ReadingProblem("invalid", problem) for problem in problems]
    told += [ReadingProblem(remark.severity, remark.text) for remark in general if remark.severity != "invalid"]
    for number, run in enumerate(runs, 1):
        where = run.source if len(runs) == 1 else f"{run.source}, run {number}"
        told += [ReadingProblem("invalid", f"{where}: {problem}") for problem in run.problems]
        places: dict[tuple[str, int], int] = {}
        if usable and not run.problems:
            run = replace(run, remarks=(*run.remarks, *_short(run)))
            wrong = {remark.row for remark in run.remarks if remark.severity == "invalid"}
            for result in run.results:
                places[result.access, result.iteration] = len(rows)
                row = _row(run, result)
                rows.append(without_figures(row) if (result.access, result.iteration) in wrong else row)
        told += _of_rows(run, where, places, alone=len(runs) == 1)
    version = next((run.version for run in runs if run.version), None)
    told = [replace(problem, text=problem.text.replace(" | ", " / ")) for problem in dict.fromkeys(told)]
    return Reading(version, rows, told)


def _of_rows(run: Run, where: str, places: Mapping[tuple[str, int], int], alone: bool) -> list[ReadingProblem]:
    """The remarks on a run as problems of its rows. `places`: index of the row of each access and iteration."""
    found: list[ReadingProblem] = []
    for remark in run.remarks:
        text = f"{where}: {remark.text}"
        if remark.row is not None and remark.row in places:
            found.append(ReadingProblem(remark.severity, text, places[remark.row]))
        elif remark.severity == "suspect" and not alone:  # of the run, whose rows are some of all
            found += [ReadingProblem("suspect", text, index) for index in places.values()]
        elif remark.severity != "suspect" or places:
            found.append(ReadingProblem(remark.severity, text))
    return found


def _short(run: Run) -> list[Remark]:
    """Rows that took too little time for a rate, or that a time bounded which is too short to judge steadiness."""
    remarks = []
    for result in run.results:
        key = (result.access, result.iteration)
        deadline_s = run.stonewall_s or 0
        if deadline_s and result.total_s >= deadline_s and (short := too_short_to_be_steady(deadline_s)):
            remarks.append(Remark("suspect", f"{result.access} of iteration {result.iteration}: {short}", key))
        # half a unit of the last digit is printed
        tick_s = max(min(2 * result.total_s.error, COARSEST_S), CLOCK_S)
        severity = too_short(result.total_s, tick_s)
        if severity and result.bandwidth_bytes_per_s > 0:
            text = (
                f"{result.access} of iteration {result.iteration} was over after {result.total_s * 1000:.3g} ms,"
                " which is mostly barriers and ticks of the clock"
            )
            remarks.append(Remark(severity, text, key))
    return remarks


def _together(scanned: Sequence[Scanned]) -> tuple[list[Run], list[str]]:
    """The runs, judged, and what is wrong with all of them. Of several files with results the k-th runs are one."""
    groups = [one for one in scanned if one.runs]
    if not groups:
        return [], []
    if len({len(group.runs) for group in groups}) > 1:
        counts = ", ".join(f"{group.name} has {len(group.runs)}" for group in groups)
        return [run for group in groups for run in group.runs], [f"the files are not of the same runs: {counts}"]
    loose = [moved for one in scanned if not one.runs for _, moved in one.moved]
    heard, told = [_by_run(group.said) for group in groups], [_by_run(group.moved) for group in groups]
    off = [_by_run(group.off) for group in groups]
    off_loose = [pair for one in scanned if not one.runs for _, pair in one.off]
    log_seen = any(one.is_log for one in scanned)
    several = len(groups[0].runs) > 1
    matched = zip(*(group.runs for group in groups), strict=True)
    merged = [replace(_merged(same), log_seen=log_seen) for same in matched]
    runs = []
    for k, run in enumerate(merged):
        problems: list[str] = []
        said = [said for lines in heard for said in lines.get(k, ())]
        run = replace(run, off=dict([*(pair for one in off for pair in one.get(k, ())), *off_loose]))
        moved = next((one[k] for one in told if k in one), [])
        if loose and several:
            problems.append("warnings on the bytes moved are in another file, and do not say of which run")
        run = with_remarks(replace(run, problems=(*run.problems, *problems)), said)
        if run.problems and not (run.results or run.totals or run.options or run.parameters or run.command):
            runs.append(run)  # nothing to judge
        else:
            runs.append(judge(derive(run), moved if moved or several else loose))
    return _none_of_a_mix(_once(merged, _same_twice(runs))), []


def _by_run(lines: Sequence[tuple[range, T]]) -> dict[int, list[T]]:
    """Items of a file by the runs that they may belong to."""
    found: defaultdict[int, list[T]] = defaultdict(list)
    for which, line in lines:
        for k in which:
            found[k].append(line)
    return dict(found)


def _once(merged: Sequence[Run], runs: Sequence[Run]) -> list[Run]:
    """A run that occurs twice gives its rows once; other rows that two runs share are dropped from both.

    `merged`: the same runs with their figures as printed. No two rows are equal in all of these by chance.
    """
    holders: defaultdict[Result, list[int]] = defaultdict(list)
    for k, run in enumerate(merged):
        for row in () if run.notes else set(run.results):
            holders[row].append(k)
    found = list(runs)
    same: dict[tuple[int, int], bool] = {}
    for first, *others in holders.values():
        same |= {(first, k): runs[first] == runs[k] for k in others if (first, k) not in same}
    for (first, k), equal in same.items():
        if equal:
            found[k] = replace(found[k], results=())
            continue
        for one, other in ((first, k), (k, first)):
            why = f"has the very figures of run {other + 1}: one of them is a copy, in part"
            found[one] = replace(found[one], problems=(*runs[one].problems, why))
    return found


def _none_of_a_mix(runs: list[Run]) -> list[Run]:
    """Where one run has lines of another, the others may lack them or have its. Each of the notes' rows is its own."""
    if not any(problem.endswith(MIXED) for run in runs if not run.notes for problem in run.problems):
        return runs
    return [run if run.problems else replace(run, problems=(f"in this file {MIXED}",)) for run in runs]


def _same_twice(runs: list[Run]) -> list[Run]:
    """Rows of the Lustre notes' results.csv are told apart by their leading columns only."""
    counts = Counter(tuple(run.notes.values()) for run in runs if run.notes)
    return [
        replace(run, problems=(*run.problems, f"the row of {', '.join(run.notes.values())} is there more than once"))
        if counts[tuple(run.notes.values())] > 1
        else run
        for run in runs
    ]


def _merged(runs: Sequence[Run]) -> Run:
    """One run that several files tell of: figures of the one with the most digits, facts of all."""
    best = min(runs, key=lambda run: (not run.results, _error(run)))
    problems = list(best.problems)
    for other in (run for run in runs if run is not best):
        problems += other.problems
        problems += [f"differs from {other.source} in {name}" for name in _differences(best, other)]
        best = replace(
            best, version=best.version or other.version, command=best.command or other.command,
            options={**other.options, **best.options}, parameters={**other.parameters, **best.parameters},
            totals=best.totals + other.totals, old=best.old or other.old,
        )  # fmt: skip
    return replace(best, problems=tuple(problems))


def _error(run: Run) -> float:
    """Relative error of the run's bandwidths by their printed digits."""
    printed = [result.bandwidth_bytes_per_s for result in run.results]
    return max((figure.error / figure if figure else 1.0 for figure in printed), default=1.0)


def _differences(one: Run, other: Run) -> list[str]:
    found = [f"its {name}" for name in ("version", "command") if _unlike(getattr(one, name), getattr(other, name))]
    both = {key for key in one.options if key in other.options and key not in OF_THE_LAUNCH}
    found += [f"its {key}" for key in sorted(both) if one.options[key] != other.options[key]]
    if [(r.access, r.iteration) for r in one.results] != [(r.access, r.iteration) for r in other.results]:
        return [*found, "which results there are"]
    for mine, its in zip(one.results, other.results, strict=True):
        for name in vars(mine):
            a, b = getattr(mine, name), getattr(its, name)
            if _unlike(a, b) and not (isinstance(a, Printed) and isinstance(b, Printed) and a.near(b)):
                found.append(f"{name} of {mine.access} of iteration {mine.iteration}")
    return found


def _unlike(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def _nothing(files: Mapping[str, bytes], scanned: Sequence[Scanned]) -> str:
    empty = [name for name, content in files.items() if not content.strip()]
    if any(one.is_log for one in scanned):
        names = f" ({', '.join(empty)}: empty)" if empty else ""
        return f"no results: IOR writes them to a summary file, which is empty or not among the files{names}"
    return f"no results of IOR in {', '.join(files) or 'no file'}"


def _file_size(run: Run, result: Result) -> int | None:
    """Bytes of a rank's file, or its part of a shared one: what was asked for, where all of it was gone over."""
    if not run.block_bytes or not run.segments or run.within_file:
        return None
    asked, moved = run.block_bytes * run.segments, result.bytes_moved
    if moved is None:
        return None if time_bounded(run) or run.status_file else asked
    return asked if run.tasks and moved >= asked * run.tasks else None


def _host(machine: str | None) -> str | None:
    """The node of rank 0 in `Linux node01`, behind which -v prints the rest of what uname says."""
    words = (machine or "").split()
    return words[1] if len(words) > 1 else None


def _row(run: Run, result: Result) -> dict[str, Cell]:
    """Columns of the result table (columns.py) that the run tells."""
    order = None if run.random is None else "rand" if run.random else "seq"
    bandwidth = float(result.bandwidth_bytes_per_s)
    ops_per_s = None if result.ops_per_s is None else float(result.ops_per_s)
    moved, transfer = result.bytes_moved, run.transfer_bytes
    ops = moved // transfer if moved is not None and transfer and moved % transfer == 0 else None
    told = run.options
    began = wall_clock.date(told.get("StartTime")) or wall_clock.date(told.get("Began"))
    row: dict[str, Cell | None] = {
        "tool": "ior",
        "tool_version": run.version,
        "label": result.access,
        "repetition": result.iteration + 1,
        "phase": f"{order}_{result.access}" if order else None,
        "kind": "data",
        "metric": "ops_per_s" if order == "rand" and ops_per_s is not None else "bandwidth_bytes_per_s",
        "nodes": run.nodes,
        "threads_per_node": run.clients_per_node,
        "tasks": run.tasks,
        "transfer_size_bytes": transfer,
        "segments": run.segments,
        "phase_time_s": float(run.stonewall_s) if run.stonewall_s else None,
        "file_size_bytes": _file_size(run, result),
        "o_direct": run.o_direct,
        "fsync": run.fsync if result.access == "write" else None,
        "api": run.api,
        "file_per_process": run.file_per_process,
        "collective": run.collective,
        "bandwidth_bytes_per_s": bandwidth,
        "ops_per_s": ops_per_s,
        f"{result.access}_bandwidth_bytes_per_s": bandwidth,
        f"{result.access}_ops_per_s": ops_per_s,
        "bytes_written" if result.access == "write" else "bytes_read": moved,
        "ops": ops,
        "runtime_s": float(result.total_s),
        "open_s": float(result.open_s),
        "io_s": float(result.io_s),
        "close_s": float(result.close_s),
        "began_local": wall_clock.iso(began),
        "ended_local": wall_clock.iso(wall_clock.date(told.get("Finished"))),
        "host": _host(told.get("Machine")),
        "command": run.command,
    }
    return {name: value for name, value in row.items() if value is not None}
