"""The striping of the campaign's directory: what is handed on, exactly, and what is read back; and MooseFS's trash.

The commands of Lustre, BeeGFS, GPFS and MooseFS are stand-ins here: scripts that note their arguments.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import layout
from targets import at, marked

#: Writes down what it was called with, from where, and whether it could read something.
STAND_IN = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    json.dump([os.path.basename(sys.argv[0]), *sys.argv[1:], os.getcwd(), sys.stdin.read()], log)
    log.write("\\n")
sys.stdout.buffer.write({out!r})
sys.stderr.buffer.write({err!r})
sys.exit({code})
"""


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    """A campaign's directory with a name that a shell would stumble over."""
    directory = tmp_path / "a b;$(x)" / "iosweep-c"
    directory.mkdir(parents=True)
    marked(directory)
    return str(directory)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a stand-in on PATH, and nothing else."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def put(name: str, out: bytes = b"", err: bytes = b"", code: int = 0) -> None:
        file = tmp_path / "bin" / name
        file.write_text(STAND_IN.format(python=sys.executable, log=str(tmp_path / "log"), out=out, err=err, code=code))
        file.chmod(0o755)

    return put


def calls(tmp_path: Path) -> list[list[str]]:
    log = tmp_path / "log"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


LAYOUTS = (
    "-c 4 -S 1m", "-c-1 -i -1", "--stripe-count=4 --stripe-size 1m", "-E 1M -L mdt -E eof -c -1 -p disk", "-N2 -E eof",
    "--numtargets=4 --chunksize=1m", "-p 'a b' -c '$(x)' -S -rf",  # values: what they mean is the command's matter
)  # fmt: skip
#: Arguments, and the one of them that is refused.
NO_LAYOUTS = {
    "4": "4",
    "-c 4 ..": "..",
    "-c 4 -d ..": "-d",  # would delete the layout of the directory above
    "-c 4 --": "--",
    "--yam=layout.yaml": "--yam=layout.yaml",  # getopt_long would complete it
    "--numtargets=4 --removenode=1": "--removenode=1",
    "-c": "-c",
    "--stripe-count= ..": "..",  # its value is empty, and not what follows
    "-p ../theirs": "../theirs",
    "--pool=/x": "--pool=/x",
    "-p 'a\nb'": "a\nb",
    "-p 'a\0b'": "a\0b",
}


def test_only_options_of_a_layout_are_handed_on() -> None:
    for arguments in LAYOUTS:
        assert layout.refused(shlex.split(arguments)) is None, arguments
    for arguments, wrong in NO_LAYOUTS.items():
        assert str(layout.refused(shlex.split(arguments))).startswith(f"`{wrong}`"), arguments
    assert [layout.unsettable(fstype) is None for fstype in ("lustre", "beegfs", "ext4", "gpfs")] == [True, True, False,
                                                                                                  False]  # fmt: skip


def test_the_wording_of_refusals(snapshot: Any) -> None:
    found = [f"{arguments!r}: {layout.refused(shlex.split(arguments))}" for arguments in ("4", "-c", "-p ../theirs")]
    assert "\n".join([*found, str(layout.unsettable("gpfs"))]) == snapshot


@pytest.mark.local
@pytest.mark.parametrize(
    ("fstype", "arguments", "expected"),
    [
        ("lustre", ["-p", "a b;$(x)"], ["lfs", "setstripe", "-p", "a b;$(x)"]),
        ("beegfs", ["--numtargets=4", "--chunksize=1m"],
         ["beegfs-ctl", "--setpattern", "--numtargets=4", "--chunksize=1m"]),
    ],
)  # fmt: skip
def test_a_layout_is_set_on_the_campaigns_directory_alone_without_a_shell(
    campaign: str, stand_in: Callable[..., None], tmp_path: Path, fstype: str, arguments: list[str], expected: list[str]
) -> None:
    stand_in(expected[0], out=b"ignored", err=b"warned")
    assert layout.set_layout(at(campaign), fstype, arguments) is None
    assert calls(tmp_path) == [[*expected, campaign, campaign, ""]]


@pytest.mark.local
def test_a_command_that_fails_or_is_not_there_is_named(campaign: str, stand_in: Callable[..., None]) -> None:
    for absent in ("lustre", "gpfs"):
        assert "not on PATH" in layout.read_layout(at(campaign), absent)
    with pytest.raises(Refused, match="lfs is not on PATH"):
        layout.set_layout(at(campaign), "lustre", ["-c", "4"])
    for out, err, said in (
        (b"out\nmore", b"", "out"),
        (b"", b"", "it says nothing"),
        (b"a", b"\nb \x1b[2J \xff\nc", "b"),
    ):
        stand_in("lfs", out, err, 22)
        with pytest.raises(Refused, match=f"lfs setstripe -c 9.*exit code 22: {said}") as caught:
            layout.set_layout(at(campaign), "lustre", ["-c", "9"])
        assert str(caught.value).isprintable()
        read = layout.read_layout(at(campaign), "lustre")
        assert read.startswith(layout.NOT_RECORDED) and f"exit code 22: {said}" in read


@pytest.mark.local
def test_nothing_is_called_for_a_directory_or_an_option_that_is_refused(
    campaign: str, tmp_path: Path, stand_in: Callable[..., None]
) -> None:
    stand_in("lfs")
    for fstype, arguments in (("gpfs", ["-c", "4"]), ("lustre", ["-c", "4", ".."])):
        with pytest.raises(Refused, match="layout"):
            layout.set_layout(at(campaign), fstype, arguments)
    (tmp_path / "iosweep-link").symlink_to(campaign)
    for touch in (lambda d: layout.set_layout(d, "lustre", ["-c", "4"]), lambda d: layout.read_layout(d, "lustre")):
        with pytest.raises(Refused, match="symbolic link"):
            touch(at(f"{tmp_path}/iosweep-link"))
        with pytest.raises(FileNotFoundError):
            touch(at(f"{tmp_path}/iosweep-none"))
    assert calls(tmp_path) == []


@pytest.mark.local
@pytest.mark.parametrize(
    ("fstype", "command", "shown", "expected"),
    [
        ("lustre", ["lfs", "getstripe", "-d"],
         "DIRECTORY\nstripe_count:  4 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1\n\n",
         "stripe_count: 4 stripe_size: 1048576 pattern: raid0 stripe_offset: -1"),
        ("beegfs", ["beegfs-ctl", "--getentryinfo"],
         "Entry type: directory\nEntryID: 0-5D28-1\nMetadata node: n1 [ID: 1]\nStripe pattern details:\n+ Type: RAID0\n"
         "+ Chunksize: 512K\n+ Number of storage targets: desired: 4\n+ Storage Pool: 1 (Default)\n",
         "Type: RAID0; Chunksize: 512K; Number of storage targets: desired: 4; Storage Pool: 1 (Default)"),
        ("gpfs", ["mmlsattr", "-L"],
         "file name:            DIRECTORY\nmetadata replication: 1 max 2\ndata replication:     1 max 2\n",
         "metadata replication: 1 max 2; data replication: 1 max 2"),
    ],
)  # fmt: skip
def test_the_layout_is_read_back_in_one_line(
    campaign: str, stand_in: Callable[..., None], tmp_path: Path, fstype: str, command: list[str], shown: str,
    expected: str,
) -> None:  # fmt: skip
    stand_in(command[0], out=shown.replace("DIRECTORY", campaign).encode())
    assert layout.read_layout(at(campaign), fstype) == expected
    assert calls(tmp_path) == [[*command, campaign, campaign, ""]]
    assert layout.read_layout(at(campaign), "ext4") == layout.NOT_RECORDED


@pytest.mark.local
def test_a_layout_fits_a_column_and_drives_no_terminal(campaign: str, stand_in: Callable[..., None]) -> None:
    for out, expected in (
        (b" \n\t\n", "not recorded: lfs shows nothing"),
        (b"a\x00\x1b[31mb\xff\n<script>", "a [31mb ; <script>"),
        (b"x" * 1000, "x" * 299 + "…"),
    ):
        stand_in("lfs", out=out)
        assert layout.read_layout(at(campaign), "lustre") == expected


@pytest.mark.local
def test_the_trash_of_moosefs_is_turned_off_for_the_campaigns_directory_alone(
    campaign: str, stand_in: Callable[..., None], tmp_path: Path
) -> None:
    """MooseFS keeps deleted files for a day, unless that is turned off."""
    assert "not on PATH" in str(layout.keep_nothing(at(campaign)))
    stand_in("mfssettrashtime")
    assert layout.keep_nothing(at(campaign)) is None
    assert calls(tmp_path) == [["mfssettrashtime", "0", campaign, campaign, ""]]
    stand_in("mfssettrashtime", err=b"no such mount\n", code=1)
    assert "exit code 1: no such mount" in str(layout.keep_nothing(at(campaign)))


@pytest.mark.local
def test_a_name_that_is_not_text_does_no_harm(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    directory = f"{tmp_path}/iosweep-\udcff"
    Path(directory).mkdir()
    marked(Path(directory))
    stand_in("lfs", out=os.fsencode(f"{directory}\nstripe_count: 1\n"))
    assert layout.read_layout(at(directory), "lustre") == "stripe_count: 1"
