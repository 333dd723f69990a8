"""Names of nodes as Slurm writes them: w1, w2, w3, b7 <-> `w[1-3],b7`. Pure, in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, product

#: A name that ends with a number. More digits than these are not counted, only copied.
_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})", re.DOTALL)
#: A name with brackets, split at them: text, content, text, ... Commas outside of brackets separate names.
_WORD = re.compile(r"(?:[^][,]|\[[0-9,-]+\])+")
_BRACKETS = re.compile(r"\[([0-9,-]+)\]")
_RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")
#: Slurm's own limit of nodes is 65,536 per list.
_MOST = 1 << 20


def folded(names: Iterable[str]) -> str:
    """The names as one list, in their order; `unfolded` gives them back. Numbers that follow each other are a range."""
    return ",".join(map(_item, _groups(names)))


def unfolded(text: str) -> tuple[str, ...]:
    """`n[1-2],b7` -> n1, n2, b7, also with several brackets in a name. Raises ValueError for what is not such a list."""
    if not text:
        return ()
    words = _WORD.findall(text)
    if ",".join(words) != text:
        raise ValueError(f"not a list of nodes: {text}")
    return tuple(name for word in words for name in _names(word))


def some_hosts(names: Iterable[str], most: int = 6) -> str:
    """The list, for a sentence; what is beyond its first `most` ranges is counted: `w[1-9,12] and 30 more nodes`."""
    groups = list(_groups(names))
    parts, left, others = [], most, 0
    for prefix, ranges in groups:
        kept = ranges[:left]
        left -= len(kept)
        others += sum(len(one) for one in ranges[len(kept) :])
        if kept:
            parts.append(_item((prefix, kept)))
    if not others:
        return ", ".join(parts)
    return f"{', '.join(parts)} and {others:,} more {'node' if others == 1 else 'nodes'}"


#: A prefix, and the numbers behind it in ranges without gaps; a name without a number is one range of "".
_Group = tuple[str, list[list[str]]]


def _groups(names: Iterable[str]) -> Iterator[_Group]:
    for (prefix, _), members in groupby(map(_split, names), key=lambda each: (each[0], bool(each[1]))):
        ranges: list[list[str]] = []
        for _, number in members:
            # a range is written with the width of its first number
            if number and ranges and number == _after(ranges[-1]):
                ranges[-1].append(number)
            else:
                ranges.append([number])
        yield prefix, ranges


def _split(name: str) -> tuple[str, str]:
    found = _NUMBERED.fullmatch(name)
    return (found[1], found[2]) if found else (name, "")


def _after(numbers: Sequence[str]) -> str:
    return format(int(numbers[-1]) + 1, f"0{len(numbers[0])}d")


def _item(group: _Group) -> str:
    prefix, ranges = group
    if not ranges[0][0]:  # the same name without a number, perhaps several times
        return ",".join(prefix for _ in ranges)
    if len(ranges) == 1 and len(ranges[0]) == 1:
        return prefix + ranges[0][0]
    texts = (one[0] if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ranges)
    return f"{prefix}[{','.join(texts)}]"


def _names(word: str) -> Iterator[str]:
    *parts, last = _BRACKETS.split(word)
    texts, brackets = parts[::2], [list(_numbers(each)) for each in parts[1::2]]
    for chosen in product(*brackets):
        yield "".join(text + number for text, number in zip(texts, chosen, strict=True)) + last


def _numbers(content: str) -> Iterator[str]:
    for each in content.split(","):
        if not (found := _RANGE.fullmatch(each)):
            raise ValueError(f"not a range of nodes: [{content}]")
        first, last = found[1], found[2] or found[1]
        if not 0 <= int(last) - int(first) < _MOST:
            raise ValueError(f"not a range of nodes: [{content}]")
        for number in range(int(first), int(last) + 1):
            yield format(number, f"0{len(first)}d")
