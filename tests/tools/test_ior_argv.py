"""The exact IOR commands, the file sets they work on, and the combinations that are refused."""

from pathlib import Path
from typing import Any

import pytest

from campaign import document, make, problems
from iosweep.plan.model import file_set
from iosweep.tools import Step, tools

IOR = tools()["ior"]
OPTIONS: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 65536, "file_size": 1 << 23, "file_per_process": True, "api": "POSIX",
    "collective": False, "o_direct": True, "fsync": True, "write_mode": "overwrite", "data": "random",
}  # fmt: skip
LAST = "-o /t/data -O summaryFile=summary.json,summaryFormat=JSON"
SIZES = "-b 8388608 -t 65536 -k"
TIMED = "-D 2 -O minTimeDuration=2"


def step(phase: str, time_s: float | None = 2.0, nodes: int = 1, **options: Any) -> Step:
    return Step(OPTIONS | options, (IOR.phases[phase],), nodes, time_s)


@pytest.mark.parametrize(
    ("phase", "options", "expected"),
    [
        ("seq_read", {}, f"-a POSIX -F --posix.odirect {SIZES} -r -C {TIMED}"),
        ("rand_read", {}, f"-a POSIX -F --posix.odirect {SIZES} -z --random-offset-seed=8 -r -C {TIMED}"),
        ("seq_write", {}, f"-a POSIX -F --posix.odirect {SIZES} -w -E -e -l random -G 8 {TIMED}"),
        ("rand_write", {},
         f"-a POSIX -F --posix.odirect {SIZES} -z --random-offset-seed=8 -w -E -e -l random -G 8 {TIMED}"),
        # what is there is unlinked first
        ("seq_write", {"write_mode": "new"}, f"-a POSIX -F --posix.odirect {SIZES} -w -e -l random -G 8 {TIMED}"),
        ("seq_write", {"data": "tool_default", "fsync": False}, f"-a POSIX -F --posix.odirect {SIZES} -w -E {TIMED}"),
        ("seq_read", {"file_per_process": False}, f"-a POSIX --posix.odirect {SIZES} -r -C {TIMED}"),
        # IOR refuses -C here; random offsets of a shared file are anybody's
        ("rand_read", {"file_per_process": False},
         f"-a POSIX --posix.odirect {SIZES} -z --random-offset-seed=8 -r {TIMED}"),
        ("seq_read", {"api": "MPIIO", "collective": True, "o_direct": False, "file_per_process": False},
         f"-a MPIIO -c {SIZES} -r -C {TIMED}"),
    ],
)  # fmt: skip
def test_the_command_of_every_phase(phase: str, options: dict[str, Any], expected: str) -> None:
    assert IOR.argv(step(phase, **options), "/t", 7) == f"ior {expected} {LAST}".split()


def test_one_pass_has_no_deadline() -> None:
    argv = IOR.argv(step("seq_write", None, write_mode="new"), "/t", 7)
    assert "-D" not in argv and not any("minTimeDuration" in word for word in argv)
    assert argv[-1] == "summaryFile=summary.json,summaryFormat=JSON,saveRankPerformanceDetailsCSV=ranks.csv"


def test_the_deadline_and_the_least_duration_are_one() -> None:
    # IOR with a longer least duration stops at the deadline and spins, with a shorter one after its files
    argv = IOR.argv(step("rand_read", 60.0), "/t", 7)
    assert argv[argv.index("-D") + 1] == "60" and "minTimeDuration=60" in argv


@pytest.mark.parametrize("seed", [0, 7, 2**30 - 1, 2**31 - 1])
def test_seeds_stay_where_ranks_can_be_added_to_them(seed: int) -> None:
    argv = IOR.argv(step("rand_write"), "/t", seed)
    given = int(argv[argv.index("-G") + 1])
    assert 0 < given <= 1 << 30  # 0 is IOR's own, the same in every run
    assert f"--random-offset-seed={given}" in argv


def test_sets_of_separate_files_are_shared_by_points() -> None:
    few, many = (IOR.file_set(step("seq_read", threads_per_node=n), "fresh/x") for n in (2, 4))
    assert few.directory == many.directory == "sets/ior-read-8m"
    assert few.files == ("data.00000000", "data.00000001")
    assert (few.file_size_bytes, few.role, few.of_all_nodes, many.prepare_tasks) == (1 << 23, "read", True, 4)
    assert IOR.file_set(step("seq_write"), "fresh/x").directory == "sets/ior-write-8m"


def test_a_shared_file_is_as_large_as_its_ranks_make_it() -> None:
    one, other = (IOR.file_set(step("seq_read", threads_per_node=n, file_per_process=False), "f") for n in (2, 4))
    assert one.directory == "sets/ior-read-8m-shared-2" != other.directory
    assert (one.files, one.file_size_bytes) == (("data",), 2 << 23)


def test_over_several_nodes_the_writers_of_a_set_are_known() -> None:
    wide, narrow = (IOR.file_set(step("seq_read", nodes=2, threads_per_node=n), "f").directory for n in (4, 2))
    assert wide == "sets/ior-read-8m-2n4t" != narrow
    assert "-C" in IOR.argv(step("seq_read", nodes=2), "/t", 7)


def test_new_files_are_of_this_repetition() -> None:
    files = IOR.file_set(step("seq_write", write_mode="new"), "fresh/x-r1")
    assert (files.directory, files.role) == ("fresh/x-r1/seq_write", "fresh")
    assert IOR.inodes(step("seq_write", write_mode="new")) == 2
    assert IOR.inodes(step("seq_write", write_mode="new", file_per_process=False)) == 1
    assert IOR.inodes(step("seq_write")) == 0


def test_what_is_read_was_written_completely_with_random_data() -> None:
    files = IOR.file_set(step("seq_read"), "f")
    assert files.prepare
    argv = files.prepare("/t")
    assert argv[:10] == ["ior", "-a", "POSIX", "-F", "-b", "8388608", "-t", "1048576", "-w", "-k"]
    assert argv[argv.index("-l") + 1] == "random" and "-e" in argv and "-D" not in argv
    # other data for each set: equal data in two sets would deduplicate
    assert argv[argv.index("-G") + 1] != files.prepare("/u")[argv.index("-G") + 1]


def test_a_failed_preparation_is_told() -> None:
    files = IOR.file_set(step("seq_read"), "f")
    assert files.prepared({"stdout": b"Writing output to summary.json\n"}) is None
    said = b"x\nERROR: open64(...) failed. Error: Permission denied, (aiori-POSIX.c:569)\n"
    assert "Permission denied" in (files.prepared({"stdout": said}) or "")


SWEEP: dict[str, Any] = {
    "tool": "ior", "phases": ["seq_write", "rand_read"], "axes": {"threads_per_node": [1]},
    "options": {"file_size": "8m", "transfer_size": "64k"}, "phase_time": "2s",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phase_time": "500ms"}, "phase_time 0.5 s is not in whole seconds, as IOR counts"),
        ({"phase_time": "2500ms"}, "is not in whole seconds"),
        ({"options": {"file_size": "1m", "transfer_size": "4m"}}, "transfer_size 4m is larger than file_size 1m"),
        ({"options": {"file_size": "10m", "transfer_size": "4m"}}, "not a multiple of transfer_size 4m"),
        ({"options": {"file_size": "4m", "transfer_size": "4m"}}, "rand_read needs a file_size above transfer_size 4m"),
        ({"options": {"api": "MPIIO"}}, "o_direct has no effect with api MPIIO; set o_direct: false"),
        ({"options": {"collective": True}}, "collective has no effect with api POSIX"),
        ({"options": {"transfer_size": 1000, "file_size": 8000}}, "not a multiple of 512, which O_DIRECT needs"),
        (
            {"options": {"api": "MPIIO", "collective": True, "o_direct": False, "file_per_process": False}},
            "rand_read cannot be had with collective calls",
        ),
        ({"options": {"api": "MPIIO", "o_direct": False}}, "write_mode overwrite cannot be had with api MPIIO"),
        (
            {
                "options": {"api": "MPIIO", "collective": True, "o_direct": False, "write_mode": "new"},
                "phases": ["seq_write"],
            },
            "collective calls with a phase_time hang now and then",
        ),
        ({"options": {"queue_depth": 4}}, "unknown key `queue_depth`"),
        ({"phases": ["rand_mixed"]}, "unknown value `rand_mixed`"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    found = problems(tmp_path, document(**SWEEP | changes), make)
    assert len(found) == 1 and said in found[0], found


@pytest.mark.parametrize(
    ("directory", "said"), [("/mnt/a@b", "splits it into two files"), ('/mnt/a"b', "breaks IOR's JSON")]
)
def test_directories_that_ior_cannot_use_are_refused(tmp_path: Path, directory: str, said: str) -> None:
    configured = document(**SWEEP)
    configured["target"] = {"directory": directory}
    found = problems(tmp_path, configured, make)
    assert len(found) == 1 and "target.directory" in found[0] and said in found[0], found


def test_a_relative_directory_is_looked_at_as_it_will_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """IOR would have written beside it: `user@corp/x` is two files to it."""
    (tmp_path / "user@corp").mkdir()
    monkeypatch.chdir(tmp_path / "user@corp")
    configured = document(**SWEEP)
    configured["target"] = {"directory": "."}
    found = problems(tmp_path, configured, make)
    assert len(found) == 1 and f"is {tmp_path}/user@corp, which contains `@`" in found[0], found


@pytest.mark.parametrize("directory", ["/mnt/a b", "/mnt/a$HOME;'b", "/mnt/a,b=c#d", "/mnt/-rf", "/mnt/ü"])
def test_other_strange_names_are_words_of_their_own(tmp_path: Path, directory: str) -> None:
    configured = document(**SWEEP)
    configured["target"] = {"directory": directory}
    (point,) = make(tmp_path, configured).points
    argv = IOR.argv(point.steps()[0], f"{directory}/x", 1)
    assert argv[argv.index("-o") + 1] == f"{directory}/x/data"


def test_a_step_for_every_phase(tmp_path: Path) -> None:
    (point,) = make(tmp_path, document(**SWEEP)).points
    assert [s.name for s in point.steps()] == ["seq_write", "rand_read"]
    assert file_set(point, point.steps()[1]).role == "read"


def test_versions() -> None:
    assert IOR.version("x\nIOR-4.0.0: MPI Coordinated Test of Parallel I/O\n") == "4.0.0"
    assert IOR.version("IOR-4.1.0+dev: MPI") == "4.1.0+dev"
    assert IOR.version("Error invalid argument: --version") == "unknown"
    assert "4.0 or newer is needed" in (IOR.unfit("3.3.0") or "")
    assert IOR.unfit("4.0.0") is None and IOR.unfit("4.1.0+dev") is None
