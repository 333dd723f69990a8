"""mdtest's standard output -> its runs, judged.

mdtest has no JSON and no CSV of results; its table is all there is:

    SUMMARY rate (in ops/sec): (of 3 iterations)
       Operation                     Max            Min           Mean        Std Dev
       ---------                     ---            ---           ----        -------
       File creation                2938.216       1578.693       2232.146        681.287

It reads mdtest of IOR 3.2 (which reports 1.9.3) to 4.1, also with -v, and the standalone mdtest 1.9 if its table is
complete; no real output of that one was available. Rates are operations per second. What Max, Min, Mean and Std Dev
are over differs (summarize_results in mdtest.c): from 4.0.0 each iteration is all items over the slowest rank's time,
and the statistics are over the iterations (sample standard deviation). In 3.3.0 every rank divides all items by its
own time, and the statistics are over ranks and iterations together (population), so that one iteration has a Max and a
Min too. Before that the fastest rank decides; over several iterations 3.2 takes ranks of different ones together.

A text is split into launches with their tables (launches.py, table.py); what it says of errors (messages.py), what its
command line asked for (command_line.py) and what its figures can be (judge.py) decide whether they are rows.

Exit codes say little (0 with an all-zero table, 0 with thousands of failed operations), so the text has to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from iosweep.tools.mdtest.command_line import Options, parse, release, split
from iosweep.tools.mdtest.judge import ALONE, longer_than_all, problems_of, statistics, times, zeros
from iosweep.tools.mdtest.launches import Launch, scan
from iosweep.tools.mdtest.messages import NOT_REMOVED, said
from iosweep.tools.mdtest.table import Rate, Table
from iosweep.tools.reading import ProblemSeverity

_OF_DIRECTORIES = ("Directory removal", "Tree removal")
#: MPI's clock counts in far less; of barriers, a phase of a millisecond is mostly made.
CLOCK_S = 0.00005


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
    times_s: Mapping[str, float] = field(default_factory=dict)  # of one iteration, where -P has them printed
    problems: Sequence[str] = ()
    doubts: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[tuple[ProblemSeverity, str]] = ()  # suspect: of all rows; note
    items: int | None = None  # files (or directories) of each task
    command: tuple[str, ...] | None = None  # as mdtest prints it, program first
    options: Options | None = None
    began: str | None = None  # the dates as printed
    ended: str | None = None


def tables(text: str) -> list[Run]:
    """The runs in one output, in its order: one for each table of rates, and one for each start without any."""
    launches, unusable = scan(text)
    runs = [run for launch in launches for run in _runs(launch)]
    return [replace(run, problems=(unusable, *run.problems)) for run in runs] if unusable else runs


def _runs(launch: Launch) -> Iterator[Run]:
    text = launch.banner[0] if launch.banner else ""
    version = release(text)
    words = split(launch.command) if launch.command else None
    options = parse(words, version)
    told = list(said(one for one in launch.heard if one.meaning != NOT_REMOVED))
    left = [sentence for _, sentence in said(one for one in launch.heard if one.meaning == NOT_REMOVED)]
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
            problems += [*times(launch, table, version, options), *longer_than_all(launch, table, options)]
            for sentence in left:
                doubts |= {name: f"{name}: {sentence}" for name in _OF_DIRECTORIES if name in table.rates}
                remarks.append(("suspect", sentence))
            if not (launch.headed or table.count):
                remarks.append(("suspect", ALONE))
        yield Run(
            version=text or None,
            tasks=tasks,
            nodes=nodes,
            shift=min(shifts) if len(shifts) == 1 else None,
            iterations=table.iterations if table else None,
            rates=table.rates if table else {},
            times_s=_times_s(table) if table else {},
            problems=tuple(dict.fromkeys(problems)),
            doubts=doubts,
            remarks=tuple(dict.fromkeys(remarks)),
            items=items,
            command=words,
            options=options,
            began=launch.began,
            ended=launch.ended,
        )


def _times_s(table: Table) -> Mapping[str, float]:
    """The table of times; several iterations have their mean rate and their mean time, which are not of one run."""
    if table.times is None or table.iterations != 1:
        return {}
    return {name: time.mean for name, time in table.times.rates.items()}


def _open_ended(options: Options | None) -> bool:
    return options is None or bool({"W", "x"} & set(options.values))
