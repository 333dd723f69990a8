"""What commands print of text that somebody else wrote: nothing in it drives a terminal, or is taken for markup."""

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from rich.table import Table
from rich.text import Text

import results_factory
from iosweep.commands import cli, terminal
from iosweep.files.documents import Damaged, dump, read

EVIL = "\x1b]0;pwn\x9b\u202e[/x]"
SHOWN = r"\x1b]0;pwn\x9b\u202e[/x]"


def unsafe(text: str) -> str:
    """The characters of what was printed that drive a terminal."""
    return "".join(c for c in text if not c.isprintable() and c != "\n")


def test_lines_and_tables_are_escaped_and_nothing_is_taken_for_markup(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(box=None)
    table.add_column("x")
    table.add_row(EVIL)
    file = io.StringIO()
    terminal.safe_console(file=file, width=200).print(EVIL, Text(EVIL), table)
    assert file.getvalue().count(SHOWN) == 2  # in the table it is cut to the width that Rich measures
    assert not unsafe(file.getvalue())
    terminal.say(f"a\n{EVIL}")
    terminal.prose(f"a\n{EVIL}")
    terminal.Printer().print(EVIL)
    assert capsys.readouterr().out == f"a\n{SHOWN}\n" * 2 + f"{SHOWN}\n"
    said = str(Damaged(f"/a/{EVIL}", EVIL + "x" * 5_000_000))
    assert SHOWN in said and len(said) < 1000 and not unsafe(said)


def test_json_is_the_same_without_control_characters() -> None:
    for text in (EVIL, "\udcff", "µs – 3 ‰ 漢", "\U000e0001", "a\nb"):
        printed = terminal.to_json({"a": [text, 1.5]})
        assert not unsafe(printed)
        assert printed.endswith("}\n")
        if "\udcff" not in text:
            assert msgspec.json.decode(printed) == {"a": [text, 1.5]}
            assert ("µ" in printed) == ("µ" in text)


def _node(results: Path, name: bytes) -> None:
    folder = os.fsencode(results / "nodes")
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - the name is not UTF-8
    with open(folder + b"/" + name, "wb") as file:  # noqa: PTH123
        file.write(b"x")


def _names(results: Path) -> None:
    """Names of files, one of which is not UTF-8, and links."""
    _node(results, os.fsencode(f"{EVIL.replace('/', '')}.json"))
    _node(results, b"\xff.json")
    (results / "points").mkdir()
    (results / "points" / EVIL.replace("/", "")).symlink_to("/nonexistent")
    (results / "plans" / "aa.json").symlink_to("/nonexistent")


def _campaign(results: Path) -> None:
    """The name of a campaign, and of its folder."""
    known = read(results / "campaign.json") | {"campaign": EVIL, "damaged": {EVIL: EVIL}}
    (results / "campaign.json").write_bytes(dump(known))
    shutil.copytree(results, results.parent / "\udcff")


#: Done to the results that somebody sends.
FOREIGN: dict[str, Callable[[Path], None]] = {"names of files": _names, "a campaign": _campaign}


@pytest.mark.parametrize("change", FOREIGN)
def test_no_command_prints_what_drives_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = results_factory.sweep("a", ["rand_read"], {"nodes": [1]})
    results = results_factory.make(Path("results/c"), sweeps=[sweep], repetitions=1)
    (results / "plans").mkdir()
    FOREIGN[change](results)
    for command in (
        ["show", "c"], ["show", "c", "--all"], ["show", "c", "--json"], ["check", "c"],
        ["check"], ["watch", "c", "--once"], ["watch", "c", "--json"], ["rerun", "x"],
    ):  # fmt: skip
        assert cli.main(command) in (0, 1)
        said = "".join(capfd.readouterr())
        assert said
        assert not unsafe(said.replace("\r\n", "\n")), command
