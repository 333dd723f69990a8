"""Suites: ready sweeps, as they are, under upper bounds, and on other nodes; and the commands they reproduce."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from campaign import document, make, problems, read
from iosweep import dag
from iosweep.commands import plan
from iosweep.config import models, sweeps
from iosweep.config.sweeps import Repetitions
from iosweep.errors import ConfigError
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Allocation, Point
from iosweep.tools import Step
from seed_commands import (
    ANY,
    DIFFERENCES,
    LAUNCHER_DIFFERENCES,
    SEEDS,
    WEKA_SECTIONS,
    Command,
    Seed,
    parse,
)


def suite(tmp_path: Path, entry: dict[str, Any]) -> sweeps.Config:
    return read(
        tmp_path, {"campaign": "c", "target": {"directory": "/t"}, "sweeps": [{"suite": "four-corners"} | entry]}
    )


def test_a_suite_keeps_its_own_values(tmp_path: Path) -> None:
    found = suite(tmp_path, {})
    assert [s.name for s in found.sweeps] == ["four-corners.small-block", "four-corners.large-block"]
    assert [s.scaled for s in found.sweeps] == [False, False]
    assert [s.suite for s in found.sweeps] == ["four-corners"] * 2
    small = found.sweeps[0]
    assert small.axes == {"queue_depth": (1, 2, 4, 8, 16, 32)}
    assert small.options["file_size"] == 16 << 30
    assert small.phase_time_s == 300
    assert "Micron" in str(small.source)
    assert (small.repetitions.confirm, small.ramp) == (3, "queue_depth")
    assert [Path(d.file).name for d in found.documents] == ["x.yaml", "four-corners.yaml"]  # both are provenance


def test_a_scaled_suite(tmp_path: Path) -> None:
    for sweep in suite(tmp_path, {"scale": "laptop"}).sweeps:
        assert sweep.scaled
        assert sweep.axes == {"queue_depth": (1, 2, 4, 8)}  # 16 and 32 became 8, once
        assert sweep.options["threads_per_node"] == 2
        assert sweep.options["file_size"] == 64 << 20
        assert sweep.phase_time_s == 1.0
        assert sweep.repetitions == Repetitions(1, 1, None, confirm=1)


@pytest.mark.parametrize(
    "scale",
    [
        {"phase_time": "300s"},
        {"phase_time": "2h", "queue_depth": 32, "threads_per_node": 8, "file_size": "16g", "repetitions": 3},
        {"files_per_thread": 1},
    ],
)
def test_bounds_that_change_nothing_do_not_make_a_scaled_suite(tmp_path: Path, scale: dict[str, Any]) -> None:
    # one that is scaled does not compare with the published figures
    assert [s.scaled for s in suite(tmp_path, {"scale": scale}).sweeps] == [False, False]


@pytest.mark.parametrize(
    "scale",
    [{"phase_time": "299s"}, {"queue_depth": 31}, {"threads_per_node": 7}, {"file_size": "1g"}, {"repetitions": 2}],
)
def test_bounds_that_change_something_do(tmp_path: Path, scale: dict[str, Any]) -> None:
    assert [s.scaled for s in suite(tmp_path, {"scale": scale}).sweeps] == [True, True]


def test_a_suite_on_other_nodes_and_more_often(tmp_path: Path) -> None:
    for sweep in suite(tmp_path, {"nodes": [1, 2, 2], "repetitions": 5}).sweeps:
        assert sweep.axes["nodes"] == (1, 2)
        assert sweep.repetitions == Repetitions(5, 5, None, confirm=3)
        assert not sweep.scaled


@pytest.fixture
def own_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A suite of one sweep, with these keys in it."""
    monkeypatch.setattr(models, "SUITES", tmp_path / "suites")
    (tmp_path / "suites").mkdir()

    def write(**sweep: Any) -> dict[str, Any]:
        made = {"description": "d", "source": "s", "sweeps": document(**sweep)["sweeps"]}
        (tmp_path / "suites" / "own.yaml").write_text(yaml.safe_dump(made, sort_keys=False))
        return {"campaign": "c", "target": {"directory": "/t"}, "sweeps": [{"suite": "own"}]}

    return write


def test_an_error_in_a_suite_names_the_suite(tmp_path: Path, own_suite: Any) -> None:
    [problem] = problems(tmp_path, own_suite(phase_time="5"))
    where = f"{tmp_path}/suites/own.yaml:21: sweeps[0].phase_time"
    assert (
        problem
        == f'{where}: "5" is not a duration; write a number with its unit ms, s, min, h or d, for example 60s or 2h;'
        " or one_pass, which needs none"
    )


def test_a_default_above_the_bound_is_scaled_too(tmp_path: Path, own_suite: Any) -> None:
    made = own_suite(options=None)
    made["sweeps"][0]["scale"] = {"file_size": "64m"}
    [sweep] = read(tmp_path, made).sweeps
    assert sweep.options == {"file_size": 64 << 20}  # 1g is the default
    assert sweep.scaled


# Every suite that comes with the project

SUITES = sorted(file.stem for file in models.SUITES.glob("*.yaml"))
TIB = 1 << 40


def entry(directory: Path, *suites: str, limits: bool = True, **keys: Any) -> dict[str, Any]:
    """A configuration of these suites, whose target is not there."""
    made: dict[str, Any] = {"campaign": "c", "target": {"directory": str(directory / "absent")}}
    if limits:
        made["limits"] = {"bytes_written": "1p"}
    return made | {"sweeps": [{"suite": name} | keys for name in suites]}


def comments(name: str) -> list[str]:
    lines = (models.SUITES / f"{name}.yaml").read_text().splitlines()
    return [line for line in lines if line.startswith("#")]


def explained(name: str) -> set[str]:
    """Options in the first column of a suite's tables of differences: `#   option, option  why`."""
    rows = [re.match(r"#   (\S.*?)  +\S", line) for line in comments(name)]
    return {option for row in rows if row for option in row[1].split(", ")}


#: Those that reproduce the commands of a source; the others are ours.
SOURCED = sorted(DIFFERENCES)


def test_the_suites_are_those_that_are_compared_here() -> None:
    assert set(SUITES) - {"node-check"} == set(SOURCED) == {seed.suite for seed in SEEDS}


@pytest.mark.parametrize("launcher", sorted(LAUNCHERS))
@pytest.mark.parametrize("name", SUITES)
def test_commands_at_full_size(tmp_path: Path, name: str, launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(tmp_path, entry(tmp_path, name))

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    found = list(plan.commands(made, LAUNCHERS[launcher]))
    assert len(found) == sum(p.repetitions.min * len(p.steps()) for p in made.points)
    assert all(isinstance(word, str) for _, _, argv in found for word in argv)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["x.yaml"]


@pytest.mark.parametrize("launcher", sorted(LAUNCHERS))
@pytest.mark.parametrize("name", SUITES)
def test_a_dry_run_at_full_size(tmp_path: Path, name: str, launcher: str) -> None:
    """What `snakemake -n` asks: nothing is measured yet, and what this launcher reaches is left."""
    made = read(tmp_path, entry(tmp_path, name))
    found = dag.load(tmp_path / "x.yaml", tmp_path / "results", launcher=launcher)
    planned = make_plan(made)
    reached = {
        allocation.name
        for allocation in planned.allocations
        if any(LAUNCHERS[launcher].lacks(point) is None for point in allocation.points)
    }
    assert set(found.left) <= {allocation.name for allocation in planned.allocations}
    assert set(found.left) == reached
    assert sorted(f.name for f in tmp_path.iterdir()) == ["x.yaml"]


@pytest.mark.parametrize("name", SUITES)
def test_what_writes_much_needs_limits(tmp_path: Path, name: str) -> None:
    made = read(tmp_path, entry(tmp_path, name, limits=False))
    if forecast.of(make_plan(made)).bytes_written > 10 * TIB:
        with pytest.raises(
            ConfigError, match=r"limits\.bytes_written: is missing: (about )?[0-9.]+ TiB would be written"
        ):
            forecast.refuse(make_plan(made), made)
    else:
        forecast.refuse(make_plan(made), made)


# Against the commands of the sources


def steps(directory: Path, name: str, **keys: Any) -> list[tuple[str, Point, Step, Command]]:
    """(sweep without its suite, point, step, our command with MPICH's launcher) of all points."""
    made = make(directory, entry(directory, name, **keys))
    found = []
    for point in made.points:
        once = structs.replace(made, allocations=(Allocation("", point.nodes, (point,)),))
        argvs = [a for _, repetition, a in plan.commands(once, LAUNCHERS["mpiexec"]) if repetition == 1]
        for step, argv in zip(point.steps(), argvs, strict=True):
            for sweep in point.sweeps:
                found.append((sweep.removeprefix(f"{name}."), point, step, parse(argv)))
    return found


def is_of(seed: Seed, sweep: str, point: Point, step: Step) -> bool:
    where = seed.where.items() <= point.options.items()
    return (seed.sweep, seed.phase) == (sweep, step.name) and where


@pytest.mark.parametrize("name", SOURCED)
def test_every_command_is_that_of_the_source_but_for_what_is_explained(tmp_path: Path, name: str) -> None:
    seeds = [seed for seed in SEEDS if seed.suite == name]
    met = []
    for sweep, point, step, ours in steps(tmp_path, name):
        [seed] = [seed for seed in seeds if is_of(seed, sweep, point, step)]
        met.append(seed)
        assert seed.command.tool == ours.tool == point.tool, seed.source
        theirs = seed.command.options
        different = {
            option: ours.options.get(option)
            for option in {*theirs, *ours.options}
            if theirs.get(option) != ours.options.get(option)
        }
        allowed = {
            d.option: d.ours
            for d in DIFFERENCES[name]
            if sweep in (d.sweeps or [sweep]) and step.name in (d.phases or [step.name])
        }
        # neither one that is not explained, nor an explanation of none
        assert set(different) == set(allowed), (point.id, seed.source)
        for option, value in allowed.items():
            if value is ANY:
                assert different[option], (point.id, option)
            else:
                assert different[option] == value, (point.id, option)
    assert {id(seed) for seed in met} == {id(seed) for seed in seeds}


@pytest.mark.parametrize("name", SOURCED)
def test_ranks_and_launchers(tmp_path: Path, name: str) -> None:
    """As many ranks as the source's on the nodes that it had; all else of its launcher is explained."""
    seen: set[str] = set()
    for sweep, point, step, ours in steps(tmp_path, name):
        [seed] = [seed for seed in SEEDS if seed.suite == name and is_of(seed, sweep, point, step)]
        if seed.command.launcher is None:
            assert ours.launcher is None
            continue
        theirs = seed.command.launcher_options
        assert theirs["-n"] == step.tasks == point.nodes * int(point.options["threads_per_node"] or 0)
        if point.nodes == 1:  # what the launcher here does not reach is shown without it
            assert ours.launcher_options["-n"] == step.tasks
        seen |= set(theirs) - {"-n"}
    assert seen == LAUNCHER_DIFFERENCES.get(name, set())


@pytest.mark.parametrize("name", SOURCED)
def test_what_the_differences_leave_the_same(tmp_path: Path, name: str) -> None:
    """Bytes of files, iterations, and what lies behind an option that fio reads otherwise."""
    for sweep, point, step, ours in steps(tmp_path, name):
        [seed] = [seed for seed in SEEDS if seed.suite == name and is_of(seed, sweep, point, step)]
        theirs = seed.command.options
        if "filesize" in theirs:
            assert ours.options["nrfiles"] == theirs.get("nrfiles", 1)
            assert ours.options["size"] == int(theirs["filesize"]) * int(ours.options["nrfiles"])
        if "-i" in theirs:
            assert point.repetitions == Repetitions(int(theirs["-i"]), int(theirs["-i"]))
        if "runtime" in theirs:
            assert point.phase_time_s == theirs["runtime"]
        if point.tool == "ior" or name == "lustre-fio":
            assert point.phase_time_s is None  # a volume, no time
        if step.phase.writes and step.phase.kind == "data":
            assert point.options["data"] == "tool_default"  # none of the sources' commands asks for another


# What they take


@pytest.mark.parametrize(
    ("name", "points", "repetitions", "written_tib", "peak_tib"),
    [
        # 24 points; the set that is read, and two writes of it at each transfer size and number of threads
        ("lustre-ior", 24, 24, 2 + 2 * 4 * (1 + 8 + 16 + 32 + 64 + 128) * 16 / 1024, 2 + 2 * 2),
        # two writes and the set that is read, of 1 TiB each
        ("lustre-fio", 3, 3, 3, 2),
    ],
)
def test_volumes(tmp_path: Path, name: str, points: int, repetitions: int, written_tib: float, peak_tib: float) -> None:
    cost = forecast.of(make(tmp_path, entry(tmp_path, name)))
    assert (cost.points, cost.repetitions) == (points, repetitions)
    assert cost.bytes_written == written_tib * TIB
    assert cost.peak_bytes == peak_tib * TIB


@pytest.mark.parametrize(
    ("name", "points", "repetitions"),
    [
        ("weka", 6 * 2 + 1, 6 * 2 * 5 + 3),
        ("everything", 6 * 2 + 1, 6 * 2 * 5 + 3),
        ("weka-small-write-latency", 1, 5),
        ("four-corners", 12, 36 + 5 * 3),
        ("mdtest", 2, 11),
        ("node-check", 2, 6),
    ],
)
def test_points(tmp_path: Path, name: str, points: int, repetitions: int) -> None:
    cost = forecast.of(make(tmp_path, entry(tmp_path, name)))
    assert (cost.points, cost.repetitions) == (points, repetitions)


@pytest.mark.parametrize("name", ["weka", "everything"])
def test_footprint_of_weka(tmp_path: Path, name: str) -> None:
    """4 TiB + 768 GiB on each client, as on its page; here for what is read, and as much for what is written."""
    sets = forecast.data_sets(make(tmp_path, entry(tmp_path, name)).points)
    for node in range(8):
        own = [s for d, s in sets.items() if (d.endswith(f".node{node}") if node else ".node" not in d)]
        for role in ("read", "write"):
            sizes = [s.size_bytes for s in own if s.role == role]
            assert sorted(sizes) == [768 << 30, 4 << 40]  # that of the latency tests is part of the first
    assert not any(d.endswith(".node8") for d in sets)


def test_metadata_of_weka(tmp_path: Path) -> None:
    [point] = [p for p in make(tmp_path, entry(tmp_path, "weka")).points if p.tool == "mdtest"]
    assert (point.nodes, point.steps()[0].tasks) == (8, 1088)
    assert 1088 * int(point.options["files_per_thread"] or 0) == 19_999_616
    assert 136 % 8 == 0  # why -N 136 shifts by nothing where it counts nodes


def test_everything_is_weka(tmp_path: Path) -> None:
    """Its description says so. Sweeps are in the order of FIOmaster, which is that of the page."""
    weka, everything = (make(tmp_path, entry(tmp_path, name)) for name in ("weka", "everything"))
    assert [p.id for p in weka.points] == [p.id for p in everything.points]
    names = [s.name.partition(".")[2] for s in everything.sweeps]
    assert names == [name.replace("_", "-") for name in WEKA_SECTIONS] + ["metadata"]
    assert [s.name.partition(".")[2] for s in weka.sweeps] == names


def test_a_node_check_is_the_same_short_test_on_one_node_alone(tmp_path: Path) -> None:
    """It compares nodes, so the page cache has no part, and no storage can compress more for one than for another."""
    made = make(tmp_path, entry(tmp_path, "node-check"))
    assert [s.suite for s in made.sweeps] == ["node-check"] * 2
    for point in made.points:
        assert (point.nodes, point.phase_time_s, point.repetitions) == (1, 15, Repetitions(3, 3))
        assert (point.options["o_direct"], point.options["data"]) == (True, "random")
    phases = {phase.name for point in made.points for phase in point.measured()}
    assert phases == {"seq_write", "seq_read", "rand_write", "rand_read"}
    cost = forecast.of(made)
    assert cost.time_s < 300
    assert cost.peak_bytes == 16 << 30  # both points share their files


def test_suites_share_what_is_the_same(tmp_path: Path) -> None:
    made = make(tmp_path, entry(tmp_path, "weka", "everything", "mdtest"))
    assert len(made.points) == 13 + 1
    [shared] = [p for p in made.points if p.tool == "mdtest" and p.nodes == 8]
    assert shared.sweeps == ("everything.metadata", "mdtest.weka", "weka.metadata")


@pytest.mark.parametrize("name", SUITES)
def test_other_nodes(tmp_path: Path, name: str) -> None:
    made = make(tmp_path, entry(tmp_path, name, nodes=[3]))
    assert {p.nodes for p in made.points} == {3}


# On one machine

SMALL = {"phase_time": "1s", "repetitions": 1, "threads_per_node": 2, "queue_depth": 8, "files_per_thread": 10_000}


@pytest.mark.parametrize("name", SUITES)
def test_laptop(tmp_path: Path, name: str) -> None:
    text = entry(tmp_path, name, limits=False, scale="laptop", nodes=[1])
    small(tmp_path, text, 64 << 20)


@pytest.mark.parametrize("name", SUITES)
def test_bounds_of_ones_own(tmp_path: Path, name: str) -> None:
    small(tmp_path, entry(tmp_path, name, limits=False, scale=SMALL | {"file_size": "128m"}, nodes=[1]), 128 << 20)


def small(directory: Path, text: dict[str, Any], file_size: int) -> None:
    configured = read(directory, text)
    assert all(sweep.scaled for sweep in configured.sweeps)
    made = make_plan(configured)
    forecast.refuse(made, configured)
    for point in made.points:
        assert int(point.options["threads_per_node"] or 0) <= 2
        assert int(point.options.get("file_size") or 0) <= file_size
        assert structs.replace(point.repetitions, confirm=0) == Repetitions(1, 1)
        assert point.phase_time_s in (None, 1.0)  # whole seconds, as IOR wants them
    cost = forecast.of(made)
    assert cost.peak_bytes <= 5 << 30
    assert cost.time_s < 300
    assert dag.load(directory / "x.yaml", directory / "results", launcher="mpiexec").left


# What is written about them
