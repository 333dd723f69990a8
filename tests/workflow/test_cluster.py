"""The test cluster is what other tests take it for: several machines that leave no trace on this one."""

import contextlib
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import psutil
import pytest

import slurm as clusters
from campaign import ROOT
from slurm import NODES, Cluster, ClusterError, tidy
from waiting import PATIENCE_S

PROGRAM = [sys.executable, str(ROOT / "tests/support/slurm.py")]


def until(reached, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def seen_outside():
    """Slurm's files on this machine."""
    return sorted([*Path("/etc/slurm").iterdir(), *Path("/run/munge").glob("*")])


def networks(cluster):
    """What the daemons of a cluster can listen on. Others' may come and go beside it."""
    found = set()
    for member in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            if str(cluster.state) in member.cmdline():
                below = [p for p in member.children(recursive=True) if p.name() in ("munged", "slurmctld", "slurmd")]
                found |= {str(Path(f"/proc/{daemon.pid}/ns/net").readlink()) for daemon in below}
    return found


def test_it_leaves_this_machine_as_it_is(slurm):
    files, first, here = seen_outside(), networks(slurm), str(Path("/proc/self/ns/net").readlink())
    assert len(first - {here}) == 1 + len(NODES)
    with Cluster().up() as second:  # beside the session's
        assert seen_outside() == files
        assert len(networks(second) - first - {here}) == 1 + len(NODES)
        assert str(second.state) not in Path("/proc/self/mountinfo").read_text()
        for cluster in (slurm, second):
            said = cluster.run(["srun", "--nodes=2", "--label", "hostname"]).stdout
            assert sorted(said.split()) == ["0:", "1:", "n1", "n2"]
    assert seen_outside() == files
    assert not second.state.exists()


def test_members_are_machines_of_their_own(slurm):
    script = "hostname; cat $0; stat --format=%d /dev/shm; readlink /proc/1/ns/net; ls /sys/class/net"
    ask = ["sh", "-c", script, "/proc/sys/kernel/random/boot_id"]
    seen = [slurm.on(member, ask).stdout.split() for member in ("head", *NODES)]
    assert [words[0] for words in seen] == ["head", *NODES]
    here = [str(Path("/dev/shm").stat().st_dev), str(Path("/proc/self/ns/net").readlink())]
    for column in zip(*(words[1:4] for words in seen), strict=True):
        assert len({*column, *here}) == len(seen) + 2
    assert all(words[4:] == ["eth0", "lo"] for words in seen[1:])
    # processes of one are not seen on another
    sleeping = slurm.popen(["sleep", "1234.5"], on="n1")
    until(lambda: slurm.on("n1", ["pgrep", "-fc", "^sleep 1234.5"], check=False).stdout == "1\n")
    assert slurm.on("n2", ["pgrep", "-fc", "^sleep 1234.5"], check=False).stdout == "0\n"
    sleeping.kill()
    assert sleeping.wait(PATIENCE_S) == -signal.SIGKILL


def test_what_is_mounted_on_the_head_is_mounted_everywhere(slurm, tmp_path):
    everywhere, there = tmp_path / "every where", tmp_path / "there"
    everywhere.mkdir()
    there.mkdir()
    slurm.run(["mount", "-t", "tmpfs", "tmpfs", everywhere])
    slurm.on("n1", ["mount", "-t", "tmpfs", "tmpfs", there])
    slurm.on("n1", ["touch", everywhere / "a", there / "a"])
    assert slurm.on("n2", ["ls", everywhere, there]).stdout.split("\n")[1] == "a"
    assert slurm.on("n2", ["ls", there]).stdout == ""
    assert list(everywhere.iterdir()) == []
    slurm.run(["umount", everywhere])
    slurm.on("n1", ["umount", there])


def test_jobs_keep_off_the_cpu_that_n3_reserves(slurm):
    affinity = [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"]
    assert int(slurm.run(["srun", "--partition=spec", "--exclusive", *affinity]).stdout.split()[0]) > 0
    assert (
        len(slurm.run(["srun", "--exclusive", "--cpus-per-task", str(slurm.cpus), *affinity]).stdout.split())
        == slurm.cpus
    )


@pytest.mark.parametrize(
    "launcher", ["srun --mpi=pmi2 --ntasks=4 --overlap", "mpiexec -launcher slurm -hosts n1,n2 -ppn 2 -n 4"]
)
def test_mpi_over_two_nodes(slurm, mpi_tools, tmp_path, launcher):
    ior = [mpi_tools / "ior", "-a", "POSIX", "-F", "-w", "-b", "64k", "-t", "64k", "-o", tmp_path / "data"]
    said = slurm.run(["salloc", "--nodes=2", "--exclusive", "timeout", "300", *launcher.split(), *ior]).stdout
    lines = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in said.splitlines())}
    assert (lines["nodes"], lines["tasks"], lines["clients per node"]) == ("2", "4", "2")


def test_the_queue_says_why_a_job_waits(slurm, tmp_path):
    submit = ["sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 1000"]
    waiting = {
        "PartitionDown": ["--partition=down"],
        "PartitionTimeLimit": ["--partition=short", "--time=2"],
        "Licenses": ["--licenses=pfs:1"],
    }
    holder = int(slurm.run([*submit, "--licenses=pfs:1", "--job-name=a b|c"]).stdout)
    until(lambda: slurm.squeue()[0].state == "RUNNING")
    ids = {int(slurm.run([*submit, *options]).stdout): reason for reason, options in waiting.items()}
    until(lambda: {job.id: job.reason for job in slurm.squeue()[1:]} == ids)
    first = slurm.squeue()[0]
    assert (first.id, first.name, first.partition, first.nodes, first.user) == (holder, "a b|c", "small", "n1", "root")
    with pytest.raises(AssertionError, match="left in the queue"):
        tidy(slurm)
    assert slurm.squeue() == []


def test_a_node_dies_and_comes_back(slurm):
    job = [
        "sbatch",
        "--parsable",
        "--no-requeue",
        "--nodes=2",
        "--exclusive",
        "--output=/dev/null",
        "--wrap=sleep 1000",
    ]
    slurm.on("n1", ["srun", "--nodes=2", "true"])  # now n1 remembers the hardware address of n2
    number = slurm.run(job).stdout.strip()
    until(lambda: slurm.squeue()[0].state == "RUNNING")
    slurm.kill_node("n2", noticed=True)
    until(lambda: not slurm.squeue())
    assert "JobState=NODE_FAIL" in slurm.run(["scontrol", "show", "job", number]).stdout
    with pytest.raises(KeyError):
        slurm.on("n2", ["true"])
    assert slurm.killed == ["n2"]
    slurm.start_node("n2")
    assert sorted(slurm.on("n1", ["srun", "--nodes=2", "hostname"]).stdout.split()) == ["n1", "n2"]


def test_commands_get_signals_and_give_exit_codes(slurm, tmp_path):
    script = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nprint('on', flush=True)\n"
    )
    talking = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell script's background
    try:
        for act, code in {
            lambda process: process.terminate(): 5,
            lambda process: process.signal_group(signal.SIGINT): -signal.SIGINT,
            lambda process: process.kill(): -signal.SIGKILL,
        }.items():
            with slurm.popen([sys.executable, "-c", f"{script}time.sleep(600)"], **talking) as process:
                assert process.stdout.readline() == "on\n"
                assert psutil.Process(process.real).name().startswith("python")
                # whoever waits for it stops and goes on with it
                process.send_signal(signal.SIGSTOP)
                until(lambda number=process.pid: psutil.Process(number).status() == psutil.STATUS_STOPPED)
                process.send_signal(signal.SIGCONT)
                act(process)
                assert process.wait(PATIENCE_S) == code
    finally:
        signal.signal(signal.SIGINT, ignored)
    with pytest.raises(subprocess.TimeoutExpired):
        slurm.run(["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 1234.6; :"], timeout=0.3)
    until(lambda: slurm.run(["pgrep", "-fc", "^sleep 1234.6"], check=False).stdout == "0\n")
    with pytest.raises(ClusterError, match=r"on head: \['sh', '-c', 'echo why >&2; exit 3'\] ended with 3\nwhy"):
        slurm.run(["sh", "-c", "echo why >&2; exit 3"])


def test_commands_get_directory_and_environment(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("OURS", "1")
    place = tmp_path / "a b"
    place.mkdir()
    run = {"cwd": place, "env": {"OURS": None, "MORE": "$x y"}}
    said = slurm.run(
        ["srun", "sh", "-c", 'pwd; echo "$MORE $OURS|$FI_PROVIDER|$SLURM_JOB_ID"; which iosweep'], **run
    ).stdout
    directory, words, program = said.splitlines()
    assert directory == str(place)
    assert words.startswith("$x y |tcp|")
    assert not words.endswith("|1")
    assert program == f"{sysconfig.get_path('scripts')}/iosweep"
    assert slurm.run(["cat"], input="read\n").stdout == "read\n"


def test_accounting(slurm_accounting):
    job = ["sbatch", "--parsable", "--output=/dev/null", "--account=bench", "--wrap=exit 3"]
    number = slurm_accounting.run(job).stdout.strip()
    sacct = [
        "sacct",
        "--noheader",
        "--parsable2",
        "--allocations",
        f"--jobs={number}",
        "--format=account,state,exitcode",
    ]
    # slurmctld tells slurmdbd every few seconds
    until(lambda: slurm_accounting.run(sacct).stdout == "bench|FAILED|3:0\n")
    with pytest.raises(ClusterError, match="Invalid account"):
        slurm_accounting.run(["sbatch", "--test-only", "--account=other", "--wrap=true"])


def test_it_dies_with_who_brought_it_up(slurm):
    code = "from slurm import Cluster; c = Cluster().up(); print(c.state, flush=True); input()"
    owner = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT / "tests/support",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        state = Path(owner.stdout.readline().strip())
        members = psutil.Process(owner.pid).children(recursive=True)
        names = []
        for member in members:
            with contextlib.suppress(psutil.Error):  # a child that was there for a moment
                names.append(member.name())
        assert names.count("slurmd") == len(NODES)
        owner.kill()
    _, alive = psutil.wait_procs(members, PATIENCE_S)
    assert alive == []
    assert not state.exists()


def test_a_daemon_that_does_not_start_is_named(tmp_path, monkeypatch, slurm_session):
    shutil.copytree(clusters.RECIPE, tmp_path / "recipe")
    with (tmp_path / "recipe" / "slurm.conf").open("a") as file:
        file.write("NoSuchKey=1\n")
    monkeypatch.setattr(clusters, "RECIPE", tmp_path / "recipe")
    cluster = Cluster()
    with pytest.raises(ClusterError, match=r"(?s)head did not come up.*NoSuchKey.*slurmctld ended with code 1"):
        cluster.up()
    assert not cluster.state.exists()


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(clusters.os, "geteuid", lambda: 0)
    monkeypatch.setattr(clusters, "_which", lambda program: None if program == "munged" else "/bin/true")
    assert clusters.missing() == "slurm: munged is not on PATH (Debian package munge)"
    monkeypatch.setattr(clusters.os, "geteuid", lambda: 1000)
    assert clusters.missing() == "slurm: only root can make a cluster of namespaces"


@pytest.fixture
def make_cluster(slurm_session, tmp_path):
    """`make cluster` as an argv, with stand-ins for the scripts that install."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "scripts").mkdir()
    for name in ("make-venv", "debian-packages"):
        (tmp_path / "scripts" / name).write_text("#!/bin/sh\n")
        (tmp_path / "scripts" / name).chmod(0o755)
    ours = ["env", "--unset=MAKEFLAGS", "--unset=ARGS"]  # we may be below a `make test ARGS=...`
    return [*ours, "make", "--no-print-directory", f"--directory={tmp_path}", "cluster"]


def test_make_cluster_runs_a_command(make_cluster):
    said = subprocess.run([*make_cluster, "ARGS=-- srun -N2 hostname"], capture_output=True, text=True, check=True)
    assert sorted(said.stdout.split()) == ["n1", "n2"], said.stderr
    said = subprocess.run([*make_cluster, "ARGS=-- false"], capture_output=True, text=True, check=False)
    assert (said.returncode, "Error 1" in said.stderr) == (2, True)


def test_its_exit_code_is_that_of_the_command(slurm_session):
    assert subprocess.run([*PROGRAM, "--", "sh", "-c", "kill -9 $$"], check=False).returncode == 128 + signal.SIGKILL


def commands_below(pid):
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found.append(process.cmdline())
    return found


def test_make_cluster_gives_a_shell(make_cluster, tmp_path):
    ours, theirs = pty.openpty()
    # On a dumb terminal bash cuts a prompt that is longer than the line.
    shell = subprocess.Popen(
        ["setsid", "--ctty", *make_cluster], stdin=theirs, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    said = b""

    def read_until(text):
        nonlocal said
        while text.encode() not in said:
            if not select.select([ours], [], [], PATIENCE_S)[0]:
                pytest.fail(f"it did not print {text!r} within {PATIENCE_S} s: {said.decode()}")
            try:
                said += os.read(ours, 4096)
            except OSError:
                pytest.fail(f"it has ended with {shell.wait()}: {said.decode()}")
        before, _, said = said.partition(text.encode())
        return before.decode()

    prompt = f"[cluster head] {tmp_path}# "
    greeting = read_until(prompt)
    assert "exit ends the cluster" in greeting
    assert all(f"{name} " in greeting for name in ("small*", "short", "spec", "big", "bigsh", "down"))
    os.write(ours, b"sleep 1234.7\r")
    until(lambda: ["sleep", "1234.7"] in commands_below(shell.pid))
    os.write(ours, b"\x03")  # Ctrl-C ends the sleep and nothing else
    read_until(prompt)
    os.write(ours, b"srun -N2 --label hostname | sort\r")
    assert "0: n1\r\n1: n2" in read_until(prompt)
    # another one, from a terminal that knows nothing of ours
    (line,) = [line.strip() for line in greeting.splitlines() if "nsenter" in line]
    ask = "type -P iosweep slurmctld; pwd; echo $FI_PROVIDER; echo $SLURM_CONF.; sinfo --noheader --format=%R | head -1"
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "SLURM_CONF": "/elsewhere"}
    command = ["sh", "-c", f"exec {line} -i -c '{ask}'"]
    other = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    iosweep, slurmctld, *rest = other.stdout.splitlines()
    assert iosweep == f"{tmp_path}/.venv/bin/iosweep", other.stderr
    assert slurmctld.endswith("/slurmctld")
    assert rest == [str(tmp_path), clusters.MPI_ENVIRONMENT["FI_PROVIDER"], ".", "small"]
    os.write(ours, b"false; exit\r")
    assert shell.wait(PATIENCE_S) == 0
    os.close(ours)
