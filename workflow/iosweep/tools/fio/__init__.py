"""fio: throughput, IOPS and latency over files, and metadata rates by fio's own file engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iosweep.tools import FileSet, Parsed, Phase, Value
from iosweep.tools.fio import argv as _argv
from iosweep.tools.fio import parse as _parse
from iosweep.tools.fio.options import OPTIONS, PHASES


class Fio:
    """fio 3.x, one process group per node, `threads_per_node` workers."""

    name = "fio"
    help = "throughput, IOPS, latency; metadata rates (fio's own, not comparable with mdtest)"
    program = "fio"
    get_it = "apt-get install fio, dnf install fio, or spack install fio"
    version_argv = ("fio", "--version")
    options = OPTIONS
    phases = PHASES

    def check(self, options: Mapping[str, Value], phases: Sequence[str]) -> str | None:
        return _argv.check(options, phases)

    def file_set(self, options: Mapping[str, Value], phase: Phase, fresh: str) -> FileSet:
        return _argv.file_set(options, phase, fresh)

    def argv(
        self, options: Mapping[str, Value], phase: Phase, directory: str, phase_time_s: float, seed: int
    ) -> list[str]:
        return _argv.command(options, phase, directory, phase_time_s, seed)

    def parse(self, stdout: bytes, options: Mapping[str, Value], phase: Phase) -> Parsed:
        return _parse.parse(stdout, options, phase)

    def leftover(self, options: Mapping[str, Value], phase: Phase) -> int | None:
        if phase.kind == "data":
            return None
        return 0 if phase.name == "delete" else self.work(options, phase)

    def inodes(self, options: Mapping[str, Value], phase: Phase) -> int:
        creates = phase.name == "create" or (phase.writes and options.get("write_mode") == "new")
        return int(options["threads_per_node"] or 0) * int(options["files_per_thread"] or 0) if creates else 0

    def work(self, options: Mapping[str, Value], phase: Phase) -> int:
        if phase.kind == "data":
            return 0
        return int(options["threads_per_node"] or 0) * int(options["files_per_thread"] or 0)


TOOL = Fio()
