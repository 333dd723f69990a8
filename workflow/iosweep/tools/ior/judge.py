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

from iosweep.tools.ior import command_line
from iosweep.tools.ior.command_line import Command, number, size
from iosweep.tools.ior.records import MIXED, OPERATIONS, Moved, Printed, Printout, Remark, Result, Run, same_in_64_bits
from iosweep.tools.messages import said
from iosweep.tools.reading import ProblemSeverity

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
    asked = command_line.parse(printout.command or options.get("Command line"))
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
    command = command_line.parse(printout.command or options.get("Command line")) or Command()
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
    command = command_line.parse(printout.command or printout.options.get("Command line")) or Command()
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
