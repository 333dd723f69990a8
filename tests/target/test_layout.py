"""The striping of the campaign's directory: what is handed on, exactly, and what is read back."""

import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import directory as layout
from targets import at, marked


@pytest.fixture
def campaign(tmp_path: Path) -> str:
    """A campaign's directory with a name that a shell would stumble over."""
    directory = tmp_path / "a b;$(x)" / "iosweep-c"
    directory.mkdir(parents=True)
    marked(directory)
    return str(directory)


#: The commands that were called, and the directories where.
calls: list[list[str]] = []


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has the command of a file system say something; until then it is not there."""
    calls.clear()
    monkeypatch.setattr(layout.shutil, "which", lambda name, path: None)

    def put(out: bytes = b"", err: bytes = b"", code: int = 0) -> None:
        def run(argv: list[str], cwd: str, stdin: int, **_: Any) -> Any:
            assert stdin == subprocess.DEVNULL
            calls.append([*argv, str(Path(cwd).readlink())])
            return SimpleNamespace(stdout=out, stderr=err, returncode=code)

        monkeypatch.setattr(layout.shutil, "which", lambda name, path: name)
        monkeypatch.setattr(layout.subprocess, "run", run)

    return put


LAYOUTS = (
    "-c 4 -S 1m", "-c-1 -i -1", "--stripe-count=4 --stripe-size 1m", "-E 1M -L mdt -E eof -c -1 -p disk", "-N2 -E eof",
    "--numtargets=4 --chunksize=1m", "-p 'a b' -c '$(x)' -S -rf",  # values: what they mean is the command's matter
)  # fmt: skip
#: Arguments, and the one of them that is refused.
NO_LAYOUTS = {
    "-c 4 ..": "..",
    "--yaml=/tmp/layout.yaml": "--yaml=/tmp/layout.yaml",
    "--stripe-count= ..": "..",  # its value is empty, and not what follows
    "-p ../theirs": "../theirs",
    "-p 'a\nb'": "a\nb",
}


def test_no_argument_of_a_layout_names_another_place() -> None:
    for arguments in LAYOUTS:
        assert layout.layout_refused(shlex.split(arguments)) is None, arguments
    for arguments, wrong in NO_LAYOUTS.items():
        assert str(layout.layout_refused(shlex.split(arguments))).startswith(f"`{wrong}`"), arguments
    assert [layout.unsettable(fstype) is None for fstype in ("lustre", "beegfs", "ext4", "gpfs")] == [True, True, False,
                                                                                                  False]  # fmt: skip


@pytest.mark.parametrize(
    ("fstype", "arguments", "command"),
    [
        ("lustre", ["-p", "a b;$(x)"], ["lfs", "setstripe"]),
        ("beegfs", ["--numtargets=4", "--chunksize=1m"], ["beegfs-ctl", "--setpattern"]),
    ],
)
def test_a_layout_is_set_on_the_campaigns_directory_alone_without_a_shell(
    campaign: str, says: Callable[..., None], fstype: str, arguments: list[str], command: list[str]
) -> None:
    says(out=b"ignored", err=b"warned")
    assert layout.set_layout(at(campaign), fstype, arguments) is None
    assert calls == [[*command, *arguments, campaign, campaign]]


def test_a_command_that_fails_or_is_not_there_is_named(campaign: str, says: Callable[..., None]) -> None:
    with pytest.raises(Refused, match="lfs"):
        layout.set_layout(at(campaign), "lustre", ["-c", "4"])
    assert layout.read_layout(at(campaign), "gpfs").startswith("not recorded: mmlsattr ")
    for out, err, said in ((b"out\nmore", b"", "out"), (b"", b"", "it says nothing"), (b"a", b"\nb \x1b[2J\nc", "b")):
        says(out, err, 22)
        with pytest.raises(Refused, match=f"lfs setstripe -c 9.*exit code 22: {said}") as caught:
            layout.set_layout(at(campaign), "lustre", ["-c", "9"])
        assert str(caught.value).isprintable()
        assert f"exit code 22: {said}" in layout.read_layout(at(campaign), "lustre")


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
        # it fits a column, and drives no terminal
        ("lustre", ["lfs", "getstripe", "-d"], "a\x00\x1b[31mb\udcff\n<script>", "a [31mb ; <script>"),
    ],
)  # fmt: skip
def test_the_layout_is_read_back_in_one_line(
    campaign: str, says: Callable[..., None], fstype: str, command: list[str], shown: str, expected: str
) -> None:
    says(out=os.fsencode(shown.replace("DIRECTORY", campaign)))
    assert layout.read_layout(at(campaign), fstype) == expected
    assert calls == [[*command, campaign, campaign]]
    assert layout.read_layout(at(campaign), "ext4") == layout.NOT_RECORDED
