"""`iosweep tables`: make the tables of a campaign from its store, for the rule `tables`."""

from __future__ import annotations

import contextlib
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from iosweep.commands.terminal import working
from iosweep.errors import CommandError, Refused
from iosweep.files import safe_paths
from iosweep.plan.model import read_plan
from iosweep.store.store import Store


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("plan", type=Path)
    parser.add_argument("--log", type=Path)


def run(arguments: Namespace) -> int:
    make_tables(arguments.plan, arguments.plan.parent.parent)
    return 0


def make_tables(plan: Path, results: Path, judge_again: bool = False) -> None:
    """Raises CommandError."""
    try:
        made = read_plan(plan)
    except FileNotFoundError:
        raise CommandError(f"there is no plan {plan}; `iosweep report CAMPAIGN` makes the tables, too") from None
    try:
        Store(results).uuid()
    except Refused as error:
        raise CommandError(str(error)) from None
    with making("tables", results):
        from iosweep.tables import make

        make.make_tables(made, results, judge_again)


@contextlib.contextmanager
def making(what: str, results: Path) -> Iterator[None]:
    """Turn an OSError of the block into a sentence: a CommandError."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts no threads, which nothing would use
    try:
        with working(f"making the {what} of {results} ..."):
            yield
    except OSError as error:
        why = f"{error.filename or results}: {error.strerror or error}"
        if isinstance(error, FileNotFoundError) and what != "tables":  # pyarrow's error names the file only
            why = f"there is no {Path(str(error.filename or error)).name}"
        cure = f"{remedy}, then " if (remedy := safe_paths.remedy(error)) else ""
        raise CommandError(
            f"the {what} of {results} cannot be made: {why}; what was measured is stored: {cure}`iosweep report"
            f" {results}` makes all"
        ) from None
