"""What a run of IOR was, and whether its figures can be trusted: nothing missing, nothing double, and figures that fit
one another.

What IOR divides (ior.c, ReduceIterResults): bandwidth = bytes / total, operations per second = (bytes / transfer
size) / io, both before rounding. So each row proves itself, as well as its printed digits allow.
"""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from iosweep.details import NodeRate
from iosweep.tools import CLOCK_S as COARSEST_S
from iosweep.tools import Echo, Evidence, Parsed, Phase, Step, Streams, logs
from iosweep.tools.ior import command
from iosweep.tools.ior.records import (
    CLOCK_S,
    MIXED,
    OPERATIONS,
    Command,
    Moved,
    Printed,
    Printout,
    Reader,
    Remark,
    Result,
    Run,
    number,
    parse_command,
    pieces,
    same_in_64_bits,
    size,
)
from iosweep.tools.logs import said
from iosweep.tools.reading import (
    Cell,
    ProblemSeverity,
    Reading,
    ReadingProblem,
    iso_date,
    parse_date,
    too_short,
    too_short_to_be_steady,
)
from iosweep.units import human_size

_SLACK = 1e-9  # of floating point; the printed digits' own error is far above it
_TOO_OLD = re.compile(r"[12]\.|3\.[01](\D|$)")
#: Of the table, of the JSON, and of the command line.
_COUNTS = frozenset({
    "tasks", "nodes", "clients per node", "repetitions", "segments", "stonewallingTime",
    "tasksPerNode", "segmentCount", "blockSize", "transferSize", "deadlineForStonewall",
    "N", "D", "i", "s",
})  # fmt: skip
Range = tuple[float, float]
T = TypeVar("T")


def judge(printout: Printout, log_seen: bool) -> Run:
    """A run with the bytes of its rows where they are exact, its best figures, and all that is wrong.

    `log_seen`: whether IOR's messages were there to be read.
    """
    run = replace(_facts(printout), log_seen=log_seen)
    problems, remarks = _complete(run)
    problems += [*_of_another_run(run), *_negative(printout)]
    run, unclaimed = _attach(run, printout.moved)
    if unclaimed and run.results:
        problems.append(f"{unclaimed} warnings on the bytes moved belong to no result")
    results = _bytes(run, remarks)
    problems += [] if run.time_bounded else _whole_blocks(run, results)
    for result in results:
        remarks += [Remark("invalid", text, _key(result)) for text in _consistent(run, result)]
        if run.unequal and run.shifts and result.access == "read":
            text = (
                f"{_name(result)}: nodes have unlike numbers of ranks, so with -C some read what their own node wrote"
            )
            remarks.append(Remark("suspect", text, _key(result)))
    problems += _most(printout, results)
    if not log_seen and "1" in (printout.parameters.get("checkRead"), printout.parameters.get("checkWrite")):
        remarks.append(Remark("suspect", "data was checked: only IOR's messages tell whether it was right"))
    for severity, text in said(printout.heard):
        if severity == "invalid":
            problems.append(text)
        else:
            remarks.append(Remark(severity, text))
    return replace(
        run, results=tuple(_best(printout, results)), problems=tuple(dict.fromkeys((*printout.problems, *problems))),
        remarks=tuple(dict.fromkeys(remarks)),
    )  # fmt: skip


def _facts(printout: Printout) -> Run:
    """The run with what its options, parameters and command line say."""
    options, parameters = printout.options, printout.parameters
    asked = parse_command(printout.command or options.get("Command line"))
    command = asked or Command()
    ordering = options.get("ordering in a file", "").partition(" ")[0]
    operations: tuple[str, ...] | None = command.operations() if asked else None
    if "readFile" in parameters:
        reads = "1" in (parameters["readFile"], parameters.get("checkRead"))
        wanted = {"write": parameters.get("writeFile") == "1", "read": reads}
        operations = tuple(name for name in OPERATIONS if wanted[name])
    segments = number(options.get("segments")) or number(parameters.get("segmentCount"))
    api = options.get("api") or parameters.get("api")
    o_direct = None
    if asked and api in (None, "POSIX"):
        o_direct = command.on("B", "useO_DIRECT") or command.on("B", "posix.odirect")
    synced = [_flag(parameters.get(name)) for name in ("fsync", "fsyncperwrite")]
    fsync = command.on("e", "fsync") or command.on("Y", "fsyncPerWrite") if asked else None
    stonewall_s = number(parameters.get("deadlineForStonewall")) or number(options.get("stonewallingTime"))
    stonewall_s = stonewall_s or number(command.values.get("D"))
    rows = printout.results
    tasks = _first(number(options.get("tasks")), *(row.tasks for row in rows))
    nodes = _first(number(options.get("nodes")), number(parameters.get("nodes")))
    # of the node of rank 0; the others may have another number
    clients = _first(number(options.get("clients per node")), number(parameters.get("tasksPerNode")))
    unequal = bool(tasks and nodes and clients and nodes * clients != tasks)
    return Run(
        printout,
        tuple(rows),
        api=api,
        tasks=tasks,
        nodes=nodes,
        clients_per_node=None if unequal else clients,
        unequal=unequal,
        shifts=bool(_flag(parameters.get("reorderTasks"))) or command.on("C", "reorderTasks"),
        repetitions=_first(number(options.get("repetitions")), number(parameters.get("repetitions")),
                           number(command.values.get("i", "1")) if asked else None),
        segments=segments,
        block_bytes=_first(number(parameters.get("blockSize")), size(options.get("blocksize")),
                           *(_exact(row.block_bytes) for row in rows), size(command.values.get("b"))),
        transfer_bytes=_first(number(parameters.get("transferSize")), size(options.get("xfersize")),
                              *(_exact(row.transfer_bytes) for row in rows), size(command.values.get("t"))),
        file_per_process=_first(
            {"file-per-process": True, "single-shared-file": False}.get(options.get("access", "")),
            _flag(parameters.get("filePerProc")),
        ),
        collective=_first(
            {"collective": True, "independent": False}.get(options.get("type", "")),
            _flag(parameters.get("collective")),
        ),
        random=_first(
            {"random": True, "sequential": False}.get(ordering),
            _flag(parameters.get("randomOffset")),
            command.on("z", "randomOffset") if asked else None,
        ),
        o_direct=False if "o_direct" in printout.off else o_direct,
        fsync=False if "fsync" in printout.off else _first(any(synced) or synced[0], fsync),
        stonewall_s=stonewall_s,
        time_bounded=bool(stonewall_s) or command.values.get("mintimeduration", "0") != "0",
        status_file=bool(command.values.get("stonewallingstatusfile")),
        most_minutes=number(command.values.get("T")) or 0,
        within_file=(number(parameters.get("randomOffset")) or 0) > 1 or "zz" in command.flags,
        operations=operations,
    )  # fmt: skip


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)


def _flag(text: str | None) -> bool | None:
    value = number(text)
    return None if value is None else value != 0


def _exact(kib: Printed) -> int | None:
    """Bytes of a printed size where its rounding leaves only one whole number."""
    return round(kib) if kib.error < 0.5 else None


def _of_another_run(run: Run) -> Iterator[str]:
    """Where a run is not what its command asks for, was none, or has rows of another one."""
    printout = run.printout
    options, version = printout.options, printout.version or ""
    if printout.layout == "table" and "api" not in options:
        yield (
            f"not read: IOR {version} (3.3 and newer are)" if _TOO_OLD.match(version)
            else "a table without the options that IOR prints above it: what ran is not told"
        )  # fmt: skip
    command = parse_command(printout.command or options.get("Command line")) or Command()
    wanted, least_s = (number(command.values.get(name)) for name in ("N", "mintimeduration"))
    if wanted and run.tasks is not None and wanted != run.tasks:
        yield f"{run.tasks} tasks ran, the command asks for {wanted} (-N)"
    if "1" in (options.get("dryRun"), printout.parameters.get("dryRun")):
        yield "a dry run: nothing was measured"
    for result in run.results:
        sizes = ("block size", run.block_bytes, result.block_bytes), (
            "transfer size", run.transfer_bytes, result.transfer_bytes)  # fmt: skip
        for name, told, printed in sizes:
            if printed <= 0 or (told is not None and not printed.near(told)):
                yield f"{name}: given as {told} bytes and as {printed / 1024:g} KiB: {MIXED}"
        if result.tasks not in (None, run.tasks):
            yield f"tasks: given as {run.tasks} and as {result.tasks}: {MIXED}"
        if least_s and result.total_s < 0.98 * least_s:
            yield f"{_name(result)}: {result.total_s:g} s are less than minTimeDuration, {least_s} s"
    aggregate = size(options.get("aggregate filesize"))
    product = _expected(run)
    if aggregate and product and not same_in_64_bits(aggregate, product):
        yield f"aggregate file size: given as {aggregate}, block x segments x tasks is {product}: {MIXED}"


def _negative(printout: Printout) -> Iterator[str]:
    """Options that are counts, and are below 0: their lines are damaged."""
    command = parse_command(printout.command or printout.options.get("Command line")) or Command()
    for told in (printout.options, printout.parameters, command.values):
        for name in sorted(_COUNTS & told.keys()):
            if (number(told[name]) or 0) < 0:
                yield f"a damaged option: {name} is {told[name]}"


def _key(result: Result) -> tuple[str, int]:
    return result.access, result.iteration


def _name(result: Result) -> str:
    return f"{result.access} of iteration {result.iteration}"


def _product(a: Printed, b: Printed) -> Range:
    """What the product of two figures may have been before they were rounded."""
    low = max(0.0, a - a.error) * max(0.0, b - b.error)
    return low * (1 - _SLACK), (a + a.error) * (b + b.error) * (1 + _SLACK)


def moved_range(result: Result) -> Range:
    return _product(result.bandwidth_bytes_per_s, result.total_s)


def _within(value: float, allowed: Range) -> bool:
    return allowed[0] <= value <= allowed[1]


def _complete(run: Run) -> tuple[list[str], list[Remark]]:
    """Every operation of every iteration once, in IOR's order. A row that is missing says nothing against others."""
    if not run.results:
        return [] if run.printout.problems else ["no results"], []
    found = [(result.access, result.iteration) for result in run.results]
    names = run.operations or tuple(name for name in OPERATIONS if any(access == name for access, _ in found))
    last = max(iteration for _, iteration in found)
    iterations = run.repetitions or last + 1
    # one more than there can be: then one of these is missing
    expected = [(access, i) for i in range(min(iterations, len(found) + 1)) for access in names]
    told = "" if run.repetitions is None else f" ({run.repetitions} repetitions of {' and '.join(names)})"
    there = set(found)
    if found != [one for one in expected if one in there]:
        return [f"the results are not each once and in order{told}: {MIXED}"], []
    lost = [f"{access} of iteration {i} is missing{told}" for access, i in expected if (access, i) not in there]
    if lost and run.most_minutes and len(found) == (last + 1) * len(names):
        return [], [Remark("note", f"{last + 1} of {iterations} iterations were run: -T ended them")]
    return [], [Remark("invalid", text) for text in lost[:1]]


def _expected(run: Run) -> int | None:
    if run.block_bytes is None or run.segments is None or run.tasks is None:
        return None
    return run.block_bytes * run.segments * run.tasks


def _attach(run: Run, moved: Sequence[Moved]) -> tuple[Run, int]:
    """Each warning at its row: IOR prints it before the row, but not for rows that moved just the expected bytes."""
    if not moved:
        return run, 0
    queue = deque(moved)
    results: list[Result] = []
    for left, result in zip(range(len(run.results), 0, -1), run.results, strict=True):
        if queue:
            allowed = moved_range(result)
            usual = _within(queue[0].expected, allowed) and not _within(queue[0].moved, allowed)
            if len(queue) >= left or (_within(queue[0].moved, allowed) and not usual):
                result = replace(result, moved=queue.popleft())
        results.append(result)
    return replace(run, results=tuple(results)), len(queue)


def _bytes(run: Run, remarks: list[Remark]) -> list[Result]:
    """The rows with their exact bytes where they are told."""
    expected = _expected(run)
    results: list[Result] = []
    for result in run.results:
        moved = expected
        if result.moved:
            remarks += _moved(run, result, result.moved, expected)
            moved = result.moved.moved
        elif run.time_bounded and not run.log_seen:  # with a log, and no warning in it: as many as expected
            moved = None
            if result.access == "read":
                text = "was bounded by time: only IOR's messages tell whether it read beyond what is allocated"
                remarks.append(Remark("suspect", f"{_name(result)} {text}", _key(result)))
        results.append(replace(result, bytes_moved=moved))
    return results


def _moved(run: Run, result: Result, moved: Moved, expected: int | None) -> list[Remark]:
    """What IOR's warning says about a row.

    Random offsets within the files' real size (-z -z) reach nothing beyond it, and what IOR then expects is another
    figure. A status file bounds reads by what was written.
    """
    found: list[tuple[ProblemSeverity, str]] = []
    limited = moved.stonewalled or run.time_bounded or run.within_file
    if expected is not None and not same_in_64_bits(moved.expected, expected) and not run.within_file:
        found.append(("invalid", f": IOR expected {moved.expected} bytes, block x segments x tasks is {expected}"))
    if not limited and moved.moved != moved.expected and not (run.status_file and result.access == "read"):
        found.append(("invalid", f": {moved.moved} of {moved.expected} bytes were moved, and no time limit says why"))
    elif run.within_file:
        pass
    elif result.access == "read" and limited and moved.stat != moved.moved and moved.stat < moved.expected:
        # holes and what is beyond the end cost nothing: seen with a file that -w -z -D left a third allocated
        what = f"{moved.moved} bytes were read, the files have {moved.stat} of {moved.expected}"
        if run.random is False:
            found.append(("suspect", f" may have gone beyond what is allocated: {what}"))
        else:
            found.append(("invalid", f" went beyond what is allocated: {what}; the figure is false"))
    elif moved.stat < moved.moved <= moved.expected:
        done = "written" if result.access == "write" else "read"
        found.append((
            "suspect",
            f": {moved.moved} bytes were {done}, and by stat() the files have {moved.stat}: sizes that another node"
            " has not seen yet, or files that are not whole",
        ))  # fmt: skip
    return [Remark(severity, f"{_name(result)}{text}", _key(result)) for severity, text in found]


def _whole_blocks(run: Run, results: Sequence[Result]) -> list[str]:
    """CSV has no segments: bytes must be one whole multiple of block x tasks, the same for all rows."""
    rows = [result for result in results if result.bytes_moved is None]
    if not rows or not run.block_bytes or not run.tasks or _expected(run) is not None:
        return []
    unit = run.block_bytes * run.tasks
    low, high = 1, 1 << 62
    for result in rows:
        allowed = moved_range(result)
        low, high = max(low, math.ceil(allowed[0] / unit)), min(high, math.floor(allowed[1] / unit))
        if result.ops_per_s is not None and run.transfer_bytes:
            ops = _product(result.ops_per_s, result.io_s)
            per_unit = unit / run.transfer_bytes
            low, high = max(low, math.ceil(ops[0] / per_unit)), min(high, math.floor((ops[1] + 1) / per_unit))
        if low > high:
            return [
                f"{_name(result)}: bandwidth x time is no whole number of blocks, or not the other rows': bounded by"
                " time (-D; IOR's messages would tell the bytes) or lines of several runs"
            ]
    return []


def _consistent(run: Run, result: Result) -> list[str]:
    problems = []
    where = _name(result)
    if result.bandwidth_bytes_per_s <= 0 or (result.ops_per_s is not None and result.ops_per_s <= 0):
        return [f"{where}: a figure is 0"]
    allowed = moved_range(result)
    if result.bytes_moved is not None and not _within(result.bytes_moved, allowed):
        problems.append(f"{where}: bandwidth x time is {allowed[0]:.6g} to {allowed[1]:.6g}, not {result.bytes_moved}")
    if result.ops_per_s is not None and run.transfer_bytes:
        ops = _product(result.ops_per_s, result.io_s)
        wanted: Range = (allowed[0] / run.transfer_bytes - 1, allowed[1] / run.transfer_bytes)
        if result.bytes_moved is not None:
            wanted = (float(result.bytes_moved // run.transfer_bytes),) * 2
        if ops[1] < wanted[0] or ops[0] > wanted[1]:
            problems.append(f"{where}: operations/s x time is {ops[0]:.6g} to {ops[1]:.6g}, not {wanted[0]:.6g}")
    return problems


def _most(printout: Printout, results: Sequence[Result]) -> Iterator[str]:
    """Where Max Write and Max Read are not those of the rows."""
    for access, told in printout.most.items():
        rows = [result.bandwidth_bytes_per_s for result in results if result.access == access]
        if rows and not told.near(max(rows)):
            yield f"the maximum of {access} is {told:.6g} B/s, the rows' {max(rows):.6g}: {MIXED}"


def _best(printout: Printout, results: Sequence[Result]) -> Iterator[Result]:
    """The bandwidth with the most digits: with one iteration, Max Write says the same as the row."""
    counts = Counter(result.access for result in results)
    for result in results:
        told = printout.most.get(result.access)
        better = told is not None and counts[result.access] == 1 and told.error < result.bandwidth_bytes_per_s.error
        yield replace(result, bandwidth_bytes_per_s=told) if told is not None and better else result


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
    distinct = command.distinct_bytes(step.number("transfer_size"))
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
        echo=compared(command.command(step, "", 0), run),
    )


def _of_ranks(document: bytes, access: str, step: Step) -> list[NodeRate]:
    """The rate of each rank, over its own time from the open to the close."""
    if not command.times_tell_rates(step):
        return []
    rates = logs.rank_column(document, "throughput-withopenclose", step.tasks, access)
    return [NodeRate("", k, rate, rate / step.number("transfer_size")) for k, rate in enumerate(rates)]


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
        parse_command(_without_path(" ".join(argv))),
        parse_command(_without_path(run.printout.command or "")),
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
    if not (command := parse_command(line)):
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
    began = parse_date(told.get("StartTime")) or parse_date(told.get("Began"))
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
        "began_local": iso_date(began),
        "ended_local": iso_date(parse_date(told.get("Finished"))),
        "host": machine[1] if len(machine) > 1 else None,
        "command": run.printout.command or told.get("Command line"),
    }
    return {name: value for name, value in row.items() if value is not None}
