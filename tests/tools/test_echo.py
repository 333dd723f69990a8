"""The options that tools report, compared with those asked for: of real outputs, and with options dropped."""

from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion

from iosweep.tools import Echo, Step, tools
from iosweep.tools.fio import output as fio_output
from iosweep.tools.ior import output as ior_output

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
READ: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 4096, "queue_depth": 4, "file_size": 1 << 20, "files_per_thread": 1,
    "o_direct": True, "ioengine": "libaio", "write_mode": "overwrite", "fsync": True, "data": "random",
}  # fmt: skip
IOR: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 65536, "file_size": 8 << 20, "api": "POSIX", "file_per_process": True,
    "o_direct": True, "collective": False, "fsync": True, "write_mode": "overwrite", "data": "random",
}  # fmt: skip
MDTEST: dict[str, Any] = {"threads_per_node": 2, "files_per_thread": 1000, "unique_directory": True, "file_size": 0}


def fio(phase: str, **told: str | None) -> Echo:
    """What fio's list says where it is as asked for, but for some options; None takes one out."""
    tool = tools()["fio"]
    argv = tool.argv(Step(READ, (tool.phases[phase],), 1, 1.0), "/t/a=b", 7)
    printed = {name: value for a in argv[1:] for name, eq, value in [a.removeprefix("--").partition("=")] if eq}
    found = {name: value for name, value in (printed | told).items() if value is not None}
    echo = fio_output.compared(fio_output.asked_for(argv), found)
    assert echo
    return echo


def ior(phase: str, old: bytes = b"", new: bytes = b"") -> Echo:
    """What a real output of a phase says, with a part of it changed."""
    tool, stem = tools()["ior"], SAMPLES / f"ior/own/ior_{phase}_fpp"
    document = stem.with_suffix(".summary.json").read_bytes()
    assert old in document
    run, _ = ior_output.summary(document.replace(old, new), stem.with_suffix(".out").read_bytes())
    echo = ior_output.compared(tool.argv(Step(IOR, (tool.phases[phase],), 1, 1.0), "/mnt/with a -F blank", 7), run)
    assert echo
    return echo


def mdtest(old: bytes = b"", new: bytes = b"") -> Echo:
    tool, output = tools()["mdtest"], (SAMPLES / "mdtest/own/mdtest_dir_create_2.out").read_bytes()
    assert old in output
    step = Step(MDTEST, tuple(tool.phases.values()))
    echo = tool.parse({"stdout": output.replace(old, new)}, step, step.phase).evidence.echo
    assert echo
    return echo


def test_a_run_as_asked_for_contradicts_nothing() -> None:
    for echo in (
        *map(fio, ("rand_read", "rand_write")),
        fio("rand_read", cpus_allowed="0,1", cpus_allowed_policy="split"),
        *map(ior, ("seq_read", "rand_read", "seq_write", "rand_write")),
        mdtest(),
    ):
        assert not echo.contradictions and echo.compared > 3


def test_every_option_that_is_other_missing_or_more_is_a_contradiction(snapshot: SnapshotAssertion) -> None:
    found = {
        1: [
            fio("rand_read", rw="read"), fio("rand_read", direct=None), fio("rand_read", rate_iops="100"),
            fio("rand_read", verify_only="1"), ior("seq_read", b" --posix.odirect"),
            ior("seq_read", b" -t 65536", b" -t 1048576"), ior("seq_write", b" -e -l", b" -l"),
            ior("seq_write", b" -e -l", b" -e -W -l"), mdtest(b" '-u'"),
            mdtest(b"'-n' '1000'", b"'-n' '10'"), mdtest(b" '-u'", b" '-u' '-F'"),
        ],
        2: [
            fio("rand_read", iodepth="1", numjobs=None), fio("rand_read", time_based=None, group_reporting="0"),
            fio("rand_write", end_fsync="0", refill_buffers=None),
        ],
    }  # fmt: skip
    assert all(len(echo.contradictions) == count for count, echoes in found.items() for echo in echoes)
    every = [wrong for echoes in found.values() for echo in echoes for wrong in echo.contradictions]
    assert "\n".join(every) == snapshot


def test_only_what_a_tool_repeats_is_confirmed() -> None:
    echoes = [fio("rand_write"), fio("rand_write", direct="0"), fio("rand_write", end_fsync=None),
              ior("seq_write"), ior("seq_write", b'"fsync": 1', b'"fsync": 0'), ior("seq_read"),
              ior("seq_read", b" --posix.odirect")]  # fmt: skip
    assert [sorted(echo.confirmed) for echo in echoes] == [
        ["fsync", "o_direct"], ["fsync"], ["o_direct"], ["fsync", "o_direct"], ["o_direct"], ["o_direct"], [],
    ]  # fmt: skip
