"""The options that tools report, compared with those asked for: of real outputs, and with options dropped."""

from pathlib import Path
from typing import Any

import pytest

from iosweep.tools import Echo, Step, tools
from iosweep.tools.fio import output as fio_output
from iosweep.tools.ior import output as ior_output

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
READ: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 4096, "queue_depth": 4, "file_size": 1 << 20, "files_per_thread": 1,
    "o_direct": True, "ioengine": "libaio", "write_mode": "overwrite", "fsync": True, "data": "random",
}  # fmt: skip


def fio(phase: str, told: dict[str, str | None], **options: Any) -> Echo | None:
    """What fio's list says where it is as asked for, but for some options; None takes one out."""
    tool = tools()["fio"]
    argv = tool.argv(Step(READ | options, (tool.phases[phase],), 1, 1.0), "/t/a=b", 7)
    printed = {name: value for a in argv[1:] for name, eq, value in [a.removeprefix("--").partition("=")] if eq}
    found = {name: value for name, value in (printed | told).items() if value is not None}
    return fio_output.compared(fio_output.asked_for(argv), found)


@pytest.mark.parametrize(
    ("phase", "told", "wrong"),
    [
        ("rand_read", {}, []),
        ("rand_read", {"cpus_allowed": "0,1", "cpus_allowed_policy": "split"}, []),
        ("rand_read", {"rw": "read"}, ["fio ran with rw=read, asked for was randread"]),
        ("rand_read", {"direct": None}, ["fio ran without direct=1"]),
        ("rand_read", {"iodepth": "1", "numjobs": None},
         ["fio ran without numjobs=2", "fio ran with iodepth=1, asked for was 4"]),
        ("rand_read", {"rate_iops": "100"}, ["fio ran with rate_iops=100, which was not asked for"]),
        ("rand_read", {"time_based": None, "group_reporting": "0"},
         ["fio ran with group_reporting=0, asked for was 1", "fio ran without time_based=1"]),
        ("rand_read", {"verify_only": "1"}, ["fio ran with verify_only=1, which was not asked for"]),
        ("rand_read", {"lat_percentiles": None}, []),  # fio before 3.18, and results from before it was asked for
        ("rand_write", {}, []),
        ("rand_write", {"end_fsync": "0", "refill_buffers": None},
         ["fio ran with end_fsync=0, asked for was 1", "fio ran without refill_buffers=1"]),
    ],
)  # fmt: skip
def test_fio(phase: str, told: dict[str, str | None], wrong: list[str]) -> None:
    echo = fio(phase, told)
    assert echo is not None and sorted(echo.contradictions) == sorted(wrong)


def test_where_their_files_are() -> None:
    """As the command has it, which the check compares (checks/asked.py)."""
    echoes = [fio("rand_read", {}), fio("rand_read", {"directory": None}), ior("seq_read")]
    assert [echo.place for echo in echoes if echo] == [
        "/t/a=b", None, "/mnt/scratch/iosweep-own/sets/ior-read-8m/data",
    ]  # fmt: skip
    blanks = (b" -o /mnt/scratch/iosweep-own/sets/", b" -o /mnt/with a -F -O blank/")
    moved = ior("seq_read", blanks)
    assert moved and not moved.contradictions and moved.place == "/mnt/with a -F -O blank/ior-read-8m/data"


def test_what_fio_confirms() -> None:
    echoes = [fio("rand_write", {}), fio("rand_write", {"direct": "0"}), fio("rand_write", {"end_fsync": None})]
    assert [sorted(echo.confirmed) for echo in echoes if echo] == [["fsync", "o_direct"], ["fsync"], ["o_direct"]]
    assert fio_output.compared({}, None) is None  # some servers in client mode


IOR: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 65536, "file_size": 8 << 20, "api": "POSIX", "file_per_process": True,
    "o_direct": True, "collective": False, "fsync": True, "write_mode": "overwrite", "data": "random",
}  # fmt: skip


def ior(phase: str, change: tuple[bytes, bytes] = (b"", b"")) -> Echo | None:
    """What a real output of a phase says, with a part of it changed."""
    tool, stem = tools()["ior"], SAMPLES / f"ior/own/ior_{phase}_fpp"
    document = stem.with_suffix(".summary.json").read_bytes()
    assert change[0] in document
    step = Step(IOR, (tool.phases[phase],), 1, 1.0)
    run = ior_output.summary(document.replace(*change), stem.with_suffix(".out").read_bytes())
    return ior_output.compared(tool.argv(step, "/mnt/with a -F blank", 7), run)


@pytest.mark.parametrize(
    ("phase", "change", "wrong"),
    [
        ("seq_read", (b"", b""), []),
        ("rand_read", (b"", b""), []),
        ("seq_write", (b"", b""), []),
        ("rand_write", (b"", b""), []),
        ("seq_read", (b" --posix.odirect", b""), ["IOR ran without posix.odirect 1"]),
        ("seq_read", (b" -t 65536", b" -t 1048576"), ["IOR ran with -t 1048576, asked for was 65536"]),
        ("seq_write", (b" -e -l", b" -l"), ["IOR ran without -e"]),
        ("seq_write", (b'"fsync": 1', b'"fsync": 0'), ["IOR's parameter fsync was 0, asked for was 1"]),
        ("rand_read", (b'"randomOffset": 1', b'"randomOffset": 0'),
         ["IOR's parameter randomOffset was 0, asked for was 1"]),
    ],
)  # fmt: skip
def test_ior(phase: str, change: tuple[bytes, bytes], wrong: list[str]) -> None:
    echo = ior(phase, change)
    assert echo is not None and list(echo.contradictions) == wrong
    assert ("o_direct" in echo.confirmed) == (b"odirect" not in change[0])


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ((b"", b""), []),
        ((b" '-u'", b""), ["mdtest ran without -u"]),
        ((b"'-n' '1000'", b"'-n' '10'"), ["mdtest ran with -n 10, asked for was 1000"]),
    ],
)
def test_mdtest(change: tuple[bytes, bytes], wrong: list[str]) -> None:
    tool, output = tools()["mdtest"], (SAMPLES / "mdtest/own/mdtest_dir_create_2.out").read_bytes()
    assert change[0] in output
    options = {"threads_per_node": 2, "files_per_thread": 1000, "unique_directory": True, "file_size": 0}
    step = Step(options, tuple(tool.phases.values()))
    echo = tool.parse({"stdout": output.replace(*change)}, step, step.phase).evidence.echo
    assert echo is not None and list(echo.contradictions) == wrong
    assert echo.place and f"'-d' '{echo.place}'".encode() in output
