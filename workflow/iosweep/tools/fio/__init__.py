"""fio: throughput, IOPS and latency over files, and metadata rates by fio's own file engines."""

from __future__ import annotations

from collections.abc import Mapping

from iosweep.tools import Step, Tool
from iosweep.tools.fio import command, nodes, output, series
from iosweep.tools.fio.command import OPTIONS, PHASES


class Fio(Tool):
    """fio 3.x, one process group per node, `threads_per_node` workers."""

    name = "fio"
    help = "throughput, IOPS, latency; metadata rates (fio's own, not comparable with mdtest)"
    program = "fio"
    get_it = "apt-get install fio, dnf install fio, or spack install fio"
    version_argv = ("fio", "--version")
    too_old = (r"fio-([12]\.|3\.(\d|1[0-7])(\D|$))", "{} is too old; 3.18 or newer is needed")
    latency = True
    own_metadata = "fio metadata (filecreate, filestat, filedelete); not comparable with mdtest"
    outputs: Mapping[str, str] = {series.STREAM: series.FILES}
    signs = (rb'"fio version"\s*:', rb": \(groupid=\d+, jobs=\d+\): err=")
    options = OPTIONS
    phases = PHASES

    # of one node: each has its own directory, files and seed
    check = staticmethod(command.check)
    file_set = staticmethod(command.file_set)
    argv = staticmethod(command.argv)
    bound = staticmethod(command.bound)
    parse = staticmethod(nodes.parse)
    read = staticmethod(output.read)

    def leftover(self, step: Step) -> int | None:
        """Of all nodes together; each has a directory of its own."""
        if step.phase.kind == "data":
            return None
        return 0 if step.name == "delete" else self.work(step)

    def inodes(self, step: Step) -> int:
        """On all nodes together."""
        creates = step.name == "create" or (step.phase.writes and step.options.get("write_mode") == "new")
        return step.tasks * step.number("files_per_thread") if creates else 0

    def work(self, step: Step) -> int:
        """Of all nodes together, which work at the same time."""
        return step.tasks * step.number("files_per_thread") if step.phase.kind == "metadata" else 0


TOOL = Fio()
