"""Lines of a log that may be of interest, found in time proportional to the log: some logs are 100 MB of messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_CHUNK = 1 << 18
_DIGITS = str.maketrans("123456789", "000000000")


def marked(text: str, words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each line of the text, and whether it contains one of the lower-case words, in any case.

    A word is looked for in single lines only where it is in the 256 KiB around them.
    """
    for chunk in _chunks(text):
        lower = chunk.lower()
        present = [word for word in words if word in lower]
        if not present:
            for line in chunk.split("\n"):
                yield line, False
            continue
        for line, low in zip(chunk.split("\n"), lower.split("\n"), strict=True):
            found = False
            for word in present:
                if word in low:
                    found = True
                    break
            yield line, found


def shape(line: str) -> str:
    """The line with each digit as 0: the same for messages of one kind about other ranks, offsets and sizes."""
    return line.translate(_DIGITS)


def _chunks(text: str) -> Iterator[str]:
    """The text in parts that end at the end of a line, without that line's newline."""
    at = 0
    while at < len(text):
        end = text.find("\n", at + _CHUNK)
        if end < 0:
            end = len(text)
        yield text[at:end]
        at = end + 1
