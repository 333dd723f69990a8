"""Hostile names and values: each is refused with a sentence that names its place, or carried as text, never obeyed."""

import csv
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

import scripted
from campaign import SWEEP
from campaign import TEXT as QUICK
from iosweep import dag
from iosweep.commands import cli, doctor
from iosweep.errors import ConfigError
from iosweep.jobs.profile import Profile
from iosweep.node import process
from iosweep.target import directory as directories
from machine import Scripted

#: Text that a person can read: names of files may be like this, and descriptions.
READABLE = (
    "a'b\"c $(touch obeyed) `touch obeyed` ${HOME} ;touch obeyed && touch obeyed &> obeyed * # a: b\\n -rf",
    "../../../etc/passwd",
    "--help",
    "{braces} {wildcards.x} {{} %s%n%(x)s {{ 7 * 7 }} [bold]x[/red]",
    "</script><img src=x onerror=alert(2)><script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "!!python/object/apply:os.getcwd []",
    "\u00e9" * 127 + "x",
    "x/" * 2500,
)
#: Text, but not as a person sees it, and what steers a terminal or is no text at all.
INVISIBLE = ("a\nb", "a\tb", "a\u202eb", "\ufeffa", "a\u2028b", "a\u200bb")
CONTROL = ("a\rb", "a\x1b[31mb", "\x1b]0;obeyed\x07", "a\x08b\x7f", "a\x9b2Jb", "a\udcffb")


def shown(text: str) -> bool:
    """Whether nothing in it steers a terminal."""
    return all(line.isprintable() for line in text.split("\n"))


# Through the runner

#: A name with everything that names may have.
ANY = (
    "a b'\"$(touch obeyed)`touch obeyed`;touch obeyed|&>*#{x} {wildcards.y} %s [red] <script>alert(1)<\u2215script>"
    " =1+1 -rf \\n ~:\u00e9\U0001f600"
)
ONE = SWEEP | {"phases": ["rand_read"], "axes": {}}
#: Names of files that others have on the target.
FOREIGN = [
    *(os.fsencode(t.replace("/", ":")) for t in READABLE + INVISIBLE + CONTROL if len(os.fsencode(t)) < 256),
    *(b"\xff\xfe", b"\xc3(" * 100, b"iosweep-", b"iosweep-C", b"IOSWEEP-c", b"CON", b".hidden"),
]


def listing(directory: Path) -> dict[bytes, tuple[int, int, int]]:
    """Everything in a directory, by its bytes: (mode, size, mtime)."""
    with os.scandir(os.fsencode(directory)) as entries:
        return {e.name: ((s := e.stat(follow_symlinks=False)).st_mode, s.st_size, s.st_mtime_ns) for e in entries}


PATHS = {"everything": ANY, "252 bytes": "\U0001f600" * 63, "nearly 4096 bytes": "/".join(["y" * 250] * 15)}


@pytest.mark.parametrize("place", PATHS)
def test_a_path_is_only_a_path(tmp_path: Path, place: str) -> None:
    """What is measured below it is that target, and nothing else is there afterwards."""
    where = Path(str(tmp_path / PATHS[place])[:3820])  # with names of 255 bytes below the target of it
    where = where.with_name(where.name.replace(":", ""))
    where.mkdir(parents=True)
    allocation = Scripted(where, ONE)
    for name in FOREIGN:
        (allocation.target / os.fsdecode(name)).touch()
    before = listing(allocation.target)
    allocation.measure()
    assert listing(allocation.target) == before  # ours is gone, theirs is as it was
    assert listing(where).keys() - {b"bin"} == {b"sweep.yaml", b"log", b"results", b"target"}
    [row] = allocation.rows()
    assert row["verdict"] != "invalid" and row["target_directory"] == str(allocation.target)


def test_names_in_our_own_directory_stay_and_no_link_is_followed(tmp_path: Path) -> None:
    """Foreign entries beside our folders stay and are named, those within a data set go with it."""
    allocation = Scripted(tmp_path, ONE, keep="data_sets")
    allocation.measure()
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (allocation.ours / "sets" / os.fsdecode(b"\xff\x1b[31m")).mkdir()
    for folder in allocation.ours, *(allocation.ours / "sets").iterdir():
        for name in FOREIGN:
            (folder / os.fsdecode(name)).touch()
        (folder / "link").symlink_to(tmp_path / "precious")
    allocation.keep = "none"
    allocation.configure(ONE | {"repetitions": 2})
    output = allocation.measure()
    assert shown(output)
    assert [row["verdict"] for row in allocation.rows()] == ["valid", "valid"]
    stays = {os.fsencode(path.name) for path in allocation.ours.iterdir()}
    assert stays == {*FOREIGN, b"link", os.fsencode(directories.MARKER)}
    assert output.count("iosweep did not make it") == 5
    assert list((tmp_path / "precious").iterdir()) == [tmp_path / "precious" / "file"]


def test_a_path_that_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    for number, directory in enumerate(("/" + "x/" * 2500, "y" * 256, "-rf", "../../nothing")):
        (place := tmp_path / f"{number}").mkdir()
        allocation = Scripted(place, ONE, target={"directory": directory})
        output = allocation.measure(code=3)
        assert re.fullmatch(r"iosweep: .+\n", output), directory
        assert output[:-1].isprintable(), directory
        assert allocation.files() == []
        assert listing(place).keys() == {b"bin", b"sweep.yaml", b"log", b"results", b"target"}


# What tools print

EVIL = (
    b"\x1b[31m<script>alert(1)</script>\x1b]0;obeyed\x07\x9b2J =cmd|' /C calc'!A0 {x} %s \xff\xe2\x80\xae"
    b"\x00 | </script><img src=x onerror=alert(2)> \"',;\r\n"
)
EVIL_SHOWN = "\\x1b[31m<script>alert(1)</script>\\x1b]0;obeyed\\x07"
NAME = b'"</script><script>alert(4)</script>\\n\\u001b[31m\\u0000"'
#: Number of workers -> what fio prints then, and does otherwise.
PRINTS: dict[str, Callable[[process.Completed], process.Completed]] = {
    "1": lambda done: replace(done, stdout=3 * EVIL + done.stdout),  # before the JSON, where fio has its notes
    "2": lambda done: replace(done, stdout=b"", stderr=EVIL, exit_code=7),
    "3": lambda done: replace(done, stdout=b"<b>" * (1 << 20) + b"\n" + done.stdout),
    "4": lambda done: replace(
        done, stdout=done.stdout.replace(b'"rand_read"', NAME).replace(b'"fio-3', b'"<i>=\\n' + 4000 * b"y")
    ),
    "5": lambda done: replace(done, stdout=EVIL + done.stdout.replace(b'"error": 0', b'"error": 5')),
    "6": lambda done: replace(done, stdout=bytes(1 << 20) + 1000 * b"\x1b[2J"),
    "7": lambda done: replace(done, stderr=b"=1+1\n", exit_code=9),
    "8": lambda done: replace(done, stderr=5000 * EVIL),
}


class Printed(Scripted):
    """`terminal`: what it got."""

    terminal = ""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Printed:
    """Measured once with PRINTS, with its tables."""
    place = tmp_path_factory.mktemp("printed") / ANY.replace(":", "")  # it will be on PATH
    place.mkdir()
    description = " ".join(READABLE + INVISIBLE)
    sweep = ONE | {"axes": {"threads_per_node": list(range(1, 9))}, "description": description}
    allocation = Printed(place, sweep, description=description)

    def during(call: scripted.Call, run: Callable[[], process.Completed]) -> process.Completed:
        return run() if call.prepares else PRINTS[call.options["numjobs"]](run())

    allocation.machine.during = during
    with pytest.MonkeyPatch.context() as patch:
        version = scripted.Printed(b'fio-3.33<img/src=x/onerror=alert(3)>\x1b[31m,"\n')
        patch.setattr(scripted, "_version", lambda call: version)
        allocation.terminal = allocation.measure()
    allocation.rows()
    return allocation


def test_a_terminal_gets_text(
    printed: Printed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = (printed.place / "log").read_text()
    monkeypatch.chdir(printed.place)
    assert cli.main(["show", "c"]) == 0
    for text in (printed.terminal, log, capsys.readouterr().out):
        assert shown(text)
        assert f"exit code 7: {EVIL_SHOWN}" in text
        assert len(text) < 30_000
    assert not list(printed.place.rglob("obeyed"))


def test_tables_have_text(printed: Printed) -> None:
    rows = {row["threads_per_node"]: row for row in printed.rows()}
    assert {row["verdict"] for row in rows.values()} == {"invalid"}  # --version has another one than the outputs
    assert {n for n, row in rows.items() if row["ops_per_s"] is None} == {2, 6}
    for table in printed.results.glob("*.parquet"):
        for row in pyarrow.parquet.read_table(table).to_pylist():
            assert all(len(v) < 5000 and v.isprintable() for v in row.values() if isinstance(v, str))
    text = (printed.results / "results.csv").read_text()
    with_header = list(csv.reader(text.splitlines()))  # a record is a line, and a line a record
    assert len(with_header) == 1 + 8
    names, *values = with_header
    assert {len(record) for record in values} == {len(names)}
    for record in values:
        row = rows[int(record[names.index("threads_per_node")])]
        assert {name: cell for name, cell in zip(names, record, strict=True) if isinstance(row[name], str)} == {
            name: value for name, value in row.items() if isinstance(value, str)
        }
        # What a tool prints comes after words of ours. Cells are not changed for a spreadsheet's sake.
        assert not {name for name, cell in zip(names, record, strict=True) if cell.startswith(("=", "+", "@", "-"))}


# Through Snakemake


def test_a_working_directory_that_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("{x}", "}", "a\x1b[31mb", "a\nb", os.fsdecode(b"\xff")):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Path("x.yaml").write_text("campaign: c\n")
        with pytest.raises(ConfigError) as caught:
            dag.load(Path("x.yaml"), Path("results"))
        assert str(caught.value).startswith("x.yaml:1: the working directory "), name
        assert str(caught.value).isprintable(), name
        assert list(Path().iterdir()) == [Path("x.yaml")]


def test_a_working_directory_that_jobs_cannot_take_is_refused_before_anything_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    """Slurm replaces %j in the paths of logs. Refused by whatever plans for Slurm."""
    for character in '%$`"\\':
        place = tmp_path / f"100{character}j"
        place.mkdir()
        monkeypatch.chdir(place)
        Path("x.yaml").write_text(QUICK)
        with pytest.raises(ConfigError) as caught:
            dag.load(Path("x.yaml"), Path("results"), Profile(given={"launcher": "srun"}))
        assert f"the character {character}," in str(caught.value)
        assert cli.main(["plan", "x.yaml", "--profile", str(root / "profiles/slurm")]) == 1
        assert f"the character {character}," in capsys.readouterr().err
        assert [line.outcome for line in doctor.working_directory(submits=True)] == ["wrong"]
        assert doctor.working_directory(submits=False) == []
        dag.load(Path("x.yaml"), Path("results"))  # on one machine it is a character like others
