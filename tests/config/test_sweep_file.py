"""The configuration: what is accepted, and what an error says: line, key, value and what would be right."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from campaign import TEXT, document, problems, read
from iosweep.config import models, sweep_file
from iosweep.config.sweeps import Repetitions
from iosweep.errors import ConfigError
from iosweep.plan.expand import make_plan

OPTIONS = (
    "nodes, threads_per_node, transfer_size, queue_depth, file_size, files_per_thread, read_percent, o_direct,"
    " fsync, write_mode, data, ioengine, client_server"
)
TOP = "campaign, description, target, limits, pinning, cpus, tools, allow_open_port, allocation, seed, accept, sweeps"
SWEEP = "name, tool, description, phases, axes, options, exclude, phase_time, repetitions, confirm, ramp"
SUITES = ", ".join(sorted(file.stem for file in models.SUITES.glob("*.yaml")))
NO_DURATION = "not a duration; write a number with its unit ms, s, min, h or d, for example 60s or 2h"
NO_TIME = f"{NO_DURATION}; or one_pass, which needs none"
NO_SIZE = "not a size; write bytes, or a whole number with k, m, g, t or p (binary), for example 4k or 16g"
NO_SHARE = "not a share; write a percentage from 0% to 100%, for example 5%"
NEITHER = "is neither a sweep (it has no `tool`) nor a suite (it has no `suite`)"


def test_the_smallest_configuration(tmp_path: Path) -> None:
    found = read(tmp_path, TEXT)
    assert (found.campaign, found.description, found.seed) == ("quick", None, 1)
    assert found.target.model_dump() == {
        "directory": "/scratch/me",
        "type": None,
        "server_cache": None,
        "node_bandwidth": None,
        "layout": None,
        "keep": "none",
        "settle": 0.0,
        "deadline": 30.0,
        "lock": None,
    }
    assert found.limits.share_of_free == 0.1
    assert found.limits.fill == 0.8
    assert found.limits.bytes_written is found.limits.time is None
    [sweep] = found.sweeps
    assert sweep.axes == {"threads_per_node": (1, 2), "transfer_size": (4096, 65536), "queue_depth": (1, 2, 4)}
    assert sweep.options == {"file_size": 16 << 20}
    assert sweep.phases == ("rand_read",)
    assert sweep.phase_time_s == 1.0
    assert sweep.repetitions == Repetitions(1, 1, None)
    assert not sweep.scaled


def test_defaults_of_a_sweep(tmp_path: Path) -> None:
    [sweep] = read(tmp_path, document(axes=None, options=None, phase_time=None, repetitions=None)).sweeps
    assert (sweep.axes, sweep.options, sweep.exclude) == ({}, {}, ())
    assert sweep.phase_time_s == 60.0
    assert sweep.repetitions == Repetitions(5, 10, 0.05)


@pytest.mark.parametrize(("written", "meant"), [("90s", 90.0), ("10ms", 0.01), ("one_pass", None)])
def test_phase_times(tmp_path: Path, written: str, meant: float | None) -> None:
    assert read(tmp_path, document(phase_time=written)).sweeps[0].phase_time_s == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (5, Repetitions(5, 5, None)),
        ({}, Repetitions(5, 10, 0.05)),
        ({"min": 2}, Repetitions(2, 10, 0.05)),
        ({"min": 2, "max": 4, "until_ci95_half_width": "10%"}, Repetitions(2, 4, 0.1)),
    ],
)
def test_repetitions(tmp_path: Path, written: Any, meant: Repetitions) -> None:
    assert read(tmp_path, document(repetitions=written)).sweeps[0].repetitions == meant


@pytest.mark.local
@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        # a key that is not known: the nearest right one, and all of them
        ("campaign:", "campaing:", ["1: `campaign` is missing",
                                    f"1: campaing: unknown key `campaing`; did you mean `campaign`? (known: {TOP})"]),
        ("axes:", "axis:", [f"7: sweeps[0].axis: unknown key `axis`; did you mean `axes`? (known: {SWEEP})"]),
        ("axes:", "quux:", [f"7: sweeps[0].quux: unknown key `quux` (known: {SWEEP})"]),
        ("queue_depth:", "queue_deph:", [f"7: sweeps[0].axes.queue_deph: unknown key `queue_deph`; did you mean"
                                         f" `queue_depth`? (known: {OPTIONS})"]),
        ("file_size", "filesize", ["8: sweeps[0].options.filesize: unknown key `filesize`; did you mean `file_size`?"
                                   f" (known: {OPTIONS.removeprefix('nodes, ')})"]),
        ("directory:", "direktory: x, directory:",
         ["2: target.direktory: unknown key `direktory`; did you mean `directory`?"
          " (known: directory, type, server_cache, node_bandwidth, layout, keep, settle,"
           " deadline, lock)"]),
        ("repetitions: 1", "repetitions: {mim: 5}",
         ["10: sweeps[0].repetitions.mim: unknown key `mim`; did you mean `min`?"
          " (known: min, max, until_ci95_half_width)"]),
        # what is missing stands at the line of what lacks it
        ("    phases: [rand_read]\n", "", ["4: sweeps[0]: `phases` is missing"]),
        ("{directory: /scratch/me}", "{}", ["2: target: `directory` is missing"]),
        ("    tool: fio\n", "", [f"4: sweeps[0]: {NEITHER}"]),
        # names
        ("tool: fio", "tool: foi", ["5: sweeps[0].tool: unknown tool `foi`; did you mean `fio`?"
                                    " (known: fio, ior, mdtest)"]),
        ("[rand_read]", "[rand_raed]",
         ["6: sweeps[0].phases[0]: unknown value `rand_raed`; did you mean `rand_read`? (known: seq_write, seq_read,"
          " rand_write, rand_read, rand_mixed, create, stat, delete)"]),
        ("{file_size: 16m}", "{ioengine: libaoi}",
         ["8: sweeps[0].options.ioengine: unknown value `libaoi`; did you mean `libaio`? (known: libaio, io_uring,"
          " posixaio, psync, sync)"]),
        ("quick", "a b", ['1: campaign: "a b" is not a name; write up to 64 letters, digits, dots, dashes and'
                          " underscores (a letter or digit first)"]),
        ("quick", "../up", ['1: campaign: "../up" is not a name; write up to 64 letters, digits, dots, dashes and'
                            " underscores (a letter or digit first)"]),
        ("quick", '"quick\\n"', ['1: campaign: "quick\\n" is not a name; write up to 64 letters, digits, dots, dashes'
                                  " and underscores (a letter or digit first)"]),
        ("/scratch/me", "~/me", ['2: target.directory: "~/me" starts with `~`, which is not expanded; write the path'
                                 " out"]),
        ("axes:", "010: 1\n    axes:", ["7: sweeps[0]: keys must be text; put this one in quotes"]),
        # bounds
        ("phase_time: 1s", "phase_time: 9ms", ['9: sweeps[0].phase_time: "9ms" is shorter than 10ms']),
        ("[1, 2],", "[1, 4097],",
         ["7: sweeps[0].axes.threads_per_node[1]: 4097 is not a whole number from 1 to 4096"]),
        ("[1, 2],", "[1], nodes: [65537],",
         ["7: sweeps[0].axes.nodes[0]: 65537 is not a whole number from 1 to 65536"]),
        ("repetitions: 1", "repetitions: 65537",
         ["10: sweeps[0].repetitions: 65537 is not a whole number from 1 to 65536"]),
        ("repetitions: 1", "repetitions: {max: 65537}",
         ["10: sweeps[0].repetitions.max: 65537 is not a whole number from 1 to 65536"]),
        # types
        ("[rand_read]", "rand_read",
         ['6: sweeps[0].phases: "rand_read" must be a list, for example [seq_write, seq_read]']),
        ("[1, 2],", "1,", ["7: sweeps[0].axes.threads_per_node: 1 must be a list, for example [1, 2, 4]"]),
        ("[1, 2],", "[],", ["7: sweeps[0].axes.threads_per_node: [] is empty; give at least one value"]),
        ("[1, 2],", "[0, 1.5, true, '2', 70000],",
         [f"7: sweeps[0].axes.threads_per_node[{i}]: {v} is not a whole number from 1 to 4096"
          for i, v in enumerate(("0", "1.5", "true", '"2"', "70000"))]),
        ("[4k, 64k]", "[4KiB, 1.5m]", [f'7: sweeps[0].axes.transfer_size[0]: "4KiB" is {NO_SIZE}',
                                       f'7: sweeps[0].axes.transfer_size[1]: "1.5m" is {NO_SIZE}']),
        ("[4k, 64k]", "[256]", ["7: sweeps[0].axes.transfer_size[0]: 256 is smaller than 512"]),
        ("phase_time: 1s", "phase_time: 60", [f"9: sweeps[0].phase_time: 60 is {NO_TIME}"]),
        ("phase_time: 1s", "phase_time: 1:30", [f'9: sweeps[0].phase_time: "1:30" is {NO_TIME}']),
        ("phase_time: 1s", "phase_time: one pass", [f'9: sweeps[0].phase_time: "one pass" is {NO_TIME}']),
        ("phase_time: 1s", "phase_time: null", [f"9: sweeps[0].phase_time: None is {NO_TIME}"]),
        ("target:", "limits: {time: one_pass}\ntarget:", [f'2: limits.time: "one_pass" is {NO_DURATION}']),
        ("repetitions: 1", "repetitions: 0",
         ["10: sweeps[0].repetitions: 0 is not a number of repetitions; write a whole number from 1,"
          " or {min, max, until_ci95_half_width}"]),
        ("repetitions: 1", "repetitions: {min: 5, max: 2}", ["10: sweeps[0].repetitions: max 2 is below min 5"]),
        ("repetitions: 1", "repetitions: {until_ci95_half_width: 0.05}",
         [f"10: sweeps[0].repetitions.until_ci95_half_width: 0.05 is {NO_SHARE}"]),
        ("{file_size: 16m}", "{o_direct: yes}", ['8: sweeps[0].options.o_direct: "yes" must be true or false']),
        ("{file_size: 16m}", "16m", ['8: sweeps[0].options: "16m" must be a mapping of keys to values']),
        ("{directory: /scratch/me}", "/scratch/me",
         ['2: target: "/scratch/me" must be a mapping of keys to values']),
        ("/scratch/me", "7", ["2: target.directory: 7 is not a path; write the directory as text, in quotes if it has"
                              " special characters"]),
        ("target:", "limits: {fill: 120%, time: 5}\ntarget:",
         [f"2: limits.time: 5 is {NO_DURATION}", f'2: limits.fill: "120%" is {NO_SHARE}']),
        ("target:", "seed: -1\ndescription: 5\ntarget:",
         ["2: seed: -1 is not a whole number from 0 to 2147483647", "3: description: 5 must be text"]),
        # what the types alone cannot see
        ("[rand_read]", "[rand_read, create]",
         ["6: sweeps[0].phases: mixes data and metadata phases; write two sweeps"]),
        ("[rand_read]", "[rand_read, rand_read]", ["6: sweeps[0].phases: has a phase twice"]),
        ("{file_size: 16m}", "{queue_depth: 2}",
         ["8: sweeps[0].options.queue_depth: `queue_depth` is set under both axes and options; keep one"]),
        ("{file_size: 16m}", "{fsync: false}", ["8: sweeps[0].options.fsync: `fsync` has no effect on rand_read"]),
        ("target:", "cpus: {placement: pack, nic: ib0}\ntarget:",
         ['2: cpus.nic: "ib0" is without effect; it is for `placement: near_nic`']),
        ("[4k, 64k]", "[4k, 4096]",
         ["7: sweeps[0].axes.transfer_size: has a value twice (sizes are binary: 1k is 1024)"]),
    ],
)  # fmt: skip
def test_what_is_wrong(tmp_path: Path, old: str, new: str, wrong: list[str]) -> None:
    assert old in TEXT
    assert problems(tmp_path, TEXT.replace(old, new, 1)) == wrong


@pytest.mark.parametrize(
    ("sweeps", "wrong"),
    [
        ("sweeps: []\n", ["3: sweeps: [] is empty; give at least one value"]),
        ("sweeps: {}\n", ["3: sweeps: {} must be a list, for example [{suite: four-corners}]"]),
        ("sweeps:\n  - word\n  - 3\n  -\n", [f"{4 + i}: sweeps[{i}]: {NEITHER}" for i in range(3)]),
        ("sweeps:\n  - suite: four-corner\n",
         [f"4: sweeps[0].suite: unknown suite `four-corner`; did you mean `four-corners`? (known: {SUITES})"]),
        ("sweeps:\n  - suite: four-corners\n    scale: lapto\n",
         ['5: sweeps[0].scale: "lapto" is not a scale; write `laptop`, or a mapping of upper bounds such as'
          " {phase_time: 5s, file_size: 256m}"]),
        ("sweeps:\n  - suite: four-corners\n    scale: {phase_time: 1ms}\n",
         ['5: sweeps[0].scale.phase_time: "1ms" is shorter than 10ms']),
        ("sweeps:\n  - suite: four-corners\n  - suite: four-corners\n    nodes: [2]\n",
         ["5: sweeps[1].suite: `four-corners` is listed twice (also sweeps[0]); keep one entry with all node counts"]),
        ("sweeps:\n  - suite: four-corners\n    scale: {file_sise: 4k}\n",
         ["5: sweeps[0].scale.file_sise: unknown key `file_sise`; did you mean `file_size`? (known: phase_time,"
          " repetitions, threads_per_node, transfer_size, queue_depth, file_size, files_per_thread)"]),
        ("sweeps:\n  - suite: four-corners\n    nodes: []\n",
         ["5: sweeps[0].nodes: [] is empty; give at least one value"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_entries(tmp_path: Path, sweeps: str, wrong: list[str]) -> None:
    assert problems(tmp_path, "campaign: c\ntarget: {directory: /t}\n" + sweeps) == wrong


def test_two_sweeps_of_one_name(tmp_path: Path) -> None:
    twice = TEXT + TEXT[TEXT.index("  - name") :]
    [problem] = problems(tmp_path, twice)
    assert problem == f"11: sweeps[1].name: `tiny` names two sweeps (the other: {tmp_path}/x.yaml, line 4)"


@pytest.mark.local
@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        ("exclude", "[{queue_depth: 3}]",
         ["11: sweeps[0].exclude[0].queue_depth: 3 is not a value of the axis (it has 1, 2, 4)"]),
        ("exclude", "[{file_size: 1m}]",
         ["11: sweeps[0].exclude[0].file_size: the sweep has no axis `file_size` (it has threads_per_node,"
          " transfer_size, queue_depth)"]),
        ("exclude", "[{}]", ["11: sweeps[0].exclude[0]: is empty; name at least one axis and its value"]),
        ("exclude", "[{queue_dept: 1}]",
         ["11: sweeps[0].exclude[0].queue_dept: unknown key `queue_dept`; did you mean `queue_depth`?"
          f" (known: {OPTIONS})"]),
        ("exclude", "{queue_depth: 1}",
         ["11: sweeps[0].exclude: {'queue_depth': 1} must be a list, for example [{queue_depth: 8}]"]),
        ("ramp", "nodes",
         ["11: sweeps[0].ramp: the sweep has no axis `nodes` (it has threads_per_node, transfer_size,"
          " queue_depth)"]),
    ],
)  # fmt: skip
def test_conditions_name_axes_and_their_values(tmp_path: Path, key: str, value: str, wrong: list[str]) -> None:
    assert problems(tmp_path, f"{TEXT}    {key}: {value}\n") == wrong


def test_a_scale_takes_conditions_with_it(tmp_path: Path) -> None:
    axes = {"threads_per_node": [1, 16], "queue_depth": [1, 2, 64], "transfer_size": ["4k", "64k"]}
    [sweep] = read(
        tmp_path,
        document(
            axes=axes,
            exclude=[{"queue_depth": 64}, {"queue_depth": [2, 64], "transfer_size": "4k"}, {"transfer_size": "64k"}],
        ),
    ).sweeps
    scaled = sweep_file._scaled(sweep, models.Scale.model_validate({"threads_per_node": 8, "queue_depth": 2}))
    assert scaled.axes == {"threads_per_node": (1, 8), "queue_depth": (1, 2), "transfer_size": (4096, 65536)}
    # what names only values that are out of bounds leaves nothing out any more
    assert scaled.exclude == ({"queue_depth": (2,), "transfer_size": (4096,)}, {"transfer_size": (65536,)})
    assert sweep_file._check(scaled) == []


def test_all_problems_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    # the second sweep is wrong in a way that only a valid file used to show
    text = TEXT.replace("quick", "a b").replace("phase_time: 1s", "phase_time: 1").replace("target:", "tragte:")
    text += TEXT[TEXT.index("  - name") :].replace("name: tiny", "name: two").replace("[4k, 64k]", "[4k, 4096]")
    found = problems(tmp_path, text)
    assert [p.split(":")[0] for p in found] == ["1", "1", "2", "9", "14"]
    assert "has a value twice" in found[-1]


def test_a_value_or_a_list_in_a_condition(tmp_path: Path) -> None:
    [sweep] = read(tmp_path, document(exclude=[{"queue_depth": 1, "transfer_size": ["4k", "64k"]}])).sweeps
    assert sweep.exclude == ({"queue_depth": (1,), "transfer_size": (4096, 65536)},)


def test_a_relative_file_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path("sub/y.yaml").write_text("campaign: c\n")
    with pytest.raises(ConfigError) as caught:
        sweep_file.read(Path("sub/y.yaml"))
    assert str(caught.value).splitlines() == ["sub/y.yaml:1: `target` is missing", "sub/y.yaml:1: `sweeps` is missing"]


def test_the_shipped_configurations_are_right(root: Path) -> None:
    files = [root / "config/sweep.yaml", *sorted((root / "config/examples").glob("*.yaml"))]
    assert len(files) >= 3
    for file in files:
        assert make_plan(sweep_file.read(file)).points


PLACES = st.sampled_from(
    [
        (), ("campaign",), ("target",), ("target", "directory"), ("target", "server_cache"), ("limits",),
        ("limits", "fill"), ("limits", "time"), ("seed",), ("sweeps",), ("sweeps", 0),
        ("sweeps", 0, "name"), ("sweeps", 0, "tool"),
        ("sweeps", 0, "phases"), ("sweeps", 0, "phases", 0), ("sweeps", 0, "axes"), ("sweeps", 0, "axes", "nodes"),
        ("sweeps", 0, "axes", "transfer_size"), ("sweeps", 0, "axes", "transfer_size", 0), ("sweeps", 0, "options"),
        ("sweeps", 0, "options", "ioengine"), ("sweeps", 0, "options", "o_direct"), ("sweeps", 0, "exclude"),
        ("sweeps", 0, "exclude", 0), ("sweeps", 0, "exclude", 0, "queue_depth"),
        ("sweeps", 0, "phase_time"), ("sweeps", 0, "repetitions"),
        ("sweeps", 0, "repetitions", "min"), ("sweeps", 1),
    ]
)  # fmt: skip
WORDS = st.sampled_from(
    [
        "",
        "4k",
        "1s",
        "5%",
        "fio",
        "seq_write",
        "create",
        "delete",
        "libaio",
        "psync",
        "laptop",
        "four-corners",
        "new",
        "~/x",
    ]
)
# small numbers: what many nodes and files cost is the plan's business, not the types'
SCALARS = st.none() | st.booleans() | st.integers(-3, 100) | st.floats() | WORDS | st.text(max_size=5)
KEYS = st.sampled_from(
    ["suite", "scale", "tool", "min", "max", "nodes", "queue_depth", "fsync", "<<", "a"]
) | st.integers(0, 2)
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
    try:
        made = make_plan(read(tmp_path_factory.getbasetemp(), made if isinstance(made, dict) else {"a": made}))
    except ConfigError as error:
        found = error.problems
    else:
        made.document()
        found = []
    assert all(p.message and p.line >= 1 for p in found)


def test_nodes_are_an_axis(tmp_path: Path) -> None:
    found = problems(tmp_path, TEXT.replace("options: {file_size: 16m}", "options: {file_size: 16m, nodes: 2}"))
    assert found == ["8: sweeps[0].options.nodes: belongs under axes: write `axes: {nodes: [...]}`"]


def test_values_from_the_command_line(tmp_path: Path) -> None:
    read(tmp_path, TEXT.replace("me}", "me, keep: all}"))
    file = tmp_path / "x.yaml"
    plain, found = sweep_file.read(file), sweep_file.read(file, {"campaign": "007", "target": "/mnt/x"})
    assert (found.campaign, found.target.directory, found.target.keep) == ("007", "/mnt/x", "all")
    assert found.sweeps[0].axes == plain.sweeps[0].axes
    # plan and report keep what was given
    [*files, given] = found.documents
    assert [d.text for d in files] == [d.text for d in plain.documents]
    assert (given.file, given.text) == ("command line", 'campaign: "007"\ntarget.directory: "/mnt/x"\n')
    # an error is not blamed on the file
    with pytest.raises(ConfigError) as caught:
        sweep_file.read(file, {"campaign": "a/b", "target": "~/x"})
    first, second = sorted(map(str, caught.value.problems))
    assert first.startswith('command line: campaign: "a/b" is not a name; write up to')
    assert second.startswith('command line: target.directory: "~/x" starts with `~`, which is not expanded')


def test_a_target_from_the_command_line_alone(tmp_path: Path) -> None:
    read(tmp_path, TEXT)
    (tmp_path / "x.yaml").write_text(TEXT.replace("target: {directory: /scratch/me}\n", ""))
    assert sweep_file.read(tmp_path / "x.yaml", {"target": "/mnt/x"}).target.directory == "/mnt/x"
