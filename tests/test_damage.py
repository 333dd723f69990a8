"""Damaged files of the results: each is named, nothing else is lost, and no command ends in a traceback."""

import random
from pathlib import Path
from typing import Any

import orjson
import pytest

import records
from damage import Stored
from iosweep import documents
from iosweep.documents import Damaged
from iosweep.store import Store

POINT = "fio.a"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("campaign"))


@pytest.mark.parametrize("seed", range(4))
def test_damage(stored: Stored, seed: int) -> None:
    stored.attack(random.Random(seed), flips=15, cuts=10)


def test_every_bit_of_a_document_counts() -> None:
    for data in (documents.dump({"a": 1, "b": ["x"]}), documents.dump({"a": {"b": None}}, indent=True)):
        assert documents.load(data)
        assert orjson.loads(data)["sha256"]
        for bit in range(len(data) * 8):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            with pytest.raises(Damaged):
                documents.load(bytes(changed))
        for length in range(len(data)):
            with pytest.raises(Damaged):
                documents.load(data[:length])


def deep(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (bytes(500), "it holds nothing but zeros"),
        (b'{"a":1}', "it has no digest: another version of iosweep wrote it"),
        (b'{"a":', "it is cut short or overwritten"),
        (documents.seal(b"[1, 2]"), "it is not JSON"),
        (documents.seal(b'{"a": "\xff"}'), "it is not JSON"),
        (documents.dump({"a": deep(150)}), "it is nested more than 100 levels deep"),
        (documents.seal(b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}"), "it is not JSON"),
    ],
)
def test_why_a_document_is_damaged(tmp_path: Path, data: bytes, said: str) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(data)
    with pytest.raises(Damaged) as caught:
        documents.read(file)
    assert str(caught.value).startswith(f"{file} is damaged ({said}")


def test_only_files_are_read(tmp_path: Path) -> None:
    """A pipe would be waited for, and a link lead elsewhere."""
    import os

    good = tmp_path / "good.json"
    good.write_bytes(documents.dump({"a": 1}))
    (tmp_path / "link.json").symlink_to(good)
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(documents.MOST_BYTES + 1)
    for name, said in (("link", "symbolic link"), ("pipe", "regular"), ("folder", "regular"), ("large", "at most")):
        with pytest.raises(Damaged, match=said):
            documents.read(tmp_path / f"{name}.json")


STRANGE: list[dict[str, Any]] = [
    {"phases": 3}, {"phases": []}, {"phases": [1]}, {"phases": [{"phase": "rand_read"}]}, {"target": {}},
    {"target": []}, {"tool": None}, {"raw": {"name": "x", "sha256": "y", "bytes": -1}}, {"retry": 5},
    {"retried": "no"}, {"started": "yesterday"}, {"started": 5}, {"host": None}, {"hosts": "h"}, {"nodes": []},
    {"slurm": {"job": 1, "allocation_hosts": []}}, {"bound": {}}, {"attempt": 7}, {"repetition": "1"},
    {"point": "fio.b"}, {"point": ["fio.a"]},
]  # fmt: skip


@pytest.mark.parametrize("change", STRANGE, ids=str)
def test_a_result_of_wrong_types_is_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    """Its digest is right: whoever made it may have made that, too."""
    store = Store(tmp_path)
    store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    store.commit(POINT, 2, records.record(POINT), {"x": b"y"})
    file = store.point(POINT) / "r001-1.json"
    file.write_bytes(documents.dump(documents.read(file) | change))
    assert list(store.results()[POINT]) == [2]
    assert list(store.damaged) == [str(file)]


def test_a_damaged_result_is_measured_again_and_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    file = store.point(POINT) / "r001-1.json"
    file.write_bytes(file.read_bytes().replace(b"5.0", b"6.0"))
    damaged = file.read_bytes()
    assert store.results() == {}
    again = store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    assert again.attempt == 2
    assert store.results() == {POINT: {1: again}}
    kept = file.with_suffix(".damaged.json")
    assert kept.read_bytes() == damaged
    assert store.damaged == {}
    assert store.named() == [f"measured again and kept, because it was damaged: {kept}"]


def test_links_below_the_results_are_named_and_not_followed(tmp_path: Path) -> None:
    store, other = Store(tmp_path / "c"), Store(tmp_path / "other")
    other.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    (store.path / "points").mkdir(parents=True)
    store.point(POINT).symlink_to(other.point(POINT))
    assert store.results() == {}
    assert store.damaged == {str(store.point(POINT)): "it is a symbolic link, and is not followed"}
    assert store.results_of(POINT) == {}
    with pytest.raises(OSError, match="symbolic link"):
        store.commit(POINT, 1, records.record(POINT), {"x": b"y"})
    assert len(list(other.point(POINT).iterdir())) == 2
