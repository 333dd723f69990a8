"""The exact mdtest commands, and the combinations that are refused."""

from pathlib import Path
from typing import Any

from syrupy.assertion import SnapshotAssertion

from campaign import document, make, problems
from iosweep.tools import Step, tools

MDTEST = tools()["mdtest"]
OPTIONS: dict[str, Any] = {"threads_per_node": 2, "files_per_thread": 1000, "unique_directory": True, "file_size": 0}
FILES = ["create", "stat", "read", "delete"]
DIRECTORIES = ["dir_create", "dir_stat", "dir_rename", "dir_delete"]


def step(phases: list[str], nodes: int = 1, **options: Any) -> Step:
    return Step(OPTIONS | options, tuple(MDTEST.phases[phase] for phase in phases), nodes)


def test_the_command_of_every_set_of_phases() -> None:
    for phases, options, expected in (
        (FILES, {}, "-F -u"),
        (DIRECTORIES, {}, "-D -u"),
        (DIRECTORIES + FILES, {}, "-u"),
        (DIRECTORIES + FILES, {"unique_directory": False}, ""),
        (["create", "stat", "delete"], {}, "-F -C -T -r -u"),
        (["create"], {}, "-F -C -u"),
        (["dir_create", "dir_stat", "dir_delete"], {}, "-D -C -T -r -u"),
        (["dir_create", "dir_delete", "create", "read", "delete"], {}, "-C -E -r -u"),
        (FILES, {"file_size": 3901}, "-F -u -w 3901 -e 3901"),
        (["create", "delete"], {"file_size": 3901}, "-F -C -r -u -w 3901"),
    ):
        ranks = "--saveRankPerformanceDetails=ranks.csv"
        whole = f"mdtest -i 1 -n 1000 -N 1 {expected} {ranks} -d /t"
        assert MDTEST.argv(step(phases, **options), "/t", 7) == whole.split(), phases


def test_one_command_measures_all_phases_of_a_point(tmp_path: Path) -> None:
    (point,) = make(tmp_path, document(**SWEEP)).points
    (only,) = point.steps()
    assert [p.name for p in only.phases] == FILES == [p.name for p in point.measured()]
    assert (only.name, only.tasks, only.time_s) == ("create", 2, None)


def test_what_a_command_leaves_and_makes_in_a_fresh_directory() -> None:
    files = MDTEST.file_set(step(FILES), "fresh/x-r2")
    assert (files.directory, files.role, files.of_all_nodes) == ("fresh/x-r2", "fresh", True)
    left = [MDTEST.leftover(one) for one in (step(FILES), step(["create", "stat"], nodes=2), step(DIRECTORIES))]
    assert left == [0, 4000, None]
    assert MDTEST.inodes(step(FILES)) >= 2000 + 2
    assert MDTEST.work(step(DIRECTORIES + FILES)) == 2000 * 8


SWEEP: dict[str, Any] = {
    "tool": "mdtest", "phases": FILES, "axes": {"threads_per_node": [2]}, "options": {"files_per_thread": 1000},
    "phase_time": None,
}  # fmt: skip


def test_what_cannot_be_is_refused(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    said = []
    for changes in (
        {"phases": ["stat", "create"]},
        {"phases": ["stat", "delete"]},
        {"phases": ["dir_create", "dir_rename"]},
        {"phases": ["dir_create", "dir_stat", "create"]},
        {"phase_time": "60s"},
        {"phase_time": "one_pass"},
        {"options": {"files_per_thread": 1}},
        {"options": {"transfer_size": "4k"}},
        {"phases": DIRECTORIES, "options": {"file_size": "4k"}},
    ):
        found = problems(tmp_path, document(**SWEEP | changes), make)
        assert len(found) == 1, (changes, found)
        said.append(found[0].replace(str(tmp_path), "PLACE"))
    # `a@b` is two directories to mdtest
    (found_at,) = problems(tmp_path, document(**SWEEP) | {"target": {"directory": "/mnt/a@b"}}, make)
    assert "\n".join([*said, found_at.replace(str(tmp_path), "PLACE")]) == snapshot


def test_a_version_before_4_0_is_not_fit() -> None:
    assert MDTEST.version("WARNING: DUMMY initialized\n--\n\nmdtest-4.0.0 was launched with 1 total") == "4.0.0"
    assert MDTEST.version("mdtest- was launched") == "unknown"
    versions = ("1.9.3", "3.3.0", "4.0.0", "4.1.0+dev")
    assert [bool(MDTEST.unfit(version)) for version in versions] == [True, True, False, False]
