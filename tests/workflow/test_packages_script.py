"""scripts/debian-packages decides well, and leaves policy-rc.d as it found it, whatever happens.

The script runs in a world of its own: PATH is one directory with the few real programs it uses and
stand-ins for the rest, and IOSWEEP_ROOT puts every path it touches below the test's directory. So nothing
here needs root or a Debian.
"""

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from waiting import PATIENCE_S

pytestmark = pytest.mark.local

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "debian-packages"
REAL_PROGRAMS = ["cat", "chmod", "cp", "flock", "grep", "mktemp", "mv", "rm", "tail"]

# Each call of apt-get leaves a line in `calls`: the policy that is in force, then the arguments.
# $BEFORE is what happens in its middle.
APT_GET = """#!/bin/sh
eval "$BEFORE"
policy=none
if [ -x "$IOSWEEP_ROOT/usr/sbin/policy-rc.d" ]; then "$IOSWEEP_ROOT/usr/sbin/policy-rc.d"; policy=$?; fi
echo "policy=$policy frontend=$DEBIAN_FRONTEND $*" >>"$STATE/calls"
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

    def run(self, *names: str, **environment: str) -> tuple[int, str, str]:
        own = {"PATH": str(self.bin), "IOSWEEP_ROOT": str(self.root), "STATE": str(self.state)}
        done = subprocess.run(
            ["/bin/sh", SCRIPT, *names], env=own | {"TMPDIR": str(self.state)} | environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

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


def assert_own_policy(machine: Machine) -> None:
    assert machine.policy.read_text() == OWN
    assert machine.policy.stat().st_mode & 0o777 == 0o750
    assert not machine.saved.exists()


def test_a_signal_waits_for_apt_and_then_cleans_up(machine: Machine) -> None:
    machine.policy.write_text(OWN)
    machine.policy.chmod(0o750)
    assert machine.run("fio", BEFORE="kill -TERM $PPID")[0] == 128 + signal.SIGTERM
    [call] = machine.calls()
    assert call.startswith("policy=101 "), "services could start while packages are being configured"
    assert_own_policy(machine)


def test_the_run_after_a_kill_puts_the_policy_back(machine: Machine) -> None:
    machine.run("fio", BEFORE=f"cp '{machine.policy}' '{machine.state}/ours'")
    shutil.move(machine.state / "ours", machine.policy)
    machine.saved.write_text(OWN)
    machine.saved.chmod(0o750)
    assert machine.run("fio")[0] == 0
    assert_own_policy(machine)
