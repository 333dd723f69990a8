"""Records of repetitions as the store takes them, with all that a result has to hold."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from iosweep.plan.model import TargetSettings
from iosweep.store.committed import Result
from iosweep.store.record import PhaseRun, Record
from iosweep.store.store import Store

BEGAN = "2026-11-01T00:00:00+00:00"
TARGET = {"directory": "/t", "source": "/dev/x", "fstype": "ext4", "layout": None, "layout_is": "none"}
#: The target of a plan, for the checks.
ON_TARGET = TargetSettings(directory="/t", node_bandwidth=None, keep="none", settle=0.0, deadline=30.0, lock=None)


def record(
    point: str,
    phases: Sequence[str | dict[str, Any]] = ("rand_read",),
    headline: float | None = 5.0,
    **more: Any,
) -> Record:
    """A record of a point. `phases`: their names, or all that is recorded of each; `more` replaces keys of the record,
    and `target` and `tool` keys of theirs."""
    verdict = "invalid" if headline is None else "valid"
    made: dict[str, Any] = {
        "point": point,
        "started": BEGAN,
        "ended": BEGAN,
        "host": "h",
        "node": "n",
        "retry": None,
        "retried": False,
        "phases": [
            {"phase": each, "headline": headline, "verdict": verdict, "started": BEGAN, "wall_s": 1.5, "argv": ["fio"]}
            if isinstance(each, str)
            else each
            for each in phases
        ],
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


def plain_records_of(store: Store, point: str) -> Iterator[tuple[Result, dict[str, Any]]]:
    """The results of a point with their records as dictionaries."""
    for result, record in store.records_of(point):
        yield result, plain(record)


def phase_run(known: Mapping[str, Any]) -> PhaseRun:
    """The run of a phase with these keys."""
    return msgspec.convert({"phase": "p", "argv": [], "started": BEGAN, "wall_s": 1.0, **known}, PhaseRun)
