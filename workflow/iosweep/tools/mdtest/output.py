"""mdtest's standard output -> figures, evidence and problems. Pure, and never raises.

`parse` is for campaigns, which ask for one run of one iteration; `read` is for a file of others (`iosweep parse`) with
one run or several.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from iosweep.own_rate import OwnRate
from iosweep.tools import Echo, Evidence, Parsed, Phase, Step, Streams, rank_file, wall_clock
from iosweep.tools.mdtest import argv
from iosweep.tools.mdtest.argv import RANKS
from iosweep.tools.mdtest.command_line import parse as parse_command
from iosweep.tools.mdtest.command_line import release
from iosweep.tools.mdtest.options import ROWS
from iosweep.tools.mdtest.runs import CLOCK_S, Run, runs
from iosweep.tools.messages import said
from iosweep.tools.reading import Cell, ProblemSeverity, Reading, ReadingProblem, too_short

#: How many times the shift the ranks of a phase are after those that created (mdtest.c: names come from the rank).
_SHIFTS = {"dir_stat": 1, "stat": 1, "read": 2}
#: By how much the rate of a run may differ from what its ranks' file has.
_SLACK = 0.01
#: The iterations of a mean may scatter by this share of it, as their standard deviation.
_SCATTER = 0.5
#: mdtest sleeps before it starts (4.x).
_SLEEP_S = 1.0
_PHASES = {row: phase for phase, row in ROWS.items()}
#: How mdtest prints a date, and how exact that is.
_DATE, _DATE_S = "%m/%d/%Y %H:%M:%S", 1.0


@lru_cache(1)
def _runs(stdout: bytes) -> list[Run]:
    """What one command printed: its phases are asked for one by one."""
    return runs(stdout.decode("utf-8", "replace"))[0]


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one run of one iteration.

    `runtime_s` is operations / rate: mdtest prints rates alone.
    """
    stdout = streams["stdout"]
    found = _runs(stdout)
    if len(found) != 1:
        many = (
            f"{len(found)} runs in mdtest's output: its ranks did not find each other" if found else "no run of mdtest"
        )
        return Parsed(problems=[many if stdout.strip() else "mdtest printed nothing"])
    (run,), row = found, ROWS[phase.name]
    evidence = Evidence(
        errors=list(run.problems),
        doubts=[text for severity, text in run.remarks if severity == "suspect"],
        mpi=True,
        tasks=run.tasks,
        nodes=run.nodes,
        shifts=True,
        shift=None if run.shift is None else run.shift * _SHIFTS.get(phase.name, 0),
        clock_s=CLOCK_S,
        echo=_compared(argv.command(step, ""), run),
        timed_s=_timed_s(run, step),
        untimed_s=_SLEEP_S,
        own_rates=_of_ranks(streams.get("ranks", b""), row, step.tasks),
    )
    problem = run.doubts.get(row, "")
    ops = step.tasks * step.number("files_per_thread")
    if row not in run.rates:
        problem = f"mdtest's table has no row `{row}`"
    elif run.iterations not in (None, 1):
        problem = f"mdtest ran {run.iterations} iterations, not one"
    elif not problem and run.rates[row].mean <= 0:
        problem = f"mdtest's rate of `{row}` is {run.rates[row].mean:g}"
    if problem:
        return Parsed(run.version, {}, evidence, [problem])
    rate = run.rates[row].mean
    if own := evidence.own_rates:
        most = sum(one.ops_per_s or 0.0 for one in own) * (1 + _SLACK)  # a run is over when its slowest rank is
        took_s = rank_file.of_all(streams["ranks"], f"time-{row}")  # its rate is that of one rank in some rows (4.0.0)
        if rate > most or (took_s and abs(ops - rate * took_s) > _SLACK * ops):
            why = f"mdtest's table has {rate:,.0f} ops/s, and the times of its ranks ({RANKS}) give another rate"
            return Parsed(run.version, {}, evidence, [why])
    figures = {"ops": ops, "ops_per_s": rate, "runtime_s": ops / rate}
    if run.tasks is not None:
        figures["tasks"] = run.tasks
    return Parsed(run.version, figures, evidence, [], row)


def _of_ranks(document: bytes, row: str, tasks: int) -> list[OwnRate]:
    """The rate of each rank, over the time until it was through."""
    rates = rank_file.column(document, f"rate-{row}", tasks)
    return [OwnRate("", rank, None, rate) for rank, rate in enumerate(rates)]


def _timed_s(run: Run, step: Step) -> float | None:
    """Seconds of all phases of a command by its rates; None where one of them has none."""
    rates = [run.rates[row].mean if (row := ROWS[phase.name]) in run.rates else 0.0 for phase in step.phases]
    ops = step.tasks * step.number("files_per_thread")
    return sum(ops / rate for rate in rates) if all(rates) else None


def _compared(command: Sequence[str], run: Run) -> Echo | None:
    """How a run differs from the command that was asked for; None where its command line tells nothing."""
    asked, told = parse_command(tuple(command), release(run.version)), run.options
    if asked is None or told is None:
        return None
    wrong = [f"mdtest ran without -{flag}" for flag in sorted(asked.flags - told.flags)]
    wrong += [f"mdtest ran with -{flag}, which was not asked for" for flag in sorted(told.flags - asked.flags)]
    for name in sorted((asked.values.keys() | told.values.keys()) - {"d"}):
        wanted, used = (options.values.get(name, "none") for options in (asked, told))
        if wanted != used:
            wrong.append(f"mdtest ran with -{name} {used}, asked for was {wanted}")
    return Echo(tuple(wrong), frozenset(), len(asked.flags) + len(asked.values) - 1, told.values.get("d"))


# -- files of others -------------------------------------------------------------------------------------------------


def read(data: bytes) -> Reading:
    """The rows of the runs in a file. A run with a problem gives no row, and one whose doubts concern single operations
    gives these rows without figures. The column `command` tells the runs of a log apart; runs with the same or an
    unknown command have their number in the log as `repetition`."""
    found, beside = runs(data.decode("utf-8", "replace"))
    if not found:
        texts = ("there is no table of results (SUMMARY)", *(text for _, text in said(beside)))
        return Reading(None, [], [ReadingProblem("invalid", text) for text in texts])
    numbers: Counter[object] = Counter()
    rows: list[dict[str, Cell]] = []
    problems: list[ReadingProblem] = []
    for position, run in enumerate(found, 1):
        numbers[run.command, run.tasks] += 1
        where = f"run {position} of {len(found)}: " if len(found) > 1 else ""
        problems += [ReadingProblem("invalid", f"{where}{problem}") for problem in run.problems]
        if run.problems:
            continue
        first = len(rows)
        rows += _rows(run, numbers[run.command, run.tasks] if len(found) > 1 else None)
        places = {str(row["label"]): at for at, row in enumerate(rows[first:], first)}
        problems += _of_rows(run, where, places, alone=len(found) == 1)
    return Reading(next((run.version for run in found if run.version), None), rows, list(dict.fromkeys(problems)))


def _rows(run: Run, repetition: int | None) -> Iterator[dict[str, Cell]]:
    """The rows of a run without problems; what is not told is left out, and figures that are in doubt."""
    options = run.options
    per_node = run.tasks // run.nodes if run.tasks and run.nodes and not run.tasks % run.nodes else None
    size = None
    if options and "w" in options.values:
        size = options.number("w")
    elif options and ("C" in options.flags or not options.flags & set("TErU")):
        size = 0  # it makes the files itself
    deadline = options.number("W") if options and "W" in options.values else None  # when ranks stop to create files
    for name, rate in run.rates.items():
        if rate.maximum == 0 and name not in run.doubts:
            continue
        row: dict[str, Cell | None] = {
            "tool": "mdtest",
            "tool_version": run.version,
            "label": name,
            "phase": _PHASES[name],
            "kind": "metadata",
            "metric": "ops_per_s",
            "repetition": repetition,
            "command": shlex.join(run.command) if run.command else None,
            "tasks": run.tasks,
            "nodes": run.nodes,
            "threads_per_node": per_node,
            "files_per_thread": run.items,
            "unique_directory": "u" in options.flags if options else None,
            "file_size_bytes": size if name.startswith("File") else None,
            "phase_time_s": float(deadline) if deadline else None,
            "iterations": run.iterations,
            "began_local": wall_clock.iso(wall_clock.date(run.began, _DATE)),
            "ended_local": wall_clock.iso(wall_clock.date(run.ended, _DATE)),
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


def _of_rows(run: Run, where: str, places: Mapping[str, int], alone: bool) -> Iterator[ReadingProblem]:
    """What is said of a run's rows. `places`: name -> index of its row; `alone`: there is no other run."""
    for name, doubt in run.doubts.items():
        yield ReadingProblem("invalid", f"{where}{doubt}", places.get(name))
    for severity, text in run.remarks:
        if severity == "note" or alone:
            yield ReadingProblem(severity, f"{where}{text}")
        else:
            yield from (ReadingProblem(severity, f"{where}{text}", index) for index in places.values())
    timed_s = 0.0
    for name, index in places.items():
        for severity, text in _of_row(run, name):
            yield ReadingProblem(severity, f"{where}{name}: {text}", index)
        rate = 0 if name in run.doubts else run.rates[name].mean
        if rate and run.items and run.tasks:
            runtime_s = run.items * run.tasks / rate
            timed_s += runtime_s * (run.iterations or 1)
            if short := too_short(runtime_s, CLOCK_S):
                why = f"was over after {runtime_s * 1000:.3g} ms, which is mostly barriers and ticks of the clock"
                yield ReadingProblem(short, f"{where}{name} {why}", index)
    dates = (wall_clock.date(text, _DATE) for text in (run.began, run.ended))
    wall_s = wall_clock.seconds(*dates)
    if wall_s is not None and (why := wall_clock.fast(timed_s, wall_s, _DATE_S)):
        yield from (ReadingProblem("suspect", f"{where}{why}", index) for index in places.values())


def _of_row(run: Run, name: str) -> Iterator[tuple[ProblemSeverity, str]]:
    """What its figures and the other lines say against a row."""
    rate = run.rates[name]
    many, scatter = run.iterations or 1, rate.stddev / rate.mean if rate.mean else 0.0
    if many > 1 and scatter > _SCATTER:
        yield "suspect", f"a mean of {many} iterations that scatter by {100 * scatter:.0f} % (standard deviation)"
    if name in ("File stat", "Directory stat", "File read") and not run.shift:
        what = "each rank may find in its node's cache what it created itself"
        if run.nodes == 1:
            yield "note", f"on one node, {what}"
        elif run.nodes and not (run.options and run.options.number("N")):
            yield "suspect", f"without -N {what}"
