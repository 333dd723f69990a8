"""The exact IOR commands, the file sets they work on, and the combinations that are refused."""

from pathlib import Path
from typing import Any

import pytest

from campaign import document, make, problems
from iosweep.tools import Step, tools

IOR = tools()["ior"]
OPTIONS: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 65536, "file_size": 1 << 23, "file_per_process": True, "api": "POSIX",
    "collective": False, "o_direct": True, "fsync": True, "write_mode": "overwrite", "data": "random",
}  # fmt: skip


def step(phase: str, time_s: float | None = 2.0, nodes: int = 1, **options: Any) -> Step:
    return Step(OPTIONS | options, (IOR.phases[phase],), nodes, time_s)


def test_the_command_of_every_phase() -> None:
    posix, sizes, timed = "-a POSIX -F --posix.odirect", "-b 8388608 -t 65536 -k", "-D 2 -O minTimeDuration=2"
    random, data = "-z --random-offset-seed=8", "-l random -G 8"
    collective = {"api": "MPIIO", "collective": True, "o_direct": False, "file_per_process": False}
    for phase, options, expected in (
        ("seq_read", {}, f"{posix} {sizes} -r -C {timed}"),
        ("rand_read", {}, f"{posix} {sizes} {random} -r -C {timed}"),
        ("seq_write", {}, f"{posix} {sizes} -w -E -e {data} {timed}"),
        ("rand_write", {}, f"{posix} {sizes} {random} -w -E -e {data} {timed}"),
        # what is there is unlinked first
        ("seq_write", {"write_mode": "new"}, f"{posix} {sizes} -w -e {data} {timed}"),
        ("seq_write", {"data": "tool_default", "fsync": False}, f"{posix} {sizes} -w -E {timed}"),
        ("seq_read", {"file_per_process": False}, f"-a POSIX --posix.odirect {sizes} -r -C {timed}"),
        # IOR refuses -C here; random offsets of a shared file are anybody's
        ("rand_read", {"file_per_process": False}, f"-a POSIX --posix.odirect {sizes} {random} -r {timed}"),
        ("seq_read", collective, f"-a MPIIO -c {sizes} -r -C {timed}"),
    ):
        whole = f"ior {expected} -o /t/data -O summaryFile=summary.json,summaryFormat=JSON".split()
        assert IOR.argv(step(phase, **options), "/t", 7) == whole, (phase, options)


def test_the_deadline_and_the_least_duration_are_one_and_one_pass_has_neither() -> None:
    # IOR with a longer least duration stops at the deadline and spins, with a shorter one after its files
    argv = IOR.argv(step("rand_read", 60.0), "/t", 7)
    assert argv[argv.index("-D") + 1] == "60" and "minTimeDuration=60" in argv
    argv = IOR.argv(step("seq_write", None, write_mode="new"), "/t", 7)
    assert "-D" not in argv and not any("minTimeDuration" in word for word in argv)
    assert argv[-1] == "summaryFile=summary.json,summaryFormat=JSON,saveRankPerformanceDetailsCSV=ranks.csv"


def test_seeds_stay_where_ranks_can_be_added_to_them() -> None:
    for seed in (0, 7, 2**30 - 1, 2**31 - 1):
        argv = IOR.argv(step("rand_write"), "/t", seed)
        given = int(argv[argv.index("-G") + 1])
        assert 0 < given <= 1 << 30  # 0 is IOR's own, the same in every run
        assert f"--random-offset-seed={given}" in argv


def test_sets_of_separate_files_are_shared_by_points_and_shared_files_by_none() -> None:
    few, many = (IOR.file_set(step("seq_read", threads_per_node=n), "fresh/x") for n in (2, 4))
    assert few.directory == many.directory == "sets/ior-read-8m"
    assert few.files == ("data.00000000", "data.00000001")
    assert (few.file_size_bytes, few.role, few.of_all_nodes, many.prepare_tasks) == (1 << 23, "read", True, 4)
    assert IOR.file_set(step("seq_write"), "fresh/x").directory == "sets/ior-write-8m"
    one, other = (IOR.file_set(step("seq_read", threads_per_node=n, file_per_process=False), "f") for n in (2, 4))
    assert one.directory == "sets/ior-read-8m-shared-2" != other.directory
    assert (one.files, one.file_size_bytes) == (("data",), 2 << 23)
    # over several nodes the writers of a set are known
    wide, narrow = (IOR.file_set(step("seq_read", nodes=2, threads_per_node=n), "f").directory for n in (4, 2))
    assert wide == "sets/ior-read-8m-2n4t" != narrow


def test_what_is_read_was_written_completely_with_random_data() -> None:
    files = IOR.file_set(step("seq_read"), "f")
    assert files.prepare
    argv = files.prepare("/t")
    assert argv[:10] == ["ior", "-a", "POSIX", "-F", "-b", "8388608", "-t", "1048576", "-w", "-k"]
    assert argv[argv.index("-l") + 1] == "random" and "-e" in argv and "-D" not in argv
    # other data for each set: equal data in two sets would deduplicate
    assert argv[argv.index("-G") + 1] != files.prepare("/u")[argv.index("-G") + 1]
    assert files.prepared({"stdout": b"Writing output to summary.json\n"}) is None
    said = b"x\nERROR: open64(...) failed. Error: Permission denied, (aiori-POSIX.c:569)\n"
    assert "Permission denied" in (files.prepared({"stdout": said}) or "")


SWEEP: dict[str, Any] = {
    "tool": "ior", "phases": ["seq_write", "rand_read"], "axes": {"threads_per_node": [1]},
    "options": {"file_size": "8m", "transfer_size": "64k"}, "phase_time": "2s",
}  # fmt: skip


def at(directory: str) -> dict[str, Any]:
    return document(**SWEEP) | {"target": {"directory": directory}}


def test_directories_that_ior_cannot_use_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user@corp").mkdir()
    monkeypatch.chdir(tmp_path / "user@corp")
    # IOR would write beside it: `a@b` is two files to it; and a quote breaks its JSON
    for directory, word in (("/mnt/a@b", "two files"), ('/mnt/a"b', "JSON"), (".", f"{tmp_path}/user@corp")):
        (found,) = problems(tmp_path, at(directory), make)
        assert "target.directory" in found and word in found


def test_a_version_before_4_0_is_not_fit() -> None:
    assert IOR.version("x\nIOR-4.0.0: MPI Coordinated Test of Parallel I/O\n") == "4.0.0"
    assert IOR.version("IOR-4.1.0+dev: MPI") == "4.1.0+dev"
    assert IOR.version("Error invalid argument: --version") == "unknown"
    assert [bool(IOR.unfit(version)) for version in ("3.3.0", "4.0.0", "4.1.0+dev")] == [True, False, False]
