"""The store: a repetition is there whole or not at all, and nothing that was measured is ever lost."""

import errno
import io
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import records
from iosweep.files import documents
from iosweep.node.node_facts import NodeFacts
from iosweep.results import store as store_module
from iosweep.results.campaign_documents import Missing, Needs, Refusal
from iosweep.results.committed import Result
from iosweep.results.raw_output import unpack
from iosweep.results.record import Record
from iosweep.results.store import Store

POINT = "fio.rand_read.1n.1t.4k.qd1.a7067cebd59e"
RAW = {"rand_read.stdout": b"{}" * 100, "rand_read.summary": b"[]" * 9, "rand_read.stderr": b"x"}


def record(number: int = 0, **more: Any) -> Record:
    made = records.record(POINT, campaign=str(number), **more)
    return made


def number(store: Store, result: Result) -> int:
    """What the tests tell results apart by."""
    return int(record_of(store, result).campaign)


def record_of(store: Store, result: Result) -> Record:
    """The whole JSON of a result."""
    return next(record for found, record in store.records_of(result.point) if found == result)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results" / "c")


def only(store: Store) -> Result:
    """The one result that is stored."""
    [(_, repetitions)] = store.results().items()
    [result] = repetitions.values()
    return result


def files(store: Store) -> list[str]:
    return sorted(f.name for f in store.point(POINT).iterdir())


def test_nothing_is_stored_yet(store: Store) -> None:
    assert store.results() == {}
    assert store.missing() == {}
    assert store.documents(NodeFacts) == {}


def test_what_is_committed_is_found(store: Store) -> None:
    committed = store.commit(POINT, 1, record(number=5, retry="busy", retried=True), RAW)
    found = only(store)
    assert found == committed
    assert (found.point, found.repetition, found.attempt, found.intact) == (POINT, 1, 1, True)
    assert number(store, found) == 5
    assert (found.tool_sha256, found.target.directory) == ("t", "/t")
    assert (found.retry, found.retried) == ("busy", True)
    assert found.headlines == (("rand_read", 5.0),)
    assert store.results_of(POINT) == {1: found}
    assert store.results_of("another") == {}
    archive = store.raw(found)
    assert archive is not None
    # what is parsed: not standard error, whose first lines are in the result
    assert unpack(archive) == {"rand_read": {"stdout": RAW["rand_read.stdout"], "summary": RAW["rand_read.summary"]}}
    with zipfile.ZipFile(io.BytesIO(archive)) as file:  # and any unzip reads it
        assert {name: file.read(name) for name in file.namelist()} == RAW
    assert files(store) == ["r001-1.json", "r001-1.zip"]


def test_the_highest_try_counts(store: Store) -> None:
    for attempt in (1, 2, 3):
        assert store.commit(POINT, 1, record(number=attempt), RAW).attempt == attempt
    store.commit(POINT, 12, record(number=4), RAW)
    found = store.results()[POINT]
    assert {n: (r.attempt, number(store, r)) for n, r in found.items()} == {1: (3, 3), 12: (1, 4)}


class Died(BaseException):
    """As if the machine had lost its power."""


@pytest.mark.parametrize("step", range(6))
def test_a_crash_at_any_step_commits_nothing_or_all(store: Store, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Steps: fsync of the archive, its rename, fsync of the directory, and the same of the result."""
    store.commit(POINT, 1, record(number=1), RAW)
    steps = 0

    def dying(real: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step + 1:
                raise Died
            return real(*arguments, **named)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(store_module.os, "fsync", dying(os.fsync))
        patch.setattr(os, "replace", dying(os.replace))
        with pytest.raises(Died):
            store.commit(POINT, 1, record(number=2), RAW)
    found = only(store)
    renamed = step == 5  # only the sync of the directory was still to come
    assert (found.attempt, number(store, found), found.intact) == ((2, 2, True) if renamed else (1, 1, True))
    # the next try does not write over what may be there
    again = store.commit(POINT, 1, record(number=3), RAW)
    assert only(store) == again
    assert not [name for name in files(store) if name.endswith(".tmp")]


def test_a_file_left_by_a_kill_is_no_result(store: Store) -> None:
    store.commit(POINT, 1, record(), RAW)
    # SIGKILL leaves the temporary file of a process that is gone
    (store.point(POINT) / ".r002-1.json.4711.tmp").write_bytes(b'{"poi')
    (store.point(POINT) / "r002-1.zip").write_bytes(b"archive without a result")
    assert list(store.results()[POINT]) == [1]
    assert store.commit(POINT, 2, record(), RAW).attempt == 1
    assert sorted(f.name for f in store.point(POINT).iterdir()) == [
        f"r00{n}-1.{s}" for n in (1, 2) for s in ("json", "zip")
    ]


def test_results_that_are_removed_while_they_are_measured(store: Store) -> None:
    """Nobody would keep a second runner off any more, and what was measured before is gone."""
    with store.locked():
        store.commit(POINT, 1, record(), RAW)
        shutil.rmtree(store.path)
        with pytest.raises(OSError, match="the results were removed or replaced while they were measured"):
            store.commit(POINT, 2, record(), RAW)
        with Store(store.path).locked(), pytest.raises(OSError, match="removed or replaced"):
            store.commit(POINT, 2, record(), RAW)
    assert store.results() == {}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_no_space_commits_nothing_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    store.commit(POINT, 1, record(number=1), RAW)

    def full(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(store_module.os, "fsync", full)
        with pytest.raises(OSError, match=os.strerror(code)):
            store.commit(POINT, 2, record(), RAW)
    assert files(store) == ["r001-1.json", "r001-1.zip"]


def damage_cut(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-1])


def damage_grown(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes() + b"x")


def damage_directory(archive: Path) -> None:
    archive.unlink()
    archive.mkdir()


def damage_dangling(archive: Path) -> None:
    archive.unlink()
    archive.symlink_to("nowhere")


@pytest.mark.parametrize("damage", [Path.unlink, damage_cut, damage_grown, damage_directory, damage_dangling])
def test_a_damaged_archive_is_seen_by_its_size(store: Store, damage: Callable[[Path], None]) -> None:
    store.commit(POINT, 1, record(), RAW)
    damage(store.point(POINT) / "r001-1.zip")
    assert not only(store).intact
    assert store.raw(only(store)) is None


def test_an_archive_of_the_right_size_with_other_content(store: Store) -> None:
    store.commit(POINT, 1, record(), RAW)
    archive = store.point(POINT) / "r001-1.zip"
    archive.write_bytes(bytes(len(archive.read_bytes())))
    assert only(store).intact  # a scan of the store reads no archive
    assert store.raw(only(store)) is None  # but nobody takes figures from it


def test_superseding_keeps_the_result_and_opens_the_repetition(store: Store) -> None:
    before = store.commit(POINT, 1, record(number=1), RAW)
    written = record_of(store, before)
    kept = store.supersede(before)
    assert kept.name == "r001-1.superseded.json"
    assert store.results() == {}
    assert documents.read_as(kept, Record) == written
    again = store.commit(POINT, 1, record(number=2), RAW)
    assert again.attempt == 2  # the old archive stays the old result's
    assert files(store) == ["r001-1.superseded.json", "r001-1.zip", "r001-2.json", "r001-2.zip"]


def test_superseding_a_second_try_does_not_bring_back_the_first(store: Store) -> None:
    store.commit(POINT, 1, record(number=1), RAW)
    store.supersede(store.commit(POINT, 1, record(number=2), RAW))
    assert store.results() == {}
    assert [name for name in files(store) if name.endswith(".superseded.json")] == [
        "r001-1.superseded.json", "r001-2.superseded.json",
    ]  # fmt: skip
    assert store.commit(POINT, 1, record(), RAW).attempt == 3


FOREIGN = [
    ("README", b"words"),
    ("r01-1.json", b"{}"),
    ("x.zip", b"zip"),
    ("r005-1.json", b"not json"),
    ("r008-1.json", b'{"point": "another", "raw": {}}'),
    ("r012-1.json", None),
    ("missing.json", b"no json either"),
]


@pytest.mark.parametrize(("name", "content"), FOREIGN)
def test_what_is_not_ours_is_no_result(store: Store, name: str, content: bytes | None) -> None:
    store.commit(POINT, 1, record(), RAW)
    file = store.point(POINT) / name
    file.mkdir() if content is None else file.write_bytes(content)
    assert only(store).repetition == 1
    assert store.missing() == {}
    assert store.commit(POINT, 2, record(), RAW).attempt == 1
    assert file.exists()


def test_what_stands_beside_the_points(store: Store, tmp_path: Path) -> None:
    store.commit(POINT, 1, record(), RAW)
    (store.path / "points" / "file").write_bytes(b"x")
    (store.path / "points" / "empty").mkdir()
    (store.path / "points" / "link").symlink_to(store.point(POINT))
    copy = store.path / "points" / "copy"
    copy.mkdir()
    for file in store.point(POINT).iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    # a copied directory holds the results of another point
    assert list(store.results()) == [POINT]


def test_missing_and_here_again(store: Store) -> None:
    store.set_missing(POINT, None)  # never was
    store.set_missing(POINT, Missing(Needs(tool="fio"), "fio is not on PATH"))
    assert store.missing() == {POINT: Missing(Needs(tool="fio"), "fio is not on PATH")}
    assert store.results() == {}
    store.set_missing(POINT, None)
    assert store.missing() == {}


def test_refusals(store: Store) -> None:
    store.set_refusal("1-node", None)  # never was
    store.set_refusal("1-node", Refusal("no space"))
    store.set_refusal("2-nodes", Refusal("no nodes"))
    store.set_refusal("1-node", Refusal("still no space", lasting=True, after="12"))
    store.set_refusal("4-nodes", Refusal("no target", nodes=("n1",), short_of_time=True))
    store.set_refusal("8-nodes", Refusal("its job was stopped", stopped=True))
    assert store.documents(Refusal) == {
        "1-node": Refusal("still no space", lasting=True, after="12"),
        "2-nodes": Refusal("no nodes"),
        "4-nodes": Refusal("no target", nodes=("n1",), short_of_time=True),
        "8-nodes": Refusal("its job was stopped", stopped=True),
    }
    store.set_refusal("1-node", None)
    assert list(store.documents(Refusal)) == ["2-nodes", "4-nodes", "8-nodes"]


def test_documents_are_written_only_when_they_change(store: Store) -> None:
    store.put("nodes", "a", {"host": "x", "cpus": 2})
    file = store.path / "nodes" / "a.json"
    before = file.stat()
    store.put("nodes", "a", {"cpus": 2, "host": "x"})
    assert file.stat().st_ino == before.st_ino  # every change is another file
    store.put("nodes", "a", {"cpus": 3, "host": "x"})
    assert file.stat().st_ino != before.st_ino
    (store.path / "nodes" / "b.json").write_bytes(b"not json")
    assert store.documents(NodeFacts) == {"a": NodeFacts("x", cpus=3)}


@pytest.mark.parametrize(
    ("first", "second", "counts"), [(1.0, 2.0, 2), (1.0, None, 1), (None, None, 2), (None, 1.0, 2)]
)
def test_a_second_try_that_went_worse_does_not_count(
    store: Store, first: float | None, second: float | None, counts: int
) -> None:
    for value, retry, retried in ((first, "busy", False), (second, "killed", True)):
        store.commit(POINT, 1, record(headline=value, retry=retry, retried=retried), {})
    result = only(store)
    assert result.attempt == counts
    assert result.retried  # and there is no third


def test_the_name_of_a_new_directory_is_synced(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a point are of no use after a power failure if the directory of the point, or of all points, is gone."""
    synced: list[str] = []
    real = os.fsync

    def noted(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        real(handle)

    monkeypatch.setattr(store_module.os, "fsync", noted)
    store.commit(POINT, 1, record(), RAW)
    points = store.path / "points"
    assert {str(d) for d in (store.path.parent.parent, store.path.parent, store.path, points)} <= set(synced)
    synced.clear()
    store.commit(POINT, 2, record(), RAW)
    assert str(points) not in synced  # it has nothing new
    store.set_missing("another", Missing(Needs(tool="fio"), "not there"))
    assert str(points) in synced
    store.put("builds", "b", {"tools": {}})
    assert str(store.path) in synced


def test_a_link_is_not_followed_to_forget_a_reason(store: Store, tmp_path: Path) -> None:
    """Another's `refusals/1-node.json` may be what the link leads to."""
    (theirs := tmp_path / "theirs").mkdir()
    for name in ("1-node.json", "missing.json"):
        (theirs / name).write_text("precious")
    (store.path / "points").mkdir(parents=True)
    (store.path / "refusals").symlink_to(theirs)
    (store.path / "points" / POINT).symlink_to(theirs)
    store.set_refusal("1-node", None)
    store.set_missing(POINT, None)
    assert sorted(file.name for file in theirs.iterdir()) == ["1-node.json", "missing.json"]
    assert store.damaged[str(store.path / "refusals")] == "it is a symbolic link, and is not followed"
