"""`accept:` of a configuration: thresholds, and errors that name line, figure, value and what would be right."""

import json
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from campaign import TEXT, document, make, problems, read, refused
from iosweep.config.criteria import Criterion
from iosweep.plan.headline_groups import foreseen

#: figure, threshold as it is written, its value in the unit of the table, and its canonical text.
THRESHOLDS = [
    ("read_bandwidth", ">=20GB/s", 20e9, ">= 20 GB/s"),
    ("read_bandwidth", ">= 20 GiB/s", 20 * 2**30, ">= 20 GiB/s"),
    ("read_bandwidth", "< 1.5 MB/s", 1.5e6, "< 1.5 MB/s"),
    ("read_iops", ">= 100k", 100e3, ">= 100 k IOPS"),
    ("read_iops", "> 5000", 5000, "> 5000 IOPS"),
    ("read_iops", "< 1000000000000000000 IOPS", 1e18, "< 1000000000000000000 IOPS"),
    ("create_rate", ">= 50k ops/s", 50e3, ">= 50 k ops/s"),
    ("read_latency", "<= 0.00001 s", 1e-5, "<= 0.00001 s"),
    ("rand_read p99", "<= 0.3 ms", 0.3e-3, "<= 0.3 ms"),
    ("read_latency", "<= 300 µs", 300e-6, "<= 300 us"),
    ("rand_read scaling nodes 1 -> 8", ">= 6x", 6, ">= 6x"),
    ("read_bandwidth", ">= 90 % of weka.aws", 0.9, ">= 90 % of weka.aws"),
]


def test_a_threshold_has_the_value_of_its_unit_and_is_read_back(tmp_path: Path) -> None:
    def threshold(figure: str, text: str) -> Any:
        found: list[Criterion] = list(read(tmp_path, document() | {"accept": {figure: text}}).accept)
        return found[0].threshold

    for figure, written, value, text in THRESHOLDS:
        found = threshold(figure, written)
        assert found.value == pytest.approx(value), written
        assert (found.text, found.of) == (text, "weka.aws" if "weka" in text else None)
        assert threshold(figure, text) == found


#: A figure that these sweeps do not measure, or do not tell apart.
NOT_MEASURED = {
    "write_iops": ">= 5k",
    "rand_read p99 at queue_depth 3": "<= 3 ms",
    "rand_read at sweep small": ">= 5k",
    "rand_read at queue_depth 4": ">= 5k",
    "rand_read scaling nodes 1 -> 4": ">= 2x",
}


def test_what_is_not_measured_is_no_criterion(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Other errors: test_sweep_file.py."""
    left_out = f"{TEXT}    exclude: [{{queue_depth: [4]}}]\naccept: "
    cases = [f"{left_out}{json.dumps({name: value})}\n" for name, value in NOT_MEASURED.items()]
    assert refused(tmp_path, cases, make) == snapshot
    twice = f'{TEXT}accept:\n  read_iops: ">= 5k"\n  write_iops: ">= 5 ms"\n  rand_read: "> 5k"\n'
    assert refused(tmp_path, [twice]) == snapshot


def test_figures_that_do_not_compare_have_to_be_told_apart(tmp_path: Path) -> None:
    twice = document()
    twice["sweeps"].append(twice["sweeps"][0] | {"name": "cached", "options": {"o_direct": False}})
    [found] = problems(tmp_path, twice | {"accept": {"read_iops": ">= 5k"}}, make)
    assert "`rand_read iops at o_direct true`" in found
    assert make(tmp_path, twice | {"accept": {"rand_read iops at o_direct true": ">= 5k"}}).accept
    # and both directions of one figure are two criteria
    assert len(make(tmp_path, document() | {"accept": {"read_iops": ">= 5k", "rand_read iops": "<= 9k"}}).accept) == 2


def test_a_figure_is_of_one_target_and_a_ratio_of_two(tmp_path: Path) -> None:
    several = document() | {"targets": {"a": {"directory": "/a"}, "b": {"directory": "/b"}}}
    del several["target"]
    [found] = problems(tmp_path, several | {"accept": {"read_iops": ">= 5k"}}, make)
    assert "`rand_read iops at target a`" in found
    for fine in ("rand_read iops at target a", "rand_read ratio target a -> b"):
        assert make(tmp_path, several | {"accept": {fine: ">= 1x" if "ratio" in fine else ">= 5k"}}).accept
    [found] = problems(tmp_path, several | {"accept": {"rand_read iops at target c": ">= 5k"}}, make)
    assert "target is a, b there" in found


def test_a_plan_says_what_it_cannot_give(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """Each cause once; nothing where all is well, also under a scaled suite."""
    accept = {f"rand_read{figure}": ">= 2x" for figure in (" scaling queue_depth 1 -> 4", " ratio queue_depth 4 -> 8")}
    best, published = {"read_iops": ">= 5k"}, {"read_iops": ">= 90 % of weka.aws"}
    other = document()["sweeps"][0] | {"name": "deep", "axes": {"queue_depth": [8], "transfer_size": ["1m"]}}
    long = {"limits": {}, "sweeps": [document(phase_time="10s", repetitions=5)["sweeps"][0]]}
    two = [document(phase_time="10s", repetitions=5, confirm=2)["sweeps"][0]]
    cases: dict[str, dict[str, Any]] = {
        "well": long | {"accept": best},
        "short": {"limits": {}, "accept": best},
        "short in part": long | {"sweeps": [*long["sweeps"], other], "accept": accept},
        "a trial": {"accept": best | published},
        "confirmed twice": long | {"sweeps": two, "accept": best | {"read_iops at queue_depth 1": ">= 5k"}},
        "confirmed twice in two sessions": long | {"sweeps": two, "sessions": 2, "accept": best},
        "scaled": {"limits": {}, "sweeps": [{"suite": "four-corners", "scale": "laptop"}]},
    }
    said = {name: foreseen(make(tmp_path, document() | case)) for name, case in cases.items()}
    assert "\n".join(f"{name}: {line}" for name, lines in said.items() for line in lines) == snapshot


def test_a_threshold_changes_no_allocation(tmp_path: Path) -> None:
    """Nothing is measured again; the plan is another one, so that tables and report are made again."""
    plain, five, six = (make(tmp_path, document() | more) for more in (
        {}, {"accept": {"read_iops": ">= 5k"}}, {"accept": {"read_iops": ">= 6k"}}))  # fmt: skip
    assert plain.allocations == five.allocations == six.allocations
    assert len({plain.digest, five.digest, six.digest}) == 3
