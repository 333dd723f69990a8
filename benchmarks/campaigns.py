"""Campaigns for the benchmarks: configurations, plans, and stores full of results."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

import added_tools  # noqa: F401
from iosweep.commands import plan
from iosweep.config import sweep_file
from iosweep.files import safe_paths
from iosweep.judge import verdict
from iosweep.node.facts import NodeFacts
from iosweep.node.load import Load
from iosweep.plan.expand import make_plan
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Plan, Point
from iosweep.run import allocation
from iosweep.run.progress import Lines
from iosweep.store.record import Record
from iosweep.store.store import Store, unpack_archive
from measure import CannotRun

#: For a child that is to know the tools in benchmarks/tools, as we do. The others plan and check as always.
WITH_OURS = {"PYTHONPATH": str(Path(__file__).resolve().parent / "site")}

#: More than one file of a gigabyte is never needed, so a full disk is no reason to refuse.
_HEAD = "campaign: {name}\ntarget: {target}\ntools: {{provider: path}}\nlimits: {limits}\nsweeps:\n"
_LIMITS = {"fill": "99%", "share_of_free": "90%", "bytes_written": "1000p"}

#: A sweep as the configuration writes it, in flow style (which is JSON).
Sweep = Mapping[str, Any]


class Silent(Lines):
    """Lines of progress that are not shown."""

    def __init__(self) -> None: ...
    def begin(self, repetitions: int, cost_s: float) -> None: ...
    def say(self, text: str) -> None: ...
    def finished(self, record: Record, cost_s: float) -> None: ...
    def more(self, repetitions: int, cost_s: float) -> None: ...


def write(work: Path, name: str, sweeps: Sequence[Sweep], limits: Mapping[str, str] = _LIMITS, **target: str) -> Path:
    """The configuration of a campaign whose target is `work`/target. `limits`, `target`: keys of these."""
    (work / "target").mkdir(exist_ok=True)
    known = {"directory": str(work / "target"), "keep": "data_sets", **target}
    bounds = msgspec.json.encode({**_LIMITS, **limits}).decode()
    text = _HEAD.format(name=name, target=msgspec.json.encode(known).decode(), limits=bounds)
    text += "".join(f"  - {msgspec.json.encode({'name': f's{n}', **s}).decode()}\n" for n, s in enumerate(sweeps))
    file = work / f"{name}.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def planned(work: Path, name: str, sweeps: Sequence[Sweep], limits: Mapping[str, str] = _LIMITS, **target: str) -> Plan:
    """The plan of such a campaign."""
    return make_plan(sweep_file.read(write(work, name, sweeps, limits, **target)))


#: Options of fio that the rates over time are read from: somebody who measures by hand does not give them.
_LOGS = ("--write_bw_log=", "--log_avg_msec=", "--per_job_logs=")


def by_hand(made: Plan) -> Iterator[tuple[int, list[str]]]:
    """(repetition, argv) of every step of fio, as it is typed in by hand."""
    for _, number, argv in plan.commands(made, LAUNCHERS["direct"]):
        yield number, [word for word in argv if not word.startswith(_LOGS)]


def written(made: Plan, work: Path, results: str) -> Path:
    """The file that `iosweep measure` and `iosweep tables` take, below results/<results>/ as always."""
    Store(work / "results" / results).mark()
    file = work / "results" / results / "plans" / f"{made.digest}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    safe_paths.write(file.parent, file.name, made.document())
    return file


def fio_sweep(axes: Mapping[str, Sequence[Any]], phase_time: str = "1s", repetitions: int = 1, **options: Any) -> Sweep:
    """Random reads of one set of files of 64 MiB."""
    return {
        "tool": "fio",
        "phases": ["rand_read"],
        "axes": axes,
        "options": {"file_size": "64m", **options},
        "phase_time": phase_time,
        "repetitions": repetitions,
    }


def grid(points: int) -> dict[str, list[Any]]:
    """Axes that have about so many combinations (a multiple of 10; from 250 on, of 250)."""
    depths = max(1, min(25, points // 10))
    return {
        "transfer_size": [f"{4 << i}k" for i in range(10)],
        "queue_depth": list(range(1, depths + 1)),
        "threads_per_node": list(range(1, max(1, points // 10 // depths) + 1)),
    }


def measure(made: Plan, results: Path, lines: Lines) -> None:
    """The runner's own way through an allocation, in this process."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH")
    name = made.allocations[0].name
    manifest = results / "manifests" / "m.jsonl"
    allocation.measure(made, name, results, manifest, LAUNCHERS["direct"], lines)


def fill(made: Plan, results: Path, work: Path, repetitions: int = 1, phase_time: str = "1s") -> int:
    """Give every point of a plan of random reads so many results; returns the size of one raw output.

    The first is a real one of fio's (json+, with its histogram); the others are that one with other numbers, also of
    its rates over time. phase_time: of the real one.
    """
    name = f"sample-{phase_time}"
    sample = planned(work, name, [fio_sweep({"queue_depth": [4]}, phase_time, transfer_size="4k")])
    measure(sample, work / name, Silent())
    record = next(Store(work / name).records_of(sample.points[0].id, Record))
    archive = Store(work / name).raw(record)
    assert archive
    streams = {f"rand_read.{name}": data for name, data in unpack_archive(archive)["rand_read"].items()}
    document = msgspec.json.decode(streams["rand_read.stdout"])
    shutil.copytree(work / name / "nodes", results / "nodes", dirs_exist_ok=True)
    draw = random.Random(1)
    target = Store(results)
    memory_bytes = next(iter(target.documents(NodeFacts).values())).memory_bytes
    with _without_sync():
        for point in made.points:
            for number in range(1, repetitions + 1):
                run = replace(record.phases[0], load=Load(other=0.01, steal=0.0))
                new = replace(record, phases=(run,), retry=None)
                own = streams | _as_if(document, streams["rand_read.series"], point, draw)
                printed = {"rand_read": {name.partition(".")[2]: data for name, data in own.items()}}
                rows = verdict.judge(made, point, new, printed, {record.host: memory_bytes})
                new = replace(new, rows=rows, judged=verdict.key(made, point))
                target.commit(point.id, number, new, own)
    return sum(map(len, streams.values()))


def _as_if(document: dict[str, Any], log: bytes, point: Point, draw: random.Random) -> dict[str, bytes]:
    """fio's output with the figures of another point: they agree with each other, so that its verdict is the same."""
    size, threads, depth = (int(point.options[o] or 0) for o in ("transfer_size", "threads_per_node", "queue_depth"))
    job = document["jobs"][0]
    read = job["read"]
    factor = draw.uniform(0.5, 1.5)
    bins = {name: 1 + int(count * factor) for name, count in read["clat_ns"]["bins"].items()}
    ios = sum(bins.values())
    moved, runtime_s = ios * size, read["runtime"] / 1000
    new = {
        **read,
        "total_ios": ios,
        "io_bytes": moved,
        "io_kbytes": moved >> 10,
        "bw_bytes": int(moved / runtime_s),
        "bw": int(moved / runtime_s) >> 10,
        "iops": ios / runtime_s,
        "clat_ns": {**read["clat_ns"], "N": ios, "bins": bins},
    }
    levels = {**dict.fromkeys(job["iodepth_level"], 0.0), str(1 << (depth.bit_length() - 1)): 100.0}
    job = {**job, "read": new, "job_runtime": read["runtime"] * threads, "iodepth_level": levels}
    text = msgspec.json.format(msgspec.json.encode({**document, "jobs": [job]}), indent=2)
    return {
        "rand_read.stdout": text.replace(b'": ', b'" : '),  # as fio writes it
        "rand_read.stderr": b"",
        "rand_read.series": _logs(log, threads, moved / read["io_bytes"]),
    }


def _logs(log: bytes, workers: int, factor: float) -> bytes:
    """The log of one worker as those of several, which move `factor` times as much together."""

    def scaled(line: bytes) -> bytes:
        at, rate, rest = line.split(b",", 2)
        return b"%s, %d,%s" % (at, round(int(rate) * factor / workers), rest)

    lines = b"".join(scaled(line) for line in log.splitlines(keepends=True)[1:])
    return b"".join(b"==> series_bw.%d.log <==\n%s" % (number, lines) for number in range(1, workers + 1))


@contextmanager
def _without_sync() -> Iterator[None]:
    """Ten thousand results are made for the benchmark's sake: they need not survive a power cut."""
    sync, os.fsync = os.fsync, lambda _: None
    try:
        yield
    finally:
        os.fsync = sync
