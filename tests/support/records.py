"""Records of repetitions as the store takes them, with all that a result has to hold."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from iosweep.plan.model import TargetSettings
from iosweep.store.record import PhaseRun, Record
from iosweep.store.store import Store

BEGAN = "2026-11-01T00:00:00+00:00"
TARGET = {"directory": "/t", "source": "/dev/x", "fstype": "ext4", "layout": None, "layout_is": "none"}
#: The target of a plan, for the checks.
ON_TARGET = TargetSettings(directory="/t", node_bandwidth=None, keep="none", deadline=30.0, lock=None)


def record(
    point: str,
    phases: Sequence[str | dict[str, Any]] = ("rand_read",),
    headline: float | None = 5.0,
    **more: Any,
) -> Record:
    """A record of a point. `phases`: their names, or all that is recorded of each, with keys of its row among them;
    `more` replaces keys of the record, and `target` and `tool` keys of theirs."""
    runs = [{"phase": each} if isinstance(each, str) else dict(each) for each in phases]
    rows = []
    for run in runs:
        known = {"headline": headline, "started": run.get("started", BEGAN)} | {
            name: run.pop(name) for name in ("headline", "latency_mean_s", "verdict", "reasons") if name in run
        }
        known.setdefault("verdict", "invalid" if known["headline"] is None else "valid")
        rows.append({"phase": run["phase"], "values": {"wall_s": run.get("wall_s", 1.5)}} | known)
    made: dict[str, Any] = {
        "point": point,
        "started": BEGAN,
        "ended": BEGAN,
        "host": "h",
        "node": "n",
        "retry": None,
        "retried": False,
        "phases": [{"started": BEGAN, "wall_s": 1.5, "argv": ["fio"]} | run for run in runs],
        "rows": rows,
    }
    given = {"target": TARGET, "tool": {"path": "/usr/bin/fio", "sha256": "t", "version": "fio-3.33"}}
    return msgspec.convert(made | {name: known | more.pop(name, {}) for name, known in given.items()} | more, Record)


def plain(value: Any) -> Any:
    """A record, or a part of one, as JSON has it, with every key."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(part) for name, part in msgspec.structs.asdict(value).items()}
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return value.isoformat() if isinstance(value, datetime) else value


def plain_records_of(store: Store, point: str) -> Iterator[dict[str, Any]]:
    """The records of a point as dictionaries."""
    for stored in store.records_of(point, Record):
        yield plain(stored)


def phase_run(known: Mapping[str, Any]) -> PhaseRun:
    """The run of a phase with these keys."""
    return msgspec.convert({"phase": "p", "argv": [], "started": BEGAN, "wall_s": 1.0, **known}, PhaseRun)
