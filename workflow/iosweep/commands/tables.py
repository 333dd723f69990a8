"""`iosweep tables`: make the tables of a campaign from its store, for the rule `tables`."""

from __future__ import annotations

import contextlib
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from iosweep.commands.terminal import working
from iosweep.errors import CommandError, Refused
from iosweep.files import safe_paths
from iosweep.plan.model import read_plan
from iosweep.store.store import Store
from iosweep.target import identify

T = TypeVar("T")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("plan", type=Path)
    parser.add_argument("--log", type=Path)


def run(arguments: Namespace) -> int:
    make_tables(arguments.plan, arguments.plan.parent.parent)
    return 0


def make_tables(plan: Path, results: Path, judge_again: bool = False) -> None:
    """Raises CommandError."""
    made = read_plan(plan)
    try:
        Store(results).uuid()
    except Refused as error:
        raise CommandError(str(error)) from None
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that are not used
    with making("tables", results):
        from iosweep.tables import make

        make.make_tables(made, results, judge_again)


def make_tables_of(results: Path, make: Callable[[], T]) -> T:
    """Make the tables of an ingested campaign. Raises CommandError."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that are not used
    with making("tables", results):
        return make()


@contextlib.contextmanager
def making(what: str, results: Path) -> Iterator[None]:
    """Turn an OSError of the block into a sentence: a CommandError."""
    try:
        with working(f"making the {what} of {results} ..."):
            yield
    except OSError as error:
        why, then = error.strerror or str(error), f": {safe_paths.remedy(error) or 'fix that'}, then"
        if isinstance(error, PermissionError) and error.filename:
            why, then = f"{why}: {_owned(Path(error.filename))}", ": get permission, then"
        elif isinstance(error, FileNotFoundError) and what != "tables":  # pyarrow gives the file alone
            why, then = f"there is no {Path(str(error.filename or error)).name}", ", and"
        elif error.errno and why == os.strerror(error.errno):
            why = f"{error.filename or results}: {why}"
        elif error.filename:
            why = f"{error.filename} is {why}"
        raise CommandError(
            f"the {what} of {results} cannot be made: {why}; what was measured is stored{then}"
            f" `iosweep report {results}` makes all"
        ) from None


def _owned(file: Path) -> str:
    """To whom a file belongs; of a new one, the directory that it cannot be made in."""
    there = file if os.path.lexists(file) else file.parent
    try:
        return f"{there} has {identify.rights(there.lstat())}"
    except OSError:  # nor may its folder be entered
        return str(there)
