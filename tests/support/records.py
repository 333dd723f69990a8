"""Records of repetitions as the store takes them, with all that a result has to hold."""

from collections.abc import Sequence
from typing import Any

BEGAN = "2026-11-01T00:00:00+00:00"
TARGET = {"directory": "/t", "source": "/dev/x", "fstype": "ext4", "layout": None, "layout_is": "none"}


def record(point: str, phases: Sequence[str] = ("rand_read",), headline: float | None = 5.0, **more: Any) -> Any:
    """One of a point; `more` takes the place of its keys, and `target` and `tool` of theirs."""
    made: dict[str, Any] = {
        "point": point,
        "started": BEGAN,
        "ended": BEGAN,
        "host": "h",
        "node": "n",
        "retry": None,
        "retried": False,
        "phases": [
            {"phase": name, "headline": headline, "started": BEGAN, "wall_s": 1.5, "argv": ["fio"]} for name in phases
        ],
    }
    given = {"target": TARGET, "tool": {"path": "/usr/bin/fio", "sha256": "t", "version": "fio-3.33"}}
    return made | {name: known | more.pop(name, {}) for name, known in given.items()} | more
