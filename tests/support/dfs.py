"""A distributed file system on the test cluster: MooseFS or GlusterFS, with real servers and FUSE clients.

    with Cluster() as cluster, Dfs(cluster, "moosefs") as dfs:
        cluster.run(["srun", "-N2", "ls", AT])
        dfs.stop("s1")

Each server is a machine of its own on the cluster's bridge (dfs/server.py), with a disk of its own. The head, n1 and n2
have a client of their own, as from their fstab. Nothing listens outside, and all of it ends with the cluster.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import psutil

from slurm import Cluster, ClusterError

RECIPE = Path(__file__).with_name("dfs")
KINDS = ("moosefs", "glusterfs")
ADDRESSES = {"m1": "10.77.0.241", "s1": "10.77.0.242", "s2": "10.77.0.243"}
DATA = ("s1", "s2")
CLIENTS = ("head", "n1", "n2")
#: Of each data server. Room for all tests: MooseFS frees deleted files after minutes.
DISK = "8G"
#: Not on the file system that all members share, so that each can mount a client of its own.
BASE = "/run/dfs"
AT = f"{BASE}/scratch"
#: A wait that comes true costs no more; a busy machine may need minutes.
_PATIENCE = 600.0

#: What is needed, and the Debian packages that have it.
_PROGRAMS = {
    "moosefs": {"mfsmaster": "moosefs-master", "mfschunkserver": "moosefs-chunkserver", "mfsmount": "moosefs-client"},
    "glusterfs": {"glusterd": "glusterfs-server", "gluster": "glusterfs-client", "mount.glusterfs": "glusterfs-client"},
}  # fmt: skip
_ANYWHERE = {"mkfs.ext4": "e2fsprogs", "truncate": "coreutils", "fallocate": "util-linux"}
_DAEMONS = ("mfsmaster", "mfschunkserver", "glusterd", "glusterfsd", "glusterfs", "mfsmount")
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))

_MASTER = """WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = {own}
EXPORTS_FILENAME = {own}/exports
LOCK_MEMORY = 0
BACK_META_KEEP_PREVIOUS = 1
OPERATIONS_DELAY_INIT = 2
OPERATIONS_DELAY_DISCONNECT = 2
"""
_CHUNKS = """WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = {own}
HDD_CONF_FILENAME = {own}/disks
HDD_LEAVE_SPACE_DEFAULT = 16MiB
LOCK_MEMORY = 0
MASTER_HOST = m1
MASTER_RECONNECTION_DELAY = 1
"""


def missing(kind: str) -> str | None:
    """Why there can be no such file system here, or None. (Whether there can be a cluster, slurm.missing says.)"""
    for program, package in {**_PROGRAMS[kind], **_ANYWHERE}.items():
        if shutil.which(program, path=_PATH) is None:
            return f"{kind}: {program} is not on PATH (Debian package {package})"
    devices = ("/dev/fuse", "/dev/loop-control")
    return next((f"{kind}: {device} is not there" for device in devices if not Path(device).exists()), None)


class Dfs:
    """The file system, mounted at AT on CLIENTS, as a context. Each file has one copy."""

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self.cluster, self.kind = cluster, kind
        #: The machines: first the metadata server, if there is one.
        self.servers = (("m1",) if kind == "moosefs" else ()) + DATA
        self.state = cluster.state / "dfs"

    def __enter__(self) -> Self:
        """Bring it up, mounted everywhere: MooseFS in about 3 s, GlusterFS in 9. ClusterError if that fails."""
        if reason := missing(self.kind):
            raise ClusterError(reason)
        try:
            for server in self.servers:
                (self.state / server).mkdir(parents=True)
            for server in DATA:
                image = self.state / server / "disk.img"
                subprocess.run(["truncate", f"--size={DISK}", image], check=True)
                quick = ("-E", "lazy_itable_init=1,lazy_journal_init=1", "-O", "^has_journal")
                subprocess.run(["mkfs.ext4", "-q", "-m", "0", *quick, image], check=True, env={"PATH": _PATH})
            self._all(self._boot, self.servers)
            self.cluster.run(["mkdir", "-p", BASE])
            # Every member has the directory; what the head mounts in it is not seen elsewhere.
            self.cluster.run(["mount", "-t", "tmpfs", "-o", "mode=755", "dfs", BASE])
            self.cluster.run(["mount", "--make-private", BASE])
            self.cluster.run(["mkdir", AT])
            getattr(self, f"_make_{self.kind}")()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        """End all clients and servers, and remove what they had. The cluster stays."""
        up = [member for member in CLIENTS if member == "head" or member not in self.cluster.killed]
        for member in up:
            self.umount(member)
        for server in self.servers:
            with contextlib.suppress(KeyError, ProcessLookupError):
                self.cluster.kill_node(server)
        for member in up:
            self.cluster.run(["umount", "--lazy", BASE], on=member, check=False)
        shutil.rmtree(self.state, ignore_errors=True)

    def repair(self) -> None:
        """Undo what the verbs below have done, and wait until every client can write: for the next test."""
        for server in self.servers:
            if not self.daemons(server):
                self.start(server)
            else:
                self._signal(signal.SIGCONT, self.daemons(server))
        self.unfill()
        # After a server was away a client may wait, or answer, for a minute what was true then: begin anew.
        self._all(self.mount, CLIENTS)
        self._written(CLIENTS)

    # the servers

    def stop(self, server: str) -> None:
        """SIGSTOP to its daemons: connections stay, and nothing is answered."""
        self._signal(signal.SIGSTOP, self.daemons(server))

    def kill(self, server: str) -> None:
        """SIGKILL to its daemons: connections are refused. `start` starts them again."""
        self._signal(signal.SIGKILL, self.daemons(server))
        self._until(lambda: not self.daemons(server))

    def start(self, server: str) -> None:
        """Start the daemons of a machine that has none."""
        own = self.state / server
        if server == "m1":
            command = ["mfsmaster", "-c", f"{own}/mfsmaster.cfg", "-a", "start"]
        elif self.kind == "moosefs":
            command = ["mfschunkserver", "-c", f"{own}/mfschunkserver.cfg", "start"]
        else:
            command = ["glusterd", "--log-level=WARNING"]
        self._daemon(command, server)

    def fill(self) -> None:
        """Take what is left of the disks of data servers, as other users' files do, while something is written."""
        for server in DATA:
            disk = self.state / server / "disk"
            for leave_mib in (0, 8, 32):
                free = self.cluster.run(["stat", "--file-system", "--format=%a %S", disk], on=server).stdout.split()
                mib = (int(free[0]) * int(free[1]) >> 20) - leave_mib
                words = ["fallocate", f"--length={max(1, mib)}MiB", disk / "others"]
                if not self.cluster.run(words, on=server, check=False).returncode:
                    break

    def unfill(self) -> None:
        for server in DATA:
            self.cluster.run(["rm", "-f", self.state / server / "disk/others"], on=server)

    def daemons(self, server: str) -> list[psutil.Process]:
        """Those that live on a server's machine."""
        return [process for process in self._processes(server) if process.name() in _DAEMONS]

    # the clients

    def mount(self, member: str) -> None:
        """Mount it on one member, in place of what is mounted there."""
        self.umount(member)
        self.cluster.run(["mkdir", "-p", AT], on=member)
        if self.kind == "moosefs":
            words = ["mfsmount", AT, "-H", "m1", "-S", "/"]
        else:
            log = f"log-file={self.state}/client-{member}.log"
            words = ["mount", "-t", "glusterfs", "-o", log, "s1:/dfs", AT]
        self._daemon(words, member)
        self._until(lambda: self.mounted(member))

    def umount(self, member: str) -> None:
        """Unmount it on one member, whoever uses it, and end its client."""
        gone = self._client(member)
        while self.mounted(member):
            self.cluster.run(["umount", "--lazy", AT], on=member)
        self._signal(signal.SIGKILL, gone)

    def mounted(self, member: str) -> bool:
        """By the table of mounts: nothing waits for the file system."""
        lines = Path(f"/proc/{self.cluster.first(member)}/mountinfo").read_text().splitlines()
        return any(line.split()[4] == AT for line in lines)

    # how

    def _make_moosefs(self) -> None:
        own = self.state / "m1"
        (own / "metadata.mfs").write_bytes(b"MFSM NEW")
        (own / "exports").write_text("* / rw,alldirs,admin,maproot=0:0\n* . rw\n")
        (own / "mfsmaster.cfg").write_text(_MASTER.format(own=own))
        for server in DATA:
            own = self.state / server
            (own / "disks").write_text(f"{own}/disk\n")
            (own / "mfschunkserver.cfg").write_text(_CHUNKS.format(own=own))
        self.start("m1")
        self._all(self.start, DATA)
        self._all(self.mount, CLIENTS)
        self.cluster.run(["chmod", "1777", AT])  # it begins with 0777, which a campaign refuses
        self.cluster.run(["mfssetgoal", "-r", "1", AT])
        self.cluster.run(["mfssettrashtime", "-r", "0", AT])  # the space of deleted files is free at once, not in a day
        # The size is that of the data servers that have registered; a file can be written once one has.
        disk = (self.state / "s1" / "disk.img").stat().st_size
        size = ["stat", "--file-system", "--format=%b %S", AT]
        self._until(lambda: _product(self.cluster.run(size).stdout) > 1.5 * disk)
        self._written(CLIENTS[:1])

    def _make_glusterfs(self) -> None:
        self._all(self.start, DATA)
        self._until(lambda: "peer probe: success" in self._gluster("peer", "probe", "s2", check=False))
        self._until(lambda: "(Connected)" in self._gluster("peer", "status", check=False))
        bricks = [f"{server}:{self.state}/{server}/disk/dfs" for server in DATA]
        self._gluster("volume", "create", "dfs", *bricks, "force")
        self._gluster("volume", "start", "dfs")
        self._all(self.mount, CLIENTS)
        self._written(CLIENTS[:1])

    def _gluster(self, *words: str, check: bool = True) -> str:
        done = self.cluster.run(["gluster", "--mode=script", *words], on="s1", check=check)
        return done.stdout

    def _boot(self, server: str) -> None:
        self.cluster.machine(server, ADDRESSES[server], RECIPE / "server.py")

    def _daemon(self, command: Sequence[str], member: str) -> None:
        """Run what ends once its daemon is in the background. Into a file: the daemon may keep a pipe open.

        Without PYTHON, which make exports: glusterd takes it for an interpreter, and does not start with an empty one.
        """
        log = self.state / f"{member}.log"
        with log.open("a") as file:
            done = self.cluster.run(command, on=member, env={"PYTHON": None}, check=False, stdout=file, stderr=file)
        if done.returncode:
            raise ClusterError(f"on {member}: {command} ended with {done.returncode}\n{log.read_text()}")

    def _written(self, members: Iterable[str]) -> None:
        """Wait until members can write, and until statfs reports a size: MooseFS reports 0 for some seconds."""
        size = ["stat", "--file-system", "--format=%b %S", AT]
        for member in members:
            file = f"{AT}/.written-{member}"
            words = ["dd", "if=/dev/zero", f"of={file}", "bs=4k", "count=1", "conv=fsync", "status=none"]
            self._until(lambda words=words, member=member: not self._try(words, member))  # type: ignore[misc]
            self.cluster.run(["rm", file], on=member)
            self._until(lambda member=member: _product(self.cluster.run(size, on=member).stdout) > 0)  # type: ignore[misc]

    def _try(self, words: Sequence[str], member: str) -> int:
        """Run a command. A client that has not answered it after 20 s is replaced, which ends the command."""
        replacing = threading.Timer(20, self.mount, (member,))
        replacing.start()
        try:
            return self.cluster.run(words, on=member, check=False).returncode
        finally:
            replacing.cancel()
            replacing.join()

    def _processes(self, member: str) -> list[psutil.Process]:
        """All of a member's own processes, by the namespace that they are in."""
        with contextlib.suppress(OSError, ProcessLookupError):
            own = Path(f"/proc/{self.cluster.first(member)}/ns/pid").readlink()
            return [psutil.Process(pid) for pid in psutil.pids() if _link(f"/proc/{pid}/ns/pid") == own]
        return []

    def _client(self, member: str) -> list[psutil.Process]:
        """The FUSE daemon of a mount; none if it does not live."""
        found = []
        for process in self._processes(member):
            with contextlib.suppress(psutil.Error):
                words = " ".join(process.cmdline())  # "... /mnt", or MooseFS's "mfsmount (mounted on: /mnt)"
                if process.name() in ("mfsmount", "glusterfs") and words.rstrip(") ").endswith(f" {AT}"):
                    found.append(process)
        return found

    @staticmethod
    def _signal(number: int, processes: Iterable[psutil.Process]) -> None:
        """Send a signal, and wait until it has done what it does."""
        processes = list(processes)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)
        if number == signal.SIGKILL:
            psutil.wait_procs(processes, timeout=5)
        if number == signal.SIGSTOP:
            Dfs._until(lambda: all(map(_stopped, processes)))

    @staticmethod
    def _all(do: Callable[[str], Any], members: Sequence[str]) -> None:
        """At once, on several members."""
        with ThreadPoolExecutor(len(members)) as pool:
            for _ in pool.map(do, members):
                pass

    @staticmethod
    def _until(reached: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE
        while not reached():
            if time.monotonic() > end:
                raise ClusterError(f"the file system: waited {_PATIENCE:g} s in vain")
            time.sleep(0.05)


def _link(path: str) -> Path | None:
    try:
        return Path(path).readlink()
    except OSError:
        return None


def _stopped(process: psutil.Process) -> bool:
    """Or gone."""
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _product(text: str) -> int:
    one, other = map(int, text.split())
    return one * other
