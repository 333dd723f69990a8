"""The plan: points, their ids, allocations, and what all that takes, counted by hand."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaign import METADATA, TEXT, document, make, problems
from iosweep.commands import plan
from iosweep.config.sweeps import Repetitions
from iosweep.plan import forecast
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Plan, Point, plan_from_document


def ids(made: Plan) -> list[str]:
    return [p.id for p in made.points]


def axes(made: Plan, *names: str) -> list[tuple[Any, ...]]:
    """Values of options of all points, sorted."""
    return sorted(tuple(p.nodes if n == "nodes" else p.options[n] for n in names) for p in made.points)


# Expansion


def test_every_combination_is_a_point(tmp_path: Path) -> None:
    made = make(tmp_path)
    assert len(made.points) == 2 * 2 * 3
    assert axes(made, "threads_per_node", "transfer_size", "queue_depth") == [
        (t, s, q) for t in (1, 2) for s in (4096, 65536) for q in (1, 2, 4)
    ]


def test_a_sweep_without_axes_is_one_point(tmp_path: Path) -> None:
    [point] = make(tmp_path, document(axes=None)).points
    assert (point.nodes, point.options["threads_per_node"], point.options["transfer_size"]) == (1, 1, 1 << 20)


def test_options_without_effect_are_no_part_of_a_point(tmp_path: Path) -> None:
    reads, writes = (
        make(tmp_path, document(axes=None, phases=[phase])).points[0].options for phase in ("rand_read", "rand_write")
    )
    assert set(writes) - set(reads) == {"fsync", "write_mode", "data"}
    assert "read_percent" not in writes
    files = make(tmp_path, document(**METADATA)).points[0]
    assert set(files.options) == {"threads_per_node", "files_per_thread"}
    assert files.phase_time_s is None  # a count bounds them


@pytest.mark.parametrize(
    ("exclude", "points"),
    [
        ([{"queue_depth": 1}], 8),  # one that names few axes leaves out many
        ([{"queue_depth": 1, "threads_per_node": 2}], 10),
        ([{"queue_depth": [1, 2], "transfer_size": "4k"}], 8),
        ([{"queue_depth": 1}, {"threads_per_node": 1}], 4),  # either
        ([{"queue_depth": 1, "threads_per_node": 1, "transfer_size": "4k"}], 11),
    ],
)
def test_exclude(tmp_path: Path, exclude: list[dict[str, Any]], points: int) -> None:
    assert len(make(tmp_path, document(exclude=exclude)).points) == points


def test_all_excluded(tmp_path: Path) -> None:
    wrong = problems(tmp_path, TEXT + "    exclude: [{queue_depth: [1, 2, 4]}]\n", make)
    assert wrong == ["11: sweeps[0].exclude: has no point left: everything is excluded"]


def test_a_sweep_of_metadata_has_no_phase_time(tmp_path: Path) -> None:
    text = document()
    text["sweeps"].append(document(name="files", **METADATA)["sweeps"][0])
    assert [s.phase_time_s for s in make(tmp_path, text).sweeps] == [1.0, None]


def test_one_pass(tmp_path: Path) -> None:
    """A volume bounds the phases: the point has no time, and neither have its commands."""
    made = make(tmp_path, document(phase_time="one_pass", phases=["seq_write", "rand_read"]))
    assert [s.phase_time_s for s in made.sweeps] == [None]
    assert {p.phase_time_s for p in made.points} == {None}
    assert plan_from_document(made.document()).points == made.points
    for point in made.points:
        assert [(s.name, s.time_s) for s in point.steps()] == [("seq_write", None), ("rand_read", None)]
        assert point.volume_bytes == int(point.options["threads_per_node"] or 0) * 16 << 20
    for _, _, argv in plan.commands(made, LAUNCHERS["mpiexec"]):
        assert argv[0] == "fio"
        assert f"--size={16 << 20}" in argv
        assert not [a for a in argv if a.startswith(("--time_based", "--runtime"))]
    # it is another measurement than one of some seconds
    assert not {*ids(made)} & {*ids(make(tmp_path, document(phases=["seq_write", "rand_read"])))}


@pytest.mark.parametrize(
    ("tool", "phases", "groups"),
    [
        ("fio", ("create", "stat", "delete"), [("create",), ("stat",), ("delete",)]),
        ("ior", ("seq_write", "seq_read"), [("seq_write",), ("seq_read",)]),
        ("mdtest", ("create", "stat", "read", "delete"), [("create", "stat", "read", "delete")]),  # one command
    ],
)
def test_steps_and_phases(tool: str, phases: tuple[str, ...], groups: list[tuple[str, ...]]) -> None:
    options: Any = {"threads_per_node": 3}
    point = Point("p", tool, phases, 2, options, 4.0, Repetitions(1, 1), ("s",))
    steps = point.steps()
    assert [tuple(p.name for p in step.phases) for step in steps] == groups
    assert [step.name for step in steps] == [group[0] for group in groups]
    assert {(step.nodes, step.time_s, step.tasks) for step in steps} == {(2, 4.0, 6)}
    assert tuple(p.name for p in point.measured()) == phases


@pytest.mark.parametrize(("tool", "phase"), [("ior", "seq_write"), ("mdtest", "create"), ("fio", "seq_write")])
def test_a_directory_that_a_tool_cannot_work_in(tmp_path: Path, tool: str, phase: str) -> None:
    text = document(tool=tool, phases=[phase], axes=None, options=None, phase_time=None)
    text["target"]["directory"] = "/scratch/me@work"
    wrong = problems(tmp_path, text, make)
    assert [p.partition(": contains `@`")[0] for p in wrong] == ([] if tool == "fio" else ["3: target.directory"])


def test_what_a_tool_refuses_is_said_once(tmp_path: Path) -> None:
    wrong = problems(tmp_path, TEXT.replace("file_size: 16m", "file_size: 10000"), make)
    assert wrong == [
        # where the first stands that it names
        "8: sweeps[0].options.file_size: file_size 10000 is not a multiple of transfer_size 4k",
        "7: sweeps[0].axes.transfer_size: transfer_size 64k is larger than file_size 10000",
    ]


# Ids


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"repetitions": 7},
        {"repetitions": {"min": 2}},
        {"description": "a sentence"},
        {"axes": {"queue_depth": [4, 1, 2], "transfer_size": ["64k", 4096], "threads_per_node": [2, 1]}},
        {"axes": {"nodes": [1], "queue_depth": [1, 2, 4], "transfer_size": ["4k", "64k"], "threads_per_node": [1, 2]}},
        {"options": {"file_size": 16 << 20, "o_direct": True, "ioengine": "libaio", "files_per_thread": 1}},
        {"phase_time": "1000ms"},
    ],
)
def test_ids_do_not_depend_on(tmp_path: Path, change: dict[str, Any]) -> None:
    assert ids(make(tmp_path, document(**change))) == ids(make(tmp_path))


@pytest.mark.parametrize("text", [TEXT.replace("quick", "other"), TEXT.replace("/scratch/me", "/elsewhere"),
                                  TEXT + "seed: 9\n", TEXT + "limits: {time: 2h, fill: 95%}\n"])  # fmt: skip
def test_ids_do_not_depend_on_the_campaign(tmp_path: Path, text: str) -> None:
    assert ids(make(tmp_path, text)) == ids(make(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        {"phases": ["rand_write"]},
        {"phases": ["rand_read", "seq_read"]},
        {"options": {"file_size": "32m"}},
        {"options": {"file_size": "16m", "o_direct": False}},
        {"options": {"file_size": "16m", "ioengine": "io_uring"}},
        {"phase_time": "2s"},
    ],
)
def test_ids_depend_on_what_determines_the_measurement(tmp_path: Path, change: dict[str, Any]) -> None:
    assert not set(ids(make(tmp_path, document(**change)))) & set(ids(make(tmp_path)))


def test_a_further_value_of_an_axis_adds_points(tmp_path: Path) -> None:
    before = ids(make(tmp_path))
    after = ids(make(tmp_path, TEXT.replace("[1, 2, 4]", "[1, 2, 4, 8]")))
    assert set(before) < set(after)
    assert len(after) == 16


@given(st.permutations(["threads_per_node", "transfer_size", "queue_depth"]))
def test_the_order_of_the_axes_does_not_matter(tmp_path_factory: pytest.TempPathFactory, order: list[str]) -> None:
    made = document()
    made["sweeps"][0]["axes"] = {name: made["sweeps"][0]["axes"][name] for name in order}
    directory = tmp_path_factory.getbasetemp()
    assert ids(make(directory, made)) == ids(make(directory))


def test_two_sweeps_share_a_point(tmp_path: Path) -> None:
    text = document(repetitions={"min": 2, "max": 4, "until_ci95_half_width": "10%"})
    other = document(name="other", axes={"transfer_size": ["4k", "8k"]}, repetitions=3)["sweeps"][0]
    text["sweeps"].append(other)
    made = make(tmp_path, text)
    assert len(made.points) == 12 + 1
    [shared] = [p for p in made.points if p.sweeps == ("other", "tiny")]
    assert (shared.options["transfer_size"], shared.options["queue_depth"]) == (4096, 1)
    assert shared.repetitions == Repetitions(3, 4, 0.1)  # as the more demanding one asks
    assert [len(s.points) for s in made.sweeps] == [12, 2]


# Allocations


def test_an_allocation_for_each_node_count(tmp_path: Path) -> None:
    made = make(tmp_path, document(axes={"nodes": [4, 1, 2], "threads_per_node": [1, 8]}))
    assert [(a.name, a.nodes, len(a.points)) for a in made.allocations] == [
        ("1-node", 1, 2), ("2-nodes", 2, 2), ("4-nodes", 4, 2),
    ]  # fmt: skip


def test_one_allocation_for_the_campaign(tmp_path: Path) -> None:
    text = document(axes={"nodes": [4, 1, 2], "threads_per_node": [1, 8]})
    apart, together = make(tmp_path, text), make(tmp_path, text | {"allocation": "campaign"})
    assert [(a.name, a.nodes, len(a.points)) for a in together.allocations] == [("4-nodes", 4, 6)]
    assert ids(together) == ids(apart)  # what is measured does not change, nor what is stored of it
    assert {p.nodes for p in together.allocations[0].points} == {1, 2, 4}
    assert make(tmp_path, text | {"allocation": "per_node_count"}).allocations == apart.allocations  # the default
    assert problems(tmp_path, text | {"allocation": "node"})


# Documents


def test_a_plan_survives_its_document(tmp_path: Path) -> None:
    text = document(repetitions={"min": 2})
    text["sweeps"] += [document(name="files", **METADATA)["sweeps"][0], {"suite": "four-corners", "scale": "laptop"}]
    made = make(tmp_path, text)
    again = plan_from_document(made.document())
    assert again.document() == made.document()
    assert again.digest == made.digest
    assert again.points == made.points
    assert forecast.of(again) == forecast.of(made)


@pytest.mark.local
def test_a_plan_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(TEXT)
    command = [sys.executable, "-m", "iosweep", "plan", "--json", "x.yaml"]
    outputs = {
        subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE,
                       check=True).stdout
        for seed in ("0", "1", "4711")
    }  # fmt: skip
    assert len(outputs) == 1
    assert len(msgspec.json.decode(outputs.pop())["plan"]["allocations"][0]["points"]) == 12
