"""Suites: ready sweeps, as they are, under upper bounds, and on other nodes; and their commands."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from syrupy.assertion import SnapshotAssertion

from campaign import make, read
from iosweep import dag
from iosweep.commands import plan
from iosweep.config import criteria, sweeps
from iosweep.config.sweeps import RepetitionRule
from iosweep.jobs.profile import Profile
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Allocation


def suite(tmp_path: Path, entry: dict[str, Any]) -> sweeps.Config:
    return read(
        tmp_path, {"campaign": "c", "target": {"directory": "/t"}, "sweeps": [{"suite": "four-corners"} | entry]}
    )


def test_a_suite_keeps_its_own_values_unless_nodes_and_repetitions_are_given(tmp_path: Path) -> None:
    found = suite(tmp_path, {})
    assert [(s.name, s.scaled, s.suite) for s in found.sweeps] == [
        ("four-corners.small-block", False, "four-corners"),
        ("four-corners.large-block", False, "four-corners"),
    ]
    small = found.sweeps[0]
    assert small.axes == {"queue_depth": (1, 2, 4, 8, 16, 32)}
    assert (small.options["file_size"], small.phase_time_s) == (16 << 30, 300)
    assert (small.repetitions.confirm, small.ramp) == (3, "queue_depth")
    assert [Path(d.file).name for d in found.documents] == ["x.yaml", "four-corners.yaml"]  # both are provenance
    for sweep in suite(tmp_path, {"nodes": [1, 2, 2], "repetitions": 5}).sweeps:
        assert (sweep.axes["nodes"], sweep.scaled) == ((1, 2), False)
        assert sweep.repetitions == RepetitionRule(5, 5, None, confirm=3)


def test_a_suite_is_scaled_by_bounds_that_change_something(tmp_path: Path) -> None:
    """One that is scaled does not compare with the published figures."""
    for sweep in suite(tmp_path, {"scale": "laptop"}).sweeps:
        assert sweep.scaled
        assert sweep.axes == {"queue_depth": (1, 2, 4, 8)}  # 16 and 32 became 8, once
        assert (sweep.options["threads_per_node"], sweep.options["file_size"]) == (2, 64 << 20)
        assert (sweep.phase_time_s, sweep.repetitions) == (1.0, RepetitionRule(3, 3, None, confirm=3))
    nothing: list[dict[str, Any]] = [
        {"phase_time": "300s"},
        {"phase_time": "2h", "queue_depth": 32, "threads_per_node": 8, "file_size": "16g", "repetitions": 3},
        {"files_per_thread": 1},
    ]
    something: list[dict[str, Any]] = [
        {"phase_time": "299s"}, {"queue_depth": 31}, {"threads_per_node": 7}, {"file_size": "1g"}, {"repetitions": 2},
    ]  # fmt: skip
    for scale in nothing + something:
        scaled = [s.scaled for s in suite(tmp_path, {"scale": scale}).sweeps]
        assert scaled == [scale in something] * 2, scale


# Every suite that comes with the project

SUITES = sorted(file.stem for file in criteria.SUITES.glob("*.yaml"))
TIB = 1 << 40


def entry(directory: Path, *suites: str, limits: bool = True, **keys: Any) -> dict[str, Any]:
    """A configuration of these suites, whose target is not there."""
    made: dict[str, Any] = {"campaign": "c", "target": {"directory": str(directory / "absent")}}
    if limits:
        made["limits"] = {"bytes_written": "1p"}
    return made | {"sweeps": [{"suite": name} | keys for name in suites]}


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_is_planned_at_full_size_without_touching_the_target(tmp_path: Path, name: str) -> None:
    """The target is not there. What `snakemake -n` asks: all that a launcher reaches is left."""
    made = make(tmp_path, entry(tmp_path, name))
    for key, launcher in LAUNCHERS.items():
        found = list(plan.commands(made, launcher))
        assert len(found) == sum(p.repetitions.min * len(p.steps) for p in made.points)
        assert all(isinstance(word, str) for _, _, argv in found for word in argv)
        left = dag.load(tmp_path / "x.yaml", tmp_path / "results", Profile(given={"launcher": key}, slurm=False)).left
        reached = {a.name for a in made.allocations if any(launcher.lacks(point) is None for point in a.points)}
        assert set(left) == reached, key
    assert sorted(f.name for f in tmp_path.iterdir()) == ["x.yaml"]
    unlimited = read(tmp_path, entry(tmp_path, name, limits=False))
    over = forecast.over_limits(make_plan(unlimited), unlimited.documents[0])
    if forecast.forecast_of(made).bytes_written > 10 * TIB:  # what writes much needs limits
        assert [error.where for error in over] == ["limits.bytes_written"]
    else:
        assert not over


@pytest.mark.parametrize("name", SUITES)
def test_the_commands_of_a_suite(tmp_path: Path, name: str, snapshot: SnapshotAssertion) -> None:
    """Of the first point of each sweep. How they differ from those of the source is in docs/suites.md."""
    made, lines = make(tmp_path, entry(tmp_path, name)), []
    for sweep in made.sweeps:
        points = tuple(point for point in made.points if point.id == sweep.points[0])
        once = structs.replace(made, allocations=(Allocation("", points[0].nodes, points),))
        argvs = [a for _, number, a in plan.commands(once, LAUNCHERS["mpiexec"]) if number == 1]
        lines += [f"# {sweep.name}", *(shlex.join(argv) for argv in argvs)]
    target = made.targets[""].directory
    assert "\n".join(lines).replace(target, "TARGET") == snapshot


# On one machine

SMALL = {"phase_time": "1s", "repetitions": 3, "threads_per_node": 2, "queue_depth": 8, "files_per_thread": 10_000}


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_fits_one_machine_when_it_is_scaled(tmp_path: Path, name: str) -> None:
    assert {p.nodes for p in make(tmp_path, entry(tmp_path, name, nodes=[3])).points} == {3}
    own: Any = SMALL | {"file_size": "128m"}
    for scale, file_size in (("laptop", 64 << 20), (own, 128 << 20)):
        configured = read(tmp_path, entry(tmp_path, name, limits=False, scale=scale, nodes=[1]))
        assert all(sweep.scaled for sweep in configured.sweeps)
        made = make_plan(configured)
        assert not forecast.over_limits(made, configured.documents[0])
        for point in made.points:
            assert int(point.options["threads_per_node"] or 0) <= 2
            assert int(point.options.get("file_size") or 0) <= file_size
            assert point.repetitions.max <= 3
            assert point.phase_time_s in (None, 1.0)  # whole seconds, as IOR wants them
        cost = forecast.forecast_of(made)
        assert cost.peak_bytes <= 5 << 30
        assert cost.time_s < 300
