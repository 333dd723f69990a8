"""The exact fio commands, the file sets they work on, the combinations that are refused; and that fio takes them."""

import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.files import safe_paths
from iosweep.run.agents import read_outputs
from iosweep.tools import Step, tools
from iosweep.tools.fio import series

FIO = tools()["fio"]
DATA: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 4096, "queue_depth": 8, "file_size": 1 << 20, "files_per_thread": 3,
    "o_direct": True, "fsync": True, "write_mode": "overwrite", "data": "tool_default", "read_percent": 70,
    "ioengine": "libaio",
}  # fmt: skip
FILES: dict[str, Any] = {"threads_per_node": 2, "files_per_thread": 1000}
NEW = DATA | {"write_mode": "new"}


def step(phase: str, options: dict[str, Any] = DATA, time_s: float | None = 1.0) -> Step:
    """One phase on one node."""
    return Step(options, (FIO.phases[phase],), 1, time_s)


#: Logs of 20 intervals, of phases of 1.5 s.
LOGS = "--write_bw_log=series --log_avg_msec=75 --per_job_logs=1"
COMMON = "--directory=/t --filename_format=$jobnum.$filenum --numjobs=2"
LAST = "--disk_util=0 --clocksource=clock_gettime --group_reporting=1 --eta=never --output-format=json+"
THREE = "--nrfiles=3 --lat_percentiles=1 --clat_percentiles=1"
IO = "--bs=4096 --iodepth=8 --ioengine=libaio --direct=1 --size=3145728 --time_based=1 --runtime=1500ms --randseed=7"
NO_CREATE = "--allow_file_create=0"
META = (
    "--filesize=4k --bs=4k --openfiles=1 --file_service_type=sequential --create_on_open=1 --create_fsync=0"
    " --fallocate=none"
)
BUFFERED = {"o_direct": False, "ioengine": "psync", "queue_depth": 1}
COMMANDS: list[tuple[str, dict[str, Any], str]] = [
    ("seq_read", {}, f"--rw=read {IO} {NO_CREATE}"),
    ("rand_read", {}, f"--rw=randread {IO} {NO_CREATE}"),
    ("seq_write", {}, f"--rw=write {IO} --fallocate=none --end_fsync=1 {NO_CREATE}"),
    ("rand_write", {}, f"--rw=randwrite {IO} --fallocate=none --end_fsync=1 {NO_CREATE}"),
    ("seq_write", {"write_mode": "new"}, f"--rw=write {IO} --fallocate=none --end_fsync=1"),
    ("seq_write", {"data": "random", "fsync": False},
     f"--rw=write {IO} --fallocate=none --end_fsync=0 --refill_buffers=1 {NO_CREATE}"),
    ("rand_mixed", {"read_percent": 30},
     f"--rw=randrw {IO} --rwmixread=30 --fallocate=none --end_fsync=1 {NO_CREATE}"),
    ("seq_mixed", {}, f"--rw=rw {IO} --rwmixread=70 --fallocate=none --end_fsync=1 {NO_CREATE}"),
    ("seq_read", BUFFERED, f"--rw=read {IO} {NO_CREATE}".replace("direct=1", "direct=0")
     .replace("libaio", "psync").replace("iodepth=8", "iodepth=1")),
    ("create", FILES, f"--nrfiles=1000 --ioengine=filecreate {META}"),
    ("stat", FILES, f"--nrfiles=1000 --ioengine=filestat {META}"),
    ("delete", FILES, f"--nrfiles=1000 --ioengine=filedelete {META}"),
]  # fmt: skip


def test_the_command_of_every_phase() -> None:
    assert {phase for phase, _, _ in COMMANDS} == set(FIO.phases)
    for phase, options, expected in COMMANDS:
        files = options is FILES
        argv = FIO.argv(step(phase, FILES if files else DATA | options, 1.5), "/t", 7)
        own = f"{expected} {LAST}" if files else f"{THREE} {expected} {LAST} {LOGS}"
        assert argv == f"fio --name={phase} {COMMON} {own}".split(), (phase, options)


def test_one_pass_has_no_time() -> None:
    for phase in ("seq_read", "rand_read", "seq_write", "rand_write", "rand_mixed"):
        timed, once = (FIO.argv(step(phase, time_s=time_s), "/t", 7) for time_s in (1.5, None))
        # without a time fio goes over its files once, and ends
        assert [a for a in timed if a not in once] == ["--time_based=1", "--runtime=1500ms", *LOGS.split()]
        assert [a for a in once if a not in timed] == []


def test_a_set_is_written_completely() -> None:
    for size, block in ((1 << 30, 1 << 20), (64 << 10, 64 << 10), (96 << 10, 32 << 10), (4608, 512)):
        prepare = FIO.file_set(step("rand_read", DATA | {"file_size": size}), "fresh").prepare
        assert prepare and prepare("/t") != prepare("/u")
        seed = zlib.crc32(b"/t")  # sets of two nodes do not deduplicate
        assert (
            prepare("/t")
            == (
                f"fio --name=prepare --directory=/t --filename_format=$jobnum.$filenum --rw=write --bs={block}"
                f" --size={3 * size} --nrfiles=3 --numjobs=2 --ioengine=psync --refill_buffers --randseed={seed}"
                f" --end_fsync=1 --fallocate=none {LAST}"
            ).split()
        )


def test_a_set_that_was_not_written_completely_is_seen() -> None:
    wrote = (Path(__file__).resolve().parents[1] / "samples/fio/h6.out").read_bytes()  # 83,812,352 bytes
    for size, stdout, complete in ((83812352, wrote, True), (83812352 + 512, wrote, False), (83812352, b"{", False)):
        options = DATA | {"threads_per_node": 1, "files_per_thread": 1, "file_size": size}
        found = FIO.file_set(step("rand_read", options), "fresh").prepared({"stdout": stdout, "stderr": b""})
        assert bool(found) != complete, size


def test_a_phase_works_on_the_set_of_its_role() -> None:
    for phase, options, directory, role, files in (
        ("seq_read", DATA, "sets/fio-read-1m-3", "read", 6),
        ("rand_read", DATA, "sets/fio-read-1m-3", "read", 6),
        ("seq_write", DATA, "sets/fio-write-1m-3", "write", 6),
        ("rand_mixed", DATA, "sets/fio-write-1m-3", "write", 6),
        ("seq_write", NEW, "new/seq_write", "fresh", 0),
        ("create", FILES, "new", "fresh", 0),
        ("delete", FILES, "new", "fresh", 0),
    ):
        found = FIO.file_set(step(phase, options), "new")
        assert (found.directory, found.role, len(found.files)) == (directory, role, files), phase
        assert found.size_bytes == files << 20
        assert not files or found.files == ("0.0", "0.1", "0.2", "1.0", "1.1", "1.2")


def test_combinations_that_mean_nothing_are_refused(snapshot: SnapshotAssertion) -> None:
    for phases, options in (
        (["seq_read"], DATA),
        (["create", "stat", "delete"], FILES),
        (["create", "delete"], FILES),
        (["seq_read"], DATA | {"transfer_size": 1000, "file_size": 8000, "o_direct": False}),
        (["seq_write", "rand_write"], NEW),
        (["rand_mixed"], DATA),
        (["seq_read"], DATA | {"ioengine": "sync", "queue_depth": 1}),
        (["seq_read"], DATA | {"ioengine": "posixaio"}),
    ):
        assert FIO.check(options, phases, 1.0) is None, (phases, options)
    refused = [
        FIO.check(options, phases, 1.0)
        for phases, options in (
            (["stat"], FILES),
            (["stat", "create"], FILES),
            (["create", "delete", "stat"], FILES),
            (["seq_read"], DATA | {"transfer_size": 2 << 20}),
            (["seq_read"], DATA | {"transfer_size": 3 << 10}),
            (["seq_read"], DATA | {"transfer_size": 1000, "file_size": 8000}),
            (["seq_write", "rand_mixed"], NEW),
            (["seq_read"], DATA | {"ioengine": "psync"}),
        )
    ]
    assert all(refused)
    assert "\n".join(map(str, refused)) == snapshot


def test_what_a_phase_leaves_and_makes() -> None:
    found = {
        name: (FIO.leftover(s), FIO.inodes(s), FIO.work(s))
        for name, p in FIO.phases.items()
        if p.kind == "metadata" and (s := step(name, FILES, None))
    }
    assert found == {"create": (2000, 2000, 2000), "stat": (2000, 0, 2000), "delete": (0, 0, 2000)}
    assert [FIO.inodes(step("seq_write", o)) for o in (DATA, NEW)] == [0, 6]
    assert (FIO.leftover(step("seq_write", NEW)), FIO.work(step("seq_write", NEW))) == (None, 0)
    on_two = Step(FILES, (FIO.phases["create"],), nodes=2)
    assert (FIO.inodes(on_two), FIO.work(on_two)) == (4000, 4000)


def test_names_of_directories_are_only_names() -> None:
    for directory, argument in {
        "/a b": "/a b", "/a:b": "/a\\:b", "/a\\b": "/a\\b", "/a\\:b": "/a\\\\:b", "/$HOME;'\"*": "/$HOME;'\"*",
    }.items():  # fmt: skip
        assert FIO.argv(step("seq_read"), directory, 1)[2] == f"--directory={argument}"


def test_a_version_before_3_18_is_not_fit() -> None:
    assert FIO.version("fio-3.33\n") == "fio-3.33" and FIO.version("") == "unknown"
    assert all(FIO.unfit(old) for old in ("fio-2.21", "fio-3.1", "fio-3.9", "fio-3.17", "fio-3.17-dirty"))
    assert not any(FIO.unfit(fit) for fit in ("fio-3.18", "fio-3.20", "fio-3.42", "fio-4.0"))


# What the real fio makes of them.


@pytest.mark.local
def test_fio_takes_the_command_of_every_phase_and_says_what_was_asked(fio: Path, tmp_path: Path) -> None:
    """The options in its JSON are those asked for, and its logs are there; no word on rates or times."""
    small = DATA | {"file_size": 1 << 16, "files_per_thread": 2, "o_direct": False, "data": "random"}
    prepare = FIO.file_set(step("rand_read", small), "fresh").prepare
    assert prepare
    data, files, logs = (tmp_path / name for name in ("data", "files", "logs"))
    data.mkdir()
    files.mkdir()
    subprocess.run(prepare(str(data)), check=True, capture_output=True, timeout=300)
    for name, phase in FIO.phases.items():
        is_data = phase.kind == "data"
        of = step(name, small if is_data else FILES | {"files_per_thread": 20}, 0.1 if is_data else None)
        logs.mkdir()
        argv = FIO.argv(of, str(data if is_data else files), 7)
        stdout = subprocess.run(argv, cwd=logs, stdout=subprocess.PIPE, check=True, timeout=300).stdout
        with safe_paths.folder(logs) as place:
            streams = read_outputs(place, FIO.outputs) | {"stdout": stdout}
        assert streams.get(series.STREAM, b"").count(b"==> ") == 2 * is_data, name
        parsed = FIO.parse(streams, of, phase)
        echo = parsed.evidence.echo
        assert parsed.problems == [] and parsed.figures["ops"] > 0, name
        assert echo and not echo.contradictions and (echo.place or "").startswith(str(tmp_path)), name
        for left in logs.iterdir():
            left.unlink()
        logs.rmdir()
