"""A small configuration, and ways to change it, for the tests of what works on configurations and plans."""

import copy
from pathlib import Path
from typing import Any

import yaml

from iosweep.config import sweep_file, sweeps
from iosweep.errors import ConfigError
from iosweep.plan.expand import make_plan
from iosweep.plan.model import Plan

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
    """TEXT as data; keys of the sweep replaced, or removed where they are None."""
    made = yaml.safe_load(TEXT)
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
    """What is wrong with a configuration, one `line: key: message` each."""
    try:
        stage(directory, text)
    except ConfigError as error:
        return [str(p).replace(f"{directory}/x.yaml:", "") for p in error.problems]
    return []
