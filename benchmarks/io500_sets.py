"""Scores of IO500's published submissions, computed from their outputs as `iosweep ingest` reads them.

    python benchmarks/io500_sets.py CHECKOUT

CHECKOUT is a directory with the submissions (the public repository IO500/submission-data); nothing of it is part of our
project. Each directory `submission-*` is read on its own. Lists those whose score cannot be computed, with the first
phase that lacks a figure, and the runs whose published score is another one.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

from iosweep.ingest import outputs
from iosweep.store.ingested import Io500Run
from iosweep.tools.reading import Reading

#: Scores that differ by less are the same.
SAME = 1e-3


def runs(directory: Path) -> list[Io500Run]:
    """The runs in a submission."""
    summaries: list[tuple[str, outputs.Summary]] = []
    found: list[tuple[str, Reading]] = []
    for one in outputs.files(directory):
        if isinstance(read := one.readings(), dict):
            found += [(one.name, reading) for reading in read.values()]
        if summary := outputs.summary(one.data):
            summaries.append((one.name, summary))
    return outputs.runs(summaries, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    checkout: Path = parser.parse_args().checkout
    began = time.process_time()
    directories = sorted(path for path in checkout.rglob("submission-*") if path.is_dir())
    scored, others = 0, 0
    for directory in directories:
        found = runs(directory)
        name = directory.relative_to(checkout)
        if any(run.score for run in found):
            scored += 1
        else:
            lacking = next(
                (f"{one.phase}: {one.difference}" for run in found for one in run.figures if one.difference), ""
            )
            print(f"no score: {name}: {lacking or 'no outputs'}")
        unlike = [
            (run.published.total, run.score.total)
            for run in found
            if run.score and run.published and abs(run.score.total - run.published.total) > SAME * run.published.total
        ]
        others += bool(unlike)
        for published, own in unlike:
            print(f"another score: {name}: published {published:g}, from its outputs {own:g}")
    print(
        f"{len(directories)} submissions, {scored} with a score from their outputs; {others} of these publish another"
    )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.process_time() - began:.1f} s CPU, {most:.0f} MB")


if __name__ == "__main__":
    main()
