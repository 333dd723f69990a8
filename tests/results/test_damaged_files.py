"""Single bits that turn, and files that are emptied or cut, of every kind that is read back: each is noticed and named,
and the others are read as before. Not read back, and so not here: docs/store.md, "Damage"."""

import contextlib
import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from campaign import Campaign, make
from iosweep.files import documents
from iosweep.plan.model import read_plan
from iosweep.results import merge, merged_tables
from iosweep.results.campaign_documents import FOLDERS, ClaimedTarget, Missing, Needs, Refusal, TotalSpent
from iosweep.results.columns import TABLES
from iosweep.results.store import Store
from records import record
from tables import damaged

Rounds = Callable[[int, int], int]
Harm = Callable[[Path, random.Random], None]
POINTS = ("fio.rand_read.1n.1t.4k.qd1.a7067cebd59e", "fio.rand_read.1n.2t.4k.qd1.b7067cebd59e")
#: Beside the document of a build: what was asked of Spack, and what it made of that.
BESIDE = {"spack.yaml": b"spack: {specs: [fio@3.37]}\n", "spack.lock": b'{"roots": []}\n'}
#: Folder -> a document of it; "" has files of the campaign itself.
DOCUMENTS: dict[str, dict[str, dict[str, Any]]] = {
    "": {
        "spent": {"spent_s": 5.5, "bytes_written": 7},
        "target": {
            "campaign": "c",
            "directory": "/t/iosweep-c",
            "uuid": "u",
            "layout": None,
            "deadline": 30.0,
            "lock": None,
            "file_system": "ext4 /dev/sda1",
            "seen_as": [],
            "tidied": False,
        },
    },
    "nodes": {"5f2c": {"host": "h", "cpus": 64}},
    "sets": {"fio-read-1m-1": {"hosts": ["h"]}},
    "builds": {
        "0123": {
            "provider": "spack",
            "tools": {},
            "spack": {"path": "/s", "commit": None, "changed": False, "version": "1.1.0"},
            "repository": {"path": "/p", "commit": None, "changed": False, "pin": "v1"},
            "environment": {
                "file": "spack.yaml",
                "digest": "0123456789ab",
                "file_sha256": hashlib.sha256(BESIDE["spack.yaml"]).hexdigest(),
                "lock_sha256": hashlib.sha256(BESIDE["spack.lock"]).hexdigest(),
            },
        }
    },
}
#: What merge writes.
MADE = (*merged_tables.FILES, "campaign.json")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with every kind of file."""
    made = Store(tmp_path / "results")
    for point in POINTS:
        for repetition in (1, 2):
            made.commit(point, repetition, record(point), {"rand_read.stdout": b"{}" * 500, "rand_read.stderr": b""})
    made.set_missing(POINTS[1], Missing(Needs(tool="fio"), "fio is not there"))
    made.set_refusal("1-node", Refusal("no room"))
    for folder, all_of_it in DOCUMENTS.items():
        for name, document in all_of_it.items():
            made.put(folder, name, document)
    planned = make(tmp_path)
    (made.path / "plans").mkdir()
    (made.path / "plans" / f"{planned.digest}.json").write_bytes(planned.document())
    for name, content in BESIDE.items():
        made.keep(f"builds/0123.{name}", content)
    merge.merge(planned, made.path)
    return made


def everything(store: Store) -> dict[str, Any]:
    """File -> what is read of it; a file that is noticed to be damaged is not in it."""
    found: dict[str, Any] = {}
    for point in POINTS:
        for result, whole in store.records_of(point):
            name = f"points/{point}/r{result.repetition:03d}-{result.attempt}"
            found[f"{name}.json"] = whole
            if raw := store.raw(result):
                found[f"{name}.zip"] = raw
        if reason := store.missing_of(point):
            found[f"points/{point}/missing.json"] = reason
    for kind, folder in FOLDERS.items():
        for name, document in store.documents(kind).items():
            found[f"{folder}/{name}.json"] = document
    for name, build in store.builds().items():
        found[f"builds/{name}.json"] = build
        beside = {f"builds/{name}.{kind}": store.path / f"builds/{name}.{kind}" for kind in BESIDE}
        found |= {key: file.read_bytes() for key, file in beside.items() if str(file) not in store.damaged}
    with store.noting():
        if spent := store.document(TotalSpent):
            found["spent.json"] = spent
    with store.noting():
        if claimed := store.document(ClaimedTarget):
            found["target.json"] = claimed
    for file in (store.path / "plans").iterdir():
        try:
            found[f"plans/{file.name}"] = read_plan(file)
        except documents.Damaged as error:
            store.damaged[error.path] = error.reason
    return found | made_of_these(store)


def made_of_these(store: Store) -> dict[str, Any]:
    """The same of tables. A damaged list of them stands for all: they are made again."""
    named = {line.partition(" is damaged (")[0]: line for line in merged_tables.damage(store.path)}
    store.damaged |= named
    found: dict[str, Any] = {}
    for name in MADE:
        if str(store.path / name) not in named:
            found[name] = (store.path / name).read_bytes()
    for name in TABLES:
        with contextlib.suppress(documents.Damaged):
            found[f"rows of {name}"] = merged_tables.rows(store.path, name, dict)
    return found


def flipped(file: Path, draw: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    file.write_bytes(content)


def emptied(file: Path, _: random.Random) -> None:
    file.write_bytes(b"")


def cut(file: Path, draw: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(1, len(content))])


def zeroed(file: Path, draw: random.Random) -> None:
    """The end is zeros, as after a power cut on some file systems."""
    content = file.read_bytes()
    kept = draw.randrange(len(content))
    file.write_bytes(content[:kept] + bytes(len(content) - kept))


def notices(store: Store, harm: Harm, times: int, draw: random.Random) -> None:
    """Do it to one file after the other."""
    before = everything(store)
    assert not store.damaged
    names = sorted(name for name in before if not name.startswith("rows of "))
    assert len(names) == 4 + 4 + 1 + 5 + 1 + 1 + 2 + len(MADE)
    wrong = []
    for n in range(times):
        name = names[n % len(names)]
        file = store.path / name
        content = file.read_bytes()
        harm(file, draw)
        if file.read_bytes() == content:  # zeros in place of zeros
            continue
        again = Store(store.path)
        found = everything(again)
        gone = set(before) - set(found)
        # an archive is known by its result only
        allowed = {name, f"{name.removesuffix('.json')}.zip", f"rows of {name}"}
        if name == "builds/0123.json":
            allowed |= {f"builds/0123.{kind}" for kind in BESIDE}
        if name == "campaign.json":
            allowed |= {f"rows of {table}" for table in TABLES}
        if f"rows of {name}" in found:
            wrong.append(f"{name}: rows of it are used")
        if str(file) not in again.damaged or name in found or not gone <= allowed:
            wrong.append(f"{name}: {sorted(gone)} gone, {again.damaged}")
        if any(found[other] != before[other] for other in found):
            wrong.append(f"{name}: changed others")
        file.write_bytes(content)
    assert not wrong, f"{len(wrong)} of {times}:\n" + "\n".join(wrong[:20])
    assert everything(Store(store.path)) == before


def test_a_bit(store: Store, rounds: Rounds, draw: random.Random) -> None:
    notices(store, flipped, rounds(200, 2000), draw)


@pytest.mark.parametrize("harm", [emptied, cut, zeroed])
def test_emptied_or_cut(store: Store, harm: Harm, rounds: Rounds, draw: random.Random) -> None:
    notices(store, harm, rounds(20, 100), draw)


@pytest.mark.soak
def test_the_next_run_repairs_it(tmp_path: Path, fio: Path, rounds: Rounds, draw: random.Random) -> None:
    """Whatever was damaged is made or measured again, and kept; nothing else is measured again, and the tables are
    whole."""
    campaign = Campaign(tmp_path, phases=["rand_write"])
    campaign.run()
    for _ in range(rounds(1, 12)):
        before = {key: content for key, content in campaign.stored().items() if whole(key[1], content)}
        files = read_by_a_run(campaign.results)
        chosen = draw.sample(files, draw.randint(1, 4))
        for file in chosen:
            draw.choice([flipped, emptied, cut, zeroed])(file, draw)
        output = campaign.run()
        assert "Traceback" not in output
        lost = damaged(campaign.results)
        if node_is_lost(campaign):
            lost = [file for file in lost if file.name != "nodes.parquet"]
        assert not lost, f"{chosen}\n{output}"
        hit = {(file.parent.name, file.name) for file in chosen}
        # a result is measured again where it or its archive was hit
        hit |= {(point, name.replace(".zip", ".json")) for point, name in hit}
        hit |= {(point, name.replace(".json", ".zip")) for point, name in hit}
        after = campaign.stored()
        assert {key: after.get(key) for key in before if key not in hit} == {
            key: content for key, content in before.items() if key not in hit
        }
        assert campaign.left() == {}
        assert campaign.settled(), f"{chosen}\n{output}"


def whole(name: str, content: bytes) -> bool:
    """Whether it is an archive, or a result that can be read; one that cannot is renamed when another try is stored."""
    with contextlib.suppress(documents.Damaged):
        return name.endswith(".zip") or bool(documents.load(content))
    return False


def node_is_lost(campaign: Campaign) -> bool:
    """Whether nodes.parquet has no rows: the node's file is damaged, and nothing was measured again that makes it."""
    store = Store(campaign.results)
    store.look("nodes")
    return bool(store.damaged)


def read_by_a_run(results: Path) -> list[Path]:
    """What the next run of the workflow reads."""
    patterns = (
        "points/*/r*.json", "points/*/r*.zip", "nodes/*.json", "builds/*.json", "spent.json", "plans/*.json",
        "manifests/*.jsonl", "*.parquet", "results.csv", "campaign.json",
    )  # fmt: skip
    found = (file for pattern in patterns for file in sorted(results.glob(pattern)))
    # what was emptied before and measured again stays as it is
    return [file for file in found if ".damaged." not in file.name and file.stat().st_size > 1]
