"""mdtest's output of others, to rows: against outputs of real runs (samples/mdtest), good, bad and damaged.

expected.json has the figures, which are copied from the files' columns, or why there are none. `doubtful` names single
rows that are no rate of the run (3.3.0: the ranks' own rates differ).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.results.columns import result_columns
from iosweep.tools.mdtest.options import ROWS
from iosweep.tools.mdtest.output import read
from iosweep.tools.mdtest.runs import ALONE
from iosweep.tools.reading import Reading
from readings import measured
from readings import texts as all_texts

pytestmark = pytest.mark.usefixtures("short_runs_are_good")

SAMPLES = Path(__file__).resolve().parents[1] / "samples/mdtest"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())
GOOD, BAD, DOUBTFUL = EXPECTED["good"], EXPECTED["bad"], EXPECTED["doubtful"]
FIGURES = ("max_ops_per_s", "min_ops_per_s", "ops_per_s", "stddev_ops_per_s")
with (SAMPLES / "manifest.tsv").open() as _file:
    ALL = {f"{row['version']}/{row['sample']}" for row in csv.DictReader(_file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def content(sample: str) -> bytes:
    paths = [SAMPLES / f"{sample}.{end}" for end in ("out", "err")]
    return b"".join(path.read_bytes() for path in paths if path.exists())


def texts(reading: Reading) -> list[str]:
    """What is wrong with it, but for tables without the lines above them, which some samples are."""
    return [text for text in all_texts(reading) if not text.endswith(ALONE)]


def test_every_sample_is_decided() -> None:
    assert GOOD.keys() | BAD.keys() == ALL


@pytest.mark.parametrize("sample", GOOD)
def test_good_samples_give_the_tables_figures(sample: str) -> None:
    reading, doubtful = read(content(sample)), DOUBTFUL.get(sample, ())
    assert [any(name in text for text in texts(reading)) for name in doubtful] == [True] * len(doubtful)
    assert len(texts(reading)) == len(doubtful)
    runs: dict[Any, dict[Any, list[Any]]] = {}
    for row in measured(reading):
        run = runs.setdefault((row.get("command"), row.get("tasks"), row.get("repetition")), {})
        run[row["label"]] = [row[name] for name in FIGURES]
    expected = [{name: row for name, row in run.items() if name not in doubtful} for run in GOOD[sample]]
    assert [*runs.values()] == [run for run in expected if run]
    for row in reading.rows:
        assert set(row) <= {column.name for column in result_columns()}
        assert (row["tool"], row["kind"], ROWS[str(row["phase"])]) == ("mdtest", "metadata", row["label"])
    bare = sample.startswith("seeds/")
    assert any(text.endswith(ALONE) for text in all_texts(reading)) == bare


@pytest.mark.parametrize("sample", BAD)
def test_bad_samples_give_no_figure_and_say_why(sample: str) -> None:
    reading = read(content(sample))
    assert not reading.rows
    said = "\n".join(texts(reading))
    assert [reason for reason in BAD[sample] if reason not in said] == []


@pytest.mark.parametrize(
    ("sample", "told"),
    [
        ("3.3.0/md_files_u", {"tool_version": "3.3.0", "tasks": 2, "nodes": 1, "threads_per_node": 2, "iterations": 3}),
        ("3.3.0/md_tree_z2b3", {"tool_version": "3.3.0", "iterations": 2, "unique_directory": False}),
        ("main/md_vv", {"tool_version": "4.1.0+dev", "unique_directory": True, "iterations": 2}),
        ("seeds/weka_1088_tasks", {"iterations": 3, "tasks": None, "tool_version": None, "unique_directory": None}),
    ],
)
def test_columns_that_are_told(sample: str, told: dict[str, Any]) -> None:
    for row in read(content(sample)).rows:
        assert {name: row.get(name) for name in told} == told


def test_columns_of_files_and_of_directories() -> None:
    rows = {row["label"]: row for row in read(content("4.0.0/md_tree_z2b3")).rows}
    names = ("File stat", "Directory stat")
    assert [rows[name].get("files_per_thread") for name in names] == [130, 130]
    assert [rows[name].get("file_size_bytes") for name in names] == [0, None]


def test_several_runs_in_one_log_are_kept_apart() -> None:
    one, other = content("4.0.0/own_W_F"), content("main/own_W_F")
    both = read(one + other)
    assert not texts(both)
    assert [row["ops_per_s"] for row in both.rows] == [
        row["ops_per_s"] for text in (one, other) for row in read(text).rows
    ]
    cut = read(one[: one.index(b"-- finished")] + other)
    assert len(cut.rows) == len(read(other).rows) and "run 1 of 2: the output is cut" in texts(cut)[0]


@given(st.sampled_from([*GOOD]), st.floats(0, 0.95))
def test_a_cut_output_has_no_figure_without_a_problem(sample: str, part: float) -> None:
    text = content(sample)
    reading = read(text[: int(part * len(text))])
    assert all_texts(reading)
    assert not measured(reading) or sample.startswith("seeds/") or len(GOOD[sample]) > 1


@given(st.sampled_from([*GOOD]), st.binary(max_size=200), st.integers(0, 5000), st.integers(0, 300))
def test_whatever_a_file_holds_can_be_read(sample: str, junk: bytes, at: int, over: int) -> None:
    text = content(sample)
    assert isinstance(read(text[:at] + junk + text[at + over :]), Reading)
