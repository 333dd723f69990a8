"""IOR: throughput and IOPS of MPI ranks over files of their own or one that they share, by POSIX or MPI-IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iosweep.tools import FileSet, Parsed, Phase, Step, Streams, Tool, Value
from iosweep.tools.ior import command as _command
from iosweep.tools.ior import output
from iosweep.tools.ior.command import OPTIONS, PHASES
from iosweep.tools.reading import Reading, Signs


class Ior(Tool):
    """IOR 4.0 or newer, `threads_per_node` ranks on each node."""

    name = "ior"
    title = "IOR"
    help = "throughput and IOPS of MPI ranks; file per process, shared file, MPI-IO"
    program = "ior"
    get_it = "spack install ior, or build it from github.com/hpc/ior"
    version_argv = ("ior", "-a", "DUMMY", "-b", "1k", "-t", "1k")  # it has no --version; this touches no file
    version_pattern = r"^IOR-(\S+?):"
    too_old = (r"[0-3]\.", "IOR {} has neither minTimeDuration nor random data; 4.0 or newer is needed")
    mpi = True
    outputs: Mapping[str, str] = {"summary": _command.SUMMARY, "ranks": _command.RANKS}
    signs = Signs(
        lines=(rb"IOR-\S{0,80}: MPI Coordinated", rb"access[ ,]{1,20}bw\(MiB/s\)[ ,]", rb'"bwMiB"\s*:'),
        rows=rb"\n *(?:write|read)[ ,]{1,99}\d",
        beginnings={
            rb"access,rank,": "the times of single ranks (saveRankPerformanceDetailsCSV), not IOR's results",
            rb"time,runtime,tp\s": "the times of single operations (savePerOpDataCSV), not IOR's results",
        },
    )
    options = OPTIONS
    phases = PHASES

    def check(self, options: Mapping[str, Value], phases: Sequence[str], time_s: float | None) -> str | None:
        return _command.check(options, phases, time_s)

    def check_directory(self, directory: str) -> str | None:
        return _command.check_directory(directory)

    def file_set(self, step: Step, fresh: str) -> FileSet:
        return _command.file_set(step, fresh)

    def argv(self, step: Step, directory: str, seed: int) -> list[str]:
        return _command.command(step, directory, seed)

    def parse(self, streams: Streams, step: Step, phase: Phase) -> Parsed:
        return output.parse(streams, step, phase)

    def read(self, data: bytes) -> Reading:
        return output.read(data)

    def inodes(self, step: Step) -> int:
        new = step.phase.writes and step.options["write_mode"] == "new"
        return (step.tasks if step.options["file_per_process"] else 1) if new else 0


TOOL = Ior()
