"""The striping of what a campaign writes, and the trash of its directory, by the file system's own command.

`set_layout`, `read_layout` and `keep_nothing` run inside the agent.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from iosweep.errors import Obstacle, Refused
from iosweep.target.directory import Opened, Place
from iosweep.text import shortened

#: A line of what a command says may be a column of a table.
_LONGEST = 300
#: Where GPFS has its commands, which is on few users' PATH.
_MORE_PATH = "/usr/lpp/mmfs/bin"


class _Failed(Exception):
    """A command is not there, or did not succeed; the message says which."""


def _run(argv: Sequence[str], place: Place) -> str:
    """Output of a command on the campaign's directory. Raises _Failed, and OSError where that is not there."""
    path = os.pathsep.join([*os.get_exec_path(), _MORE_PATH])
    program = shutil.which(argv[0], path=path)
    if program is None:
        raise _Failed(f"{argv[0]} is not on PATH")
    with Opened(place) as ours:
        done = subprocess.run(
            [program, *argv[1:], ours.directory],
            cwd=f"/proc/self/fd/{ours.handle}",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    output, errors = os.fsdecode(done.stdout), os.fsdecode(done.stderr)
    if done.returncode:
        first = next(iter((errors + output).strip().splitlines()), "it says nothing")
        raise _Failed(f"`{_one_line(' '.join(argv))}` ended with exit code {done.returncode}: {_one_line(first)}")
    return output


def _one_line(text: str) -> str:
    """Without line ends, gaps and what steers a terminal; cut."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


#: The layout if none could be read; a reason may follow.
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class _Commands:
    """Commands of a file system; the directory follows, after the arguments of `set`."""

    show: tuple[str, ...]
    set: tuple[str, ...] | None = None
    #: The layout follows this word.
    heading: str = ""


#: lfs-setstripe(1) and lfs-getstripe(1) of Lustre, the help of beegfs-ctl 7. GPFS has a layout per pool and policy,
#: not per directory: it can only be shown.
_COMMANDS = {
    "lustre": _Commands(("lfs", "getstripe", "-d"), ("lfs", "setstripe")),
    "beegfs": _Commands(
        ("beegfs-ctl", "--getentryinfo"), ("beegfs-ctl", "--setpattern"), heading="Stripe pattern details:"
    ),
    "gpfs": _Commands(("mmlsattr", "-L")),
}
#: Options that a value follows (or is attached to), and those that it can only be attached to. All others are refused:
#: some read or make files elsewhere (`--copy`, `--yaml`, `--unmounted`), and beegfs-ctl takes some for another task
#: than --setpattern (`--removenode`).
_FOLLOWED = frozenset(
    {"-c", "--stripe-count", "-C", "--overstripe-count", "-S", "--stripe-size", "-i", "--stripe-index", "-p", "--pool"}
    | {"-o", "--ost", "--ost-list", "-L", "--layout", "-E", "--component-end", "--comp-end"}
    | {"-z", "--extension-size", "--ext-size", "--component-flags", "--comp-flags"}
)
_ATTACHED = frozenset({"-N", "--mirror-count", "--numtargets", "--chunksize", "--storagepoolid", "--pattern"})


def refused(arguments: Sequence[str]) -> str | None:
    """Why these arguments are not handed to the file system's command, or None. Pure.

    The command works on the campaign's directory only, so no argument may name another place.
    """
    if named := next((a for a in arguments if "/" in a or "\0" in a or "\n" in a), None):
        return f"`{shortened(named)}` names a place; the layout is set on the campaign's directory alone"
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith("--"):
            name, attached, _ = argument.partition("=")
        else:
            name, attached = argument[:2], argument[2:]
        if name in _FOLLOWED:
            if not attached and next(rest, None) is None:
                return f"`{shortened(argument)}` lacks its value"
        elif name not in _ATTACHED:
            return (
                f"`{shortened(argument)}` is no option that sets a layout; there are"
                f" {', '.join(sorted(_FOLLOWED | _ATTACHED))}"
                " (one text each for an option and its value, or both in one: --numtargets=4)"
            )
    return None


def unsettable(fstype: str) -> Obstacle | None:
    """Why target.layout cannot be set on a file system of this type, or None. Pure."""
    able = [name for name, commands in _COMMANDS.items() if commands.set]
    if fstype in able:
        return None
    return Obstacle(f"target.layout can be set on {' and '.join(able)}, and the target is {fstype}", "leave it out")


def set_layout(place: Place, fstype: str, arguments: list[str]) -> None:
    """Set the layout of what is written to the campaign's directory from now on. Raises Refused."""
    commands = _COMMANDS.get(fstype)
    if commands is None or commands.set is None or (wrong := refused(arguments)):
        raise Refused(str(unsettable(fstype) or f"target.layout: {wrong}"))
    try:
        _run([*commands.set, *arguments], place)
    except _Failed as error:
        raise Refused(f"target.layout cannot be set: {error}") from None


def read_layout(place: Place, fstype: str) -> str:
    """The layout of the campaign's directory, in one line; NOT_RECORDED, and why, where it cannot be read."""
    commands = _COMMANDS.get(fstype)
    if commands is None:
        return NOT_RECORDED
    try:
        shown = _run(commands.show, place)
    except _Failed as error:
        return f"{NOT_RECORDED}: {error}"
    directory = place.directory
    details = shown.split(commands.heading)[-1] if commands.heading else shown
    lines = (line.strip("+ ") for line in details.splitlines() if directory not in line)  # which one it is, we know
    return _one_line("; ".join(filter(None, lines))) or f"{NOT_RECORDED}: {commands.show[0]} shows nothing"


#: Of MooseFS: sets for how many seconds files that are deleted are kept.
_TRASH = ("mfssettrashtime", "0")


def has_trash(volume: str) -> bool:
    """Whether a file system has a trash that we can turn off. `volume`: its name (filesystem.volume). Pure."""
    return re.match(r"fuse(\.\S+)? mfs#", volume) is not None


def keep_nothing(place: Place) -> str | None:
    """Have files that are made in the campaign's directory from now on free their space when they are deleted; why
    that was not possible, or None."""
    try:
        _run(_TRASH, place)
    except _Failed as error:
        return str(error)
    return None
