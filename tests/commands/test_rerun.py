"""Which repetitions `iosweep rerun` opens again: by point and by verdict."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

import records
import results_factory
from campaign import Made, document, keep_plan, make
from iosweep.commands import cli
from iosweep.store.record import Missing, Needs
from iosweep.store.store import Store
from iosweep.tables import columns

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
        for point, found in store.repetitions().items()
        for n in found
    }


ALL = {("t1", 1), ("t1", 2), ("t2", 1), ("t2", 2)}


def test_repetitions_are_opened_by_their_verdict_and_kept(store: Store) -> None:
    gone: set[tuple[str, int]] = set()
    for option, opened in (("--suspect", ("t1", 2)), ("--invalid", ("t2", 1))):
        assert cli.main(["rerun", option]) == 0
        gone |= {opened}
        assert left(store) == ALL - gone
        assert len(list(store.path.glob("points/*/*.superseded.json"))) == len(gone)


def test_a_try_that_the_tables_do_not_know_is_left_alone(store: Store, capsys: Capture) -> None:
    [point] = [point for point in store.repetitions() if re.search(r"[-.](t1|1t)\b", point)]
    commit(store, point, 2, b"another try")
    assert cli.main(["rerun", "--suspect", "--invalid"]) == 0
    assert "1 repetition is newer" in capsys.readouterr().out
    assert left(store) == ALL - {("t2", 1)}


def test_wrong_usage_opens_nothing(store: Store, capsys: Capture) -> None:
    (store.path.parent / "other/plans").mkdir(parents=True)
    # verdicts go neither with points nor with --missing, and of several campaigns one has to be named
    for options in (["--suspect", "p"], ["--invalid", "--missing"], ["--suspect"], ["other"], ["other", "--suspect"]):
        with pytest.raises(SystemExit) as caught:
            cli.main(["rerun", *options])
        assert caught.value.code == 2
    assert "--campaign other" in capsys.readouterr().err
    assert left(store) == ALL


# By their names


def stored(campaign: str, *points: str) -> Store:
    made = Store(Path("results") / campaign)
    (made.path / "plans").mkdir(parents=True)
    for point in points:
        for number in (1, 2):
            commit(made, point, number)
    return made


@pytest.fixture
def rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: cli.main(["rerun", *arguments])


def test_a_point_is_opened_alone_and_its_results_are_kept(rerun: Callable[..., int]) -> None:
    made = stored("quick", "fio.a.1", "fio.b.1")
    assert rerun("fio.a.1", "nothing") == 1  # a name is wrong: nothing is opened
    assert list(made.repetitions()) == ["fio.a.1", "fio.b.1"]
    assert rerun("fio.a.1") == 0
    assert list(made.repetitions()) == ["fio.b.1"]
    assert len(list(made.point("fio.a.1").glob("*.superseded.json"))) == 2
    assert rerun("fio.a.1") == 1


def test_a_name_without_its_hash_is_one_point_and_no_more(rerun: Callable[..., int]) -> None:
    made = stored("quick", "fio.qd1.aa", "fio.qd16.bb", "fio.qd2", "fio.qd2.cc", "xfio.qd1.dd")
    assert rerun("fio.qd1") == 0  # and not qd16
    assert sorted(made.repetitions()) == ["fio.qd16.bb", "fio.qd2", "fio.qd2.cc", "xfio.qd1.dd"]
    assert rerun("fio.qd2") == 0  # a whole name, although another one begins with it
    assert all(rerun(name) == 1 for name in ("fio", "fio.qd", "fio.qd16.b", "fio.qd16.", "x"))
    assert sorted(made.repetitions()) == ["fio.qd16.bb", "fio.qd2.cc", "xfio.qd1.dd"]


def test_a_point_of_two_campaigns_needs_the_name_of_one(rerun: Callable[..., int]) -> None:
    one, two = stored("one", "fio.a.1"), stored("two", "fio.a.1")
    assert rerun("fio.a.1") == 1
    assert one.repetitions() == two.repetitions() != {}
    assert rerun("fio.a.1", "--campaign", "two") == 0
    assert (len(one.repetitions()), len(two.repetitions())) == (1, 0)
    assert rerun("fio.a.1", "--campaign", "three") == 1


def test_missing_points_are_opened_by_missing_alone(rerun: Callable[..., int]) -> None:
    made = stored("quick", "fio.a.1")
    made.set_missing("fio.b.1", Missing(Needs(tool="fio"), "no fio"))
    assert rerun("fio.a.1") == 0
    assert set(made.missing()) == {"fio.b.1"}
    assert rerun("--missing") == 0
    assert made.missing() == {}


def test_nothing_to_open_is_an_error(store: Store) -> None:
    assert cli.main(["rerun", "--suspect"]) == 0
    assert cli.main(["rerun", "--suspect"]) == 1


def test_what_is_side_by_side_is_opened_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = make(tmp_path, document(axes={"queue_depth": [1, 4]}, side_by_side="queue_depth"))
    made = Made(tmp_path, plan)
    keep_plan(plan, made.results)
    for number in (1, 2):
        for point in plan.points:
            made.measure(point, number)
    made.store.supersede(made.store.repetitions_of(plan.points[1].id)[2])
    assert cli.main(["rerun", plan.points[0].id]) == 0
    assert made.store.repetitions() == {}
