"""IOR's output -> figures, evidence and problems. Pure, and never raises.

`parse` is for campaigns: the JSON summary and the standard output of one run of one operation. `read` is for a file of
others (`iosweep ingest`): any of IOR's formats, and logs of several runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from iosweep.histograms import NodeRate
from iosweep.tools import Echo, Evidence, Parsed, Phase, Step, Streams, contradictions
from iosweep.tools.ior import command
from iosweep.tools.ior.records import CLOCK_S, MIB, OPERATIONS, Moved, Reader, Result, Run, parse_command, size
from iosweep.tools.messages import rank_column
from iosweep.tools.reading import (
    Cell,
    ProblemSeverity,
    Reading,
    ReadingProblem,
    local_date,
    too_short,
    too_short_to_be_steady,
)
from iosweep.units import human_size

_TOO_OLD = re.compile(r"[12]\.|3\.[01](\D|$)")
#: Share by which bandwidth x time may differ from the bytes of a row: they are printed with few digits.
_ROUNDED = 0.01


class Judged(NamedTuple):
    """A run's rows with their bytes; problems of all its figures; and remarks on single rows, by index (an invalid
    remark without a row names a missing row)."""

    results: list[Result]
    problems: list[str]
    remarks: list[ReadingProblem]


def judge(run: Run, log_seen: bool) -> Judged:
    """log_seen: whether IOR's messages were there to be read."""
    said = [*run.messages]
    problems = [*run.problems, *_of_run(run), *(str(one) for one in said if one.severity == "invalid")]
    limited = int(size(run.command.get("T")) or 0)  # minutes, after which no iteration begins
    remarks = [
        ReadingProblem("note", f"{text} (-T {limited} ends a run)") if limited else ReadingProblem("invalid", text)
        for text in _missing(run)
    ]
    if not log_seen and "1" in (run.parameters.get("checkRead"), run.parameters.get("checkWrite")):
        remarks.append(ReadingProblem("suspect", "data was checked: only IOR's messages tell whether it was right"))
    remarks += [ReadingProblem(one.severity, str(one)) for one in said if one.severity != "invalid"]
    expected = None  # bytes of an operation on the whole files
    if run.block_bytes is not None and run.segments is not None and run.tasks is not None:
        expected = run.block_bytes * run.segments * run.tasks
    results = []
    for at, result in enumerate(_attached(run)):
        moved = result.moved.moved if result.moved else expected
        if result.moved:
            remarks += [ReadingProblem(one, f"{result.name}{text}", at) for one, text in _of_bytes(run, result)]
        elif run.time_bounded and not log_seen:  # with a log, and no warning in it: as many as expected
            moved = None
            if result.access == "read":
                why = "was bounded by time: only IOR's messages tell whether it read beyond what is allocated"
                remarks.append(ReadingProblem("suspect", f"{result.name} {why}", at))
        if run.shifts and result.access == "read" and (run.nodes or 1) > 1 and run.clients_per_node is None:
            why = "nodes have unlike numbers of ranks, so with -C some read what their own node wrote"
            remarks.append(ReadingProblem("suspect", f"{result.name}: {why}", at))
        by_rate = result.bandwidth_bytes_per_s * result.total_s
        # the bandwidth is printed with two digits of MiB/s or more
        slack_bytes = result.bandwidth_bytes_per_s * CLOCK_S + result.total_s * MIB / 100
        if moved is not None and abs(by_rate - moved) > _ROUNDED * moved + slack_bytes:
            text = f"{result.name}: bandwidth x time is {by_rate:.6g} bytes, not {moved}"
            remarks.append(ReadingProblem("invalid", text, at))
        if not result.bandwidth_bytes_per_s or result.ops_per_s == 0:
            remarks.append(ReadingProblem("invalid", f"{result.name}: a figure is 0", at))
        results.append(replace(result, bytes_moved=moved))
    return Judged(results, list(dict.fromkeys(problems)), list(dict.fromkeys(remarks)))


def _of_run(run: Run) -> Iterator[str]:
    """Differences between a run and its command."""
    if not run.results and not run.problems:
        yield "no results"
    if run.layout == "table" and "api" not in run.options and not run.problems:
        yield (
            f"not read: IOR {run.version} (3.3 and newer are)"
            if _TOO_OLD.match(run.version or "")
            else "a table without the options that IOR prints above it: what ran is not told"
        )
    wanted = run.command.get("N", "")
    if wanted.isdecimal() and run.tasks is not None and int(wanted) != run.tasks:
        yield f"{run.tasks} tasks ran, the command asks for {wanted} (-N)"
    if "1" in (run.parameters.get("dryRun"), run.command.get("dryrun")):
        yield "a dry run: nothing was measured"
    if len({result.name for result in run.results}) < len(run.results):
        yield "a result is there twice: lines of several runs are mixed"


def _missing(run: Run) -> list[str]:
    """The first of the operations that were asked for and have no row."""
    found = [(result.access, result.iteration) for result in run.results]
    names = run.operations or tuple(name for name in OPERATIONS if any(access == name for access, _ in found))
    wanted = run.repetitions or max((iteration for _, iteration in found), default=0) + 1
    there = set(found)
    expected = ((access, k) for k in range(min(wanted, len(found) + 1)) for access in names)
    lost = [f"{access} of iteration {k} is missing" for access, k in expected if (access, k) not in there]
    return lost[:1] if found else []


def _attached(run: Run) -> Iterator[Result]:
    """The rows with the warnings on bytes that IOR printed beside a JSON document: in the order of the rows, and for
    rows alone that moved other than the expected bytes."""
    waiting = list(run.moved)
    for left, result in zip(range(len(run.results), 0, -1), run.results, strict=True):
        moved = result.bandwidth_bytes_per_s * result.total_s
        fits = waiting and abs(moved - waiting[0].moved) <= _ROUNDED * moved
        yield replace(result, moved=waiting.pop(0)) if fits or len(waiting) >= left else result


def _of_bytes(run: Run, result: Result) -> Iterator[tuple[ProblemSeverity, str]]:
    """The meaning of IOR's warning for a row. A status file bounds reads by the bytes that were written."""
    moved = result.moved or Moved(0, 0, 0)
    limited, is_read = moved.stonewalled or run.time_bounded, result.access == "read"
    if not limited and moved.moved != moved.expected and not (run.status_file and is_read):
        yield "invalid", f": {moved.moved} of {moved.expected} bytes were moved, and no time limit says why"
    elif is_read and limited and moved.stat != moved.moved and moved.stat < moved.expected:
        # holes and what is beyond the end cost nothing: seen with a file that -w -z -D left a third allocated
        what = f"{moved.moved} bytes were read, the files have {moved.stat} of {moved.expected}"
        if run.random is False:
            yield "suspect", f" may have gone beyond what is allocated: {what}"
        else:
            yield "invalid", f" went beyond what is allocated: {what}; the figure is false"
    elif moved.stat < moved.moved <= moved.expected:
        why = "sizes that another node has not seen yet, or files that are not whole"
        yield "suspect", f": {moved.moved} bytes were moved, and by stat() the files have {moved.stat}: {why}"


# -- a campaign's own runs ---------------------------------------------------------------------------------------------


def parse(streams: Streams, step: Step, phase: Phase) -> Parsed:
    """Figures of one run of one operation and one iteration.

    Bandwidth is bytes / `runtime_s`, from the first open to the last close; `ops_per_s` is transfers / `io_s`. IOR's
    own latency is not taken: it is wrong with a deadline.
    """
    document, stdout = streams.get("summary"), streams.get("stdout", b"")
    lines = (line.strip()[:300] for line in stdout.decode("utf-8", "replace").splitlines())
    messages = [line for line in lines if line and not line.startswith("Writing output to")][:20]
    if not document:
        return Parsed(evidence=Evidence(messages=messages), problems=["IOR wrote no summary", *messages[:3]])
    run, judged = summary(document, stdout)
    distinct = command.distinct_bytes(step.number("transfer_size"))
    repeats = step.number("file_size") > distinct
    evidence = Evidence(
        errors=[*judged.problems, *(one.text for one in judged.remarks if one.severity == "invalid")],
        doubts=[one.text for one in judged.remarks if one.severity == "suspect"],
        tasks=run.tasks,
        nodes=run.nodes,
        shifts=run.shifts,
        shift=run.clients_per_node,
        repeats=f"IOR's random data begins anew after {human_size(distinct)} of a file" if repeats else "",
        not_flushed=run.off.get("fsync", ""),
        messages=messages,
        echo=compared(command.argv(step, "", 0), run),
    )
    if len(judged.results) != 1:
        many = f"holds {len(judged.results)} results, not one" if judged.results else "holds no result"
        return Parsed(run.version, {}, evidence, [f"IOR's summary {many}"])
    (result,), wanted = judged.results, "read" if phase.reads else "write"
    moved = result.moved.moved if result.moved else (run.tasks or step.tasks) * step.number("file_size")
    ranks: list[float] = []  # the rate of each, over its own time from the open to the close
    if command.times_tell_rates(step):
        ranks = rank_column(streams.get("ranks", b""), "throughput-withopenclose", step.tasks, wanted)
    evidence = replace(
        evidence,
        silent_directions=sorted({wanted} - {result.access}),
        unasked_directions=sorted({result.access} - {wanted}),
        transferred_bytes=moved,
        rate_times_runtime_bytes=result.bandwidth_bytes_per_s * result.total_s,
        clock_s=CLOCK_S,
        timed_s=result.total_s,
        node_rates=[NodeRate("", k, rate, rate / step.number("transfer_size")) for k, rate in enumerate(ranks)],
    )
    figures = {**_figures(result), "ops": moved // step.number("transfer_size")}
    figures["bytes_read" if phase.reads else "bytes_written"] = moved
    if run.tasks is not None:
        figures["tasks"] = run.tasks
    return Parsed(run.version, figures, evidence, [], result.access)


def summary(document: bytes, stdout: bytes) -> tuple[Run, Judged]:
    """The run in one JSON summary together with what IOR printed."""
    found, log = Reader(document).runs, Reader(stdout)
    run = found[0] if len(found) == 1 else Run()
    if run.layout != "json":
        run = Run("json", problems=[f"{len(found)} runs in the summary, not one" if found else "the summary is empty"])
    for beside in (*log.runs, log.beside):
        run.take_beside(beside)
    return run, judge(run, log_seen=True)


def _figures(result: Result) -> dict[str, float]:
    """Columns that campaigns and files of others share."""
    figures = {
        "bandwidth_bytes_per_s": result.bandwidth_bytes_per_s,
        f"{result.access}_bandwidth_bytes_per_s": result.bandwidth_bytes_per_s,
        "runtime_s": result.total_s,
        "open_s": result.open_s,
        "io_s": result.io_s,
        "close_s": result.close_s,
    }
    if result.ops_per_s is not None:
        figures |= dict.fromkeys(("ops_per_s", f"{result.access}_ops_per_s"), result.ops_per_s)
    return figures


#: Options that differ from run to run, and the file beside the summary.
_NOT_COMPARED = frozenset({"o", "G", "random-offset-seed", "saverankperformancedetailscsv"})


def compared(argv: list[str], run: Run) -> Echo | None:
    """How the command line that IOR repeats differs from its command; None where it printed none."""
    asked, told = (_options(line) for line in (" ".join(argv), run.command_line or ""))
    if asked is None or told is None:
        return None
    confirmed = frozenset(name for name, on in (("o_direct", run.o_direct), ("fsync", run.fsync)) if on)
    place = _split_path(run.command_line or "")[1] or None
    return Echo(contradictions("IOR", asked, told), confirmed, len(asked), place)


def _options(line: str) -> dict[str, str] | None:
    """Option -> its value, "" of a flag; without the path and options that differ from run to run."""
    head, _, rest = _split_path(line)
    parsed = parse_command(f"{head} -O {rest}" if rest else head)
    if parsed is None:
        return None
    compared = {name: value for name, value in parsed.items() if name not in _NOT_COMPARED}
    return {f"-{name}" if len(name) == 1 else name: value for name, value in compared.items()}


def _split_path(line: str) -> tuple[str, str, str]:
    """A command line in three: the path of its files, which may hold blanks, stands before the last -O."""
    head, _, tail = line.partition(" -o ")
    path, _, rest = tail.rpartition(" -O ")
    return head, path, rest


# -- files of others -------------------------------------------------------------------------------------------------

#: Options that columns hold, or that change no I/O: places, seeds, counts of repetitions, output.
_NO_CONDITIONS = _NOT_COMPARED | frozenset("aAbBcDeFijkNstTvz") | {
    "saveperopdatacsv", "summaryfile", "summaryformat", "randomoffsetseed", "posix.odirect", "useo_direct",
}  # fmt: skip
#: Access -> flags that have an effect on the other access only.
_OF_OTHERS = {"write": frozenset("wrRC"), "read": frozenset("wrWEY")}


def read(data: bytes) -> Reading:
    """The rows of the runs in a file."""
    reader = Reader(data)
    if not reader.runs:
        why = "no results: IOR writes them to a summary file" if reader.is_log else "no results of IOR"
        texts = (why, *map(str, reader.beside.messages))
        return Reading([], [ReadingProblem("invalid", text) for text in texts])
    return Reading.of_runs([_reading(run, judge(run, reader.is_log)) for run in reader.runs])


def _reading(run: Run, judged: Judged) -> tuple[list[dict[str, Cell]], list[ReadingProblem]]:
    """The rows and problems of a run. A run with a problem gives no rows; an invalid remark takes the
    figures of its row."""
    if judged.problems:
        return [], [ReadingProblem("invalid", problem) for problem in judged.problems]
    remarks, deadline_s = list(judged.remarks), run.stonewall_s or 0
    for at, result in enumerate(judged.results):
        if deadline_s and result.total_s >= deadline_s and (short := too_short_to_be_steady(deadline_s)):
            remarks.append(ReadingProblem("suspect", f"{result.name}: {short}", at))
        remarks += too_short(result.total_s, CLOCK_S, result.name, at)
    wrong = {remark.row for remark in remarks if remark.severity == "invalid"}
    rows = []
    for at, result in enumerate(judged.results):
        row = _identity(run, result) | ({} if at in wrong else _measured(run, result))
        rows.append({name: cell for name, cell in row.items() if cell is not None})
    return rows, remarks


def _identity(run: Run, result: Result) -> dict[str, Cell | None]:
    """Columns of the result table (columns.py) that identify the run."""
    order = None if run.random is None else "rand" if run.random else "seq"
    machine = run.options.get("Machine", "").split()  # `Linux node01`, behind which -v prints more
    others = None  # options that change I/O and are in no column
    if run.asked is not None:
        names = run.asked.keys() - _NO_CONDITIONS - _OF_OTHERS[result.access]
        told = sorted((name, run.asked[name]) for name in names)
        others = " ".join(f"-{name}" if not value or "/" in value else f"-{name}={value}" for name, value in told)
    return {
        "tool": "ior",
        "tool_version": run.version,
        "label": result.access,
        "repetition": result.iteration + 1,
        "phase": f"{order}_{result.access}" if order else None,
        "kind": "data",
        "metric": "ops_per_s" if order == "rand" and result.ops_per_s is not None else "bandwidth_bytes_per_s",
        "nodes": run.nodes,
        "threads_per_node": run.clients_per_node,
        "tasks": run.tasks,
        "transfer_size_bytes": run.transfer_bytes,
        "segments": run.segments,
        "other_options": others,
        "phase_time_s": float(run.stonewall_s) if run.stonewall_s else None,
        "o_direct": run.o_direct,
        "fsync": run.fsync if result.access == "write" else None,
        "api": run.api,
        "file_per_process": run.file_per_process,
        "collective": run.collective,
        "began_local": local_date(run.options.get("StartTime")) or local_date(run.options.get("Began")),
        "ended_local": local_date(run.options.get("Finished")),
        "host": machine[1] if len(machine) > 1 else None,
        "command": run.command_line,
    }


def _measured(run: Run, result: Result) -> dict[str, Cell | None]:
    """Columns that say how much was moved, and how fast."""
    moved, transfer, size_bytes = result.bytes_moved, run.transfer_bytes, None
    if run.block_bytes and run.segments:  # of a rank's part of the files, where the operation went over all of them
        whole = run.block_bytes * run.segments
        unknown = moved is None and (run.time_bounded or run.status_file)
        less = moved is not None and not (run.tasks and moved >= whole * run.tasks)
        size_bytes = None if unknown or less else whole
    return {
        **_figures(result),
        "file_size_bytes": size_bytes,
        "bytes_written" if result.access == "write" else "bytes_read": moved,
        "ops": moved // transfer if moved is not None and transfer and moved % transfer == 0 else None,
    }
