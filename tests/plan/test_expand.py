"""The plan: points, their ids and allocations."""

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from campaign import METADATA, TEXT, document, make, problems
from iosweep.config.sweeps import RepetitionRule
from iosweep.files.documents import Damaged
from iosweep.plan import forecast
from iosweep.plan.model import Plan, read_plan


def ids(made: Plan) -> list[str]:
    return [p.id for p in made.points]


# Expansion


def test_every_combination_is_a_point_and_a_sweep_without_axes_is_one(tmp_path: Path) -> None:
    names = ("threads_per_node", "transfer_size", "queue_depth")
    found = sorted(tuple(p.options[name] for name in names) for p in make(tmp_path).points)
    assert found == list(itertools.product((1, 2), (4096, 65536), (1, 2, 4)))
    depths = make(tmp_path, document(axes={"queue_depth": [16, 1, 2]})).points
    assert [point.options["queue_depth"] for point in depths] == [1, 2, 16]
    [point] = make(tmp_path, document(axes=None)).points
    assert (point.nodes, point.options["threads_per_node"], point.options["transfer_size"]) == (1, 1, 1 << 20)


@pytest.mark.parametrize(
    ("exclude", "points"),
    [
        ([{"queue_depth": 1}], 8),  # one that names few axes leaves out many
        ([{"queue_depth": [1, 2], "transfer_size": "4k"}], 8),
        ([{"queue_depth": 1}, {"threads_per_node": 1}], 4),  # either
    ],
)
def test_excluded_combinations_are_left_out(tmp_path: Path, exclude: list[dict[str, Any]], points: int) -> None:
    assert len(make(tmp_path, document(exclude=exclude)).points) == points


def test_problems_of_a_plan_are_named_by_line_and_key(tmp_path: Path, snapshot: Any) -> None:
    away = TEXT.replace("/scratch/me", "/scratch/me@work")
    cases = {
        "all excluded": TEXT + "    exclude: [{queue_depth: [1, 2, 4]}]\n",
        "a size that does not fit": TEXT.replace("file_size: 16m", "file_size: 10000"),  # each where it stands, once
        **{
            f"an @ for {tool}": document(tool=tool, phases=[phase], axes=None, options=None, phase_time=None)
            | {"target": {"directory": "/scratch/me@work"}}
            for tool, phase in (("ior", "seq_write"), ("mdtest", "create"))
        },
    }
    found = {name: problems(tmp_path, text, make) for name, text in cases.items()}
    assert "\n".join(f"{name}: {p}" for name, wrong in found.items() for p in wrong) == snapshot
    assert problems(tmp_path, away, make) == []  # of fio


# Ids


def test_ids_depend_on_what_determines_the_measurement_and_on_nothing_else(tmp_path: Path) -> None:
    before = ids(make(tmp_path))
    axes = {"threads_per_node": [1, 2], "transfer_size": ["4k", "64k"], "queue_depth": [1, 2, 4]}
    same: list[str | dict[str, Any]] = [
        *(TEXT.replace("quick", "other"), TEXT.replace("/scratch/me", "/elsewhere")),
        *(TEXT + "seed: 9\n", TEXT + "limits: {time: 2h, fill: 95%}\n"),
        *(document(**{key: value}) for key, value in (
            *(("name", "other"), ("repetitions", 7), ("repetitions", {"min": 2}), ("description", "a sentence")),
            *(("axes", {name: axes[name] for name in order}) for order in itertools.permutations(axes)),
            ("axes", {"queue_depth": [4, 1, 2], "transfer_size": ["64k", 4096], "threads_per_node": [2, 1]}),
            ("axes", axes | {"nodes": [1]}),
            ("options", {"file_size": 16 << 20, "o_direct": True, "ioengine": "libaio", "files_per_thread": 1}),
            ("phase_time", "1000ms"),
        )),
    ]  # fmt: skip
    for text in same:
        assert ids(make(tmp_path, text)) == before, text
    for change in (
        {"phases": ["rand_write"]},
        {"options": {"file_size": "32m"}},
        {"options": {"file_size": "16m", "o_direct": False}},
        {"options": {"file_size": "16m", "ioengine": "io_uring"}},
        {"phase_time": "2s"},
    ):
        assert not set(ids(make(tmp_path, document(**change)))) & set(before), change
    after = ids(make(tmp_path, TEXT.replace("[1, 2, 4]", "[1, 2, 4, 8]")))
    assert set(before) < set(after)
    assert len(after) == 16


def test_two_sweeps_share_a_point_that_is_measured_as_the_more_demanding_one_asks(tmp_path: Path) -> None:
    text = document(repetitions={"min": 2, "max": 4, "until_ci95_half_width": "10%"})
    text["sweeps"].append(document(name="other", axes={"transfer_size": ["4k", "8k"]}, repetitions=3)["sweeps"][0])
    made = make(tmp_path, text)
    assert len(made.points) == 12 + 1
    [shared] = [p for p in made.points if p.sweeps == ("other", "tiny")]
    assert (shared.options["transfer_size"], shared.options["queue_depth"]) == (4096, 1)
    assert shared.repetitions == RepetitionRule(3, 4, 0.1)
    assert [len(s.points) for s in made.sweeps] == [12, 2]


# Allocations and documents


def test_an_allocation_is_for_a_node_count_or_for_the_campaign(tmp_path: Path) -> None:
    text = document(axes={"nodes": [4, 1, 2], "threads_per_node": [1, 8]})
    apart, together = make(tmp_path, text), make(tmp_path, text | {"allocation": "campaign"})
    found = [(a.name, a.nodes, len(a.points)) for a in apart.allocations]
    assert found == [("1-node", 1, 2), ("2-nodes", 2, 2), ("4-nodes", 4, 2)]
    assert [(a.name, a.nodes, len(a.points)) for a in together.allocations] == [("4-nodes", 4, 6)]
    assert ids(together) == ids(apart)  # neither the measurements nor what is stored of them change
    assert {p.nodes for p in together.allocations[0].points} == {1, 2, 4}
    assert make(tmp_path, text | {"allocation": "per_node_count"}).allocations == apart.allocations  # the default
    assert problems(tmp_path, text | {"allocation": "node"})


def test_a_plan_survives_its_document(tmp_path: Path) -> None:
    text = document(repetitions={"min": 2})
    text["sweeps"] += [document(name="files", **METADATA)["sweeps"][0], {"suite": "four-corners", "scale": "laptop"}]
    made = make(tmp_path, text)
    (file := tmp_path / f"{made.digest}.json").write_bytes(made.document())
    again = read_plan(file)
    assert again.document() == made.document()
    assert again.digest == made.digest
    assert again.points == made.points
    assert forecast.forecast_of(again) == forecast.forecast_of(made)
    with pytest.raises(Damaged):  # another plan under this name
        read_plan(file.rename(tmp_path / "0123456789ab.json"))


@pytest.mark.local
def test_a_plan_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(TEXT)
    command = [sys.executable, "-m", "iosweep", "plan", "--json", "x.yaml"]
    one, other = (
        subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONHASHSEED": seed}, stdout=subprocess.PIPE,
                       check=True).stdout
        for seed in ("0", "4711")
    )  # fmt: skip
    assert one == other
    assert len(msgspec.json.decode(one)["plan"]["allocations"][0]["points"]) == 12
