"""Which files are outputs of tools, told by their content alone, and which tool reads them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iosweep.store.ingested import MOST_FILE_BYTES
from iosweep.text import printable
from iosweep.tools import tools
from iosweep.tools.reading import Reading

#: Lines that a tool prints once or twice a run: of more, a file is no log.
MOST_SIGNS = 100_000
#: Bytes at the beginning of an archive, an image or a database that have a zero byte; a cut log may have some later.
_HEAD = 512


@dataclass(frozen=True)
class File:
    """A file. `name`: its path for people and for JSON, which cannot carry bytes that are not UTF-8. `reason`: why it
    is not read, as the rest of a sentence that begins with its name: `is a symbolic link`."""

    name: str
    data: bytes = b""
    reason: str = ""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def shown(path: str | Path) -> str:
    return printable(os.fsencode(path).decode("utf-8", "backslashreplace"))


def files(path: Path) -> Iterator[File]:
    """The files of a path in the order of their names, each read when it is its turn. Below the path itself no link is
    followed. Raises nothing: a path that is not there is skipped with the system's words."""
    if not path.is_dir():
        yield _read(path, follow=True)
        return
    unread: list[OSError] = []
    for directory, below, names in os.walk(path, onerror=unread.append):
        below.sort()
        for name in sorted(names):
            yield _read(Path(directory, name), follow=False)
    for error in unread:
        yield File(shown(error.filename), reason=f"cannot be read: {error.strerror}")


def _read(path: Path, follow: bool) -> File:
    name = shown(path)
    try:
        status = path.stat() if follow else path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return File(name, reason="is a symbolic link")
        if not stat.S_ISREG(status.st_mode):
            return File(name, reason="is no regular file")
        if status.st_size > MOST_FILE_BYTES:
            return File(name, reason=f"is larger than {MOST_FILE_BYTES >> 20} MiB, which no output of a tool is")
        return File(name, path.read_bytes())
    except OSError as error:
        return File(name, reason=f"cannot be read: {error.strerror or error}")


def readings(data: bytes) -> dict[str, Reading] | str:
    """What the reader of each tool says whose output some content holds, the first one in it first (a job's log may
    have several); or why there is none."""
    text = data.removeprefix(b"\xef\xbb\xbf")  # what an editor may write in front of UTF-8
    if not text.strip():
        return "is empty"
    if b"\0" in text[:_HEAD] or text.startswith((b"PK", b"\x1f\x8b", b"BZh")):
        return "is not plain text: unpack an archive first"
    found = {name: [re.search(sign, text) for sign in tool.signs] for name, tool in tools().items()}
    if any(len(re.findall(sign, text)) > MOST_SIGNS for tool in tools().values() for sign in tool.signs):
        return f"has more than {MOST_SIGNS:,} runs"
    at = {name: min(match.start() for match in matches if match) for name, matches in found.items() if any(matches)}
    if not at:
        *others, last = tools()
        return f"has no output of {', '.join(others)} or {last}"
    return {name: tools()[name].read(text) for name in sorted(at, key=at.__getitem__)}


#: The name of an output in a result directory of IO500: `ior-easy-write.txt`, `mdtest-hard-stat`.
_IO500 = re.compile(r"((?:ior|mdtest)-(?:easy|hard))-(?:write|read|stat|delete)(?:\.|$)", re.IGNORECASE)


def workload_of(path: str, tool: str) -> str:
    """`ior-hard` of an output of a tool that is named after a phase of IO500; "" of others."""
    phase = _IO500.match(path.rpartition("/")[2])
    return phase[1].lower() if phase and phase[1].lower().startswith(f"{tool}-") else ""
