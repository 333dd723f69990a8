"""The source files that a module is made of: its own, and those of all modules of this package that it imports."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent
#: Read from the text, because an import would execute the modules, and `snakemake -n` must not wait for pandas. Imports
#: inside functions and those for type checkers are found, too: a file too many is harmless, one too few is not.
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+(\S+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]*)|import[ \t]+([^\n#]*))", re.M)
#: `iosweep.tools` imports every folder beside it by name.
_FOLDERS = {"iosweep.tools": "tools/*/__init__.py"}


def digest(modules: Iterable[str], patterns: Iterable[str] = ()) -> str:
    """Hash of the sources of some modules, and of the files in the package that match `patterns`."""
    found = set(of(modules)) | {file for pattern in patterns for file in PACKAGE.glob(pattern) if file.is_file()}
    total = hashlib.sha256()
    for file in sorted(found):
        if "__pycache__" not in file.parts:
            name, data = str(file.relative_to(PACKAGE)).encode(), _read(file)
            total.update(b"%d %b %d " % (len(name), name, len(data)) + data)
    return total.hexdigest()[:12]


def of(modules: Iterable[str]) -> list[Path]:
    """The files of some modules and of all that they import from this package, directly or not."""
    found: set[Path] = set()
    new = {file for module in modules if (file := _file(module))}
    while new:
        found |= new
        new = {imported for file in new for imported in _imported(file)} - found
    return sorted(found)


@cache
def _read(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _imported(file: Path) -> frozenset[Path]:
    """What a file imports from this package, with the packages around it."""
    names = set(_names(_read(file)))
    parts = [PACKAGE.name, *file.relative_to(PACKAGE).with_suffix("").parts]
    names |= {".".join(parts[:n]) for n in range(1, len(parts))}
    folders = [found for name, found in _FOLDERS.items() if _file(name) == file]
    named = {known for name in names if (known := _file(name))}
    return frozenset(named.union(*(PACKAGE.glob(pattern) for pattern in folders)))


def _names(text: bytes) -> Iterator[str]:
    """Names of modules of this package, and names that may be such."""
    for origin, imported, whole in _IMPORT.findall(text):
        base = origin.decode()
        if base:
            yield base
        for part in re.sub(r"#[^\n]*|\bas\s+\w+|[,()]", " ", (imported or whole).decode()).split():
            yield f"{base}.{part}" if base else part


def _file(module: str) -> Path | None:
    """Its source; None for what is not a module of this package."""
    top, *below = module.split(".")
    if top != PACKAGE.name:
        return None
    place = PACKAGE.joinpath(*below)
    files = [place / "__init__.py", *([place.with_suffix(".py")] if below else [])]
    return next((file for file in files if file.is_file()), None)
