"""Lines of interest in logs of any size: each line once, each kind of message once, and what it says of the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from iosweep.tools import messages
from iosweep.tools.messages import WORDS, Messages, judged

#: How runs and launchers speak of what makes a figure invalid or suspect, and what is only a note: (severity, line).
with (Path(__file__).resolve().parents[1] / "samples/messages.tsv").open() as _file:
    SAID = [line.rstrip("\n").split("\t") for line in _file]


def test_each_kind_of_line_and_each_meaning_is_one_message() -> None:
    found = Messages()
    for rank in range(3):
        found.take(f"WARNING: task {rank}, partial write(), 7 of 9 bytes at offset 0x{rank:x}")
        found.take(f"ERROR: open({rank}) failed")
    found.take("[n1] ERROR: x FAILED in y")
    found.take("all is well")
    assert [(one.severity, one.count) for one in found] == [("suspect", 3), ("invalid", 3), ("suspect", 1)]
    assert str([*found][1]).endswith("ERROR: open(0) failed (first of 3 such lines)")


def test_the_cause_of_a_failure_is_no_notice_no_rule_and_of_a_stack_the_last_line() -> None:
    notice = "srun: cluster configuration lacks support for cpu binding"
    ended = "srun: error: n2: task 1: Exited with exit code 127"
    stack = "internal_Init(70)...: MPI_Init failed\nMPIR_init_comm(5)...: no memory"
    for printed, cause in (
        (f"{notice}\n-----\n An ORTE daemon failed\nx", "An ORTE daemon failed"),
        (f"Abort(7)\n{stack}\nx", "MPIR_init_comm(5)...: no memory"),
        (notice, ""),
        (f"{ended}\nsrun: Terminating StepId=4.2\nsh: 1: taskset: not found\nx", "sh: 1: taskset: not found"),
        (f"{notice}\n{ended}", ended),
    ):
        assert messages.cause_in(printed.encode()) == cause


def test_every_line_is_looked_at_and_judged_by_what_it_says() -> None:
    for severity, line in SAID:
        assert any(word in line.lower() for word in WORDS) or severity == "note", line
        for label in ("", "3: ", "[1,3]<stderr>:") if severity == "note" else ("",):
            found = judged(label + line)
            assert found is not None and found[0] == severity, label + line


#: words that only name something: a path, a host, a library
NAMES = ("mca_x", "mca:x", "open mpi", "openfabrics", "libibverbs", "librdmacm: x", "help message", "btl_openib", "x")


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ('ior ERROR: open("/mnt/{}/f.0", 2, 0664) failed, Input/output error', "invalid"),
        ("/mnt/{}/f.0: No space left on device", "invalid"),
        ("WARNING: fsync(3) failed (/mnt/{}/returned error during statfs)", "invalid"),
        ("[n1:7] *** Process received signal *** Signal: Bus error (7) {}", "invalid"),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=1.0, ignoring {}", "invalid"),
        ("srun: error: n1: task 3: Exited with exit code 1, ignoring {}", "invalid"),
        ("libibverbs: Warning: {}: Input/output error", "invalid"),
        ("[n1][[1,1],3][{}_tcp_frag_recv] readv failed: Connection reset by peer (104)", "suspect"),
        ("[n1:7] {}: 3 requests failed", "suspect"),
        ("rank 3 on {}: request failed: could not read stonewall status file", "suspect"),
    ],
)
def test_a_name_inside_an_error_does_not_make_it_a_notice(line: str, severity: str) -> None:
    found = {name: judged(line.format(name)) for name in NAMES}
    assert {name: one and one[0] for name, one in found.items()} == dict.fromkeys(found, severity)
