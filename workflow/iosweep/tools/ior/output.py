"""What IOR writes -> figures, evidence and problems. Pure, and never raises.

`parse` is for campaigns: the JSON summary and the standard output of one run of one operation. `read` is for a file of
others (`iosweep parse`): any of IOR's formats, and logs of several runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from iosweep.own_rate import OwnRate
from iosweep.tools import CLOCK_S as COARSEST_S
from iosweep.tools import Echo, Evidence, Parsed, Phase, Step, Streams, rank_file, wall_clock
from iosweep.tools.ior import argv, command_line
from iosweep.tools.ior.command_line import Command
from iosweep.tools.ior.json_summary import pieces
from iosweep.tools.ior.judge import judge
from iosweep.tools.ior.records import CLOCK_S, Printout, Remark, Result, Run
from iosweep.tools.ior.text import Reader
from iosweep.tools.messages import said
from iosweep.tools.reading import Cell, Reading, ReadingProblem, too_short, too_short_to_be_steady
from iosweep.units import human_size


def scan(content: bytes) -> Reader:
    """The runs of one file in their order, not judged yet."""
    reader = Reader()
    for piece in pieces(content.decode("utf-8", "replace").replace("\r\n", "\n")):
        if isinstance(piece, str):
            reader.text(piece)
        else:
            for run in piece:
                reader.document(run)
    reader.end()
    return reader


# -- a campaign's own runs ---------------------------------------------------------------------------------------------


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one run of one operation and one iteration.

    Bandwidth is bytes / `runtime_s`, from the first open to the last close; `ops_per_s` is transfers / `io_s`. IOR's
    own latency is not taken: it is wrong with a deadline.
    """
    document, stdout = streams.get("summary"), streams.get("stdout", b"")
    messages = _messages(stdout)
    if not document:
        return Parsed(evidence=Evidence(messages=messages), problems=["IOR wrote no summary", *messages[:3]])
    run = summary(document, stdout)
    version = run.printout.version
    evidence = _evidence(run, step, messages)
    if not run.results:
        return Parsed(version, {}, evidence, ["IOR's summary holds no result"])
    wanted = "read" if phase.reads else "write"
    found = {result.access for result in run.results}
    evidence = replace(
        evidence,
        silent_directions=sorted({wanted} - found),
        unasked_directions=sorted(found - {wanted}),
    )
    if len(run.results) != 1:
        return Parsed(version, {}, evidence, [f"IOR's summary holds {len(run.results)} results, not one"])
    (result,) = run.results
    moved = result.moved.moved if result.moved else (run.tasks or step.tasks) * step.number("file_size")
    bandwidth = float(result.bandwidth_bytes_per_s)
    evidence = replace(
        evidence,
        transferred_bytes=moved,
        rate_times_runtime_bytes=bandwidth * result.total_s,
        clock_s=CLOCK_S,
        timed_s=float(result.total_s),
        own_rates=_of_ranks(streams.get("ranks", b""), wanted, step),
    )
    figures = {**_figures(result), "ops": moved // step.number("transfer_size")}
    figures["bytes_read" if phase.reads else "bytes_written"] = moved
    if run.tasks is not None:
        figures["tasks"] = run.tasks
    return Parsed(version, figures, evidence, [], result.access)


def summary(document: bytes, stdout: bytes) -> Run:
    """The run in one JSON summary together with what IOR printed, judged."""
    scanned, log = scan(document), scan(stdout)
    if len(scanned.runs) != 1 or scanned.runs[0].layout != "json":
        why = "the summary is empty" if not document.strip() else f"{len(scanned.runs)} runs in the summary, not one"
        return Run(Printout("json"), problems=(why, *(text for _, text in said(log.beside.heard))))
    (run,) = scanned.runs
    for beside in (*log.runs, log.beside):
        run.heard.add(beside.heard)
        run.moved += beside.moved
        run.off |= beside.off
    return judge(run, log_seen=True)


def _figures(result: Result) -> dict[str, float]:
    """Columns that campaigns and files of others share."""
    bandwidth = float(result.bandwidth_bytes_per_s)
    figures = {
        "bandwidth_bytes_per_s": bandwidth,
        f"{result.access}_bandwidth_bytes_per_s": bandwidth,
        "runtime_s": float(result.total_s),
        "open_s": float(result.open_s),
        "io_s": float(result.io_s),
        "close_s": float(result.close_s),
    }
    if result.ops_per_s is not None:
        figures |= dict.fromkeys(("ops_per_s", f"{result.access}_ops_per_s"), float(result.ops_per_s))
    return figures


def _evidence(run: Run, step: Step, messages: list[str]) -> Evidence:
    """What IOR says of the whole run."""
    distinct = argv.distinct_bytes(step.number("transfer_size"))
    repeats = step.number("file_size") > distinct
    return Evidence(
        errors=[*run.problems, *(remark.text for remark in run.remarks if remark.severity == "invalid")],
        doubts=[remark.text for remark in run.remarks if remark.severity == "suspect"],
        mpi=True,
        tasks=run.tasks,
        nodes=run.nodes,
        shifts=run.shifts,
        shift=run.clients_per_node,
        repeats=f"IOR's random data begins anew after {human_size(distinct)} of a file" if repeats else "",
        not_flushed=run.printout.off.get("fsync", ""),
        messages=messages,
        echo=compared(argv.command(step, "", 0), run),
    )


def _of_ranks(document: bytes, access: str, step: Step) -> list[OwnRate]:
    """The rate of each rank, over its own time from the open to the close."""
    if not argv.times_tell_rates(step):
        return []
    rates = rank_file.column(document, "throughput-withopenclose", step.tasks, access)
    return [OwnRate("", k, rate, rate / step.number("transfer_size")) for k, rate in enumerate(rates)]


def _messages(stdout: bytes) -> list[str]:
    """Lines that say more than that all went well."""
    lines = (line.strip() for line in stdout.decode("utf-8", "replace").splitlines())
    return [line[:300] for line in lines if line and not line.startswith("Writing output to")][:20]


# -- what IOR says of its options -------------------------------------------------------------------------------------

#: Values that differ from run to run, and what is written beside the summary.
_NOT_COMPARED = frozenset({"o", "G", "random-offset-seed", "saverankperformancedetailscsv"})
#: IOR's parameters that follow from a flag, and from a value (of which there may be none).
_FLAGS = {
    "F": "filePerProc", "c": "collective", "k": "keepFile", "z": "randomOffset", "r": "readFile", "C": "reorderTasks",
    "w": "writeFile", "E": "useExistingTestFile", "e": "fsync", "W": "checkWrite", "R": "checkRead",
}  # fmt: skip
_VALUES = {
    "a": ("api", "POSIX"), "b": ("blockSize", ""), "t": ("transferSize", ""), "D": ("deadlineForStonewall", "0"),
    "i": ("repetitions", "1"), "s": ("segmentCount", "1"),
}  # fmt: skip


def compared(argv: Sequence[str], run: Run) -> Echo | None:
    """How a run differs from the command that was asked for; None where IOR printed no command line."""
    asked, told = (
        command_line.parse(_without_path(" ".join(argv))),
        command_line.parse(_without_path(run.printout.command or "")),
    )
    if asked is None or told is None:
        return None
    wrong = [*_commands(asked, told), *_parameters(asked, run)]
    confirmed = frozenset(name for name, on in (("o_direct", run.o_direct), ("fsync", run.fsync)) if on)
    place = _path(run.printout.command or "")[1] or None
    return Echo(tuple(dict.fromkeys(wrong)), confirmed, len(asked.flags) + len(asked.values), place)


def _without_path(line: str) -> str:
    head, _, rest = _path(line)
    return f"{head} -O {rest}" if rest else head


def _path(line: str) -> tuple[str, str, str]:
    """A command line in three: the path of its files, which may hold blanks, stands before the last -O."""
    head, _, tail = line.partition(" -o ")
    path, _, rest = tail.rpartition(" -O ")
    return head, path, rest


def _commands(asked: Command, told: Command) -> Iterator[str]:
    for flag in sorted(asked.flags - told.flags):
        yield f"IOR ran without -{flag}"
    for flag in sorted(told.flags - asked.flags):
        yield f"IOR ran with -{flag}, which was not asked for"
    for name in sorted((asked.values.keys() | told.values.keys()) - _NOT_COMPARED):
        wanted, used = asked.values.get(name), told.values.get(name)
        if wanted != used:
            option = f"-{name}" if len(name) == 1 else name
            yield (
                f"IOR ran with {option} {used}, which was not asked for" if wanted is None
                else f"IOR ran without {option} {wanted}" if used is None
                else f"IOR ran with {option} {used}, asked for was {wanted}"
            )  # fmt: skip


def _parameters(asked: Command, run: Run) -> Iterator[str]:
    """Where IOR's parameters are not those of the command, but for what it says it does without (`Printout.off`)."""
    wanted = {name: str(int(flag in asked.flags)) for flag, name in _FLAGS.items()}
    wanted |= {name: asked.values.get(letter, default) for letter, (name, default) in _VALUES.items()}
    for name, value in wanted.items():
        used = run.printout.parameters.get(name)
        if used is not None and used != value and name not in run.printout.off:
            yield f"IOR's parameter {name} was {used}, asked for was {value}"


# -- files of others -------------------------------------------------------------------------------------------------

#: Columns of a row that say what ran; all others are figures.
_IDENTITY = frozenset((
    "tool", "tool_version", "label", "repetition", "phase", "kind", "metric", "nodes", "threads_per_node", "tasks",
    "transfer_size_bytes", "segments", "other_options", "phase_time_s", "began_local", "ended_local", "host", "command",
    "o_direct", "fsync", "api", "file_per_process", "collective",
))  # fmt: skip

#: Options that columns tell, or that change no I/O: places, seeds, counts of repetitions and what is printed.
_NO_CONDITIONS = _NOT_COMPARED | frozenset("aAbBcDeFijkNstTvz") | {
    "saveperopdatacsv", "summaryfile", "summaryformat", "randomoffsetseed", "posix.odirect", "useo_direct",
}  # fmt: skip
#: Access -> flags that the other one uses.
_OF_OTHERS = {"write": frozenset("wrRC"), "read": frozenset("wrWEY")}


def read(data: bytes) -> Reading:
    """The rows of the runs in a file. What makes no figure of a run trustworthy is an invalid problem, and the run
    gives no rows; a remark leaves them, or takes the figures of the row that it concerns."""
    reader = scan(data)
    rows: list[dict[str, Cell]] = []
    problems: list[ReadingProblem] = []
    if not reader.runs:
        why = "no results: IOR writes them to a summary file" if reader.is_log else "no results of IOR"
        problems = [ReadingProblem("invalid", text) for text in (why, *(text for _, text in said(reader.beside.heard)))]
    for at, printout in enumerate(reader.runs, 1):
        run = judge(printout, log_seen=reader.is_log)
        where = f"run {at} of {len(reader.runs)}: " if len(reader.runs) > 1 else ""
        problems += [ReadingProblem("invalid", f"{where}{problem}") for problem in run.problems]
        if run.problems:
            continue
        remarks = (*run.remarks, *_short(run))
        wrong = {remark.row for remark in remarks if remark.severity == "invalid"}
        places: dict[tuple[str, int] | None, int] = {}
        for result in run.results:
            key = result.access, result.iteration
            places[key] = len(rows)
            row = _row(run, result)
            rows.append({name: cell for name, cell in row.items() if key not in wrong or name in _IDENTITY})
        for remark in remarks:
            text = f"{where}{remark.text}"
            if remark.row in places or remark.severity != "suspect" or len(reader.runs) == 1:
                problems.append(ReadingProblem(remark.severity, text, places.get(remark.row)))
            else:  # of the run, whose rows may be some of all
                problems += [ReadingProblem("suspect", text, index) for index in places.values()]
    version = next((run.version for run in reader.runs if run.version), None)
    return Reading(version, rows, list(dict.fromkeys(problems)))


def _short(run: Run) -> Iterator[Remark]:
    """Rows that took too little time for a rate, or that a time bounded which is too short to judge steadiness."""
    for result in run.results:
        key, name = (result.access, result.iteration), f"{result.access} of iteration {result.iteration}"
        deadline_s = run.stonewall_s or 0
        if deadline_s and result.total_s >= deadline_s and (short := too_short_to_be_steady(deadline_s)):
            yield Remark("suspect", f"{name}: {short}", key)
        # half a unit of the last digit is printed
        tick_s = max(min(2 * result.total_s.error, COARSEST_S), CLOCK_S)
        if severity := too_short(result.total_s, tick_s):
            why = f"was over after {result.total_s * 1000:.3g} ms, which is mostly barriers and ticks of the clock"
            yield Remark(severity, f"{name} {why}", key)


def _file_size(run: Run, result: Result) -> int | None:
    """Bytes of a rank's file, or its part of a shared one: what was asked for, where all of it was gone over."""
    if not run.block_bytes or not run.segments or run.within_file:
        return None
    asked, moved = run.block_bytes * run.segments, result.bytes_moved
    if moved is None:
        return None if run.time_bounded or run.status_file else asked
    return asked if run.tasks and moved >= asked * run.tasks else None


def _others(line: str | None, access: str) -> str | None:
    """What changes I/O and is in no column; None where no command line tells."""
    if not (command := command_line.parse(line)):
        return None
    without = _NO_CONDITIONS | _OF_OTHERS[access]
    options = dict.fromkeys(command.flags, "") | command.values
    told = sorted((name, value) for name, value in options.items() if name not in without)
    return " ".join(f"-{name}" if not value or "/" in value else f"-{name}={value}" for name, value in told)


def _row(run: Run, result: Result) -> dict[str, Cell]:
    """Columns of the result table (columns.py) that the run tells."""
    order = None if run.random is None else "rand" if run.random else "seq"
    moved, transfer = result.bytes_moved, run.transfer_bytes
    told = run.printout.options
    began = wall_clock.date(told.get("StartTime")) or wall_clock.date(told.get("Began"))
    machine = told.get("Machine", "").split()  # `Linux node01`, behind which -v prints the rest of what uname says
    row: dict[str, Cell | None] = {
        "tool": "ior",
        "tool_version": run.printout.version,
        "label": result.access,
        "repetition": result.iteration + 1,
        "phase": f"{order}_{result.access}" if order else None,
        "kind": "data",
        "metric": "ops_per_s" if order == "rand" and result.ops_per_s is not None else "bandwidth_bytes_per_s",
        "nodes": run.nodes,
        "threads_per_node": run.clients_per_node,
        "tasks": run.tasks,
        "transfer_size_bytes": transfer,
        "segments": run.segments,
        "other_options": _others(run.printout.command or told.get("Command line"), result.access),
        "phase_time_s": float(run.stonewall_s) if run.stonewall_s else None,
        "file_size_bytes": _file_size(run, result),
        "o_direct": run.o_direct,
        "fsync": run.fsync if result.access == "write" else None,
        "api": run.api,
        "file_per_process": run.file_per_process,
        "collective": run.collective,
        **_figures(result),
        "bytes_written" if result.access == "write" else "bytes_read": moved,
        "ops": moved // transfer if moved is not None and transfer and moved % transfer == 0 else None,
        "began_local": wall_clock.iso(began),
        "ended_local": wall_clock.iso(wall_clock.date(told.get("Finished"))),
        "host": machine[1] if len(machine) > 1 else None,
        "command": run.printout.command or told.get("Command line"),
    }
    return {name: value for name, value in row.items() if value is not None}
