"""Which repetitions `iosweep rerun` opens again: by verdict and by parameters."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

import records
import results_factory
from iosweep.commands import cli
from iosweep.results import columns
from iosweep.results.store import Store

Capture = pytest.CaptureFixture[str]
SWEEP = results_factory.sweep("s", ["seq_write", "rand_read"], {"threads_per_node": [1, 2]})


def spoilt(row: Any) -> tuple[str, str] | None:
    """Of the point with one thread the second repetition is suspect, of the one with two the first is invalid."""
    return {
        (1, 2, "rand_read"): ("suspect", "other load"),
        (2, 1, "seq_write"): ("invalid", "I/O errors"),
    }.get((row["threads_per_node"], row["repetition"], row["phase"]))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A campaign of two points, two repetitions and two phases, with its tables."""
    monkeypatch.chdir(tmp_path)
    results = results_factory.make(tmp_path / "results/quick", sweeps=[SWEEP], repetitions=2, spoil=spoilt)
    (results / "plans").mkdir()
    made = Store(results)
    rows = parquet.read_table(results / "results.parquet").to_pylist()
    hashes = {}
    for point, number in sorted({(row["point"], row["repetition"]) for row in rows}):
        hashes[point, number] = commit(made, point, number)
    rows = [row | {"raw_sha256": hashes[row["point"], row["repetition"]]} for row in rows]
    results_factory._write(results / "results.parquet", rows, columns.result_columns())
    results_factory.describe_again(results)
    return made


def commit(store: Store, point: str, number: int, raw: bytes = b"y") -> str:
    return str(store.commit(point, number, records.record(point), {"x": raw}).raw.sha256)


def left(store: Store) -> set[tuple[str, int]]:
    """(threads, repetition) of the stored results."""
    return {
        ("t1" if re.search(r"[-.](t1|1t)\b", point) else "t2", n)
        for point, found in store.results().items()
        for n in found
    }


ALL = {("t1", 1), ("t1", 2), ("t2", 1), ("t2", 2)}


@pytest.mark.parametrize(
    ("options", "opened"),
    [
        (["--suspect"], {("t1", 2)}),
        (["--invalid"], {("t2", 1)}),
        (["--suspect", "--invalid"], {("t1", 2), ("t2", 1)}),
    ],
)
def test_what_is_opened(store: Store, capsys: Capture, options: list[str], opened: set[tuple[str, int]]) -> None:
    assert cli.main(["rerun", *options]) == 0
    assert left(store) == ALL - opened
    assert len(list(store.path.glob("points/*/*.superseded.json"))) == len(opened)  # kept
    *_, said, refresh = capsys.readouterr().out.splitlines()
    assert said.startswith(f"{Path('results/quick')}: {len(opened)} repetition")
    assert refresh.startswith("`iosweep report quick` refreshes")


def test_a_try_that_the_tables_do_not_know_is_left_alone(store: Store, capsys: Capture) -> None:
    [point] = [point for point in store.results() if re.search(r"[-.](t1|1t)\b", point)]
    commit(store, point, 2, b"another try")
    assert cli.main(["rerun", "--suspect"]) == 1
    assert "not considered: 1 repetition is newer than the tables" in capsys.readouterr().out
    assert left(store) == ALL


@pytest.mark.parametrize("options", [["--suspect", "p"], ["--invalid", "--missing"]])
def test_usage(store: Store, capsys: Capture, options: list[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["rerun", *options])
    assert "go neither with points nor with --missing" in capsys.readouterr().err


def test_several_campaigns_need_a_name(store: Store, capsys: Capture) -> None:
    (store.path.parent / "other/plans").mkdir(parents=True)
    with pytest.raises(SystemExit):
        cli.main(["rerun", "--suspect"])
    assert "need --campaign NAME (there are: other, quick)" in capsys.readouterr().err
