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
from campaign import Made, document, make
from iosweep.errors import Refused
from iosweep.files import documents
from iosweep.plan.model import Plan
from iosweep.store import store as store_module
from iosweep.store.record import ClaimedTarget, Missing, Needs, Record, RecordHead, Refusal
from iosweep.store.store import Store, left_out, name_taken, unpack_archive

POINT = "fio.rand_read.1n.1t.4k.qd1.a7067cebd59e"
RAW = {"rand_read.stdout": b"{}" * 100, "rand_read.summary": b"[]" * 9, "rand_read.stderr": b"x"}


def record(number: int = 0, **more: Any) -> Record:
    return records.record(POINT, campaign=str(number), **more)


def number(store: Store, stored: RecordHead) -> int:
    """What the tests tell repetitions apart by."""
    return int(record_of(store, stored).campaign)


def record_of(store: Store, stored: RecordHead) -> Record:
    """The whole record of a repetition."""
    return store.record(stored.point, stored.repetition, stored.attempt)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results" / "c")


def only(store: Store) -> RecordHead:
    """The one repetition that is stored."""
    [(_, repetitions)] = store.repetitions().items()
    [stored] = repetitions.values()
    return stored


def files(store: Store) -> list[str]:
    return sorted(f.name for f in store.point(POINT).iterdir())


def test_results_keep_their_uuid_where_one_of_its_two_files_is_lost(store: Store) -> None:
    uuid = store.mark()
    known = {"campaign": "c", "directory": "/t/iosweep-c", "uuid": uuid, "layout": None, "deadline": 1.0, "lock": None}
    target = ClaimedTarget(**known, file_system="ext4", source="/dev/x", tidied=False)  # type: ignore[arg-type]
    store.keep_claimed(target)
    for name in ("iosweep.json", "targets/iosweep-c.json"):
        (store.path / name).write_bytes(b"")
        assert Store(store.path).mark() == uuid
        store.keep_claimed(target)
    (store.path / "iosweep.json").unlink()
    (store.path / "targets/iosweep-c.json").unlink()
    (store.path / "points").mkdir()
    with pytest.raises(Refused):
        Store(store.path).mark()


def test_a_copy_of_results_has_no_directory_on_the_target(store: Store, tmp_path: Path) -> None:
    """What a clean or a run of the copy removed there would be missing to the original."""
    store.mark()
    store.check_original("/t/iosweep-c", str(store.path))
    copy = Store(Path(shutil.copytree(store.path, tmp_path / "copy/c")))
    with pytest.raises(Refused, match=str(store.path)):
        copy.check_original("/t/iosweep-c", str(store.path))
    moved = Store(store.path.rename(tmp_path / "moved"))
    for results in (moved, copy):  # the original is gone
        results.check_original("/t/iosweep-c", str(store.path))


def test_what_is_committed_is_found(store: Store) -> None:
    committed = store.commit(POINT, 1, record(number=5, retry="busy", retried=True), RAW)
    found = only(store)
    assert found == committed.head()
    assert (found.point, found.repetition, found.attempt, found.intact) == (POINT, 1, 1, True)
    assert number(store, found) == 5
    assert (found.tool.sha256, found.target.directory) == ("t", "/t")
    assert (found.retry, found.retried) == ("busy", True)
    assert [(row.phase, row.headline) for row in found.rows] == [("rand_read", 5.0)]
    assert store.repetitions_of(POINT) == {1: found}
    assert store.repetitions_of("another") == {}
    archive = store.raw(found)
    assert archive is not None
    # what is parsed: not standard error, whose first lines are in the result
    assert unpack_archive(archive) == {
        "rand_read": {"stdout": RAW["rand_read.stdout"], "summary": RAW["rand_read.summary"]}
    }
    with zipfile.ZipFile(io.BytesIO(archive)) as file:  # and any unzip reads it
        assert {name: file.read(name) for name in file.namelist()} == RAW
    assert files(store) == ["r001-1.json", "r001-1.zip"]


def test_the_highest_try_counts(store: Store) -> None:
    for attempt in (1, 2, 3):
        assert store.commit(POINT, 1, record(number=attempt), RAW).attempt == attempt
    store.commit(POINT, 12, record(number=4), RAW)
    found = store.repetitions()[POINT]
    assert {n: (r.attempt, number(store, r)) for n, r in found.items()} == {1: (3, 3), 12: (1, 4)}


class Died(BaseException):
    """As if the machine had lost its power."""


@pytest.mark.parametrize("step", range(5))
def test_a_crash_at_any_step_commits_nothing_or_all(store: Store, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Steps: fsync of the archive, its rename, the same of the record, fsync of the directory."""
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
    renamed = step == 4  # only the sync of the directory was still to come
    assert (found.attempt, number(store, found), found.intact) == ((2, 2, True) if renamed else (1, 1, True))
    # the next try does not write over what may be there
    again = store.commit(POINT, 1, record(number=3), RAW)
    assert only(store) == again.head()
    assert not [name for name in files(store) if name.endswith(".tmp")]


def test_a_file_left_by_a_kill_is_no_result(store: Store) -> None:
    store.commit(POINT, 1, record(), RAW)
    # SIGKILL leaves the temporary file of a process that is gone
    (store.point(POINT) / ".r002-1.json.4711.tmp").write_bytes(b'{"poi')
    (store.point(POINT) / "r002-1.zip").write_bytes(b"archive without a result")
    assert list(store.repetitions()[POINT]) == [1]
    assert store.commit(POINT, 2, record(), RAW).attempt == 1
    assert sorted(f.name for f in store.point(POINT).iterdir()) == [
        f"r00{n}-1.{s}" for n in (1, 2) for s in ("json", "zip")
    ]


def test_results_that_are_removed_while_they_are_measured(store: Store) -> None:
    """Nobody would keep a second runner off any more, and what was measured before is gone."""
    with store.locked():
        store.commit(POINT, 1, record(), RAW)
        shutil.rmtree(store.path)
        with pytest.raises(OSError, match="removed or replaced"):
            store.commit(POINT, 2, record(), RAW)
        with Store(store.path).locked(), pytest.raises(OSError, match="removed or replaced"):
            store.commit(POINT, 2, record(), RAW)
    assert store.repetitions() == {}


def test_no_space_commits_nothing_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit(POINT, 1, record(number=1), RAW)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(store_module.os, "fsync", full)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            store.commit(POINT, 2, record(), RAW)
    assert files(store) == ["r001-1.json", "r001-1.zip"]


def test_a_damaged_archive_is_seen_by_its_size_and_its_digest(store: Store) -> None:
    store.commit(POINT, 1, record(), RAW)
    archive = store.point(POINT) / "r001-1.zip"
    whole = archive.read_bytes()

    def damaged(content: bytes | None, link: str = "") -> tuple[bool, bytes | None]:
        archive.unlink(missing_ok=True)
        if content is not None:
            archive.write_bytes(content)
        if link:
            archive.symlink_to(link)
        return only(store).intact, store.raw(only(store))

    for content in (whole[:-1], whole + b"x", b"", None):
        assert damaged(content) == (False, None), content
    # a scan of the store reads no archive, but nobody takes figures from one with other content
    assert damaged(bytes(len(whole))) == (True, None)
    assert damaged(whole) == (True, whole)
    assert damaged(None, link="nowhere") == (False, None)
    archive.unlink()
    archive.mkdir()
    assert not only(store).intact


def test_superseding_keeps_the_results_and_opens_the_repetition(store: Store) -> None:
    store.commit(POINT, 1, record(number=1), RAW)
    second = store.commit(POINT, 1, record(number=2), RAW)
    written = record_of(store, second)
    kept = store.supersede(second)
    assert documents.read_as(kept, Record) == written
    assert store.repetitions() == {}  # the first does not count again
    again = store.commit(POINT, 1, record(number=3), RAW)
    assert again.attempt == 3  # the old archives stay the old results'
    assert files(store) == [
        "r001-1.superseded.json", "r001-1.zip", "r001-2.superseded.json", "r001-2.zip", "r001-3.json", "r001-3.zip",
    ]  # fmt: skip


def test_what_is_not_ours_is_no_result_and_stays(store: Store) -> None:
    store.commit(POINT, 1, record(), RAW)
    foreign = [store.point(POINT) / name for name in ("README", "r01-1.json", "x.zip", "r005-1.json", "missing.json")]
    for file in foreign:
        file.write_bytes(b"words")
    assert only(store).repetition == 1
    assert store.missing() == {}
    assert store.commit(POINT, 2, record(), RAW).attempt == 1
    assert all(file.exists() for file in foreign)


def test_what_is_missing_or_refused_is_stored_until_it_is_there_again(store: Store) -> None:
    missing, refusal = Missing(Needs(tool="fio"), "fio is not on PATH"), Refusal("no space", lasting=True, after="12")
    store.set_missing(POINT, missing)
    store.set_refusal("1-node", Refusal("another"))
    store.set_refusal("1-node", refusal)
    store.set_refusal("2-nodes", other := Refusal("no target", nodes=("n1",), short_of_time=True))
    assert (store.missing(), store.repetitions()) == ({POINT: missing}, {})
    assert store.documents(Refusal) == {"1-node": refusal, "2-nodes": other}
    store.set_missing(POINT, None)
    store.set_refusal("1-node", None)
    assert (store.missing(), list(store.documents(Refusal))) == ({}, ["2-nodes"])


def test_a_second_try_that_went_worse_does_not_count(tmp_path: Path) -> None:
    for first, second, counts in ((1.0, 2.0, 2), (1.0, None, 1), (None, None, 2), (None, 1.0, 2)):
        store = Store(tmp_path / f"{first} {second}")
        for value, retry, retried in ((first, "busy", False), (second, "killed", True)):
            store.commit(POINT, 1, record(headline=value, retry=retry, retried=retried), {})
        result = only(store)
        assert (result.attempt, result.retried) == (counts, True), (first, second)  # and there is no third
        store.supersede(result)
        assert store.repetitions() == {}, (first, second)  # the try that did not count does not take its place


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


def test_a_target_that_has_moved_is_another_one(tmp_path: Path) -> None:
    def planned(**places: str) -> Plan:
        targets = {name: {"directory": place} for name, place in places.items()}
        (tmp_path / "x.yaml").unlink(missing_ok=True)
        given = document(axes={"target": sorted(places)}) | {"targets": targets}
        return make(tmp_path, {key: value for key, value in given.items() if key != "target"})

    first = planned(a="/a", b="/b")
    made = Made(tmp_path, first)
    for point in first.points:
        made.measure(point)
    taken = {
        name: name_taken(made.store, plan, made.store.repetitions())
        for name, plan in {
            "same": first,
            "one more": planned(a="/a", b="/b", c="/c"),
            "b moved": planned(a="/a", b="/c"),
            "swapped": planned(a="/b", b="/a"),
        }.items()
    }
    assert [name for name, why in taken.items() if why] == ["b moved", "swapped"]
    assert "holds 1 repetition on /b (b is /c now); choose another name" in str(taken["b moved"])


def test_results_of_a_renamed_target_are_told(tmp_path: Path) -> None:
    made = document(axes=None)
    del made["target"]
    stored: Any = {}
    for names, told in ((("a", "b"), 0), (("a", "c"), 1)):
        plan = make(tmp_path, made | {"targets": {name: {"directory": f"/{name}"} for name in names}})
        stored = stored or {point.id: {1: None, 2: None} for point in plan.points}
        lines = left_out(plan, stored)
        assert len(lines) == told and all(line.startswith("2 ") and "another name" in line for line in lines)
