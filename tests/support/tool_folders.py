"""Tool folders beside those of the package, as a site might add them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import iosweep.tools


@contextmanager
def added(folder: Path) -> Iterator[None]:
    """While this lasts, this process also finds the tools in `folder`."""
    before = list(iosweep.tools.__path__)
    iosweep.tools.__path__.append(str(folder))
    _forget()
    try:
        yield
    finally:
        iosweep.tools.__path__[:] = before
        _forget()


def command(folder: Path, before: str = "") -> str:
    """A Python program that is `iosweep` with the tools in `folder`, after other lines of Python."""
    return (
        f"import sys, iosweep.tools; iosweep.tools.__path__.append({str(folder)!r}); from iosweep.commands import cli\n"
        f"{before}\nsys.exit(cli.main(sys.argv[1:]))"
    )


def _forget() -> None:
    """Clear every cache of the package: any of them may hold something made from the tools' tables."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "iosweep":
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
