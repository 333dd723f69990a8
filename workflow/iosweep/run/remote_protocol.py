"""What the runner and the agents of a job's nodes send to each other."""

from __future__ import annotations

from typing import Any

import msgspec

from iosweep.errors import Refused, TargetError
from iosweep.node.cpu_record import Looks
from iosweep.node.node_facts import NodeFacts
from iosweep.target.identify import FileSystem


class Request(msgspec.Struct, frozen=True):
    """`each`: host -> its own arguments, in place of `arguments`; other hosts ignore the request."""

    number: int
    operation: str
    arguments: list[Any] = []
    each: dict[str, list[Any]] | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of an operation, or the error that it raised."""

    value: Any = None
    refused: str | None = None
    lasting: bool = True
    errno: int = 0
    error: str | None = None

    @property
    def outcome(self) -> Any:
        """The value, or the exception."""
        if self.refused is not None:
            return Refused(self.refused, self.lasting)
        return self.value if self.error is None else TargetError(self.errno, self.error)


class NodeAnswer(msgspec.Struct, frozen=True):
    """Of `facts`: what identifies the target on the node, tool -> hash of its binary, the facts."""

    target: FileSystem
    builds: dict[str, str | None]
    node: NodeFacts


class Watched(msgspec.Struct, frozen=True):
    """Of `seen`: the most ranks at once, the load by others (load.Watch.end), what Sampler.end saw."""

    ranks: int
    load: dict[str, Any] | None
    cpus: Looks | None


class Ran(msgspec.Struct, frozen=True):
    """Of `run`: what a command did, when it started and ended on the node's clock, its output (fan_out.packed)."""

    exit_code: int
    timed_out: bool
    flooded: bool
    wall_s: float
    left_behind: int
    started: float
    ended: float
    stdout: str
    stderr: str
