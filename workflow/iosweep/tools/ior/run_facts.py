"""What a run was. Several places say the same thing; where they disagree is a problem."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from iosweep.tools.ior import command_line
from iosweep.tools.ior.command_line import Command, number, size
from iosweep.tools.ior.records import MIXED, OPERATIONS, Printed, Run, same_in_64_bits

T = TypeVar("T")


def derive(run: Run) -> Run:
    """The run with what its options, parameters, summary and command line say, and where they disagree."""
    asked = command_line.parse(run.command, run.old)
    claims = _Claims(run)
    derived = _printed(run, claims, asked)
    if asked and asked.certain:
        derived = _completed(derived, asked)
        claims.problems += _asked(asked, derived.tasks)
    derived = _settled(derived)
    if "1" in (run.options.get("dryRun"), run.parameters.get("dryRun")):
        claims.problems.append("a dry run: nothing was measured")
    if run.notes:
        derived = replace(derived, clients_per_node=number(run.notes.get("threads")))
        claims.problems += _notes(derived)
    derived = replace(derived, nodes=claims.agreed("nodes", claims.counts("nodes", "nodes")))
    return replace(derived, problems=run.problems + tuple(claims.problems) + tuple(_expected(derived)))


class _Claims:
    """What several places of a run say about the same thing, and `problems`: where they disagree."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.problems: list[str] = []

    def agreed(self, name: str, found: Iterable[T | None]) -> T | None:
        """The value that is given; the first one where there are several."""
        given = list(dict.fromkeys(value for value in found if value is not None))
        if len(given) > 1:
            self.problems.append(f"{name}: given as {' and as '.join(str(value) for value in given)}: {MIXED}")
        return given[0] if given else None

    def counts(self, option: str, parameter: str = "") -> list[int | None]:
        """The number under `Options`, in JSON's parameters and in each line of the summary."""
        run = self._run
        given = [run.options.get(option), run.parameters.get(parameter), *(t.facts.get(option) for t in run.totals)]
        return [number(text) for text in given]

    def size(self, name: str, option: str, parameter: str, field: str) -> int | None:
        """A size in bytes, which each row also has."""
        run = self._run
        return self.agreed(name, [
            number(run.parameters.get(parameter)), *(number(t.facts.get(option)) for t in run.totals),
            size(run.options.get(option)), *(_exact(getattr(result, field)) for result in run.results),
        ])  # fmt: skip


def _printed(run: Run, claims: _Claims, asked: Command | None) -> Run:
    """The run with what was printed beside its rows."""
    asked_random = asked_collective = None
    if asked and asked.certain and run.old:  # 3.1 and earlier say less elsewhere
        asked_random, asked_collective = asked.on("z", "randomOffset"), asked.on("c", "collective")
    ordering = run.options.get("ordering in a file", "").partition(" ")[0]
    operations: tuple[str, ...] | None = None
    if "readFile" in run.parameters:
        reads = "1" in (run.parameters["readFile"], run.parameters.get("checkRead"))
        wanted = {"write": run.parameters.get("writeFile") == "1", "read": reads}
        operations = tuple(name for name in OPERATIONS if wanted[name])
    return replace(
        run,
        tasks=claims.agreed("tasks", [*claims.counts("tasks"), *(result.tasks for result in run.results)]),
        repetitions=claims.agreed("repetitions", claims.counts("repetitions", "repetitions")),
        segments=claims.agreed("segments", claims.counts("segments", "segmentCount")),
        clients_per_node=claims.agreed("clients per node", claims.counts("clients per node", "tasksPerNode")),
        api=claims.agreed("api", [
            run.options.get("api"), run.parameters.get("api"), *(t.facts.get("api") for t in run.totals),
        ]),
        file_per_process=claims.agreed("file per process", [
            {"file-per-process": True, "single-shared-file": False}.get(run.options.get("access", "")),
            _flag(run.parameters.get("filePerProc")), *(_flag(t.facts.get("fPP")) for t in run.totals),
        ]),
        random=claims.agreed("ordering in a file", [
            {"random": True, "sequential": False}.get(ordering), _flag(run.parameters.get("randomOffset")),
            {"rand": True, "seq": False}.get(run.notes.get("access_type", "").partition("_")[0]), asked_random,
        ]),
        collective=claims.agreed("collective", [
            {"collective": True, "independent": False}.get(run.options.get("type", "")),
            _flag(run.parameters.get("collective")), asked_collective,
        ]),
        block_bytes=claims.size("block size", "blocksize", "blockSize", "block_bytes"),
        transfer_bytes=claims.size("transfer size", "xfersize", "transferSize", "transfer_bytes"),
        operations=operations,
        stonewall_s=number(run.parameters.get("deadlineForStonewall")) or number(run.options.get("stonewallingTime")),
        within_file=(number(run.parameters.get("randomOffset")) or 0) > 1,
    )  # fmt: skip


def _completed(run: Run, asked: Command) -> Run:
    """The run with what only its command line says."""
    o_direct = None
    if run.api in (None, "POSIX"):
        o_direct = asked.on("B", "useO_DIRECT") or asked.on("B", "posix.odirect")
    return replace(
        run,
        repetitions=number(asked.values.get("i", "1")) if run.repetitions is None else run.repetitions,
        random=asked.on("z", "randomOffset") if run.random is None else run.random,
        operations=run.operations or asked.operations(),
        stonewall_s=run.stonewall_s or number(asked.values.get("D")),
        fsync=asked.on("e", "fsync"),
        block_bytes=size(asked.values.get("b")) if run.block_bytes is None else run.block_bytes,
        transfer_bytes=size(asked.values.get("t")) if run.transfer_bytes is None else run.transfer_bytes,
        o_direct=o_direct,
        status_file=bool(asked.values.get("stonewallingstatusfile")),
        within_file=run.within_file or "zz" in asked.flags,
    )


def _settled(run: Run) -> Run:
    """The run with its segments, and with fsync and O_DIRECT as they were in the end."""
    segments, block, tasks = run.segments, run.block_bytes, run.tasks
    aggregate = size(run.options.get("aggregate filesize"))
    if segments is None and aggregate and block and tasks and not aggregate % (block * tasks):
        segments = aggregate // (block * tasks)  # 3.1 and earlier print them with -v or in the summary only
    fsync = _flag(run.parameters["fsync"]) if "fsync" in run.parameters else run.fsync
    return replace(
        run,
        segments=segments,
        fsync=False if "fsync" in run.off else fsync,
        o_direct=False if "o_direct" in run.off else run.o_direct,
    )


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


def _notes(run: Run) -> list[str]:
    """Where the leading columns of the Lustre notes' results.csv do not fit the row."""
    problems = []
    access = run.notes.get("access_type", "")
    told = {result.access for result in run.results}
    if access not in ("seq_write", "seq_read", "rand_write", "rand_read") or told - {access.partition("_")[2]}:
        problems.append(f"the row of {access[:40]} is of {', '.join(sorted(told)) or 'nothing'}")
    if not run.clients_per_node or (run.tasks or 0) % run.clients_per_node:
        problems.append(f"{run.tasks} tasks are not a multiple of {run.notes.get('threads', '')[:40]} threads per node")
    if size(run.notes.get("transfer_size")) != run.transfer_bytes:
        problems.append(
            f"transfer size: given as {run.notes.get('transfer_size', '')[:40]} and as {run.transfer_bytes} bytes"
        )
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
                problems.append(f"{name}: given as {told} bytes and as {printed / 1024:g} KiB")
    aggregate = size(run.options.get("aggregate filesize"))
    parts = (run.block_bytes, run.segments, run.tasks)
    product = math.prod(part or 0 for part in parts)
    if aggregate and product and not same_in_64_bits(aggregate, product):
        problems.append(f"aggregate file size: given as {aggregate}, block x segments x tasks is {product}")
    return list(dict.fromkeys(problems))
