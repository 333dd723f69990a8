"""The distributed file systems that other tests use: what the verbs of `dfs.Dfs` do, and that nothing is left."""

import subprocess
import time
from pathlib import Path

import pytest

from dfs import AT, DATA, Dfs
from slurm import Cluster
from waiting import wait_for


def says(dfs: Dfs, node: str, *command: str) -> str:
    return dfs.cluster.run(command, on=node).stdout.strip()


def test_every_node_has_a_client_of_its_own(dfs: Dfs) -> None:
    says(dfs, "n1", "sh", "-c", f"echo written > {AT}/file")
    wait_for(lambda: says(dfs, "n2", "cat", f"{AT}/file") == "written", 10)
    devices = {says(dfs, node, "stat", "--format=%d", f"{AT}/file") for node in ("n1", "n2", "head")}
    assert len(devices) == 3
    says(dfs, "n1", "rm", f"{AT}/file")


def test_a_client_is_killed_on_one_node(dfs: Dfs) -> None:
    dfs.kill_client("n1")
    assert dfs.cluster.run(["ls", AT], on="n1", check=False).returncode
    says(dfs, "n2", "ls", AT)
    dfs.start_client("n1")
    says(dfs, "n1", "ls", AT)


def test_a_mount_is_missing_on_one_node(dfs: Dfs) -> None:
    dfs.umount("n2")
    assert "fuse" not in says(dfs, "n2", "stat", "--file-system", "--format=%T", AT)
    assert "fuse" in says(dfs, "n1", "stat", "--file-system", "--format=%T", AT)


def test_a_server_is_slow(dfs: Dfs) -> None:
    dfs.slow("s1", 0.05)
    knock = "start=$(date +%s%N); ! true 3<>/dev/tcp/s1/1; echo $(($(date +%s%N) - start))"
    assert int(dfs.cluster.run(["bash", "-c", knock]).stdout) >= 100e6  # there and back
    dfs.fast("s1")
    says(dfs, "n1", "ls", AT)


def test_servers_are_killed_powered_off_and_full(dfs: Dfs) -> None:
    dfs.kill("s1")
    dfs.power_off("s2")
    assert not dfs.daemons("s1")
    dfs.repair()
    for server in DATA:
        assert dfs.daemons(server)
    dfs.fill()
    assert dfs.cluster.run(["stat", "--format=%b", dfs.state / "s1/disk/others"], on="s1").stdout.strip() != "0"
    dfs.repair()
    dfs.cluster.run(["dd", "if=/dev/zero", f"of={AT}/big", "bs=1M", "count=64", "status=none"], on="n1", timeout=60)
    says(dfs, "n1", "rm", f"{AT}/big")


def test_a_stopped_server_goes_on(dfs: Dfs) -> None:
    dfs.stop("s1")
    assert {process.status() for process in dfs.daemons("s1")} == {"stopped"}
    dfs.go_on("s1")
    says(dfs, "n1", "ls", AT)


def test_another_volume_is_mounted_at_the_same_path(dfs: Dfs) -> None:
    source = dfs.other_volume()
    says(dfs, "n1", "touch", f"{AT}/in-the-volume")
    dfs.mount("n2", source)
    assert "in-the-volume" not in says(dfs, "n2", "ls", AT)
    says(dfs, "n1", "rm", f"{AT}/in-the-volume")


@pytest.fixture
def slurm_before() -> set[str]:
    return left()


def left() -> set[str]:
    """What of a file system is seen on this machine: loop devices of our images, daemons in our own namespace."""
    loops = subprocess.run(["losetup", "--list", "--noheadings", "--output=BACK-FILE"], capture_output=True, text=True)
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    links = Path("/sys/class/net").iterdir()
    return {
        *(line for line in loops.stdout.splitlines()), *(line.split()[4] for line in mounts),
        *(link.name for link in links), *(str(file) for file in Path("/var/lib").glob("glusterd/*/*")),
    }  # fmt: skip


def test_nothing_is_left_when_the_cluster_ends(slurm_before: set[str], slurm_dfs: Dfs) -> None:
    """Not even where it ends with its file system."""
    cluster = Cluster().up()
    dfs = Dfs(cluster, slurm_dfs.kind, clients=["n1"])
    dfs.up()
    state, ours = cluster.state, [*dfs.daemons("s1"), *dfs.daemons("s2")]
    assert ours
    cluster.down()
    wait_for(lambda: not any(process.is_running() and process.status() != "zombie" for process in ours))
    assert not state.exists()
    end = time.monotonic() + 10
    # others may use the machine: of ours it has the path of our state
    while any(str(state) in each for each in left()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(str(state) in each for each in left())
    assert not any(file.name.startswith(("near-", "link-")) for file in Path("/sys/class/net").iterdir())
    assert {each for each in left() if each.startswith("/var/lib/glusterd")} <= slurm_before
