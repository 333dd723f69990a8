"""The JSON summary and the standard output of one IOR run to figures, evidence and problems. Never raises."""

from __future__ import annotations

from dataclasses import replace

from iosweep.tools import Evidence, Parsed, Phase, Step, Streams
from iosweep.tools.ior.read import summary
from iosweep.tools.ior.run import Result, Run

#: IOR seeds each block of random data with its offset, in 32 bits (4.0.0, measured): after so many bytes of a file the
#: same blocks come again.
_DISTINCT_BYTES = 1 << 32
#: IOR's times have four digits in JSON.
_CLOCK_S = 0.0001


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
    shared = not step.options["file_per_process"]
    repeats = step.number("file_size") * (step.tasks if shared else 1) > _DISTINCT_BYTES
    evidence = Evidence(
        errors=[*run.problems, *(remark.text for remark in run.remarks if remark.severity == "invalid")],
        doubts=[remark.text for remark in run.remarks if remark.severity == "suspect"],
        mpi=True,
        tasks=run.tasks,
        nodes=run.nodes,
        shifts=run.parameters.get("reorderTasks") == "1",  # -C: each rank reads what the rank of the next node wrote
        shift=run.clients_per_node,
        repeats="IOR's random data begins anew after 4 GiB of a file" if repeats else "",
        not_flushed=run.off.get("fsync", ""),
        messages=messages,
    )
    if not run.results:
        return Parsed(run.version, {}, evidence, ["IOR's summary holds no result"])
    wanted = "read" if phase.reads else "write"
    found = {result.access for result in run.results}
    evidence = replace(
        evidence,
        silent_directions=sorted({wanted} - found),
        unasked_directions=sorted(found - {wanted}),
    )
    if len(run.results) != 1:
        return Parsed(run.version, {}, evidence, [f"IOR's summary holds {len(run.results)} results, not one"])
    (result,) = run.results
    moved = _moved(run, result, step)
    bandwidth = float(result.bandwidth_bytes_per_s)
    evidence = replace(
        evidence,
        transferred_bytes=moved,
        rate_times_runtime_bytes=bandwidth * result.total_s,
        clock_s=_CLOCK_S,
    )
    figures = {
        "bandwidth_bytes_per_s": bandwidth,
        f"{wanted}_bandwidth_bytes_per_s": bandwidth,
        "bytes_read" if phase.reads else "bytes_written": moved,
        "ops": moved // step.number("transfer_size"),
        "runtime_s": float(result.total_s),
        "open_s": float(result.open_s),
        "io_s": float(result.io_s),
        "close_s": float(result.close_s),
    }
    if result.ops_per_s is not None:
        figures |= dict.fromkeys(("ops_per_s", f"{wanted}_ops_per_s"), float(result.ops_per_s))
    if run.tasks is not None:
        figures["tasks"] = run.tasks
    return Parsed(run.version, figures, evidence, [], result.access)


def _moved(run: Run, result: Result, step: Step) -> int:
    """Bytes that were moved: as IOR says where they are not those of the files, and these otherwise."""
    if result.moved:
        return result.moved.moved
    return (run.tasks or step.tasks) * step.number("file_size")


def _messages(stdout: bytes) -> list[str]:
    """Lines that say more than that all went well."""
    lines = (line.strip() for line in stdout.decode("utf-8", "replace").splitlines())
    return [line[:300] for line in lines if line and not line.startswith("Writing output to")][:20]
