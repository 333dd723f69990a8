"""The runner and the table of results agree on what is left, whatever is stored: of ramps, best points, and both."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from results.test_confirming import HERE, depth, result

from campaign import Made, document, make
from iosweep.plan.model import Plan, Point
from iosweep.results import remaining

Numbers = dict[str, set[int]]
ANYWHERE = replace(HERE, tools={}, launcher=None, target=None)
RAMP = "queue_depth"


def told(made: Made, **states: bool) -> Numbers:
    """Point -> repetitions of the table in this state; all that it has to have instead of None."""
    found: Numbers = {}
    every = {point.id: set(range(1, point.repetitions.min + 1)) for point in made.plan.points}
    for row in made.table():
        if all(row[name] == value for name, value in states.items()):
            number = row["repetition"]
            found.setdefault(row["point"], set()).update(every[row["point"]] if number is None else {number})
    return found


def stored(made: Made, point: Point, number: int, **figures: dict[str, Any]) -> None:
    """A repetition whose phases have these headlines, latencies and verdicts."""
    record = made.record(point)
    phases = [
        {"phase": run.phase, "started": str(run.started), "wall_s": 1.0, "argv": ["fio"]} | figures[run.phase]
        for run in record.phases
    ]
    made.store.commit(point.id, number, made.record(point, phases=phases), {"x.stdout": b"y"})


def agree(made: Made) -> None:
    results, missing = made.store.results(), made.store.missing()
    by_allocation = remaining.left(made.plan, results, missing, ANYWHERE)
    now = {point: set(numbers) for points in by_allocation.values() for point, numbers in points.items()}
    coming = remaining.expected(made.plan, results, missing, ANYWHERE)
    later = {point for points in coming.values() for point in points}
    without = {p for points in remaining.unneeded(made.plan, results, missing, ANYWHERE).values() for p in points}
    left, unneeded = told(made, left=True), told(made, unneeded=True)
    for point, numbers in now.items():
        assert numbers <= left.get(point, set()), (point, numbers, left)
    for point, numbers in left.items():
        assert numbers == now.get(point) or point in later, (point, numbers, now)
    assert unneeded.keys() <= without
    assert not any(unneeded[point] & now.get(point, set()) for point in unneeded)


PLANS: dict[str, dict[str, Any]] = {
    "a ramp of two axes, confirmed": {
        "axes": {"queue_depth": [1, 2, 4], "threads_per_node": [1, 2]}, "ramp": RAMP, "confirm": 2,
    },
    "a ramp of two phases, confirmed": {
        "axes": {"queue_depth": [1, 2, 4, 8]}, "ramp": RAMP, "confirm": 1, "phases": ["rand_read", "rand_write"],
    },
    "a ramp over nodes, confirmed": {
        "axes": {"nodes": [1, 2, 4], "queue_depth": [1, 4]}, "ramp": "nodes", "confirm": 2,
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANS)
def test_they_agree(tmp_path: Path, kind: str) -> None:
    draw = random.Random(kind)
    for k in range(4):
        sweeps = document(repetitions=draw.choice((1, 2, 3)), **PLANS[kind])
        place = tmp_path / str(k)
        place.mkdir()
        made = Made(place, make(place, sweeps))
        width, held = draw.choice((1, 2, 8)), draw.random()
        for point in made.plan.points:
            load = min(int(point.options["queue_depth"]) * point.nodes, width)
            for number in range(1, point.repetitions.last + 1):
                if draw.random() < (held if number <= point.repetitions.max else held / 4):
                    figures = {}
                    for phase in point.phases:
                        verdict = draw.choices(("valid", "suspect", "invalid"), (6, 2, 1))[0]
                        rate = load * draw.lognormvariate(0, 0.05)
                        own = {"headline": rate, "latency_mean_s": 1 / rate} if verdict != "invalid" else {}
                        figures[phase] = own | {"verdict": verdict}
                    stored(made, point, number, **figures)
        agree(made)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    axes = {"queue_depth": [1, 2, 4, 8], "threads_per_node": [1, 2]}
    return make(tmp_path, document(axes=axes, repetitions=2, confirm=2, ramp=RAMP))


def test_the_best_latency_is_left_though_its_rate_is_far_below(tmp_path: Path, plan: Plan) -> None:
    """Its other repetitions are not needed, and those that confirm its latency are."""
    made = Made(tmp_path, plan)
    for point in plan.points:
        rate = float(int(point.options["queue_depth"]) * int(point.options["threads_per_node"]))
        for number in (1, 2) if point.options["queue_depth"] != 1 else (1,):
            figures = {"headline": rate, "latency_mean_s": 1 / rate, "verdict": "valid"}
            stored(made, point, number, rand_read=figures)
    agree(made)
    shallow = next(p.id for p in plan.points if (p.options["queue_depth"], p.options["threads_per_node"]) == (1, 2))
    assert told(made, left=True)[shallow] == {3, 4}
    assert told(made, unneeded=True)[shallow] == {2}


def test_a_small_job_that_goes_on_after_the_large_ones(tmp_path: Path) -> None:
    """It finds its points far below the peak, and so does the table."""
    axes = {"nodes": [1, 2, 4]}
    made = Made(tmp_path, make(tmp_path, document(axes=axes, repetitions=2, ramp="nodes")))
    for point in made.plan.points:
        for number in (1, 2) if point.nodes > 1 else (1,):
            stored(made, point, number, rand_read={"headline": float(point.nodes), "verdict": "valid"})
    agree(made)
    assert told(made, left=True) == {}
    assert list(told(made, unneeded=True).values()) == [{2}]


def test_a_ramp_whose_peak_has_to_be_measured_again(tmp_path: Path) -> None:
    """Its archives are gone: until they are measured, no lower step is known to be far below."""
    made = Made(tmp_path, make(tmp_path, document(axes={"queue_depth": [1, 2, 8, 16]}, repetitions=2, ramp=RAMP)))
    for point in made.plan.points:
        rate = float(min(int(point.options["queue_depth"]), 8))
        for number in (1, 2) if rate == 8 else (1,):
            stored(made, point, number, rand_read={"headline": rate, "verdict": "valid"})
    shallow = depth(made.plan, 2)
    assert told(made, unneeded=True)[shallow] == {2}
    for value in (8, 16):
        for archive in made.store.point(depth(made.plan, value)).glob("*.zip"):
            archive.unlink()
    agree(made)
    assert told(made, left=True)[shallow] == {2}


def test_an_archive_that_no_run_needs_any_more(tmp_path: Path) -> None:
    """Of a repetition that a ramp does not need: it is not left, but it is still said that it is damaged."""
    made = Made(tmp_path, make(tmp_path, document(axes={"queue_depth": [1, 2, 8, 16]}, repetitions=2, ramp=RAMP)))
    for point in made.plan.points:
        for number in (1, 2):
            rate = float(min(int(point.options["queue_depth"]), 8))
            stored(made, point, number, rand_read={"headline": rate, "verdict": "valid"})
    shallow = depth(made.plan, 2)
    (made.store.point(shallow) / "r002-1.zip").unlink()
    agree(made)
    assert told(made, left=True) == {} and told(made, unneeded=True) == {shallow: {2}}
    [row] = [row for row in made.table() if row["unneeded"]]
    assert row["reasons"] == (
        f"the stored raw output is damaged: points/{shallow}/r002-1.zip; not needed: far below 95 % of the peak"
    )


def test_a_point_that_a_ramp_leaves_out_confirms_nothing(tmp_path: Path) -> None:
    """Not even where no other one has a figure of a phase."""
    plan = make(tmp_path, document(axes={"queue_depth": [1, 2, 4, 8]}, repetitions=1, confirm=2, ramp=RAMP,
                                   phases=["seq_read", "rand_read"]))  # fmt: skip
    phases = {"headlines": (("seq_read", 5.0), ("rand_read", None)), "latencies": (None, None)}
    known = {
        depth(plan, value): {1: result(depth(plan, value), 1, None, **phases, verdicts=("valid", "invalid"))}
        for value in (1, 2, 4)
    }
    wanted = remaining.wanted(plan, known, ())
    assert wanted.unneeded == {depth(plan, 8): "not needed: no certain gain above queue depth 1"}
    assert depth(plan, 8) not in wanted.now
