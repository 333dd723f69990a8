"""mdtest's command line, as it prints it, compared with what was asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from iosweep.tools import Echo
from iosweep.tools.mdtest.command_line import parse, release
from iosweep.tools.mdtest.runs import Run


def compare(argv: Sequence[str], run: Run) -> Echo | None:
    """How a run differs from the command that was asked for; None where its command line tells nothing."""
    asked, told = parse(tuple(argv), release(run.version)), run.options
    if asked is None or told is None:
        return None
    wrong = [f"mdtest ran without -{flag}" for flag in sorted(asked.flags - told.flags)]
    wrong += [f"mdtest ran with -{flag}, which was not asked for" for flag in sorted(told.flags - asked.flags)]
    for name in sorted((asked.values.keys() | told.values.keys()) - {"d"}):
        wanted, used = (options.values.get(name, "none") for options in (asked, told))
        if wanted != used:
            wrong.append(f"mdtest ran with -{name} {used}, asked for was {wanted}")
    return Echo(tuple(wrong), frozenset(), len(asked.flags) + len(asked.values) - 1, told.values.get("d"))
