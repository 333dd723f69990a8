"""Results that somebody else made: whatever stands in place of a file, each command that reads it ends cleanly.

It names the file where it cannot use it (`names`), follows nothing out of the results, and neither waits nor fills the
memory.
"""

import itertools
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

import foreign
from campaign import SWEEP, Allocation
from forked import Commands, commands
from iosweep.results.campaign_documents import Missing, Needs, Refusal
from targets import as_root

pytestmark = pytest.mark.local

Rounds = Callable[[int, int], int]
Harm = Callable[[Path, random.Random], None]

#: Kinds of files of the results -> where the first is. Those without which nothing can be read come first.
KINDS = {
    "plan": "plans/*.json",
    "result": "points/*/r*-*.json",
    "archive": "points/*/r*-*.zip",
    "missing": "points/*/missing.json",
    "node": "nodes/*.json",
    "set": "sets/*.json",
    "build": "builds/*.json",
    "refusal": "refusals/*.json",
    "target": "target.json",
    "spent": "spent.json",
    "manifest": "manifests/*.jsonl",
    "results table": "results.parquet",
    "checks table": "checks.parquet",
    "nodes table": "nodes.parquet",
    "results csv": "results.csv",
    "campaign": "campaign.json",
    "page": "report.html",
    "figure": "figures/*.svg",
    "list of figures": "figures/made.json",
    "lock": "lock",
}
#: Directories of the results.
FOLDERS = ["plans", "points", "points/*", "nodes", "sets", "builds", "refusals", "manifests", "figures"]


def _write(content: bytes) -> Harm:
    return lambda file, _: _in_place(file, lambda: file.write_bytes(content))


def _in_place(file: Path, make: Callable[[], Any]) -> None:
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)
    make()


def _socket(file: Path, _: random.Random) -> None:
    def make() -> None:
        with socket.socket(socket.AF_UNIX) as made:
            here = Path.cwd()
            os.chdir(file.parent)  # such names have at most 107 characters
            try:
                made.bind(file.name)
            finally:
                os.chdir(here)

    _in_place(file, make)


def _value(file: Path, draw: random.Random) -> None:
    """Another type of value somewhere in the document."""
    try:
        document = orjson.loads(file.read_bytes())
    except (orjson.JSONDecodeError, IsADirectoryError):
        return _in_place(file, lambda: file.write_bytes(b'{"point": {}}'))
    place, steps = document, draw.randint(1, 4)
    for _ in range(steps):
        if not isinstance(place, dict | list) or not place:
            break
        key = draw.choice(list(place)) if isinstance(place, dict) else draw.randrange(len(place))
        inner = place[key]
        if not isinstance(inner, dict | list) or draw.random() < 0.3:
            place[key] = draw.choice(
                [None, [], {}, "x", -1, 1 << 62, 1.5e308, True, [[]], {"a": 1}, "\x1b[31m", "a\0b"]
            )
            break
        place = inner
    write(file, document)


def write(file: Path, document: Any) -> None:
    """As iosweep stores it, with the digest that belongs to the content: whoever made the results knew how."""
    from iosweep.files import documents

    if isinstance(document, dict):
        document.pop("sha256", None)
    try:
        content = documents.dump(document)
    except (ValueError, AttributeError):
        content = orjson.dumps(document)
    _in_place(file, lambda: file.write_bytes(content))


#: What is in place of a file.
HARMS: dict[str, Harm] = {
    "nothing": lambda file, _: _in_place(file, lambda: None),
    "empty": _write(b""),
    "cut": lambda file, draw: file.is_dir() or os.truncate(file, draw.randint(1, max(1, file.stat().st_size - 1))),
    "zeros": _write(bytes(4096)),
    "a bit": lambda file, draw: flip(file, draw),
    "pipe": lambda file, _: _in_place(file, lambda: os.mkfifo(file)),
    "socket": _socket,
    "endless device": lambda file, _: _in_place(file, lambda: os.mknod(file, 0o20644, os.makedev(1, 5))),
    "directory": lambda file, _: _in_place(file, file.mkdir),
    "link out": lambda file, _: _in_place(file, lambda: file.symlink_to(OUT)),
    "link to a directory": lambda file, _: _in_place(file, lambda: file.symlink_to(OUT.parent)),
    "link to nothing": lambda file, _: _in_place(file, lambda: file.symlink_to("/nonexistent/x")),
    "link to itself": lambda file, _: _in_place(file, lambda: file.symlink_to(file.name)),
    "link to a terminal": lambda file, _: _in_place(file, lambda: file.symlink_to("/dev/tty")),
    "huge": lambda file, _: _in_place(file, lambda: file.touch() or os.truncate(file, 1 << 40)),  # type: ignore[func-returns-value]
    "list": _write(b"[]"),
    "number": _write(b"1"),
    "text": _write(b'"x"'),
    "null": _write(b"null"),
    "empty object": _write(b"{}"),
    "deep": _write(b"[" * 100_000 + b"]" * 100_000),
    "deep objects": _write(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "not UTF-8": _write(b'{"point": "\xff\xfe"}'),
    "not a number": _write(b'{"wall_s": NaN}'),
    "another value": _value,
}
#: Beside the results, relative to a file of them or absolute: set by the fixture.
OUT = Path("/nonexistent")

COMMANDS: dict[str, list[str]] = {
    "show": ["show", "c"],
    "show --json": ["show", "c", "--json"],
    "check": ["check", "c"],
    "list": ["list"],
    "watch": ["watch", "c", "--once"],
    "watch --json": ["watch", "c", "--json"],
    "rerun": ["rerun", "--invalid", "--campaign", "c"],
    "clean": ["clean", "c"],
    "merge": ["merge", "PLAN"],
    "page": ["page", "results/c"],
    "figures": ["figures", "results/c"],
    "report": ["report", "c"],
    "plan": ["plan", "sweep.yaml"],
}
#: Commands that name each damaged file that they read.
NAMING = {"show", "show --json", "check", "list"}
#: After these a file is like one of ours, or is not there, which it need not be.
UNNOTICED = {"nothing", "another value"}
#: The same for a directory: these change files only, or make another directory.
UNNOTICED_FOLDERS = {"nothing", "another value", "cut", "a bit", "directory"}
#: Seconds each.
SLOW = {"page", "figures", "report"}


def names(pattern: str, harm: str, command: str) -> bool:
    """Whether a command has to name what is in place of a file."""
    if command not in NAMING:
        return False
    if pattern in FOLDERS:
        return harm not in UNNOTICED_FOLDERS
    if pattern == KINDS["lock"]:  # each run writes it, and nothing depends on its text
        return False
    if pattern == KINDS["archive"] and harm == "a bit":  # its hash is compared when tables are made (docs/store.md)
        return False
    return harm not in UNNOTICED


def flip(file: Path, draw: random.Random) -> None:
    """Turn one bit of a file."""
    if file.is_dir():
        return
    content = bytearray(file.read_bytes())
    if content:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        file.write_bytes(content)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, fio: Path) -> Path:
    """The working directory of a campaign that has all kinds of files, measured once."""
    place = tmp_path_factory.mktemp("whole")
    made = Allocation(place, SWEEP | {"phases": ["rand_read"]}, keep="all")
    made.measure()
    allocation = made.plan.allocations[0]
    made.manifest.rename(made.manifest.with_name(f"{allocation.name}-{allocation.digest}-0.jsonl"))
    point = made.plan.points[0].id
    made.store.set_missing(point, Missing(Needs(tool="fio"), "fio is not there"))
    made.store.set_refusal("1-node", Refusal("no room"))
    with commands(place) as run:
        for command in ("merge", "page", "figures"):
            done = run.run(_arguments(command, place), place)
            assert done.code == 0, done.said
    return place


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with commands(tmp_path_factory.mktemp("commands")) as made:
        yield made


def _arguments(command: str, place: Path) -> list[str]:
    [plan_file, *_] = sorted((place / "results/c/plans").glob("*")) or [place / "results/c/plans/x.json"]
    return [str(plan_file) if argument == "PLAN" else argument for argument in COMMANDS[command]]


@as_root
def test_whatever_stands_in_place_of_a_file(
    whole: Path, tmp_path: Path, run: Commands, rounds: Rounds, draw: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(list((whole / "results/c").glob(pattern)) for pattern in (*KINDS.values(), *FOLDERS))
    beside = tmp_path / "beside"
    foreign.plant(beside)
    monkeypatch.setattr("test_hostile_results.OUT", beside / "foreign" / "precious")
    theirs = foreign.states(beside)
    places = list(KINDS.values()) + FOLDERS
    cases = list(itertools.product(places, HARMS, COMMANDS))
    draw.shuffle(cases)
    quick = [case for case in cases if case[2] not in SLOW]
    slow = [case for case in cases if case[2] in SLOW]
    wrong = []
    for pattern, harm, command in quick[: rounds(30, 1500)] + slow[: rounds(1, 100)]:
        place = tmp_path / "place"
        shutil.copytree(whole, place, symlinks=True)
        file = draw.choice(sorted((place / "results/c").glob(pattern)))
        arguments = _arguments(command, place)
        HARMS[harm](file, draw)
        done = run.run(arguments, place)
        said = "hung" if done.hung else done.said if "Traceback" in done.said or done.code not in (0, 1, 2, 3) else ""
        path = str(file.relative_to(place))
        if not said and names(pattern, harm, command) and path not in " ".join(done.said.split()):
            said = f"does not name {path}: {done.said}"
        if foreign.states(beside) != theirs:
            said = "changed what is beside the results"
        if said:
            wrong.append(f"iosweep {' '.join(COMMANDS[command])}, {pattern}: {harm}: code {done.code}\n{said}")
        shutil.rmtree(place)
    assert not wrong, f"{len(wrong)} of them:\n\n" + "\n".join(wrong)
