"""Process 1 of a machine that serves a distributed file system: `server.py STATE NAME`, in new namespaces.

It is made and ends as every member of the cluster (../cluster/member.py), and has a disk and directories of its own;
../dfs.py starts its daemons.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cluster"))

import member

#: Where the daemons keep what is one machine's own.
FIXED = ("/var/lib/glusterd", "/var/log/glusterfs", "/var/lib/mfs")


def serve(state: Path, name: str) -> None:
    own = state / "dfs" / name
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


if __name__ == "__main__":
    member.main(serve)
