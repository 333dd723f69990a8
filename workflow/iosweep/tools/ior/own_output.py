"""The JSON summary and the standard output of one IOR run to figures, evidence and problems. Never raises."""

from __future__ import annotations

from dataclasses import replace

from iosweep.own_rate import OwnRate
from iosweep.tools import Evidence, Parsed, Phase, Step, Streams, rank_file
from iosweep.tools.ior import argv, echo
from iosweep.tools.ior.judge import judge
from iosweep.tools.ior.records import CLOCK_S, Result, Run
from iosweep.tools.ior.run_facts import derive
from iosweep.tools.ior.scan import remarks_on, scan, with_remarks

#: IOR seeds each block of random data with its offset, in 32 bits (4.0.0, measured): after so many bytes of a file the
#: same blocks come again.
_DISTINCT_BYTES = 1 << 32


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
    evidence = _evidence(run, step, messages)
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
        clock_s=CLOCK_S,
        timed_s=float(result.total_s),
        own_rates=_of_ranks(streams.get("ranks", b""), wanted, step),
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


def _evidence(run: Run, step: Step, messages: list[str]) -> Evidence:
    """What IOR says of the whole run."""
    shared = not step.options["file_per_process"]
    repeats = step.number("file_size") * (step.tasks if shared else 1) > _DISTINCT_BYTES
    return Evidence(
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
        echo=echo.compare(argv.command(step, "", 0), run),
    )


def summary(document: bytes, stdout: bytes) -> Run:
    """The run in one JSON summary (as IOR >= 4.0 writes it) together with what IOR printed, judged.

    Its results have the bytes that were moved where IOR tells them exactly, under a time limit too (`bytes_moved`).
    `problems` is empty, and no remark but notes is there, where every figure can be trusted, as far as the two tell;
    the exit code is the caller's.
    """
    scanned, log = scan("summary", document), scan("stdout", stdout)
    heard = [said for _, said in (*scanned.said, *log.said)]
    if len(scanned.runs) != 1 or scanned.runs[0].layout != "json":
        why = "the summary is empty" if not document.strip() else f"{len(scanned.runs)} runs in the summary, not one"
        return Run("summary", "json", problems=(why, *(remark.text for remark in remarks_on(heard))))
    off = dict(pair for _, pair in (*scanned.off, *log.off))
    run = derive(replace(scanned.runs[0], log_seen=True, off=off))
    run = judge(run, [moved for _, moved in (*scanned.moved, *log.moved)])
    return with_remarks(run, heard)


def _of_ranks(document: bytes, access: str, step: Step) -> list[OwnRate]:
    """The rate of each rank, over its own time from the open to the close."""
    if not argv.times_tell_rates(step):
        return []
    rates = rank_file.column(document, "throughput-withopenclose", step.tasks, access)
    return [OwnRate("", k, rate, rate / step.number("transfer_size")) for k, rate in enumerate(rates)]


def _moved(run: Run, result: Result, step: Step) -> int:
    """Bytes that were moved: as IOR says where they are not those of the files, and these otherwise."""
    if result.moved:
        return result.moved.moved
    return (run.tasks or step.tasks) * step.number("file_size")


def _messages(stdout: bytes) -> list[str]:
    """Lines that say more than that all went well."""
    lines = (line.strip() for line in stdout.decode("utf-8", "replace").splitlines())
    return [line[:300] for line in lines if line and not line.startswith("Writing output to")][:20]
