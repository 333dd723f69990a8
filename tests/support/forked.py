"""Commands of iosweep, each in a process of its own that is forked from one which has imported everything.

An import takes as long as ten such commands. A command that hangs is killed, and one that fills the memory fails.
"""

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Longer than any command takes on a busy machine, and more than it needs.
PATIENCE_S, MEMORY = 60, 3 << 30
_HUNG = -1000


@dataclass(frozen=True)
class Ended:
    code: int
    said: str

    @property
    def hung(self) -> bool:
        return self.code == _HUNG


class Commands:
    """`run` runs `iosweep` with these arguments, in that directory."""

    def __init__(self, process: "subprocess.Popen[str]", place: Path):
        self._process, self._said = process, place / "said"

    def run(self, arguments: Sequence[str], cwd: Path) -> Ended:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([list(arguments), str(cwd), str(self._said)]) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Ended(code, self._said.read_text(errors="replace"))


@contextlib.contextmanager
def commands(place: Path) -> Iterator[Commands]:
    """What they say is kept in `place` for a moment."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Commands(process, place)
        finally:
            process.kill()


#: What the commands import, some of it only when they need it.
_MODULES = (
    "scipy.stats", "pyarrow.parquet", "pyarrow.csv", "altair", "jinja2", "vl_convert", "rich.table",
    *(f"iosweep.commands.{name}" for name in ("clean", "check", "list", "plan", "report", "rerun", "show")),
    "iosweep.commands.watch.screen", "iosweep.commands.measure",
    "iosweep.dag", "iosweep.results.merge",
    *(f"iosweep.report.{name}" for name in ("figure_files", "headline", "page")),
)  # fmt: skip


def _serve() -> None:
    for name in _MODULES:
        importlib.import_module(name)
    for line in sys.stdin:
        arguments, cwd, said = json.loads(line)
        pid = os.fork()
        if not pid:
            _obey(arguments, cwd, said)
        print(_end(pid), flush=True)


def _obey(arguments: list[str], cwd: str, said: str) -> None:
    from iosweep.commands import cli

    code = 70
    try:
        to = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        null = os.open(os.devnull, os.O_RDONLY)
        for number, handle in ((0, null), (1, to), (2, to)):
            os.dup2(handle, number)
        os.chdir(cwd)
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        try:
            code = cli.main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _end(pid: int) -> int:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return _HUNG


if __name__ == "__main__":
    _serve()
