"""How often does a check fail for a run that nothing is wrong with?

One campaign of fio is measured twice: on the machine as it is, and beside programs that keep its CPUs and
its disk busy. Nothing is falsified, so each fail of a check is a false alarm, except for what the checks are to say of
such runs, and for changes of the rate that the block device has counted as well: a shared machine makes them.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet

import campaigns
from iosweep.judge.checks import CHECKS
from iosweep.plan.model import Plan
from iosweep.tables.make import make_tables
from measure import IOSWEEP, CannotRun, Row, Size, child

_SHORT = {
    "tool": "fio",
    "phases": ["seq_write", "seq_read", "rand_write", "rand_read"],
    "axes": {"o_direct": [True, False], "queue_depth": [1, 8], "threads_per_node": [1, 4]},
    "options": {"file_size": "64m", "transfer_size": "16k"},
}
_LONG = {
    "tool": "fio",
    "phases": ["seq_write", "rand_read"],
    "axes": {"o_direct": [True, False], "threads_per_node": [1, 4]},
    "options": {"file_size": "64m", "transfer_size": "16k", "queue_depth": 8},
    "phase_time": "11s",
}
#: With `steady` a phase of this length or more counts.
LONG_S = 10.0
#: Parts of a phase, whose first and last one are compared, and the share of fio's change that the device has to show.
PARTS, CONFIRMED = 3, 0.5
#: Share of rows of which a check may fail.
BUDGET, BUDGETS = 0.01, {"steady": 0.05}
#: phase -> what the device counts of it.
_COUNTED = {"seq_write": "device_written_bytes_per_s", "rand_read": "device_read_bytes_per_s"}
#: What is true of a run beside other load.
OF_LOAD = frozenset({"other_load", "other_io", "precise"})
#: What is true of I/O through the page cache: reads of files that fit in memory, writes over the same files again and
#: again, and a queue depth that libaio does not reach.
OF_BUFFERED = {
    "client_cache": frozenset({"seq_read", "rand_read"}),
    "reached": frozenset({"seq_read", "rand_read"}),
    "durable": frozenset({"seq_write", "rand_write"}),
    "queue_depth": frozenset({"seq_read", "rand_read", "seq_write", "rand_write"}),
}


@dataclass(frozen=True)
class Counted:
    """The outcomes of one check on the rows that count."""

    rows: int
    fails: int
    not_checked: int
    confirmed: int  # fails that the device's counters show as well; they are not among `fails`

    @property
    def shown(self) -> str:
        more = f", {self.not_checked} not checked" if self.not_checked else ""
        true = f", and {self.confirmed} that the device counted as well" if self.confirmed else ""
        return f"{self.fails} of {self.rows}{true}{more}"


def run(size: Size, work: Path) -> Iterator[Row]:
    """A row for each check."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH")
    found = {"quiet": _campaign(size, work, "quiet")}
    with _load(work):
        found["loaded"] = _campaign(size, work, "loaded")
    for check in CHECKS:
        name, budget = check.name, BUDGETS.get(check.name, BUDGET)
        counted = {machine: _count(name, judged, machine) for machine, judged in found.items()}
        rows = sum(one.rows for one in counted.values())
        fails = sum(one.fails for one in counted.values())
        if not rows:
            continue
        share = fails / rows
        yield Row(
            "honest", f"{name}: fails", f"{rows} rows", "; ".join(f"{k} {one.shown}" for k, one in counted.items()),
            ratio=f"{share:.1%}", budget=f"≤ {budget:.0%}", met=share <= budget,
        )  # fmt: skip


def _campaign(size: Size, work: Path, machine: str) -> list[dict[str, Any]]:
    """Measure it as Snakemake starts it; the rows of checks.parquet, each with what was measured."""
    short, long = size.honest
    sweeps = [{**_SHORT, "phase_time": time, "repetitions": short} for time in ("1s", "2s") if short]
    sweeps += [{**_LONG, "repetitions": long}] if long else []
    name = f"honest-{machine}"
    made = campaigns.planned(work, name, sweeps or [_tiny()], limits={"retried": "0%"})
    plan_file = campaigns.written(made, work, name)
    results = plan_file.parent.parent
    command = [*IOSWEEP, "measure", plan_file, "--allocation", made.allocations[0].name]
    print(f"{name}: {_busy()}", file=sys.stderr)
    child([*command, "--manifest", results / "m.jsonl", "--log", results / "m.log"], work)
    print(f"{name}: {_busy()}", file=sys.stderr)
    make_tables(made, results)
    return list(_judged(made, results))


def _tiny() -> dict[str, Any]:
    return {**_SHORT, "axes": {}, "phase_time": "100ms", "repetitions": 1}


def _judged(made: Plan, results: Path) -> Iterator[dict[str, Any]]:
    options = {point.id: point for point in made.points}
    changed = _changed_on_device(results)
    for one in pyarrow.parquet.read_table(results / "checks.parquet").to_pylist():
        point = options[one["point"]]
        buffered, row = not point.options["o_direct"], (one["point"], one["repetition"], one["phase"])
        confirmed = one["check"] == "steady" and not buffered and row in changed
        yield {**one, "buffered": buffered, "time_s": point.phase_time_s or 0.0, "confirmed": confirmed}
        if one["outcome"] == "fail":
            also = " (the device counted it as well)" if confirmed else ""
            print(f"{one['point']} {one['phase']} {one['check']}: {one['evidence']}{also}", file=sys.stderr)


def _changed_on_device(results: Path) -> set[tuple[str, int, str]]:
    """(point, repetition, phase) of the rows in which the device's rate changed as fio's did."""
    rates: dict[tuple[str, int, str], dict[str, float]] = {}
    for one in pyarrow.parquet.read_table(results / "series.parquet").to_pylist():
        values = [value for value in one["values"] if value is not None]
        if one["worker"] is None and len(values) >= PARTS:
            row = rates.setdefault((one["point"], one["repetition"], one["phase"]), {})
            row[one["quantity"]] = _change(values)
    return {row for row, changes in rates.items() if _alike(changes, _COUNTED.get(row[2], ""))}


def _alike(changes: dict[str, float], counted: str) -> bool:
    fio, device = changes.get("bandwidth_bytes_per_s", 0.0), changes.get(counted, 0.0)
    return abs(device) >= CONFIRMED * abs(fio) and device * fio > 0


def _change(values: list[float]) -> float:
    """The logarithm of the last part's mean to the first one's; 0 where one of them is nothing."""
    size = len(values) // PARTS
    first, last = fmean(values[:size]), fmean(values[-size:])
    return math.log(last / first) if first > 0 and last > 0 else 0.0


def _count(check: str, judged: list[dict[str, Any]], machine: str) -> Counted:
    """Outcomes of a check where a fail would be a false alarm."""
    if machine == "loaded" and check in OF_LOAD:
        return Counted(0, 0, 0, 0)
    own = [
        one for one in judged
        if one["check"] == check
        and not (one["buffered"] and one["phase"] in OF_BUFFERED.get(check, ()))
        and not (check == "steady" and one["time_s"] < LONG_S)
    ]  # fmt: skip
    outcomes = Counter(one["outcome"] for one in own)
    confirmed = sum(one["confirmed"] for one in own if one["outcome"] == "fail")
    rows = len(own) - outcomes["not applicable"]
    return Counted(rows, outcomes["fail"] - confirmed, outcomes["not checked"], confirmed)


def _busy() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"


@contextlib.contextmanager
def _load(work: Path) -> Iterator[None]:
    """One busy process per CPU, and dd to a file beside the target."""
    dd = 'while :; do dd if=/dev/zero of="$0" bs=1M count=64 oflag=direct conv=notrunc 2> /dev/null; done'
    commands = [[sys.executable, "-c", "while True: pass"]] * (os.cpu_count() or 1)
    commands.append(["sh", "-c", dd, str(work / "others")])
    started = [subprocess.Popen(command) for command in commands]
    try:
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()
