"""The configuration: what is accepted, and that an error names line, key, value and what would be right."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from campaign import TEXT, document, errors, make, read, refused
from iosweep.config import sweep_file
from iosweep.config.sweeps import RepetitionRule
from iosweep.errors import ConfigError
from iosweep.plan.expand import make_plan
from iosweep.plan.forecast import forecast_of
from iosweep.plan.headline_groups import foreseen


def test_the_smallest_configuration_has_cautious_defaults(tmp_path: Path) -> None:
    configured = read(tmp_path, TEXT)
    found = configured.settings
    assert (found.campaign, found.description, found.seed) == ("quick", None, 1)
    target = {"directory": "/scratch/me", "keep": "none", "deadline": 30.0}
    assert {name: value for name, value in found.target.model_dump().items() if value is not None} == target
    assert (found.limits.share_of_free, found.limits.fill) == (0.1, 0.8)
    assert found.limits.bytes_written is found.limits.time is None
    [sweep] = configured.sweeps
    assert sweep.axes == {"threads_per_node": (1, 2), "transfer_size": (4096, 65536), "queue_depth": (1, 2, 4)}
    assert (sweep.options, sweep.phases, sweep.phase_time_s) == ({"file_size": 16 << 20}, ("rand_read",), 1.0)
    assert (sweep.repetitions, sweep.scaled) == (RepetitionRule(1, 1, None), False)
    [sweep] = read(tmp_path, document(axes=None, options=None, phase_time=None, repetitions=None)).sweeps
    assert (sweep.axes, sweep.options, sweep.exclude) == ({}, {}, ())
    assert (sweep.phase_time_s, sweep.repetitions) == (60.0, RepetitionRule(5, 10, 0.05))


def test_times_repetitions_and_conditions_mean_what_they_say(tmp_path: Path) -> None:
    for written, seconds in (("90s", 90.0), ("10ms", 0.01), ("one_pass", None)):
        assert read(tmp_path, document(phase_time=written)).sweeps[0].phase_time_s == seconds, written
    meant: dict[str, tuple[Any, RepetitionRule]] = {
        "number": (5, RepetitionRule(5, 5, None)),
        "defaults": ({}, RepetitionRule(5, 10, 0.05)),
        "whole": ({"min": 2, "max": 4, "until_ci95_half_width": "10%"}, RepetitionRule(2, 4, 0.1)),
    }
    for name, (given_as, means) in meant.items():
        assert read(tmp_path, document(repetitions=given_as)).sweeps[0].repetitions == means, name
    [sweep] = read(tmp_path, document(exclude=[{"queue_depth": 1, "transfer_size": ["4k", "64k"]}])).sweeps
    assert sweep.exclude == ({"queue_depth": (1,), "transfer_size": (4096, 65536)},)


def test_every_error_names_its_line_and_key(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """samples/config/wrong.tsv: in TEXT, below `sweeps:`, below its sweep, as `accept:`, and whole sweeps."""
    with (Path(__file__).parents[1] / "samples/config/wrong.tsv").open() as file:
        rows = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    planned: list[str | dict[str, Any]] = []
    cases = [TEXT + TEXT[TEXT.index("  - name") :]]
    for row in rows:
        old, new = (row[name].encode().decode("unicode_escape") for name in ("old", "new"))
        if row["kind"] == "sweep":
            planned.append(document(**json.loads(new)))
            continue
        assert old in TEXT
        text = {
            "replace": TEXT.replace(old, new, 1),
            "sweeps": f"campaign: c\ntarget: {{directory: /t}}\nsweeps: {new}",
            "below": f"{TEXT}    {new}\n",
            "accept": f"{TEXT}accept: {new}\n",
        }
        cases.append(text[row["kind"]])
    assert refused(tmp_path, cases) + refused(tmp_path, planned, make) == snapshot


def test_the_shipped_configurations_are_right(root: Path) -> None:
    files = [root / "config/sweep.yaml", *sorted((root / "config/examples").glob("*.yaml"))]
    short = {"smallest", "demo", "cluster"}  # and say so themselves
    for file in files:
        plan = make_plan(sweep_file.read(file))
        assert bool(foreseen(plan)) == (file.stem in short), (file, foreseen(plan))
        assert forecast_of(plan).time_s <= 15 * 60, file


PLACES = st.sampled_from(
    [
        (), ("campaign",), ("target",), ("target", "directory"), ("limits",), ("limits", "fill"), ("limits", "time"),
        ("seed",), ("sweeps",), ("sweeps", 0), ("sweeps", 0, "name"), ("sweeps", 0, "tool"), ("sweeps", 0, "phases"),
        ("sweeps", 0, "phases", 0), ("sweeps", 0, "axes"), ("sweeps", 0, "axes", "nodes"),
        ("sweeps", 0, "axes", "transfer_size"), ("sweeps", 0, "options"), ("sweeps", 0, "options", "o_direct"),
        ("sweeps", 0, "exclude"), ("sweeps", 0, "exclude", 0), ("sweeps", 0, "exclude", 0, "queue_depth"),
        ("sweeps", 0, "phase_time"), ("sweeps", 0, "repetitions"), ("sweeps", 0, "repetitions", "min"), ("sweeps", 1),
    ]
)  # fmt: skip
WORDS = st.sampled_from(["", "4k", "1s", "5%", "fio", "seq_write", "create", "psync", "laptop", "four-corners", "~/x"])
# small numbers: what many nodes and files cost is the plan's business, not the types'
SCALARS = st.none() | st.booleans() | st.integers(-3, 100) | st.floats() | WORDS | st.text(max_size=5)
KEYS = st.sampled_from(["suite", "scale", "tool", "min", "nodes", "queue_depth", "<<", "a"]) | st.integers(0, 2)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=6)


@given(st.lists(st.tuples(PLACES, VALUES), min_size=1, max_size=3))
def test_whatever_is_written_is_a_plan_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[tuple[str | int, ...], Any]]
) -> None:
    made: Any = document()
    made["sweeps"][0] |= {"exclude": [{"queue_depth": 1}]}
    for place, value in changes:
        if not place:
            made = value
            continue
        part: Any = made
        for key in place[:-1]:
            child = part.get(key) if isinstance(part, dict) else None
            if not isinstance(child, (dict, list)):
                child = {}
                if isinstance(part, dict):
                    part[key] = child
            part = child
        if isinstance(part, dict):
            part[place[-1]] = value
        elif isinstance(part, list):
            part.append(value)
    found = errors(tmp_path_factory.getbasetemp(), made if isinstance(made, dict) else {"a": made}, make)
    assert all(error.message and error.line >= 1 for error in found)


def test_values_of_the_command_line_replace_those_of_the_file(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    read(tmp_path, TEXT.replace("me}", "me, keep: data_sets}"))
    file = tmp_path / "x.yaml"
    plain, found = sweep_file.read(file), sweep_file.read(file, {"campaign": "007", "target": "/mnt/x"})
    target = found.settings.target
    assert (found.settings.campaign, target.directory, target.keep) == ("007", "/mnt/x", "data_sets")
    assert found.sweeps[0].axes == plain.sweeps[0].axes
    # plan and report keep what was given
    [*files, given_as] = found.documents
    assert [each.text for each in files] == [each.text for each in plain.documents]
    assert (given_as.file, given_as.text) == ("command line", 'campaign: "007"\ntarget.directory: "/mnt/x"\n')
    assert (plain.settings.sessions, sweep_file.read(file, {"sessions": "3"}).settings.sessions) == (1, 3)
    # an error is not blamed on the file
    with pytest.raises(ConfigError) as caught:
        sweep_file.read(file, {"campaign": "a/b", "target": "~/x"})
    assert sorted((error.file, error.where) for error in caught.value.problems) == [
        ("command line", "campaign"),
        ("command line", "target.directory"),
    ]
    assert str(caught.value) == snapshot
    file.write_text(TEXT.replace("target: {directory: /scratch/me}\n", ""))
    assert sweep_file.read(file, {"target": "/mnt/x"}).settings.target.directory == "/mnt/x"


def test_sweeps_and_suites_have_the_targets_that_they_name_or_all(tmp_path: Path) -> None:
    targets = {"a": {"directory": "/a", "server_cache": "2t"}, "b": {"directory": "/a", "layout": ["-c", "4"]}}
    made = {"campaign": "c", "targets": targets}
    base = document()["sweeps"][0] | {"axes": {"queue_depth": [1, 2]}}
    one = base | {"name": "one", "options": base["options"] | {"target": "b"}}
    order = base | {"name": "order", "axes": {"target": ["b", "a"], "queue_depth": [1]}}
    some = base | {"name": "some", "exclude": [{"target": "a", "queue_depth": 2}], "side_by_side": "queue_depth"}
    found = read(tmp_path, made | {"sweeps": [base, one, order, some, {"suite": "four-corners", "scale": "laptop"}]})
    axes = {sweep.name: (sweep.axes.get("target"), sweep.side_by_side) for sweep in found.sweeps}
    assert {name: axes[name] for name in ("tiny", "one", "order", "some")} == {
        "tiny": (("a", "b"), "target"),
        "one": (None, None),
        "order": (("b", "a"), "target"),
        "some": (("a", "b"), "queue_depth"),
    }
    assert {axis for name, (axis, _) in axes.items() if name.startswith("four-corners.")} == {("a", "b")}
    plan = make_plan(found)
    assert (plan.targets["a"].server_cache, plan.targets["b"].layout) == (2 << 40, ("-c", "4"))
    assert plan.directory_on("b") == "/a/iosweep-c-b"
    members = {sweep.name: {p.target for p in plan.points if p.id in sweep.points} for sweep in plan.sweeps}
    assert (members["one"], members["order"]) == ({"b"}, {"a", "b"})
    shared = {p.id for p in plan.points if {"tiny", "one", "some"} <= {*p.sweeps}}
    assert len(shared) == 2  # b at both queue depths: a point is measured once, whatever sweep names its target


def test_what_cannot_be_side_by_side_is_named(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    sweeps: list[dict[str, Any]] = [
        {"axes": {"target": ["a", "c"]}},
        {"options": {"target": "bb"}},
        {"options": {"target": "a"}},  # no sweep measures b
        {"side_by_side": "queue_deph"},
        {"axes": {"nodes": [1, 2]}, "side_by_side": "nodes"},  # in two jobs
        {"exclude": [{"target": "c"}]},
    ]
    targets = {"a": {"directory": "/a"}, "b": {"directory": "/b"}}
    made = [{"campaign": "c", "targets": targets, "sweeps": document(**sweep)["sweeps"]} for sweep in sweeps]
    assert refused(tmp_path, made, make) == snapshot


def test_the_command_line_names_the_directory_of_a_single_target_only(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(TEXT.replace("target: {directory: /scratch/me}", "targets: {a: {directory: /a}}"))
    assert [*sweep_file.read(file).targets] == ["a"]
    with pytest.raises(ConfigError) as caught:
        sweep_file.read(file, {"target": "/mnt/x"})
    assert [(error.file, error.where) for error in caught.value.problems] == [("command line", "target.directory")]
