"""What lines of mdtest's output, or of what started it, say is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator


def _apart(first: str, second: str) -> str:
    """A pattern for `first` and somewhere after it `second`, which reads a line of many `first` only once."""
    return f"{first}(?:(?!{first}).)*{second}"


#: mdtest's warnings that do not touch a figure
_HARMLESS = re.compile(
    r"(?:ior )?WARNING: (?:Read bytes is 0"
    r"|unable to use realpath\(\)|unable to statv?fs\(\)"  # only the line "FS:" is about that
    r"|.* backend is deprecated use |assuming POSIX-based backend for )"
)
#: Open MPI frames its own messages by lines of dashes
_FRAME = re.compile(r"-{60,}")

_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("mdtest did not understand its options", re.compile(r"Error invalid argument|Invalid options|Error, argument")),
    (
        "directories of an earlier run were in the way, or could not be made",
        re.compile(r"could not create directory|WARNING: unable to create (?:tree )?directory"),
    ),
    ("the test directory could not be made", re.compile(r"Unable to create test directory")),
    ("data was read back wrong", re.compile(r"ERROR: verifying the data")),
    (
        "operations failed that mdtest counted all the same",
        re.compile(
            r"WARNING: unable to (?:stat|create|open|read|write|remove|rename|mknode|verify) "
            r"|WARNING: Unable to (?:create|remove) "
            "|" + _apart(r"(?:unlink|rename)\(\) of file ", " failed"),
        ),
    ),
    ("data was not made durable", re.compile(r"fsync\([^()]*\) failed")),
    ("reads or writes were not whole", re.compile(r"partial (?:read|write)\(\)|returned EOF prematurely")),
    ("mdtest failed", re.compile(r"^(?:ior )?ERROR:|: FAILED in ")),
    (
        "processes ended before their time",
        re.compile(
            r"BAD TERMINATION|MPI_Abort|MPI_ABORT|\bAbort\(|\bAssertion\b|\bassert \(|Segmentation fault|Bus error"
            r"|Killed \(signal|exited on signal|DUE TO TIME LIMIT|CANCELLED AT|oom.kill|Out Of Memory"
            "|" + _apart("srun: error: ", "task")
        ),
    ),
    (
        "the system refused operations",
        re.compile(
            r"(?:No space left on device|Disk quota exceeded|Input/output error|Stale file handle"
            r"|Read-only file system|Transport endpoint is not connected)"
        ),
    ),
)
_WARNING = ("mdtest warns", re.compile(r"^(?:ior )?WARNING: "))
#: whether a line is worth a closer look
_ANY = re.compile("|".join(pattern.pattern for _, pattern in (*_SIGNS, _WARNING)))


def said(lines: Iterable[str], warnings: bool) -> Iterator[str]:
    """What the lines say is wrong, a sentence for each kind. `warnings`: whether a warning can be mdtest's own."""
    seen: dict[str, list[str]] = {}
    signs = (*_SIGNS, _WARNING) if warnings else _SIGNS
    before = ""
    for line in lines:
        if _ANY.search(line) and not _HARMLESS.match(line):
            meaning = next((meaning for meaning, pattern in signs if pattern.search(line)), None)
            if meaning and not (meaning == _WARNING[0] and _FRAME.fullmatch(before)):
                seen.setdefault(meaning, []).append(line)
        before = line or before
    for meaning, found in seen.items():
        more = f" (first of {len(found)} such lines)" if len(found) > 1 else ""
        yield f"{meaning}: {quote(found[0])}{more}"


def quote(line: str) -> str:
    """A line of the output inside a sentence: short, on one line, without what separates reasons."""
    printable = "".join(letter if letter.isprintable() else "?" for letter in line.strip())
    return printable.replace(" | ", " / ")[:200]
