"""mdtest's command line as it prints it, and what it means to the version that printed it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from iosweep.tools.mdtest.options import ROWS

_FLAGS = set("CTErUDFgkLPRSctuvXyYZ")
_VALUES = set("abdefGiIlnNpsVwWxz")
_LONG_VALUES = {
    "random-seed",
    "dataPacketType",
    "run-cmd-before-phase",
    "run-cmd-after-phase",
    "saveRankPerformanceDetails",
    "savePerOpDataCSV",
    "allocateBufferOnGPU",
    "GPUid",
}
#: The line is printed through a buffer of 1024 bytes (VerboseMessage): a longer one is cut without a word.
_COMMAND_LIMIT = 1000


@dataclass(frozen=True)
class Options:
    """A command line of mdtest's: flags that are set, and the values of the others, by letter."""

    flags: frozenset[str]
    values: Mapping[str, str]

    def number(self, letter: str) -> int | None:
        """An option's value as string_to_bytes reads it (64, 4k, 1m), or None where it is not given."""
        match = re.fullmatch(r"(\d{1,18})([kmgt]?)", self.values.get(letter, ""), re.IGNORECASE)
        return int(match[1]) << 10 * " kmgt".index(match[2].lower() or " ") if match else None


def release(text: str | None) -> tuple[int, ...]:
    """(4, 0, 0) of "4.0.0rc1"; () where unknown, which is less than every version."""
    match = re.match(r"\d{1,6}(?:\.\d{1,6})*", text or "")
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def split(line: str) -> tuple[str, ...] | None:
    """The words of a `Command line used` line."""
    if len(line) >= _COMMAND_LIMIT:
        return None
    text = line.partition(":")[2].strip()
    program, found, rest = text.partition(" '")
    if not found:
        return tuple(text.split()) or None
    # mdtest escapes nothing, so a quote inside a word is only a quote
    return (program, *rest[:-1].split("' '")) if rest.endswith("'") else None


def parse(words: tuple[str, ...] | None, version: tuple[int, ...]) -> Options | None:
    """What the words mean to mdtest's option.c, or None where that is not certain.

    3.3 reads only the first letter of `-Fu`; from 4.0 it reads every letter, also those of a value that is written
    against its option (`-d/tmp` sets -t). `-B` takes a value in some versions.
    """
    if words is None:
        return None
    flags: set[str] = set()
    values: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            if name[2:] in _LONG_VALUES and not equals and next(rest, None) is None:
                return None
        elif name[:1] != "-" or len(name) < 2:
            return None
        elif name[1] in _VALUES:
            if not equals:
                value = name[2:] or next(rest, "")
                if name[2:] and not value.isdecimal():
                    return None
            values[name[1]] = value
        elif set(name[1:]) <= _FLAGS and not equals and (len(set(name[1:])) == 1 or version >= (4,)):
            flags |= set(name[1:])
        else:
            return None
    return Options(frozenset(flags), values)


def asked(options: Options, version: tuple[int, ...]) -> set[str]:
    """The operations that these options run (md_validate_tests)."""
    steps = {"C": "creation", "T": "stat", "E": "read", "r": "removal", "U": "rename"}
    chosen = {steps[letter] for letter in options.flags & set(steps)}
    if not chosen:
        chosen = {*steps.values()} if version >= (3, 4) else {*steps.values()} - {"rename"}
    if 1 in (options.number("n"), options.number("I") if "n" not in options.values else None):
        chosen -= {"rename"}  # a single directory is not renamed
    kinds = {"Directory": "D", "File": "F"}
    families = {family for family, letter in kinds.items() if letter in options.flags} or set(kinds)
    if "S" in options.flags:
        families -= {"Directory"}
    return {name for name in ROWS.values() if name.split()[0] in families and name.split()[1] in chosen}
