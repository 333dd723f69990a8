"""Results decide what is measured: best points are confirmed, and ramps end; also after a run that was stopped."""

from pathlib import Path
from typing import Any

import pytest

from campaign import SWEEP
from iosweep.errors import ExitCode
from machine import Scripted

CONFIRMED: dict[str, Any] = SWEEP | {
    "phases": ["rand_read"],
    "axes": {"transfer_size": ["4k", "64k"]},
    "options": {"file_size": "256k"},
    "confirm": 3,
}
CLIMBED: dict[str, Any] = SWEEP | {
    "phases": ["rand_read"],
    "axes": {"threads_per_node": [1, 2, 4, 8, 16, 32, 64]},
    "options": {"file_size": "64k", "transfer_size": "4k"},
    "ramp": "threads_per_node",
    "phase_time": "10s",
    "repetitions": 2,
}
#: A device that does 25 I/Os per second and worker, and 100 in all.
CLOSED_LOOP = [{"when": f"--numjobs={n} ", "ops_per_s": 25 * n} for n in (1, 2)] + [{"ops_per_s": 100}]


def times(made: Scripted) -> dict[str, int]:
    """Stored file -> when it was written."""
    return {name: (made.results / "points" / name).stat().st_mtime_ns for name in made.files()}


@pytest.mark.parametrize("stop", [False, True])
def test_the_best_point_is_measured_again_as_often_as_asked(tmp_path: Path, stop: bool) -> None:
    made = Scripted(tmp_path, CONFIRMED)
    made.machine.play({"when": "--bs=65536", "ops_per_s": 1000})
    if stop:
        made.stopped_at(3)  # the second that confirms
    before = times(made)
    made.measure()
    confirms: dict[int, list[bool]] = {}
    for row in sorted(made.rows(), key=lambda row: row["repetition"]):
        confirms.setdefault(row["transfer_size_bytes"], []).append(row["confirms"])
    # reads at random are known by their rate, and not by their bandwidth
    assert confirms == {4096: [False, True, True, True], 65536: [False]}
    assert {row["verdict"] for row in made.rows()} == {"valid"}
    assert times(made).items() >= before.items()
    after = times(made)
    made.measure()  # nothing is left
    assert times(made) == after


@pytest.mark.parametrize("stop", [False, True])
def test_a_ramp_ends_where_the_device_is_saturated(tmp_path: Path, stop: bool) -> None:
    made = Scripted(tmp_path, CLIMBED)
    made.machine.play(*CLOSED_LOOP)
    if stop:
        made.stopped_at(2)
        assert any(row["left"] for row in made.rows())
    made.measure()
    rows = {(row["threads_per_node"], row["repetition"]): row for row in made.rows()}
    measured = {threads for (threads, _), row in rows.items() if row["verdict"] == "valid"}
    assert measured == {1, 2, 4, 8, 16, 64}
    above = rows[32, None]
    assert (above["verdict"], above["left"], above["unneeded"]) == ("missing", False, True)
    assert {number for threads, number in rows if threads in measured} == {1, 2}
    files = made.files()
    made.measure()
    assert made.files() == files


def test_each_session_has_an_allocation_that_measures_its_rounds(tmp_path: Path) -> None:
    made = Scripted(tmp_path, CONFIRMED | {"repetitions": 2, "confirm": 1}, sessions=2)
    made.machine.play({"when": "--bs=65536", "ops_per_s": 1000})
    made.measure()
    first = times(made)
    assert {(row["repetition"], row["left"]) for row in made.rows() if row["verdict"] == "missing"} == {
        (10_001, True),
        (10_002, True),
    }
    manifest = made.manifest.read_bytes()
    made.measure("--allocation", "1-node-session2")
    confirms: dict[int, list[bool]] = {}
    for row in sorted(made.rows(), key=lambda row: row["repetition"]):
        confirms.setdefault(row["transfer_size_bytes"], []).append(row["confirms"])
    assert confirms == {4096: [False, False, True] * 2, 65536: [False] * 4}
    assert {row["verdict"] for row in made.rows()} == {"valid"}
    assert times(made).items() > first.items()
    made.measure()  # nothing is left, and its manifest is as it was
    assert made.manifest.read_bytes() == manifest


def test_a_run_without_time_for_another_repetition_ends_with_what_it_has(tmp_path: Path) -> None:
    sweep = SWEEP | {"phases": ["rand_read"], "phase_time": "10s", "repetitions": 3}
    made = Scripted(tmp_path, sweep, limits={"time": "25s", "fill": "100%"})
    made.measure(code=ExitCode.LIMIT_SPENT)
    assert [row["verdict"] for row in made.rows()].count("valid") == 2
    assert all(row["left"] for row in made.rows() if row["verdict"] == "missing")
