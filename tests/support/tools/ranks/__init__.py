"""A made-up tool with MPI that measures its phases in one run, as mdtest does: each rank makes files in a directory of
its own, and the first one says in a file where it was started how many they are."""

from __future__ import annotations

from collections.abc import Mapping

from iosweep.tools import Evidence, FileSet, Option, Parsed, Phase, Step, Streams, Tool
from iosweep.tools.reading import Reading, ReadingProblem

#: $1: the directory on the target; $2: how many files.
_SCRIPT = """
rank=${PMI_RANK:-0}
mkdir "$1/$rank" && i=0
while [ $i -lt "$2" ]; do : > "$1/$rank/$i"; i=$((i + 1)); done
[ "$rank" != 0 ] || echo "${PMI_SIZE:-1}" > summary.txt
echo "rank $rank"
"""


class Ranks(Tool):
    """A shell, `threads_per_node` times."""

    name = "ranks"
    help = "nothing"
    program = "sh"
    get_it = "any system"
    version_argv = ("sh", "-c", "echo ranks-1")
    mpi = True
    together = True
    outputs: Mapping[str, str] = {"summary": "summary.txt"}
    options: Mapping[str, Option] = {
        o.name: o
        for o in (
            Option("threads_per_node", "count", 1, "Ranks."),
            Option("files_per_thread", "count", 1, "Files of each."),
        )
    }
    phases: Mapping[str, Phase] = {
        name: Phase(name, "metadata", name == "stat", name == "create", "ops_per_s", "nothing")
        for name in ("create", "stat")
    }

    def version(self, printed: str) -> str:
        return printed.strip()

    def file_set(self, step: Step, fresh: str) -> FileSet:
        return FileSet(fresh, "fresh", of_all_nodes=True)

    def argv(self, step: Step, directory: str, seed: int) -> list[str]:
        return ["sh", "-c", _SCRIPT, "ranks", directory, str(step.number("files_per_thread"))]

    def parse(self, streams: Streams, step: Step, phase: Phase) -> Parsed:
        if "summary" not in streams:
            return Parsed(problems=["no summary"])
        ops = step.tasks * step.number("files_per_thread")
        figures = {"ops": ops, "ops_per_s": float(ops), "runtime_s": 1.0}
        return Parsed("ranks-1", figures, Evidence(errors=[], mpi=True, tasks=int(streams["summary"])))

    def read(self, data: bytes) -> Reading:
        return Reading(None, [], [ReadingProblem("invalid", "it writes nothing to be read")])

    def leftover(self, step: Step) -> int | None:
        return step.tasks * step.number("files_per_thread")

    def inodes(self, step: Step) -> int:
        return step.tasks * (step.number("files_per_thread") + 1)

    def work(self, step: Step) -> int:
        return step.tasks * step.number("files_per_thread") * len(step.phases)


TOOL = Ranks()
