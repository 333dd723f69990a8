"""What commands print of text that somebody else wrote: nothing in it drives a terminal, or is taken for markup."""

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet
from rich.table import Table
from rich.text import Text

import results_factory
from iosweep.commands import cli, terminal
from iosweep.commands.safe_console import SafeConsole
from iosweep.files.documents import Damaged, dump, read

EVIL = "\x1b]0;pwn\x9b\u202e[/x]"
SHOWN = r"\x1b]0;pwn\x9b\u202e[/x]"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = results_factory.make(Path("results/c"), sweeps=[results_factory.sweep("a", ["rand_read"], {"nodes": [1]})])
    (made / "plans").mkdir()
    return made


def unsafe(text: str) -> str:
    """The characters of what was printed that drive a terminal."""
    return "".join(c for c in text if not c.isprintable() and c != "\n")


def test_rich_escapes_and_takes_nothing_for_markup() -> None:
    table = Table(box=None)
    table.add_column("x")
    table.add_row(EVIL)
    file = io.StringIO()
    SafeConsole(file=file, width=200).print(EVIL, Text(EVIL), table)
    assert file.getvalue().count(SHOWN) == 2  # in the table it is cut to the width that Rich measures
    assert not unsafe(file.getvalue())


def test_lines_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.say(f"a\n{EVIL}")
    terminal.prose(f"a\n{EVIL}")
    terminal.Printer().print(EVIL)
    assert capsys.readouterr().out == f"a\n{SHOWN}\n" * 2 + f"{SHOWN}\n"


@pytest.mark.parametrize("text", [EVIL, "\udcff", "µs – 3 ‰ 漢", "\U000e0001", "a\nb"])
def test_json_is_the_same_without_control_characters(text: str) -> None:
    printed = terminal.to_json({"a": [text, 1.5]})
    assert not unsafe(printed)
    assert printed.endswith("}\n")
    if "\udcff" not in text:
        assert msgspec.json.decode(printed) == {"a": [text, 1.5]}
        assert ("µ" in printed) == ("µ" in text)


def test_damage_is_one_short_line() -> None:
    said = str(Damaged(f"/a/{EVIL}", EVIL + "x" * 5_000_000))
    assert SHOWN in said
    assert len(said) < 1000
    assert not unsafe(said)


def _node(results: Path, name: bytes) -> None:
    folder = os.fsencode(results / "nodes")
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - the name is not UTF-8
    with open(folder + b"/" + name, "wb") as file:  # noqa: PTH123
        file.write(b"x")


def _rows(results: Path) -> None:
    """Such text in a column of the rows that has no known values."""
    file = results / "results.parquet"
    table = parquet.read_table(file)
    place = table.schema.get_field_index("sweeps")
    parquet.write_table(table.set_column(place, "sweeps", pa.array([EVIL] * len(table))), file)
    results_factory.describe_again(results)


#: Done to the results that somebody sends.
FOREIGN: dict[str, Callable[[Path], object]] = {
    "a name": lambda results: _node(results, os.fsencode(f"{EVIL.replace('/', '')}.json")),
    "a name that is not UTF-8": lambda results: _node(results, b"\xff.json"),
    "a campaign": lambda results: (results / "campaign.json").write_bytes(
        dump(read(results / "campaign.json") | {"campaign": EVIL, "damaged": {EVIL: EVIL}})
    ),
    "rows": _rows,
    "a directory": lambda results: shutil.copytree(results, results.parent / "\udcff"),
    "a link in points": lambda results: (
        (results / "points").mkdir(exist_ok=True),
        (results / "points" / EVIL.replace("/", "")).symlink_to("/nonexistent"),
    ),
    "a link in plans": lambda results: (results / "plans" / "aa.json").symlink_to("/nonexistent"),
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_no_command_prints_what_drives_a_terminal(
    results: Path, change: Callable[[Path], object], capfd: pytest.CaptureFixture[str]
) -> None:
    change(results)
    for command in (
        ["show", "c"], ["show", "c", "--all"], ["show", "c", "--json"], ["check", "c"],
        ["list"], ["list", "--json"], ["watch", "c", "--once"], ["watch", "c", "--json"], ["rerun", "x"],
    ):  # fmt: skip
        assert cli.main(command) in (0, 1)
        said = "".join(capfd.readouterr())
        assert said
        assert not unsafe(said.replace("\r\n", "\n")), command
