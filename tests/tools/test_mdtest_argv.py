"""The exact mdtest commands, and the combinations that are refused."""

from pathlib import Path
from typing import Any

import pytest

from campaign import document, make, problems
from iosweep.tools import Step, tools

MDTEST = tools()["mdtest"]
OPTIONS: dict[str, Any] = {"threads_per_node": 2, "files_per_thread": 1000, "unique_directory": True, "file_size": 0}
FILES = ["create", "stat", "read", "delete"]
DIRECTORIES = ["dir_create", "dir_stat", "dir_rename", "dir_delete"]


def step(phases: list[str], nodes: int = 1, **options: Any) -> Step:
    return Step(OPTIONS | options, tuple(MDTEST.phases[phase] for phase in phases), nodes)


@pytest.mark.parametrize(
    ("phases", "options", "expected"),
    [
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
    ],
)
def test_the_command(phases: list[str], options: dict[str, Any], expected: str) -> None:
    ranks = "--saveRankPerformanceDetails=ranks.csv"
    whole = f"mdtest -i 1 -n 1000 -N 1 {expected} {ranks} -d /t"
    assert MDTEST.argv(step(phases, **options), "/t", 7) == whole.split()


def test_one_command_measures_all_phases_of_a_point(tmp_path: Path) -> None:
    (point,) = make(tmp_path, document(**SWEEP)).points
    (only,) = point.steps()
    assert [p.name for p in only.phases] == FILES == [p.name for p in point.measured()]
    assert (only.name, only.tasks, only.time_s) == ("create", 2, None)


def test_a_fresh_directory_for_every_repetition() -> None:
    files = MDTEST.file_set(step(FILES), "fresh/x-r2")
    assert (files.directory, files.role, files.of_all_nodes) == ("fresh/x-r2", "fresh", True)


def test_what_is_left_and_what_is_made() -> None:
    assert MDTEST.leftover(step(FILES)) == 0
    assert MDTEST.leftover(step(["create", "stat"], nodes=2)) == 4000
    assert MDTEST.leftover(step(DIRECTORIES)) is None
    assert MDTEST.inodes(step(FILES)) >= 2000 + 2
    assert MDTEST.work(step(DIRECTORIES + FILES)) == 2000 * 8


SWEEP: dict[str, Any] = {
    "tool": "mdtest", "phases": FILES, "axes": {"threads_per_node": [2]}, "options": {"files_per_thread": 1000},
    "phase_time": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"phases": ["stat", "create"]}, "mdtest's phases go in the order"),
        ({"phases": ["stat", "delete"]}, "put these first"),
        ({"phases": ["dir_create", "dir_rename"]}, "dir_rename is only measured together with all other phases"),
        ({"phases": ["dir_create", "dir_stat", "create"]}, "name the same phases for both, or write two sweeps"),
        ({"phase_time": "60s"}, "phase_time: has no effect on create, stat, read, delete: a count bounds them"),
        ({"phase_time": "one_pass"}, "has no effect"),
        ({"options": {"files_per_thread": 1}}, "not a whole number from 2"),
        ({"options": {"transfer_size": "4k"}}, "unknown key `transfer_size`"),
        ({"phases": DIRECTORIES, "options": {"file_size": "4k"}}, "`file_size` has no effect on"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    found = problems(tmp_path, document(**SWEEP | changes), make)
    assert len(found) == 1 and said in found[0], found


def test_an_at_sign_in_the_target_is_refused(tmp_path: Path) -> None:
    configured = document(**SWEEP)
    configured["target"] = {"directory": "/mnt/a@b"}
    found = problems(tmp_path, configured, make)
    assert len(found) == 1 and "splits it into two directories" in found[0], found


def test_versions() -> None:
    assert MDTEST.version("WARNING: DUMMY initialized\n--\n\nmdtest-4.0.0 was launched with 1 total") == "4.0.0"
    assert MDTEST.version("mdtest- was launched") == "unknown"
    assert all("4.0 or newer" in (MDTEST.unfit(old) or "") for old in ("1.9.3", "3.3.0"))
    assert MDTEST.unfit("4.0.0") is None and MDTEST.unfit("4.1.0+dev") is None
