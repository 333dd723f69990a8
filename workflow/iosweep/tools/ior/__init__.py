"""IOR: throughput and IOPS of MPI ranks over files of their own or one that they share, by POSIX or MPI-IO."""

from __future__ import annotations

from collections.abc import Mapping

from iosweep.tools import Step, Tool
from iosweep.tools.ior import command, output
from iosweep.tools.ior.command import OPTIONS, PHASES


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
    outputs: Mapping[str, str] = {"summary": command.SUMMARY, "ranks": command.RANKS}
    signs = (rb"IOR-\S{0,80}: MPI Coordinated", rb"access[ ,]{1,20}bw\(MiB/s\)[ ,]", rb'"bwMiB"\s*:')
    options = OPTIONS
    phases = PHASES

    check = staticmethod(command.check)
    check_directory = staticmethod(command.check_directory)
    file_set = staticmethod(command.file_set)
    argv = staticmethod(command.argv)
    parse = staticmethod(output.parse)
    read = staticmethod(output.read)

    def inodes(self, step: Step) -> int:
        new = step.phase.writes and step.options["write_mode"] == "new"
        return (step.tasks if step.options["file_per_process"] else 1) if new else 0


TOOL = Ior()
