"""Process 1 of a machine that serves a distributed file system: `server.py STATE NAME`, in new namespaces.

Makes the machine what it is (name, address, disk, directories of its own) and says "ready"; ../dfs.py starts its
daemons. It ends as every member of the cluster does (../cluster/member.py).
"""

import os
import signal
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))

import member

#: Where the daemons keep what is one machine's own.
FIXED = ("/var/lib/glusterd", "/var/log/glusterfs", "/var/lib/mfs")


def main() -> None:
    state, name = Path(sys.argv[1]), sys.argv[2]
    own = state / "dfs" / name
    socket.sethostname(name)
    os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))
    member.become_a_machine(state, name)
    member.link(state, name)
    # The file system itself, if the head had it mounted when this machine was started, and sockets of other machines.
    member.run("umount", "--lazy", "/run/dfs", check=False)
    member.run("mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run")
    Path("/run/gluster").mkdir()
    for directory in map(Path, FIXED):
        if directory.is_dir():
            kept = own / directory.name
            kept.mkdir(parents=True, exist_ok=True)
            member.run("mount", "--bind", kept, directory)
    if (image := own / "disk.img").exists():
        (own / "disk").mkdir(exist_ok=True)
        member.run("mount", "-o", "loop,noatime", image, own / "disk")
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are reaped by the kernel
    sys.stdin.read()


if __name__ == "__main__":
    main()
