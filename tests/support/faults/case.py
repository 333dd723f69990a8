"""A small campaign against a file system of its own, and all that must be so when something went wrong with it."""

import contextlib
import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psutil

import foreign
import mounts
from campaign import Allocation
from waiting import wait_for

#: Two points of one phase that writes new files: nothing has to be prepared.
SWEEP: dict[str, Any] = {
    "name": "s",
    "tool": "fio",
    "phases": ["seq_write"],
    "axes": {"threads_per_node": [1, 2]},
    "options": {"file_size": "2m", "transfer_size": "64k", "write_mode": "new"},
    "phase_time": "50ms",
    "repetitions": 1,
}
#: One of them, for what happens before the first.
ONE = SWEEP | {"axes": {}}
#: Two points that read the files of one set.
READS = SWEEP | {"phases": ["rand_read"], "options": {"file_size": "256k", "transfer_size": "4k"}}
#: What fio is told of the phase.
WRITING, READING, PREPARING = "--name=seq_write", "--name=rand_read", "--name=prepare"
#: Nothing of ours takes longer.
PATIENCE_S = 300
_TESTS = Path(__file__).resolve().parent.parent
_STORED = re.compile(r"r\d{3,}-\d+(\.superseded)?\.(json|zip)|missing\.json")


class Run:
    """A runner that was started. All processes below it have a variable of its own in their environment."""

    def __init__(self, command: list[str], environment: dict[str, str], place: Path):
        self._variable = f"IOSWEEP_FAULT={uuid.uuid4()}"
        self._said = place / f"said-{self._variable[-8:]}"
        name, _, value = self._variable.partition("=")
        # a file: what outlives the runner would hold a pipe open
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                command, env=environment | {name: value}, cwd=place, stderr=said, start_new_session=True
            )

    def end(self) -> int:
        """Wait for it; returns the exit code as a shell tells it."""
        code = self.process.wait(PATIENCE_S)
        return code if code >= 0 else 128 - code

    def said(self) -> str:
        return self._said.read_text(errors="replace")

    def over(self) -> str | None:
        """What it said, if it has ended. For `wait_for`."""
        return None if self.process.poll() is None else self.said()

    def processes(self) -> list[psutil.Process]:
        """What lives of it, daemons included."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, psutil.Error):
                if entry.name.isdigit() and self._variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(psutil.Process(int(entry.name)))
        return found

    def tool(self) -> list[psutil.Process]:
        """Waits until fio writes, its workers included; returns their processes."""

        def running() -> list[psutil.Process]:
            found = []
            for process in self.processes():
                with contextlib.suppress(psutil.Error):
                    command = process.cmdline()
                    if command and Path(command[0]).name == "fio" and WRITING in command:
                        found.append(process)
            return found if len(found) > 1 else []

        wait_for(running, PATIENCE_S, self.over)
        time.sleep(0.1)
        return running()

    def agent(self) -> psutil.Process:
        """Its child that touches the target."""

        def alone() -> list[psutil.Process]:
            with contextlib.suppress(psutil.Error):
                return [process for process in self.processes() if "iosweep.target.agent" in process.cmdline()]
            return []

        [found] = wait_for(alone, PATIENCE_S, self.over)
        return found

    def kill(self) -> None:
        """Nothing of it may outlive its test."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()


class Case(Allocation):
    """The target is a directory on the file system that is mounted at `mount`, with things of others on it."""

    def __init__(self, place: Path, sweep: dict[str, Any], target: dict[str, Any], limits: dict[str, Any]):
        self._sweep, self._settings, self._limits = sweep, target, limits
        self.mount = place / "mount"
        (place / "locks").mkdir()
        (place / "tmp").mkdir()
        (place / "shm").mkdir()
        super().__init__(place, sweep)
        self.target = self.mount / "scratch"
        self.ours = self.target / "iosweep-c"
        self.beside = place / "beside"
        #: before the runner's command, after it, and in its environment
        self.prefix: list[str] = []
        self.arguments: list[str] = []
        self.more: dict[str, str] = {}
        #: whether what has the name of the campaign's directory is somebody else's
        self.theirs = False
        #: whether something of the campaign stays on the target in the end
        self.stays = False
        #: the command, where its plan must not be written again
        self.planned: list[str] = []
        self.reset()

    def reset(self, target: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> None:
        """Configure anew, with these keys changed."""
        self.configure(
            self._sweep,
            target={"directory": str(self.target), "lock": str(self.place / "locks")} | self._settings | (target or {}),
            limits={"retried": "0%", "fill": "100%", "share_of_free": "100%"} | self._limits | (limits or {}),
            tools={"variables": ["STANDIN_FAULT"]},
        )

    def plant(self) -> None:
        """Make the target, and things of others that nobody may touch."""
        self.target.mkdir()
        self.beside.mkdir()
        foreign.plant(self.mount, self.target, self.beside)
        mounts.sync(self.mount)

    def at_call(self, script: str, nth: int = 2, call: str = WRITING) -> None:
        """Have fio run a shell script first, at its nth call with this argument: it may end in its place, or harm."""
        self.fake(f"""
case "$*" in *{call}*) echo >> "$0.calls"; [ $(wc -l < "$0.calls") != {nth} ] || {{
{script}
}};; esac
exec "$fio" "$@" """)

    def measure_for_long(self) -> None:
        """Have fio take a minute for the first point, but only once."""
        self.at_call('exec "$fio" "$@" --runtime=60s', nth=1)

    def obey_modes(self) -> None:
        """Run without the right of root to read and write everything."""
        self.prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]

    def start_ranks(self, tools: Path) -> None:
        """Measure with ranks, by these tools; what they share in memory is in a directory of the case."""
        self.path = f"{tools}{os.pathsep}{self.path}"
        self.arguments = ["--launcher", "mpiexec"]
        self.prefix = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /dev/shm; exec "$@"', str(self.place / "shm")]

    def python(self, code: str) -> str:
        """The words of a shell that run Python code in which our modules are known."""
        return f"PYTHONPATH={shlex.quote(str(_TESTS))} {shlex.quote(sys.executable)} -c {shlex.quote(code)}"

    def start(self) -> Run:
        environment = self.environment | {"TMPDIR": str(self.place / "tmp")} | self.more
        return Run([*self.prefix, *(self.planned or self.command(*self.arguments))], environment, self.place)

    @contextlib.contextmanager
    def running(self) -> Iterator[Run]:
        """A runner of somebody else, beside the one that is looked at."""
        run = self.start()
        try:
            yield run
            run.process.send_signal(signal.SIGINT)
            run.end()
        finally:
            run.kill()

    def elsewhere(self) -> "Case":
        """Another campaign, in another directory of the same file system."""
        place = self.place / "elsewhere"
        place.mkdir()
        other = Case(place, self._sweep, {"lock": str(self.place / "locks")}, self._limits)
        other.mount, other.path, other.target = self.mount, self.path, self.mount / "elsewhere"
        other.target.mkdir()
        other.reset()
        return other

    def outside(self) -> dict[Path, Any]:
        """Everything on the target's file system and beside it, but the campaign's own directory."""
        ours = None if self.theirs else self.ours
        found = foreign.states(self.mount, ours) | foreign.states(self.beside)
        # the campaign's directory is made in the one, and faults make files in the other
        del found[self.target], found[self.mount]
        return found

    def intact(self, whole: bool = True) -> dict[str, bytes]:
        """See that the store is as it must be; returns the committed results and their archives.

        `whole`: the runner ended by itself, and has tidied up.
        """
        committed: dict[str, bytes] = {}
        for file in self.results.glob("points/*/*"):
            assert _STORED.fullmatch(file.name) or not whole, f"{file} is left"
            if not file.name.endswith(".json") or file.name == "missing.json":
                continue
            record = msgspec.json.decode(file.read_bytes())
            archive = (file.parent / record["raw"]["name"]).read_bytes()
            assert hashlib.sha256(archive).hexdigest() == record["raw"]["sha256"]
            name = f"{file.parent.name}/{file.name.replace('.superseded', '')}"
            committed |= {name: file.read_bytes(), name.replace(".json", ".zip"): archive}
        for file in self.results.glob("*/*.json"):
            msgspec.json.decode(file.read_bytes())
        assert not (self.results / "scratch").exists() or not whole
        return committed


def ended(run: Run, seconds: float = 120) -> bool:
    """Whether nothing is left of a run, sooner or later."""
    end = time.monotonic() + seconds
    while run.processes():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
