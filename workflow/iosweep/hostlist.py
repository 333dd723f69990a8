"""Names of nodes as Slurm writes them: w1, w2, w3, b7 <-> `w[1-3],b7`. Pure, in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import NamedTuple

#: A name with a number. More digits than these are not counted, only copied.
_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})([^0-9]*)", re.DOTALL)
#: A name, which may have brackets. Commas outside of brackets separate names.
_WORD = re.compile(r"(?:[^][,]|\[[0-9,-]+\])+")
_BRACKETS = re.compile(r"\[([0-9,-]+)\]")
_RANGE = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?")
#: Slurm's own limit is 65,536 nodes per list.
_MOST = 1 << 20
#: In a sentence: so few names are written out; no more lists and ranges than these.
_FEW, _MOST_LISTS, _MOST_RANGES = 3, 6, 12


class _List(NamedTuple):
    """`before`[numbers]`after`; ranges: numbers that follow each other. A name without a number has none."""

    before: str
    after: str
    ranges: list[list[str]]

    def text(self, most: int | None = None) -> str:
        if not self.ranges:
            return self.before
        if len(self.ranges) == 1 and len(self.ranges[0]) == 1:
            return f"{self.before}{self.ranges[0][0]}{self.after}"
        texts = [one[0] if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in self.ranges[:most]]
        if len(texts) < len(self.ranges):
            texts.append(f"... {sum(map(len, self.ranges)):,} in all")
        return f"{self.before}[{','.join(texts)}]{self.after}"


def folded(names: Iterable[str]) -> str:
    """The names as one list that Slurm takes, in their order; `unfolded` gives them back."""
    texts: list[str] = []
    for one in _lists(names):  # Slurm refuses a name that goes on behind its brackets
        texts += (
            [f"{one.before}{n}{one.after}" for numbers in one.ranges for n in numbers] if one.after else [one.text()]
        )
    return ",".join(texts)


def unfolded(text: str) -> tuple[str, ...]:
    """`n[1-2],b7` -> n1, n2, b7, also with several brackets in a name. Raises ValueError for any other text."""
    if not text:
        return ()
    words = _WORD.findall(text)
    if ",".join(words) != text:
        raise ValueError(f"not a list of nodes: {text}")
    return tuple(name for word in words for name in _names(word))


def hosts(names: Iterable[str]) -> str:
    """Names of nodes for a sentence, in natural order, more than three as Slurm writes them: `login, node[01-04,07]`.

    Of many that follow no order the first ones, and how many there are.
    """
    ordered = sorted(set(names), key=natural)
    if len(ordered) <= _FEW:
        return ", ".join(ordered)
    together: dict[tuple[str, str, bool], list[str]] = {}
    for name in ordered:
        before, number, after = _split(name)
        together.setdefault((before, after, bool(number)), []).append(name)
    texts = [one.text(_MOST_RANGES) for alike in together.values() for one in _lists(alike)]
    return ", ".join(texts if len(texts) <= _MOST_LISTS else [*texts[:_MOST_LISTS], f"... {len(ordered):,} in all"])


def alike(told: Mapping[str, object]) -> list[str]:
    """Joins messages about nodes; nodes with the same message share it: `n1, n2: no such file`."""
    grouped: dict[str, list[str]] = {}
    for host, what in told.items():
        grouped.setdefault(str(what), []).append(host)
    return [f"{hosts(these)}: {what}" for what, these in grouped.items()]


def natural(name: str) -> list[tuple[int, str]]:
    """Sorting key: node2 before node10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _lists(names: Iterable[str]) -> Iterator[_List]:
    """The names in their order."""
    for (before, after, numbered), alike in groupby(map(_split, names), lambda name: (name[0], name[2], bool(name[1]))):
        ranges: list[list[str]] = []
        for _, number, _ in alike:
            if not numbered:
                yield _List(before, after, [])
            elif ranges and number == format(int(ranges[-1][-1]) + 1, f"0{len(ranges[-1][0])}d"):
                ranges[-1].append(number)  # a range is written with the width of its first number
            else:
                ranges.append([number])
        if numbered:
            yield _List(before, after, ranges)


def _split(name: str) -> tuple[str, str, str]:
    """What is before the last number of a name, the number, and what is after it."""
    found = _NUMBERED.fullmatch(name)
    return (found[1], found[2], found[3]) if found else (name, "", "")


def _names(word: str) -> Iterator[str]:
    *parts, last = _BRACKETS.split(word)
    texts: Sequence[str] = parts[::2]
    for chosen in product(*(list(_numbers(each)) for each in parts[1::2])):
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
