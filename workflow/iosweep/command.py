"""Starting a tool's command: through the launcher, in a scratch directory, and what it leaves behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iosweep.agent import Agent
from iosweep.launch import Launcher, Mpiexec, mpiexec
from iosweep.process import MOST_BYTES, Completed
from iosweep.programs import Program
from iosweep.tools import Streams, Tool


class Scratch(OSError):
    """The scratch directory, which is beside the results, cannot be used."""


@dataclass(frozen=True)
class Commands:
    """`scratch` is a directory below the results: tools write their files there by names that need no quoting, and
    every node sees it."""

    agent: Agent
    launcher: Launcher
    scratch: Path
    mpiexec: Mpiexec | None
    programs: Mapping[str, Program]

    def argv(self, tool: Tool, command: Sequence[str], tasks: int) -> list[str]:
        """The command as it is started: the program whose hash is stored, whatever comes to stand before it on PATH."""
        exact = [self.programs[tool.name].path if command[0] == tool.program else command[0], *command[1:]]
        return self.launcher.argv(exact, tool.mpi, tasks, self.mpiexec.path if self.mpiexec else "mpiexec")

    def run(self, tool: Tool, command: Sequence[str], tasks: int, timeout_s: float) -> tuple[Completed, Streams]:
        """Run to the end, at most `timeout_s` seconds. Raises OSError if it cannot be started, Scratch if the scratch
        directory cannot be had."""
        try:
            self.clear()
            self.scratch.mkdir()
        except OSError as error:
            raise Scratch(error.errno, f"{self.scratch}: {error.strerror}") from None
        done = self.agent.run(self.argv(tool, command, tasks), timeout_s, self.scratch)
        streams = {"stdout": done.stdout, "stderr": done.stderr}
        for stream, name in tool.outputs.items():
            file = self.scratch / name
            if file.is_file() and not file.is_symlink() and file.stat().st_size <= MOST_BYTES:
                streams[stream] = file.read_bytes()
        return done, streams

    def clear(self) -> None:
        """Remove the scratch directory."""
        if self.scratch.is_symlink():
            self.scratch.unlink()
        elif self.scratch.exists():
            for place, directories, _ in os.walk(self.scratch):
                for made in (Path(place, name) for name in directories):
                    if not made.is_symlink():
                        made.chmod(0o700)  # a tool may have closed it to itself
            shutil.rmtree(self.scratch)


def needs_mpiexec(launcher: Launcher, tools: Sequence[Tool]) -> Mpiexec | str | None:
    """The mpiexec for these tools; None if there is no need of one, or the reason why there is none."""
    return mpiexec() if launcher.ranks is None and any(tool.mpi for tool in tools) else None
