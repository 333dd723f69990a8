"""The exact fio commands, the file sets they work on, and the combinations that are refused."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.tools import Step, tools

FIO = tools()["fio"]
DATA: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 4096, "queue_depth": 8, "file_size": 1 << 20, "files_per_thread": 3,
    "o_direct": True, "fsync": True, "write_mode": "overwrite", "data": "tool_default", "read_percent": 70,
    "ioengine": "libaio",
}  # fmt: skip
FILES: dict[str, Any] = {"threads_per_node": 2, "files_per_thread": 1000}


def step(phase: str, options: dict[str, Any] = DATA, time_s: float | None = 1.0) -> Step:
    """One phase on one node."""
    return Step(options, (FIO.phases[phase],), 1, time_s)


def output(written: int, **job: Any) -> dict[str, bytes]:
    """What a run of fio leaves that wrote so many bytes, with keys of its job changed."""
    clat = {"min": 1000, "max": 1000, "mean": 1000.0, "stddev": 0.0, "N": 1, "bins": {"1000": 1}, "percentile": {}}
    none = {
        "io_bytes": 0,
        "bw": 0,
        "bw_bytes": 0,
        "iops": 0.0,
        "runtime": 0,
        "total_ios": 0,
        "short_ios": 0,
        "drop_ios": 0,
    }
    write = none | {"io_bytes": written, "bw_bytes": written, "iops": 1.0, "runtime": 1000, "total_ios": 1}
    made = {
        "jobname": "prepare",
        "error": 0,
        "job_runtime": 1000,
        "read": none | {"clat_ns": clat},
        "write": write | {"clat_ns": clat},
    }
    return {"stdout": json.dumps({"fio version": "fio-3.33", "jobs": [made | job]}, indent=2).encode(), "stderr": b""}


#: Logs of 20 intervals, of phases of 1.5 s.
LOGS = "--write_bw_log=series --log_avg_msec=75 --per_job_logs=1"
COMMON = "--directory=/t --filename_format=$jobnum.$filenum --numjobs=2"
LAST = "--disk_util=0 --clocksource=clock_gettime --group_reporting=1 --eta=never --output-format=json+"
THREE = "--nrfiles=3 --lat_percentiles=1 --clat_percentiles=1"
IO = "--bs=4096 --iodepth=8 --ioengine=libaio --direct=1 --size=3145728 --time_based=1 --runtime=1500ms --randseed=7"
META = (
    "--filesize=4k --bs=4k --openfiles=1 --file_service_type=sequential --create_on_open=1 --create_fsync=0"
    " --fallocate=none"
)


@pytest.mark.parametrize(
    ("phase", "options", "expected"),
    [
        ("seq_read", {}, f"{THREE} --rw=read {IO} --allow_file_create=0"),
        ("rand_read", {}, f"{THREE} --rw=randread {IO} --allow_file_create=0"),
        ("seq_write", {}, f"{THREE} --rw=write {IO} --fallocate=none --end_fsync=1 --allow_file_create=0"),
        ("rand_write", {}, f"{THREE} --rw=randwrite {IO} --fallocate=none --end_fsync=1 --allow_file_create=0"),
        ("seq_write", {"write_mode": "new"}, f"{THREE} --rw=write {IO} --fallocate=none --end_fsync=1"),
        ("seq_write", {"data": "random", "fsync": False},
         f"{THREE} --rw=write {IO} --fallocate=none --end_fsync=0 --refill_buffers=1 --allow_file_create=0"),
        ("rand_mixed", {},
         f"{THREE} --rw=randrw {IO} --rwmixread=70 --fallocate=none --end_fsync=1 --allow_file_create=0"),
        ("rand_mixed", {"read_percent": 30},
         f"{THREE} --rw=randrw {IO} --rwmixread=30 --fallocate=none --end_fsync=1 --allow_file_create=0"),
        ("seq_read", {"o_direct": False, "ioengine": "psync", "queue_depth": 1},
         f"{THREE} --rw=read {IO} --allow_file_create=0".replace("direct=1", "direct=0")
         .replace("libaio", "psync").replace("iodepth=8", "iodepth=1")),
        ("create", FILES, f"--nrfiles=1000 --ioengine=filecreate {META}"),
        ("stat", FILES, f"--nrfiles=1000 --ioengine=filestat {META}"),
        ("delete", FILES, f"--nrfiles=1000 --ioengine=filedelete {META}"),
    ],
)  # fmt: skip
def test_the_command_of_every_phase(phase: str, options: dict[str, Any], expected: str) -> None:
    chosen = options if options is FILES else DATA | options
    argv = FIO.argv(step(phase, chosen, 1.5), "/t", 7)
    assert argv == f"fio --name={phase} {COMMON} {expected} {LAST}{'' if options is FILES else f' {LOGS}'}".split()


def test_every_phase_has_a_command_here() -> None:
    marks = test_the_command_of_every_phase.pytestmark  # type: ignore[attr-defined]
    assert {case[0] for case in marks[0].args[1]} == set(FIO.phases)


@pytest.mark.parametrize(
    ("size", "block"), [(1 << 30, 1 << 20), (1 << 20, 1 << 20), (64 << 10, 64 << 10), (96 << 10, 32 << 10), (4608, 512)]
)
def test_a_set_is_written_completely(size: int, block: int) -> None:
    files = FIO.file_set(step("rand_read", DATA | {"file_size": size}), "fresh")
    assert files.prepare
    assert (
        files.prepare("/t")
        == (
            f"fio --name=prepare --directory=/t --filename_format=$jobnum.$filenum --rw=write --bs={block}"
            f" --size={3 * size} --nrfiles=3 --numjobs=2 --ioengine=psync --refill_buffers --end_fsync=1"
            f" --fallocate=none {LAST}"
        ).split()
    )


@pytest.mark.parametrize(
    ("streams", "wrong"),
    [
        (output(6 << 20), None),
        (output((6 << 20) - 4096), "wrote 6287360 of 6291456 bytes"),
        ({"stdout": b"", "stderr": b"no space"}, "fio printed nothing"),
        ({"stdout": b"{\n", "stderr": b""}, "fio's JSON is cut or damaged"),
    ],
)
def test_a_set_that_was_not_written_completely_is_seen(streams: dict[str, bytes], wrong: str | None) -> None:
    found = FIO.file_set(step("rand_read"), "fresh").prepared(streams)
    assert found is None if wrong is None else wrong in str(found)


@pytest.mark.parametrize("phase", ["seq_read", "rand_read", "seq_write", "rand_write", "rand_mixed"])
def test_one_pass_has_no_time(phase: str) -> None:
    timed, once = (FIO.argv(step(phase, time_s=time_s), "/t", 7) for time_s in (1.5, None))
    # without a time fio goes over its files once, and ends
    assert [a for a in timed if a not in once] == ["--time_based=1", "--runtime=1500ms", *LOGS.split()]
    assert [a for a in once if a not in timed] == []


@pytest.mark.parametrize(
    ("phase", "options", "directory", "role", "files"),
    [
        ("seq_read", {}, "sets/fio-read-1m-3", "read", 6),
        ("rand_read", {}, "sets/fio-read-1m-3", "read", 6),
        ("seq_write", {}, "sets/fio-write-1m-3", "write", 6),
        ("rand_mixed", {}, "sets/fio-write-1m-3", "write", 6),
        ("seq_write", {"write_mode": "new"}, "new/seq_write", "fresh", 0),
        ("create", FILES, "new", "fresh", 0),
        ("delete", FILES, "new", "fresh", 0),
    ],
)
def test_file_sets(phase: str, options: dict[str, Any], directory: str, role: str, files: int) -> None:
    chosen = options if options is FILES else DATA | options
    found = FIO.file_set(step(phase, chosen), "new")
    assert (found.directory, found.role, len(found.files)) == (directory, role, files)
    assert found.size_bytes == files << 20
    if files:
        assert found.files == ("0.0", "0.1", "0.2", "1.0", "1.1", "1.2")


@pytest.mark.parametrize(
    ("phases", "options", "wrong"),
    [
        (["seq_read"], {}, None),
        (["create", "stat", "delete"], FILES, None),
        (["create", "delete"], FILES, None),
        (["stat"], FILES, "stat and delete work on the files that create made; put create first"),
        (["stat", "create"], FILES, "metadata phases go in the order create, stat, delete"),
        (["create", "delete", "stat"], FILES, "metadata phases go in the order create, stat, delete"),
        (["seq_read"], {"transfer_size": 2 << 20}, "transfer_size 2m is larger than file_size 1m"),
        (["seq_read"], {"transfer_size": 3 << 10}, "file_size 1m is not a multiple of transfer_size 3k"),
        (["seq_read"], {"transfer_size": 1000, "file_size": 8000},
         "transfer_size 1000 is not a multiple of 512, which O_DIRECT needs"),
        (["seq_read"], {"transfer_size": 1000, "file_size": 8000, "o_direct": False}, None),
        (["seq_write", "rand_write"], {"write_mode": "new"}, None),
        (["seq_write", "rand_mixed"], {"write_mode": "new"},
         "write_mode new has no effect on rand_mixed, which reads and writes the same complete files; remove one"),
        (["rand_mixed"], {}, None),
        (["seq_read"], {"ioengine": "psync"},
         "queue_depth 8 has no effect with ioengine psync (one I/O in flight); use libaio, io_uring or posixaio, or"
         " limit the axis with `when`"),
        (["seq_read"], {"ioengine": "sync", "queue_depth": 1}, None),
        (["seq_read"], {"ioengine": "posixaio"}, None),
    ],
)  # fmt: skip
def test_combinations(phases: list[str], options: dict[str, Any], wrong: str | None) -> None:
    assert FIO.check(options if options is FILES else DATA | options, phases, 1.0) == wrong


def test_what_a_metadata_phase_leaves_and_makes() -> None:
    found = {
        name: (FIO.leftover(s), FIO.inodes(s), FIO.work(s))
        for name, p in FIO.phases.items()
        if p.kind == "metadata" and (s := step(name, FILES, None))
    }
    assert found == {"create": (2000, 2000, 2000), "stat": (2000, 0, 2000), "delete": (0, 0, 2000)}
    new = DATA | {"write_mode": "new"}
    assert [FIO.inodes(step("seq_write", o)) for o in (DATA, new)] == [0, 6]
    assert FIO.leftover(step("seq_write", new)) is None
    assert FIO.work(step("seq_write", new)) == 0
    on_two = Step(FILES, (FIO.phases["create"],), nodes=2)
    assert (FIO.inodes(on_two), FIO.work(on_two)) == (4000, 4000)


@pytest.mark.parametrize(
    ("directory", "argument"),
    [
        ("/a b", "/a b"),
        ("/a:b", "/a\\:b"),
        ("/a\\b", "/a\\b"),
        ("/a\\:b", "/a\\\\:b"),
        ("/$HOME;'\"*", "/$HOME;'\"*"),
    ],
)
def test_names_are_only_names(directory: str, argument: str) -> None:
    argv = FIO.argv(step("seq_read"), directory, 1)
    assert argv[2] == f"--directory={argument}"


@given(st.integers(1, 1 << 31), st.floats(0.001, 1e6))
def test_times_and_seeds_are_whole_numbers(seed: int, phase_time_s: float) -> None:
    argv = FIO.argv(step("seq_read", time_s=phase_time_s), "/t", seed)
    assert f"--randseed={seed}" in argv
    assert f"--runtime={round(phase_time_s * 1000)}ms" in argv


NAMES = [
    "a b",
    "a:b",
    ":",
    "a\\b",
    "a\\:b",
    "$HOME ${HOME}",
    "$ncpus",
    "%d",
    'it\'s "x";#*,=',
    "\u00e4\u6f22",
    "a\nb",
    " a ",
    "-a",
]


@pytest.mark.local
@pytest.mark.parametrize("name", NAMES)
def test_fio_takes_every_name(fio: Path, tmp_path: Path, name: str) -> None:
    directory = tmp_path / name / "set"
    directory.mkdir(parents=True)
    options = DATA | {"files_per_thread": 1, "file_size": 4096}
    files = FIO.file_set(step("seq_read", options), "fresh")
    assert files.prepare
    done = subprocess.run(files.prepare(str(directory)), capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    if "\n" not in name:  # which fio prints into its JSON as it is; a configuration has no such directory
        assert files.prepared({"stdout": done.stdout, "stderr": done.stderr}) is None
    assert {f.name: f.stat().st_size for f in directory.iterdir()} == {"0.0": 4096, "1.0": 4096}


def test_versions() -> None:
    assert FIO.version("fio-3.33\n") == "fio-3.33" and FIO.version("") == "unknown"
    for old in ("fio-2.21", "fio-3.1", "fio-3.9", "fio-3.17", "fio-3.17-dirty"):
        assert "3.18 or newer is needed" in (FIO.unfit(old) or "")
    assert all(FIO.unfit(fit) is None for fit in ("fio-3.18", "fio-3.20", "fio-3.42", "fio-4.0"))
