"""One allocation, measured by the real runner in a process of its own, as the rule starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet

import locks
from iosweep.config.sweep_file import read
from iosweep.plan.expand import make_plan
from iosweep.results import merge
from iosweep.results.reasons import REASONS
from iosweep.results.store import Store

#: Two points of two phases: tiny files and phases of 0.1 s, so nearly all of the time is fio's start-up.
SWEEP: dict[str, Any] = {
    "name": "s",
    "tool": "fio",
    "phases": ["seq_write", "rand_read"],
    "axes": {"threads_per_node": [1, 2]},
    "options": {"file_size": "256k", "transfer_size": "4k"},
    "phase_time": "100ms",
    "repetitions": 1,
}
#: Options of fio's file engines; so many files take longer than fio's clock needs.
METADATA: dict[str, Any] = {
    "name": "s",
    "tool": "fio",
    "phases": ["create", "stat", "delete"],
    "options": {"files_per_thread": 50_000},
    "repetitions": 1,
}


class Allocation:
    """A campaign in `place`: its configuration, its target directory, its results. `keep`: target.keep."""

    def __init__(self, place: Path, sweep: dict[str, Any] = SWEEP, keep: str = "none", **document: Any):
        self.place = place
        self.keep, self.lock = keep, locks.own()
        self.target = place / "target"
        self.target.mkdir(exist_ok=True)
        self.ours = self.target / "iosweep-c"
        self.results = place / "results" / "c"
        self.store = Store(self.results)
        self.path = os.environ["PATH"]
        self.configure(sweep, **document)

    def configure(self, sweep: dict[str, Any] = SWEEP, **document: Any) -> None:
        # a busy machine must not add tries to those that are counted
        made = {
            "campaign": "c",
            "target": {},
            "limits": {"retried": "0%", "fill": "100%"},
            "sweeps": [sweep],
        } | document
        made["target"] = {"directory": str(self.target), "keep": self.keep, "lock": self.lock} | made["target"]
        file = self.place / "c.yaml"
        file.write_bytes(orjson.dumps(made))
        self.plan = make_plan(read(file))

    def command(self, *arguments: str) -> list[str]:
        file = self.results / "plans" / f"{self.plan.digest}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.plan.document())
        return [
            sys.executable, "-m", "iosweep", "measure", str(file), "--allocation", self.plan.allocations[0].name,
            "--manifest", str(self.manifest), "--log", str(self.place / "log"), *arguments,
        ]  # fmt: skip

    @property
    def manifest(self) -> Path:
        return self.results / "manifests" / "m.jsonl"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PATH": self.path, "COLUMNS": "300"}

    def measure(self, *arguments: str, code: int = 0) -> str:
        """Run to the end; returns what was said."""
        done = subprocess.run(
            self.command(*arguments), env=self.environment, cwd=self.place, text=True, stderr=subprocess.PIPE,
            timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stderr

    def fake(self, script: str) -> None:
        """Put a shell script before fio on PATH; in it, `$fio` is the real one."""
        folder = self.place / "bin"
        path = [directory for directory in self.path.split(os.pathsep) if directory != str(folder)]
        real = next(p for d in path if (p := Path(d) / "fio").exists())
        folder.mkdir(exist_ok=True)
        (folder / "fio").write_text(f"#!/bin/sh\nfio='{real}'\n{script}\n")
        (folder / "fio").chmod(0o755)
        self.path = os.pathsep.join([str(folder), *path])

    def files(self) -> list[str]:
        """Results and archives, by repetition and try."""
        return sorted(f"{f.parent.name}/{f.name}" for f in self.results.glob("points/*/*"))

    def rows(self) -> list[dict[str, Any]]:
        """The table of results."""
        merge.merge(self.plan, self.results)
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(self.results / "results.parquet").to_pylist()
        return rows


def said(row: dict[str, Any]) -> str:
    """Why a row is not valid, without what a busy machine may add."""
    busy = re.compile(r"of the CPU time|^ran for .* s where .* were asked for$")
    return REASONS.join(r for r in row["reasons"].split(REASONS) if not busy.search(r))
