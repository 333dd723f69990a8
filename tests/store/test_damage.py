"""Damaged files of the results: each is named, nothing else is lost, and what is left is what was damaged."""

import contextlib
import os
import re
import shutil
from copy import copy
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from syrupy.assertion import SnapshotAssertion

import records
from campaign import FOUR_AND_EIGHT, Made, document, keep_plan, make
from iosweep import dag
from iosweep.commands import cli
from iosweep.files import documents
from iosweep.files.documents import Damaged
from iosweep.jobs.profile import Profile
from iosweep.judge import remaining
from iosweep.programs import programs
from iosweep.store.record import Missing, Needs, Refusal
from iosweep.store.store import Store
from iosweep.tables.make import make_tables

POINT = "fio.a"
TARGET = {
    "directory": "/t/iosweep-quick", "campaign": "quick", "uuid": "u", "layout": None, "tidied": True,
    "deadline": 30.0, "lock": None, "file_system": "ext4 /dev/x", "source": "/dev/x",
}  # fmt: skip
BUILD = {
    "provider": "spack", "tools": {}, "mpi": None,
    "spack": {"path": "/s", "commit": None, "changed": False, "version": "1.1.0"},
    "repository": {"path": "/p", "commit": None, "changed": False, "pin": "v1"},
    "environment": {"file": "spack.yaml", "digest": "0123456789ab"},
}  # fmt: skip


class Stored:
    """A campaign with a file of every kind: two points of two repetitions each, and one that is missing."""

    def __init__(self, place: Path):
        made = Made(place, make(place, document(**FOUR_AND_EIGHT | {"axes": {"queue_depth": [4, 8, 16]}})))
        with contextlib.chdir(place):  # names of files in a plan are relative to where it is made
            self.plan = dag.load(Path("x.yaml"), Path("results")).plan
        self.place, self.results, store = place, made.results, made.store
        for index in (0, 1):
            for number in (1, 2):
                made.measured(index, number)
        store.put("nodes", "h", {"host": "h", "memory_bytes": 1 << 30})
        store.set_missing(made.plan.points[2].id, Missing(Needs(tool="fio"), "fio is not on PATH"))
        store.set_refusal("9-nodes", Refusal("no nodes"))
        store.put("sets", "sets.a", {"wall_s": 1.0, "files": 2, "file_size_bytes": 4096, "hosts": ["h"]})
        store.put("builds", programs.build_key(BUILD), BUILD)
        store.put("targets", "iosweep-c", TARGET)
        store.put("", "spent", {"spent_s": 5.0, "bytes_written": 7})
        keep_plan(self.plan, self.results)
        make_tables(self.plan, self.results)

    def rows(self) -> dict[tuple[str, int | None], str]:
        """(point, repetition) -> its verdict with its figure, as the tables have them."""
        found = pyarrow.parquet.read_table(self.results / "results.parquet").to_pylist()
        return {(r["point"], r["repetition"]): f"{r['verdict']} {r['ops_per_s']}" for r in found}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("campaign"))


@pytest.fixture
def stored(whole: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stored:
    """A copy of it, in the current directory."""
    copied = copy(whole)
    copied.place = shutil.copytree(whole.place, tmp_path / "copy")
    copied.results = copied.place / whole.results.relative_to(whole.place)
    monkeypatch.chdir(copied.place)
    return copied


#: Of each kind of file one.
KINDS = (
    "points/*qd4.*/r001-1.json", "points/*qd4.*/r001-1.zip", "points/*/missing.json", "nodes/h.json", "sets/*.json",
    "refusals/*.json", "builds/*.json", "targets/*.json", "spent.json", "plans/*.json",
    "campaign.json", "results.parquet", "results.csv",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_is_what_was_damaged(stored: Stored, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The repetition is open again, its row has no figure, no other row changes, and `check` names the file.

    One bit is another; an archive, which `check` need not read, is shorter.
    """
    [file] = stored.results.glob(kind)
    name, absent = str(file.relative_to(stored.results)), stored.plan.points[2].id
    repetition = re.fullmatch(r"points/(.+)/r(\d+)-1\.(json|zip)", name)
    hit = (repetition[1], int(repetition[2])) if repetition else None
    before = stored.rows()
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data[:-1] if name.endswith(".zip") else data)
    store = Store(stored.results)
    left = remaining.find(
        stored.plan, store.repetitions(), store.missing(), remaining.LocalMachine(tools={"fio": None})
    ).left
    numbers = {(p, n) for found in left.values() for p, ns in found.items() for n in ns}
    assert {key for key in numbers if key[0] != absent} == ({hit} if hit else set())
    assert (absent in {p for p, _ in numbers}) == name.endswith("missing.json")
    cli.main(["check", stored.plan.campaign])
    assert name in "".join("".join(capsys.readouterr()).split())
    if name.startswith("plans"):  # a run makes it again
        found = dag.load(Path("x.yaml"), Path("results"), Profile(given={"launcher": "srun"}))
        assert found.remake
        found.start()
        assert file.read_bytes() == stored.plan.document()
        return
    make_tables(stored.plan, stored.results)
    after = stored.rows()
    changed = {key for key in before.keys() | after if before.get(key) != after.get(key)}
    assert changed <= {hit, (absent, None)}
    assert not hit or after[hit].startswith("missing")


def test_damage_of_what_nothing_needs_is_told_with_what_to_do(stored: Stored, snapshot: SnapshotAssertion) -> None:
    """Also by a dry run."""
    for kind in KINDS[0], "nodes/h.json", "builds/*.json", "sets/*.json", "spent.json":
        [file] = stored.results.glob(kind)
        file.write_bytes(b"")
    assert "\n".join(dag.load(Path("x.yaml"), Path("results")).damaged) == snapshot


def test_every_bit_of_a_document_counts() -> None:
    for data in (documents.dump({"a": 1, "b": ["x"]}), documents.dump({"a": {"b": None}}, indent=True)):
        assert documents.load(data)
        for bit in range(len(data) * 8):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            with pytest.raises(Damaged):
                documents.load(bytes(changed))
        for length in range(len(data)):
            with pytest.raises(Damaged):
                documents.load(data[:length])


def test_only_files_are_read(tmp_path: Path) -> None:
    """A pipe would be waited for, and a link lead elsewhere."""
    good = tmp_path / "good.json"
    good.write_bytes(documents.dump({"a": 1}))
    (tmp_path / "link.json").symlink_to(good)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(documents.MOST_DOCUMENT_BYTES + 1)
    for name in ("link", "pipe", "folder", "large"):
        with pytest.raises(Damaged):
            documents.read(tmp_path / f"{name}.json")


def test_a_result_of_wrong_types_is_damaged(tmp_path: Path) -> None:
    """Its digest is right: whoever made it may have made that, too."""
    store = Store(tmp_path)
    for number in (1, 2):
        store.commit(POINT, number, records.record(POINT), {"x": b"y"})
    file = store.point(POINT) / "r001-1.json"
    whole = documents.read(file)
    changes: list[dict[str, Any]] = [
        {"rows": [5]}, {"target": {}}, {"raw": "x.zip"}, {"attempt": 7}, {"point": "fio.b"},
    ]  # fmt: skip
    for change in changes:
        file.write_bytes(documents.dump(whole | change))
        assert (list(store.repetitions()[POINT]), list(store.damaged)) == ([2], [str(file)]), change


def test_a_damaged_result_is_measured_again_and_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    file = store.point(POINT) / "r001-1.json"
    file.write_bytes(damaged := file.read_bytes().replace(b"5.0", b"6.0"))
    assert store.repetitions() == {}
    again = store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    assert again.attempt == 2
    assert store.repetitions() == {POINT: {1: again.head()}}
    assert file.with_suffix(".damaged.json").read_bytes() == damaged
    assert Store(tmp_path).repetitions()


def test_a_damaged_try_that_a_later_one_replaced_does_not_matter(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit(POINT, 1, records.record(POINT, retry="other load"), {"x": b"y"})
    later = store.commit(POINT, 1, records.record(POINT, retried=True), {"x": b"y"})
    file = store.point(POINT) / "r001-1.json"
    file.write_bytes(b"")
    assert store.repetitions() == {POINT: {1: later.head()}}
    assert store.damage() == []
    # while the later one is not whole, there is none that replaces it
    (store.point(POINT) / "r001-2.json").write_bytes(b"")
    store.repetitions()
    assert str(file) in store.damaged


def test_links_below_the_results_are_named_and_not_followed(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "c"), Store(tmp_path / "other")
    other.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    other.set_missing(POINT, Missing(Needs(tool="fio"), "not there"))
    other.set_refusal("1-node", Refusal("no room"))
    (store.path / "points").mkdir(parents=True)
    store.point(POINT).symlink_to(other.point(POINT))
    (store.path / "refusals").symlink_to(other.path / "refusals")
    assert store.repetitions() == store.repetitions_of(POINT) == {}
    with pytest.raises(OSError, match="symbolic link"):
        store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    # nor is what they lead to removed
    store.set_missing(POINT, None)
    store.set_refusal("1-node", None)
    assert len(list(other.point(POINT).iterdir())) == 3
    assert list(other.documents(Refusal)) == ["1-node"]
    assert set(store.damaged) == {str(store.point(POINT)), str(store.path / "refusals")}
