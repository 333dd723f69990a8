"""What every tool's parser and reader say about a damaged output: sentences, and no text of an exception."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iosweep.tools import Parsed, Step, tools
from iosweep.tools.reading import Reading

TOOLS = Path(__file__).resolve().parents[1] / "samples"

#: words of Python's exceptions
PYTHON = re.compile(
    r"Error\(|Exception|Traceback|NoneType|object has no|is not subscriptable|<class '|invalid literal|"
    r"could not convert|not supported between|unhashable|must be str|must be real|out of range|unpack"
)

OPTIONS: dict[str, Any] = {
    "threads_per_node": 2, "transfer_size": 4096, "queue_depth": 4, "file_size": 1 << 20, "files_per_thread": 1,
    "o_direct": True, "fsync": True, "write_mode": "overwrite", "file_per_process": True,
    "ioengine": "libaio", "api": "POSIX", "collective": False, "data": "random", "unique_directory": True,
}  # fmt: skip
#: tool, its sample, the stream that holds it, a phase
SAMPLES = [
    ("fio", "fio/own_rand_read.out", "stdout", "rand_read"),
    ("ior", "ior/4.0.0/posix_shared_seq_128k_np4_i3_JSON.summary.json", "summary", "seq_write"),
    ("ior", "ior/4.0.0/posix_fpp_odirect_CSV.summary.csv", "summary", "seq_write"),
    ("mdtest", "mdtest/4.0.0/md_both_i1.out", "stdout", "create"),
]


def _values(document: Any) -> Iterator[bytes]:
    """A document with each of its values removed, and replaced by others; what is equal in lists is looked at once."""
    places: list[tuple[Any, tuple[str, ...]]] = [(document, ())]
    seen: set[tuple[str, ...]] = set()
    while places:
        place, path = places.pop()
        for key, value in list(place.items() if isinstance(place, dict) else enumerate(place)):
            here = (*path, key if isinstance(place, dict) and len(place) < 60 else "*")
            if isinstance(value, dict | list):
                places.append((value, here))
            if here in seen:
                continue
            seen.add(here)
            for other in (None, "x", -1, 10**30, [], {"x": "y"}):
                place[key] = other
                yield _text(document)
            place[key] = value
            if isinstance(place, dict):
                del place[key]
                yield _text(document)
                place[key] = value


def _text(document: Any) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"


def _lines(text: bytes) -> Iterator[bytes]:
    """A text with each of its lines removed, and with other values in it."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines[:150]):
        words = [b"", re.sub(rb"\d+", b"9" * 30, line), re.sub(rb"\d+", b"x", line), re.sub(rb"\d+", b"0", line)]
        for other in words:
            yield b"".join([*lines[:at], other, *lines[at + 1 :]])


@pytest.mark.parametrize(("tool", "sample", "stream", "phase"), SAMPLES)
def test_a_damaged_output_is_met_with_sentences(tool: str, sample: str, stream: str, phase: str, some: Any) -> None:
    text = (TOOLS / sample).read_bytes()
    offered = tools()[tool]
    step = Step(OPTIONS, (offered.phases[phase],), 1, 1.0)
    begin = text.find(b"{\n")
    versions = some(_values(json.loads(text[begin : text.rindex(b"}") + 1]))) if begin >= 0 else _lines(text)
    count = 0
    for damaged in versions:
        count += 1
        parsed = offered.parse({"stdout": b"", stream: damaged}, step, step.phase)
        assert isinstance(parsed, Parsed)
        reading = offered.read({stream: damaged}, 0)
        assert isinstance(reading, Reading)
        said = [*parsed.problems, *(parsed.evidence.errors or ()), *(one.text for one in reading.problems)]
        assert not [sentence for sentence in said if PYTHON.search(sentence)]
    assert count > 25
