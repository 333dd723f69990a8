"""Whether a run's figures can be trusted: nothing missing, nothing double, and figures that fit one another.

What IOR divides (ior.c, ReduceIterResults): bandwidth = bytes / total, operations per second = (bytes / transfer
size) / io, both before rounding. So each row proves itself, as well as its printed digits allow.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from iosweep.tools import wall_clock
from iosweep.tools.ior import command_line
from iosweep.tools.ior.records import LARGEST, MIXED, OPERATIONS, Moved, Printed, Remark, Result, Run, same_in_64_bits
from iosweep.tools.ior.run_facts import time_bounded
from iosweep.tools.reading import Cell, ProblemSeverity

#: Two dates of whole seconds may be so far apart more than they tell.
DATES_S = 2.0
_SLACK = 1e-9  # of floating point; the printed digits' own error is far above it
Range = tuple[float, float]


def judge(run: Run, moved: Sequence[Moved]) -> Run:
    """The run (its facts derived) with bytes where they are exact, the best figures, and all that is wrong.

    `moved`: IOR's warnings on this run, in order.
    """
    problems, remarks = _complete(run)
    bounded = time_bounded(run)
    run, unclaimed = _attach(run, moved)
    if unclaimed and run.results:
        problems.append(f"{unclaimed} warnings on the bytes moved belong to no result")
    results = _bytes(run, bounded, remarks)
    problems += [*_possible(run, results), *_times(run, results)]
    problems += [] if bounded else _whole_blocks(run, results)
    for result in results:
        remarks += [Remark("invalid", text, _key(result)) for text in _consistent(run, result)]
    problems += _totals(run, results, remarks)
    results = _best(run, results)
    return replace(
        run, results=tuple(results), problems=tuple(dict.fromkeys((*run.problems, *problems))),
        remarks=tuple(dict.fromkeys((*run.remarks, *remarks))),
    )  # fmt: skip


#: Columns of a row that say what ran; all others are figures.
_IDENTITY = frozenset((
    "tool", "tool_version", "label", "repetition", "phase", "kind", "metric", "nodes", "threads_per_node", "tasks",
    "transfer_size_bytes", "segments", "phase_time_s", "began_local", "ended_local", "host", "command",
    "o_direct", "fsync", "api", "file_per_process", "collective",
))  # fmt: skip


def without_figures(row: Mapping[str, Cell]) -> dict[str, Cell]:
    """The row without what cannot be trusted where one of its figures cannot."""
    return {name: value for name, value in row.items() if name in _IDENTITY}


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
        return [] if run.problems else ["no results"], []
    if run.layout == "notes":  # one row is taken over from each run (its last); the rest is not there
        return [], []
    found = [(result.access, result.iteration) for result in run.results]
    names = run.operations or tuple(name for name in OPERATIONS if any(access == name for access, _ in found))
    last = max(iteration for _, iteration in found)
    iterations = run.repetitions or last + 1
    # one more than there can be: then one of these is missing
    expected = [(access, i) for i in range(min(iterations, len(found) + 1)) for access in names]
    if found == expected:
        return [], []
    counts = Counter(found)
    told = "" if run.repetitions is None else f" ({run.repetitions} repetitions of {' and '.join(names)})"
    for (access, iteration), count in counts.items():
        if count > 1:
            return [f"{access} of iteration {iteration} is there more than once: {MIXED}"], []
        if access not in names or iteration >= iterations:
            return [f"{access} of iteration {iteration} was not asked for{told}: {MIXED}"], []
    for access, iteration in expected:
        if (access, iteration) not in counts:
            missing = f"{access} of iteration {iteration} is missing{told}"
            in_order = found == [one for one in expected if one in counts]
            return ([], [Remark("invalid", missing)]) if in_order else ([missing], [])
    return [f"the results are out of order: {MIXED}"], []


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


def _bytes(run: Run, bounded: bool, remarks: list[Remark]) -> list[Result]:
    """The rows with their exact bytes where they are told."""
    expected = _expected(run)
    told = _told(run)
    results: list[Result] = []
    for result in run.results:
        moved = expected
        if result.moved:
            remarks += _moved(run, bounded, result, result.moved, expected)
            moved = result.moved.moved
        elif bounded and not run.log_seen:  # with a log, and no warning in it: as many as expected
            moved = told.get(result.access) if result.iteration == 0 else None
            if result.access == "read":
                text = "was bounded by time: only IOR's messages tell whether it read beyond what is allocated"
                remarks.append(Remark("suspect", f"{_name(result)} {text}", _key(result)))
        results.append(replace(result, bytes_moved=moved))
    return results


def _told(run: Run) -> dict[str, int]:
    """Bytes of the first iteration by the summary, where its rounding leaves only one number of transfers."""
    told: dict[str, int] = {}
    for total in run.totals if run.transfer_bytes else ():
        size = total.aggregate_bytes
        if run.transfer_bytes and size is not None:
            whole = round(size / run.transfer_bytes) * run.transfer_bytes
            if size.near(whole) and 2 * size.error < run.transfer_bytes:
                told.setdefault(total.access, whole)
    return told


def _possible(run: Run, results: Sequence[Result]) -> list[str]:
    counts = {
        "tasks": run.tasks, "nodes": run.nodes, "clients per node": run.clients_per_node, "segments": run.segments,
        "repetitions": run.repetitions, "block size": run.block_bytes, "transfer size": run.transfer_bytes,
    }  # fmt: skip
    problems = [
        f"{name}: {value}, which cannot be" for name, value in counts.items() if value is not None and value < 1
    ]
    block, transfer = run.block_bytes, run.transfer_bytes
    if block and transfer and block % transfer:
        problems.append(f"the block size, {block} bytes, is not a multiple of the transfer size, {transfer} bytes")
    counts["block x segments"] = (block or 0) * (run.segments or 0)
    counts["bytes moved"] = max((result.bytes_moved or 0 for result in results), default=0)
    return problems + [f"{name}: beyond 64 bits" for name, value in counts.items() if value and abs(value) > LARGEST]


def _times(run: Run, results: Sequence[Result]) -> list[str]:
    """Where times cannot be: longer than the whole run by its dates, or shorter than the least duration."""
    timed_s = sum(float(result.total_s) for result in results)
    wrong = wall_clock.fast(timed_s, run.lasted_s, DATES_S) if run.lasted_s is not None else ""
    found = [wrong] if wrong else []
    asked = command_line.parse(run.command, run.old)
    least_s = command_line.number(asked.values.get("mintimeduration")) if asked and asked.certain else None
    if least_s:
        short = [one for one in results if one.total_s < 0.98 * least_s]
        found += [f"{_name(one)}: {one.total_s:g} s are less than minTimeDuration, {least_s} s" for one in short]
    return found


def _moved(run: Run, bounded: bool, result: Result, moved: Moved, expected: int | None) -> list[Remark]:
    """What IOR's warning says about a row.

    Random offsets within the files' real size (-z -z) reach nothing beyond it, and what IOR then expects is another
    figure. A status file bounds reads by what was written.
    """
    found: list[tuple[ProblemSeverity, str]] = []
    limited = moved.stonewalled or bounded or run.within_file
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
    for name, part in (("open", result.open_s), ("transfer", result.io_s), ("close", result.close_s)):
        if part < 0:
            problems.append(f"{where}: its {name} takes negative time ({part:g} s)")
        if part > result.total_s + part.error + result.total_s.error + _SLACK:
            problems.append(f"{where}: its {name} takes longer ({part:g} s) than all of it ({result.total_s:g} s)")
    return problems


def _totals(run: Run, results: Sequence[Result], remarks: list[Remark]) -> list[str]:
    """Where Max Write, Max Read and the summary do not fit the rows: into `remarks` for all rows of an operation."""
    problems = []
    rows = {access: [result for result in results if result.access == access] for access in OPERATIONS}
    figures = {access: _spread(of) for access, of in rows.items() if of}
    for total in run.totals:
        if total.access not in figures:
            problems.append(f"the summary tells of {total.access}, of which there are no results")
            continue
        wrong: list[str] = []
        found = zip((total.maximum, total.minimum, total.mean), figures[total.access], strict=True)
        for name, (told, made) in zip(("maximum", "minimum", "mean"), found, strict=True):
            if told is not None and not told.near(made):
                wrong.append(f"the summary's {name} of {total.access} is {told:.6g} B/s, the rows' {made:.6g}")
        first = rows[total.access][0]
        size = total.aggregate_bytes
        moved = first.bytes_moved if first.iteration == 0 else None
        # IOR's table prints MiB from a C float; 3.1 and earlier print bytes
        slack = _SLACK if run.old else 1e-6
        if size is not None and moved is not None and abs(size - moved) > size.error + slack * size:
            wrong.append(f"{total.access} moved {moved} bytes, {size:.12g} says the summary")
        remarks += [Remark("invalid", text, _key(result)) for text in wrong for result in rows[total.access]]
    return problems


def _spread(results: Sequence[Result]) -> tuple[Printed, Printed, Printed]:
    bandwidths = [result.bandwidth_bytes_per_s for result in results]
    mean = Printed(sum(bandwidths) / len(bandwidths))
    mean.error = max(bandwidth.error for bandwidth in bandwidths)
    return max(bandwidths), min(bandwidths), mean


def _best(run: Run, results: Sequence[Result]) -> list[Result]:
    """The bandwidth with the most digits: with one iteration, Max Write and the summary say the same as the row."""
    iterations: defaultdict[str, set[int]] = defaultdict(set)
    for result in results:
        iterations[result.access].add(result.iteration)
    told: dict[str, Printed] = {}
    for total in run.totals:
        told[total.access] = min(told.get(total.access, total.maximum), total.maximum, key=_error)
    return [
        replace(result, bandwidth_bytes_per_s=min(row, told.get(result.access, row), key=_error))
        if len(iterations[result.access]) == 1
        else result
        for result in results
        for row in [result.bandwidth_bytes_per_s]
    ]


def _error(printed: Printed) -> float:
    return printed.error
