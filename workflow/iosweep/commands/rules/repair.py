"""`iosweep repair`: record that damaged tables, report or figures are made again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from iosweep.files import safe_paths
from iosweep.results import merged_tables


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", type=Path)
    parser.add_argument("--log", type=Path)


def run(arguments: Namespace) -> int:
    text = b"Tables, report or figures were damaged, and are made again.\n"
    safe_paths.write(arguments.file.parent.parent, f"{merged_tables.REPAIRS}/{arguments.file.name}", text)
    return 0
