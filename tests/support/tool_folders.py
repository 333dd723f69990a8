"""Tool folders beside those of the package, as a site might add them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import iosweep.tools
from iosweep.commands import rerun
from iosweep.config import models
from iosweep.results import columns
from iosweep.tools import parameters, tools

#: What is made from the tools' tables once.
_MADE = (
    *(tools, parameters, columns.result_columns, rerun.names),
    *(models.sweep_model, models.entry_models, models.campaign_model, models.suite_model),
)


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
    for made in _MADE:
        made.cache_clear()
