"""fio: throughput, IOPS and latency over files, and metadata rates by fio's own file engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iosweep.node.cpus import CpuSet
from iosweep.tools import ClientServer, FileSet, Parsed, Phase, Step, Streams, Tool, Value
from iosweep.tools.fio import command as _command
from iosweep.tools.fio import nodes, output, series
from iosweep.tools.fio.command import OPTIONS, PHASES
from iosweep.tools.reading import Reading, Signs


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
    client_server: ClientServer | None = nodes
    signs = Signs(lines=(rb'"fio version"\s*:', rb": \(groupid=\d+, jobs=\d+\): err="))
    options = OPTIONS
    phases = PHASES

    def check(self, options: Mapping[str, Value], phases: Sequence[str], time_s: float | None) -> str | None:
        return _command.check(options, phases)

    def file_set(self, step: Step, fresh: str) -> FileSet:
        """Those of one node; each has its own."""
        return _command.file_set(step, fresh)

    def argv(self, step: Step, directory: str, seed: int) -> list[str]:
        """The command of one node, with that node's directory and seed."""
        return _command.command(step, directory, seed)

    def bound(self, workers: Sequence[CpuSet]) -> list[str]:
        return _command.bound(workers)

    def parse(self, streams: Streams, step: Step, phase: Phase) -> Parsed:
        return nodes.parse(streams, step, phase)

    def read(self, data: bytes) -> Reading:
        return output.read(data)

    def leftover(self, step: Step) -> int | None:
        """Of all nodes together: each has a directory of its own, whose files add up to it."""
        if step.phase.kind == "data":
            return None
        return 0 if step.name == "delete" else self.work(step)

    def inodes(self, step: Step) -> int:
        """On all nodes together."""
        creates = step.name == "create" or (step.phase.writes and step.options.get("write_mode") == "new")
        return step.tasks * step.number("files_per_thread") if creates else 0

    def open_files(self, step: Step) -> int:
        return step.number("files_per_thread") if step.phase.kind == "data" else 1

    def work(self, step: Step) -> int:
        """Of all nodes together, which share it evenly and work at the same time."""
        return step.tasks * step.number("files_per_thread") if step.phase.kind == "metadata" else 0


TOOL = Fio()
