"""Suites: ready sweeps, as they are, under upper bounds, and on other nodes; and the commands they reproduce.

The commands of the sources are in samples/suites/commands.tsv. A command is compared in the words of its tool: options
as name -> value, sizes in bytes, times in seconds.
"""

import csv
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import pytest
from msgspec import structs
from syrupy.assertion import SnapshotAssertion

from campaign import make, read
from iosweep import dag
from iosweep.commands import plan
from iosweep.config import models, sweeps
from iosweep.config.sweeps import Repetitions
from iosweep.errors import ConfigError
from iosweep.jobs.profile import Profile
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Allocation, Plan, Point
from iosweep.tools import Step


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
        assert sweep.repetitions == Repetitions(5, 5, None, confirm=3)


def test_a_suite_is_scaled_by_bounds_that_change_something(tmp_path: Path) -> None:
    """One that is scaled does not compare with the published figures."""
    for sweep in suite(tmp_path, {"scale": "laptop"}).sweeps:
        assert sweep.scaled
        assert sweep.axes == {"queue_depth": (1, 2, 4, 8)}  # 16 and 32 became 8, once
        assert (sweep.options["threads_per_node"], sweep.options["file_size"]) == (2, 64 << 20)
        assert (sweep.phase_time_s, sweep.repetitions) == (1.0, Repetitions(1, 1, None, confirm=1))
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

Value = int | float | str
SUITES = sorted(file.stem for file in models.SUITES.glob("*.yaml"))
with (Path(__file__).resolve().parents[1] / "samples/suites/commands.tsv").open() as _file:
    SEEDS = [*csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE)]
TIB = 1 << 40
#: Those that reproduce the commands of a source; the others are ours.
SOURCED = sorted({seed["suite"] for seed in SEEDS})
#: Options whose value is a place, a random number, or a size that `_same_volume` compares.
OWN = {"name", "directory", "-d", "-o", "randseed", "--random-offset-seed", "log_avg_msec", "size"}
#: Names that an option has beside the one it is compared by.
ALIASES = {"blocksize": "bs", "readwrite": "rw", "-np": "-n"}
SIZES = {"bs", "size", "filesize", "-b", "-t"}


def entry(directory: Path, *suites: str, limits: bool = True, **keys: Any) -> dict[str, Any]:
    """A configuration of these suites, whose target is not there."""
    made: dict[str, Any] = {"campaign": "c", "target": {"directory": str(directory / "absent")}}
    if limits:
        made["limits"] = {"bytes_written": "1p"}
    return made | {"sweeps": [{"suite": name} | keys for name in suites]}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Plan]:
    """The plan of suites at full size, made once."""
    place = tmp_path_factory.mktemp("suites")
    return cache(lambda *names: make(place, entry(place, *names)))


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_is_planned_at_full_size_without_touching_the_target(tmp_path: Path, name: str) -> None:
    """The target is not there. What `snakemake -n` asks: all that a launcher reaches is left."""
    made = make(tmp_path, entry(tmp_path, name))
    for key, launcher in LAUNCHERS.items():
        found = list(plan.commands(made, launcher))
        assert len(found) == sum(p.repetitions.min * len(p.steps()) for p in made.points)
        assert all(isinstance(word, str) for _, _, argv in found for word in argv)
        left = dag.load(tmp_path / "x.yaml", tmp_path / "results", Profile(given={"launcher": key}, slurm=False)).left
        reached = {a.name for a in made.allocations if any(launcher.lacks(point) is None for point in a.points)}
        assert set(left) == reached, key
    assert sorted(f.name for f in tmp_path.iterdir()) == ["x.yaml"]
    unlimited = read(tmp_path, entry(tmp_path, name, limits=False))
    if forecast.of(made).bytes_written > 10 * TIB:  # what writes much needs limits
        with pytest.raises(ConfigError) as caught:
            forecast.refuse(make_plan(unlimited), unlimited)
        assert [error.where for error in caught.value.problems] == ["limits.bytes_written"]
    else:
        forecast.refuse(make_plan(unlimited), unlimited)


# Against the commands of the sources


class Command(NamedTuple):
    """A command line, taken apart."""

    tool: str
    options: dict[str, Value]
    launcher: dict[str, Value]


def parse(words: Sequence[str]) -> Command:
    """A command line, with or without a launcher."""
    start = next(i for i, word in enumerate(words) if word in ("fio", "ior", "mdtest"))
    options: dict[str, Value] = {}
    for name, value in _dashed(words[start + 1 :]):
        if name == "-O":  # one of IOR's directives, or several with commas
            options |= dict(("-O " + part).split("=") for part in value.split(","))  # type: ignore[arg-type]
        else:
            options |= [canonical(name.removeprefix("--") if words[start] == "fio" else name, value)]
    return Command(words[start], options, dict(canonical(*one) for one in _dashed(words[1:start])))


def _dashed(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Options with their values: all words up to the next option; without any, a flag."""
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        assert name.startswith("-"), name
        values = [value] if equals else []
        while rest and not rest[0].startswith("-"):
            values.append(rest.pop(0))
        yield name, " ".join(values) or "1"


def canonical(name: str, value: str) -> tuple[str, Value]:
    """An option and its value in the form that is compared."""
    name = ALIASES.get(name, name)
    if name in SIZES:
        power = "kmgt".find(value[-1].lower()) + 1
        return name, int(value[:-1] if power else value) << (10 * power)
    if name == "runtime":
        return name, float(value[:-2]) / 1000 if value.endswith("ms") else float(value)
    return name, int(value) if value.isdigit() else value


def of_source(name: str) -> dict[tuple[object, ...], Command]:
    """The commands of a suite's source: (sweep, phase, (option, value) ...) of the points that reproduce each."""
    found = {}
    for seed in (seed for seed in SEEDS if seed["suite"] == name):
        axes = dict(axis.split("=") for axis in seed["over"].split())
        for values in product(*(axis.split(",") for axis in axes.values())):
            over = dict(zip(axes, values, strict=True))
            key = (seed["sweep"], seed["phase"], *((axis, int(value)) for axis, value in over.items()))
            found[key] = parse(shlex.split(Template(seed["command"]).safe_substitute(over)))
    return found


@pytest.mark.parametrize("name", SOURCED)
def test_every_command_is_that_of_the_source_but_for_what_the_snapshot_lists(
    planned: Callable[..., Plan], name: str, snapshot: SnapshotAssertion
) -> None:
    """Each option that differs, with the source's value, ours, and in which sweeps; why is in docs/suites.md."""
    made, sources = planned(name), of_source(name)
    met = set()
    different: dict[str, set[str]] = {}  # a difference -> where it is
    places = set()
    for point in made.points:
        once = structs.replace(made, allocations=(Allocation("", point.nodes, (point,)),))
        argvs = [a for _, repetition, a in plan.commands(once, LAUNCHERS["mpiexec"]) if repetition == 1]
        sweeps_of = [each.removeprefix(f"{name}.") for each in point.sweeps]
        for (step, argv), sweep in product(zip(point.steps(), argvs, strict=True), sweeps_of):
            [key] = [k for k in sources if k[:2] == (sweep, step.name) and {*k[2:]} <= point.options.items()]
            met.add(key)
            source, ours = sources[key], parse(argv)
            assert source.tool == ours.tool == point.tool, key
            places.add(place := f"{sweep} {step.name}")
            for text in _differences(source.options, ours.options):
                different.setdefault(text, set()).add(place)
            _same_volume(name, source.options, ours, point, step)
            if not source.launcher:
                assert not ours.launcher
                continue
            # as many ranks as the source's on the nodes that it had
            ranks = source.launcher["-n"]
            assert ranks == step.tasks == point.nodes * int(point.options["threads_per_node"] or 0)
            if point.nodes == 1:  # what the launcher here does not reach is shown without it
                assert ours.launcher["-n"] == step.tasks
            for option in source.launcher.keys() - {"-n"}:
                text = f"launcher, {option}: {source.launcher[option]}, ours: the profile's"
                different.setdefault(text, set()).add(place)
    assert met == sources.keys()
    lines = (f"{text} ({', '.join(sorted(found)) if found != places else 'all'})" for text, found in different.items())
    assert "\n".join(sorted(lines)) == snapshot


def _differences(theirs: Mapping[str, Value], ours: Mapping[str, Value]) -> Iterator[str]:
    for option in {*theirs, *ours}:
        if theirs.get(option) != ours.get(option):
            values = [found.get(option, "not there") for found in (theirs, ours)]
            assert option not in OWN or option in ours, option
            yield f"{option}: {values[0]}, ours: {'of its own' if option in OWN else values[1]}"


def _same_volume(name: str, theirs: Mapping[str, Any], ours: Command, point: Point, step: Step) -> None:
    """Bytes of files, iterations, and what lies behind an option that fio reads otherwise, are the source's."""
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


def test_points_repetitions_and_volumes_of_the_suites(planned: Callable[..., Plan]) -> None:
    expected = {
        "weka": (13, 63),
        "everything": (13, 63),
        "weka-small-write-latency": (1, 5),
        "four-corners": (12, 36 + 5 * 3),
        "mdtest": (2, 11),
        "node-check": (2, 6),
        "lustre-ior": (24, 24),
        "lustre-fio": (3, 3),
    }
    cost = {name: forecast.of(planned(name)) for name in SUITES}
    assert {name: (one.points, one.repetitions) for name, one in cost.items()} == expected
    # the set that is read, and two writes of it at each transfer size and number of threads
    ior, fio = cost["lustre-ior"], cost["lustre-fio"]
    written_tib = 2 + 2 * 4 * (1 + 8 + 16 + 32 + 64 + 128) * 16 / 1024
    assert (ior.bytes_written, ior.peak_bytes) == (written_tib * TIB, (2 + 2 * 2) * TIB)
    assert (fio.bytes_written, fio.peak_bytes) == (3 * TIB, 2 * TIB)


# On one machine

SMALL = {"phase_time": "1s", "repetitions": 1, "threads_per_node": 2, "queue_depth": 8, "files_per_thread": 10_000}


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_fits_one_machine_when_it_is_scaled(tmp_path: Path, name: str) -> None:
    assert {p.nodes for p in make(tmp_path, entry(tmp_path, name, nodes=[3])).points} == {3}
    own: Any = SMALL | {"file_size": "128m"}
    for scale, file_size in (("laptop", 64 << 20), (own, 128 << 20)):
        configured = read(tmp_path, entry(tmp_path, name, limits=False, scale=scale, nodes=[1]))
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
