"""`accept:` of a configuration: thresholds, and errors that name line, figure, value and what would be right."""

from pathlib import Path
from typing import Any

import pytest

from campaign import document, make, problems, read
from iosweep.config import criteria
from iosweep.config.criteria import Criterion
from iosweep.config.yaml_lines import load
from iosweep.errors import ConfigError
from iosweep.plan import criteria as planned

pytestmark = pytest.mark.unit


def of(directory: Path, accept: Any, **sweep: Any) -> list[Criterion]:
    return list(read(directory, document(**sweep) | {"accept": accept}).accept)


@pytest.mark.parametrize(
    ("figure", "threshold", "value", "text"),
    [
        ("read_bandwidth", ">= 20 GiB/s", 20 * 2**30, ">= 20 GiB/s"),
        ("read_bandwidth", ">=20GB/s", 20e9, ">= 20 GB/s"),
        ("read_bandwidth", "< 1.5 MB/s", 1.5e6, "< 1.5 MB/s"),
        ("read_iops", ">= 100k", 100e3, ">= 100 k IOPS"),
        ("read_iops", "> 5000", 5000, "> 5000 IOPS"),
        ("read_iops", "< 1000000000000000000 IOPS", 1e18, "< 1000000000000000000 IOPS"),
        ("read_latency", "<= 0.00001 s", 1e-5, "<= 0.00001 s"),
        ("create_rate", ">= 50k ops/s", 50e3, ">= 50 k ops/s"),
        ("rand_read p99 at queue_depth 1", "<= 300us", 300e-6, "<= 300 us"),
        ("rand_read p99", "<= 0.3 ms", 0.3e-3, "<= 0.3 ms"),
        ("read_latency", "<= 300 µs", 300e-6, "<= 300 us"),
        ("rand_read scaling nodes 1 -> 8", ">= 6x", 6, ">= 6x"),
        ("rand_read scaling nodes 1 -> 8", ">= 75 %", 0.75, ">= 75 %"),
        ("read_bandwidth", ">= 90 % of weka.aws", 0.9, ">= 90 % of weka.aws"),
    ],
)
def test_thresholds(tmp_path: Path, figure: str, threshold: str, value: float, text: str) -> None:
    [found] = of(tmp_path, {figure: threshold})
    assert found.threshold.value == pytest.approx(value)
    assert found.threshold.text == text
    assert found.threshold.of == ("weka.aws" if "weka" in text else None)
    [again] = of(tmp_path, {figure: text})
    assert again.threshold == found.threshold


@pytest.mark.parametrize(
    ("figure", "threshold", "message"),
    [
        ("read_bandwidth", "20 GiB/s", "`20 GiB/s` is not a threshold; write a comparison, a decimal number and a"
                                       " unit, for example `>= 20 GiB/s`"),
        ("read_bandwidth", 20, "`20` is not a threshold; write a comparison"),
        ("read_bandwidth", None, "`None` is not a threshold"),
        ("read_bandwidth", [">= 2 GiB/s"], "is not a threshold"),
        ("read_bandwidth", "=> 20 GiB/s", "`=> 20 GiB/s` is not a threshold"),
        ("read_bandwidth", ">= 20", "`>= 20` has no unit"),
        ("read_bandwidth", ">= 20 GiB", "`GiB` is not a unit of a bandwidth; did you mean `GiB/s`? (known: B/s,"),
        ("read_bandwidth", ">= 20 ms", "`ms` is not a unit of a bandwidth"),
        ("read_bandwidth", ">= 0 GiB/s", "every figure is above zero, so this threshold decides nothing; write a"),
        ("read_latency", "<= 0.0 us", "every figure is above zero"),
        ("read_bandwidth", ">= 9" + "0" * 150 + " GiB/s", "the number is too large (it may be 1e-12 to 1e+18)"),
        ("read_bandwidth", ">= 0." + "0" * 20 + "1 GiB/s", "the number is too small"),
        ("read_bandwidth", ">= 0x10 GiB/s", "does not begin with a decimal number"),
        ("read_bandwidth", ">= 1,5 GiB/s", "does not begin with a decimal number"),
        ("read_bandwidth", ">= GiB/s", "does not begin with a decimal number"),
        ("read_bandwidth", ">= 1 <= 5 GiB/s", "is not a threshold"),
        ("read_bandwidth", ">= " + "9" * 500, "is not a threshold"),
        ("read_bandwidth", ">= 90 %", "is a share of nothing; write `% of` and a suite"),
        ("read_bandwidth", ">= 90 % of", "does not name what it is a share of"),
        ("read_iops", ">= 20 GiB/s", "`GiB/s` is not a unit of IOPS (known: IOPS, k IOPS, M IOPS)"),
        ("read_latency", "<= 300", "has no unit; write a comparison, a decimal number and a unit, for example"
                                   " `<= 300us`"),
        ("rand_read scaling nodes 1 -> 8", ">= 6 GiB/s", "`GiB/s` is not a unit of scaling (known: x, %)"),
        ("rand_read scaling transfer_size 4k -> 1m", ">= 50 %", "a share of what transfer_size has grown by says"),
        ("red_bandwidth", ">= 20 GiB/s", "names no phase and no figure; did you mean `read_bandwidth`?"),
        ("rand_read at queue_dept 1", ">= 5k", "did you mean `queue_depth`?"),
    ],
)  # fmt: skip
def test_errors_of_one_criterion(tmp_path: Path, figure: str, threshold: Any, message: str) -> None:
    [found] = problems(tmp_path, document() | {"accept": {figure: threshold}})
    assert f"accept.{figure}: " in found
    assert message in found


def test_an_error_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text('accept:\n  read_iops: ">= 5k"\n  write_iops: ">= 5 ms"\n  rand_read: "> 5k"\n')
    with pytest.raises(ConfigError) as caught:
        criteria.load(load(tmp_path / "x.yaml"))
    assert [(one.line, one.where) for one in caught.value.problems] == [
        (3, "accept.write_iops"),
        (4, "accept.rand_read"),
    ]
    assert caught.value.problems[1].message == "is the same figure as in line 2; keep one"


@pytest.mark.parametrize(
    "section", [{}, [], "read_iops", None, {f"rand_read at nodes {n}": "> 1k" for n in range(1, 1002)}]
)
def test_a_section_that_is_not_one(tmp_path: Path, section: Any) -> None:
    [found] = problems(tmp_path, document() | {"accept": section})
    assert "accept: must be a mapping of figures" in found or "accept: has 1,001 criteria" in found


def test_both_directions_of_one_figure_are_two_criteria(tmp_path: Path) -> None:
    assert len(of(tmp_path, {"read_iops": ">= 5k", "rand_read iops": "<= 9k"})) == 2


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ("write_iops", "rand_write is not measured (phases: rand_read)"),
        ("rand_read p99 at queue_depth 3", "no rand_read is measured at queue_depth 3; queue_depth is 1, 2, 4 there"),
        ("rand_read at sweep small", "sweep is tiny there"),
    ],
)
def test_what_the_sweeps_do_not_measure_is_an_error(tmp_path: Path, figure: str, message: str) -> None:
    threshold = "<= 3 ms" if "p99" in figure else ">= 5k"
    [found] = problems(tmp_path, document() | {"accept": {figure: threshold}}, make)
    assert message in found


def test_what_exclude_leaves_out_is_not_measured(tmp_path: Path) -> None:
    whole = document(exclude=[{"queue_depth": [4]}]) | {"accept": {"rand_read at queue_depth 4": ">= 5k"}}
    [found] = problems(tmp_path, whole, make)
    assert "queue_depth is 1, 2 there" in found


def test_figures_that_do_not_compare_have_to_be_told_apart(tmp_path: Path) -> None:
    twice = document()
    twice["sweeps"].append(twice["sweeps"][0] | {"name": "cached", "options": {"o_direct": False}})
    [found] = problems(tmp_path, twice | {"accept": {"read_iops": ">= 5k"}}, make)
    assert "ways that do not compare (o_direct true or false); name one: `rand_read iops at o_direct true`" in found
    assert make(tmp_path, twice | {"accept": {"rand_read iops at o_direct true": ">= 5k"}}).accept


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"suite": "weka"}, 0),
        ({"suite": "weka", "scale": "laptop"}, 1),
        ({"suite": "weka", "nodes": [3]}, 1),
    ],
)
def test_a_published_figure_that_nothing_planned_compares_with_is_said(
    tmp_path: Path, entry: dict[str, Any], said: int
) -> None:
    accept = {"rand_read iops at sweep weka.read-iops": ">= 90 % of weka"}
    found = planned.lines(make(tmp_path, document() | {"sweeps": [entry], "accept": accept}))
    assert [line for line in found if "nothing planned is measured as weka was" in line] == found[2:]
    assert len(found[2:]) == said


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ("lustre", "`lustre` is no suite with published figures (known: everything, four-corners, "),
        ("weka.ibm", "`weka.ibm` has no published read_iops (it has "),
        ("mdtest", "`mdtest` has no published read_iops (it has "),
    ],
)
def test_what_has_no_published_figure_is_an_error(tmp_path: Path, of: str, said: str) -> None:
    [found] = problems(tmp_path, document() | {"accept": {"read_iops": f">= 90 % of {of}"}})
    assert said in found


def test_a_threshold_changes_no_allocation(tmp_path: Path) -> None:
    """Nothing is measured again; the plan is another one, so that tables and report are made again."""
    plain, five, six = (make(tmp_path, document() | more) for more in (
        {}, {"accept": {"read_iops": ">= 5k"}}, {"accept": {"read_iops": ">= 6k"}}))  # fmt: skip
    assert plain.allocations == five.allocations == six.allocations
    assert len({plain.digest, five.digest, six.digest}) == 3


@pytest.mark.parametrize("fstype", ["tmpfs", "ext4", ""])
@pytest.mark.parametrize("type", ["tmpfs", None])
def test_a_plan_says_that_a_target_in_memory_decides_nothing(tmp_path: Path, fstype: str, type: str | None) -> None:
    """Where `target.type` names that memory, it is meant, and no repetition is suspect because of it."""
    whole = document() | {"accept": {"read_iops": ">= 5k"}}
    plan = make(tmp_path, whole | {"target": whole["target"] | ({"type": type} if type else {})})
    memory = (
        ["  all criteria will be undecided: the target is memory (tmpfs)"] if fstype == "tmpfs" and not type else []
    )
    assert planned.lines(plan, fstype) == ["accept: 1 criterion", "  read_iops >= 5 k IOPS", *memory]
    assert planned.lines(make(tmp_path, document()), fstype) == []
