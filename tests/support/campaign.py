"""Campaigns for tests, in three depths: a plan (`make`), a store with records as the runner writes them (`Made`), and a
real run: of one allocation (`Allocation`), or of everything through the Snakefile (`Campaign`)."""

import copy
import hashlib
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pyarrow.parquet
import pytest
import yaml

import locks
import processes
import records
import scripted
from iosweep import dag
from iosweep.config import sweep_file, sweeps
from iosweep.errors import ConfigError, Problem
from iosweep.jobs.profile import Profile
from iosweep.plan.expand import make_plan
from iosweep.plan.model import Plan, Point
from iosweep.programs import programs
from iosweep.store.record import Record
from iosweep.store.store import Store
from iosweep.tables.make import make_tables
from iosweep.tools import tools
from waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]

# --- a plan

#: The smallest configuration of the design: 2 x 2 x 3 points of one phase.
TEXT = """\
campaign: quick
target: {directory: /scratch/me}
sweeps:
  - name: tiny
    tool: fio
    phases: [rand_read]
    axes: {threads_per_node: [1, 2], transfer_size: [4k, 64k], queue_depth: [1, 2, 4]}
    options: {file_size: 16m}
    phase_time: 1s
    repetitions: 1
"""

#: A sweep of metadata phases, to replace the keys of TEXT's.
METADATA: dict[str, Any] = {
    "phases": ["create", "stat", "delete"],
    "axes": {"threads_per_node": [1, 2]},
    "options": {"files_per_thread": 1000},
    "phase_time": None,
}


def document(**sweep: Any) -> dict[str, Any]:
    """TEXT as data, where short phases are no reason; keys of the sweep replaced, or removed where they are None."""
    made = yaml.safe_load(TEXT)
    made["limits"] = {"shortest_phase": "0s"}
    made["sweeps"][0] = {k: v for k, v in (made["sweeps"][0] | sweep).items() if v is not None}
    return copy.deepcopy(made)


def read(directory: Path, text: str | dict[str, Any]) -> sweeps.Config:
    """Read a configuration, given as text or as data."""
    file = directory / "x.yaml"
    file.write_text(text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False))
    return sweep_file.read(file)


def make(directory: Path, text: str | dict[str, Any] = TEXT) -> Plan:
    """The plan of a configuration."""
    return make_plan(read(directory, text))


def problems(directory: Path, text: str | dict[str, Any], stage: Any = read) -> list[str]:
    """The errors of a configuration, one `line: key: message` each."""
    return [str(problem).replace(f"{directory}/x.yaml:", "") for problem in errors(directory, text, stage)]


def errors(directory: Path, text: str | dict[str, Any], stage: Any = read) -> Sequence[Problem]:
    try:
        stage(directory, text)
    except ConfigError as error:
        return error.problems
    return ()


def refused(directory: Path, cases: Iterable[str | dict[str, Any]], stage: Any = read) -> str:
    """The messages of wrong configurations, for a snapshot."""
    found = [error for case in cases for error in errors(directory, case, stage) or ["nothing is wrong"]]
    return "".join(f"{error}\n".replace(f"{directory}/", "") for error in found)


def keep_plan(plan: Plan, results: Path) -> Path:
    """Mark results as ours, and write the plan where the rule writes it."""
    Store(results).mark()
    file = results / "plans" / f"{plan.digest}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(plan.document())
    return file


# --- a store

SAMPLES = ROOT / "tests/samples/fio"
#: Two points with the options of fio's sample `own_rand_read`, for `Made.measured`.
FOUR_AND_EIGHT: dict[str, Any] = {
    "axes": {"queue_depth": [4, 8]},
    "options": {"threads_per_node": 2, "transfer_size": "4k", "file_size": "1m"},
    "repetitions": 2,
}
#: When the records begin, in seconds since the epoch.
BEGAN = 1_800_000_000.0


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


class Made:
    """The store of a plan, filled by the tests one repetition after the other, on a clock of its own."""

    def __init__(self, place: Path, plan: Plan):
        self.plan, self.results = plan, place / "results" / plan.campaign
        self.store, self.clock = Store(self.results), BEGAN
        self.store.mark()

    def record(self, point: Point, took_s: float = 1.4, before_s: float = 0.0, **more: Any) -> Record:
        """The next record; each phase takes its share of `took_s`."""
        began, each = self.clock, took_s / len(point.phases)
        self.clock += before_s + took_s
        phases = [
            {"phase": phase, "started": iso(began + before_s + n * each), "wall_s": each, "headline": 5.0e6,
             "verdict": "valid", "reasons": [], "argv": ["fio"]}
            for n, phase in enumerate(point.phases)
        ]  # fmt: skip
        known = {"target": {"directory": self.plan.targets[point.target].directory}, "phases": phases, "repetition": 1}
        return records.record(point.id, **known | {"started": iso(began), "ended": iso(self.clock)} | more)

    def measure(self, point: Point, number: int = 1, *times: float, **more: Any) -> None:
        """Store a repetition whose output no parser reads."""
        self.store.commit(point.id, number, self.record(point, *times, **more), {"x.stdout": b"y"})

    def measured(
        self,
        index: int = 0,
        number: int = 1,
        sample: str = "own_rand_read",
        record: Any = None,
        streams: Mapping[str, bytes] | None = None,
        **run: Any,
    ) -> None:
        """Store a repetition of a point, with the output of a real run of fio, and more streams."""
        point = self.plan.points[index]
        files = {"role": "read", "files": 2, "file_size_bytes": 1 << 20, "set_bytes": 2 << 20, "wrong": [],
                 "holes": "none"}  # fmt: skip
        phases = [
            {"phase": step.name, "argv": tools()["fio"].argv(step, "/scratch/me/a b", 7), "seed": 7,
             "started": "2030-01-02T03:04:05.678901+00:00", "exit_code": 0, "timed_out": False, "wall_s": 1.4,
             "stderr": "", "files": files, "load": {"other": 0.0, "steal": 0.0}, "headline": 1.0,
             "verdict": "valid", "exclusive": {"enforced": True, "evidence": "a lock"}} | run
            for step in point.steps
        ]  # fmt: skip
        target = {"directory": self.plan.targets[""].directory, "fsid": "1", "layout_is": "not recorded"}
        times = {"started": "2030-01-02T03:04:05+00:00", "ended": "2030-01-02T03:04:07+00:00"}
        known = {"repetition": number, "node": "n1", "phases": phases, "target": target, "tool": {"sha256": "build"}}
        output = (SAMPLES / f"{sample}.out").read_bytes().replace(b"/mnt/scratch/d", b"/scratch/me/a b")
        output = output.replace(b"121829.653022", b"121829.6530%d" % (21 + number))  # no two have one mean latency
        every = {"stdout": output, "stderr": b""} | dict(streams or {})
        raw = {f"{s.name}.{stream}": data for s in point.steps for stream, data in every.items()}
        self.store.commit(point.id, number, records.record(point.id, **known | times | (record or {})), raw)

    def table(self, name: str = "results") -> list[dict[str, Any]]:
        """A table, merged again."""
        return merged(self.plan, self.results, name)


def merged(plan: Plan, results: Path, name: str = "results") -> list[dict[str, Any]]:
    make_tables(plan, results)
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(results / f"{name}.parquet").to_pylist()
    return rows


# --- a run

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
MANY_FILES: dict[str, Any] = {
    "name": "s",
    "tool": "fio",
    "phases": ["create", "stat", "delete"],
    "options": {"files_per_thread": 50_000},
    "repetitions": 1,
}
#: As SWEEP, for a run through the Snakefile: two repetitions each.
SMALL: dict[str, Any] = SWEEP | {
    "name": "small",
    "axes": {"transfer_size": ["4k", "16k"]},
    "options": {"file_size": "1m"},
    "repetitions": 2,
}
#: For a Snakemake that imports the plugins that users have.
PLUGINS_OF_USERS = {"PYTHONPATH": str(ROOT / "tests/support/hidden")}


class Allocation:
    """A campaign below `place`: configuration, target and results. The real runner measures its first allocation in a
    process of its own, as the rule starts it. `keep`: target.keep."""

    name = "c"

    def __init__(self, place: Path, sweep: dict[str, Any] = SWEEP, keep: str = "none", **document: Any):
        self.place = place
        self.keep, self.lock = keep, locks.own()
        self.mark = {"IOSWEEP_TEST": str(uuid.uuid4())}  # of all its processes
        self.target = place / "target"
        self.target.mkdir(parents=True, exist_ok=True)
        self.ours = self.target / f"iosweep-{self.name}"
        self.results = place / "results" / self.name
        self.store = Store(self.results)
        self.path = os.environ["PATH"]
        self.file = place / "sweep.yaml"
        self.configure(sweep, **document)

    def configure(self, sweep: dict[str, Any] = SWEEP, **document: Any) -> None:
        """Write the configuration: this sweep; keys of the document replaced, those of its targets one by one."""
        known = {"keep": self.keep, "lock": self.lock}
        where: dict[str, Any] = {"target": {"directory": str(self.target)} | known | document.pop("target", {})}
        if several := document.pop("targets", {}):
            where = {"targets": {n: {"directory": str(self.place / n)} | known | t for n, t in several.items()}}
            for target in where["targets"].values():
                Path(target["directory"]).mkdir(exist_ok=True)
        # a busy machine must not add tries to those that are counted, nor a full disk take points away
        limits = {"retried": "0%", "fill": "100%", "shortest_phase": "0s"}
        if "limits" in document:
            limits = {"shortest_phase": "0s"} | document.pop("limits")
        made = {"campaign": self.name, **where, "limits": limits, "sweeps": [sweep]} | document
        self.file.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=2))
        self._plan: Plan | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the configuration."""
        self._plan = self._plan or make_plan(sweep_file.read(self.file))
        return self._plan

    def command(self, *arguments: str) -> list[str]:
        file = keep_plan(self.plan, self.results)
        return [
            sys.executable, "-m", "iosweep", "measure", str(file), "--allocation", self.plan.allocations[0].name,
            "--manifest", str(self.manifest), "--log", str(self.place / "log"), *arguments,
        ]  # fmt: skip

    @property
    def manifest(self) -> Path:
        return self.results / "manifests" / "m.jsonl"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PATH": self.path, "COLUMNS": "300"} | self.mark

    def processes(self, word: str = "") -> list[psutil.Process]:
        """What lives of it, on all nodes, with this word in its command or a program of that name."""
        return processes.with_variables(word, **self.mark)

    def measure(self, *arguments: str, code: int = 0) -> str:
        """Run to the end; returns its messages."""
        done = subprocess.run(
            self.command(*arguments), env=self.environment, cwd=self.place, text=True, stderr=subprocess.PIPE,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stderr

    def fake(self, script: str) -> None:
        """Put a shell script before fio on PATH; in it, `$fio` is the real one."""
        folder = self.place / "bin"
        path = [directory for directory in self.path.split(os.pathsep) if directory != str(folder)]
        real = shutil.which("fio", path=os.pathsep.join(path))
        folder.mkdir(exist_ok=True)
        (folder / "fio").write_text(f"#!/bin/sh\nfio='{real}'\n{script}\n")
        (folder / "fio").chmod(0o755)
        self.path = os.pathsep.join([str(folder), *path])

    def files(self) -> list[str]:
        """Results and archives, by repetition and try."""
        return sorted(f"{f.parent.name}/{f.name}" for f in self.results.glob("points/*/*"))

    def committed(self) -> dict[str, bytes]:
        """The committed results and their archives, each as its digest says, by their names when nothing supersedes
        them."""
        found: dict[str, bytes] = {}
        for file in self.results.glob("points/*/r*.json"):
            content = file.read_bytes()
            raw = msgspec.json.decode(content)["raw"]
            archive = file.with_name(raw["name"]).read_bytes()
            assert hashlib.sha256(archive).hexdigest() == raw["sha256"]
            name = f"{file.parent.name}/{file.name.replace('.superseded', '')}"
            found |= {name: content, name.replace(".json", ".zip"): archive}
        return found

    def rows(self, table: str = "results") -> list[dict[str, Any]]:
        """A table, merged now."""
        Store(self.results).mark()
        return merged(self.plan, self.results, table)

    def checks(self, name: str = "") -> list[dict[str, Any]]:
        """The outcomes of a check, or of all, one row for each phase of each repetition."""
        return [row for row in self.rows("checks") if name in ("", row["check"])]

    def failed(self) -> set[str]:
        """The checks that fail anywhere."""
        return {row["check"] for row in self.checks() if row["outcome"] == "fail"}


class Campaign(Allocation):
    """The same through the real Snakefile, as a user runs it, with scripted tools (`play`) or the real ones. `place` is
    the working directory."""

    name = "tiny"

    def __init__(self, place: Path, real: bool = False, **sweep: Any):
        super().__init__(place, sweep)
        self.tools = None if real else place / "scripted"
        self.play()

    def play(self, *rules: scripted.Rule) -> None:
        """The scripted tools go by these rules from now on."""
        if self.tools:
            self.path = f"{scripted.install(self.tools, rules)}{os.pathsep}{os.environ['PATH']}"

    def configure(self, sweep: dict[str, Any] | None = None, **more: Any) -> None:
        """Write the configuration: SMALL, with these keys changed."""
        super().configure(SMALL | (sweep or {}) | more, tools={"provider": "path"})

    @property
    def environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{self.path}"
        return os.environ | {"PATH": path} | self.mark | PLUGINS_OF_USERS

    def command(self, *arguments: str) -> list[str]:
        snakemake = Path(sys.executable).with_name("snakemake")
        return [
            str(snakemake), "-s", str(ROOT / "Snakefile"), "-d", str(self.place),
            "--profile", str(ROOT / "profiles/local"), "--configfile", str(self.file), *arguments,
        ]  # fmt: skip

    def _output(self, command: list[str], code: int | None, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            command, env=env or self.environment, cwd=self.place, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert code is None or done.returncode == code, done.stdout
        return done.stdout

    def snakemake(self, *arguments: str, env: dict[str, str] | None = None, code: int | None = 0) -> str:
        """Run to its end; returns what it printed."""
        return self._output(self.command(*arguments), code, env)

    def iosweep(self, *arguments: str, code: int | None = 0) -> str:
        return self._output([sys.executable, "-m", "iosweep", *arguments], code)

    def dry(self, *arguments: str) -> str:
        return self.snakemake("-n", *arguments)

    def left(self) -> Any:
        """Allocation -> what is left of it, as the Snakefile learns it, without the two seconds of a dry run."""
        return {name: one.text() for name, one in self.loaded().left.items()}

    def loaded(self) -> dag.Dag:
        """What the Snakefile learns, in this process."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", self.path)
            programs.sha256.cache_clear()
            found = dag.load(self.file, self.results.parent, Profile(given={"launcher": "mpiexec"}, slurm=False))
        programs.sha256.cache_clear()
        return found

    def settled(self) -> bool:
        """Whether nothing would be run up to the tables. (`--until` never says "Nothing to be done".)"""
        return not re.search(r"^(Job \d+|rule|localrule)\b", self.dry("--until", "tables"), re.MULTILINE)

    def run(self, *arguments: str, **options: Any) -> str:
        """Everything but SVG and PNG, which take longer than the rest."""
        return self.snakemake(*arguments, "--until", "report", **options)

    def tables(self, *arguments: str, **options: Any) -> str:
        """No page either: with its library of figures it takes as long as all that a small campaign measures."""
        return self.snakemake(*arguments, "--until", "tables", **options)

    def stored(self) -> dict[tuple[str, str], bytes]:
        """(point, file name) -> bytes of everything below points/."""
        return {
            (file.parent.name, file.name): file.read_bytes()
            for file in (self.results / "points").glob("*/*")
            if not file.name.startswith(".")
        }

    def repetitions(self) -> set[tuple[str, str]]:
        """(point, file) of the committed results."""
        return {(p, n) for p, n in self.stored() if re.fullmatch(r"r\d+-\d+\.json", n)}
