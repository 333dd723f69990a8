"""IOR's command line and parameters, as it prints them, compared with what was asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iosweep.tools import Echo
from iosweep.tools.ior import command_line
from iosweep.tools.ior.command_line import Command
from iosweep.tools.ior.records import Run

#: Values that differ from run to run, and what is written beside the summary.
_NOT_COMPARED = frozenset({"o", "G", "random-offset-seed", "saverankperformancedetailscsv"})
#: IOR's parameters that follow from a flag, and from a value (of which there may be none).
_FLAGS = {
    "F": "filePerProc", "c": "collective", "k": "keepFile", "z": "randomOffset", "r": "readFile", "C": "reorderTasks",
    "w": "writeFile", "E": "useExistingTestFile", "e": "fsync", "W": "checkWrite", "R": "checkRead",
}  # fmt: skip
_VALUES = {
    "a": ("api", "POSIX"), "b": ("blockSize", ""), "t": ("transferSize", ""), "D": ("deadlineForStonewall", "0"),
    "i": ("repetitions", "1"), "s": ("segmentCount", "1"),
}  # fmt: skip


def compare(argv: Sequence[str], run: Run) -> Echo | None:
    """How a run differs from the command that was asked for; None where IOR printed no command line."""
    asked, told = (
        command_line.parse(_without_path(" ".join(argv))),
        command_line.parse(_without_path(run.command or "")),
    )
    if asked is None or told is None:
        return None
    wrong = [*_commands(asked, told), *_parameters(asked, run)]
    confirmed = frozenset(name for name, on in (("o_direct", run.o_direct), ("fsync", run.fsync)) if on)
    place = _path(run.command or "")[1] or None
    return Echo(tuple(dict.fromkeys(wrong)), confirmed, len(asked.flags) + len(asked.values), place)


def _without_path(line: str) -> str:
    head, _, rest = _path(line)
    return f"{head} -O {rest}" if rest else head


def _path(line: str) -> tuple[str, str, str]:
    """A command line in three: the path of its files, which may hold blanks, stands before the last -O."""
    head, _, tail = line.partition(" -o ")
    path, _, rest = tail.rpartition(" -O ")
    return head, path, rest


def _commands(asked: Command, told: Command) -> Iterator[str]:
    for flag in sorted(asked.flags - told.flags):
        yield f"IOR ran without -{flag}"
    for flag in sorted(told.flags - asked.flags):
        yield f"IOR ran with -{flag}, which was not asked for"
    for name in sorted((asked.values.keys() | told.values.keys()) - _NOT_COMPARED):
        wanted, used = asked.values.get(name), told.values.get(name)
        if wanted != used:
            option = f"-{name}" if len(name) == 1 else name
            yield (
                f"IOR ran with {option} {used}, which was not asked for" if wanted is None
                else f"IOR ran without {option} {wanted}" if used is None
                else f"IOR ran with {option} {used}, asked for was {wanted}"
            )  # fmt: skip


def _parameters(asked: Command, run: Run) -> Iterator[str]:
    """Where IOR's parameters are not those of the command, but for what it says it does without (`Run.off`)."""
    wanted = {name: str(int(flag in asked.flags)) for flag, name in _FLAGS.items()}
    wanted |= {name: asked.values.get(letter, default) for letter, (name, default) in _VALUES.items()}
    for name, value in wanted.items():
        used = run.parameters.get(name)
        if used is not None and used != value and name not in run.off:
            yield f"IOR's parameter {name} was {used}, asked for was {value}"
