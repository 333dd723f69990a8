"""What a run was: the same thing is told in several places, and what they disagree on is a problem."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from iosweep.tools.ior import command as command_line
from iosweep.tools.ior.command import Command, number, size
from iosweep.tools.ior.run import MIXED, OPERATIONS, Printed, Run, same_in_64_bits

T = TypeVar("T")


def derive(run: Run) -> Run:
    """The run with what its options, parameters, summary and command line tell, and where they disagree."""
    problems: list[str] = []
    asked = command_line.parse(run.command, run.old)
    asked_random = asked_collective = None
    if asked and asked.certain and run.old:  # 3.1 and earlier say less elsewhere
        asked_random, asked_collective = asked.on("z", "randomOffset"), asked.on("c", "collective")

    def agreed(name: str, found: Iterable[T | None]) -> T | None:
        told = list(dict.fromkeys(value for value in found if value is not None))
        if len(told) > 1:
            problems.append(f"{name}: told as {' and as '.join(str(value) for value in told)}: {MIXED}")
        return told[0] if told else None

    def counts(option: str, parameter: str = "") -> list[int | None]:
        told = [run.options.get(option), run.parameters.get(parameter), *(t.facts.get(option) for t in run.totals)]
        return [number(text) for text in told]

    tasks = agreed("tasks", [*counts("tasks"), *(result.tasks for result in run.results)])
    repetitions = agreed("repetitions", counts("repetitions", "repetitions"))
    segments = agreed("segments", counts("segments", "segmentCount"))
    clients = agreed("clients per node", counts("clients per node", "tasksPerNode"))
    api = agreed("api", [run.options.get("api"), run.parameters.get("api"), *(t.facts.get("api") for t in run.totals)])
    file_per_process = agreed("file per process", [
        {"file-per-process": True, "single-shared-file": False}.get(run.options.get("access", "")),
        _flag(run.parameters.get("filePerProc")), *(_flag(t.facts.get("fPP")) for t in run.totals),
    ])  # fmt: skip
    ordering = run.options.get("ordering in a file", "").partition(" ")[0]
    random = agreed("ordering in a file", [
        {"random": True, "sequential": False}.get(ordering), _flag(run.parameters.get("randomOffset")),
        {"rand": True, "seq": False}.get(run.notes.get("access_type", "").partition("_")[0]),
        asked_random,
    ])  # fmt: skip
    collective = agreed("collective", [
        {"collective": True, "independent": False}.get(run.options.get("type", "")),
        _flag(run.parameters.get("collective")),
        asked_collective,
    ])  # fmt: skip
    sizes = {
        name: agreed(name, [
            number(run.parameters.get(parameter)), *(number(t.facts.get(option)) for t in run.totals),
            size(run.options.get(option)), *(_exact(getattr(result, field)) for result in run.results),
        ])
        for name, option, parameter, field in (
            ("block size", "blocksize", "blockSize", "block_bytes"),
            ("transfer size", "xfersize", "transferSize", "transfer_bytes"),
        )
    }  # fmt: skip
    block, transfer = sizes["block size"], sizes["transfer size"]
    operations: tuple[str, ...] | None = None
    if "readFile" in run.parameters:
        reads = "1" in (run.parameters["readFile"], run.parameters.get("checkRead"))
        wanted = {"write": run.parameters.get("writeFile") == "1", "read": reads}
        operations = tuple(name for name in OPERATIONS if wanted[name])
    stonewall = number(run.parameters.get("deadlineForStonewall")) or number(run.options.get("stonewallingTime"))
    o_direct = fsync = None
    status_file, within_file = False, (number(run.parameters.get("randomOffset")) or 0) > 1
    if asked and asked.certain:
        if repetitions is None:
            repetitions = number(asked.values.get("i", "1"))
        if random is None:
            random = asked.on("z", "randomOffset")
        operations = operations or asked.operations()
        stonewall = stonewall or number(asked.values.get("D"))
        fsync = asked.on("e", "fsync")
        block = size(asked.values.get("b")) if block is None else block
        transfer = size(asked.values.get("t")) if transfer is None else transfer
        if api in (None, "POSIX"):
            o_direct = asked.on("B", "useO_DIRECT") or asked.on("B", "posix.odirect")
        status_file = bool(asked.values.get("stonewallingstatusfile"))
        within_file = within_file or "zz" in asked.flags
        problems += _asked(asked, tasks)
    aggregate = size(run.options.get("aggregate filesize"))
    if segments is None and aggregate and block and tasks and not aggregate % (block * tasks):
        segments = aggregate // (block * tasks)  # 3.1 and earlier tell them with -v or in the summary only
    if "fsync" in run.parameters:
        fsync = _flag(run.parameters["fsync"])
    fsync = False if "fsync" in run.off else fsync
    o_direct = False if "o_direct" in run.off else o_direct
    if "1" in (run.options.get("dryRun"), run.parameters.get("dryRun")):
        problems.append("a dry run: nothing was measured")
    threads = number(run.notes.get("threads"))
    problems += _notes(run, threads, tasks, transfer)
    derived = replace(
        run, api=api, tasks=tasks, clients_per_node=threads if run.notes else clients,
        nodes=agreed("nodes", counts("nodes", "nodes")), repetitions=repetitions, segments=segments,
        block_bytes=block, transfer_bytes=transfer, file_per_process=file_per_process, collective=collective,
        random=random, o_direct=o_direct, fsync=fsync, stonewall_s=stonewall, operations=operations,
        status_file=status_file, within_file=within_file,
    )  # fmt: skip
    return replace(derived, problems=run.problems + tuple(problems) + tuple(_expected(derived)))


def time_bounded(run: Run) -> bool:
    """Whether a time limit may end an operation, or a minimum time repeat it: then its bytes are not known before."""
    asked = command_line.parse(run.command, run.old)
    least = asked.values.get("mintimeduration", "0") if asked else "0"
    return bool(run.stonewall_s) or least != "0"


def _flag(text: str | None) -> bool | None:
    value = number(text)
    return None if value is None else value != 0


def _exact(kib: Printed) -> int | None:
    """Bytes of a printed size where its rounding leaves only one whole number."""
    return round(kib) if kib.error < 0.5 else None


def _asked(asked: Command, tasks: int | None) -> list[str]:
    """Where the run is not what its command asks for."""
    problems = []
    wanted = number(asked.values.get("N"))
    if wanted and tasks is not None and wanted != tasks:
        problems.append(f"{tasks} tasks ran, the command asks for {wanted} (-N)")
    return problems


def _notes(run: Run, threads: int | None, tasks: int | None, transfer: int | None) -> list[str]:
    """Where the leading columns of the Lustre notes' results.csv do not fit the row."""
    if not run.notes:
        return []
    problems = []
    access = run.notes.get("access_type", "")
    told = {result.access for result in run.results}
    if access not in ("seq_write", "seq_read", "rand_write", "rand_read") or told - {access.partition("_")[2]}:
        problems.append(f"the row of {access[:40]} is of {', '.join(sorted(told)) or 'nothing'}")
    if not threads or (tasks or 0) % threads:
        problems.append(f"{tasks} tasks are no multiple of {run.notes.get('threads', '')[:40]} threads per node")
    if size(run.notes.get("transfer_size")) != transfer:
        problems.append(f"transfer size: told as {run.notes.get('transfer_size', '')[:40]} and as {transfer} bytes")
    return problems


def _expected(run: Run) -> list[str]:
    """Where sizes do not fit: each row's rounded ones, and the aggregate file size."""
    problems = []
    for name, told, field in (
        ("block size", run.block_bytes, "block_bytes"),
        ("transfer size", run.transfer_bytes, "transfer_bytes"),
    ):
        for result in run.results:
            printed: Printed = getattr(result, field)
            if printed <= 0 or (told is not None and not printed.near(told)):
                problems.append(f"{name}: told as {told} bytes and as {printed / 1024:g} KiB")
    aggregate = size(run.options.get("aggregate filesize"))
    parts = (run.block_bytes, run.segments, run.tasks)
    product = math.prod(part or 0 for part in parts)
    if aggregate and product and not same_in_64_bits(aggregate, product):
        problems.append(f"aggregate file size: told as {aggregate}, block x segments x tasks is {product}")
    return list(dict.fromkeys(problems))
