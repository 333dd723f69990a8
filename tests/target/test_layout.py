"""The striping of the campaign's directory: what is handed on, exactly, and what is read back.

The commands of Lustre, BeeGFS and GPFS are stand-ins here: scripts that note their arguments and say what they must.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from iosweep.errors import Refused
from iosweep.target import layout
from targets import at, marked

pytestmark = pytest.mark.local

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


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], list[list[str]]]:
    def read() -> list[list[str]]:
        log = tmp_path / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    return read


# What may be asked for


@pytest.mark.parametrize(
    "arguments",
    ["-c 4 -S 1m", "-c-1 -i -1", "--stripe-count=4 --stripe-size 1m", "-E 1M -L mdt -E eof -c -1 -p disk", "-N2 -E eof",
     "--numtargets=4 --chunksize=1m", "-p 'a b' -c '$(x)' -S -rf"],  # values: what they mean is the command's matter
)  # fmt: skip
def test_layouts(arguments: str) -> None:
    assert layout.refused(shlex.split(arguments)) is None


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ("4", "`4` is no option that sets a layout; there are "),
        ("-c 4 ..", "`..` is no option"),
        ("-c 4 -d ..", "`-d` is no option"),  # would delete the layout of the directory above
        ("-c 4 --", "`--` is no option"),
        ("--yam=layout.yaml", "`--yam=layout.yaml` is no option"),  # getopt_long would complete it
        ("--numtargets=4 --removenode=1", "`--removenode=1` is no option"),
        ("-c", "`-c` lacks its value"),
        ("--stripe-count= ..", "`..` is no option"),  # its value is empty, and not what follows
        ("-p ../theirs", "`../theirs` names a place; the layout is set on the campaign's directory alone"),
        ("--pool=/x", "`--pool=/x` names a place"),
        ("-p 'a\nb'", "`a\nb` names a place"),
        ("-p 'a\0b'", "`a\0b` names a place"),
    ],
)
def test_no_layouts(arguments: str, wrong: str) -> None:
    assert str(layout.refused(shlex.split(arguments))).startswith(wrong)


def test_where_it_can_be_set() -> None:
    assert layout.unsettable("lustre") is None
    assert layout.unsettable("beegfs") is None
    for fstype in ("ext4", "gpfs", "nfs4", ""):
        said = f"target.layout can be set on lustre and beegfs, and the target is {fstype}; leave it out"
        assert str(layout.unsettable(fstype)) == said


# Set


@pytest.mark.parametrize(
    ("fstype", "arguments", "expected"),
    [
        ("lustre", ["-c", "4", "-S", "1m"], ["lfs", "setstripe", "-c", "4", "-S", "1m"]),
        ("lustre", ["-p", "a b;$(x)"], ["lfs", "setstripe", "-p", "a b;$(x)"]),
        ("beegfs", ["--numtargets=4", "--chunksize=1m"],
         ["beegfs-ctl", "--setpattern", "--numtargets=4", "--chunksize=1m"]),
    ],
)  # fmt: skip
def test_set(
    campaign: str, stand_in: Callable[..., None], calls: Callable[[], list[list[str]]],
    fstype: str, arguments: list[str], expected: list[str],
) -> None:  # fmt: skip
    stand_in(expected[0], out=b"ignored", err=b"warned")
    assert layout.set_layout(at(campaign), fstype, arguments) is None
    assert calls() == [[*expected, campaign, campaign, ""]]


def test_a_layout_that_the_file_system_refuses(campaign: str, stand_in: Callable[..., None]) -> None:
    stand_in("lfs", err=b"\nerror on ioctl 0x4008669a: stripe count 9999 \x1b[2J \xff\nusage: setstripe ...\n", code=22)
    with pytest.raises(Refused) as caught:
        layout.set_layout(at(campaign), "lustre", ["-c", "9999"])
    assert str(caught.value) == (
        "target.layout cannot be set: `lfs setstripe -c 9999` ended with exit code 22:"
        " error on ioctl 0x4008669a: stripe count 9999 [2J"
    )


@pytest.mark.parametrize(
    ("out", "err", "said"), [(b"on stdout\nmore", b"", "on stdout"), (b"", b"", "it says nothing"), (b"a", b"b\n", "b")]
)
def test_what_a_failure_says(campaign: str, stand_in: Callable[..., None], out: bytes, err: bytes, said: str) -> None:
    stand_in("beegfs-ctl", out, err, 1)
    with pytest.raises(Refused, match=f"ended with exit code 1: {said}$"):
        layout.set_layout(at(campaign), "beegfs", ["--numtargets=4"])


@pytest.mark.usefixtures("stand_in")
def test_no_command(campaign: str) -> None:
    with pytest.raises(Refused, match=r"^target.layout cannot be set: lfs is not on PATH$"):
        layout.set_layout(at(campaign), "lustre", ["-c", "4"])
    assert layout.read_layout(at(campaign), "lustre") == "not recorded: lfs is not on PATH"
    assert layout.read_layout(at(campaign), "gpfs") == "not recorded: mmlsattr is not on PATH"


def test_nothing_is_called_for_what_is_refused(
    campaign: str, tmp_path: Path, stand_in: Callable[..., None], calls: Callable[[], list[list[str]]]
) -> None:
    stand_in("lfs")
    with pytest.raises(
        Refused, match=r"^target.layout can be set on lustre and beegfs, and the target is gpfs; leave it out$"
    ):
        layout.set_layout(at(campaign), "gpfs", ["-c", "4"])
    with pytest.raises(Refused, match=r"^target.layout: `\.\.` is no option"):
        layout.set_layout(at(campaign), "lustre", ["-c", "4", ".."])
    (tmp_path / "iosweep-link").symlink_to(campaign)
    for touch in (lambda d: layout.set_layout(d, "lustre", ["-c", "4"]), lambda d: layout.read_layout(d, "lustre")):
        with pytest.raises(Refused, match="is a symbolic link; it is not followed"):
            touch(at(f"{tmp_path}/iosweep-link"))
        with pytest.raises(FileNotFoundError):
            touch(at(f"{tmp_path}/iosweep-none"))
    assert calls() == []


# Read back


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
def test_read(
    campaign: str, stand_in: Callable[..., None], calls: Callable[[], list[list[str]]],
    fstype: str, command: list[str], shown: str, expected: str,
) -> None:  # fmt: skip
    stand_in(command[0], out=shown.replace("DIRECTORY", campaign).encode())
    assert layout.read_layout(at(campaign), fstype) == expected
    assert calls() == [[*command, campaign, campaign, ""]]


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        (b"", "not recorded: lfs shows nothing"),
        (b" \n\t\n", "not recorded: lfs shows nothing"),
        (b"a\x00\x1b[31mb\xff\n<script>", "a [31mb ; <script>"),
        (b"x" * 1000, "x" * 299 + "…"),
    ],
)
def test_what_is_shown_fits_a_column(campaign: str, stand_in: Callable[..., None], out: bytes, expected: str) -> None:
    stand_in("lfs", out=out)
    assert layout.read_layout(at(campaign), "lustre") == expected


def test_a_layout_that_cannot_be_read(campaign: str, stand_in: Callable[..., None]) -> None:
    stand_in("lfs", err=b"getstripe: no memory\n", code=12)
    said = "not recorded: `lfs getstripe -d` ended with exit code 12: getstripe: no memory"
    assert layout.read_layout(at(campaign), "lustre") == said


def test_a_file_system_without_layouts(campaign: str) -> None:
    assert layout.read_layout(at(campaign), "ext4") == "not recorded"


def test_a_name_that_is_not_text(tmp_path: Path, stand_in: Callable[..., None]) -> None:
    directory = f"{tmp_path}/iosweep-\udcff"
    Path(directory).mkdir()
    marked(Path(directory))
    stand_in("lfs", out=os.fsencode(f"{directory}\nstripe_count: 1\n"))
    assert layout.read_layout(at(directory), "lustre") == "stripe_count: 1"
