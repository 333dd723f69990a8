"""Lines of interest in logs of any size: each line once, each kind of message once, and what it says of the figures."""

from __future__ import annotations

import pytest

from iosweep.tools import messages
from iosweep.tools.messages import WORDS, judged, marked

#: How runs and launchers speak of what makes a figure invalid or suspect.
BAD = (
    "WARNING: x", "fsync(3) failed", "ERROR: x", "x FAILED", "Killed", "Terminated", "Aborted", "partial read()",
    "inconsistent file size", "Assertion `x' failed.", "BAD TERMINATION", "MPI_Abort(1)", "Segmentation fault",
    "exited on signal 9", "DUE TO TIME LIMIT", "oom-kill", "Out Of Memory", "No space left on device",
    "Disk quota exceeded", "Input/output error", "Stale file handle", "Read-only file system",
    "Transport endpoint is not connected", "Unable to create test directory x", "could not create directory x",
    "returned EOF prematurely", "srun: error: task 1: x", "Incorrect data on read", "more tasks requested",
)  # fmt: skip


def test_marked_lines_are_all_lines_that_are_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a\n\nAn ERROR\n\r\nlast error"
    expected = [("a", False), ("An ERROR", True), ("\r", False), ("last error", True)]
    for size in (1, 3, 1 << 18):
        monkeypatch.setattr(messages, "_CHUNK", size)
        assert list(marked(text, ["error"])) == expected
        assert list(marked(text + "\n", ["error"])) == expected
        assert list(marked("İ error\nx", ["error"])) == [("İ error", True), ("x", False)]
    assert list(marked("", ["error"])) == []


def test_every_line_that_says_something_is_looked_at() -> None:
    for line in BAD:
        found = judged(line)
        assert found and found[0] in ("invalid", "suspect"), line
        assert any(word in line.lower() for word in WORDS), line


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


def test_notices_of_launchers_and_libraries_stay_notes() -> None:
    for line in (
        "No OpenFabrics connection schemes reported that they were able to be",
        "WARNING: There was an error initializing an OpenFabrics device.",
        "WARNING: No preset parameters were found for the device that Open MPI",
        "[n1:7] 39 more processes have sent help message help-mpi-btl-openib.txt / error in device init",
        "[n1:7] 1 more process has sent help message help-mpi-btl-openib.txt / error in device init",
        '[n1.site:7] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages',
        "[n1:7] mca_base_component_repository_open: unable to open mca_plm_lsf: libbat.so: cannot open (ignored)",
        "[n1:7] mca: base: components_open: component ofud open function failed",
        "[n1:7] Error: ../ompi/coll_hcoll_module.c:310 - mca_coll_hcoll_comm_query() Hcol library init failed",
        "libibverbs: Warning: couldn't load driver 'x.so': x.so: cannot open shared object file",
        "librdmacm: Fatal: no RDMA devices found",
        "n1.123 PSM can't open /dev/ipath for reading and writing (err=23)",
        "n1.123.ipath: The /dev/ipath device failed to appear after 30.0 seconds: Connection timed out",
        "srun: error: Ignoring --x11 option for a job step within an existing job.",
        "slurmstepd: error: SLURM_X=often invalid. ignoring...",
        "WARNING: Backend returned error during statvfs",
        "WARNING: could not read stonewall status file",
    ):
        for label in ("", "3: ", "[1,3]<stderr>:"):
            found = judged(label + line)
            assert found is not None and found[0] == "note", label + line
