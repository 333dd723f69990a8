"""Lines of interest in logs of any size: each line once, each kind of message once."""

from __future__ import annotations

from importlib import import_module

import pytest

from iosweep.tools import loglines
from iosweep.tools.loglines import Heard, about_the_end, marked, notice

TOOLS = {"ior": "iosweep.tools.ior.noise", "mdtest": "iosweep.tools.mdtest.signs"}


def test_marked_lines_are_all_lines_that_are_not_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a\n\nAn ERROR\n\r\nlast error"
    expected = [("a", False), ("An ERROR", True), ("\r", False), ("last error", True)]
    for size in (1, 3, 1 << 18):
        monkeypatch.setattr(loglines, "_CHUNK", size)
        assert list(marked(text, ["error"])) == expected
        assert list(marked(text + "\n", ["error"])) == expected
        assert list(marked("İ error\nx", ["error"])) == [("İ error", True), ("x", False)]
    assert list(marked("", ["error"])) == []


def test_a_kind_of_message_is_judged_once_and_counted() -> None:
    asked: list[str] = []

    def judge(line: str) -> tuple[str, str] | None:
        asked.append(line)
        return None if line.startswith("harmless") else ("suspect", "why")

    heard = Heard(judge)  # type: ignore[arg-type]
    for number in range(10_000):
        heard.take(number, 0, f"rank {number:05}: failed at {number * 7919:08x}")
        heard.take(number, 0, f"harmless {number:05}")
    heard.take(10_000, 1, "rank 00000: failed at 00000000")  # elsewhere
    assert len(asked) == 2
    assert [(said.at, said.count, said.line) for said in heard] == [
        (0, 10_000, "rank 00000: failed at 00000000"),
        (10_000, 1, "rank 00000: failed at 00000000"),
    ]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_flood_is_judged_once_by_the_tools(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = import_module(f"iosweep.tools.{tool}.read")
    where = import_module(f"iosweep.tools.{tool}.{'text' if tool == 'ior' else 'scan'}")
    judged = import_module(TOOLS[tool]).judged
    asked: list[str] = []

    def counted(line: str) -> object:
        asked.append(line)
        return judged(line)

    monkeypatch.setattr(where.noise if tool == "ior" else where, "judged", counted)
    monkeypatch.setattr(read, "judged", counted, raising=False)
    flood = "".join(f"WARNING: Task {n:04}, partial read(), 1 of 2 bytes\nrank {n} goes on\n" for n in range(5000))
    first = {"ior": "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n", "mdtest": "-- started at x --\n"}[tool]
    read.read({"log": (first + flood).encode()}, None)
    assert asked == ["WARNING: Task 0000, partial read(), 1 of 2 bytes"]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_sentence_that_is_judged_has_one_of_the_words(tool: str) -> None:
    module = import_module(TOOLS[tool])
    for line in (
        "WARNING: x", "fsync(3) failed", "ERROR: x", "x FAILED", "Killed", "Terminated", "Aborted", "partial read()",
        "inconsistent file size", "Assertion `x' failed.", "BAD TERMINATION", "MPI_Abort(1)", "Segmentation fault",
        "exited on signal 9", "DUE TO TIME LIMIT", "oom-kill", "Out Of Memory", "No space left on device",
        "Disk quota exceeded", "Input/output error", "Stale file handle", "Read-only file system",
        "Transport endpoint is not connected", "unlink() of file x failed", "Unable to create test directory x",
        "could not create directory x", "Invalid options", "returned EOF prematurely", "srun: error: task 1: x",
    ):  # fmt: skip
        if module.judged(line):
            assert any(word in line.lower() for word in module.WORDS), line
    # these stand behind WARNING
    lost = [
        sentence
        for name, before in (("_NOTES", "warning: "), ("_WARNED", "warning: "), ("_INVALID", ""), ("_SUSPECT", ""))
        for sentence in getattr(module, name, ())
        if not any(word in before + sentence for word in module.WORDS)
    ]
    assert lost == []


@pytest.mark.parametrize(
    ("line", "ends", "is_notice"),
    [
        ("srun: error: n1: task 3: Killed", True, False),
        ('srun: error: Ignoring conflicting option "a"', False, True),
        ("slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-01 DUE TO TIME LIMIT ***", True, False),
        ("mca_base_component_repository_open: unable to open x", False, True),
        ("WARNING: inconsistent file size", False, False),
    ],
)
def test_what_is_of_a_launcher(line: str, ends: bool, is_notice: bool) -> None:
    assert (about_the_end(line), notice(line.lower())) == (ends, is_notice)
