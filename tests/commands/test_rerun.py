"""Which repetitions `iosweep rerun` opens again: by verdict and by parameters."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import records
import results_factory
from iosweep.commands import cli, rerun
from iosweep.errors import CommandError
from iosweep.results import columns
from iosweep.results.campaign_documents import Missing, Needs
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
        (["--where", "threads_per_node=2"], {("t2", 1), ("t2", 2)}),
        (["--where", "threads_per_node=1,2"], ALL),
        (["--where", "phase=seq_write"], ALL),
        (["--where", "phase=seq_write", "--where", "threads_per_node=1"], {("t1", 1), ("t1", 2)}),
        (["--invalid", "--where", "phase=seq_write"], {("t2", 1)}),
        (["--suspect", "--where", "sweep=s", "--where", "host=node01", "--campaign", "quick"], {("t1", 2)}),
    ],
)
def test_what_is_opened(store: Store, capsys: Capture, options: list[str], opened: set[tuple[str, int]]) -> None:
    assert cli.main(["rerun", *options]) == 0
    assert left(store) == ALL - opened
    assert len(list(store.path.glob("points/*/*.superseded.json"))) == len(opened)  # kept
    *_, said, refresh = capsys.readouterr().out.splitlines()
    assert said.startswith(f"{Path('results/quick')}: {len(opened)} repetition")
    assert refresh.startswith("`iosweep report quick` refreshes")


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("phas=create", "unknown name `phas`; did you mean `phase`? (known: api, "),
        (
            "phase=rand_raed",
            "no result has phase `rand_raed`; did you mean `rand_read`? (there are: rand_read, seq_write)",
        ),
        ("threads_per_node=3", "no result has threads_per_node `3` (there are: 1, 2)"),
        ("phase", "write NAME=VALUE, for example phase=create"),
        ("phase=", "write NAME=VALUE, for example phase=create"),
    ],
)
def test_a_value_that_no_result_has(store: Store, capsys: Capture, where: str, said: str) -> None:
    assert cli.main(["rerun", "--where", where]) == 1
    assert said in capsys.readouterr().err
    assert left(store) == ALL


def test_what_is_missing_is_opened_by_another_option(store: Store, capsys: Capture) -> None:
    [point] = [point for point in store.results() if re.search(r"[-.](t1|1t)\b", point)]
    for result in store.results_of(point).values():
        store.supersede(result)
    store.set_missing(point, Missing(Needs(tool="fio"), "fio is not on PATH"))
    table = parquet.read_table(store.path / "results.parquet")
    rows = [row | ({"verdict": "missing"} if row["point"] == point else {}) for row in table.to_pylist()]
    parquet.write_table(pa.Table.from_pylist(rows, table.schema), store.path / "results.parquet")
    results_factory.describe_again(store.path)
    assert cli.main(["rerun", "--where", "threads_per_node=1"]) == 1
    said = capsys.readouterr().err
    assert "1 point that was chosen is missing: `iosweep rerun --campaign quick --missing` opens" in said


def test_nothing_is_chosen(store: Store, capsys: Capture) -> None:
    assert cli.main(["rerun", "--suspect", "--where", "phase=seq_write"]) == 1
    assert "no stored repetition is chosen" in capsys.readouterr().err
    assert left(store) == ALL


def test_a_try_that_the_tables_do_not_know_is_left_alone(store: Store, capsys: Capture) -> None:
    [point] = [point for point in store.results() if re.search(r"[-.](t1|1t)\b", point)]
    commit(store, point, 2, b"another try")
    assert cli.main(["rerun", "--suspect"]) == 1
    assert "not considered: 1 repetition is newer than the tables" in capsys.readouterr().out
    assert left(store) == ALL


def test_sizes_are_written_as_in_a_configuration() -> None:
    rows = [{"verdict": "valid", "transfer_size_bytes": size, "o_direct": True} for size in (4096, 1 << 20, None)]
    for text in ("transfer_size=4k", "transfer_size=4096", "transfer_size_bytes=4k"):
        assert rerun.matching(rows, [], [text]) == rows[:1]
    assert rerun.matching(rows, [], ["transfer_size=4k,1m", "o_direct=true"]) == rows[:2]
    with pytest.raises(CommandError, match="there are: 4k, 1m"):
        rerun.matching(rows, [], ["transfer_size=8k"])


@pytest.mark.parametrize("options", [["--suspect", "p"], ["--invalid", "--missing"], ["--where", "phase=x", "p"]])
def test_usage(store: Store, capsys: Capture, options: list[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["rerun", *options])
    assert "go neither with points nor with --missing" in capsys.readouterr().err


def test_several_campaigns_need_a_name(store: Store, capsys: Capture) -> None:
    (store.path.parent / "other/plans").mkdir(parents=True)
    with pytest.raises(SystemExit):
        cli.main(["rerun", "--suspect"])
    assert "need --campaign NAME (there are: other, quick)" in capsys.readouterr().err
