"""scripts/debian-packages decides well, and leaves policy-rc.d as it found it, whatever happens.

The script runs in a world of its own: PATH is one directory with the few real programs it uses and
stand-ins for the rest, and IOSWEEP_ROOT puts every path it touches below the test's directory. So nothing
here needs root or a Debian.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from waiting import PATIENCE_S, over, wait_for

pytestmark = pytest.mark.local

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "debian-packages"
REAL_PROGRAMS = ["cat", "chmod", "flock", "grep", "mktemp", "mv", "rm", "tail"]

# Each call of apt-get leaves a line in `calls`: the policy that is in force, then the arguments.
# A fifo `hold` keeps an install waiting, which then leaves the policy that is in force at its end.
APT_GET = """#!/bin/sh
policy=none
if [ -x "$IOSWEEP_ROOT/usr/sbin/policy-rc.d" ]; then "$IOSWEEP_ROOT/usr/sbin/policy-rc.d"; policy=$?; fi
echo "policy=$policy frontend=$DEBIAN_FRONTEND $*" >>"$STATE/calls"
if [ -p "$STATE/hold" ]; then
    read -r go <"$STATE/hold"
    "$IOSWEEP_ROOT/usr/sbin/policy-rc.d"
    echo "policy=$? at the end" >>"$STATE/calls"
fi
"""
DPKG_QUERY = """#!/bin/sh
for name; do :; done
grep -qx "$name" "$STATE/installed" || exit 1
printf installed
"""
APT_CACHE = """#!/bin/sh
grep -qx "$2" "$STATE/known"
"""


class Machine:
    """A made-up Debian machine: its root, its programs, and what its apt-get was asked to do."""

    def __init__(self, place: Path) -> None:
        self.root = place / "machine root"  # with a blank, so that missing quotes show
        self.state = place / "state"
        self.bin = place / "bin"
        self.policy = self.root / "usr/sbin/policy-rc.d"
        self.saved = self.root / "usr/sbin/policy-rc.d.before-iosweep"
        self.lists = self.root / "var/lib/apt/lists"
        for directory in (self.bin, self.state, self.policy.parent, self.lists, self.root / "proc"):
            directory.mkdir(parents=True)
        for name in REAL_PROGRAMS:
            real = shutil.which(name)
            assert real, f"this test needs {name}"
            (self.bin / name).symlink_to(real)
        self.fake("apt-get", APT_GET)
        self.fake("dpkg-query", DPKG_QUERY)
        self.fake("apt-cache", APT_CACHE)
        self.fake("id", "#!/bin/sh\necho 0\n")
        (self.lists / "mirror_main_binary-amd64_Packages").touch()
        (self.state / "installed").write_text("python3\n")
        (self.state / "known").write_text("chromium\nfio\npython3\n")
        self.process(1, "init")

    def fake(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def process(self, pid: int, name: str) -> None:
        (self.root / f"proc/{pid}").mkdir()
        (self.root / f"proc/{pid}/comm").write_text(f"{name}\n")

    @contextmanager
    def start(self, *names: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """The script in a process group of its own, of which nothing is left afterwards."""
        process = subprocess.Popen(
            ["/bin/sh", SCRIPT, *names],
            env={"PATH": str(self.bin), "IOSWEEP_ROOT": str(self.root), "STATE": str(self.state),
                 "TMPDIR": str(self.state)} | environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # the usual case: it has ended by itself
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def run(self, *names: str, **environment: str) -> tuple[int, str, str]:
        with self.start(*names, **environment) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
            return process.returncode, out, err

    def calls(self) -> list[str]:
        path = self.state / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_installs_what_is_missing_and_says_so_first(machine: Machine) -> None:
    assert machine.run("python3", APT="0") == (0, "", "")  # nothing is missing
    code, out, err = machine.run("fio", "python3", "chromium")
    assert (code, out, err) == (0, "installing Debian packages: fio chromium\n", "")
    (call,) = machine.calls()
    assert call.startswith("policy=101 frontend=noninteractive ")
    assert call.endswith("install --no-install-recommends fio chromium")
    assert not machine.policy.exists()
    assert not list(machine.state.glob("tmp.*")), "the log was left behind"


def slurm_conf(machine: Machine) -> None:
    (machine.root / "etc/slurm").mkdir(parents=True)
    (machine.root / "etc/slurm/slurm.conf").touch()


REFUSED: dict[str, Callable[[Machine], object]] = {
    "APT=0": lambda m: None,
    "needs root": lambda m: m.fake("id", "#!/bin/sh\necho 1000\n"),
    "slurm.conf": slurm_conf,
    "munged is running": lambda m: m.process(77, "munged"),
    "slurmd is running": lambda m: m.process(78, "slurmd"),
    "no apt-get": lambda m: (m.bin / "apt-get").unlink(),
}


@pytest.mark.parametrize("because", REFUSED)
def test_refuses_in_one_line_with_the_command(machine: Machine, because: str) -> None:
    REFUSED[because](machine)
    code, out, err = machine.run("fio", "chromium", APT="0" if because == "APT=0" else "1")
    assert (code, out, err.count("\n"), because in err) == (3, "", 1, True)
    assert err.endswith("apt-get install fio chromium\n")
    assert machine.calls() == []


def test_what_is_no_name_of_a_package_installs_nothing(machine: Machine) -> None:
    for name in ("-y", "fio;id", "fi*", ""):
        assert machine.run("fio", name)[0] == 1
    code, _, err = machine.run("fio", "fioo")
    assert (code, "no package is named 'fioo'" in err) == (1, True)
    assert not [call for call in machine.calls() if " install " in call]
    assert not machine.policy.exists()


OWN = "#!/bin/sh\n# the machine's own\nexit 104\n"


def own_policy(machine: Machine) -> None:
    machine.policy.write_text(OWN)
    machine.policy.chmod(0o750)


def assert_own_policy(machine: Machine) -> None:
    assert machine.policy.read_text() == OWN
    assert machine.policy.stat().st_mode & 0o777 == 0o750
    assert not machine.saved.exists()


@contextmanager
def held_install(machine: Machine) -> Iterator[tuple[subprocess.Popen[str], Callable[[], int]]]:
    """The script, while its apt-get is in the middle of an install, and what lets one apt-get go on.

    Nothing of it outlives the block.
    """
    os.mkfifo(machine.state / "hold")
    # One end stays open: what is written waits for the next reader, and none meets the end of the file before.
    end = os.open(machine.state / "hold", os.O_RDWR)
    try:
        with machine.start("fio") as process:
            wait_for(machine.calls, over=over(process))
            yield process, lambda: os.write(end, b"go\n")
    finally:
        os.close(end)


def test_a_signal_waits_for_apt_and_then_cleans_up(machine: Machine) -> None:
    own_policy(machine)
    with held_install(machine) as (process, let_go):
        process.send_signal(signal.SIGTERM)
        let_go()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert machine.calls()[-1] == "policy=101 at the end", "services could start while packages are being configured"
    assert_own_policy(machine)


def test_the_run_after_a_kill_puts_the_policy_back(machine: Machine) -> None:
    own_policy(machine)
    with held_install(machine) as (process, _):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)
    assert machine.saved.read_text() == OWN
    (machine.state / "hold").unlink()
    assert machine.run("fio")[0] == 0
    assert_own_policy(machine)
