"""Runs the commands of a build one after the other, with all their output in one log."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from iosweep.errors import BuildError
from iosweep.node import process


@dataclass(frozen=True)
class Done:
    """A finished command. `exit_code`: None after the time limit."""

    exit_code: int | None
    stdout: str
    stderr: str


class Shell:
    """Runs commands given as lists. `say`: shows a line to the user; `held`: file handles that commands inherit."""

    def __init__(self, log: TextIO, say: Callable[[str], None], held: Sequence[int] = ()):
        self._log, self._held = log, held
        self.say = say

    def run(
        self,
        argv: Sequence[str | Path],
        timeout_s: float,
        environment: Mapping[str, str],
        on_line: Callable[[str], None] = lambda line: None,
        directory: Path | None = None,
    ) -> Done:
        """Run a command for at most `timeout_s` seconds. `on_line` gets every line of its standard output.

        Raises BuildError if it cannot be started. No process of it is left running, whatever is raised.
        """
        command = list(map(str, argv))
        self._log.write(f"$ {shlex.join(command)}\n")
        self._log.flush()
        printed: tuple[list[str], list[str]] = ([], [])
        try:
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=directory,
                env=dict(environment),
                text=True,
                encoding="utf-8",
                errors="replace",
                pass_fds=self._held,
                start_new_session=True,  # a terminal's Ctrl-C reaches us, and we end it cleanly
            )
        except OSError as error:
            raise BuildError(f"{command[0]} cannot be run: {error.strerror}") from None
        assert started.stdout
        assert started.stderr
        readers = [
            threading.Thread(target=self._read, args=(stream, lines, on_each), daemon=True)
            for stream, lines, on_each in (
                (started.stdout, printed[0], on_line),
                (started.stderr, printed[1], lambda line: None),
            )
        ]
        for reader in readers:
            reader.start()
        exit_code: int | None = None
        try:
            exit_code = started.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._log.write(f"(not done after {timeout_s:g} s)\n")
        finally:
            if exit_code is None:
                _end(started)
        for reader in readers:
            reader.join(_REST_S)  # a daemon may keep the output open
        if exit_code:
            self._log.write(f"(exit code {exit_code})\n")
        self._log.flush()
        return Done(exit_code, "".join(printed[0]), "".join(printed[1]))

    def note(self, text: str) -> None:
        """Show a line, and write it to the log."""
        self._log.write(f"# {text}\n")
        self._log.flush()
        self.say(text)

    def _read(self, stream: IO[str], lines: list[str], on_line: Callable[[str], None]) -> None:
        for line in stream:
            lines.append(line)
            with contextlib.suppress(OSError):  # with a full disk, go on reading: the command must not block
                self._log.write(line)
            on_line(line)


#: Seconds until an interrupted command is killed (Spack removes unfinished installations), and for its last output.
_TIDY_S = 10.0
_REST_S = 5.0


def _end(started: subprocess.Popen[str]) -> None:
    """Interrupt a command as Ctrl-C does, then kill it and all its descendants."""
    try:
        os.killpg(started.pid, signal.SIGINT)
        end = time.monotonic() + _TIDY_S
        while started.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
    except ProcessLookupError:
        pass
    process.end_descendants()


def environment(given: Mapping[str, str], root: Path) -> dict[str, str]:
    """The environment of git and Spack, without the user's settings of Spack, Python and git. Pure."""
    ours = {
        "SPACK_DISABLE_LOCAL_CONFIG": "1",
        "SPACK_USER_CACHE_PATH": str(root / "cache"),
        "SPACK_PYTHON": sys.executable,  # it has clingo, which Spack would otherwise build
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",  # failures are recognized by English texts
    }
    kept = {key: value for key, value in given.items() if not key.startswith(("SPACK_", "PYTHON", "GIT_"))}
    return kept | {key: given[key] for key in _KEPT if key in given} | ours


#: The site's access to the network.
_KEPT = ("GIT_SSL_CAINFO", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL")
