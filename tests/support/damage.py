"""Damage done to every kind of stored file, and what each command makes of it. Seeded, and in this process.

Stored(place).attack(random.Random(seed), flips=2000, cuts=200)
"""

import contextlib
import io
import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet

from campaign import FOUR_AND_EIGHT, Made, document, keep_plan, make
from iosweep import dag
from iosweep.commands import cli
from iosweep.commands.watch.snapshot import Campaign as Watched
from iosweep.files import safe_paths
from iosweep.programs import builds
from iosweep.results import manifest, merge, merged_tables, remaining
from iosweep.results.campaign_documents import Missing, Needs, Refusal
from iosweep.results.store import Store

#: What is stored, below the results.
KINDS = (
    "points/*/r*.json", "points/*/r*.zip", "points/*/missing.json", "nodes/*.json", "sets/*.json", "refusals/*.json",
    "builds/*.json", "builds/*.spack.*", "target.json", "spent.json", "plans/*.json", "campaign.json",
    "results.parquet", "checks.parquet", "nodes.parquet", "results.csv",
)  # fmt: skip
#: Kinds that merge makes, all of them again where one is damaged.
MADE = merged_tables.FILES
#: Folders that `watch` does not read, as it does not depend on what is in them.
NOT_WATCHED = ("builds", "nodes", *MADE, "campaign.json")
#: Kinds that a run needs before it knows what is left.
NEEDED = ("plans",)


class Stored:
    """A campaign with a file of every kind: two points of two repetitions each, and one that is missing."""

    def __init__(self, place: Path):
        text = document(**FOUR_AND_EIGHT | {"axes": {"queue_depth": [4, 8, 16]}})
        made = Made(place, make(place, text))
        with contextlib.chdir(place):  # names of files in a plan are relative to where it is made
            self.plan = dag.load(Path("x.yaml"), Path("results")).plan
        self.place = place
        self.results = made.results
        key = "h"
        made.store.put("nodes", key, {"host": "h", "memory_bytes": 1 << 30})
        for index in (0, 1):
            for number in (1, 2):
                made.measured(index, number)
        store = made.store
        store.set_missing(made.plan.points[2].id, Missing(Needs(tool="fio"), "fio is not on PATH"))
        store.set_refusal("9-nodes", Refusal("no nodes"))
        store.put("sets", "sets.a", {"wall_s": 1.0, "files": 2, "file_size_bytes": 4096, "hosts": ["h"]})
        request, lock = b"spack: {specs: [fio@3.37]}\n", b'{"roots": []}\n'
        environment = {"file": "spack.yaml", "digest": "0123456789ab", "file_sha256": sha256(request).hexdigest()}
        build = {
            "provider": "spack", "tools": {}, "mpi": None,
            "spack": {"path": "/s", "commit": None, "changed": False, "version": "1.1.0"},
            "repository": {"path": "/p", "commit": None, "changed": False, "pin": "v1"},
            "environment": environment | {"lock_sha256": sha256(lock).hexdigest()},
        }  # fmt: skip
        store.put("builds", builds.key(build), build)
        store.keep(f"builds/{builds.key(build)}.spack.yaml", request)
        store.keep(f"builds/{builds.key(build)}.spack.lock", lock)
        where: dict[str, Any] = {
            "directory": "/t/iosweep-quick",
            "campaign": "quick",
            "uuid": "u",
            "layout": None,
            "tidied": True,
        }
        where |= {"deadline": 30.0, "lock": None, "file_system": "ext4 /dev/x", "seen_as": []}
        store.put("", "target", where)
        store.put("", "spent", {"spent_s": 5.0, "bytes_written": 7})
        keep_plan(self.plan, self.results)
        merge.merge(self.plan, self.results)
        allocation = self.plan.allocations[0]
        manifest.write(manifest.path(self.results, allocation.name), allocation, store)
        safe_paths.write(self.results, "report.html", b"<html></html>\n")
        self.before = self.rows()
        self.tables = {file: file.read_bytes() for file in self.results.iterdir() if file.is_file()}
        self.files = sorted(file for kind in KINDS for file in self.results.glob(kind))
        assert all(any(self.results.glob(kind)) for kind in KINDS)

    def rows(self) -> dict[tuple[str, int | None], str]:
        """(point, repetition) -> its verdict with its figure, as the tables have them."""
        found = pyarrow.parquet.read_table(self.results / "results.parquet").to_pylist()
        return {(r["point"], r["repetition"]): f"{r['verdict']} {r['ops_per_s']}" for r in found}

    def attack(self, draw: random.Random, flips: int, cuts: int) -> None:
        """So many single bits flipped, and so many files cut or emptied, the kinds in turn."""
        kinds = [[file for file in self.files if file.match(kind)] for kind in KINDS]
        draw.shuffle(kinds)
        for count, damaged in ((flips, flipped), (cuts, cut)):
            for turn in range(count):
                file = draw.choice(kinds[turn % len(kinds)])
                with self.as_before():
                    data = file.read_bytes()
                    file.write_bytes(damaged(data, draw))
                    self.seen(file)

    @contextmanager
    def as_before(self) -> Iterator[None]:
        """What a block changes is put back."""
        content = {file: (file.read_bytes(), file.stat()) for file in self.results.rglob("*") if file.is_file()}
        try:
            yield
        finally:
            for file in self.results.rglob("*"):
                if file.is_file() and file not in content:
                    file.unlink()
            for file, (data, status) in content.items():
                if not file.exists() or file.read_bytes() != data:
                    file.write_bytes(data)
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    def seen(self, file: Path) -> None:
        """One file is damaged: it is named, nothing else is lost, and what is left is what was damaged."""
        name = str(file.relative_to(self.results))
        kind, archive = name.split("/")[0], file.suffix == ".zip"
        repetition = re.fullmatch(r"points/(.+)/r(\d+)-1\.(json|zip)", name)
        hit = (repetition[1], int(repetition[2])) if repetition else None
        store = Store(self.results)
        left = remaining.left(self.plan, store.results(), store.missing(), remaining.Here(tools={"fio": None}))
        numbers = {(p, n) for found in left.values() for p, ns in found.items() for n in ns}
        gone = {self.plan.points[2].id} if file.name == "missing.json" else set()
        short = archive and not store.results()[hit[0]][hit[1]].intact if hit and archive else False
        again = {hit} if hit and (not archive or short) else set()
        assert {key for key in numbers if key[0] not in gone} == again, name
        assert {p for p, _ in numbers} >= gone, name
        unseen = archive and not short
        for command in (["check", self.plan.campaign], ["list"], ["show", self.plan.campaign]):
            said = self.command(*command)
            assert unseen or name in said, (command, name, said)
        said = " ".join(Watched(self.results).look().wrong)
        assert unseen or name in said or kind in NOT_WATCHED, (name, said)
        if kind in MADE:
            assert any(name in line for line in merged_tables.damage(self.results))
        if kind in NEEDED:
            self.written_again(file)
            return
        merge.merge(self.plan, self.results)
        after = self.rows()
        changed = {key for key in self.before.keys() | after if self.before.get(key) != after.get(key)}
        assert changed <= {hit, *((p, None) for p in gone)}, (name, changed)
        assert not hit or after[hit].startswith("missing"), (name, after)
        shown = self.command("show", self.plan.campaign)
        # of tables merge has made others, and of an archive of the right size it has seen the content
        assert kind in ("campaign.json", *merged_tables.FILES) or name in shown, (name, shown)

    def written_again(self, file: Path) -> None:
        """A plan is made again from the configuration by the next run, and not by a dry run."""
        damaged = file.read_bytes()
        with contextlib.chdir(self.place):
            found = dag.load(Path("x.yaml"), Path("results"))
            assert any(file.name in line for line in found.damaged)
            assert file.read_bytes() == damaged
            found.mend()
        assert file.read_bytes() == self.plan.document()

    def command(self, *arguments: str) -> str:
        """What a command says, on one line."""
        said = io.StringIO()
        with contextlib.chdir(self.place), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            cli.main(list(arguments))
        return " ".join(said.getvalue().split())


def flipped(data: bytes, draw: random.Random) -> bytes:
    """One bit changed."""
    at = draw.randrange(len(data) * 8)
    changed = bytearray(data)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def cut(data: bytes, draw: random.Random) -> bytes:
    """Emptied, cut short, or its end lost to zeros as after a power cut."""
    keep = draw.randrange(len(data))
    return draw.choice([b"", data[:keep], data[:keep] + bytes(len(data) - keep)])
