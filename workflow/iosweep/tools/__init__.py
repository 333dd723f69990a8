"""The tools that measure, one folder each. Adding a tool is adding a folder: nothing here names one.

A folder `tools/<name>/` offers `TOOL`, an object with the attributes of `Tool`: a table of options (from which the
configuration's models, the schema, the documentation and the argv come), a table of phases, the argv of a phase, and
the parser of what the tool prints. Pure throughout: nothing in a tool folder touches a file system or starts a process.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, Protocol

Kind = Literal["data", "metadata"]
OptionKind = Literal["size", "count", "flag", "choice"]
Value = int | bool | str | None


@dataclass(frozen=True)
class Option:
    """A parameter of a tool: what a configuration may set under `options`, or vary under `axes`.

    `kinds` are the kinds of phase that it has an effect on; it is an error to set it where it has none. An option that
    is not part of a point's kind is not part of the point's id.
    """

    name: str
    kind: OptionKind
    default: Value
    help: str
    unit: str = ""
    kinds: frozenset[Kind] = frozenset({"data", "metadata"})
    choices: tuple[str, ...] = ()
    minimum: int = 1
    maximum: int | None = None
    phases: frozenset[str] | None = None  # only these phases use it; None: all of its kinds


@dataclass(frozen=True)
class Phase:
    """A step of a point. `metric` is the column that is its headline."""

    name: str
    kind: Kind
    reads: bool
    writes: bool
    metric: str
    help: str


@dataclass(frozen=True)
class FileSet:
    """Files that a phase works on, relative to the campaign's directory on the target.

    `role`: `read` (complete data that nothing writes to), `write` (complete files that write phases own and write
    over), or `fresh` (an empty directory of this repetition, removed with it).
    """

    directory: str
    role: Literal["read", "write", "fresh"]
    files: tuple[str, ...] = ()
    file_size_bytes: int = 0
    prepare: Callable[[str], list[str]] | None = field(default=None, compare=False)  # absolute directory -> argv
    prepared_as: str = ""  # the phase whose output that command prints

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole set."""
        return len(self.files) * self.file_size_bytes


@dataclass(frozen=True)
class Parsed:
    """What a tool's output says: figures by column name, evidence for the checks, and what is wrong with it."""

    version: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)
    problems: Sequence[str] = ()


@dataclass(frozen=True)
class Reading:
    """What the files of one run say to a person who has only those (`iosweep parse`).

    `rows`: columns of the result table (columns.py) as far as the files tell; a figure that cannot be trusted is not
    there, and `problems` says why. No problem means that every row is as the tool measured it.
    """

    version: str | None
    rows: Sequence[Mapping[str, Any]]
    problems: Sequence[str]


class Tool(Protocol):
    """What a tool folder offers as `TOOL`."""

    name: str
    help: str
    program: str  # looked up on PATH
    get_it: str  # how to get the program, for a person
    version_argv: tuple[str, ...]
    options: Mapping[str, Option]
    phases: Mapping[str, Phase]

    def __hash__(self) -> int: ...

    def check(self, options: Mapping[str, Value], phases: Sequence[str]) -> str | None:
        """What is wrong with a combination of options, or None."""

    def file_set(self, options: Mapping[str, Value], phase: Phase, fresh: str) -> FileSet:
        """The files a phase works on. `fresh` names the directory of this repetition."""

    def argv(
        self, options: Mapping[str, Value], phase: Phase, directory: str, phase_time_s: float, seed: int
    ) -> list[str]:
        """The exact command of a phase. `directory` is the absolute path of its file set."""

    def parse(self, stdout: bytes, options: Mapping[str, Value], phase: Phase) -> Parsed:
        """Figures and problems of one run's output. Never raises for what a tool may print."""

    def read(self, files: Mapping[str, bytes], exit_code: int | None) -> Reading:
        """What the files of one run (name -> content: stdout, a summary file ...) say, judged together with the exit
        code where it is known. Takes what the tool's versions really write. Never raises for what a file may hold."""

    def leftover(self, options: Mapping[str, Value], phase: Phase) -> int | None:
        """Files that must be in the file set's directory after the phase, or None where the count says nothing."""

    def inodes(self, options: Mapping[str, Value], phase: Phase) -> int:
        """Files that the phase itself creates beside its file set, at most."""

    def work(self, options: Mapping[str, Value], phase: Phase) -> int:
        """Operations of a phase that a count bounds; 0 where time bounds it."""


@cache
def tools() -> dict[str, Tool]:
    """All tools by name, found by their folders."""
    found: dict[str, Tool] = {}
    for module in pkgutil.iter_modules(__path__):
        tool: Tool = importlib.import_module(f"{__name__}.{module.name}").TOOL
        found[tool.name] = tool
    return dict(sorted(found.items()))
