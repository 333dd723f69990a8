"""IOR's command line, as it prints it: blanks inside an argument are lost, so only what is certain is taken from it."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache

from iosweep.tools.ior.records import LARGEST

_WITH_VALUE = frozenset("AabdDfGijJlMNoOQstTUX")
_SIZES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+)\s*([bkmgt]?)(?:i?b|ytes)?", re.IGNORECASE)


def size(text: str | None) -> int | None:
    """Bytes of `16m`, `16 MiB` or `262144 bytes`; None where the text is rounded (`1.50 MiB`) or no size."""
    match = _SIZE.fullmatch(text.strip()) if text else None
    return min(_whole(match[1]) * _SIZES[match[2].lower()], LARGEST + 1) if match else None


def number(text: str | None) -> int | None:
    """The whole number that is the text, else None."""
    match = re.fullmatch(r"(-?)(\d+)", text.strip()) if text else None
    return _whole(match[2]) * (-1 if match[1] else 1) if match else None


def _whole(digits: str) -> int:
    """The number, or `LARGEST + 1` where it is larger: that is none of a run's, and is judged so."""
    digits = digits.lstrip("0")
    return min(int(digits or "0"), LARGEST + 1) if len(digits) < 20 else LARGEST + 1


@dataclass(frozen=True)
class Command:
    """Options of a command line."""

    flags: frozenset[str] = frozenset()  # letters, and `zz` for a second z
    values: dict[str, str] = field(default_factory=dict)  # letters, and lower-case names of -O and --name=value

    def on(self, flag: str, directive: str = "") -> bool:
        """Whether a flag is set, by its letter or by `-O directive=1`."""
        return flag in self.flags or self.values.get(directive.lower(), "0") not in ("0", "")

    def operations(self) -> tuple[str, ...] | None:
        """What is measured; None where the command line does not tell. Without any of -w -r -W -R: both."""
        write, read = self.on("w", "writeFile"), self.on("r", "readFile")
        check = self.on("R", "checkRead")
        read = read or check
        if not write and not read:
            return None if check or self.on("W", "checkWrite") else ("write", "read")
        return tuple(name for name, wanted in (("write", write), ("read", read)) if wanted)


@lru_cache(maxsize=8)  # each test of a script has the same
def parse(line: str | None) -> Command | None:
    """The options in a command line as IOR prints it; None without one, and where a script (-f) may say otherwise.
    Unknown words are skipped."""
    if not line:
        return None
    flags: set[str] = set()
    values: dict[str, str] = {}
    words = deque(line.split()[1:])
    while words:
        word = words.popleft()
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            values[name.lower()] = value or "1"
        elif word.startswith("-") and len(word) > 1:
            name, _, value = word[1:].partition("=")
            if name[0] in _WITH_VALUE:
                _value(name[0], name[1:] or value or (words.popleft() if words else ""), values)
            elif value != "0":
                if name.count("z") + ("z" in flags) > 1:  # -z -z draws offsets within the size that the files have
                    flags.add("zz")
                flags |= set(name)
    return None if "f" in values else Command(frozenset(flags), values)


def _value(letter: str, value: str, values: dict[str, str]) -> None:
    if letter != "O":
        values[letter] = value
        return
    for pair in value.split(","):
        key, _, given = pair.partition("=")
        values[key.lower()] = given
