"""Directories that others prepared: each file has a sentence or rows, and no exception, whatever it holds."""

import gzip
import io
import json
import os
import random
import socket
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from iosweep.ingest import contents, walk
from iosweep.ingest.detect import NotOurs
from iosweep.ingest.rows import campaign_rows
from iosweep.results.ingested import IngestedFile
from iosweep.text import printable

SAMPLES = Path(__file__).parents[1] / "samples"
MDTEST = (SAMPLES / "mdtest" / "4.0.0" / "own_W_F.out").read_bytes()
FIO = (SAMPLES / "fio" / "s1_single_json.out").read_bytes()


def said(one: walk.Found | walk.Skipped) -> str:
    """What becomes of a file: why it is skipped or is none of ours, or `N rows` and the first problem."""
    if isinstance(one, walk.Skipped):
        return one.reason
    kinds = contents.kinds(one.data)
    if isinstance(kinds, NotOurs):
        return kinds.reason
    content = contents.read(one.name, one.data, kinds)
    file = IngestedFile(one.name, one.sha256, len(one.data), kinds)
    made = campaign_rows("c", [(file, content)])
    shown = [*(sweep.name for sweep in made.sweeps), *(sweep.description or "" for sweep in made.sweeps)]
    shown += [str(row.values[name]) for row in made.rows for name in ("point", "raw")]
    assert all(text == printable(text) and len(text) < 3000 for text in shown), shown
    problems = [problem.text for reading in content.readings for problem in reading.problems]
    return f"{len(made.rows)} rows {problems[:1]}"


def with_option(name: str, value: str) -> bytes:
    document = json.loads(FIO)
    document["jobs"][0]["job options"][name] = value
    return json.dumps(document, indent=1).encode()


@pytest.mark.parametrize(
    ("content", "becomes"),
    [
        (MDTEST.replace(b"\n", b"\r\n"), "4 rows []"),
        (b"\xff\xfe" + MDTEST.decode().encode("utf-16-le"), "is UTF-16"),
        (MDTEST.decode().encode("utf-16-le"), "is not text"),
        (random.Random(1).randbytes(100_000), "is not text"),
        (b"mdtest-3 was launched with " * 100_000, "has no output of"),
        (b'{"fio version":' + b"[" * 500_000, "the JSON is cut or damaged"),
        (b"[" * 100_000 + b'{"fio version": "fio-3.3"}' + b"]" * 100_000, "JSON"),
        (FIO.replace(b"8958", b"9" * 4000), "fio's JSON has another form"),
        (FIO.replace(b"8949.050949", b"NaN"), "the JSON is cut or damaged"),
        (FIO.replace(b'"16M"', b'"\\ud800<b>\\u001b[2J\\n"'), "1 rows"),
        (with_option("size", "A" * 1_000_000), "1 rows"),
        (with_option("filename", "\x1b]0;x\x07\n<script>"), "1 rows"),
        (b"[RESULT] ior-easy-write 1e308 GiB/s\n" * 10_000, "0 rows []"),
        (b"[RESULT" * 100_000, "0 rows []"),
        (b"x: (g=0): rw=read, bs=4K\n" * 20_000, "has no output of"),
        (b"\n{\n" * 50_000, "has no output of"),
        (b"[" + b",".join([FIO] * 50) + b"]", "1 rows"),
        (b"", "is empty"),
    ],
)
def test_any_content_has_rows_or_a_sentence(content: bytes, becomes: str) -> None:
    assert becomes in said(walk.Found("a/<b>\\x1b", content, sha256(content).hexdigest()))


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # the path of a socket is short
        made.bind(path.name)


def _nested(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        data = gzip.compress(MDTEST)
        info = tarfile.TarInfo("in.gz")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("make", "becomes"),
    [
        (lambda path: path.symlink_to("."), "is a symbolic link"),
        (lambda path: path.symlink_to(path.name), "is a symbolic link"),
        (lambda path: path.symlink_to("/dev/zero"), "is a symbolic link"),
        (os.mkfifo, "is a pipe, not a file"),
        (_socket, "is a socket, not a file"),
        (_sparse, "is larger than 256 MiB"),
        (_nested, "is an archive inside an archive"),
        (lambda path: path.write_bytes(gzip.compress(MDTEST)), "4 rows []"),
    ],
)
def test_any_kind_of_file_has_rows_or_a_sentence(tmp_path: Path, make: Callable[[Path], object], becomes: str) -> None:
    make(tmp_path / "x\n\x1b[2J")
    (one,) = walk.files(tmp_path)
    assert one.name == printable(one.name)
    assert becomes in said(one)


def test_a_large_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _sparse(tmp_path / "x")
    asked: list[int] = []

    class Watched(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return super().read(size)

    monkeypatch.setattr(walk.os, "fdopen", lambda handle, _: Watched(handle))
    (one,) = walk.files(tmp_path)
    assert isinstance(one, walk.Skipped)
    assert max(asked) < 10_000


def test_a_socket_that_is_given_is_named(tmp_path: Path) -> None:
    _socket(tmp_path / "s")
    (one,) = walk.files(tmp_path / "s")
    assert isinstance(one, walk.Skipped) and one.reason == "is a socket, not a file"
