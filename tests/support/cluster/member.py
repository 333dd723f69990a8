"""Process 1 of one member of the test cluster: `member.py STATE NAME`, in new namespaces (slurm.py makes them).

Makes the member what it is (name, address, boot id, mounts), starts its daemons and says "ready". It lives as long as
its standard input is open: the end of whoever holds the other end is the end of the member, and the kernel then kills
whatever runs in it. Standard library only, and nothing of the project: it starts in 10 ms.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

#: Seconds that a daemon has until it answers, on a machine that is busy.
PATIENCE = 180.0


def main(serve: Callable[[Path, str], None] | None = None) -> None:
    """`serve`: what a machine is that is neither head nor node."""
    state, name = Path(sys.argv[1]), sys.argv[2]
    socket.sethostname(name)
    # A caller that was confined to some CPUs does not make the nodes smaller.
    os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))
    become_a_machine(state, name)
    (serve or (head if name == "head" else node))(state, name)
    print("ready", flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are reaped by the kernel
    sys.stdin.read()
    if name == "head":
        os.kill(-1, signal.SIGKILL)
        run("umount", "--lazy", state / "net")
        run("umount", "--lazy", "/run/dfs", check=False)  # a distributed file system, if there is one (dfs.py)
        shutil.rmtree(state, ignore_errors=True)


def become_a_machine(state: Path, name: str) -> None:
    """What two machines never share."""
    # With one boot id, UCX takes all members for one host, tries shared memory, and MPI hangs now and then.
    boot_id = state / f"boot-id-{name}"
    boot_id.write_text(f"{uuid.uuid4()}\n")
    run("mount", "--bind", boot_id, "/proc/sys/kernel/random/boot_id")
    run("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm")
    # A sysfs shows the network of the namespace that mounts it. The cgroups below it stay the machine's.
    cgroup = Path("/sys/fs/cgroup")
    if cgroup.is_dir():
        aside = state / f"cgroup-{name}"
        aside.mkdir(exist_ok=True)
        run("mount", "--rbind", cgroup, aside)
        run("mount", "-t", "sysfs", "sysfs", "/sys")
        run("mount", "--move", aside, cgroup)
    run("ip", "link", "set", "lo", "up")


def head(state: Path, name: str) -> None:
    """The network (a bridge), the files that all members see, and the daemons of a controller."""
    # The bridge is called what the nodes call their interface, so that one name holds everywhere. It has an
    # address of its own, or it would take a new one with each node that comes, and lose who talks to it for seconds.
    run("ip", "link", "add", "eth0", "address", "02:00:00:00:00:01", "type", "bridge")
    for source, target in (("hosts", "/etc/hosts"), ("etc", "/etc/slurm"), ("run", "/run")):
        run("mount", "--bind", state / source, target)
    connect(name)
    # By this file the nodes find our network.
    run("mount", "--bind", "/proc/self/ns/net", state / "net")
    # Last: what anybody mounts here from now on is mounted on every node, as a file system of a cluster is.
    run("mount", "--make-rshared", "/")

    munge(state, name)
    wait(start("slurmctld", "-D"), lambda: listens(6817))


def munge(state: Path, name: str) -> None:
    """A munged of its own: one that two nodes share takes the second that asks for a credential for an attacker, and
    Slurm from 23.11 on then starts no step on two nodes."""
    files = (f"--key-file={state}/munge.key", f"--seed-file={state}/munge-{name}.seed")
    munged = start("munged", "--foreground", "--force", *files)
    wait(munged, lambda: Path("/run/munge/munge.socket.2").is_socket())


def node(state: Path, name: str) -> None:
    """One link to the bridge, munged and slurmd."""
    link(state, name)
    run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run/munge")
    munge(state, name)
    wait(start("slurmd", "-D"), lambda: listens(6818))


def link(state: Path, name: str) -> None:
    """One link to the bridge."""
    bridge, far_end = state / "net", f"link-{name}"
    # The link of a node that was killed goes a moment after the node.
    run("nsenter", f"--net={bridge}", "ip", "link", "delete", far_end, check=False)
    # A node that starts again has the hardware address that it had: the others remember it for up to 45 s.
    octets = socket.inet_aton(socket.gethostbyname(name))
    hardware = ":".join(f"{octet:02x}" for octet in (2, 0, *octets))
    run("ip", "link", "add", "eth0", "address", hardware, "type", "veth", "peer", "name", far_end, "netns", bridge)
    connect(name)
    run("nsenter", f"--net={bridge}", "ip", "link", "set", far_end, "up")
    run("nsenter", f"--net={bridge}", "ip", "link", "set", far_end, "master", "eth0")
    wait(None, lambda: reaches("head"))


def connect(name: str) -> None:
    """Give eth0 the address that /etc/hosts has for us."""
    address = socket.gethostbyname(name)
    # Who asks for an address asks again after 50 ms, not after a second: the first question may be too early for the
    # bridge. And a node that is dead is found to be unreachable, where Slurm would wait for its answer.
    Path("/proc/sys/net/ipv4/neigh/eth0/retrans_time_ms").write_text("50")
    run("ip", "address", "add", f"{address}/16", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")


def run(*argv: object, check: bool = True) -> None:
    """Run a command to its end; CalledProcessError if it fails, with what it said on our standard error."""
    errors = None if check else subprocess.DEVNULL
    subprocess.run([str(word) for word in argv], check=check, stdout=subprocess.DEVNULL, stderr=errors)


def start(*argv: str) -> subprocess.Popen[bytes]:
    """Start a daemon in the foreground. What it says before it opens its log goes where our own complaints go."""
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def wait(daemon: subprocess.Popen[bytes] | None, ready: Callable[[], bool]) -> None:
    """Until something is as it should be. SystemExit if the daemon has ended, or after PATIENCE."""
    until = time.monotonic() + PATIENCE
    while not ready():
        if daemon and daemon.poll() is not None:
            sys.exit(f"{daemon.args[0]} ended with code {daemon.returncode}")
        if time.monotonic() > until:
            sys.exit(f"{daemon.args[0] if daemon else 'the head'} does not answer after {PATIENCE:g} s")
        time.sleep(0.01)


def listens(port: int) -> bool:
    """Whether a port of this member is open. Without a connection, of which daemons would complain in their logs."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


def reaches(host: str) -> bool:
    """Whether packets come through: a closed port that refuses us is an answer."""
    try:
        socket.create_connection((host, 1), timeout=0.02).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main()
