"""mdtest: rates of metadata operations of MPI ranks on files and directories."""

from __future__ import annotations

from collections.abc import Mapping

from iosweep.tools import FileSet, Step, Tool
from iosweep.tools.mdtest import command, output
from iosweep.tools.mdtest.command import OPTIONS, PHASES


class Mdtest(Tool):
    """mdtest 4.0 or newer, `threads_per_node` ranks on each node."""

    name = "mdtest"
    help = "rates of creating, looking up, reading and deleting files and directories, by MPI ranks"
    program = "mdtest"
    get_it = "spack install ior, or build it from github.com/hpc/ior"
    version_argv = ("mdtest", "-a", "DUMMY", "-n", "1")  # it has no --version; this touches no file
    version_pattern = r"^mdtest-(\S+) was launched"
    too_old = (r"[0-3]\.", "mdtest {} averages its ranks' own rates; 4.0 or newer is needed")
    mpi = True
    together = True
    outputs: Mapping[str, str] = {"ranks": command.RANKS}
    signs = (
        rb"mdtest-\S{0,80} was launched with \d{1,9} total task",
        rb"SUMMARY(?: rate| time)?(?: \([^)\n]{0,20}\))?: \(of \d{1,9} iterations\)",
    )
    options = OPTIONS
    phases = PHASES

    check = staticmethod(command.check)
    check_directory = staticmethod(command.check_directory)
    argv = staticmethod(command.argv)
    parse = staticmethod(output.parse)
    read = staticmethod(output.read)

    def file_set(self, step: Step, fresh: str) -> FileSet:
        return FileSet(fresh, "fresh", of_all_nodes=True)

    def leftover(self, step: Step) -> int | None:
        names = {phase.name for phase in step.phases}
        if "create" not in names:
            return None
        return 0 if "delete" in names else step.tasks * step.number("files_per_thread")

    def inodes(self, step: Step) -> int:
        # directories are deleted before files are made; beside them a tree for each rank
        return step.tasks * (step.number("files_per_thread") + 2) + 2

    def work(self, step: Step) -> int:
        return step.tasks * step.number("files_per_thread") * len(step.phases)


TOOL = Mdtest()
