"""Outputs of our own IOR runs: figures, evidence, and what the checks make of it when something is wrong."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from iosweep.config.sweeps import Repetitions
from iosweep.plan.model import Point
from iosweep.results import judging
from iosweep.results.checks.finding import Seen
from iosweep.tools import Parsed, Step, tools
from records import ON_TARGET, phase_run

IOR = tools()["ior"]
SAMPLES = Path(__file__).resolve().parents[1] / "samples/ior/own"
MIB = 1 << 20
TIMED: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 65536, "file_size": 8 * MIB, "file_per_process": True, "api": "POSIX",
    "collective": False, "o_direct": True, "fsync": True, "write_mode": "overwrite", "data": "random",
}  # fmt: skip
SHARED = TIMED | {"transfer_size": MIB, "file_per_process": False, "api": "MPIIO", "o_direct": False}


def streams(sample: str) -> dict[str, bytes]:
    return {
        "stdout": (SAMPLES / f"{sample}.out").read_bytes(),
        "summary": (SAMPLES / f"{sample}.summary.json").read_bytes(),
    }


def step(phase: str, time_s: float | None = 1.0, **options: Any) -> Step:
    return Step((TIMED if time_s else SHARED) | options, (IOR.phases[phase],), 1, time_s)


def parsed(sample: str, step: Step, **changed: bytes) -> Parsed:
    return IOR.parse(streams(sample) | changed, step, step.phase)


def judged(step: Step, parsed: Parsed, exit_code: int = 0, nodes: int = 1) -> tuple[str, list[str]]:
    """The verdict on a run whose circumstances were all right."""
    point = Point("p", "ior", (step.name,), nodes, step.options, step.time_s, Repetitions(1, 1), ())
    files = {"role": "read", "wrong": [], "holes": "none", "files": 2, "file_size_bytes": 8 * MIB,
             "set_bytes": 16 * MIB}  # fmt: skip
    echo = parsed.evidence.echo
    run = {"exit_code": exit_code, "timed_out": False, "wall_s": 1.5, "stderr": "", "files": files,
           "argv": ["ior", "-o", echo.place] if echo and echo.place else ["ior"]}  # fmt: skip
    return judging.verdict(
        judging.judge(Seen(point, step.phase, phase_run(run), parsed, ON_TARGET, {"n1": MIB}, "ext4"))
    )


@pytest.mark.parametrize(
    ("sample", "step", "bandwidth_mib", "iops", "moved", "total", "transfers"),
    [
        ("ior_seq_write_fpp", step("seq_write"), 942.1844, 15155.561, 993_394_688, 1.0055, 1.0002),
    ],
)
def test_figures(
    sample: str, step: Step, bandwidth_mib: float, iops: float, moved: int, total: float, transfers: float
) -> None:
    found = parsed(sample, step)
    figures = found.figures
    assert found.version == "4.0.0" and not found.problems and not found.evidence.errors
    assert figures["bandwidth_bytes_per_s"] == pytest.approx(bandwidth_mib * MIB)
    assert (figures["ops_per_s"], figures["runtime_s"], figures["io_s"]) == (iops, total, transfers)
    assert figures["bytes_written"] == moved and figures["ops"] == moved // 65536
    assert "latency_mean_s" not in figures  # IOR's is wrong with a deadline
    assert (figures["tasks"], found.label) == (2, "write")


def test_what_ior_prints_beside_its_figures_decides_the_verdict() -> None:
    wanted, stdout = step("seq_write"), streams("ior_seq_write_fpp")["stdout"]
    line = b"WARNING: fsync() not supported in selected backend.  Using value of 0.\n"
    verdict, reasons = judged(wanted, parsed("ior_seq_write_fpp", wanted, stdout=line + stdout))
    assert verdict == "suspect"
    assert reasons == [f"writes were not flushed inside the timing: {line.decode().strip()}"]
    line = b"transport: 3 requests failed and were sent again\n"
    verdict, reasons = judged(wanted, parsed("ior_seq_write_fpp", wanted, stdout=line + stdout))
    assert (verdict, reasons) == ("suspect", [f"the output speaks of errors: {line.decode().strip()}"])
    noted = parsed("ior_seq_write_fpp", wanted, stdout=b"WARNING: Backend returned error during statfs\n" + stdout)
    assert judged(wanted, noted) == ("valid", [])


@pytest.mark.parametrize("phase", ["seq_write", "seq_read", "rand_write", "rand_read"])
def test_every_timed_phase_is_valid(phase: str) -> None:
    wanted = step(phase)
    found = parsed(f"ior_{phase}_fpp", wanted)
    assert judged(wanted, found) == ("valid", [])
    # what IOR says that it moved, and its rate times its time
    moved = found.figures["bytes_read" if wanted.phase.reads else "bytes_written"]
    assert moved == pytest.approx(found.figures["bandwidth_bytes_per_s"] * found.figures["runtime_s"], rel=1e-4)


def test_one_pass_moves_the_files_once() -> None:
    wanted = step("seq_write", None, write_mode="new")
    found = parsed("ior_seq_write_shared", wanted)
    assert found.figures["bytes_written"] == 16 * MIB and judged(wanted, found)[0] == "valid"


def test_a_pass_that_is_too_short_for_the_clock_is_invalid() -> None:
    outcome, reasons = judged(step("rand_read", None), parsed("ior_rand_read_shared", step("rand_read", None)))
    assert outcome == "invalid" and "the tool counts in 0.1 ms: raise file_size" in reasons[0]


def changed(sample: str, **values: Any) -> bytes:
    """The summary with keys of its only result, or of its options, changed."""
    text = streams(sample)["summary"].decode()
    for key, value in values.items():
        text, found = re.subn(rf'"{key}": [^,\n]*', f'"{key}": {json.dumps(value)}', text)
        assert found
    return text.encode()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        # singletons: each rank believes that it is alone
        ({"tasks": 1, "numTasks": 1}, "1 rank, 2 were asked for: was it built with another MPI"),
        ({"bwMiB": 1884.3688}, ""),
        ({"wrRdTime": 0.2, "totalTime": 0.2}, ""),
        ({"access": "read"}, ""),
    ],
)
def test_figures_that_do_not_fit_are_invalid(values: dict[str, Any], said: str) -> None:
    wanted = step("seq_write")
    found = parsed("ior_seq_write_fpp", wanted, summary=changed("ior_seq_write_fpp", **values))
    outcome, reasons = judged(wanted, found)
    assert outcome == "invalid" and said in " ".join(reasons), reasons


@pytest.mark.parametrize(
    "line",
    [
        "Incorrect data on write (2 errors found).",
        "WARNING: fsync(29) failed Input/output error",
        "ERROR: cannot write to file, (ior.c:1655)",
    ],
)
def test_a_bad_word_beside_a_clean_summary_is_invalid(line: str) -> None:
    wanted = step("seq_write")
    stdout = streams("ior_seq_write_fpp")["stdout"] + line.encode() + b"\n"
    assert judged(wanted, parsed("ior_seq_write_fpp", wanted, stdout=stdout))[0] == "invalid"


@pytest.mark.parametrize("cut", [0, 1, 500, 2500, 3400])
def test_a_cut_summary_is_invalid(cut: int) -> None:
    wanted = step("seq_write")
    found = parsed("ior_seq_write_fpp", wanted, summary=streams("ior_seq_write_fpp")["summary"][:cut])
    assert judged(wanted, found)[0] == "invalid" and not found.figures


def test_no_summary_is_told_with_what_was_printed() -> None:
    wanted = step("seq_write")
    found = IOR.parse({"stdout": b"ERROR: open64(...) failed\n"}, wanted, wanted.phase)
    assert found.problems == ["IOR wrote no summary", "ERROR: open64(...) failed"]


def test_random_data_of_large_files_is_not_called_honest() -> None:
    findings = {}
    for size in (8 * MIB, 4 << 30, 8 << 30):
        wanted = step("seq_write", file_size=size)
        found = parsed("ior_seq_write_fpp", wanted)
        findings[size] = found.evidence.repeats or None
    assert findings[8 * MIB] is None and findings[4 << 30] is None
    assert "begins anew after 4 GiB" in findings[8 << 30]
