"""What the files of a run of IOR say to a person who has only those, and the summary of a run that iosweep makes.

IOR writes one run to several files: messages to stdout, results to stdout or to a summary file. Each file is read into
runs (text.py, document.py), those of several files are brought together, facts are collected (facts.py) and figures
judged (judge.py). A run with a problem gives no rows. IOR 3.0 and later are read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from iosweep.tools import Reading, ReadingProblem
from iosweep.tools.ior import noise
from iosweep.tools.ior.document import Inside, pieces
from iosweep.tools.ior.facts import derive
from iosweep.tools.ior.judge import judge
from iosweep.tools.ior.run import MIXED, Moved, Printed, Result, Run
from iosweep.tools.ior.text import Reader

__all__ = ["Result", "Run", "read", "summary"]

T = TypeVar("T")


@dataclass
class _Scanned:
    """One file: its runs in order, and what stands between results, each with the runs it may belong to."""

    name: str
    runs: list[Run] = field(default_factory=list)
    bad: list[tuple[range, str]] = field(default_factory=list)  # which runs; empty: all that there are
    moved: list[tuple[range, Moved]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    is_log: bool = False


def read(files: Mapping[str, bytes], exit_code: int | None) -> Reading:
    """Rows of the runs in the files (name -> content): all of one run, or the same several runs in each.

    Never raises for what a file may hold. Anything wrong with a run, wherever it is told, is a problem, and the run
    gives no rows; an exit code other than 0 says so of all of them.
    """
    scanned = [_scan(name, content) for name, content in files.items()]
    runs, problems = _together(scanned)
    problems += [refusal for one in scanned for refusal in one.refused]
    if exit_code not in (0, None):
        problems.append(f"IOR's exit code is {exit_code}")
    said = [line for one in scanned for which, line in one.bad if not which]
    if said:
        problems.append(f"IOR or MPI says: {_some(said)}")
    if not runs:
        problems.append(_nothing(files, scanned))
    # a file that is refused is not part of the run; all else that is wrong here is wrong with every run
    rows: list[Mapping[str, Any]] = []
    usable = len(problems) == sum(len(one.refused) for one in scanned)
    for number, run in enumerate(runs, 1):
        where = run.source if len(runs) == 1 else f"{run.source}, run {number}"
        problems += [f"{where}: {problem}" for problem in run.problems]
        if usable and not run.problems:
            rows += [_row(run, result) for result in run.results]
    version = next((run.version for run in runs if run.version), None)
    told = [ReadingProblem("invalid", problem.replace(" | ", " / ")) for problem in dict.fromkeys(problems)]
    return Reading(version, rows, told)


def summary(document: bytes, stdout: bytes) -> Run:
    """The run in one JSON summary (as IOR >= 4.0 writes it) together with what IOR printed, judged.

    Its results have the bytes that were moved where IOR tells them exactly, under a time limit too (`bytes_moved`).
    `problems` is empty where every figure can be trusted, as far as the two tell; the exit code is the caller's.
    """
    scanned, log = _scan("summary", document), _scan("stdout", stdout)
    if len(scanned.runs) != 1 or scanned.runs[0].layout != "json":
        why = "the summary is empty" if not document.strip() else f"{len(scanned.runs)} runs in the summary, not one"
        return Run("summary", "json", problems=(why, *_said([line for _, line in log.bad])))
    run = derive(replace(scanned.runs[0], log_seen=True))
    run = judge(run, [moved for _, moved in (*scanned.moved, *log.moved)])
    return replace(run, problems=(*run.problems, *_said([line for _, line in (*scanned.bad, *log.bad)])))


def _said(lines: Sequence[str]) -> list[str]:
    return [f"IOR or MPI says: {_some(lines)}"] if lines else []


def _some(lines: Sequence[str]) -> str:
    """A few of the lines for a sentence: causes before what followed from them."""
    different = sorted(dict.fromkeys(line[:160] for line in lines), key=noise.consequence)
    more = f" (and {len(different) - 3} more)" if len(different) > 3 else ""
    return "; ".join(different[:3]) + more


def _scan(name: str, content: bytes) -> _Scanned:
    """The runs of one file as they stand there."""
    reader = Reader(name)
    for piece in pieces(name, content.decode("utf-8", "replace").replace("\r\n", "\n")):
        if isinstance(piece, str):
            take = reader.inside if isinstance(piece, Inside) else reader.line
            for line in piece.split("\n"):
                take(line)
        else:
            for run in piece:
                reader.document(run)
    reader.end()
    segments = reader.segments
    ends = [segment.last for segment in segments]

    def owners(at: int) -> range:
        """Runs that a line may be of: between two, either of them."""
        first = bisect_left(ends, at)  # runs that were over by then
        inside = first < len(segments) and segments[first].first <= at
        return range(first, first + 1) if inside else range(max(first - 1, 0), min(first + 1, len(segments)))

    return _Scanned(
        name,
        [segment.made(reader.mixed) for segment in segments],
        [(owners(at), line) for at, line in reader.other if noise.bad(line)],
        [(owners(at), moved) for at, moved in reader.moved],
        reader.refused,
        any("Writing output to" in line for _, line in reader.other) or any(s.layout == "table" for s in segments),
    )


def _together(scanned: Sequence[_Scanned]) -> tuple[list[Run], list[str]]:
    """The runs, judged, and what is wrong with all of them. Of several files with results the k-th runs are one."""
    groups = [one for one in scanned if one.runs]
    if not groups:
        return [], []
    if len({len(group.runs) for group in groups}) > 1:
        counts = ", ".join(f"{group.name} has {len(group.runs)}" for group in groups)
        return [run for group in groups for run in group.runs], [f"the files are not of the same runs: {counts}"]
    loose = [moved for one in scanned if not one.runs for _, moved in one.moved]
    bad, told = [_by_run(group.bad) for group in groups], [_by_run(group.moved) for group in groups]
    log_seen = any(one.is_log for one in scanned)
    several = len(groups[0].runs) > 1
    matched = zip(*(group.runs for group in groups), strict=True)
    merged = [replace(_merged(same), log_seen=log_seen) for same in matched]
    runs = []
    for k, run in enumerate(merged):
        problems = _said([line for lines in bad for line in lines.get(k, ())])
        moved = next((one[k] for one in told if k in one), [])
        if loose and several:
            problems.append("warnings on the bytes moved are in another file, and do not say of which run")
        run = replace(run, problems=(*run.problems, *problems)) if problems else run
        if run.problems and not (run.results or run.totals or run.options or run.parameters or run.command):
            runs.append(run)  # nothing to judge
        else:
            runs.append(judge(derive(run), moved if moved or several else loose))
    return _none_of_a_mix(_once(merged, _same_twice(runs))), []


def _by_run(lines: Sequence[tuple[range, T]]) -> dict[int, list[T]]:
    """What stands in a file by the runs that it may be of."""
    found: defaultdict[int, list[T]] = defaultdict(list)
    for which, line in lines:
        for k in which:
            found[k].append(line)
    return dict(found)


def _once(merged: Sequence[Run], runs: Sequence[Run]) -> list[Run]:
    """A run that stands there twice gives its rows once; rows that two runs share otherwise are of neither.

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
    """What two files do not agree on."""
    found = [f"its {name}" for name in ("version", "command") if _unlike(getattr(one, name), getattr(other, name))]
    both = {key for key in one.options if key in other.options and key not in ("TestID", "Command line")}
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
    """Whether both are told, and differently."""
    return one is not None and other is not None and one != other


def _nothing(files: Mapping[str, bytes], scanned: Sequence[_Scanned]) -> str:
    """Why there are no results at all."""
    empty = [name for name, content in files.items() if not content.strip()]
    if any(one.is_log for one in scanned):
        names = f" ({', '.join(empty)}: empty)" if empty else ""
        return f"no results: IOR writes them to a summary file, which is empty or not among the files{names}"
    return f"no results of IOR in {', '.join(files) or 'no file'}"


def _row(run: Run, result: Result) -> dict[str, Any]:
    """Columns of the result table (columns.py) that the run tells."""
    order = None if run.random is None else "rand" if run.random else "seq"
    bandwidth = float(result.bandwidth_bytes_per_s)
    ops_per_s = None if result.ops_per_s is None else float(result.ops_per_s)
    moved, transfer = result.bytes_moved, run.transfer_bytes
    ops = moved // transfer if moved is not None and transfer and moved % transfer == 0 else None
    row: dict[str, Any] = {
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
        "file_size_bytes": run.block_bytes * run.segments if run.block_bytes and run.segments else None,
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
    }
    return {name: value for name, value in row.items() if value is not None}
