"""Faults of distributed file systems: what a campaign says, after how long, and whether the next job completes it.

    python benchmarks/dfs_faults.py [--kind moosefs] [--fault client-killed] [--phase write] [--times 3]

Each fault is done in the middle of a repetition of fio on two nodes of a Slurm cluster in namespaces of this machine
(root; Debian's packages of Slurm, MooseFS and GlusterFS). Prints a line for each, and at the end a table in Markdown.
"""

import argparse
import json
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from measure import ROOT

sys.path.append(str(ROOT / "tests/support"))
import faults_of_dfs
from dfs import KINDS, Dfs
from faults_of_dfs import FAULTS, PHASES, Outcome
from slurm import Cluster


def rounds(kind: str, chosen: list[tuple[str, str]], times: int, options: argparse.Namespace) -> Iterator[Outcome]:
    """Each fault and phase so many times, on one file system as long as it can be repaired."""
    todo = [pair for _ in range(times) for pair in chosen if not FAULTS[pair[0]].kinds or kind in FAULTS[pair[0]].kinds]
    while todo:
        with (
            tempfile.TemporaryDirectory(prefix="iosweep-faults-") as where,
            Cluster() as cluster,
            Dfs(cluster, kind, disk="256M", trash=0, clients=("head", "n1", "n2")) as dfs,
        ):
            while todo:
                fault, phase = todo.pop(0)
                place = Path(tempfile.mkdtemp(dir=where))
                try:
                    yield faults_of_dfs.hit(dfs, fault, phase, place, options.grace, options.deadline)
                except Exception as error:  # the others are still to be seen
                    traceback.print_exc()
                    yield Outcome(kind, fault, phase, wrong=(f"{type(error).__name__}: {error}"[:500],))
                    break


def table(found: list[Outcome]) -> str:
    lines = [
        "| fault | phase | file system | runs | s to the sentence | exit code | what is said | D | next job |",
        "|" + "---|" * 9,
    ]
    found = [o for o in found if not o.late]
    for key in dict.fromkeys((o.fault, o.phase, o.kind) for o in found):
        runs = [o for o in found if (o.fault, o.phase, o.kind) == key]
        seconds = [round(o.seconds) for o in runs]
        ends = ", ".join(sorted({str(o.ends) for o in runs}))
        again = ", ".join(sorted({str(o.again) for o in runs}))
        hanging = f"{min(o.hanging for o in runs)} to {max(o.hanging for o in runs)}"
        wrong = "".join(f" **{text}**" for text in dict.fromkeys(w for o in runs for w in o.wrong))
        words = [*key, str(len(runs)), f"{min(seconds)} to {max(seconds)}", ends, runs[0].said, hanging, again + wrong]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--fault", choices=list(FAULTS), action="append")
    parser.add_argument("--phase", choices=list(PHASES), action="append")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--grace", default="5s", help="limits.grace")
    parser.add_argument("--deadline", default="5s", help="target.deadline")
    options = parser.parse_args()
    chosen = [(fault, phase) for fault in options.fault or FAULTS for phase in options.phase or PHASES]
    found: list[Outcome] = []
    for kind in options.kind or KINDS:
        for outcome in rounds(kind, chosen, options.times, options):
            print(json.dumps(asdict(outcome)), flush=True)
            found.append(outcome)
    print(table(found))
    return int(any(o.wrong for o in found))


if __name__ == "__main__":
    sys.exit(main())
