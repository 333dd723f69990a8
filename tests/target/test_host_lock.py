"""The lock of a machine, with real processes in real namespaces: what another /tmp hides from a lock that is a file."""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Busy
from iosweep.node import procfs
from iosweep.target import host_lock, mounts, target_lock
from iosweep.target.target_lock import Exclusion
from locks import Campaign, hold, named

pytestmark = pytest.mark.local

NETWORK = "nfs4 server:/export"
OWNER = {"campaign": "ours", "results": "/r"}

#: What goes before a command that runs in namespaces of its own.
CONTAINER = ("unshare", "--mount", "--pid", "--fork", "--mount-proc")
ANOTHER_NETWORK = ("unshare", "--mount", "--net")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A local file system that no other test locks."""
    monkeypatch.setattr(target_lock, "PREFIX", f"iosweep-test-{os.getpid()}")
    return f"ext4 {tmp_path}"


def other_campaign(disk: str, **more: Any) -> Campaign:
    return Campaign(target_lock.PREFIX, named(disk), **more)


@pytest.fixture
def first_namespace() -> None:
    """A pass needs a machine that can be seen, and other namespaces need root."""
    if os.getuid() or not shutil.which("unshare"):
        pytest.skip("root: needed for namespaces")
    if not procfs.shows_machine():
        pytest.skip("in a container the lock is never evidence")


@pytest.mark.usefixtures("first_namespace")
@pytest.mark.parametrize("ours_first", [True, False])
def test_a_private_tmp_hides_no_campaign(disk: str, ours_first: bool) -> None:
    """Two campaigns whose /tmp is not the same one: job_container/tmpfs, PrivateTmp."""
    if ours_first:
        with hold(None, disk, OWNER) as found:
            assert found.enforced
            with other_campaign(disk, private=True) as other:
                assert other.enforced is None
                assert f"is being measured by process {os.getpid()} of user " in other.said
                assert ", in a mount namespace of its own (campaign ours, results in /r, " in other.said
    else:
        with other_campaign(disk, private=True) as other:
            assert other.enforced is True, other.said
            with pytest.raises(Busy, match=r", in a mount namespace of its own \(campaign theirs"), hold(
                None, disk, OWNER
            ):  # fmt: skip
                pass
    with hold(None, disk, OWNER) as found:
        assert found == Exclusion(True, f"no other campaign on this machine (lock @{name(disk)})")


@pytest.mark.usefixtures("first_namespace")
@pytest.mark.parametrize(
    ("within", "why"),
    [
        (CONTAINER, "this process runs in a container (a PID namespace), from which the machine cannot be seen"),
        ((*CONTAINER, "--net"), "this process runs in a container (a PID namespace), from which the machine"),
        (ANOTHER_NETWORK, "this process has a network namespace of its own"),
    ],
)
def test_where_another_may_not_be_seen_it_is_not_checked(disk: str, within: tuple[str, ...], why: str) -> None:
    with other_campaign(disk, within=within) as other:
        assert other.enforced is False
        assert other.said.startswith(f"a campaign elsewhere on this machine may not be seen: {why}")
        assert other.said.endswith("; set target.lock to a directory that only trusted users may write to")


@pytest.mark.usefixtures("first_namespace")
@pytest.mark.parametrize("within", [ANOTHER_NETWORK, ("unshare", "--user", "--map-root-user", "--net")])
def test_a_campaign_on_the_network_of_the_machine_is_seen_from_another_one(disk: str, within: tuple[str, ...]) -> None:
    with hold(None, disk, OWNER) as found:
        assert found.enforced
        with other_campaign(disk, within=within) as other:
            assert other.enforced is None
            assert "is being measured by a process in the network namespace of process" in other.said


@pytest.mark.usefixtures("first_namespace")
def test_the_name_of_another_campaign_is_no_evidence() -> None:
    """It measures on the network of the machine, where process 1 has that name, and we have it elsewhere."""
    with host_lock.held("iosweep-test-evidence", b"") as inode:
        assert host_lock.unseen("iosweep-test-evidence", inode + 1) == "this process has a network namespace of its own"


@pytest.mark.usefixtures("first_namespace")
@pytest.mark.parametrize("within", [ANOTHER_NETWORK, (*CONTAINER, "--net")])
def test_a_campaign_in_a_container_with_a_network_of_its_own_is_seen(disk: str, within: tuple[str, ...]) -> None:
    with other_campaign(disk, within=within), pytest.raises(Busy) as caught, hold(None, disk, OWNER):
        pass
    assert "is being measured by a process in the network namespace of process" in str(caught.value)


@pytest.mark.usefixtures("first_namespace")
def test_a_campaign_that_starts_later_in_a_container_is_seen(disk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with hold(None, disk, OWNER) as found:
        assert found.now()["enforced"]
        with other_campaign(disk, within=(*CONTAINER, "--net")) as other:
            assert other.enforced is False  # from inside, nothing of the machine is seen
            assert found.now()["enforced"]  # it is looked for from time to time
            monkeypatch.setattr(target_lock, "LOOK_S", 0.0)
            assert not found.now()["enforced"]
            assert f"another campaign holds the lock @{name(disk)} in the network" in found.now()["evidence"]
        assert found.now()["enforced"]


@pytest.mark.usefixtures("first_namespace")
def test_a_container_on_the_network_of_the_machine_is_seen(disk: str) -> None:
    with other_campaign(disk, within=CONTAINER), pytest.raises(Busy, match="campaign theirs"), hold(None, disk, OWNER):
        pass


@pytest.mark.usefixtures("first_namespace")
def test_a_directory_that_is_private(disk: str) -> None:
    with other_campaign(disk, directory="/tmp", private=True) as other:
        assert (other.enforced, other.said) == (
            False, "/tmp is private to this process: others on this machine see another one there"
        )  # fmt: skip


@pytest.mark.usefixtures("first_namespace")
def test_a_directory_of_a_container(disk: str) -> None:
    """Nobody can see from there whether others have the same one."""
    with other_campaign(disk, directory="/tmp", private=True, within=CONTAINER) as other:
        assert other.enforced is False
        assert other.said.startswith("others on this machine may see another directory at /tmp: ")


def test_process_1_cannot_be_seen(tmp_path: Path) -> None:
    with host_lock.held("iosweep-test-proof", b"") as inode:
        assert host_lock.unseen("iosweep-test-proof", inode, tmp_path) == (
            "process 1 of this machine cannot be looked at (No such file or directory)"
        )


def name(disk: str) -> str:
    """Of the lock."""
    (found,) = set(re.findall(rf"@({target_lock.PREFIX}-\w+)\n", Path("/proc/net/unix").read_text()))
    return str(found)


def test_one_at_a_time(disk: str) -> None:
    with other_campaign(disk) as other:
        with pytest.raises(Busy) as caught, hold(None, disk, OWNER):
            pass
        assert str(caught.value).startswith(
            f"the file system {disk} is being measured by process {other.process.pid} of user "
        )
        assert f"stop it (it holds the socket @{name(disk)}); if it is not a campaign, set targ" in str(caught.value)
        with hold(None, f"{disk}2", OWNER):  # another file system
            pass
        other.process.send_signal(signal.SIGKILL)
        other.process.wait()
        with hold(None, disk, OWNER) as found:  # the kernel has freed it
            assert found.note is None
    with hold(None, NETWORK, OWNER) as found:
        assert not found.enforced
        assert found.evidence.startswith("only campaigns on this machine are kept off (@iosweep-test-")
        assert found.evidence.endswith("set target.lock to a directory that all nodes see")


def test_what_a_holder_starts_does_not_hold_it(disk: str) -> None:
    with subprocess.Popen(["sleep", "60"]) as before:
        with hold(None, disk, OWNER), subprocess.Popen(["sleep", "60"]) as during:
            pass_on = during
            during.terminate()
        with hold(None, disk, OWNER):
            assert pass_on.poll() is not None
        before.terminate()


def test_twenty_at_once(disk: str) -> None:
    start, go = os.pipe()
    said, say = os.pipe()
    children = []
    for _ in range(20):
        if not (child := os.fork()):
            os.close(go)
            os.read(start, 1)  # ends for all of them at once
            try:
                with hold(None, disk, OWNER):
                    os.write(say, b"+")
                    signal.pause()
            except Busy:
                os.write(say, b"-")
            finally:
                os._exit(0)
        children.append(child)
    os.close(go)
    assert sorted(b"".join(os.read(said, 1) for _ in children)) == sorted(b"+" + b"-" * 19)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    for end in (start, said, say):
        os.close(end)


def test_a_holder_that_is_stopped_holds_it(disk: str) -> None:
    with other_campaign(disk) as other:
        other.process.send_signal(signal.SIGSTOP)
        os.waitpid(other.process.pid, os.WUNTRACED)
        try:
            with (
                pytest.raises(Busy, match=rf"by process {other.process.pid} \(\S+\) of user \S+, which does not say"),
                hold(None, disk, OWNER),
            ):
                pass
        finally:
            other.process.send_signal(signal.SIGCONT)


def test_readers_that_do_not_read(disk: str) -> None:
    """They block no other reader, and not the holder's end."""
    with hold(None, disk, OWNER):
        readers = [socket.socket(socket.AF_UNIX) for _ in range(50)]
        for reader in readers:
            reader.connect(f"\0{name(disk)}")
        with pytest.raises(Busy, match="campaign ours"), hold(None, disk, OWNER):
            pass
    for reader in readers:
        reader.close()
    with hold(None, disk, OWNER):
        pass


# Which directory a process sees

MOUNTS = rb"""22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 22 0:30 / /tmp rw - tmpfs tmpfs rw
25 22 254:0 /srv/a\040b /mnt/a\040b rw - ext4 /dev/vda rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", ("254:0", "/")),
        ("/tmp", ("0:30", "")),
        ("/tmp/x", ("0:30", "/x")),
        ("/tmpx", ("254:0", "/tmpx")),
        ("/mnt/a b/c", ("254:0", "/srv/a b/c")),
    ],
)
def test_where_a_path_leads(path: str, expected: tuple[str, str]) -> None:
    assert mounts.leads_to(path, mounts.parsed(MOUNTS)) == expected


def test_the_last_mount_is_on_top() -> None:
    table = mounts.parsed(MOUNTS + b"30 24 0:31 /u /tmp rw - tmpfs tmpfs rw\n")
    assert mounts.leads_to("/tmp/x", table) == ("0:31", "/u/x")


def test_private_needs_both(tmp_path: Path) -> None:
    for pid, table in (("self", MOUNTS), ("1", MOUNTS.replace(b"0:30", b"0:31"))):
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "mountinfo").write_bytes(table)
    assert mounts.private("/tmp", tmp_path) is None
    (tmp_path / "self/ns/pid").symlink_to(procfs.FIRST_PID_NAMESPACE)
    assert mounts.private("/tmp", tmp_path)
    assert mounts.private("/", tmp_path) is False
